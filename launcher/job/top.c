/*
 * --top: how the ranks are doing.
 *
 * The table is at the end of the screen, and what ranks print scrolls in the rest: so nothing is
 * hidden or held back. It is written as they are, through the console, which never waits.
 */
#include "launcher/job/top.h"

#include <stdarg.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "launcher/job/flow.h"

enum {
    INTERVAL_MS = 1000, /* on a terminal                        */
    HEAD_ROWS = 2,
    HEIGHT_MIN = 8, /* of a terminal for a table                */
    HOST_WIDTH = 20, /* of the column, where the terminal is wide enough */
    TABLE_WIDTH = 57, /* of the other columns                    */
    TEXT_BYTES = 256
};

struct top_rates top_rates(const struct rank *rank)
{
    const struct link_metrics *old = &rank->metrics[0];
    const struct link_metrics *new = &rank->metrics[1];
    const double ns = (double)(new->time - old->time);

    if (old->time == 0 || new->time <= old->time || rank->state != RANK_RUNNING) {
        return (struct top_rates){ .steps = 0 };
    }
    return (struct top_rates){ .steps = (double)(new->steps - old->steps) * 1e9 / ns,
        .gb = (double)(new->bytes - old->bytes) / ns,
        .waits = (double)(new->wait_ns - old->wait_ns) / ns,
        .leads = (double)(new->lead_ns - old->lead_ns) / ns };
}

void top_take(struct job *job, int rank, const struct link_metrics *metrics)
{
    struct link_metrics *kept = job->ranks.items[rank].metrics;

    kept[0] = kept[1];
    kept[1] = *metrics;
}

static void note_links(struct job *job)
{
    for (int r = 0; r < job->ranks.count; r++) {
        job->ranks.items[r].silence = -1;
    }
    for (size_t i = 0; i < job->server.count; i++) {
        const struct server_link *link = job->server.links[i];
        struct rank *rank;
        double silence;

        if (link->rank < 0 || link->has_exited) {
            continue;
        }
        rank = &job->ranks.items[link->rank];
        silence = (double)(job->now - link->heard) * 1e-9;
        if (rank->silence < 0 || silence < rank->silence) {
            rank->silence = silence;
            rank->is_stopped = link->stopped != 0;
        }
    }
}

struct top_summary top_summarize(struct job *job)
{
    struct top_summary all = { .silent = -1, .last = -1 };
    double least = 0;
    double sum = 0;

    note_links(job);
    for (int r = 0; r < job->ranks.count; r++) {
        const struct rank *rank = &job->ranks.items[r];
        const struct top_rates rates = top_rates(rank);

        if (rank->state != RANK_RUNNING) {
            continue;
        }
        all.steps =
                all.running == 0 || rates.steps < all.steps ? rates.steps : all.steps;
        all.gb += rates.gb;
        if (rank->silence > all.silence) {
            all.silence = rank->silence;
            all.silent = r;
        }
        if (all.running == 0 || rates.leads < least) {
            least = rates.leads;
            all.last = r;
        }
        sum += rates.leads;
        all.running++;
    }
    /* The others wait for a tenth of the time at least, and it for a quarter of that. */
    if (all.running < 2 || sum - least < 0.1 * (all.running - 1) ||
            least * 4 * (all.running - 1) > sum - least) {
        all.last = -1;
    }
    return all;
}

static void summary_text(struct job *job, char text[TEXT_BYTES])
{
    const struct top_summary all = top_summarize(job);
    char last[64] = "";
    char silent[64] = "";

    if (all.last >= 0) {
        (void)snprintf(last, sizeof last, "; rank %d comes last", all.last);
    }
    if (all.silent >= 0) {
        (void)snprintf(silent, sizeof silent,
                "; heartbeat %.1f s ago at most (rank %d)", all.silence, all.silent);
    }
    (void)snprintf(text, TEXT_BYTES,
            "%d of %d ranks run, %.1f steps/s, %.3f GB/s of all%s%s", all.running,
            job->ranks.count, all.steps, all.gb, silent, last);
}

/* -------------------------------------------------------------------- table */

/* A line of the terminal, from its first column. Hosts choose their names. */
static void put_row(struct job *job, int row, const char *format, ...)
        __attribute__((format(printf, 3, 4)));

static void put_row(struct job *job, int row, const char *format, ...)
{
    char text[TEXT_BYTES];
    char line[TEXT_BYTES + 32];
    va_list list;

    va_start(list, format);
    (void)vsnprintf(text, sizeof text, format, list);
    va_end(list);
    for (char *at = text; *at != '\0'; at++) {
        if (*at < ' ' || *at > '~') {
            *at = '?';
        }
    }
    (void)snprintf(
            line, sizeof line, "\x1b[%d;1H\x1b[2K%.*s", row, job->top.width, text);
    console_draw(&job->console, line);
}

static int host_width(const struct job *job)
{
    const int room = job->top.width - TABLE_WIDTH;

    return room > HOST_WIDTH ? HOST_WIDTH : room < 1 ? 1 : room;
}

static void put_rank(struct job *job, int row, int index)
{
    const struct rank *rank = &job->ranks.items[index];
    const struct top_rates rates = top_rates(rank);
    const int width = host_width(job);

    put_row(job, row, "%5d %-*.*s %9.1f %9.3f %7.0f %% %7.0f %% %8.1f s", index, width,
            width, ranks_host(&job->ranks, index), rates.steps, rates.gb,
            rates.waits * 100, rates.leads * 100, rank->silence);
}

/* Makes room at the end of the screen; what is printed stays above. */
static void make_room(struct job *job, int height)
{
    const int most = height / 2;
    struct top *top = &job->top;
    char text[TEXT_BYTES];

    top_end(job);
    top->height = height;
    top->rows =
            job->ranks.count + HEAD_ROWS < most ? job->ranks.count + HEAD_ROWS : most;
    for (int i = 0; i < top->rows; i++) {
        console_draw(&job->console, "\n");
    }
    (void)snprintf(text, sizeof text, "\x1b[1;%dr\x1b[%d;1H", height - top->rows,
            height - top->rows);
    console_draw(&job->console, text);
}

static void draw(struct job *job, const struct winsize *window)
{
    const struct top *top = &job->top;
    const int height = window->ws_row;
    char text[TEXT_BYTES];
    int row;

    job->top.width = window->ws_col == 0 ? TEXT_BYTES : window->ws_col;
    if (height != top->height) {
        make_room(job, height);
    }
    row = height - top->rows + 1;
    console_draw(&job->console,
            "\x1b"
            "7"); /* keeps the place of what is printed */
    summary_text(job, text);
    put_row(job, row++, "%s", text);
    put_row(job, row++, "%5s %-*.*s %9s %9s %9s %10s %9s", "rank", host_width(job),
            host_width(job), "host", "steps/s", "GB/s", "in waits", "for others",
            "heartbeat");
    for (int r = 0; r < job->ranks.count && row <= height; r++) {
        put_rank(job, row++, r);
    }
    console_draw(&job->console,
            "\x1b"
            "8");
}

void top_step(struct job *job)
{
    struct winsize window = { .ws_row = 0 };
    const bool has_screen = isatty(STDERR_FILENO) == 1 &&
            ioctl(STDERR_FILENO, TIOCGWINSZ, &window) == 0 &&
            window.ws_row >= HEIGHT_MIN;
    char text[TEXT_BYTES];

    if (!job->options->top || job->now < job->top.next || job->state != JOB_RUNNING) {
        return;
    }
    if (has_screen) {
        draw(job, &window);
    } else if (job->top.next != 0) { /* there is nothing yet at first */
        summary_text(job, text);
        console_print(&job->console, "tuttirun", "%s", text);
    }
    job->top.next = job->now +
            (has_screen ? INTERVAL_MS : job->options->metrics_interval_ms) *
                    JOB_NS_PER_MS;
}

void top_end(struct job *job)
{
    char text[TEXT_BYTES];

    if (job->top.rows > 0) {
        (void)snprintf(text, sizeof text, "\x1b[r\x1b[%d;1H\x1b[J",
                job->top.height - job->top.rows + 1);
        console_draw(&job->console, text);
        job->top.rows = 0;
        job->top.height = 0;
    }
}
