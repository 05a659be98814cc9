/*
 * A worker or evaluator: pushes and pulls, each with all servers at once.
 */
#include <math.h>
#include <string.h>

#include "clock.h"
#include "error.h"
#include "options.h"
#include "server/server.h"

static tutti_status check(const struct tutti_server *ps, enum server_ask ask)
{
    static const char *const calls[] = { [SERVER_ASKS_PUSH] = "push",
        [SERVER_ASKS_PULL] = "pull",
        [SERVER_ASKS_FINISH] = "finish" };
    const char *why = NULL;

    if (ps == NULL) {
        return error_set(
                TUTTI_ERR_INVALID, "tutti_server_%s(): no server is given", calls[ask]);
    }
    if (ps->role == TUTTI_ROLE_SERVER) {
        why = "this rank is a parameter server, which calls tutti_server_serve()";
    } else if (ps->failed) {
        why = "an earlier call has failed";
    } else if (ps->finished) {
        why = "this rank is finished: tutti_server_finish() was the last call";
    } else if (ask == SERVER_ASKS_PUSH && ps->role == TUTTI_ROLE_EVALUATOR) {
        why = "this rank is an evaluator, which only pulls";
    } else if (ask == SERVER_ASKS_PUSH && !ps->pulled) {
        why = "no parameters yet: call tutti_server_pull() before the first push";
    }
    return why == NULL
            ? TUTTI_OK
            : error_set(TUTTI_ERR_INVALID, "tutti_server_%s() at rank %d: %s",
                      calls[ask], tutti_rank(ps->t), why);
}

/* Asks one server; with a push its gradients go along, else its answer is awaited. */
static tutti_status ask_server(struct server_pair *pair, enum server_ask ask)
{
    tutti_status status;

    pair->head[HEAD_ASK] = ask;
    pair->head[HEAD_RATE] = pair->ps->rate;
    status = server_message(pair, SERVER_HEAD, NULL, &pair->requests[0]);
    if (status != TUTTI_OK) {
        return status;
    }
    if (ask == SERVER_ASKS_PUSH) {
        server_copy(pair, SERVER_GRADIENTS_OUT);
    }
    return server_message(pair, ask == SERVER_ASKS_PUSH ? SERVER_PUSH : SERVER_ANSWER,
            NULL, &pair->requests[1]);
}

/* Asks all servers. After an error some may know more than others, so the job ends. */
static tutti_status ask_all(struct tutti_server *ps, enum server_ask ask)
{
    const int64_t begin = clock_ns(CLOCK_MONOTONIC);
    tutti_status status = check(ps, ask);

    if (status != TUTTI_OK) {
        return status;
    }
    for (int i = 0; status == TUTTI_OK && i < ps->pair_count; i++) {
        status = ask_server(&ps->pairs[i], ask);
    }
    status = server_wait(ps, status);
    ps->report.wait_ns += clock_ns(CLOCK_MONOTONIC) - begin;
    return status;
}

/* Notes how old the parameters are, which the servers must have kept within the bound. */
static tutti_status note_staleness(struct tutti_server *ps)
{
    tutti_server_report *report = &ps->report;
    const int64_t bound = server_bound(ps);
    const int64_t staleness = report->clock - report->slowest;

    if (staleness > bound) {
        return server_give_up(ps,
                error_set(TUTTI_ERR_PROTOCOL,
                        "rank %d pulled at clock %lld what a worker at clock %lld has "
                        "not updated yet: staleness %lld is more than %lld",
                        tutti_rank(ps->t), (long long)report->clock,
                        (long long)report->slowest, (long long)staleness,
                        (long long)bound));
    }
    report->staleness = staleness > report->staleness ? staleness : report->staleness;
    report->histogram[staleness > TUTTI_SERVER_STALENESS_LAST
                    ? TUTTI_SERVER_STALENESS_LAST
                    : staleness]++;
    return TUTTI_OK;
}

/* Asks for parameters and takes the answers. */
static tutti_status receive(struct tutti_server *ps, enum server_ask ask)
{
    tutti_status status = ask_all(ps, ask);

    if (status != TUTTI_OK) {
        return status;
    }
    ps->report.slowest = INT64_MAX;
    ps->report.over = true;
    for (int i = 0; i < ps->pair_count; i++) {
        const double *header = ps->pairs[i].header;
        const int64_t slowest = (int64_t)header[ANSWER_SLOWEST];

        ps->report.slowest =
                slowest < ps->report.slowest ? slowest : ps->report.slowest;
        ps->report.over = ps->report.over && header[ANSWER_OVER] != 0.0;
    }
    if (ask == SERVER_ASKS_PULL && ps->role != TUTTI_ROLE_EVALUATOR) {
        status = note_staleness(ps);
    }
    for (int i = 0; status == TUTTI_OK && i < ps->pair_count; i++) {
        server_copy(&ps->pairs[i], SERVER_VALUES_IN);
    }
    ps->report.pulls += status == TUTTI_OK ? 1 : 0;
    return status;
}

tutti_status tutti_server_push(tutti_server *ps)
{
    tutti_status status = ask_all(ps, SERVER_ASKS_PUSH);

    if (status == TUTTI_OK) {
        ps->report.clock++;
        ps->report.pushes++;
    }
    return status;
}

tutti_status tutti_server_pull(tutti_server *ps)
{
    tutti_status status = receive(ps, SERVER_ASKS_PULL);

    if (status == TUTTI_OK) {
        ps->pulled = true;
    }
    return status;
}

tutti_status tutti_server_step(tutti_server *ps)
{
    tutti_status status = tutti_server_push(ps);

    return status == TUTTI_OK ? tutti_server_pull(ps) : status;
}

tutti_status tutti_server_finish(tutti_server *ps)
{
    tutti_status status = receive(ps, SERVER_ASKS_FINISH);

    if (status == TUTTI_OK) {
        ps->finished = true;
    }
    return status;
}

tutti_status tutti_server_set_rate(tutti_server *ps, double rate)
{
    if (ps == NULL || !isfinite(rate)) {
        return error_set(TUTTI_ERR_INVALID,
                "tutti_server_set_rate(): the learning rate is %g, or no server is "
                "given",
                rate);
    }
    ps->rate = rate;
    return TUTTI_OK;
}

tutti_status tutti_server_report_get(
        const tutti_server *ps, tutti_server_report *report)
{
    tutti_server_report now;

    if (ps == NULL || report == NULL || report->size == 0) {
        return error_set(TUTTI_ERR_INVALID,
                "tutti_server_report_get(): no server, no report, or its size is 0");
    }
    now = ps->report;
    now.size = report->size;
    options_give(report, now.size, &now, sizeof now);
    return TUTTI_OK;
}

tutti_role tutti_server_role(const tutti_server *ps)
{
    return ps == NULL ? TUTTI_ROLE_BY_RANK : ps->role;
}
