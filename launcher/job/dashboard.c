/*
 * --dashboard: how the ranks are doing, as a page for browsers.
 *
 * However many ask, the state is made a few times a second, and lists a bounded number of ranks:
 * that keeps heartbeats on time in jobs of any size.
 */
#include "launcher/job/dashboard.h"

#include <jansson.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/text.h"
#include "launcher/job/flow.h"
#include "launcher/job/report.h"
#include "launcher/json.h"

enum {
    ROWS_MAX = 1024, /* ranks that are listed                   */
    FRESH_MS = 200, /* for which a state is not made anew      */
    PAGE_MS = 3000, /* a page that has not asked for so long is closed */
    SHOW_END_MS = 2000 /* which a page that asks each second has to hear of the end */
};

/* dashboard.html, by cmake/image.S.in. */
extern const char tutti_dashboard_image[];
extern const char tutti_dashboard_image_end[];

/* ---------------------------------------------------------------------- state */

static json_t *rank_object(const struct rank *rank, int index)
{
    static const char *const states[] = { [RANK_ABSENT] = "not started",
        [RANK_JOINED] = "starting",
        [RANK_RUNNING] = "running",
        [RANK_ENDED] = "ended" };
    const struct top_rates rates = top_rates(rank);
    json_t *object = json_pack("{si so ss}", "rank", index, "host",
            json_text(rank->host), "state",
            rank->is_stopped && rank->state == RANK_RUNNING ? "stopped"
                                                            : states[rank->state]);
    char words[EXIT_TEXT_MAX];

    if (rank->state == RANK_ENDED) {
        exit_text_end(rank, words);
        (void)json_object_set_new(object, "end", json_text(words));
    }
    if (rank->silence >= 0) {
        (void)json_object_set_new(object, "heartbeat_s", json_real(rank->silence));
    }
    if (rank->metrics[1].time != 0) {
        json_t *counts = json_pack("{sI sf sf sf sf}", "step",
                (json_int_t)rank->metrics[1].steps, "steps_per_s", rates.steps,
                "gb_per_s", rates.gb, "in_waits", rates.waits, "for_others",
                rates.leads);

        (void)json_object_update(object, counts);
        json_decref(counts);
    }
    return object;
}

static const char *state_name(const struct job *job)
{
    static const char *const names[JOB_STATE_COUNT] = { [JOB_PLANNED] = "starting",
        [JOB_SPAWNING] = "starting",
        [JOB_RUNNING] = "running",
        [JOB_RESHAPING] = "leaving",
        [JOB_STOPPING] = "stopping",
        [JOB_DONE] = "ended",
        [JOB_FAILED] = "ended" };

    return job->was_released ? "ended" : names[job->state];
}

static json_t *index_or_null(int index)
{
    return index < 0 ? json_null() : json_integer(index);
}

static json_t *state_object(struct job *job)
{
    const struct top_summary all = top_summarize(job);
    const char *cause = job->cause.kind == CAUSE_NONE ? NULL : job->cause.text;
    json_t *rows = json_array();

    for (int i = 0; i < job->ranks.count && i < ROWS_MAX; i++) {
        (void)json_array_append_new(rows, rank_object(&job->ranks.items[i], i));
    }
    return json_pack("{so ss so sf si si sf sf so so sf so}", "program",
            json_text(job->options->program[0]), "state", state_name(job), "cause",
            json_text(cause), "seconds", (double)(job->now - job->start) * 1e-9, "size",
            job->ranks.count, "running", all.running, "steps_per_s", all.steps,
            "gb_per_s", all.gb, "last", index_or_null(all.last), "silent",
            index_or_null(all.silent), "silent_s", all.silence, "ranks", rows);
}

static int put_bytes(const char *bytes, size_t len, void *writer)
{
    wire_put_bytes(writer, bytes, len);
    return 0;
}

static void make_state(struct job *job)
{
    struct dashboard *dashboard = &job->dashboard;
    json_t *object;

    if (dashboard->state.len > 0 &&
            job->now < dashboard->made + FRESH_MS * JOB_NS_PER_MS) {
        return;
    }
    object = state_object(job);
    wire_writer_reset(&dashboard->state);
    dashboard->state.failed |= object == NULL ||
            json_dump_callback(object, put_bytes, &dashboard->state,
                    JSON_COMPACT | JSON_REAL_PRECISION(6)) != 0;
    dashboard->made = job->now;
    dashboard->shows_end = flow_is_over(job);
    json_decref(object);
}

/* ------------------------------------------------------------------------ page */

static bool answer(void *owner, const char *path, struct http_answer *answer)
{
    struct job *job = owner;
    const struct wire_writer *state = &job->dashboard.state;

    if (strcmp(path, "/") == 0) {
        answer->type = "text/html; charset=utf-8";
        answer->policy = "default-src 'none'; script-src 'unsafe-inline'; style-src "
                         "'unsafe-inline'; connect-src 'self'";
        wire_put_bytes(answer->body, tutti_dashboard_image,
                (size_t)(tutti_dashboard_image_end - tutti_dashboard_image));
        return true;
    }
    if (strcmp(path, "/state") == 0) {
        answer->type = "application/json";
        make_state(job);
        job->dashboard.asked = job->now;
        job->dashboard.has_shown_end = job->dashboard.shows_end;
        wire_put_bytes(answer->body, state->data, state->len);
        answer->body->failed |= state->failed;
        return true;
    }
    return false;
}

void dashboard_begin(struct job *job)
{
    struct http_server *http = &job->dashboard.http;
    const char *address = job->options->metrics_address;
    const bool is_six = strchr(address, ':') != NULL;
    const int before = job->hooks == NULL ? 0 : job->hooks->dashboard_port;
    int64_t port;

    if (job->options->dashboard == NULL ||
            !text_to_int64(job->options->dashboard, &port)) {
        return;
    }
    port = before != 0 ? before : port;
    http->answer = answer;
    http->owner = job;
    if (http_open(http, &job->loop, address, (int)port) != TUTTI_OK) {
        console_print(
                &job->console, "tuttirun", "no dashboard: %s", tutti_last_error());
    } else if (before == 0) {
        console_print(&job->console, "tuttirun",
                "the dashboard is at http://%s%s%s:%d/", is_six ? "[" : "", address,
                is_six ? "]" : "", http_port(http));
    }
}

/* What was told has to be sent as well. */
static bool is_sending(const struct http_server *http)
{
    for (size_t i = 0; i < HTTP_CLIENTS; i++) {
        if (http->clients[i].fd >= 0 &&
                http->clients[i].sent < http->clients[i].reply.len) {
            return true;
        }
    }
    return false;
}

/* Calls what is ready of the server alone: the job is over. False: a signal came. */
static bool serve(struct job *job, int64_t until)
{
    const char *http = (const char *)&job->dashboard.http;
    struct loop_watch *ready;

    (void)loop_wait(&job->loop, until);
    while ((ready = loop_next(&job->loop)) != NULL) {
        if (ready->fd == job->signals.fd) {
            return false;
        }
        job->now = clock_ns();
        if ((const char *)ready >= http &&
                (const char *)ready < http + sizeof job->dashboard.http) {
            ready->call(ready->context, ready->ready);
        }
    }
    return true;
}

void dashboard_show_end(struct job *job)
{
    struct dashboard *dashboard = &job->dashboard;
    const struct http_server *http = &dashboard->http;
    const int64_t until = clock_ns() + SHOW_END_MS * JOB_NS_PER_MS;

    wire_writer_reset(&dashboard->state);
    while (http_port(http) != 0 && dashboard->asked != 0 &&
            until - dashboard->asked < (PAGE_MS + SHOW_END_MS) * JOB_NS_PER_MS &&
            (!dashboard->has_shown_end || is_sending(http)) && clock_ns() < until &&
            serve(job, until)) {
    }
}

void dashboard_end(struct job *job)
{
    http_close(&job->dashboard.http);
    wire_writer_fini(&job->dashboard.state);
}
