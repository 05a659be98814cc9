/*
 * What the simulated NCCL computes: every function, type and reduction against sums that are
 * known, since all inputs are small integers that differ by rank.
 */
#include <string.h>

#include "test/gpusim/nccl/reduce.h"
#include "test/gpusim/nccl/segment.h"
#include "test/gpusim/nccl/test/ranks.h"

enum {
    COUNT = 1000,
    PAD = 16 /* elements behind the output that must stay as they are */
};

/* Element i of a rank's input: 1, 2 or 3. */
static int input_value(int rank, size_t i)
{
    return 1 + (int)((i + (size_t)rank) % 3);
}

static void set(nccl_dtype type, void *data, size_t i, double value)
{
    const int64_t whole = (int64_t)value;
    const float single = (float)value;
    const uint16_t half = type == NCCL_FLOAT16 ? reduce_half_from_float(single)
                                               : reduce_bfloat_from_float(single);
    const size_t width = reduce_type_bytes(type);
    const void *from = &whole; /* little-endian: the low bytes */

    if (type == NCCL_FLOAT64) {
        from = &value;
    } else if (type == NCCL_FLOAT32) {
        from = &single;
    } else if (type == NCCL_FLOAT16 || type == NCCL_BFLOAT16) {
        from = &half;
    }
    memcpy((unsigned char *)data + i * width, from, width);
}

/* A rank's input: `count` elements from element `from` on. */
static void fill(uint64_t memory, nccl_dtype type, int rank, size_t from, size_t count)
{
    size_t width = reduce_type_bytes(type);
    unsigned char *data = calloc(count, width);
    size_t i;

    CHECK(data != NULL);
    for (i = 0; i < count; i++) {
        set(type, data, i, input_value(rank, from + i));
    }
    CHECK(gpusim_write(memory, data, count * width));
    free(data);
}

/* Elements are what `expect` says. */
static void check(uint64_t memory, nccl_dtype type, size_t count,
        double (*expect)(const struct rank *rank, nccl_op op, size_t i),
        const struct rank *rank, nccl_op op)
{
    size_t width = reduce_type_bytes(type);
    unsigned char *data = calloc(count + 1, width);
    size_t i;

    CHECK(data != NULL);
    CHECK(gpusim_read(data, memory, count * width));
    for (i = 0; i < count; i++) {
        set(type, data, count, expect(rank, op, i)); /* the element behind the last */
        if (memcmp(data + i * width, data + count * width, width) != 0) {
            (void)fprintf(stderr, "rank %d, type %s, op %d, element %zu\n", rank->rank,
                    reduce_type_name(type), op, i);
            CHECK(false);
        }
    }
    free(data);
}

static double reduced(const struct rank *rank, nccl_op op, size_t i)
{
    double result = input_value(0, i);
    int other;

    for (other = 1; other < rank->ranks; other++) {
        double value = input_value(other, i);

        if (op == NCCL_SUM) {
            result += value;
        } else if (op == NCCL_PROD) {
            result *= value;
        } else if (op == NCCL_MAX) {
            result = result > value ? result : value;
        } else {
            result = result < value ? result : value;
        }
    }
    return result;
}

static double of_root(const struct rank *rank, nccl_op root, size_t i)
{
    (void)rank;
    return input_value(root, i);
}

static double gathered(const struct rank *rank, nccl_op op, size_t i)
{
    (void)rank;
    (void)op;
    return input_value((int)(i / COUNT), i % COUNT);
}

/* Each rank's block of the sum. */
static double scattered(const struct rank *rank, nccl_op op, size_t i)
{
    return reduced(rank, op, (size_t)rank->rank * COUNT + i);
}

/* Buffers of one type on one rank. */
struct work {
    struct rank *rank;
    nccl_dtype type;
    size_t width;
    uint64_t input; /* ranks * COUNT + PAD elements */
    uint64_t output;
};

static void *at(uint64_t memory, size_t element, const struct work *work)
{
    return rank_pointer(memory + element * work->width);
}

static void values_all_reduce(const struct work *work, nccl_op op)
{
    struct rank *rank = work->rank;

    fill(work->input, work->type, rank->rank, 0, COUNT);
    CHECK(ncclAllReduce(at(work->input, 0, work), at(work->output, 0, work), COUNT,
                  work->type, op, rank->comm, rank->stream) == NCCL_SUCCESS);
    CHECK(ncclAllReduce(at(work->input, 0, work), at(work->input, 0, work), COUNT,
                  work->type, op, rank->comm, rank->stream) == NCCL_SUCCESS);
    rank_sync(rank);
    check(work->output, work->type, COUNT, reduced, rank, op);
    check(work->input, work->type, COUNT, reduced, rank, op);
}

static void values_reduce(const struct work *work, nccl_op op)
{
    struct rank *rank = work->rank;
    int root = rank->ranks - 1;

    fill(work->input, work->type, rank->rank, 0, COUNT);
    CHECK(gpusim_fill(work->output, 0, COUNT * work->width));
    CHECK(ncclReduce(at(work->input, 0, work), at(work->output, 0, work), COUNT,
                  work->type, op, root, rank->comm, rank->stream) == NCCL_SUCCESS);
    rank_sync(rank);
    if (rank->rank == root) {
        check(work->output, work->type, COUNT, reduced, rank, op);
    } else {
        unsigned char first[8];

        CHECK(gpusim_read(first, work->output, work->width));
        CHECK(first[0] == 0);
    }
}

static void values_reduce_scatter(const struct work *work, nccl_op op)
{
    struct rank *rank = work->rank;
    size_t all = (size_t)rank->ranks * COUNT;
    size_t block = (size_t)rank->rank * COUNT;

    fill(work->input, work->type, rank->rank, 0, all);
    CHECK(ncclReduceScatter(at(work->input, 0, work), at(work->output, 0, work), COUNT,
                  work->type, op, rank->comm, rank->stream) == NCCL_SUCCESS);
    CHECK(ncclReduceScatter(at(work->input, 0, work), at(work->input, block, work),
                  COUNT, work->type, op, rank->comm, rank->stream) == NCCL_SUCCESS);
    rank_sync(rank);
    check(work->output, work->type, COUNT, scattered, rank, op);
    check(work->input + block * work->width, work->type, COUNT, scattered, rank, op);
}

static void values_moves(const struct work *work)
{
    struct rank *rank = work->rank;
    size_t all = (size_t)rank->ranks * COUNT;
    size_t block = (size_t)rank->rank * COUNT;
    int root;

    for (root = 0; root < rank->ranks; root++) {
        fill(work->input, work->type, rank->rank, 0, COUNT);
        CHECK(ncclBroadcast(at(work->input, 0, work), at(work->output, 0, work), COUNT,
                      work->type, root, rank->comm, rank->stream) == NCCL_SUCCESS);
        rank_sync(rank);
        check(work->output, work->type, COUNT, of_root, rank, root);
    }
    CHECK(ncclAllGather(at(work->input, 0, work), at(work->output, 0, work), COUNT,
                  work->type, rank->comm, rank->stream) == NCCL_SUCCESS);
    rank_sync(rank);
    check(work->output, work->type, all, gathered, rank, -1);
    fill(work->output + block * work->width, work->type, rank->rank, 0, COUNT);
    CHECK(ncclAllGather(at(work->output, block, work), at(work->output, 0, work), COUNT,
                  work->type, rank->comm, rank->stream) == NCCL_SUCCESS);
    rank_sync(rank);
    check(work->output, work->type, all, gathered, rank, -1);
}

/* Bytes behind the output are still the poison of fresh memory. */
static void check_pad(const struct work *work)
{
    unsigned char pad[PAD];
    size_t i;

    CHECK(gpusim_read(
            pad, work->output + (size_t)work->rank->ranks * COUNT * work->width, PAD));
    for (i = 0; i < PAD; i++) {
        CHECK(pad[i] == 0xcb);
    }
}

static void values_of_type(struct rank *rank, nccl_dtype type)
{
    struct work work = { .rank = rank, .type = type, .width = reduce_type_bytes(type) };
    size_t bytes = ((size_t)rank->ranks * COUNT + PAD) * work.width;
    nccl_op op;

    work.input = rank_alloc(bytes);
    work.output = rank_alloc(bytes);
    values_moves(&work);
    for (op = NCCL_SUM; op <= NCCL_MIN; op++) {
        values_all_reduce(&work, op);
        values_reduce(&work, op);
        values_reduce_scatter(&work, op);
    }
    check_pad(&work);
    rank_free(work.input);
    rank_free(work.output);
}

static void run_values(struct rank *rank)
{
    nccl_dtype type;

    rank_join(rank, 0, &rank->comm);
    for (type = NCCL_INT8; type <= NCCL_BFLOAT16; type++) {
        values_of_type(rank, type);
    }
    CHECK(ncclCommDestroy(rank->comm) == NCCL_SUCCESS);
}

/*
 * Partial sums are rounded to the type, in the order of ranks. In halves 2048 + 1 + 1 is 2048
 * and 1 + 1 + 2048 is 2050.
 */
static void run_rounding(struct rank *rank)
{
    uint16_t values[2] = {
        reduce_half_from_float(rank->rank == 0 ? 2048.0F : 1.0F),
        reduce_half_from_float(rank->rank == rank->ranks - 1 ? 2048.0F : 1.0F),
    };
    uint64_t memory = rank_alloc(sizeof values);

    rank_join(rank, 0, &rank->comm);
    CHECK(gpusim_write(memory, values, sizeof values));
    CHECK(ncclAllReduce(rank_pointer(memory), rank_pointer(memory), 2, NCCL_FLOAT16,
                  NCCL_SUM, rank->comm, rank->stream) == NCCL_SUCCESS);
    rank_sync(rank);
    CHECK(gpusim_read(values, memory, sizeof values));
    CHECK(values[0] == reduce_half_from_float(2048.0F));
    CHECK(values[1] == reduce_half_from_float(2050.0F));
    CHECK(ncclCommDestroy(rank->comm) == NCCL_SUCCESS);
    rank_free(memory);
}

/* Through several chunks of shared memory. */
static void run_large(struct rank *rank)
{
    size_t count = 2 * SEGMENT_CHUNK_BYTES / sizeof(float) + 7;
    uint64_t memory = rank_alloc(count * sizeof(float));
    float *values = malloc(count * sizeof *values);
    size_t i;

    CHECK(values != NULL);
    rank_join(rank, 0, &rank->comm);
    for (i = 0; i < count; i++) {
        values[i] = (float)(i % 1000) + (float)rank->rank;
    }
    CHECK(gpusim_write(memory, values, count * sizeof *values));
    CHECK(ncclAllReduce(rank_pointer(memory), rank_pointer(memory), count, NCCL_FLOAT32,
                  NCCL_SUM, rank->comm, rank->stream) == NCCL_SUCCESS);
    rank_sync(rank);
    CHECK(gpusim_read(values, memory, count * sizeof *values));
    for (i = 0; i < count; i++) {
        CHECK(values[i] ==
                (float)(rank->ranks * (int)(i % 1000) +
                        rank->ranks * (rank->ranks - 1) / 2));
    }
    free(values);
    CHECK(ncclCommDestroy(rank->comm) == NCCL_SUCCESS);
    rank_free(memory);
}

/* Rank a sends b messages of a + 1, 3000 and a * 100000 elements to rank b; 0 is a length. */
static size_t message_length(int from, int message)
{
    return message == 0    ? (size_t)from + 1
            : message == 1 ? 3000
                           : (size_t)from * 100000;
}

static void run_pairs(struct rank *rank)
{
    enum {
        MESSAGES = 3,
        ROOM = 300001
    };
    uint64_t out = rank_alloc(ROOM * sizeof(int32_t));
    uint64_t in = rank_alloc((size_t)rank->ranks * MESSAGES * ROOM * sizeof(int32_t));
    int32_t *values = malloc(ROOM * sizeof *values);
    int peer;
    int message;
    size_t i;

    CHECK(values != NULL);
    rank_join(rank, 0, &rank->comm);
    for (i = 0; i < ROOM; i++) {
        values[i] = (int32_t)i * 10 + rank->rank;
    }
    CHECK(gpusim_write(out, values, ROOM * sizeof *values));
    CHECK(ncclGroupStart() == NCCL_SUCCESS);
    for (peer = 0; peer < rank->ranks; peer++) {
        for (message = 0; message < MESSAGES; message++) {
            size_t slot = (size_t)(peer * MESSAGES + message) * ROOM * sizeof(int32_t);

            CHECK(ncclSend(rank_pointer(out), message_length(rank->rank, message),
                          NCCL_INT32, peer, rank->comm, rank->stream) == NCCL_SUCCESS);
            CHECK(ncclRecv(rank_pointer(in + slot), message_length(peer, message),
                          NCCL_INT32, peer, rank->comm, rank->stream) == NCCL_SUCCESS);
        }
    }
    CHECK(ncclGroupEnd() == NCCL_SUCCESS);
    rank_sync(rank);
    for (peer = 0; peer < rank->ranks; peer++) {
        for (message = 0; message < MESSAGES; message++) {
            size_t slot = (size_t)(peer * MESSAGES + message) * ROOM * sizeof(int32_t);
            size_t length = message_length(peer, message);

            CHECK(gpusim_read(values, in + slot, ROOM * sizeof *values));
            for (i = 0; i < length; i++) {
                CHECK(values[i] == (int32_t)i * 10 + peer);
            }
            CHECK((uint32_t)values[length] == 0xcbcbcbcbU);
        }
    }
    free(values);
    CHECK(ncclCommDestroy(rank->comm) == NCCL_SUCCESS);
    rank_free(out);
    rank_free(in);
}

/* Collectives and an exchange in one group, on two streams: ordered with what is on both. */
static void run_group(struct rank *rank)
{
    int32_t value = rank->rank + 1;
    uint64_t memory[4];
    cu_stream second;
    int i;

    CHECK(cuStreamCreateWithPriority(&second, 1, 0) == CU_SUCCESS);
    rank_join(rank, 0, &rank->comm);
    for (i = 0; i < 4; i++) {
        memory[i] = rank_alloc(sizeof value);
    }
    CHECK(cuMemsetD8Async(memory[0], 1, sizeof value, rank->stream) == CU_SUCCESS);
    CHECK(cuMemsetD8Async(memory[1], 2, sizeof value, second) == CU_SUCCESS);
    CHECK(ncclGroupStart() == NCCL_SUCCESS);
    CHECK(ncclGroupStart() == NCCL_SUCCESS); /* groups in groups are one */
    CHECK(ncclAllReduce(rank_pointer(memory[0]), rank_pointer(memory[0]), 1, NCCL_INT32,
                  NCCL_SUM, rank->comm, rank->stream) == NCCL_SUCCESS);
    CHECK(ncclGroupEnd() == NCCL_SUCCESS);
    CHECK(gpusim_pending(rank->stream) <= 1);
    CHECK(ncclAllReduce(rank_pointer(memory[1]), rank_pointer(memory[1]), 1, NCCL_INT32,
                  NCCL_MAX, rank->comm, second) == NCCL_SUCCESS);
    CHECK(ncclSend(rank_pointer(memory[2]), 1, NCCL_INT32,
                  (rank->rank + 1) % rank->ranks, rank->comm, second) == NCCL_SUCCESS);
    CHECK(ncclRecv(rank_pointer(memory[3]), 1, NCCL_INT32,
                  (rank->rank + rank->ranks - 1) % rank->ranks, rank->comm,
                  rank->stream) == NCCL_SUCCESS);
    CHECK(gpusim_write(memory[2], &value, sizeof value));
    CHECK(ncclGroupEnd() == NCCL_SUCCESS);
    CHECK(cuStreamSynchronize(second) ==
            CU_SUCCESS); /* ordered behind the first's work */
    CHECK(gpusim_read(&value, memory[0], sizeof value));
    CHECK(value == rank->ranks * 0x01010101);
    CHECK(gpusim_read(&value, memory[1], sizeof value));
    CHECK(value == 0x02020202);
    CHECK(gpusim_read(&value, memory[3], sizeof value));
    CHECK(value == (rank->rank + rank->ranks - 1) % rank->ranks + 1);
    rank_sync(rank);
    CHECK(ncclCommDestroy(rank->comm) == NCCL_SUCCESS);
    for (i = 0; i < 4; i++) {
        rank_free(memory[i]);
    }
}

/* clang-format off */
const struct rank_case cases_values[] = {
    { .name = "values", .body = run_values },
    { .name = "rounding", .body = run_rounding },
    { .name = "large", .body = run_large },
    { .name = "pairs", .body = run_pairs },
    { .name = "group", .body = run_group },
    { .name = NULL },
};
/* clang-format on */
