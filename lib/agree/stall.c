/*
 * Stalls: tensors that some ranks have submitted long ago and others have not.
 *
 * Every rank that waits looks at its clock. A rank that has waited too long asks its
 * parent whether that one has submitted the same (ping). The answer (pong) may be no:
 * then the parent is reported. It may be yes: then the parent waits too, and asks its own.
 * Or there is none: a rank with nothing submitted sleeps and answers nobody, and the ranks
 * just below it report it for that reason.
 *
 * The coordinator, if it waits itself, reports for everybody. Before it does, it asks all
 * ranks to pass on which numbers they hold back (probe), so that it names only ranks that
 * have indeed not submitted. About ranks below such a rank it knows nothing and is silent.
 */
#include <stdarg.h>
#include <stdio.h>

#include "agree/negotiator_parts.h"
#include "base/mem.h"

/* Missing ranks and, for each, tensors that a report names. */
#define RANKS_MAX 16
#define NAMES_MAX 5

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
    report->len = 0;
    report->names = 0;
    stall_report_add(report,
            "stalled for %.3g s: ", (double)(negotiator->now_ns - since_ns) * 1e-9);
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

static bool is_stalled(
        const struct negotiator *negotiator, const struct tensor_state *tensor)
{
    return !is_decided(tensor) &&
            negotiator->now_ns - tensor->since_ns >= negotiator->config.stall_ns;
}

/* In a plan that this rank has not left: no rank announces it. */
static bool is_with_plan(const struct tensor_state *tensor)
{
    return tensor->plan != NULL && tensor->plan->state != PLAN_SLOW;
}

/* Arrivals of each member say who is missing, so this rank need not ask (plan_stall.c). */
static bool is_seen(
        const struct negotiator *negotiator, const struct tensor_state *tensor)
{
    return tensor->planned && sees_members(negotiator);
}

static bool is_due(
        const struct negotiator *negotiator, const struct tensor_state *tensor)
{
    return is_stalled(negotiator, tensor) && !is_seen(negotiator, tensor) &&
            (tensor->reported_ns == 0 ||
                    negotiator->now_ns - tensor->reported_ns >=
                            negotiator->config.stall_ns);
}

/* Inner nodes may hold announcements of it. */
static bool is_holdable(const struct tensor_state *tensor)
{
    return tensor->number != 0 || name_is_holdable(tensor->collective);
}

/*
 * What the coordinator reports: tensors of which it has heard everything that it can hear.
 * Others are passed on at once, and their holders were asked at an earlier tick.
 */
static bool is_known(
        const struct negotiator *negotiator, const struct tensor_state *tensor)
{
    return is_stalled(negotiator, tensor) && !is_with_plan(tensor) &&
            (!is_holdable(tensor) || tensor->split ||
                    has_bug(negotiator, BUG_REPORT_UNASKED));
}

/* No rank waits for it any more. */
static bool has_left(const struct negotiator *negotiator, int rank)
{
    return member_has_joined(negotiator, rank) || member_leaves(negotiator, rank);
}

/*
 * True when a rank has certainly not submitted: it would have been heard, because all ranks
 * above it are awake. Those that have submitted, joined or finalized are; any other may sleep,
 * and hold what ranks below it announce.
 */
static bool is_missing_from(const struct negotiator *negotiator,
        const struct tensor_state *tensor, int rank)
{
    int parent;

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

static void mark_reported(struct negotiator *negotiator)
{
    for (struct tensor_state *e = negotiator->names.active.first; e != NULL;
            e = e->links.next) {
        if (is_coordinator(negotiator) ? is_known(negotiator, e)
                                       : is_stalled(negotiator, e)) {
            e->reported_ns = negotiator->now_ns;
        }
    }
}

static void report_begin(
        const struct negotiator *negotiator, struct stall_report *report)
{
    stall_report_begin(negotiator, negotiator->names.active.first->since_ns, report);
}

static tutti_status report_end(
        struct negotiator *negotiator, const struct stall_report *report)
{
    mark_reported(negotiator);
    return action_add(negotiator, ACTION_STALL, -1, report->text, report->len);
}

/* ------------------------------------------------------------ the coordinator */

static bool is_missing(const struct negotiator *negotiator, int rank)
{
    for (const struct tensor_state *e = negotiator->names.active.first; e != NULL;
            e = e->links.next) {
        if (is_known(negotiator, e) && is_due(negotiator, e) &&
                is_missing_from(negotiator, e, rank)) {
            return true;
        }
    }
    return false;
}

static void report_rank(
        const struct negotiator *negotiator, int rank, struct stall_report *report)
{
    stall_report_add(
            report, "rank %d has not submitted ", world_rank(negotiator, rank));
    for (const struct tensor_state *e = negotiator->names.active.first; e != NULL;
            e = e->links.next) {
        if (is_known(negotiator, e) && is_missing_from(negotiator, e, rank)) {
            stall_report_name(report, e);
        }
    }
    (void)stall_report_end_names(report);
}

static tutti_status report_missing(struct negotiator *negotiator)
{
    struct stall_report report;
    int missing = 0;

    report_begin(negotiator, &report);
    for (int r = 0; r < negotiator->config.size; r++) {
        if (!is_missing(negotiator, r)) {
            continue;
        }
        if (missing < RANKS_MAX) {
            stall_report_add(&report, "%s", missing > 0 ? "; " : "");
            report_rank(negotiator, r, &report);
        }
        missing++;
    }
    if (missing == 0) {
        return TUTTI_OK;
    }
    if (missing > RANKS_MAX) {
        stall_report_add(&report, "; and so for %d more ranks", missing - RANKS_MAX);
    }
    observe(negotiator, TRANSITION_STALL_REPORT);
    return report_end(negotiator, &report);
}

/* Asks all ranks to pass on what they hold of stalled tensors; once in a round. */
static tutti_status probe(struct negotiator *negotiator)
{
    struct wire_writer out = { .data = NULL };

    for (struct tensor_state *e = negotiator->names.active.first; e != NULL;
            e = e->links.next) {
        if (!is_stalled(negotiator, e) || !is_holdable(e) || e->split ||
                is_with_plan(e)) {
            continue;
        }
        if (out.len == 0) {
            wire_put_u8(&out, KIND_PROBE);
        }
        wire_put_varint(&out, e->number);
        if (e->number == 0) {
            const struct name_ref ref = tensor_ref(e);

            name_put(&out, &ref);
        }
        e->split = true;
    }
    if (out.len > 0) {
        observe(negotiator, TRANSITION_STALL_PROBE);
    }
    return message_send(negotiator, -1, &out);
}

/* Passes on what this rank holds of a tensor, and will until its round is over. */
static void split(struct negotiator *negotiator, struct tensor_state *tensor)
{
    if (tensor->number == 0) {
        name_split(negotiator, tensor);
    } else {
        tensor_activate(negotiator, tensor);
        announce_split(negotiator, tensor);
    }
}

/* The tensor of a name, also if this rank has not heard of it; NULL: malformed, no memory. */
static struct tensor_state *tensor_probed(
        struct negotiator *negotiator, struct wire_reader *in)
{
    struct name_ref ref;

    return name_get(in, &ref) && name_is_holdable(ref.collective)
            ? tensor_get(negotiator, &ref)
            : NULL;
}

static tutti_status receive_probe(struct negotiator *negotiator, struct wire_reader *in)
{
    const tutti_status status = forward_down(negotiator, in->data, in->len);

    while (wire_left(in) > 0 && wire_ok(in)) {
        const uint64_t number = wire_get_varint(in);
        struct tensor_state *tensor = number != 0 ? tensor_by_number(negotiator, number)
                                                  : tensor_probed(negotiator, in);

        if (wire_ok(in) && tensor != NULL) {
            observe(negotiator, TRANSITION_SPLIT_BY_STALL);
            split(negotiator, tensor);
        }
    }
    return wire_ok(in) ? status : error_set(TUTTI_ERR_PROTOCOL, "malformed probe");
}

/* ------------------------------------------------------------ everybody else */

static bool is_waited_for(
        const struct negotiator *negotiator, const struct tensor_state *tensor)
{
    return tensor->pending && is_stalled(negotiator, tensor) &&
            !is_seen(negotiator, tensor);
}

/* Tells of everything that this rank waits for; the parent is asleep. */
static tutti_status report_orphaned(struct negotiator *negotiator)
{
    const int parent = negotiator->tree.parent;
    struct stall_report report;

    report_begin(negotiator, &report);
    stall_report_add(&report, "rank %d gives no sign of life and so has not submitted ",
            world_rank(negotiator, parent));
    for (const struct tensor_state *e = negotiator->names.active.first; e != NULL;
            e = e->links.next) {
        if (is_waited_for(negotiator, e)) {
            stall_report_name(&report, e);
        }
    }
    (void)stall_report_end_names(&report);
    observe(negotiator, TRANSITION_STALL_ORPHAN);
    return report_end(negotiator, &report);
}

static tutti_status ping_parent(struct negotiator *negotiator)
{
    const int parent = negotiator->tree.parent;
    struct wire_writer out = { .data = NULL };

    wire_put_u8(&out, KIND_PING);
    for (struct tensor_state *e = negotiator->names.active.first; e != NULL;
            e = e->links.next) {
        if (!is_waited_for(negotiator, e)) {
            continue;
        }
        wire_put_u64(&out, e->hash);
        if (is_holdable(e) && !e->split && !e->planned) {
            observe(negotiator, TRANSITION_SPLIT_BY_STALL);
            split(negotiator, e);
        }
    }
    observe(negotiator, TRANSITION_STALL_PING);
    negotiator->stall.pinged_ns = negotiator->now_ns;
    return message_send(negotiator, parent, &out);
}

/*
 * A child waits. This rank passes on what it holds of the child's tensors, and answers which
 * of them it has not submitted itself. It answers none when it has joined or finalized, or is
 * the coordinator, which reports that itself.
 */
static tutti_status receive_ping(
        struct negotiator *negotiator, int from, struct wire_reader *in)
{
    struct wire_writer out = { .data = NULL };

    wire_put_u8(&out, KIND_PONG);
    while (wire_left(in) > 0) {
        const uint64_t hash = wire_get_u64(in);
        struct tensor_state *tensor = tensor_by_hash(negotiator, hash);

        if (tensor != NULL && tensor->since_ns != 0 && !tensor->planned &&
                is_holdable(tensor)) {
            split(negotiator, tensor);
        }
        if (!leave_is_own(negotiator) && (tensor == NULL || !tensor->pending) &&
                (!is_coordinator(negotiator) ||
                        (tensor != NULL && is_with_plan(tensor)))) {
            wire_put_u64(&out, hash);
        }
    }
    observe(negotiator, TRANSITION_STALL_PONG);
    if (!wire_ok(in)) {
        wire_writer_fini(&out);
        return malformed(negotiator, "ping", from);
    }
    return message_send(negotiator, from, &out);
}

/* The parent is awake. This rank reports only what the parent has not submitted itself. */
static tutti_status receive_pong(
        struct negotiator *negotiator, int from, struct wire_reader *in)
{
    struct stall_report report;

    negotiator->stall.pinged_ns = 0;
    if (negotiator->names.active.first == NULL) {
        return TUTTI_OK;
    }
    report_begin(negotiator, &report);
    stall_report_add(
            &report, "rank %d has not submitted ", world_rank(negotiator, from));
    while (wire_left(in) > 0) {
        const struct tensor_state *tensor =
                tensor_by_hash(negotiator, wire_get_u64(in));

        if (wire_ok(in) && tensor != NULL && is_waited_for(negotiator, tensor)) {
            stall_report_name(&report, tensor);
        }
    }
    if (!wire_ok(in)) {
        return malformed(negotiator, "pong", from);
    }
    if (stall_report_end_names(&report) > 0) {
        observe(negotiator, TRANSITION_STALL_CONFESSED);
        return report_end(negotiator, &report);
    }
    mark_reported(negotiator);
    return TUTTI_OK;
}

tutti_status stall_receive(
        struct negotiator *negotiator, int from, int kind, struct wire_reader *in)
{
    if (kind == KIND_PING) {
        return receive_ping(negotiator, from, in);
    }
    if (kind == KIND_PONG) {
        return receive_pong(negotiator, from, in);
    }
    return receive_probe(negotiator, in);
}

/* ------------------------------------------------------------------- the clock */

/* Other ranks speak for their own tensors; the coordinator for everybody's. */
static bool any_due(const struct negotiator *negotiator)
{
    for (const struct tensor_state *e = negotiator->names.active.first; e != NULL;
            e = e->links.next) {
        if ((e->pending || is_coordinator(negotiator)) && is_due(negotiator, e)) {
            return true;
        }
    }
    return false;
}

tutti_status stalls_fail(struct negotiator *negotiator)
{
    const int64_t limit = negotiator->config.stall_fail_ns;

    for (const struct tensor_state *e = negotiator->names.active.first; e != NULL;
            e = e->links.next) {
        if (limit > 0 && e->pending && !is_decided(e) &&
                negotiator->now_ns - e->since_ns >= limit) {
            observe(negotiator, TRANSITION_STALL_FAIL);
            return error_set(TUTTI_ERR_TIMEOUT,
                    "%s \"%s\" was not submitted by all ranks within stall_fail_s = "
                    "%.3g s",
                    meta_collective_name(e->collective), e->name, (double)limit * 1e-9);
        }
    }
    return TUTTI_OK;
}

tutti_status stalls_report(struct negotiator *negotiator)
{
    tutti_status status;

    if (negotiator->names.active.first == NULL || !any_due(negotiator)) {
        return TUTTI_OK;
    }
    if (is_coordinator(negotiator)) {
        status = report_missing(negotiator);
        return status == TUTTI_OK ? probe(negotiator) : status;
    }
    if (negotiator->stall.pinged_ns == 0) {
        return ping_parent(negotiator);
    }
    return report_orphaned(negotiator);
}
