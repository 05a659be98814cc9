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

/* The spare slab that is large enough, and nobody uses; else *pending is one in use. */
static struct gpu_slab **find_idle(
        struct gpu *gpu, size_t bytes, struct gpu_slab ***pending)
{
    struct gpu_slab **at = &gpu->memory->spare;

    *pending = NULL;
    for (; *at != NULL; at = &(*at)->next) {
        if ((*at)->in_turn || (*at)->bytes < bytes) {
            continue;
        }
        if (is_over(gpu, *at)) {
            return at;
        }
        if (*pending == NULL) {
            *pending = at;
        }
    }
    return NULL;
}

static int count_large(const struct gpu *gpu, size_t bytes, bool in_turn)
{
    int count = 0;

    for (const struct gpu_slab *s = gpu->memory->all; s != NULL; s = s->next_of_all) {
        count += s->in_turn == in_turn && s->bytes >= bytes ? 1 : 0;
    }
    return count;
}

static struct gpu_slab *make(struct gpu *gpu, size_t bytes)
{
    const size_t size = size_align(size_max(bytes, gpu->slab_bytes), SLAB_ALIGNMENT);
    struct gpu_slab *slab = mem_calloc(1, sizeof *slab);
    struct gpu_stretch stretch = { .base = 0 };
    tutti_status status = TUTTI_ERR_NO_MEMORY;

    if (slab == NULL || size < bytes) {
        error_note("no memory to pack %zu bytes", bytes);
    } else {
        status = gpu_enter(gpu);
    }
    if (status == TUTTI_OK) {
        status = memory_grab(gpu, size, &stretch);
        gpu_leave(gpu);
    }
    if (status != TUTTI_OK) {
        mem_free(slab);
        return NULL;
    }
    *slab = (struct gpu_slab){ .memory = stretch.base,
        .bytes = stretch.bytes,
        .of_nccl = stretch.of_nccl,
        .next_of_all = gpu->memory->all };
    gpu->memory->all = slab;
    return slab;
}

static struct gpu_slab *unlink_slab(struct gpu_slab **at)
{
    struct gpu_slab *slab = *at;

    *at = slab->next;
    slab->next = NULL;
    return slab;
}

struct gpu_slab *gpu_slab_take_idle(struct gpu *gpu, size_t bytes)
{
    struct gpu_slab **pending = NULL;
    struct gpu_slab **idle = find_idle(gpu, bytes, &pending);

    return idle != NULL ? unlink_slab(idle) : make(gpu, bytes);
}

/* The stream waits for the last use. */
static struct gpu_slab *take_behind(
        struct gpu *gpu, struct gpu_slab **at, cu_stream stream)
{
    struct gpu_slab *slab;

    if (!is_over(gpu, *at) && gpu_follow(gpu, stream, (*at)->last_use) != TUTTI_OK) {
        return NULL;
    }
    slab = unlink_slab(at);
    gpu_event_release(gpu, slab->last_use);
    slab->last_use = NULL;
    return slab;
}

struct gpu_slab *gpu_slab_take(struct gpu *gpu, size_t bytes, cu_stream stream)
{
    struct gpu_slab **pending = NULL;
    struct gpu_slab **idle = find_idle(gpu, bytes, &pending);
    struct gpu_slab *slab = NULL;

    if (idle != NULL) {
        return unlink_slab(idle);
    }
    if (pending == NULL || count_large(gpu, bytes, false) < SLABS_USUAL) {
        slab = make(gpu, bytes);
    }
    return slab == NULL && pending != NULL ? take_behind(gpu, pending, stream) : slab;
}

struct gpu_slab *gpu_slab_take_turn(struct gpu *gpu, size_t bytes, cu_stream stream)
{
    struct gpu_slab **at = &gpu->memory->spare;
    struct gpu_slab *made;

    if (count_large(gpu, bytes, true) < SLABS_USUAL) {
        made = make(gpu, bytes);
        if (made != NULL) {
            made->in_turn = true;
        }
        return made;
    }
    while (*at != NULL && (!(*at)->in_turn || (*at)->bytes < bytes)) {
        at = &(*at)->next;
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
        const struct gpu_stretch stretch = {
            .base = slab->memory, .bytes = slab->bytes, .of_nccl = slab->of_nccl
        };

        memory->all = slab->next_of_all;
        gpu_event_release(gpu, slab->last_use);
        if (!gpu->is_gone) {
            memory_drop(gpu, &stretch);
        }
        mem_free(slab);
    }
    memory->spare = NULL;
}
