/*
 * The pack kernels, compiled for the host: every pair of types, both directions, all
 * alignments and lengths around the edges of vectors and chunks, all forms of a launch,
 * compared with the definition. Memory around what is written must stay, and memory is
 * allocated so that a sanitizer sees whatever is read or written beyond.
 */
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "ops/gpu/kernels/kernels.h"
#include "test/batch/reference.h"
#include "test/gpusim/bodies.h"
#include "test/unit/unit.h"

#define GUARD_BYTE 0xa7
#define GUARD_BYTES 64
/* Tensors begin so in the packed buffer. */
#define PACKED_ALIGNMENT 128

static const struct kernel_target small_target = { .sm_count = 1,
    .parameter_bytes = KERNEL_SMALL_BYTES };
static const struct kernel_target large_target = { .sm_count = 3,
    .parameter_bytes = KERNEL_LARGE_BYTES };

/** A tensor of a batch, with memory of its own that ends where it ends. */
struct tensor {
    unsigned char *memory;
    unsigned char *elements; /* at the wanted distance from a boundary of 16 bytes */
    uint64_t count;
};

/** What is packed and how. */
struct batch {
    tutti_dtype tensor_type, packed_type;
    struct tensor tensors[PACK_LARGE_PIECES];
    size_t tensor_count;
    unsigned char *packed; /* on a boundary of 128 bytes */
    size_t packed_bytes; /* up to the boundary behind the last tensor */
    struct pack_plan plan;
};

static uint64_t random_state = 88172645463325252U;

static uint64_t next_random(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state;
}

static uint64_t address_of(const void *memory)
{
    return (uint64_t)(uintptr_t)memory;
}

/* ----------------------------------------------------------------------- reference */

/** What happens to an element between two places. */
struct pack_step {
    tutti_dtype from, to;
    double scale; /* of floats */
    int divisor;
};

static double rounded(bool is_double, double value)
{
    return is_double ? value : (double)(float)value;
}

/* As in test/batch/reference.c: float64 rounded is what float32 gives. */
static double float_step(const struct pack_step *step, double x)
{
    const bool is_double = step->from == TUTTI_FLOAT64 || step->to == TUTTI_FLOAT64;
    const double quotient = rounded(is_double, x / step->divisor);

    return rounded(is_double, quotient * rounded(is_double, step->scale));
}

/* Little-endian. */
static void integer_step(const struct pack_step *step, const void *from, void *to)
{
    const size_t bytes = tutti_dtype_size(step->from);
    uint64_t value = 0;

    memcpy(&value, from, bytes);
    if (dtype_is_signed_integer(step->from) && (value >> (8 * bytes - 1) & 1) != 0) {
        value |= bytes == 8 ? 0 : UINT64_MAX << (8 * bytes);
        value = 0 - (0 - value) / (uint64_t)step->divisor;
    } else {
        value /= (uint64_t)step->divisor;
    }
    if (step->from == TUTTI_BOOL || step->to == TUTTI_BOOL) {
        value = value != 0;
    }
    memcpy(to, &value, tutti_dtype_size(step->to));
}

/* *to = cast(*from / divisor * scale), at any alignment: slow, and by its definition. */
static void pack_reference(const struct pack_step *step, const void *from, void *to)
{
    if (step->from == step->to && step->scale == 1 && step->divisor == 1) {
        memcpy(to, from, tutti_dtype_size(step->from));
    } else if (dtype_is_float(step->from)) {
        reference_store_real(
                step->to, float_step(step, reference_load_real(step->from, from)), to);
    } else {
        integer_step(step, from, to);
    }
}

/* ------------------------------------------------------------------------- batches */

/* Any bits: also NaN, infinity and subnormal numbers; and often short ones: averages. */
static void fill(tutti_dtype dtype, unsigned char *elements, uint64_t count)
{
    const size_t bytes = tutti_dtype_size(dtype);
    const float values[] = { 0, -0.0F, 1, -1, 65504, 1e-7F, 65520, 1e30F };

    for (uint64_t i = 0; i < count; i++) {
        uint64_t bits = next_random();

        if (dtype == TUTTI_FLOAT32 && (bits & 3) == 0) {
            memcpy(&bits, &values[bits >> 8 & 7], sizeof values[0]);
        } else if (!dtype_is_float(dtype) && (bits & 3) == 0) {
            bits = (uint64_t)((int64_t)bits >> 60); /* -8 to 7 */
        }
        memcpy(elements + i * bytes, &bits, bytes);
    }
}

static void add_tensor(struct batch *batch, uint64_t count, size_t shift)
{
    struct tensor *tensor = &batch->tensors[batch->tensor_count++];
    const size_t bytes = count * tutti_dtype_size(batch->tensor_type);

    assert_true(batch->tensor_count <= PACK_LARGE_PIECES);
    tensor->memory = malloc(GUARD_BYTES + shift + bytes);
    assert_non_null(tensor->memory);
    memset(tensor->memory, GUARD_BYTE, GUARD_BYTES + shift);
    tensor->elements = tensor->memory + GUARD_BYTES + shift;
    tensor->count = count;
    fill(batch->tensor_type, tensor->elements, count);
    pack_plan_add(
            &batch->plan, address_of(tensor->elements), count, batch->packed_bytes);
    batch->packed_bytes =
            (batch->packed_bytes + count * tutti_dtype_size(batch->packed_type) +
                    PACKED_ALIGNMENT - 1) /
            PACKED_ALIGNMENT * PACKED_ALIGNMENT;
}

static void init_batch(struct batch *batch, tutti_dtype tensor, tutti_dtype packed)
{
    memset(batch, 0, sizeof *batch);
    batch->tensor_type = tensor;
    batch->packed_type = packed;
    pack_plan_init(&batch->plan, tensor, packed);
}

/* The packed buffer ends with the last element: no more may be touched. */
static void allocate_packed(struct batch *batch)
{
    const struct pack_piece *last = &batch->plan.args.pieces[batch->tensor_count - 1];
    const size_t bytes =
            last->packed + last->count * tutti_dtype_size(batch->packed_type);
    const size_t rounded = (bytes + PACKED_ALIGNMENT - 1) / PACKED_ALIGNMENT;
    unsigned char *memory = aligned_alloc(PACKED_ALIGNMENT, rounded * PACKED_ALIGNMENT);

    assert_non_null(memory);
    batch->packed = memory;
    memset(memory, GUARD_BYTE, rounded * PACKED_ALIGNMENT);
}

static void fini_batch(struct batch *batch)
{
    for (size_t i = 0; i < batch->tensor_count; i++) {
        free(batch->tensors[i].memory);
    }
    free(batch->packed);
}

static void run(struct kernel_launch launch, const void *args)
{
    void *exact =
            malloc(launch.args_bytes); /* a sanitizer sees more than the kernel's */

    assert_non_null(exact);
    memcpy(exact, args, launch.args_bytes);
    kernel_body_of(launch.kernel)(exact, launch.grid, launch.threads);
    free(exact);
}

static void launch_batch(struct batch *batch, const struct pack_work *wanted,
        const struct kernel_target *target)
{
    struct pack_work work = *wanted;

    work.packed = address_of(batch->packed);
    run(pack_launch(&batch->plan, &work, target), &batch->plan.args);
}

/* -------------------------------------------------------------------------- checks */

static void check_elements(const struct pack_step *step, const unsigned char *from,
        const unsigned char *to, uint64_t count)
{
    const size_t from_bytes = tutti_dtype_size(step->from);
    const size_t to_bytes = tutti_dtype_size(step->to);
    unsigned char expected[8];

    for (uint64_t i = 0; i < count; i++) {
        pack_reference(step, from + i * from_bytes, expected);
        if (!reference_equal(step->to, expected, to + i * to_bytes, 1)) {
            print_error("%s to %s, scale %g, divisor %d: element %llu of %llu\n",
                    tutti_dtype_name(step->from), tutti_dtype_name(step->to),
                    step->scale, step->divisor, (unsigned long long)i,
                    (unsigned long long)count);
            assert_memory_equal(expected, to + i * to_bytes, to_bytes);
        }
    }
}

/* What was moved, and the guards in front of tensors and behind what is packed. */
static void check_moved(const struct batch *batch, const struct pack_work *work)
{
    const bool gathers = work->direction == PACK_GATHER;
    const struct pack_step step = { .from = gathers ? batch->tensor_type
                                                    : batch->packed_type,
        .to = gathers ? batch->packed_type : batch->tensor_type,
        .scale = work->scale,
        .divisor = work->divisor };

    for (size_t i = 0; i < batch->tensor_count; i++) {
        const struct tensor *tensor = &batch->tensors[i];
        const struct pack_piece *piece = &batch->plan.args.pieces[i];
        unsigned char *packed = batch->packed + piece->packed;
        const unsigned char *next = batch->packed +
                (i + 1 < batch->tensor_count ? piece[1].packed : batch->packed_bytes);

        check_elements(&step, gathers ? tensor->elements : packed,
                gathers ? packed : tensor->elements, tensor->count);
        for (const unsigned char *at = tensor->memory; at < tensor->elements; at++) {
            assert_int_equal(*at, GUARD_BYTE);
        }
        for (packed += tensor->count * tutti_dtype_size(batch->packed_type);
                packed < next; packed++) {
            assert_int_equal(*packed, GUARD_BYTE);
        }
    }
}

/* Into the packed buffer, and, with other values in it, out of it. */
static void check_both_ways(struct batch *batch, double scale, int divisor,
        const struct kernel_target *target)
{
    const struct pack_work gather = {
        .direction = PACK_GATHER, .scale = scale, .divisor = 1
    };
    const struct pack_work scatter = {
        .direction = PACK_SCATTER, .scale = scale, .divisor = divisor
    };

    launch_batch(batch, &gather, target);
    check_moved(batch, &gather);
    for (size_t i = 0; i < batch->tensor_count; i++) {
        fill(batch->packed_type, batch->packed + batch->plan.args.pieces[i].packed,
                batch->tensors[i].count);
    }
    launch_batch(batch, &scatter, target);
    check_moved(batch, &scatter);
}

/* ---------------------------------------------------------------------------- tests */

/* Lengths around the edges of vectors and chunks, at one alignment. */
static void check_lengths(
        tutti_dtype tensor, tutti_dtype packed, size_t shift, double scale, int divisor)
{
    static const uint64_t short_counts[] = { 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 23, 31,
        32, 33, 47, 63, 64, 65, 127, 255, 1000, 1029 };
    static struct batch batch;
    const size_t wider = tutti_dtype_size(tensor) > tutti_dtype_size(packed)
            ? tutti_dtype_size(tensor)
            : tutti_dtype_size(packed);
    const uint64_t chunk = PACK_CHUNK_BYTES / wider;

    init_batch(&batch, tensor, packed);
    for (size_t i = 0; i < sizeof short_counts / sizeof short_counts[0]; i++) {
        add_tensor(&batch, short_counts[i], shift);
    }
    if (shift % 5 == 0) {
        add_tensor(&batch, chunk - 1, shift);
        add_tensor(&batch, chunk, shift);
        add_tensor(&batch, chunk + 1, shift);
        add_tensor(&batch, 2 * chunk + 17, shift);
    }
    allocate_packed(&batch);
    check_both_ways(&batch, scale, divisor, &small_target);
    fini_batch(&batch);
}

static void check_pair(tutti_dtype tensor, tutti_dtype packed)
{
    const bool is_float = dtype_is_float(tensor);
    const bool is_moved = tensor == packed && tensor >= TUTTI_BOOL; /* no arithmetic */

    for (size_t shift = 0; shift <= 16; shift++) {
        check_lengths(tensor, packed, shift, 1, 1);
        if (!is_moved) {
            check_lengths(tensor, packed, shift, is_float ? 0.37 : 1, 3);
        }
    }
    if (is_moved) {
        return;
    }
    check_lengths(tensor, packed, 0, 1, 8);
    check_lengths(tensor, packed, 0, is_float ? 3.1 : 1, 4);
    check_lengths(tensor, packed, 0, 1, 7);
}

UNIT_TEST(test_every_pair_of_types_at_every_alignment)
{
    size_t pairs = 0;

    for (int tensor = 0; tensor <= TUTTI_FLOAT8_E5M2; tensor++) {
        for (int packed = 0; packed <= TUTTI_FLOAT8_E5M2; packed++) {
            if (pack_is_supported((tutti_dtype)tensor, (tutti_dtype)packed)) {
                check_pair((tutti_dtype)tensor, (tutti_dtype)packed);
                pairs++;
            }
        }
    }
    /* floats 4 + 4; integers 8 + 6 to 64 bits + 4 from 8 + 2 from 16 to 32; bool; moved 3 */
    assert_int_equal(pairs, 8 + 8 + 12 + 1 + 3);
}

/* So many tensors that they are passed in each of the forms. */
static void check_many(size_t tensors, const struct kernel_target *target)
{
    static struct batch batch;

    init_batch(&batch, TUTTI_FLOAT32, TUTTI_BFLOAT16);
    for (size_t i = 0; i < tensors; i++) {
        add_tensor(&batch, i % 97 == 0 ? 9000 + i : 1 + next_random() % 90, i % 4 * 4);
    }
    allocate_packed(&batch);
    check_both_ways(&batch, 0.5, 3, target);
    fini_batch(&batch);
}

UNIT_TEST(test_every_form_finds_its_pieces)
{
    check_many(1, &small_target);
    check_many(PACK_SMALL_PIECES, &small_target);
    check_many(PACK_SMALL_PIECES + 1, &large_target);
    check_many(PACK_LARGE_PIECES, &large_target);
}

/* The buffer of a slice may begin anywhere: nothing depends on its alignment. */
UNIT_TEST(test_packed_offsets_may_be_odd)
{
    static struct batch batch;

    for (size_t offset = 0; offset < 32; offset++) {
        init_batch(&batch, TUTTI_FLOAT16, TUTTI_FLOAT32);
        add_tensor(&batch, 1000, 6);
        batch.plan.args.pieces[0].packed = offset;
        allocate_packed(&batch);
        check_both_ways(&batch, 1, 5, &small_target);
        fini_batch(&batch);
    }
}
