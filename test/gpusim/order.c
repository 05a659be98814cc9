/*
 * The happens-before check: vector clocks, and who touched which bytes last.
 *
 * Every stream is an actor with a component of its own, and so is the host. a happened before b
 * when b's clock has seen a's time: what the host, an event, a synchronisation or the order of a
 * stream carries from one to the other. All host threads are one actor: they hand work to each
 * other under locks that the simulator does not see. ThreadSanitizer finds races among them.
 *
 * Who wrote each byte last, and who has read it since, is in a list of spans by address that
 * covers all bytes. An access cuts the spans at its two ends and looks at those between; a write
 * makes one span of them, so that memory that is written as a whole is one, however it was cut
 * before. A kernel names its tensors by address, so a search goes on where the last one ended.
 *
 * A read that is ordered before another read is forgotten: whoever is ordered after the
 * second is ordered after the first. Of reads that nothing orders, four are kept, so a fifth
 * can hide another one from a later write (a race missed, never one invented).
 */
#include <stdlib.h>
#include <string.h>

#include "test/gpusim/state.h"

enum {
    SPAN_READS_MAX = 4
};

/* An operation, as far as a report needs it. Texts live for ever. */
struct access {
    const char *label;
    const char *who;
    uint64_t time; /* of the actor */
    uint32_t actor;
};

/* ---- clocks ---- */

static void clock_widen(struct clock *clock, uint32_t count)
{
    if (count <= clock->count) {
        return;
    }
    clock->times = realloc(clock->times, count * sizeof *clock->times);
    memset(clock->times + clock->count, 0,
            (count - clock->count) * sizeof *clock->times);
    clock->count = count;
}

static uint64_t clock_time(const struct clock *clock, uint32_t actor)
{
    return actor < clock->count ? clock->times[actor] : 0;
}

void clock_tick(struct clock *clock, uint32_t actor)
{
    clock_widen(clock, actor + 1);
    clock->times[actor]++;
}

void clock_join(struct clock *into, const struct clock *from)
{
    clock_widen(into, from->count);
    for (uint32_t i = 0; i < from->count; i++) {
        if (from->times[i] > into->times[i]) {
            into->times[i] = from->times[i];
        }
    }
}

struct clock clock_copy(const struct clock *clock)
{
    struct clock copy = { .times = NULL };

    clock_join(&copy, clock);
    return copy;
}

void clock_fini(struct clock *clock)
{
    free(clock->times);
    *clock = (struct clock){ .times = NULL };
}

/* ---- spans ---- */

struct span {
    struct span *next;
    uint64_t start, end;
    struct access write; /* label NULL: not written yet */
    struct access reads[SPAN_READS_MAX];
    uint32_t read_count;
};

/* The span that holds the byte. */
static struct span *span_at(struct shadow *shadow, uint64_t byte)
{
    struct span *span;

    if (shadow->first == NULL) {
        shadow->first = calloc(1, sizeof *shadow->first);
        shadow->first->end = UINT64_MAX;
        shadow->near = shadow->first;
    }
    span = shadow->near->start <= byte ? shadow->near : shadow->first;
    while (span->end <= byte) {
        span = span->next;
    }
    return span;
}

/* Ends the span there at the latest: the rest is a span of its own. */
static void span_cut(struct span *span, uint64_t end)
{
    struct span *rest;

    if (span->end > end) {
        rest = malloc(sizeof *rest);
        *rest = *span;
        rest->start = end;
        span->end = end;
        span->next = rest;
    }
}

static void span_absorb_next(struct span *span)
{
    struct span *next = span->next;

    span->end = next->end;
    span->next = next->next;
    free(next);
}

static bool is_ordered(const struct access *earlier, const struct clock *clock)
{
    return earlier->label == NULL || earlier->time <= clock_time(clock, earlier->actor);
}

/* The access of this span, if any, that is not ordered before the clock. */
static const struct access *span_conflict(
        const struct span *span, bool writes, const struct clock *clock)
{
    if (!is_ordered(&span->write, clock)) {
        return &span->write;
    }
    for (uint32_t i = 0; writes && i < span->read_count; i++) {
        if (!is_ordered(&span->reads[i], clock)) {
            return &span->reads[i];
        }
    }
    return NULL;
}

static void span_read(
        struct span *span, const struct access *access, const struct clock *clock)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < span->read_count; i++) {
        if (!is_ordered(&span->reads[i], clock)) {
            span->reads[kept++] = span->reads[i];
        }
    }
    kept -= kept == SPAN_READS_MAX ? 1 : 0;
    span->reads[kept] = *access;
    span->read_count = kept + 1;
}

/* Notes an access; the span with an earlier one that is not ordered before it, as it was. */
static bool shadow_touch(struct shadow *shadow, const struct gpusim_range *range,
        bool writes, const struct access *access, const struct clock *clock,
        struct span *raced)
{
    const uint64_t end = range->start + range->bytes;
    struct span *before = span_at(shadow, range->start - 1);
    struct span *first;
    bool found = false;

    span_cut(before, range->start);
    first = before->next;
    span_cut(span_at(shadow, end - 1), end);
    for (struct span *span = first; span->start < end; span = span->next) {
        if (!found && span_conflict(span, writes, clock) != NULL) {
            found = true;
            *raced = *span;
        }
        if (!writes) {
            span_read(span, access, clock);
        }
    }
    if (writes) {
        while (first->end < end) {
            span_absorb_next(first);
        }
        first->write = *access;
        first->read_count = 0;
    }
    shadow->near = before;
    return found;
}

void shadow_fini(struct shadow *shadow)
{
    while (shadow->first != NULL && shadow->first->next != NULL) {
        span_absorb_next(shadow->first);
    }
    free(shadow->first);
    *shadow = (struct shadow){ .first = NULL };
}

/* ---- accesses ---- */

/* Reports a race, and returns true. */
static bool touch(struct allocation *allocation, const struct gpusim_range *range,
        bool writes, const struct access *access, const struct clock *clock)
{
    const struct access *earlier;
    struct span raced;

    if (!shadow_touch(&allocation->shadow, range, writes, access, clock, &raced)) {
        return false;
    }
    earlier = span_conflict(&raced, writes, clock);
    gpusim_report(
            "RACE: %s (%s, step %llu) %s %zu bytes at offset %llu of an allocation of "
            "%zu bytes, which %s (%s, step %llu) %s at offset %llu; nothing orders "
            "them",
            access->label, access->who, (unsigned long long)access->time,
            writes ? "writes" : "reads", range->bytes,
            (unsigned long long)(range->start - allocation->start), allocation->bytes,
            earlier->label, earlier->who, (unsigned long long)earlier->time,
            earlier == &raced.write ? "writes" : "reads",
            (unsigned long long)(raced.start - allocation->start));
    return true;
}

void access_by_host(const char *label, const struct clock *clock,
        struct allocation *allocation, const struct gpusim_range *range, bool writes)
{
    const struct access access = {
        .label = label,
        .who = "host",
        .time = clock_time(clock, ACTOR_HOST),
        .actor = ACTOR_HOST,
    };

    (void)touch(allocation, range, writes, &access, clock);
}

/* What an operation has touched until now. */
struct gpusim_accesses {
    const struct stream *stream;
    const struct op *op;
    bool raced; /* no more is said than its first race */
    int error; /* or 0 */
};

static void access_one(
        struct gpusim_accesses *accesses, struct gpusim_range range, bool writes)
{
    const struct stream *stream = accesses->stream;
    const struct op *op = accesses->op;
    const struct access access = {
        .label = op->what.label,
        .who = stream->name,
        .time = clock_time(&op->clock, stream->actor),
        .actor = stream->actor,
    };
    struct allocation *allocation;

    if (range.bytes == 0 || accesses->error != CUDA_SUCCESS) {
        return;
    }
    allocation = memory_check(access.label, range.start, range.bytes);
    if (allocation == NULL) {
        accesses->error = CUDA_ILLEGAL_ADDRESS;
    } else if (allocation->kind == MEMORY_DEVICE &&
            allocation->owner->device != stream->context->device) {
        gpusim_report("%s on %s touches memory of device %d", access.label, access.who,
                allocation->owner->device);
        accesses->error = CUDA_ILLEGAL_ADDRESS;
    } else {
        accesses->raced = accesses->raced ||
                touch(allocation, &range, writes, &access, &op->clock);
    }
}

void gpusim_reads(struct gpusim_accesses *accesses, uint64_t start, size_t bytes)
{
    access_one(accesses, (struct gpusim_range){ start, bytes }, false);
}

void gpusim_writes(struct gpusim_accesses *accesses, uint64_t start, size_t bytes)
{
    access_one(accesses, (struct gpusim_range){ start, bytes }, true);
}

int access_by_op(const struct stream *stream, const struct op *op)
{
    struct gpusim_accesses accesses = { .stream = stream, .op = op };

    if (op->what.ranges != NULL) {
        op->what.ranges(op->what.argument, &accesses);
    }
    return accesses.error;
}
