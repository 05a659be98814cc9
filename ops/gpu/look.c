/*
 * Where memory lies. Only of our own is remembered where it is: of other memory nobody tells
 * us that it was freed, and the next that lies there may be of another kind.
 */
#include "base/error.h"
#include "base/map.h"
#include "ops/gpu/memory.h"

/** What the driver knows of an address. */
struct pointer_facts {
    unsigned type; /* CU_MEMORY_...; 0: the driver does not know it          */
    unsigned is_managed; /* a byte of the driver's, or more                       */
    int ordinal; /* of the device                                         */
    cu_context context; /* NULL: of none in particular                           */
    cu_pointer start; /* of the allocation                                     */
    size_t bytes; /* 0: unknown                                            */
};

struct gpu_stretch *gpu_memory_stretch(struct gpu *gpu, cu_pointer address)
{
    struct stretch *found;

    (void)pthread_mutex_lock(&gpu->memory->lock);
    found = memory_find_locked(gpu->memory, address);
    (void)pthread_mutex_unlock(&gpu->memory->lock);
    return found != NULL && found->facts.of_nccl ? &found->facts : NULL;
}

/* Adds where an address lies, of a stretch that can be registered; *has is set if it does. */
static uint64_t add_spot(struct gpu *gpu, const void *memory, uint64_t spot, bool *has)
{
    const struct gpu_stretch *stretch =
            memory == NULL ? NULL : gpu_memory_stretch(gpu, memory_pointer(memory));

    if (stretch == NULL) {
        return hash_u64(spot, 0);
    }
    *has = true;
    spot = hash_u64(spot, stretch->number + 1);
    spot = hash_u64(spot, stretch->bytes);
    return hash_u64(spot, memory_pointer(memory) - stretch->base);
}

uint64_t gpu_memory_spot(struct gpu *gpu, const void *input, const void *output)
{
    bool has = false;
    uint64_t spot = add_spot(gpu, input, 0, &has);

    spot = add_spot(gpu, output, spot, &has);
    return has ? spot | 2 : 0;
}

static tutti_status refuse_short(
        const struct gpu *gpu, const void *memory, size_t bytes)
{
    return error_set(TUTTI_ERR_INVALID,
            "rank %d: %zu bytes at %p are asked for, but the device memory there ends "
            "before: check count and type",
            gpu->rank, bytes, memory);
}

/* The driver writes what it cannot tell as 0. */
static cu_result ask(
        const struct gpu *gpu, cu_pointer address, struct pointer_facts *facts)
{
    cu_pointer_attribute what[] = { CU_POINTER_MEMORY_TYPE, CU_POINTER_IS_MANAGED,
        CU_POINTER_DEVICE_ORDINAL, CU_POINTER_CONTEXT, CU_POINTER_RANGE_START,
        CU_POINTER_RANGE_SIZE };
    void *values[] = { &facts->type, &facts->is_managed, &facts->ordinal,
        &facts->context, &facts->start, &facts->bytes };

    *facts = (struct pointer_facts){ .ordinal = -1 };
    return gpu->cuda->pointer_get_attributes(
            sizeof what / sizeof *what, what, values, address);
}

static tutti_status judge_device(const struct gpu *gpu, const void *memory,
        size_t bytes, const struct pointer_facts *facts)
{
    const cu_pointer address = memory_pointer(memory);

    if (facts->ordinal != gpu->ordinal) {
        return error_set(TUTTI_ERR_INVALID,
                "rank %d: %p is memory of GPU %d, but this rank's is GPU %d (%s): call "
                "cudaSetDevice(%d) before it is allocated, or choose the rank's GPU "
                "with the parameter gpu",
                gpu->rank, memory, facts->ordinal, gpu->ordinal, gpu->pci,
                gpu->ordinal);
    }
    /* Memory that is mapped piece by piece (cuMemCreate()) is of no context. */
    if (facts->context != NULL && facts->context != gpu->context) {
        return error_set(TUTTI_ERR_INVALID,
                "rank %d: %p is memory of a context of its own (cuCtxCreate()); tutti "
                "works in the primary context of GPU %d, the one that the CUDA runtime "
                "uses: allocate it there",
                gpu->rank, memory, gpu->ordinal);
    }
    if (facts->bytes > 0 &&
            (address < facts->start ||
                    bytes > facts->bytes - (address - facts->start))) {
        return refuse_short(gpu, memory, bytes);
    }
    return TUTTI_OK;
}

static tutti_status look_elsewhere(
        struct gpu *gpu, const void *memory, size_t bytes, enum op_space *space)
{
    struct pointer_facts facts;
    tutti_status status = gpu_enter(gpu);
    cu_result result;

    if (status != TUTTI_OK) {
        return status;
    }
    result = ask(gpu, memory_pointer(memory), &facts);
    gpu_leave(gpu);
    if (result == CU_ERROR_INVALID_VALUE) {
        *space = OP_HOST; /* as drivers say of memory that they do not know */
        return TUTTI_OK;
    }
    status = gpu_check(gpu, result, "find out where memory lies");
    if (status != TUTTI_OK) {
        return status;
    }
    if (facts.type != CU_MEMORY_DEVICE || facts.is_managed != 0) {
        *space = OP_HOST;
        return TUTTI_OK;
    }
    status = judge_device(gpu, memory, bytes, &facts);
    if (status == TUTTI_OK) {
        *space = OP_DEVICE;
    }
    return status;
}

tutti_status gpu_memory_look(
        struct gpu *gpu, const void *memory, size_t bytes, enum op_space *space)
{
    struct piece rest;

    if (!memory_rest(gpu, memory_pointer(memory), &rest)) {
        return look_elsewhere(gpu, memory, bytes, space);
    }
    if (rest.state != PIECE_USED) {
        return error_set(TUTTI_ERR_INVALID,
                "rank %d: the device memory at %p was given back with tutti_free()",
                gpu->rank, memory);
    }
    if (bytes > rest.bytes) {
        return refuse_short(gpu, memory, bytes);
    }
    *space = OP_DEVICE;
    return gpu_alive(gpu);
}
