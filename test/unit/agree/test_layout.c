/*
 * The layout of a plan: which tensors share a batch, in which order; small cases by hand,
 * and compared with all ways to cut.
 */
#include <stdlib.h>

#include "agree/layout.h"
#include "base/mem.h"
#include "test/unit/unit.h"

enum {
    MANY = 5000,
    SMALL_MAX = 9,
    TRIALS = 3000
};

static const struct planner_limits limits = { .batch_bytes = 1000,
    .tensor_bytes = 500 };
static const struct planner_limits boundless = { .batch_bytes = (size_t)1 << 40,
    .tensor_bytes = (size_t)1 << 40 };
/* Time in ns, so that a byte takes one. */
static const struct cost cost = { .alpha_ns = 50, .beta_ns = 1 };

static struct layout_item item(int64_t ready_ns, size_t bytes)
{
    return (struct layout_item){ .planned = { .collective = TUTTI_ALLREDUCE,
                                         .meta = { .dtype = TUTTI_FLOAT32,
                                                 .op = TUTTI_SUM,
                                                 .prescale = 1,
                                                 .postscale = 1 },
                                         .bytes = bytes,
                                         .batch = 999 },
        .ready_ns = ready_ns,
        .seen_ns = ready_ns };
}

static struct layout_item of_type(struct layout_item other, tutti_dtype dtype)
{
    other.planned.meta.dtype = dtype;
    return other;
}

static size_t plan(
        const struct planner_limits *with, struct layout_item *items, size_t count)
{
    struct layout layout = { .places = NULL };
    size_t batches = 999;

    assert_true(layout_plan(&layout, with, &cost, items, count, &batches));
    layout_fini(&layout);
    return batches;
}

/* Lays out and compares with the expected batch of each item. */
static void expect(struct layout_item *items, const size_t *batches, size_t count)
{
    size_t most = 0;
    const size_t got = plan(&limits, items, count);

    for (size_t i = 0; i < count; i++) {
        assert_int_equal(items[i].planned.batch, batches[i]);
        most = batches[i] > most ? batches[i] : most;
    }
    assert_int_equal(got, count > 0 ? most + 1 : 0);
}

UNIT_TEST(test_layout_of_one_burst_is_the_planners)
{
    struct layout_item items[] = { item(130, 400), of_type(item(0, 10), TUTTI_INT8),
        item(40, 700), item(90, 600), item(90, 300), of_type(item(45, 1), TUTTI_INT8),
        item(131, 400) };
    struct planner_item same[7];
    struct planner planner = { .batches = NULL };
    size_t batches = 0;

    /* Less than alpha between one and the next, though more between first and last. */
    for (size_t i = 0; i < 7; i++) {
        same[i] = items[i].planned;
    }
    assert_true(planner_plan(&planner, &limits, same, 7, &batches));
    assert_int_equal(plan(&limits, items, 7), batches);
    for (size_t i = 0; i < 7; i++) {
        assert_int_equal(items[i].planned.batch, same[i].batch);
    }
    planner_fini(&planner);
}

UNIT_TEST(test_layout_sees_no_gap_that_only_some_rank_had)
{
    struct layout_item slow[] = { item(0, 20), item(300, 30) };
    struct layout_item fast[] = { item(300, 20), item(301, 30) };

    slow[1].seen_ns = 10;
    expect(slow, (const size_t[]){ 0, 0 }, 2);
    fast[0].seen_ns = 0;
    fast[1].seen_ns = 290;
    expect(fast, (const size_t[]){ 0, 0 }, 2);
}

/* All but the first come while the link is busy; the large one needs no other. */
UNIT_TEST(test_layout_launches_first_what_is_whole_first)
{
    struct layout_item items[] = { item(0, 5000), item(100, 10), item(200, 600),
        item(300, 10) };

    expect(items, (const size_t[]){ 0, 2, 1, 2 }, 4);
}

UNIT_TEST(test_layout_keeps_groups_together)
{
    struct layout_item items[] = { item(0, 20), item(500, 900), item(500, 900),
        item(500, 900), item(1000, 20) };

    for (size_t i = 1; i < 4; i++) {
        items[i].planned.meta.group = 7;
        items[i].planned.meta.group_size = 3;
        items[i].seen_ns = 100 * (int64_t)i;
    }
    expect(items, (const size_t[]){ 0, 1, 1, 1, 2 }, 5);
}

UNIT_TEST(test_layout_puts_urgent_tensors_of_a_burst_first)
{
    struct layout_item items[] = { item(0, 600), item(0, 700), item(0, 800),
        item(1000, 600), item(1000, 700) };

    items[1].priority = 1;
    items[2].priority = -3;
    items[4].priority = 9;
    expect(items, (const size_t[]){ 1, 0, 2, 4, 3 }, 5);
}

UNIT_TEST(test_layout_takes_tensors_of_unknown_size)
{
    struct layout_item items[] = { item(0, SIZE_MAX), item(100, SIZE_MAX),
        item(200, 10) };

    for (size_t i = 0; i < 2; i++) {
        items[i].planned.collective = TUTTI_ALLGATHER;
        items[i].planned.meta.form = META_UNKNOWN;
    }
    expect(items, (const size_t[]){ 0, 1, 2 }, 3);
}

/* --------------------------------------------------- compared with all ways to cut */

/** When a way to lay out is done. */
static double finish_of(const struct layout_item *items, size_t count, size_t batches)
{
    double now = 0;

    for (size_t b = 0; b < batches; b++) {
        double ready = 0;
        double bytes = 0;

        for (size_t i = 0; i < count; i++) {
            if (items[i].planned.batch == b) {
                ready = (double)items[i].ready_ns > ready ? (double)items[i].ready_ns
                                                          : ready;
                bytes += (double)items[i].planned.bytes;
            }
        }
        now = (now > ready ? now : ready) + cost.alpha_ns + cost.beta_ns * bytes;
    }
    return now;
}

/* The same when bit i of `cuts` says that a segment ends with item i. */
static double finish_of_cuts(const struct planner_limits *with,
        const struct layout_item *items, size_t count, unsigned cuts)
{
    struct planner planner = { .batches = NULL };
    struct planner_item segment[SMALL_MAX];
    size_t members = 0;
    double bytes = 0;
    double now = 0;

    for (size_t i = 0; i < count; i++) {
        const double ready = (double)items[i].ready_ns;
        size_t batches = 0;

        segment[members++] = items[i].planned;
        bytes += (double)items[i].planned.bytes;
        if (i + 1 < count && (cuts & 1U << i) == 0) {
            continue;
        }
        assert_true(planner_plan(&planner, with, segment, members, &batches));
        now = (now > ready ? now : ready) + cost.alpha_ns * (double)batches +
                cost.beta_ns * bytes;
        members = 0;
        bytes = 0;
    }
    planner_fini(&planner);
    return now;
}

static double best_finish(const struct planner_limits *with,
        const struct layout_item *items, size_t count)
{
    double best = finish_of_cuts(with, items, count, 0);

    for (unsigned cuts = 1; cuts < 1U << (count - 1); cuts++) {
        const double finish = finish_of_cuts(with, items, count, cuts);

        best = finish < best ? finish : best;
    }
    return best;
}

/* Ready at least alpha apart, so that each is a burst; from a fixed sequence. */
static size_t some_items(struct layout_item *items, unsigned *seed, int types)
{
    static const tutti_dtype dtypes[] = { TUTTI_FLOAT32, TUTTI_INT8, TUTTI_FLOAT16 };
    int64_t now = 0;
    size_t count;

    *seed = *seed * 1103515245U + 12345U;
    count = 1 + (*seed >> 16) % SMALL_MAX;
    for (size_t i = 0; i < count; i++) {
        *seed = *seed * 1103515245U + 12345U;
        items[i] = of_type(item(now, 1 + (*seed >> 16) % 600),
                dtypes[(*seed >> 8) % (unsigned)types]);
        *seed = *seed * 1103515245U + 12345U;
        now += (int64_t)cost.alpha_ns + (int64_t)((*seed >> 16) % 300);
    }
    return count;
}

UNIT_TEST(test_layout_is_the_best_there_is)
{
    struct layout_item items[SMALL_MAX];
    unsigned seed = 1;

    for (int i = 0; i < TRIALS; i++) {
        const size_t count = some_items(items, &seed, 1);
        const double best = best_finish(&boundless, items, count);
        const size_t batches = plan(&boundless, items, count);

        /* Without limits each segment is one batch. */
        assert_true(finish_of(items, count, batches) < best + 0.5);
        assert_true(finish_of(items, count, batches) > best - 0.5);
    }
}

UNIT_TEST(test_layout_with_limits_is_no_worse_than_the_best_cuts)
{
    struct layout_item items[SMALL_MAX];
    unsigned seed = 2;

    for (int i = 0; i < TRIALS; i++) {
        const size_t count = some_items(items, &seed, 3);
        const double best = best_finish(&limits, items, count);
        const size_t batches = plan(&limits, items, count);

        assert_true(finish_of(items, count, batches) < best + 0.5);
    }
}

UNIT_TEST(test_layout_of_many_tensors_is_bounded)
{
    struct layout_item *items = mem_calloc(MANY, sizeof *items);
    size_t *members = mem_calloc(MANY, sizeof *members);
    size_t batches;

    assert_non_null(items);
    assert_non_null(members);
    /* The link is never free: merge as much as a segment may hold. */
    for (size_t i = 0; i < MANY; i++) {
        items[i] = item(60 * (int64_t)i, i == 0 ? (size_t)1 << 30 : 1);
    }
    batches = plan(&boundless, items, MANY);
    assert_true(batches <= MANY / LAYOUT_SPAN + 2);
    for (size_t i = 0; i < MANY; i++) {
        assert_true(items[i].planned.batch < batches);
        members[items[i].planned.batch]++;
        assert_true(members[items[i].planned.batch] <= LAYOUT_SPAN);
    }
    mem_free(members);
    mem_free(items);
}
