/*
 * Layouts of batches, and what a launch of one needs.
 */
#include <assert.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/status.h"
#include "ops/gpu/kernels/kernels.h"

/* Kernel parameters of more than 4 KiB came with this CUDA driver. */
#define LARGE_PARAMETERS_DRIVER 12010

/* A table: the pieces, and behind them the piece of each chunk. */

static bool is_integer(tutti_dtype dtype)
{
    return dtype <= TUTTI_INT64;
}

static bool is_signed(tutti_dtype dtype)
{
    return dtype == TUTTI_INT8 || dtype == TUTTI_INT16 || dtype == TUTTI_INT32 ||
            dtype == TUTTI_INT64;
}

/** The kernel that converts between two types of floats; KERNEL_FAMILIES: none. */
static enum kernel_family float_family(tutti_dtype from, tutti_dtype to)
{
    static const struct {
        tutti_dtype from, to;
        enum kernel_family family;
    } families[] = {
        { TUTTI_FLOAT16, TUTTI_FLOAT16, FAMILY_F16_F16 },
        { TUTTI_FLOAT16, TUTTI_FLOAT32, FAMILY_F16_F32 },
        { TUTTI_FLOAT32, TUTTI_FLOAT16, FAMILY_F32_F16 },
        { TUTTI_BFLOAT16, TUTTI_BFLOAT16, FAMILY_BF16_BF16 },
        { TUTTI_BFLOAT16, TUTTI_FLOAT32, FAMILY_BF16_F32 },
        { TUTTI_FLOAT32, TUTTI_BFLOAT16, FAMILY_F32_BF16 },
        { TUTTI_FLOAT32, TUTTI_FLOAT32, FAMILY_F32_F32 },
        { TUTTI_FLOAT64, TUTTI_FLOAT64, FAMILY_F64_F64 },
    };

    for (size_t i = 0; i < sizeof families / sizeof families[0]; i++) {
        if (families[i].from == from && families[i].to == to) {
            return families[i].family;
        }
    }
    return KERNEL_FAMILIES;
}

/** Integers are widened to types of the same sign, and bool is a uint8. */
static bool is_integer_pair(tutti_dtype tensor_type, tutti_dtype packed_type)
{
    if (tensor_type == TUTTI_BOOL) {
        return packed_type == TUTTI_UINT8;
    }
    return is_integer(tensor_type) && is_integer(packed_type) &&
            is_signed(tensor_type) == is_signed(packed_type) &&
            tutti_dtype_size(tensor_type) <= tutti_dtype_size(packed_type);
}

bool pack_is_supported(tutti_dtype tensor_type, tutti_dtype packed_type)
{
    return tensor_type == packed_type || is_integer_pair(tensor_type, packed_type) ||
            float_family(tensor_type, packed_type) != KERNEL_FAMILIES;
}

tutti_dtype pack_wire_type(
        tutti_dtype tensor_type, tutti_reduce_op op, bool half_in_float)
{
    if (is_integer(tensor_type) && op == TUTTI_AVERAGE) {
        return is_signed(tensor_type) ? TUTTI_INT64 : TUTTI_UINT64;
    }
    if (tensor_type == TUTTI_UINT16) {
        return TUTTI_UINT32;
    }
    if (tensor_type == TUTTI_INT16) {
        return TUTTI_INT32;
    }
    if (tensor_type == TUTTI_BOOL) {
        return TUTTI_UINT8;
    }
    if (half_in_float &&
            (tensor_type == TUTTI_FLOAT16 || tensor_type == TUTTI_BFLOAT16)) {
        return TUTTI_FLOAT32;
    }
    return tensor_type;
}

void pack_plan_init(
        struct pack_plan *plan, tutti_dtype tensor_type, tutti_dtype packed_type)
{
    assert(pack_is_supported(tensor_type, packed_type));
    *plan = (struct pack_plan){ .tensor_type = tensor_type,
        .packed_type = packed_type };
}

void pack_plan_fini(struct pack_plan *plan)
{
    mem_free(plan->pieces);
    *plan = (struct pack_plan){ 0 };
}

void pack_plan_reset(
        struct pack_plan *plan, tutti_dtype tensor_type, tutti_dtype packed_type)
{
    struct pack_piece *pieces = plan->pieces;
    const size_t capacity = plan->piece_capacity;

    pack_plan_init(plan, tensor_type, packed_type);
    plan->pieces = pieces;
    plan->piece_capacity = capacity;
}

static uint32_t chunk_elements(const struct pack_plan *plan)
{
    return (uint32_t)(PACK_CHUNK_BYTES /
            size_max(tutti_dtype_size(plan->tensor_type),
                    tutti_dtype_size(plan->packed_type)));
}

tutti_status pack_plan_add_at(
        struct pack_plan *plan, uint64_t tensor, uint64_t count, uint64_t offset)
{
    const uint64_t wider = PACK_CHUNK_BYTES / chunk_elements(plan);
    const uint64_t chunks =
            count / chunk_elements(plan) + (count % chunk_elements(plan) != 0);

    if (count == 0) {
        return TUTTI_OK;
    }
    if (chunks > UINT32_MAX - plan->chunk_count || plan->piece_count >= UINT32_MAX ||
            offset > INT64_MAX - count * wider) {
        return error_set(TUTTI_ERR_INVALID,
                "a batch of %zu tensors and %llu elements more is too large for one "
                "launch of the pack kernel (2^32 pieces of 32 KiB); use a smaller "
                "fusion_bytes",
                plan->piece_count, (unsigned long long)count);
    }
    if (!mem_grow(&plan->pieces, &plan->piece_capacity, plan->piece_count + 1,
                sizeof *plan->pieces)) {
        return error_set(TUTTI_ERR_NO_MEMORY,
                "out of memory for the layout of a batch of %zu tensors",
                plan->piece_count + 1);
    }
    plan->pieces[plan->piece_count++] = (struct pack_piece){ .tensor = tensor,
        .packed = offset,
        .count = count,
        .first_chunk = plan->chunk_count,
        .chunk_count = (uint32_t)chunks };
    plan->chunk_count += (uint32_t)chunks;
    offset += count * tutti_dtype_size(plan->packed_type);
    offset = (offset + PACK_ALIGNMENT - 1) / PACK_ALIGNMENT * PACK_ALIGNMENT;
    plan->packed_bytes = size_max(plan->packed_bytes, offset);
    return TUTTI_OK;
}

tutti_status pack_plan_add(struct pack_plan *plan, uint64_t tensor, uint64_t count)
{
    return pack_plan_add_at(plan, tensor, count, plan->packed_bytes);
}

enum pack_form pack_plan_form(
        const struct pack_plan *plan, const struct kernel_target *target)
{
    if (plan->piece_count <= PACK_SMALL_PIECES) {
        return PACK_SMALL;
    }
    if (plan->piece_count <= PACK_LARGE_PIECES &&
            target->parameter_bytes >= KERNEL_LARGE_BYTES) {
        return PACK_LARGE;
    }
    return PACK_TABLE;
}

size_t pack_table_bytes(const struct pack_plan *plan)
{
    return plan->piece_count * sizeof *plan->pieces +
            (size_t)plan->chunk_count * sizeof(uint32_t);
}

void pack_table_write(const struct pack_plan *plan, void *image)
{
    const size_t piece_bytes = plan->piece_count * sizeof *plan->pieces;
    uint32_t *map = (uint32_t *)((char *)image + piece_bytes);

    if (piece_bytes > 0) {
        memcpy(image, plan->pieces, piece_bytes);
    }
    for (size_t i = 0; i < plan->piece_count; i++) {
        for (uint32_t c = 0; c < plan->pieces[i].chunk_count; c++) {
            *map++ = (uint32_t)i;
        }
    }
}

/* ---------------------------------------------------------------------------- launch */

size_t kernel_parameter_bytes(int driver_version)
{
    return driver_version >= LARGE_PARAMETERS_DRIVER ? KERNEL_LARGE_BYTES
                                                     : KERNEL_SMALL_BYTES;
}

_Static_assert(PACK_SMALL_PIECES == 126 && PACK_LARGE_PIECES == 1022,
        "docs/design/gpu.md and gpu-kernels.md say how many pieces there are");

/* As many blocks as run at a time: each takes its share of the work in one go. */
static uint32_t grid_of(
        uint64_t pieces_of_work, int kernel, const struct kernel_target *target)
{
    const uint64_t each =
            target->blocks[kernel] > 0 ? target->blocks[kernel] : KERNEL_BLOCKS_PER_SM;
    const uint64_t most = (uint64_t)target->sm_count * each;

    return (uint32_t)(pieces_of_work < most ? pieces_of_work : most);
}

static bool is_power_of_two(int n)
{
    return (n & (n - 1)) == 0;
}

/** Sets the arithmetic: of floats, or of integers, which are only divided. */
static void set_arithmetic(struct pack_header *header, const struct pack_plan *plan,
        const struct pack_work *work)
{
    header->factor = 1;
    header->divisor = work->divisor;
    if (dtype_is_float(plan->tensor_type)) {
        header->factor = work->scale;
    } else if (is_signed(plan->tensor_type)) {
        header->flags |= PACK_SIGNED;
    }
    /* The reciprocal is exact: the product rounds the same real number. */
    if (dtype_is_float(plan->tensor_type) && header->factor == 1 &&
            is_power_of_two(header->divisor)) {
        header->factor = 1.0 / header->divisor;
        header->divisor = 1;
    }
    header->flags |= header->factor != 1 ? PACK_SCALES : 0;
    header->flags |= header->divisor != 1 ? PACK_DIVIDES : 0;
    if (plan->tensor_type == TUTTI_BOOL && plan->packed_type == TUTTI_UINT8) {
        header->flags |= PACK_BOOL;
    }
}

static enum kernel_family family_of(const struct pack_plan *plan,
        enum pack_direction direction, const struct pack_header *header)
{
    const bool gathers = direction == PACK_GATHER;
    const unsigned arithmetic = PACK_SCALES | PACK_DIVIDES | PACK_BOOL;

    if (plan->tensor_type == plan->packed_type && (header->flags & arithmetic) == 0) {
        return FAMILY_COPY;
    }
    if (!dtype_is_float(plan->tensor_type)) {
        return FAMILY_INTEGER;
    }
    return gathers ? float_family(plan->tensor_type, plan->packed_type)
                   : float_family(plan->packed_type, plan->tensor_type);
}

/** The parameter's bytes; pieces by value are behind the header in both forms. */
static size_t write_pieces(
        const struct pack_plan *plan, enum pack_form form, union pack_args *args)
{
    const size_t bytes = plan->piece_count * sizeof *plan->pieces;

    if (form == PACK_SMALL) {
        memcpy(args->small.pieces, plan->pieces, bytes);
        return sizeof args->small;
    }
    if (form == PACK_LARGE) {
        memcpy(args->large.pieces, plan->pieces, bytes);
        return sizeof args->large;
    }
    return sizeof args->table;
}

struct kernel_launch pack_launch(const struct pack_plan *plan,
        const struct pack_work *work, const struct kernel_target *target,
        union pack_args *args)
{
    const enum pack_form form =
            work->table != 0 ? PACK_TABLE : pack_plan_form(plan, target);
    struct pack_header *header = &args->header;
    int kernel;

    assert(plan->piece_count > 0 && work->divisor >= 1);
    assert(form != PACK_TABLE || work->table != 0);
    *header = (struct pack_header){ .packed = work->packed,
        .piece_count = (uint32_t)plan->piece_count,
        .chunk_count = plan->chunk_count,
        .chunk_elements = chunk_elements(plan),
        .flags = work->direction == PACK_SCATTER ? PACK_SCATTERS : 0,
        .tensor_bytes = (uint16_t)tutti_dtype_size(plan->tensor_type),
        .packed_bytes = (uint16_t)tutti_dtype_size(plan->packed_type) };
    if (form == PACK_TABLE) {
        header->pieces = work->table;
        header->map = work->table + plan->piece_count * sizeof *plan->pieces;
    }
    set_arithmetic(header, plan, work);
    kernel = (int)(family_of(plan, work->direction, header) * PACK_FORMS + form);
    return (struct kernel_launch){ .kernel = kernel,
        .grid = grid_of(plan->chunk_count, kernel, target),
        .threads = KERNEL_THREADS,
        .args_bytes = write_pieces(plan, form, args) };
}
