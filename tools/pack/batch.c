#include "tools/pack/batch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "bench/core/workloads.h"
#include "ops/reduce/half.h"

/* As far apart as allocations of the CUDA driver. */
#define TENSOR_ALIGNMENT 256

static void *host_memory(size_t bytes)
{
    void *memory = malloc(bytes);

    if (memory == NULL) {
        pack_fail("out of memory");
    }
    return memory;
}

/* Tensor i of the case, in elements. */
static struct bench_workload tensors_of(const struct pack_case *c, tutti_dtype dtype)
{
    struct bench_workload workload;
    const bool made = c->workload != NULL
            ? bench_workload_init(&workload, c->workload)
            : bench_workload_init_uniform(
                      &workload, c->tensors, c->bytes / tutti_dtype_size(dtype));

    if (!made) {
        pack_fail("out of memory for the tensors of a case");
    }
    return workload;
}

void pack_batch_init(struct pack_batch *batch, const struct pack_gpu *gpu,
        const struct pack_case *c, struct pack_kind kind, bool checks)
{
    const uint64_t most = checks ? PACK_CHECK_ELEMENTS : UINT64_MAX;
    struct bench_workload workload = tensors_of(c, kind.tensor);
    const size_t tensors =
            checks ? size_min(workload.count, PACK_CHECK_TENSORS) : workload.count;
    const size_t element = tutti_dtype_size(kind.tensor);
    size_t offset = c->shifted ? element : 0;
    void *image;

    memset(batch, 0, sizeof *batch);
    batch->kind = kind;
    pack_plan_init(&batch->plan, kind.tensor, kind.packed);
    for (size_t i = 0; i < tensors; i++) {
        const uint64_t wanted = workload.tensors[i].count;
        const uint64_t count = wanted < most ? wanted : most;

        if (pack_plan_add(&batch->plan, offset, count) != TUTTI_OK) {
            pack_fail("%s", tutti_last_error());
        }
        batch->elements += count;
        offset += (count * element + TENSOR_ALIGNMENT - 1) / TENSOR_ALIGNMENT *
                TENSOR_ALIGNMENT;
    }
    bench_workload_fini(&workload);
    batch->tensor_bytes = offset;
    batch->tensors = pack_allocate(gpu, offset);
    batch->packed = pack_allocate(gpu, batch->plan.packed_bytes);
    for (size_t i = 0; i < batch->plan.piece_count; i++) {
        batch->plan.pieces[i].tensor += batch->tensors;
    }
    image = host_memory(pack_table_bytes(&batch->plan));
    pack_table_write(&batch->plan, image);
    batch->table = pack_allocate(gpu, pack_table_bytes(&batch->plan));
    pack_upload(gpu, batch->table, image, pack_table_bytes(&batch->plan));
    free(image);
}

void pack_batch_fini(struct pack_batch *batch, const struct pack_gpu *gpu)
{
    pack_free(gpu, batch->tensors);
    pack_free(gpu, batch->packed);
    pack_free(gpu, batch->table);
    pack_plan_fini(&batch->plan);
}

double pack_batch_traffic(const struct pack_batch *batch)
{
    return (double)batch->elements *
            (double)(tutti_dtype_size(batch->kind.tensor) +
                    tutti_dtype_size(batch->kind.packed));
}

/* -------------------------------------------------------------------------- values */

/* Multiples of 1/4 up to 64: exact in every type, also divided by 8. */
static float value_of(size_t piece, uint64_t element)
{
    return (float)((int)((element * 7 + piece * 13) % 512) - 256) / 4;
}

static void put_value(tutti_dtype dtype, unsigned char *element, float value)
{
    const uint16_t half = bfloat_from_float(value);

    if (dtype == TUTTI_BFLOAT16) {
        memcpy(element, &half, sizeof half);
    } else {
        memcpy(element, &value, sizeof value);
    }
}

static float get_value(tutti_dtype dtype, const unsigned char *element)
{
    uint16_t half;
    float value;

    if (dtype == TUTTI_BFLOAT16) {
        memcpy(&half, element, sizeof half);
        return bfloat_to_float(half);
    }
    memcpy(&value, element, sizeof value);
    return value;
}

/* Where piece i lies on a side, from the beginning of its memory. */
static size_t offset_of(const struct pack_batch *batch, bool packed, size_t i)
{
    return packed ? batch->plan.pieces[i].packed
                  : batch->plan.pieces[i].tensor - batch->tensors;
}

static void fill_side(
        const struct pack_batch *batch, const struct pack_gpu *gpu, bool packed)
{
    const tutti_dtype dtype = packed ? batch->kind.packed : batch->kind.tensor;
    const size_t bytes = packed ? batch->plan.packed_bytes : batch->tensor_bytes;
    unsigned char *memory = host_memory(bytes);

    memset(memory, 0, bytes);
    for (size_t i = 0; i < batch->plan.piece_count; i++) {
        unsigned char *to = memory + offset_of(batch, packed, i);

        for (uint64_t k = 0; k < batch->plan.pieces[i].count; k++) {
            put_value(dtype, to + k * tutti_dtype_size(dtype), value_of(i, k));
        }
    }
    pack_upload(gpu, packed ? batch->packed : batch->tensors, memory, bytes);
    free(memory);
}

static void spoil_side(
        const struct pack_batch *batch, const struct pack_gpu *gpu, bool packed)
{
    const cu_pointer memory = packed ? batch->packed : batch->tensors;
    const size_t bytes = packed ? batch->plan.packed_bytes : batch->tensor_bytes;

    pack_must(gpu, gpu->cuda.memset_d8_async(memory, 0xff, bytes, gpu->stream),
            "fill device memory");
}

void pack_batch_prepare(
        struct pack_batch *batch, const struct pack_gpu *gpu, enum pack_direction way)
{
    fill_side(batch, gpu, way == PACK_SCATTER);
    spoil_side(batch, gpu, way == PACK_GATHER);
}

/* The first wrong element of a piece is said. */
static bool check_piece(const struct pack_batch *batch, const unsigned char *memory,
        size_t i, enum pack_direction way, const char *what)
{
    const tutti_dtype dtype =
            way == PACK_GATHER ? batch->kind.packed : batch->kind.tensor;
    const unsigned char *from = memory + offset_of(batch, way == PACK_GATHER, i);

    for (uint64_t k = 0; k < batch->plan.pieces[i].count; k++) {
        const float divisor = way == PACK_GATHER ? 1 : PACK_RANKS;
        const float wanted = value_of(i, k) / divisor;
        const float got = get_value(dtype, from + k * tutti_dtype_size(dtype));

        if (got != wanted) {
            (void)printf("%s: element %llu of tensor %zu is %g and should be %g\n",
                    what, (unsigned long long)k, i, (double)got, (double)wanted);
            return false;
        }
    }
    return true;
}

bool pack_batch_check(const struct pack_batch *batch, const struct pack_gpu *gpu,
        enum pack_direction way, const char *what)
{
    const bool packed = way == PACK_GATHER;
    const size_t bytes = packed ? batch->plan.packed_bytes : batch->tensor_bytes;
    unsigned char *memory = host_memory(bytes);
    bool right = true;

    pack_download(gpu, memory, packed ? batch->packed : batch->tensors, bytes);
    for (size_t i = 0; i < batch->plan.piece_count && right; i++) {
        right = check_piece(batch, memory, i, way, what);
    }
    free(memory);
    return right;
}
