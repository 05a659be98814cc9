#include "launcher/job/report.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "launcher/exit_status.h"
#include "launcher/job/root_cause.h"

void exit_text_signal(int number, char *text, size_t capacity)
{
    const char *name = sigabbrev_np(number);

    if (name == NULL) {
        (void)snprintf(text, capacity, "signal %d", number);
    } else {
        (void)snprintf(text, capacity, "signal %d (SIG%s)", number, name);
    }
}

static void exit_text_killed(const struct rank *rank, char text[EXIT_TEXT_MAX])
{
    char signal_words[64];

    exit_text_signal(rank->value, signal_words, sizeof signal_words);
    if (rank->is_oom) {
        (void)snprintf(text, EXIT_TEXT_MAX,
                "was killed by the kernel for want of memory%s%s%s",
                rank->detail == NULL ? "" : " (",
                rank->detail == NULL ? "" : rank->detail,
                rank->detail == NULL ? "" : ")");
    } else {
        (void)snprintf(text, EXIT_TEXT_MAX, "was %s by %s%s",
                rank->was_stopped ? "ended" : "killed", signal_words,
                rank->dumped_core ? " and left a core file" : "");
    }
}

static void exit_text_not_run(const struct rank *rank, const char *what, char *text)
{
    (void)snprintf(text, EXIT_TEXT_MAX, "%s: %s", what,
            rank->detail != NULL ? rank->detail : strerrordesc_np(rank->value));
}

/* What an exit came before, though others needed this rank. */
static const char *too_early(const struct rank *rank)
{
    if (rank->is_awaited) {
        return " before it had started tutti or MPI, while others waited for it there";
    }
    return root_cause_has_left(rank)
            ? " before the library was finalized, while others ran"
            : "";
}

void exit_text_end(const struct rank *rank, char text[EXIT_TEXT_MAX])
{
    text[0] = '\0';
    switch (rank->end) {
    case RANK_END_NONE:
        break;
    case RANK_END_EXIT:
        (void)snprintf(text, EXIT_TEXT_MAX, "exited with status %d%s", rank->value,
                too_early(rank));
        break;
    case RANK_END_SIGNAL:
        exit_text_killed(rank, text);
        break;
    case RANK_END_EXEC:
        exit_text_not_run(rank, "could not be run", text);
        break;
    case RANK_END_SETUP:
        exit_text_not_run(rank, "could not be started", text);
        break;
    case RANK_END_LOST:
        (void)snprintf(text, EXIT_TEXT_MAX, "was lost");
        break;
    case RANK_END_SILENT:
        (void)snprintf(text, EXIT_TEXT_MAX, "fell silent");
        break;
    case RANK_END_STUCK:
        (void)snprintf(text, EXIT_TEXT_MAX, "was stopped and did not go on");
        break;
    }
}

void exit_text_duration(int64_t ns, char *text, size_t capacity)
{
    int64_t ms = ns / 1000000;

    if (ms < 100) {
        (void)snprintf(text, capacity, "%" PRId64 " ms", ms < 0 ? 0 : ms);
    } else if (ms < 120000) {
        (void)snprintf(text, capacity, "%" PRId64 ".%" PRId64 " s", ms / 1000,
                ms % 1000 / 100);
    } else {
        (void)snprintf(text, capacity, "%" PRId64 " min %" PRId64 " s", ms / 60000,
                ms % 60000 / 1000);
    }
}

int exit_text_status(const struct rank *rank)
{
    switch (rank->end) {
    case RANK_END_EXIT:
        return rank->value == 0 ? 1 : rank->value;
    case RANK_END_SIGNAL:
        return 128 + rank->value;
    case RANK_END_EXEC:
        return rank->value == ENOENT ? EXIT_NOT_FOUND : EXIT_CANNOT_RUN;
    case RANK_END_NONE:
    case RANK_END_SETUP:
    case RANK_END_LOST:
    case RANK_END_SILENT:
    case RANK_END_STUCK:
        break;
    }
    return EXIT_LAUNCHER;
}

enum {
    LINE_MAX_BYTES = LINK_TEXT_MAX + 64
};

/* What the detail says is not in the words of the end. */
static bool is_lost(const struct rank *rank)
{
    return rank->end == RANK_END_LOST || rank->end == RANK_END_SILENT ||
            rank->end == RANK_END_STUCK;
}

static void put_name(
        const struct report_facts *facts, int rank, char text[CAUSE_TEXT_MAX])
{
    (void)snprintf(text, CAUSE_TEXT_MAX, "rank %d", rank);
    if (facts->has_hosts) {
        text_append(
                text, CAUSE_TEXT_MAX, " on host %s", ranks_host(facts->ranks, rank));
    }
}

void report_rank(const struct report_facts *facts, int index, char text[CAUSE_TEXT_MAX])
{
    const struct rank *rank = &facts->ranks->items[index];
    char words[EXIT_TEXT_MAX];
    char time[64];

    put_name(facts, index, text);
    exit_text_end(rank, words);
    exit_text_duration(rank->when - facts->start, time, sizeof time);
    text_append(text, CAUSE_TEXT_MAX, " %s", words);
    if (rank->pid > 0) {
        text_append(text, CAUSE_TEXT_MAX, ", pid %" PRIu64, rank->pid);
    }
    text_append(text, CAUSE_TEXT_MAX, ", %s after the start", time);
    if (is_lost(rank) && rank->detail != NULL) {
        text_append(text, CAUSE_TEXT_MAX, ": %s", rank->detail);
    }
}

void report_absentee(
        const struct report_facts *facts, int index, char text[CAUSE_TEXT_MAX])
{
    const struct rank *rank = &facts->ranks->items[index];
    const int64_t given_up = facts->cause->when;
    char words[EXIT_TEXT_MAX];
    char time[64];
    char later[64];

    put_name(facts, index, text);
    exit_text_end(rank, words);
    exit_text_duration(given_up - facts->start, time, sizeof time);
    exit_text_duration(rank->when - given_up, later, sizeof later);
    text_append(text, CAUSE_TEXT_MAX,
            " was still running outside tutti when rank %d had given up waiting for "
            "it, pid %" PRIu64 ", %s after the start; it %s %s later",
            facts->cause->rank, rank->pid, time, words, later);
}

static void put_tail(const char *tail, report_line line, void *context)
{
    char text[LINE_MAX_BYTES];

    line(context, "  its last words:");
    while (*tail != '\0') {
        size_t len = strcspn(tail, "\n");

        (void)snprintf(text, sizeof text, "  | %.*s",
                (int)(len < LINK_TEXT_MAX ? len : LINK_TEXT_MAX), tail);
        line(context, text);
        tail += len;
        tail += *tail == '\n';
    }
}

void report_cause(const struct report_facts *facts, report_line line, void *context)
{
    const struct rank *rank;
    char text[LINE_MAX_BYTES];

    line(context, facts->cause->text);
    if (facts->cause->rank < 0) {
        return;
    }
    rank = &facts->ranks->items[facts->cause->rank];
    if (rank->tail != NULL) {
        put_tail(rank->tail, line, context);
    }
    if (rank->log != NULL) {
        (void)snprintf(text, sizeof text, "  its log: %s/stderr", rank->log);
        line(context, text);
    }
}

/* True when ranks gave up working together, so that it matters who was not there. */
static bool is_about_coming(const struct report_facts *facts)
{
    const int rank = facts->cause->rank;

    return rank >= 0 &&
            (facts->ranks->items[rank].failure != CONTEXT_FAILURE_NONE ||
                    root_cause_is_outside(&facts->ranks->items[rank]));
}

/* Ranks that a report has a line for, the cause aside. */
static bool has_line(const struct report_facts *facts, const struct rank *rank)
{
    if (rank->was_stopped) {
        return root_cause_is_outside(rank) && is_about_coming(facts);
    }
    return rank->state == RANK_ENDED &&
            (rank->end != RANK_END_EXIT || rank->value != 0);
}

static void put_other(const struct report_facts *facts, int index, char *text)
{
    const struct rank *rank = &facts->ranks->items[index];
    int64_t since = rank->when - facts->cause->when;
    char words[EXIT_TEXT_MAX];
    char time[64];

    put_name(facts, index, text);
    if (root_cause_is_outside(rank)) {
        text_append(text, CAUSE_TEXT_MAX, " was still running outside tutti, and");
    }
    exit_text_end(rank, words);
    exit_text_duration(since < 0 ? -since : since, time, sizeof time);
    text_append(text, CAUSE_TEXT_MAX, " %s, %s %s", words, time,
            since < 0 ? "before" : "later");
}

static void put_others(
        const struct report_facts *facts, report_line line, void *context)
{
    char text[CAUSE_TEXT_MAX];
    int told = 0;

    for (int i = 0; i < facts->ranks->count; i++) {
        if (i == facts->cause->rank || !has_line(facts, &facts->ranks->items[i])) {
            continue;
        }
        told++;
        if (told <= REPORT_OTHERS) {
            put_other(facts, i, text);
            line(context, text);
        }
    }
    if (told > REPORT_OTHERS) {
        (void)snprintf(text, sizeof text, "... and %d more", told - REPORT_OTHERS);
        line(context, text);
    }
}

void report_text(const struct report_facts *facts, report_line line, void *context)
{
    put_others(facts, line, context);
    report_cause(facts, line, context);
}

static void put_line(void *context, const char *line)
{
    (void)fprintf(context, "%s\n", line);
}

tutti_status report_failure(const struct report_facts *facts, const char *path)
{
    FILE *file = fopen(path, "we");
    bool failed;

    if (file == NULL) {
        return error_set_errno(TUTTI_ERR_SYSTEM, "write the failure to %s", path);
    }
    report_cause(facts, put_line, file);
    failed = ferror(file) != 0;
    failed = fclose(file) != 0 || failed;
    return failed ? error_set_errno(TUTTI_ERR_SYSTEM, "write the failure to %s", path)
                  : TUTTI_OK;
}
