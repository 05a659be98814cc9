/*
 * Cuts the tensors of a plan into batches: bursts, and the best cuts between them.
 */
#include "agree/layout.h"

#include <float.h>
#include <stdlib.h>

#include "base/mem.h"

/** An item by its place in the order of the layout. */
struct layout_place {
    size_t item; /* index */
    size_t burst;
    int64_t ready_ns, seen_ns;
    int priority;
};

/** Tensors that are ready at once, and the best way to the end of them. */
struct layout_burst {
    size_t end; /* place behind the last one */
    double ready_ns; /* of the last one, since the first of all */
    double bytes; /* of all up to here */
    double finish_ns; /* f: the earliest end of all up to here */
    size_t from; /* the burst with which the last segment of that begins */
    bool opens; /* a segment of the best way begins here */
};

/** A batch of a segment. */
struct layout_batch {
    size_t number; /* that the planner gave it */
    size_t burst; /* of its last tensor: it is whole then */
};

void layout_fini(struct layout *layout)
{
    planner_fini(&layout->planner);
    mem_free(layout->places);
    mem_free(layout->sorted);
    mem_free(layout->bursts);
    mem_free(layout->batches);
    *layout = (struct layout){ 0 };
}

static bool reserve(struct layout *layout, size_t count)
{
    return mem_grow(&layout->places, &layout->place_capacity, count,
                   sizeof *layout->places) &&
            mem_grow(&layout->sorted, &layout->sorted_capacity, count,
                    sizeof *layout->sorted) &&
            mem_grow(&layout->bursts, &layout->burst_capacity, count,
                    sizeof *layout->bursts) &&
            mem_grow(&layout->batches, &layout->batch_capacity, count,
                    sizeof *layout->batches);
}

/* -------------------------------------------------------------------- bursts */

static int by_ready(const void *a, const void *b)
{
    const struct layout_place *left = a;
    const struct layout_place *right = b;

    if (left->ready_ns != right->ready_ns) {
        return left->ready_ns < right->ready_ns ? -1 : 1;
    }
    return left->item < right->item ? -1 : 1;
}

/* Within a burst the order is the one that the items were given in. */
static int by_burst(const void *a, const void *b)
{
    const struct layout_place *left = a;
    const struct layout_place *right = b;

    if (left->burst != right->burst) {
        return left->burst < right->burst ? -1 : 1;
    }
    if (left->priority != right->priority) {
        return left->priority > right->priority ? -1 : 1;
    }
    return left->item < right->item ? -1 : 1;
}

/* Numbers the bursts of the places, which are sorted; returns how many there are. */
static size_t number_bursts(
        struct layout_place *places, size_t count, const struct cost *cost)
{
    int64_t seen_ns = places[0].seen_ns;
    size_t burst = 0;

    for (size_t k = 0; k < count; k++) {
        if (k > 0 &&
                (double)(places[k].ready_ns - places[k - 1].ready_ns) >=
                        cost->alpha_ns &&
                (double)(places[k].seen_ns - seen_ns) >= cost->alpha_ns) {
            burst++;
        }
        seen_ns = places[k].seen_ns > seen_ns ? places[k].seen_ns : seen_ns;
        places[k].burst = burst;
    }
    return burst + 1;
}

/* Bytes that are known; what is not known counts as a batch of its own, and no more. */
static double bytes_of(const struct planner_item *item)
{
    return item->bytes == SIZE_MAX ? 0 : (double)item->bytes;
}

static size_t sort_into_bursts(struct layout *layout, const struct cost *cost,
        const struct layout_item *items, size_t count)
{
    struct layout_place *places = layout->places;
    size_t bursts;
    double bytes = 0;
    double ready_ns = 0;

    for (size_t i = 0; i < count; i++) {
        places[i] = (struct layout_place){ .item = i,
            .ready_ns = items[i].ready_ns,
            .seen_ns = items[i].seen_ns,
            .priority = items[i].priority };
    }
    qsort(places, count, sizeof *places, by_ready);
    bursts = number_bursts(places, count, cost);
    for (size_t k = 0; k < count; k++) {
        ready_ns = (double)(places[k].ready_ns - places[0].ready_ns);
        layout->bursts[places[k].burst] = (struct layout_burst){
            .end = k + 1, .ready_ns = ready_ns, .finish_ns = DBL_MAX
        };
    }
    qsort(places, count, sizeof *places, by_burst);
    for (size_t k = 0; k < count; k++) {
        layout->sorted[k] = items[places[k].item].planned;
        bytes += bytes_of(&layout->sorted[k]);
        layout->bursts[places[k].burst].bytes = bytes;
    }
    return bursts;
}

/* ------------------------------------------------------------------ segments */

static size_t first_of(const struct layout *layout, size_t burst)
{
    return burst > 0 ? layout->bursts[burst - 1].end : 0;
}

static bool add_burst(
        struct layout *layout, const struct planner_limits *limits, size_t burst)
{
    for (size_t k = first_of(layout, burst); k < layout->bursts[burst].end; k++) {
        if (!planner_add(&layout->planner, limits, &layout->sorted[k])) {
            return false;
        }
    }
    return true;
}

/* All segments that begin with a burst, up to which the best way is known. */
static bool extend(struct layout *layout, const struct planner_limits *limits,
        const struct cost *cost, size_t from, size_t bursts)
{
    const struct layout_burst *before = from > 0 ? &layout->bursts[from - 1] : NULL;
    const double busy_ns = before != NULL ? before->finish_ns : 0;
    const double bytes = before != NULL ? before->bytes : 0;

    planner_begin(&layout->planner);
    for (size_t j = from; j < bursts && j < from + LAYOUT_SPAN; j++) {
        struct layout_burst *burst = &layout->bursts[j];
        const double begin_ns = busy_ns > burst->ready_ns ? busy_ns : burst->ready_ns;
        double finish_ns;

        if (!add_burst(layout, limits, j)) {
            return false;
        }
        finish_ns = begin_ns + cost->alpha_ns * (double)layout->planner.count +
                cost->beta_ns * (burst->bytes - bytes);
        /* Of equals the longest segment, which was tried first. */
        if (finish_ns < burst->finish_ns) {
            burst->finish_ns = finish_ns;
            burst->from = from;
        }
    }
    return true;
}

static bool find_segments(struct layout *layout, const struct planner_limits *limits,
        const struct cost *cost, size_t bursts)
{
    for (size_t from = 0; from < bursts; from++) {
        if (!extend(layout, limits, cost, from, bursts)) {
            return false;
        }
    }
    for (size_t end = bursts; end > 0; end = layout->bursts[end - 1].from) {
        layout->bursts[layout->bursts[end - 1].from].opens = true;
    }
    return true;
}

/* ------------------------------------------------------------------- batches */

static int by_whole(const void *a, const void *b)
{
    const struct layout_batch *left = a;
    const struct layout_batch *right = b;

    if (left->burst != right->burst) {
        return left->burst < right->burst ? -1 : 1;
    }
    return left->number < right->number ? -1 : 1;
}

/* Numbers the batches of the places from `first` on by when they are whole, from `base`. */
static void number_batches(struct layout *layout, size_t first, size_t end, size_t base)
{
    struct layout_batch *batches = layout->batches;
    const size_t count = layout->planner.count;

    for (size_t k = first; k < end; k++) {
        const size_t number = layout->sorted[k].batch;

        batches[number] = (struct layout_batch){ .number = number,
            .burst = layout->places[k].burst };
    }
    qsort(batches, count, sizeof *batches, by_whole);
    /* From here on `burst` is the place of the batch with that number. */
    for (size_t b = 0; b < count; b++) {
        batches[batches[b].number].burst = base + b;
    }
    for (size_t k = first; k < end; k++) {
        layout->sorted[k].batch = batches[layout->sorted[k].batch].burst;
    }
}

/* Makes batches of the segment that a burst opens; returns the burst behind it. */
static size_t close_segment(struct layout *layout, const struct planner_limits *limits,
        size_t from, size_t bursts, size_t *base)
{
    size_t next = from;

    planner_begin(&layout->planner);
    do {
        if (!add_burst(layout, limits, next)) {
            return 0;
        }
        next++;
    } while (next < bursts && !layout->bursts[next].opens);
    number_batches(layout, first_of(layout, from), layout->bursts[next - 1].end, *base);
    *base += layout->planner.count;
    return next;
}

bool layout_plan(struct layout *layout, const struct planner_limits *limits,
        const struct cost *cost, struct layout_item *items, size_t count,
        size_t *batch_count)
{
    size_t batches = 0;
    size_t burst = 0;
    size_t bursts;

    *batch_count = 0;
    if (count == 0) {
        return true;
    }
    if (!reserve(layout, count)) {
        return false;
    }
    bursts = sort_into_bursts(layout, cost, items, count);
    if (!find_segments(layout, limits, cost, bursts)) {
        return false;
    }
    while (burst < bursts) {
        burst = close_segment(layout, limits, burst, bursts, &batches);
        if (burst == 0) {
            return false;
        }
    }
    for (size_t k = 0; k < count; k++) {
        items[layout->places[k].item].planned.batch = layout->sorted[k].batch;
    }
    *batch_count = batches;
    return true;
}
