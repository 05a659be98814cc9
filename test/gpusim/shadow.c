/*
 * Who wrote each byte last, and who has read it since: a list of spans by address that covers
 * all bytes. An access cuts the spans at its two ends and looks at those between; a write makes
 * one span of them, so that memory that is written as a whole is one, however it was cut before.
 * A kernel names its tensors by address, so a search goes on where the last one ended.
 *
 * A read that is ordered before another read is forgotten: whoever is ordered after the
 * second is ordered after the first. Of reads that nothing orders, four are kept, so a fifth
 * can hide an old one from a later write (a race missed, never one invented).
 */
#include <stdlib.h>
#include <string.h>

#include "test/gpusim/state.h"

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
    if (kept == SPAN_READS_MAX) {
        memmove(&span->reads[0], &span->reads[1], (kept - 1) * sizeof span->reads[0]);
        kept--;
    }
    span->reads[kept++] = *access;
    span->read_count = kept;
}

/* The first access of these spans that the new one is not ordered behind. */
static bool find_conflict(const struct span *first, uint64_t end, bool writes,
        const struct clock *clock, struct conflict *conflict)
{
    for (const struct span *span = first; span->start < end; span = span->next) {
        const struct access *earlier = span_conflict(span, writes, clock);

        if (earlier != NULL) {
            *conflict = (struct conflict){ .earlier = *earlier,
                .earlier_wrote = earlier == &span->write,
                .start = span->start };
            return true;
        }
    }
    return false;
}

bool shadow_touch(struct shadow *shadow, const struct gpusim_range *range, bool writes,
        const struct access *access, const struct clock *clock,
        struct conflict *conflict)
{
    const uint64_t end = range->start + range->bytes;
    struct span *before = span_at(shadow, range->start - 1);
    struct span *first;
    bool found;

    span_cut(before, range->start);
    first = before->next;
    span_cut(span_at(shadow, end - 1), end);
    found = find_conflict(first, end, writes, clock, conflict);
    for (struct span *span = first; !writes && span->start < end; span = span->next) {
        span_read(span, access, clock);
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
