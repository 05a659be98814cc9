/*
 * Stalls: tensors that some ranks have submitted long ago and others have not.
 *
 * The coordinator knows whom it has not heard of, and reports for everybody. While it waits it
 * says so down the tree at each look at its clock (KIND_WAITING), and who reads that passes on
 * what it holds: so a report names only ranks that have indeed not submitted. About ranks below
 * such a rank, which may sleep, the coordinator knows nothing and is silent.
 *
 * A coordinator that has submitted nothing sleeps. Its children miss its messages then, and
 * report it.
 */
#include "agree/stall.h"

#include <stdarg.h>
#include <stdio.h>

#include "agree/announce.h"
#include "agree/joined.h"
#include "agree/names.h"
#include "agree/numbers.h"
#include "agree/protocol.h"
#include "base/mem.h"
#include "base/text.h"

/* Missing ranks and, for each, tensors that a report names. */
#define RANKS_MAX 16
#define NAMES_MAX 5
/* Parts of the time of a stall: a report comes at most one of them sooner after another. */
#define STALL_PARTS 16

/* ------------------------------------------------------------ the text of a report */

void stall_report_add(struct stall_report *report, const char *format, ...)
{
    const size_t room = sizeof report->text - report->len;
    va_list args;
    int len;

    va_start(args, format);
    /* NOLINTNEXTLINE(clang-analyzer-valist.Uninitialized): va_start() is one line above */
    len = vsnprintf(report->text + report->len, room, format, args);
    va_end(args);
    report->len += size_min(len > 0 ? (size_t)len : 0, room - 1);
}

void stall_report_begin(const struct negotiator *negotiator, int64_t since_ns,
        struct stall_report *report)
{
    char seconds[TEXT_SECONDS];

    report->len = 0;
    report->names = 0;
    stall_report_add(report, "stalled for %s s: ",
            text_seconds((double)(negotiator->now_ns - since_ns) * 1e-9, seconds));
}

void stall_report_name(struct stall_report *report, const struct tensor_state *tensor)
{
    if (report->names < NAMES_MAX) {
        stall_report_add(report, "%s%s \"%s\"", report->names > 0 ? ", " : "",
                meta_collective_name(tensor->collective), tensor->name);
    }
    report->names++;
}

int stall_report_end_names(struct stall_report *report)
{
    const int names = report->names;

    if (names > NAMES_MAX) {
        stall_report_add(report, " and %d more", names - NAMES_MAX);
    }
    report->names = 0;
    return names;
}

/* ------------------------------------------------------------------ what is stalled */

/* How old a round is, in STALL_PARTS of the time of a stall; what counts are differences. */
static uint16_t stall_age(
        const struct negotiator *negotiator, const struct tensor_state *tensor)
{
    const int64_t age_ns = negotiator->now_ns - tensor->round.since_ns;

    return (uint16_t)(age_ns > 0 ? age_ns * STALL_PARTS / negotiator->config.stall_ns
                                 : 0);
}

/* True for what this rank reports now, if it knows of a rank that lacks it. */
static bool is_due(
        const struct negotiator *negotiator, const struct tensor_state *tensor)
{
    if (is_decided(tensor) ||
            (uint16_t)(stall_age(negotiator, tensor) - tensor->round.reported) <
                    STALL_PARTS) {
        return false;
    }
    if (is_coordinator(negotiator)) {
        /* What others held of it was asked for. */
        return tensor->round.since_ns < negotiator->stall.waiting_ns;
    }
    return tensor->round.pending;
}

/* No rank waits for it any more. */
static bool has_left(const struct negotiator *negotiator, int rank)
{
    return member_has_joined(negotiator, rank) || member_leaves(negotiator, rank);
}

/*
 * True when a rank has certainly not submitted: it would have been heard, because all ranks
 * above it are awake. Those that have submitted, joined or finalized are; any other may sleep,
 * and hold what ranks below it announce. Other ranks than the coordinator know of that one
 * only: it is silent.
 */
static bool is_missing_from(const struct negotiator *negotiator,
        const struct tensor_state *tensor, int rank)
{
    int parent;

    if (!is_coordinator(negotiator)) {
        return rank == 0;
    }
    if (coordinator_heard(tensor, rank) || has_left(negotiator, rank)) {
        return false;
    }
    while ((parent = tree_shape_parent(negotiator->tree.shape, rank)) > 0) {
        rank = parent;
        if (!coordinator_heard(tensor, rank) && !has_left(negotiator, rank)) {
            return false;
        }
    }
    return true;
}

/* The next tensor from `tensor` on that is due and missing from a rank. */
static const struct tensor_state *next_missing(const struct negotiator *negotiator,
        const struct tensor_state *tensor, int rank)
{
    while (tensor != NULL &&
            !(is_due(negotiator, tensor) &&
                    is_missing_from(negotiator, tensor, rank))) {
        tensor = tensor->links.next;
    }
    return tensor;
}

static void report_rank(const struct negotiator *negotiator, int rank,
        const struct tensor_state *tensor, struct stall_report *report)
{
    if (report->len == 0) {
        stall_report_begin(negotiator, tensor->round.since_ns, report);
    } else {
        stall_report_add(report, "; ");
    }
    stall_report_add(
            report, "rank %d has not submitted ", world_rank(negotiator, rank));
    while (tensor != NULL) {
        stall_report_name(report, tensor);
        tensor = next_missing(negotiator, tensor->links.next, rank);
    }
    (void)stall_report_end_names(report);
}

static void mark_reported(struct negotiator *negotiator)
{
    for (struct tensor_state *e = negotiator->names.active.first; e != NULL;
            e = e->links.next) {
        if (is_due(negotiator, e)) {
            e->round.reported = stall_age(negotiator, e);
        }
    }
}

static tutti_status report_missing(struct negotiator *negotiator)
{
    const struct tensor_state *first = negotiator->names.active.first;
    struct stall_report report;
    int missing = 0;

    report.len = 0;
    for (int r = 0; r < negotiator->config.size; r++) {
        const struct tensor_state *tensor = next_missing(negotiator, first, r);

        if (tensor != NULL && ++missing <= RANKS_MAX) {
            report_rank(negotiator, r, tensor, &report);
        }
    }
    if (missing == 0) {
        return TUTTI_OK;
    }
    if (missing > RANKS_MAX) {
        stall_report_add(&report, "; and so for %d more ranks", missing - RANKS_MAX);
    }
    mark_reported(negotiator);
    return action_add(negotiator, ACTION_STALL, -1, report.text, report.len);
}

/* ------------------------------------------------------------------- the clock */

tutti_status stalls_fail(struct negotiator *negotiator)
{
    const int64_t limit = negotiator->config.stall_fail_ns;

    for (const struct tensor_state *e = negotiator->names.active.first; e != NULL;
            e = e->links.next) {
        if (limit > 0 && e->round.pending && !is_decided(e) &&
                negotiator->now_ns - e->round.since_ns >= limit) {
            return error_set(TUTTI_ERR_TIMEOUT,
                    "%s \"%s\" was not submitted by all ranks within stall_fail_s = "
                    "%g s",
                    meta_collective_name(e->collective), e->name, (double)limit * 1e-9);
        }
    }
    return TUTTI_OK;
}

static tutti_status say_waiting(struct negotiator *negotiator)
{
    static const uint8_t message[] = { KIND_WAITING };

    return forward_down(negotiator, message, sizeof message);
}

/* While anything is in a round the coordinator says so, four times in the time of a stall. */
static tutti_status report_all(struct negotiator *negotiator)
{
    const int64_t quiet_ns = negotiator->config.stall_ns / 4;
    const struct tensor_state *oldest = negotiator->names.active.first;
    tutti_status status;

    if (oldest == NULL || negotiator->now_ns - oldest->round.since_ns < quiet_ns) {
        return TUTTI_OK;
    }
    status = numbers_single_all(negotiator);
    if (status == TUTTI_OK) {
        status = report_missing(negotiator);
    }
    if (status != TUTTI_OK ||
            negotiator->now_ns - negotiator->stall.waiting_ns < quiet_ns) {
        return status;
    }
    negotiator->stall.waiting_ns = negotiator->now_ns;
    return say_waiting(negotiator);
}

/* A child of the coordinator listens for that before it reports the coordinator. */
static tutti_status report_coordinator(struct negotiator *negotiator)
{
    int64_t *waiting_ns = &negotiator->stall.waiting_ns;

    if (next_missing(negotiator, negotiator->names.active.first, 0) == NULL) {
        *waiting_ns = 0;
    } else if (*waiting_ns == 0) {
        *waiting_ns = negotiator->now_ns;
    } else if (negotiator->now_ns - *waiting_ns >= negotiator->config.stall_ns / 2) {
        return report_missing(negotiator);
    }
    return TUTTI_OK;
}

tutti_status stalls_report(struct negotiator *negotiator)
{
    if (is_coordinator(negotiator)) {
        return report_all(negotiator);
    }
    return negotiator->tree.parent == 0 ? report_coordinator(negotiator) : TUTTI_OK;
}

tutti_status stalls_receive(struct negotiator *negotiator)
{
    const tutti_status status = numbers_single_all(negotiator);

    held_pass_all(negotiator);
    negotiator->stall.waiting_ns = 0;
    return status == TUTTI_OK ? say_waiting(negotiator) : status;
}
