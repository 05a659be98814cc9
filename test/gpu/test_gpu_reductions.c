/*
 * Every reduction of the GPU backend: operation x type x {one tensor, several side by side,
 * several anywhere, side by side on every other rank} x {in place or not} x {scaled or not},
 * over the simulated GPU, compared with the definition; and by which path.
 *
 *     test_gpu_reductions RANKS NCCL [nodes COUNT] [PARAMETER VALUE]...
 *
 * With several nodes only allreduces are done.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "test/gpu/backend.h"
#include "test/gpusim/gpusim_test.h"
#include "test/suite/reference.h"

#define TENSORS 3
#define ELEMENTS_MAX 300
#define ELEMENT_MAX 8
#define AROUND 256
#define FILLER 0x5a

enum placing {
    SINGLE,
    SIDE_BY_SIDE,
    ANYWHERE,
    MIXED, /* SIDE_BY_SIDE on rank 0, ANYWHERE on rank 1, and so on */
    PLACINGS
};

/* What a case asks for. */
struct kind {
    tutti_collective collective;
    tutti_dtype dtype;
    tutti_reduce_op op;
    enum placing placing;
    bool in_place;
    bool scaled;
    bool even; /* parts of a REDUCESCATTER */
};

static const size_t counts[TENSORS] = { 37, 300, 4 };

static bool has_nodes(const struct backend_rank *r)
{
    return r->world->node_of[r->world->size - 1] > 0;
}

static bool has_steps(const struct backend_rank *r)
{
    return has_nodes(r) && r->config.gpu_hierarchical == CONFIG_GPU_HIERARCHICAL_NCCL &&
            r->gpu->nccl->comm_split != NULL;
}

static bool halves_are_floats(const struct backend_rank *r)
{
    return r->config.gpu_half_sums == CONFIG_GPU_HALF_SUMS_FLOAT;
}

/* Small whole numbers, other ones on each rank: sums are exact in all types. */
static void fill(
        tutti_dtype dtype, int rank, size_t tensor, unsigned char *to, size_t count)
{
    const size_t bytes = tutti_dtype_size(dtype);

    for (size_t e = 0; e < count; e++) {
        const int64_t small = (int64_t)((e + 3 * tensor) % 5) - 2 + rank;
        const int64_t value = dtype == TUTTI_BOOL ? small > 0 : small;

        if (dtype_is_real(dtype)) {
            reference_store_real(dtype, (double)value, to + e * bytes);
        } else {
            memcpy(to + e * bytes, &value, bytes); /* little-endian */
        }
    }
}

/* As fill(), but a true bool is any value: not only 1 counts. */
static void fill_loosely(
        tutti_dtype dtype, int rank, size_t tensor, unsigned char *to, size_t count)
{
    fill(dtype, rank, tensor, to, count);
    for (size_t e = 0; dtype == TUTTI_BOOL && e < count; e++) {
        to[e] = (unsigned char)(to[e] * (1 + e % 3));
    }
}

static size_t count_of(
        const struct backend_rank *r, const struct kind *kind, size_t tensor)
{
    const size_t size = (size_t)r->world->size;

    return kind->collective == TUTTI_REDUCESCATTER && kind->even
            ? counts[tensor] / size * size + size
            : counts[tensor];
}

static size_t tensors_of(const struct kind *kind)
{
    return kind->placing == SINGLE ? 1 : TENSORS;
}

/* The elements of a tensor that a member gets. */
static size_t part_of(const struct backend_rank *r, const struct kind *kind,
        size_t tensor, int member, size_t *first)
{
    const size_t count = count_of(r, kind, tensor);
    const size_t size = (size_t)r->world->size;
    const size_t index = (size_t)member;

    *first = index * (count / size) + (index < count % size ? index : count % size);
    return count / size + (index < count % size ? 1 : 0);
}

static void expected_of(const struct backend_rank *r, const struct kind *kind,
        size_t tensor, unsigned char *result)
{
    static const int ranks[BACKEND_RANKS_MAX] = { 0, 1, 2, 3, 4, 5 };
    unsigned char inputs[BACKEND_RANKS_MAX][ELEMENTS_MAX * 2 * ELEMENT_MAX];
    const void *list[BACKEND_RANKS_MAX];
    const size_t count = count_of(r, kind, tensor);

    for (int i = 0; i < r->world->size; i++) {
        fill(kind->dtype, i, tensor, inputs[i], count);
        list[i] = inputs[i];
    }
    reference_reduce(&(struct reduction){ .collective = kind->collective,
                             .dtype = kind->dtype,
                             .op = kind->op,
                             .prescale = kind->scaled ? 2.0 : 1.0,
                             .postscale = kind->scaled ? 0.25 : 1.0,
                             .n = r->world->size,
                             .inputs = list,
                             .ranks = ranks },
            result, count);
}

static bool is_anywhere(const struct backend_rank *r, const struct kind *kind)
{
    return kind->placing == ANYWHERE || (kind->placing == MIXED && r->rank % 2 == 1);
}

/* Memory of others around a tensor. */
struct around {
    unsigned char *block;
    size_t before, bytes; /* in front of the tensor; in all */
};

struct batch_of {
    struct around around[2 * TENSORS];
    size_t around_count;
    struct op_run runs[TENSORS];
    struct op_part parts[TENSORS][BACKEND_RANKS_MAX];
    struct op_set set;
    struct op_batch batch;
};

static unsigned char *place(struct backend_rank *r, const struct kind *kind,
        struct batch_of *b, size_t bytes)
{
    const size_t gap = 8 * b->around_count + tutti_dtype_size(kind->dtype);
    struct around *around = &b->around[b->around_count];

    if (!is_anywhere(r, kind)) {
        return backend_alloc(r, bytes);
    }
    b->around_count++;
    around->before = gap;
    around->bytes = gap + bytes + AROUND;
    around->block = backend_alloc(r, around->bytes);
    CHECK(gpusim_fill((uint64_t)(uintptr_t)around->block, FILLER, around->bytes));
    return around->block + gap;
}

/* Neither is touched, whatever is packed. */
static void check_around(struct backend_rank *r, const struct batch_of *b)
{
    for (const struct around *a = b->around; a < b->around + b->around_count; a++) {
        unsigned char bytes[AROUND];
        const size_t behind = a->bytes - AROUND;

        CHECK(a->before <= AROUND);
        backend_read(r, bytes, a->block, a->before);
        for (size_t i = 0; i < a->before; i++) {
            CHECK(bytes[i] == FILLER);
        }
        backend_read(r, bytes, a->block + behind, AROUND);
        for (size_t i = 0; i < AROUND; i++) {
            CHECK(bytes[i] == FILLER);
        }
    }
}

static void make_run(
        struct backend_rank *r, const struct kind *kind, struct batch_of *b, size_t t)
{
    const size_t element = tutti_dtype_size(kind->dtype);
    const size_t count = count_of(r, kind, t);
    unsigned char host[ELEMENTS_MAX * 2 * ELEMENT_MAX];
    unsigned char *input = place(r, kind, b, count * element);
    struct op_run *run = &b->runs[t];

    fill_loosely(kind->dtype, r->rank, t, host, count);
    backend_write(r, input, host, count * element);
    *run = (struct op_run){ .input = input, .output = input, .count = count };
    if (kind->collective != TUTTI_REDUCESCATTER) {
        return;
    }
    for (int m = 0; m < r->world->size; m++) {
        size_t first = 0;
        const size_t part = part_of(r, kind, t, m, &first);

        b->parts[t][m] = (struct op_part){ first * element, part * element };
    }
    run->sends = b->parts[t];
    run->output = input + b->parts[t][r->rank].offset;
}

static void make_output(
        struct backend_rank *r, const struct kind *kind, struct batch_of *b, size_t t)
{
    const size_t element = tutti_dtype_size(kind->dtype);

    if (!kind->in_place) {
        b->runs[t].output = place(r, kind, b, count_of(r, kind, t) * element);
    }
    if (kind->collective == TUTTI_REDUCE && r->rank != r->world->size - 1) {
        b->runs[t].output = NULL;
    }
}

static void make(struct backend_rank *r, const struct kind *kind, struct batch_of *b)
{
    *b = (struct batch_of){ .batch = { .set = NULL } };
    b->set = backend_set(r);
    for (size_t t = 0; t < tensors_of(kind); t++) {
        make_run(r, kind, b, t);
    }
    for (size_t t = 0; t < tensors_of(kind); t++) {
        make_output(r, kind, b, t);
    }
    b->batch = (struct op_batch){ .set = &b->set,
        .collective = kind->collective,
        .dtype = kind->dtype,
        .op = kind->op,
        .divisor = r->world->size,
        .prescale = kind->scaled ? 2.0 : 1.0,
        .postscale = kind->scaled ? 0.25 : 1.0,
        .root = r->world->size - 1,
        .runs = b->runs,
        .run_count = tensors_of(kind),
        .space = OP_DEVICE };
}

static void check_outputs(
        struct backend_rank *r, const struct kind *kind, const struct batch_of *b)
{
    const size_t element = tutti_dtype_size(kind->dtype);

    for (size_t t = 0; t < tensors_of(kind); t++) {
        unsigned char expected[ELEMENTS_MAX * 2 * ELEMENT_MAX];
        unsigned char result[ELEMENTS_MAX * 2 * ELEMENT_MAX];
        size_t count = count_of(r, kind, t);
        size_t first = 0;
        bool is_equal;

        expected_of(r, kind, t, expected);
        if (kind->collective == TUTTI_REDUCESCATTER) {
            count = part_of(r, kind, t, r->rank, &first);
        }
        if (b->runs[t].output == NULL) {
            continue;
        }
        backend_read(r, result, b->runs[t].output, count * element);
        is_equal =
                reference_equal(kind->dtype, expected + first * element, result, count);
        if (!is_equal) {
            (void)fprintf(stderr,
                    "%s %s of %s, placing %d, in place %d, scaled %d, even %d: tensor "
                    "%zu\n",
                    tutti_collective_name(kind->collective),
                    tutti_reduce_name(kind->op), tutti_dtype_name(kind->dtype),
                    (int)kind->placing, kind->in_place, kind->scaled, kind->even, t);
        }
        CHECK(is_equal);
    }
}

/* Inputs that are not outputs stay as they are. */
static void check_inputs(
        struct backend_rank *r, const struct kind *kind, const struct batch_of *b)
{
    const size_t element = tutti_dtype_size(kind->dtype);

    for (size_t t = 0; t < tensors_of(kind); t++) {
        unsigned char before[ELEMENTS_MAX * 2 * ELEMENT_MAX];
        unsigned char after[ELEMENTS_MAX * 2 * ELEMENT_MAX];
        const size_t bytes = count_of(r, kind, t) * element;

        fill_loosely(kind->dtype, r->rank, t, before, count_of(r, kind, t));
        backend_read(r, after, b->runs[t].input, bytes);
        CHECK(memcmp(before, after, bytes) == 0);
    }
}

/* By which path an ALLREDUCE must have gone. */
static void check_path(struct backend_rank *r, const struct kind *kind)
{
    const bool half = kind->dtype == TUTTI_FLOAT16 || kind->dtype == TUTTI_BFLOAT16;
    const bool selects = kind->op == TUTTI_MIN || kind->op == TUTTI_MAX;
    const bool is_16 = kind->dtype == TUTTI_INT16 || kind->dtype == TUTTI_UINT16;
    const bool casts = kind->dtype == TUTTI_BOOL || is_16 ||
            (half && (!selects || kind->scaled) && halves_are_floats(r)) ||
            (!dtype_is_real(kind->dtype) && kind->op == TUTTI_AVERAGE &&
                    tutti_dtype_size(kind->dtype) < 8);
    const bool packs = casts || is_anywhere(r, kind);
    const bool whole = !packs && !kind->scaled && kind->op != TUTTI_AVERAGE;

    if (kind->collective != TUTTI_ALLREDUCE) {
        return;
    }
    CHECK(r->counts.hierarchical == (has_steps(r) ? 1 : 0));
    if (r->config.gpu_register) {
        CHECK(r->counts.packed == 1);
        return;
    }
    CHECK(r->counts.packed == (packs ? 1 : 0));
    CHECK(r->counts.in_place == (!packs && kind->placing != SINGLE ? 1 : 0));
    CHECK(packs || !whole || r->counts.launches == 0);
    CHECK(!packs || r->counts.launches == 2);
}

static void run_kind(struct backend_rank *r, const struct kind *kind)
{
    struct batch_of b;

    make(r, kind, &b);
    if (!op_gpu.accepts(r->state, &b.batch)) {
        CHECK(kind->dtype == TUTTI_BOOL && kind->op != TUTTI_MIN &&
                kind->op != TUTTI_MAX);
    } else {
        r->counts.packed = r->counts.in_place = r->counts.launches = 0;
        r->counts.hierarchical = 0;
        backend_do(r, &b.batch);
        check_outputs(r, kind, &b);
        check_around(r, &b);
        check_path(r, kind);
        if (!kind->in_place) {
            check_inputs(r, kind, &b);
        }
    }
    /* Memory is not given back: what fills holes does not lie side by side. */
}

static void run_type(struct backend_rank *r, tutti_dtype dtype)
{
    static const tutti_collective collectives[] = { TUTTI_ALLREDUCE, TUTTI_REDUCE,
        TUTTI_REDUCESCATTER };

    for (int op = TUTTI_SUM; op <= TUTTI_PRODUCT; op++) {
        for (unsigned i = 0; i < (has_nodes(r) ? 1u : 3u) * PLACINGS * 8u; i++) {
            const struct kind kind = { .collective = collectives[i / 8 / PLACINGS],
                .dtype = dtype,
                .op = (tutti_reduce_op)op,
                .placing = (enum placing)(i / 8 % PLACINGS),
                .in_place = (i & 1) != 0,
                .scaled = (i & 2) != 0 && dtype_is_real(dtype),
                .even = (i & 4) != 0 };

            if (reference_accepts(dtype, kind.op) &&
                    ((i & 2) == 0 || dtype_is_real(dtype)) &&
                    ((i & 4) == 0 || kind.collective == TUTTI_REDUCESCATTER)) {
                run_kind(r, &kind);
            }
        }
    }
}

static void body(struct backend_rank *r)
{
    const struct op_set set = backend_set(r);

    backend_meet(r, &set, true);
    for (int dtype = TUTTI_UINT8; dtype <= TUTTI_BOOL; dtype++) {
        run_type(r, (tutti_dtype)dtype);
    }
}

/* Ranks of a node are not neighbours. */
static void spread(struct backend_world *world, int nodes)
{
    for (int r = 0; r < world->size; r++) {
        world->node_of[r] = r % nodes;
    }
}

int main(int argc, char **argv)
{
    static struct backend_world world = { .body = body };
    int64_t size = 0;
    int64_t nodes = 0;

    if (argc < 3 || !text_to_int64(argv[1], &size)) {
        return 2;
    }
    world.size = (int)size;
    backend_library(&world, argv[0], argv[2]);
    for (int i = 3; i + 1 < argc && i < 11; i += 2) {
        if (strcmp(argv[i], "nodes") == 0 && text_to_int64(argv[i + 1], &nodes)) {
            spread(&world, (int)nodes);
        } else {
            backend_set_parameter(&world, argv[i], argv[i + 1]);
        }
    }
    backend_run(&world);
    return 0;
}
