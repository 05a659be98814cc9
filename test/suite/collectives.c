/*
 * Every collective with every type and reduction: one by one, all at once in a different
 * order on each rank, as one group; every bit as the definition says, and the steady state
 * by numbers.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test/batch/reference.h"
#include "test/suite/flight.h"
#include "test/suite/suite.h"

enum {
    WAVES = 4,
    RANKS_MAX = 64,
    NAME_MAX_BYTES = 32
};

/** All operations of the table in flight together. */
struct wave {
    struct operation *table; /* [count] owned */
    struct flight *flights; /* [count] owned */
    int *order; /* [count] owned */
    size_t count;
};

static void wave_init(struct wave *wave, int size, uint32_t seed)
{
    const size_t all = operation_table(NULL, size, seed);
    const size_t step = size > 8 ? 5 : 1; /* types are no matter of many ranks */

    wave->table = must_alloc(all, sizeof *wave->table);
    (void)operation_table(wave->table, size, seed);
    wave->count = 0;
    for (size_t i = 0; i < all; i += step) {
        wave->table[wave->count++] = wave->table[i];
    }
    wave->flights = must_alloc(wave->count, sizeof *wave->flights);
    wave->order = must_alloc(wave->count, sizeof *wave->order);
}

static void wave_fini(struct wave *wave)
{
    free(wave->table);
    free(wave->flights);
    free(wave->order);
}

static void name_of(char *name, size_t index)
{
    (void)snprintf(name, NAME_MAX_BYTES, "operation %zu", index);
}

static void one_by_one(tutti *t, struct checks *c)
{
    int ranks[RANKS_MAX];
    const struct crew world = crew_of_world(c, ranks);
    struct wave wave;
    char name[NAME_MAX_BYTES];

    checks_step(c, "one by one");
    wave_init(&wave, c->size, 1);
    for (size_t i = 0; i < wave.count; i++) {
        name_of(name, i);
        flight_begin(t, c, &wave.flights[i], &wave.table[i], &world, name);
        flight_end(t, c, &wave.flights[i]);
    }
    wave_fini(&wave);
}

static void run_wave(tutti *t, struct checks *c, struct wave *wave, int number)
{
    int ranks[RANKS_MAX];
    const struct crew world = crew_of_world(c, ranks);
    char name[NAME_MAX_BYTES];

    pattern_shuffle(
            wave->order, (int)wave->count, 1000 * (uint64_t)c->rank + (uint64_t)number);
    for (size_t i = 0; i < wave->count; i++) {
        const size_t k = (size_t)wave->order[i];

        name_of(name, k);
        flight_begin(t, c, &wave->flights[k], &wave->table[k], &world, name);
    }
    for (size_t i = 0; i < wave->count; i++) {
        flight_end(t, c, &wave->flights[i]);
    }
}

/*
 * A name gets its number when it is used the second time; from then on no name travels.
 */
static void check_numbers(tutti *t, struct checks *c, size_t count)
{
    tutti_stats stats = { .size = sizeof stats };

    EXPECT_OK(c, tutti_stats_get(t, &stats));
    EXPECT(c, stats.completed == count * WAVES && stats.failed == 0);
    EXPECT(c, stats.announced_by_name == 2 * count);
    EXPECT(c, stats.announced_by_bit == count * (WAVES - 2));
}

static void all_at_once(struct checks *c, const char *step, const char *fusion_bytes,
        const char *inflight)
{
    const struct setting settings[] = { { "fusion_bytes", fusion_bytes },
        { "inflight", inflight }, { 0 } };
    tutti *t = job_open(c, settings);
    struct wave wave;

    checks_step(c, step);
    wave_init(&wave, c->size, 2);
    for (int i = 0; i < WAVES; i++) {
        run_wave(t, c, &wave, i);
    }
    check_numbers(t, c, wave.count);
    wave_fini(&wave);
    EXPECT_OK(c, tutti_finalize(t));
}

/* The bits are the same; what fuses, and that it does, is a matter of trees and groups. */
static void fused_or_not(struct checks *c)
{
    all_at_once(c, "not fused", "1", "4");
    all_at_once(c, "fused", "0", "4");
    all_at_once(c, "fused into small batches", "2k", "1");
}

/* The group has everything; its members are launched together where they can be. */
static void grouped(tutti *t, struct checks *c)
{
    int ranks[RANKS_MAX];
    const struct crew world = crew_of_world(c, ranks);
    struct wave wave;
    char name[NAME_MAX_BYTES];

    checks_step(c, "grouped");
    wave_init(&wave, c->size, 3);
    for (int round = 0; round < 3; round++) {
        pattern_shuffle(wave.order, (int)wave.count,
                1000 * (uint64_t)c->rank + (uint64_t)round);
        EXPECT_OK(c, tutti_group_begin(t));
        for (size_t i = 0; i < wave.count; i++) {
            const size_t k = (size_t)wave.order[i];

            (void)snprintf(name, sizeof name, "member %zu", k);
            flight_begin(t, c, &wave.flights[k], &wave.table[k], &world, name);
        }
        EXPECT_OK(c, tutti_group_end(t));
        for (size_t i = 0; i < wave.count; i++) {
            flight_end(t, c, &wave.flights[i]);
        }
    }
    wave_fini(&wave);
}

/* Parts that no chunk, slice or buffer fits. */
static void large(tutti *t, struct checks *c)
{
    static const struct {
        tutti_collective collective;
        tutti_dtype dtype;
        tutti_reduce_op op;
        int64_t count, row_count;
        enum operation_form form;
        bool in_place, owns_output;
    } shapes[] = {
        { TUTTI_REDUCE, TUTTI_FLOAT32, TUTTI_SUM, 300001, 1, FORM_EQUAL, true, false },
        { TUTTI_BROADCAST, TUTTI_INT32, TUTTI_SUM, 1 << 20, 1, FORM_EQUAL, false,
                false },
        { TUTTI_REDUCESCATTER, TUTTI_BFLOAT16, TUTTI_AVERAGE, 90001, 7, FORM_EQUAL,
                true, false },
        { TUTTI_REDUCESCATTER, TUTTI_FLOAT64, TUTTI_SUM, 70001, 1, FORM_LISTED, false,
                false },
        { TUTTI_ALLGATHER, TUTTI_INT16, TUTTI_SUM, 150001, 1, FORM_UNKNOWN, false,
                true },
        { TUTTI_ALLGATHER, TUTTI_UINT8, TUTTI_SUM, 99991, 3, FORM_EQUAL, true, false },
        { TUTTI_ALLTOALL, TUTTI_FLOAT32, TUTTI_SUM, 40001, 1, FORM_LISTED, false,
                false },
        { TUTTI_ALLTOALL, TUTTI_FLOAT32, TUTTI_SUM, 20001, 1, FORM_EQUAL, true, false },
        { TUTTI_ALLTOALL, TUTTI_INT64, TUTTI_SUM, 20001, 1, FORM_UNKNOWN, false, true },
        { TUTTI_GATHER, TUTTI_FLOAT8_E5M2, TUTTI_SUM, 200003, 2, FORM_LISTED, true,
                false },
        { TUTTI_SCATTER, TUTTI_UINT16, TUTTI_SUM, 100003, 1, FORM_LISTED, false, true },
    };
    enum {
        COUNT = sizeof shapes / sizeof *shapes
    };
    struct operation operations[COUNT];

    checks_step(c, "large and unequal");
    for (int i = 0; i < COUNT; i++) {
        operations[i] = (struct operation){ .collective = shapes[i].collective,
            .pattern = { shapes[i].dtype, shapes[i].op, (uint32_t)(500 + i) },
            .scales = { i == 0 ? 0.5 : 1, i == 0 ? 3 : 1 },
            .root = i % c->size,
            .count =
                    shapes[i].count / (c->size > 8 ? 8 : 1), /* the reference is slow */
            .row_count = shapes[i].row_count,
            .form = shapes[i].form,
            .in_place = shapes[i].in_place,
            .owns_output = shapes[i].owns_output };
    }
    operations_run(t, c, operations, COUNT);
}

/* The calls that wait by themselves: rank r's rows are r + 1 times 10 and its number. */
static void blocking_calls(tutti *t, struct checks *c)
{
    const int n = c->size;
    const int last = n - 1;
    int32_t all[RANKS_MAX];
    int32_t own[RANKS_MAX];
    int32_t sum = 0;
    bool right = true;

    checks_step(c, "blocking calls");
    for (int i = 0; i < n; i++) {
        own[i] = 100 * c->rank + i;
    }
    EXPECT_OK(
            c, tutti_allgather(t, "blocking", own, all, 1, 1, NULL, TUTTI_INT32, NULL));
    for (int i = 0; i < n; i++) {
        right = right && all[i] == 100 * i;
    }
    EXPECT_OK(c,
            tutti_alltoall(
                    t, "blocking", own, all, n, 1, NULL, NULL, TUTTI_INT32, NULL));
    for (int i = 0; i < n; i++) {
        right = right && all[i] == 100 * i + c->rank;
    }
    EXPECT_OK(c,
            tutti_gather(t, "blocking", own, all, 1, 1, NULL, TUTTI_INT32, last, NULL));
    for (int i = 0; i < n && c->rank == last; i++) {
        right = right && all[i] == 100 * i;
    }
    EXPECT_OK(c,
            tutti_scatter(
                    t, "blocking", own, &sum, 1, 1, NULL, TUTTI_INT32, last, NULL));
    right = right && sum == 100 * last + c->rank;
    EXPECT_OK(c,
            tutti_reducescatter(t, "blocking", own, &sum, n, 1, NULL, TUTTI_INT32,
                    TUTTI_MAX, NULL));
    right = right && sum == 100 * last + c->rank;
    EXPECT_OK(c,
            tutti_reduce(
                    t, "blocking", own, all, n, TUTTI_INT32, TUTTI_SUM, last, NULL));
    for (int i = 0; i < n && c->rank == last; i++) {
        right = right && all[i] == 50 * n * last + n * i;
    }
    EXPECT(c, right);
}

static void refused(struct checks *c, tutti_status status)
{
    EXPECT_STATUS(c, TUTTI_ERR_UNSUPPORTED, status);
    EXPECT(c, strstr(tutti_last_error(), "moved but not reduced") != NULL);
}

static void float8_is_moved_only(tutti *t, struct checks *c)
{
    static const tutti_dtype dtypes[] = { TUTTI_FLOAT8_E4M3, TUTTI_FLOAT8_E5M2 };
    uint8_t bytes[RANKS_MAX] = { 0 };
    tutti_request request;

    checks_step(c, "float8 is not reduced");
    for (int d = 0; d < 2; d++) {
        for (int op = TUTTI_SUM; op <= TUTTI_SET_AVERAGE; op++) {
            refused(c,
                    tutti_allreduce_async(t, "float8", bytes, bytes, 1, dtypes[d],
                            (tutti_reduce_op)op, NULL, &request));
            refused(c,
                    tutti_reduce_async(t, "float8", bytes, bytes, 1, dtypes[d],
                            (tutti_reduce_op)op, 0, NULL, &request));
            refused(c,
                    tutti_reducescatter_async(t, "float8", bytes, bytes, c->size, 1,
                            NULL, dtypes[d], (tutti_reduce_op)op, NULL, &request));
        }
    }
}

static void end_kinds(tutti *t, struct checks *c, struct flight *flights, int count)
{
    for (int k = 0; k < count; k++) {
        if (k != TUTTI_BARRIER) {
            flight_end(t, c, &flights[k]);
        }
    }
}

static struct operation of_one_name(int collective, int size)
{
    return (struct operation){ .collective = (tutti_collective)collective,
        .pattern = { TUTTI_FLOAT32, TUTTI_SUM, (uint32_t)(700 + collective) },
        .scales = { 1, 1 },
        .count = collective == TUTTI_REDUCESCATTER ? size : 1,
        .row_count = 1 };
}

/* Equal names and metadata under different operations are different tensors. */
static void one_name_under_all(tutti *t, struct checks *c)
{
    enum {
        KINDS = TUTTI_SCATTER + 1
    };
    int ranks[RANKS_MAX];
    const struct crew world = crew_of_world(c, ranks);
    struct operation operations[KINDS];
    struct flight flights[KINDS];

    checks_step(c, "one name under all operations");
    for (int i = 0; i < 4 * KINDS; i++) {
        const int k = (i + c->rank + i / KINDS) % KINDS;

        if (i % KINDS == 0 && i > 0) {
            end_kinds(t, c, flights, KINDS);
        }
        operations[k] = of_one_name(k, c->size);
        if (k != TUTTI_BARRIER) {
            flight_begin(t, c, &flights[k], &operations[k], &world, "one name");
        }
    }
    end_kinds(t, c, flights, KINDS);
}

void suite_collectives(tutti *t, struct checks *c)
{
    one_by_one(t, c);
    fused_or_not(c);
    grouped(t, c);
    large(t, c);
    blocking_calls(t, c);
    float8_is_moved_only(t, c);
    one_name_under_all(t, c);
}
