/*
 * Slabs: device memory for packing, used by one batch after the other. A few of one size
 * are enough for all: the next batch is packed while the last one is sent and the one before
 * it unpacked. After the first batches nothing is allocated any more.
 */
#include "base/error.h"
#include "base/mem.h"
#include "ops/gpu/memory.h"

/* Of slabs that are large enough, so many are made before streams wait for one. */
#define SLABS_USUAL 4
#define SLAB_ALIGNMENT ((size_t)2 << 20)

static bool is_over(struct gpu *gpu, struct gpu_slab *slab)
{
    if (slab->last_use != NULL && gpu_passed(gpu, slab->last_use) == TUTTI_OK) {
        gpu_event_release(gpu, slab->last_use);
        slab->last_use = NULL;
    }
    return slab->last_use == NULL;
}

static int count_large(const struct gpu *gpu, size_t bytes, bool in_turn)
{
    int count = 0;

    for (const struct gpu_slab *s = gpu->memory->all; s != NULL; s = s->next_of_all) {
        count += s->in_turn == in_turn && s->stretch.bytes >= bytes ? 1 : 0;
    }
    return count;
}

static struct gpu_slab *make(struct gpu *gpu, size_t bytes, bool in_turn)
{
    const size_t size = size_align(size_max(bytes, gpu->slab_bytes), SLAB_ALIGNMENT);
    struct gpu_slab *slab = mem_calloc(1, sizeof *slab);
    tutti_status status = TUTTI_ERR_NO_MEMORY;

    if (slab == NULL || size < bytes) {
        error_note("no memory to pack %zu bytes", bytes);
    } else {
        status = gpu_enter(gpu);
    }
    if (status == TUTTI_OK) {
        status = memory_grab(gpu, size, &slab->stretch);
        gpu_leave(gpu);
    }
    if (status != TUTTI_OK) {
        mem_free(slab);
        return NULL;
    }
    slab->in_turn = in_turn;
    slab->next_of_all = gpu->memory->all;
    gpu->memory->all = slab;
    return slab;
}

/* Of the spare ones that are large enough the one that was given back first. */
static struct gpu_slab **find_spare(struct gpu *gpu, size_t bytes, bool in_turn)
{
    struct gpu_slab **at = &gpu->memory->spare;

    while (*at != NULL && ((*at)->in_turn != in_turn || (*at)->stretch.bytes < bytes)) {
        at = &(*at)->next;
    }
    return at;
}

/* The stream waits for the last use. */
static struct gpu_slab *take_behind(
        struct gpu *gpu, struct gpu_slab **at, cu_stream stream)
{
    struct gpu_slab *slab = *at;

    if (!is_over(gpu, slab) && gpu_follow(gpu, stream, slab->last_use) != TUTTI_OK) {
        return NULL;
    }
    *at = slab->next;
    slab->next = NULL;
    gpu_event_release(gpu, slab->last_use);
    slab->last_use = NULL;
    return slab;
}

struct gpu_slab *gpu_slab_take(struct gpu *gpu, size_t bytes, cu_stream stream)
{
    struct gpu_slab **at = find_spare(gpu, bytes, false);
    const bool is_idle = *at != NULL && is_over(gpu, *at);
    const bool may_wait = *at != NULL && stream != NULL;
    struct gpu_slab *slab = NULL;

    if (!is_idle && (!may_wait || count_large(gpu, bytes, false) < SLABS_USUAL)) {
        slab = make(gpu, bytes, false);
    }
    return slab == NULL && (is_idle || may_wait) ? take_behind(gpu, at, stream) : slab;
}

struct gpu_slab *gpu_slab_take_turn(struct gpu *gpu, size_t bytes, cu_stream stream)
{
    struct gpu_slab **at = find_spare(gpu, bytes, true);

    if (count_large(gpu, bytes, true) < SLABS_USUAL) {
        return make(gpu, bytes, true);
    }
    return *at != NULL ? take_behind(gpu, at, stream) : NULL;
}

void gpu_slab_give(struct gpu *gpu, struct gpu_slab *slab, struct device_event *event)
{
    struct gpu_slab **end = &gpu->memory->spare;

    if (event != NULL) {
        gpu_event_hold(event);
    }
    slab->last_use = event;
    slab->next = NULL;
    while (*end != NULL) {
        end = &(*end)->next;
    }
    *end = slab;
}

void slabs_close(struct gpu *gpu)
{
    struct gpu_memory *memory = gpu->memory;

    while (memory->all != NULL) {
        struct gpu_slab *slab = memory->all;

        memory->all = slab->next_of_all;
        gpu_event_release(gpu, slab->last_use);
        if (!gpu->is_gone) {
            memory_drop(gpu, &slab->stretch);
        }
        mem_free(slab);
    }
    memory->spare = NULL;
}
