/*
 * The pieces of a launch, and what it needs besides.
 */
#include <assert.h>

#include "base/mem.h"
#include "base/status.h"
#include "ops/gpu/kernels/kernels.h"

/* Kernel parameters of more than 4 KiB came with this CUDA driver. */
#define LARGE_PARAMETERS_DRIVER 12010

static const char *const names[KERNEL_COUNT] = {
#define KERNEL_FORM(symbol, form, text) \
    [FAMILY_##symbol * PACK_FORMS + (form)] = (text),
#define KERNEL_FORMS(symbol, name) \
    KERNEL_FORM(symbol, PACK_SMALL, "tutti_" #name "_small") \
    KERNEL_FORM(symbol, PACK_LARGE, "tutti_" #name "_large")
    PACK_FAMILY_MAP(KERNEL_FORMS)
#undef KERNEL_FORM
#undef KERNEL_FORMS
};

const char *kernel_name(int kernel)
{
    return kernel >= 0 && kernel < KERNEL_COUNT ? names[kernel] : NULL;
}

bool kernel_is_optional(int kernel)
{
    return kernel % PACK_FORMS == PACK_LARGE;
}

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

void pack_plan_init(
        struct pack_plan *plan, tutti_dtype tensor_type, tutti_dtype packed_type)
{
    assert(pack_is_supported(tensor_type, packed_type));
    plan->tensor_type = tensor_type;
    plan->packed_type = packed_type;
    plan->args.header = (struct pack_header){ 0 };
}

static uint32_t chunk_elements(const struct pack_plan *plan)
{
    return (uint32_t)(PACK_CHUNK_BYTES /
            size_max(tutti_dtype_size(plan->tensor_type),
                    tutti_dtype_size(plan->packed_type)));
}

void pack_plan_add(
        struct pack_plan *plan, uint64_t tensor, uint64_t count, uint64_t packed)
{
    struct pack_header *header = &plan->args.header;
    const uint64_t each = chunk_elements(plan);
    const uint64_t chunks = count / each + (count % each != 0);

    if (count == 0) {
        return;
    }
    /* The second: no memory of a device is so large. */
    assert(header->piece_count < PACK_LARGE_PIECES);
    assert(chunks <= UINT32_MAX - header->chunk_count);
    plan->args.pieces[header->piece_count++] = (struct pack_piece){ .tensor = tensor,
        .packed = packed,
        .count = count,
        .first_chunk = header->chunk_count,
        .chunk_count = (uint32_t)chunks };
    header->chunk_count += (uint32_t)chunks;
}

/* ---------------------------------------------------------------------------- launch */

size_t kernel_parameter_bytes(int driver_version)
{
    return driver_version >= LARGE_PARAMETERS_DRIVER ? KERNEL_LARGE_BYTES
                                                     : KERNEL_SMALL_BYTES;
}

_Static_assert(PACK_SMALL_PIECES == 126 && PACK_LARGE_PIECES == 1022,
        "docs/gpu.md and design/gpu-kernels.md say how many pieces there are");

size_t pack_pieces_max(const struct kernel_target *target)
{
    return target->parameter_bytes >= KERNEL_LARGE_BYTES ? PACK_LARGE_PIECES
                                                         : PACK_SMALL_PIECES;
}

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

struct kernel_launch pack_launch(struct pack_plan *plan, const struct pack_work *work,
        const struct kernel_target *target)
{
    struct pack_header *header = &plan->args.header;
    const enum pack_form form =
            header->piece_count <= PACK_SMALL_PIECES ? PACK_SMALL : PACK_LARGE;
    int kernel;

    assert(header->piece_count > 0 && work->divisor >= 1);
    assert(header->piece_count <= pack_pieces_max(target));
    header->packed = work->packed;
    header->chunk_elements = chunk_elements(plan);
    header->flags = work->direction == PACK_SCATTER ? PACK_SCATTERS : 0;
    header->tensor_bytes = (uint16_t)tutti_dtype_size(plan->tensor_type);
    header->packed_bytes = (uint16_t)tutti_dtype_size(plan->packed_type);
    set_arithmetic(header, plan, work);
    kernel = (int)(family_of(plan, work->direction, header) * PACK_FORMS + form);
    return (struct kernel_launch){ .kernel = kernel,
        .grid = grid_of(header->chunk_count, kernel, target),
        .threads = KERNEL_THREADS,
        .args_bytes = form == PACK_SMALL ? sizeof(struct pack_small)
                                         : sizeof(struct pack_large) };
}
