/*
 * Batches with known results for the tests of backends.
 */
#include "backend_driver.h"

#include <math.h>
#include <sched.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/status.h"
#include "check.h"
#include "ops/reduce/half.h"

#define GUARD_BYTES 64
#define GUARD_VALUE 0xa5
#define UNTOUCHED_VALUE 0x5a
/* Elements checked at a time. */
#define BLOCK 2048
/* A test that takes longer hangs. */
#define DEADLINE_NS ((int64_t)100 * 1000000000)

void bench_open(struct bench *bench, const struct setup *setup)
{
    memset(bench, 0, sizeof *bench);
    bench->backend = setup->backend;
    for (int l = 0; l < OP_LANES; l++) {
        CHECK(MPI_Comm_dup(MPI_COMM_WORLD, &bench->comms[l]) == MPI_SUCCESS);
        CHECK(MPI_Comm_set_errhandler(bench->comms[l], MPI_ERRORS_RETURN) ==
                MPI_SUCCESS);
    }
    (void)MPI_Comm_rank(MPI_COMM_WORLD, &bench->rank);
    (void)MPI_Comm_size(MPI_COMM_WORLD, &bench->size);
    CHECK(bench->size <= BENCH_RANKS_MAX);
    CHECK(config_init(&bench->config) == TUTTI_OK);
    bench->config.algorithm = (int)setup->algorithm;
    bench->config.gather_bytes = setup->gather_bytes;
    bench->config.wire_dtype = (int)setup->wire;
    bench->identity = mem_calloc((size_t)bench->size, sizeof *bench->identity);
    CHECK(bench->identity != NULL);
    for (int i = 0; i < bench->size; i++) {
        bench->identity[i] = i;
    }
    bench->world = (struct op_set){ .index = 0,
        .rank = bench->rank,
        .size = bench->size,
        .world_ranks = bench->identity };
    bench->env = (struct op_env){ .config = &bench->config,
        .world_rank = bench->rank,
        .world_size = bench->size,
        .chunk_bytes = setup->chunk_bytes,
        .link = { .message_bytes = setup->link_bytes,
                .window_bytes = setup->link_bytes * 8 },
        .native = bench->comms };
    CHECK(bench->backend->open(&bench->env, &bench->state) == TUTTI_OK);
}

void bench_close(struct bench *bench)
{
    bench->backend->close(bench->state);
    config_fini(&bench->config);
    mem_free(bench->identity);
    for (int l = 0; l < OP_LANES; l++) {
        (void)MPI_Comm_free(&bench->comms[l]);
    }
}

static uint64_t mix(uint64_t x)
{
    x ^= x >> 30;
    x *= 0xbf58476d1ce4e5b9u;
    x ^= x >> 27;
    x *= 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

/* The bits of a number 1, 2 or 3 in a floating type. */
static uint64_t float_bits_of(tutti_dtype dtype, unsigned number)
{
    float single = (float)number;
    double value = number;
    uint32_t bits32;
    uint64_t bits64;
    uint64_t exponent = number == 1 ? 15 : 16;

    memcpy(&bits32, &single, sizeof bits32);
    memcpy(&bits64, &value, sizeof bits64);
    if (dtype == TUTTI_FLOAT16) {
        return exponent << 10 | (number == 3 ? 0x200u : 0u);
    }
    if (dtype == TUTTI_BFLOAT16) {
        return bits32 >> 16;
    }
    return dtype == TUTTI_FLOAT32 ? bits32 : bits64;
}

/* Random bits that are a finite number of moderate size in a floating type. */
static uint64_t random_float(tutti_dtype dtype, uint64_t random)
{
    uint64_t sign = random & 1;
    uint64_t exponent = (random >> 1) % 8;
    uint64_t fraction = random >> 8;

    if (dtype == TUTTI_FLOAT16) {
        return sign << 15 | (exponent + 10) << 10 | (fraction & 0x3ff);
    }
    if (dtype == TUTTI_BFLOAT16) {
        return sign << 15 | (exponent + 124) << 7 | (fraction & 0x7f);
    }
    if (dtype == TUTTI_FLOAT32) {
        return sign << 31 | (exponent + 124) << 23 | (fraction & 0x7fffff);
    }
    return sign << 63 | (exponent + 1020) << 52 | (fraction & 0xfffffffffffffu);
}

/* Writes elements [begin, begin + count) of a rank's input. */
static void fill(
        const struct flight *flight, int rank, size_t begin, size_t count, uint8_t *to)
{
    tutti_dtype dtype = flight->batch.dtype;
    size_t bytes = tutti_dtype_size(dtype);

    for (size_t i = 0; i < count; i++) {
        size_t place = (begin + i) * 1024 + (size_t)rank * 16 + flight->salt;
        uint64_t random = mix(place);
        unsigned number = 1 + (unsigned)(random % 3);
        uint64_t bits = random;

        if (dtype_is_float(dtype)) {
            bits = flight->small_numbers ? float_bits_of(dtype, number)
                                         : random_float(dtype, random >> 8);
        } else if (dtype == TUTTI_BOOL) {
            bits = random & 1;
        } else if (flight->small_numbers) {
            bits = number;
        }
        memcpy(to + i * bytes, &bits, bytes);
    }
}

static uint8_t *guarded_alloc(size_t bytes)
{
    uint8_t *block = mem_alloc(bytes + (size_t)2 * GUARD_BYTES);

    CHECK(block != NULL);
    memset(block, GUARD_VALUE, GUARD_BYTES);
    memset(block + GUARD_BYTES, UNTOUCHED_VALUE, bytes);
    memset(block + GUARD_BYTES + bytes, GUARD_VALUE, GUARD_BYTES);
    return block;
}

static void guards_check(const struct flight *flight, const uint8_t *block)
{
    size_t bytes = flight->batch.count * tutti_dtype_size(flight->batch.dtype);

    for (size_t i = 0; i < GUARD_BYTES; i++) {
        CHECK_SAYS(block[i] == GUARD_VALUE &&
                        block[GUARD_BYTES + bytes + i] == GUARD_VALUE,
                "memory outside a buffer of %zu %s was written", flight->batch.count,
                tutti_dtype_name(flight->batch.dtype));
    }
}

/* Where a part of a REDUCESCATTER ends: even parts, random ones, or all for one rank. */
static size_t part_end(const struct order *order, int part)
{
    const size_t size = (size_t)order->set->size;
    uint64_t random = mix(order->sequence * 64 + (uint64_t)part + 1);

    switch (order->sequence % 3) {
    case 0:
        return order->count * (size_t)(part + 1) / size;
    case 1:
        return (size_t)(random % (order->count + 1));
    default:
        return part < (int)(order->sequence % size) ? 0 : order->count;
    }
}

static void make_parts(struct flight *flight, const struct order *order)
{
    const size_t bytes = tutti_dtype_size(order->dtype);
    size_t begin = 0;

    for (int r = 0; r < order->set->size; r++) {
        size_t end = size_max(begin, part_end(order, r));

        end = r == order->set->size - 1 ? order->count : end;
        flight->parts[r] = (struct op_part){ .offset = begin * bytes,
            .bytes = (end - begin) * bytes };
        begin = end;
    }
    flight->run.sends = flight->parts;
    if (order->in_place) {
        flight->run.output =
                flight->input + GUARD_BYTES + flight->parts[order->set->rank].offset;
    }
}

/* What the elements of a batch travel as. */
static tutti_dtype wire_of(const struct bench *bench, const struct order *order)
{
    static const tutti_dtype wires[] = { [CONFIG_WIRE_DTYPE_FLOAT32] = TUTTI_FLOAT32,
        [CONFIG_WIRE_DTYPE_BFLOAT16] = TUTTI_BFLOAT16,
        [CONFIG_WIRE_DTYPE_FLOAT16] = TUTTI_FLOAT16 };
    const bool sums = order->op == TUTTI_SUM || order->op == TUTTI_AVERAGE;
    const bool large = order->count > bench->config.gather_bytes / sizeof(float);

    if (order->dtype != TUTTI_FLOAT32 || order->collective == TUTTI_BROADCAST ||
            !sums || !large || order->set->size == 1 ||
            bench->env.link.message_bytes == 0) {
        return order->dtype;
    }
    return wires[bench->config.wire_dtype];
}

void flight_make(
        struct flight *flight, const struct bench *bench, const struct order *order)
{
    size_t bytes = order->count * tutti_dtype_size(order->dtype);

    memset(flight, 0, sizeof *flight);
    flight->salt = (unsigned)((order->sequence * 5 + (uint64_t)order->set->index * 11 +
                                      (uint64_t)order->lane * 3) %
            16);
    flight->small_numbers = order->small_numbers;
    flight->wire = wire_of(bench, order);
    flight->input = guarded_alloc(bytes);
    flight->output = order->in_place ? flight->input : guarded_alloc(bytes);
    flight->task = mem_calloc(1, bench->backend->task_bytes);
    CHECK(flight->task != NULL);
    flight->run = (struct op_run){ .input = flight->input + GUARD_BYTES,
        .output = flight->output + GUARD_BYTES,
        .count = order->count };
    flight->batch = (struct op_batch){
        .set = order->set,
        .sequence = order->sequence,
        .lane = order->lane,
        .collective = order->collective,
        .dtype = order->dtype,
        .op = order->op,
        .divisor = order->set->size,
        .prescale = order->prescale,
        .postscale = order->postscale,
        .root = order->root,
        .runs = &flight->run,
        .run_count = 1,
        .count = order->count,
    };
    if (order->collective == TUTTI_REDUCESCATTER) {
        make_parts(flight, order);
    } else if (order->collective == TUTTI_REDUCE && order->root != order->set->rank) {
        flight->run.output = NULL;
    }
    fill(flight, order->set->rank, 0, order->count, flight->input + GUARD_BYTES);
}

void flight_start(struct flight *flight, const struct bench *bench)
{
    CHECK(bench->backend->accepts(bench->state, &flight->batch));
    CHECK(bench->backend->start(bench->state, flight->task, &flight->batch) ==
            TUTTI_OK);
    flight->live = true;
}

bool flight_step(struct flight *flight, const struct bench *bench, bool *moved)
{
    tutti_status status = bench->backend->step(bench->state, flight->task, moved);

    CHECK_SAYS(status == TUTTI_OK || status == TUTTI_AGAIN, "step gave %s",
            tutti_status_name(status));
    flight->live = status == TUTTI_AGAIN;
    return !flight->live;
}

/* Who reduces an element; it depends on nothing but the batch. */
static int owner_of(const struct op_batch *batch, size_t element)
{
    const size_t size = (size_t)batch->set->size;
    size_t share;

    if (batch->collective == TUTTI_REDUCESCATTER) {
        return batch->set->rank; /* who gets it */
    }
    if (batch->collective == TUTTI_REDUCE && size == 2) {
        return batch->root;
    }
    share = size_align(((batch->count - 1) / size + 1) * sizeof(float), 64);
    return (int)(element / (share / sizeof(float)));
}

static float as_it_arrives(tutti_dtype wire, float value)
{
    return wire == TUTTI_BFLOAT16 ? bfloat_to_float(bfloat_from_float(value))
                                  : half_to_float(half_from_float(value));
}

/* What a rounding may add to an error, relative to what is rounded. */
static double roundoff(tutti_dtype wire)
{
    return wire == TUTTI_BFLOAT16 ? 1.0 / (1 << 8) : 1.0 / (1 << 11);
}

/* The bound of docs/numerics.md. */
static void check_error(const struct flight *flight, const float *operands, int owner,
        bool travels, float result)
{
    const struct op_batch *batch = &flight->batch;
    const double u = roundoff(flight->wire);
    const double divisor = batch->op == TUTTI_AVERAGE ? batch->divisor : 1;
    const double factor = batch->prescale * batch->postscale / divisor;
    double exact = 0;
    double rounded = 0; /* magnitudes of all operands that are */
    double magnitude = 0; /* of all */
    double bound;

    for (int k = 0; k < batch->set->size; k++) {
        exact += factor * (double)operands[k];
        magnitude += fabs(factor * (double)operands[k]);
        rounded += k == owner ? 0 : fabs(factor * (double)operands[k]);
    }
    bound = u * rounded + (travels ? u * (fabs(exact) + u * rounded) : 0);
    bound += (batch->set->size + 3) * magnitude / (1 << 23);
    CHECK_SAYS(fabs((double)result - exact) <= bound, "%g, not %g within %g",
            (double)result, exact, bound);
}

/* As expect(), on a wire of 16 bits: by the definition, an element at a time. */
static void expect_rounded(
        const struct flight *flight, size_t begin, size_t count, float *expected)
{
    static float inputs[BENCH_RANKS_MAX][BLOCK];
    const struct op_batch *batch = &flight->batch;
    const struct reduce_spec spec = reduce_spec_of(batch);

    for (int k = 0; k < batch->set->size; k++) {
        fill(flight, k, begin, count, (uint8_t *)inputs[k]);
    }
    for (size_t i = 0; i < count; i++) {
        const int owner = owner_of(batch, begin + i);
        const bool travels = batch->collective == TUTTI_ALLREDUCE ||
                (batch->collective == TUTTI_REDUCE && owner != batch->root);
        float exact[BENCH_RANKS_MAX];
        float arrived[BENCH_RANKS_MAX];
        const void *operands[BENCH_RANKS_MAX];

        for (int k = 0; k < batch->set->size; k++) {
            exact[k] = inputs[k][i];
            arrived[k] = k == owner ? exact[k] : as_it_arrives(flight->wire, exact[k]);
            operands[k] = &arrived[k];
        }
        reduce_tree(
                &spec, operands, batch->set->size, (void *[]){ &expected[i] }, 1, 1);
        if (travels) {
            expected[i] = as_it_arrives(flight->wire, expected[i]);
        }
        check_error(flight, exact, owner, travels, expected[i]);
    }
}

/* What elements [begin, begin + count) of the output must be. */
static void expect(
        const struct flight *flight, size_t begin, size_t count, uint8_t *expected)
{
    static uint8_t inputs[BENCH_RANKS_MAX][sizeof(uint64_t) * BLOCK];
    const struct op_batch *batch = &flight->batch;
    const struct reduce_spec spec = reduce_spec_of(batch);
    const void *operands[BENCH_RANKS_MAX];
    void *output = expected;

    if (batch->collective == TUTTI_BROADCAST) {
        fill(flight, batch->root, begin, count, expected);
        return;
    }
    if (flight->wire != batch->dtype) {
        static float floats[BLOCK];

        expect_rounded(flight, begin, count, floats);
        memcpy(expected, floats, count * sizeof *floats);
        return;
    }
    for (int rank = 0; rank < batch->set->size; rank++) {
        fill(flight, rank, begin, count, inputs[rank]);
        operands[rank] = inputs[rank];
    }
    reduce_tree(&spec, operands, batch->set->size, &output, 1, count);
}

static void compare(const struct flight *flight, const char *what,
        const uint8_t *actual, const uint8_t *expected, size_t bytes)
{
    const struct op_batch *batch = &flight->batch;

    for (size_t i = 0; i < bytes; i++) {
        CHECK_SAYS(actual[i] == expected[i],
                "%s of %s %s of %zu %s is wrong in byte %zu of a block: %02x, not %02x",
                what, tutti_collective_name(batch->collective),
                tutti_reduce_name(batch->op), batch->count,
                tutti_dtype_name(batch->dtype), i, actual[i], expected[i]);
    }
}

/* Result elements: where they lie in the output, and of which inputs they are. */
struct result {
    size_t begin;
    size_t count;
    size_t source;
};

static struct result result_of(const struct flight *flight)
{
    const struct op_batch *batch = &flight->batch;
    const size_t bytes = tutti_dtype_size(batch->dtype);
    const struct op_part *part = &flight->parts[batch->set->rank];

    if (batch->collective == TUTTI_REDUCE && batch->set->rank != batch->root) {
        return (struct result){ 0 };
    }
    if (batch->collective == TUTTI_REDUCESCATTER) {
        return (struct result){
            .begin = flight->output == flight->input ? part->offset / bytes : 0,
            .count = part->bytes / bytes,
            .source = part->offset / bytes
        };
    }
    return (struct result){ .count = batch->count };
}

/* What elements [begin, begin + count) of the output's memory must be. */
static void expect_memory(const struct flight *flight, struct result result,
        size_t begin, size_t count, uint8_t *expected)
{
    const size_t bytes = tutti_dtype_size(flight->batch.dtype);
    const size_t first = size_max(begin, result.begin);
    const size_t end = size_min(begin + count, result.begin + result.count);

    if (flight->output == flight->input) {
        fill(flight, flight->batch.set->rank, begin, count, expected);
    } else {
        memset(expected, UNTOUCHED_VALUE, count * bytes);
    }
    if (first < end) {
        expect(flight, first - result.begin + result.source, end - first,
                expected + (first - begin) * bytes);
    }
}

static void check_memory(const struct flight *flight, struct result result)
{
    static uint8_t expected[sizeof(uint64_t) * BLOCK];
    size_t bytes = tutti_dtype_size(flight->batch.dtype);

    guards_check(flight, flight->input);
    guards_check(flight, flight->output);
    for (size_t at = 0; at < flight->batch.count; at += BLOCK) {
        size_t count = size_min(BLOCK, flight->batch.count - at);
        size_t offset = GUARD_BYTES + at * bytes;

        expect_memory(flight, result, at, count, expected);
        compare(flight, "output", flight->output + offset, expected, count * bytes);
        if (flight->output != flight->input) {
            fill(flight, flight->batch.set->rank, at, count, expected);
            compare(flight, "input", flight->input + offset, expected, count * bytes);
        }
    }
}

void flight_check(const struct flight *flight)
{
    check_memory(flight, result_of(flight));
}

void flight_check_untouched(const struct flight *flight)
{
    check_memory(flight, (struct result){ 0 });
}

void flight_free(struct flight *flight)
{
    if (flight->output != flight->input) {
        mem_free(flight->output);
    }
    mem_free(flight->input);
    mem_free(flight->task);
}

/* Steps all live flights once; the number of those that became final. */
static int step_all(
        const struct bench *bench, struct flight *flights, int count, bool *moved)
{
    int final = 0;

    for (int i = 0; i < count; i++) {
        if (flights[i].live && flight_step(&flights[i], bench, moved)) {
            final++;
        }
    }
    return final;
}

void run_all(const struct bench *bench, struct flight *flights, int count)
{
    int64_t deadline = clock_ns() + DEADLINE_NS;
    int live = count;

    while (live > 0) {
        bool moved = false;
        int final = step_all(bench, flights, count, &moved);

        live -= final;
        if (final == 0 && !moved) {
            (void)sched_yield();
            CHECK_SAYS(clock_ns() < deadline, "%d batches hang", live);
        }
    }
}

struct lane_turn lane_turn_of(const struct bench *bench, int round, int i)
{
    return (struct lane_turn){ .lane = (uint32_t)((i / OP_INFLIGHT_MAX + bench->rank) %
                                       OP_LANES),
        .turn = round * OP_INFLIGHT_MAX + i % OP_INFLIGHT_MAX };
}

void run_one(const struct bench *bench, const struct order *order)
{
    struct flight flight;

    flight_make(&flight, bench, order);
    flight_start(&flight, bench);
    run_all(bench, &flight, 1);
    flight_check(&flight);
    flight_free(&flight);
}
