/*
 * Memory of tutti_alloc(TUTTI_DEVICE): stretches of device memory, cut in pieces so that
 * tensors that are allocated one after the other lie side by side and are reduced as one.
 *
 * A piece that is given back may still be used by what is on our streams. It is *parted*
 * until events are recorded on all, and *leaving* until those have passed; then it is free.
 * Nobody waits for that: who finds no room meanwhile takes new memory.
 */
#include "ops/gpu/memory.h"

#include "base/error.h"
#include "base/mem.h"

/* Stretches are so large, and as large as all before together in between. */
#define STRETCH_MIN ((size_t)16 << 20)
#define STRETCH_MAX ((size_t)256 << 20)
/* What the driver gives out is a multiple of this anyway. */
#define STRETCH_ALIGNMENT ((size_t)2 << 20)

/* ---------------------------------------------------------------------- source */

bool gpu_registers(const struct gpu *gpu, const struct op_set *set)
{
    return gpu->config->gpu_register && set->index == TUTTI_WORLD && gpu->has_kernels &&
            gpu->nccl != NULL && gpu->nccl->comm_register != NULL &&
            gpu->nccl->comm_deregister != NULL && gpu->nccl->mem_alloc != NULL &&
            gpu->nccl->mem_free != NULL;
}

tutti_status memory_grab(struct gpu *gpu, size_t bytes, struct gpu_stretch *stretch)
{
    const struct nccl_api *nccl = gpu->nccl;
    cu_pointer pointer = 0;
    void *address = NULL;
    tutti_status status;

    if (nccl != NULL && nccl->mem_alloc != NULL && nccl->mem_free != NULL &&
            nccl->mem_alloc(&address, bytes) == NCCL_SUCCESS) {
        *stretch = (struct gpu_stretch){
            .base = memory_pointer(address), .bytes = bytes, .of_nccl = true
        };
        return TUTTI_OK;
    }
    status = gpu_check(
            gpu, gpu->cuda->mem_alloc(&pointer, bytes), "allocate device memory");
    if (status == TUTTI_OK) {
        *stretch = (struct gpu_stretch){ .base = pointer, .bytes = bytes };
    }
    return status;
}

void memory_drop(const struct gpu *gpu, const struct gpu_stretch *stretch)
{
    if (stretch->of_nccl) {
        (void)gpu->nccl->mem_free(memory_address(stretch->base));
    } else {
        (void)gpu->cuda->mem_free(stretch->base);
    }
}

/* -------------------------------------------------------------------- stretches */

struct stretch *memory_find_locked(const struct gpu_memory *memory, cu_pointer address)
{
    for (struct stretch *s = memory->stretches; s != NULL; s = s->next) {
        if (address >= s->facts.base && address - s->facts.base < s->facts.bytes) {
            return s;
        }
    }
    return NULL;
}

bool memory_rest(struct gpu *gpu, cu_pointer address, struct piece *rest)
{
    const struct stretch *stretch;

    (void)pthread_mutex_lock(&gpu->memory->lock);
    stretch = memory_find_locked(gpu->memory, address);
    if (stretch != NULL) {
        const size_t offset = address - stretch->facts.base;
        const struct piece *piece = pieces_at(&stretch->pieces, offset);
        const size_t before = offset - piece->offset;

        *rest = (struct piece){ .offset = offset,
            .bytes = piece->bytes - before,
            .asked = piece->asked - size_min(before, piece->asked),
            .state = piece->state };
    }
    (void)pthread_mutex_unlock(&gpu->memory->lock);
    return stretch != NULL;
}

bool gpu_memory_is_padding(struct gpu *gpu, cu_pointer address, size_t bytes)
{
    struct piece rest;

    return memory_rest(gpu, address, &rest) && rest.state == PIECE_USED &&
            rest.asked == 0 && bytes <= rest.bytes;
}

/* At the end of the list. */
static void append_locked(struct gpu_memory *memory, struct stretch *stretch)
{
    struct stretch **end = &memory->stretches;
    size_t number = 0;

    for (; *end != NULL; end = &(*end)->next) {
        number++;
    }
    *end = stretch;
    stretch->facts.number = number;
    memory->total += stretch->facts.bytes;
}

/* The context is current. */
static tutti_status grow(struct gpu *gpu, size_t need, size_t total)
{
    const size_t least = size_align(need, STRETCH_ALIGNMENT);
    const size_t usual = size_min(size_max(total, STRETCH_MIN), STRETCH_MAX);
    struct stretch *stretch = mem_calloc(1, sizeof *stretch);
    tutti_status status = TUTTI_ERR_NO_MEMORY;

    if (stretch == NULL || least < need) {
        mem_free(stretch);
        return error_set(status, "no memory for %zu bytes", need);
    }
    if (usual > least) {
        status = memory_grab(gpu, usual, &stretch->facts);
    }
    if (status != TUTTI_OK) {
        status = memory_grab(gpu, least, &stretch->facts);
    }
    if (status == TUTTI_OK && !pieces_init(&stretch->pieces, stretch->facts.bytes)) {
        memory_drop(gpu, &stretch->facts);
        status = error_set(TUTTI_ERR_NO_MEMORY, "no memory for %zu bytes", need);
    }
    if (status != TUTTI_OK) {
        mem_free(stretch);
        return status;
    }
    (void)pthread_mutex_lock(&gpu->memory->lock);
    append_locked(gpu->memory, stretch);
    (void)pthread_mutex_unlock(&gpu->memory->lock);
    return TUTTI_OK;
}

/* ---------------------------------------------------------------------- leaving */

static void turn_locked(
        struct gpu_memory *memory, enum piece_state from, enum piece_state to)
{
    for (struct stretch *s = memory->stretches; s != NULL; s = s->next) {
        pieces_turn(&s->pieces, from, to);
    }
}

static void release_leaving(struct gpu *gpu)
{
    for (int i = 0; i < GPU_STREAMS; i++) {
        gpu_event_release(gpu, gpu->memory->leaving[i]);
        gpu->memory->leaving[i] = NULL;
    }
}

/* True when all that was issued when pieces began to leave has passed. */
static bool have_left(struct gpu *gpu)
{
    for (int i = 0; i < GPU_STREAMS; i++) {
        if (gpu_passed(gpu, gpu->memory->leaving[i]) != TUTTI_OK) {
            return false;
        }
    }
    return true;
}

/* Events on all streams that may use a piece that has parted. */
static bool watch_leaving(struct gpu *gpu)
{
    for (int i = 0; i < GPU_STREAMS; i++) {
        if (gpu_record(gpu, gpu->streams[i], &gpu->memory->leaving[i]) != TUTTI_OK) {
            release_leaving(gpu);
            return false;
        }
    }
    return true;
}

/* One step for what leaves, and one for what has parted. One thread at a time. */
static void settle(struct gpu *gpu)
{
    struct gpu_memory *memory = gpu->memory;
    bool begins = false;

    if (memory->has_leaving && have_left(gpu)) {
        release_leaving(gpu);
        (void)pthread_mutex_lock(&memory->lock);
        turn_locked(memory, PIECE_LEAVING, PIECE_FREE);
        memory->has_leaving = false;
        (void)pthread_mutex_unlock(&memory->lock);
    }
    (void)pthread_mutex_lock(&memory->lock);
    begins = memory->has_parted && !memory->has_leaving;
    if (begins) {
        turn_locked(memory, PIECE_PARTED, PIECE_LEAVING);
        memory->has_parted = false;
        memory->has_leaving = true;
    }
    (void)pthread_mutex_unlock(&memory->lock);
    if (begins && !watch_leaving(gpu)) {
        (void)pthread_mutex_lock(&memory->lock);
        turn_locked(memory, PIECE_LEAVING, PIECE_PARTED);
        memory->has_leaving = false;
        memory->has_parted = true;
        (void)pthread_mutex_unlock(&memory->lock);
    }
}

/* Lets one thread settle, if there is anything to settle; others go on. */
static void try_to_settle(struct gpu *gpu)
{
    struct gpu_memory *memory = gpu->memory;
    bool may;

    (void)pthread_mutex_lock(&memory->lock);
    may = !memory->is_settling && (memory->has_parted || memory->has_leaving);
    memory->is_settling = memory->is_settling || may;
    (void)pthread_mutex_unlock(&memory->lock);
    if (may) {
        settle(gpu);
        (void)pthread_mutex_lock(&memory->lock);
        memory->is_settling = false;
        (void)pthread_mutex_unlock(&memory->lock);
    }
}

/* ------------------------------------------------------------------- allocation */

/* A piece of what is there; 0: nowhere. */
static cu_pointer carve(struct gpu_memory *memory, size_t bytes, size_t *total)
{
    cu_pointer found = 0;
    size_t offset = 0;

    (void)pthread_mutex_lock(&memory->lock);
    for (struct stretch *s = memory->stretches; s != NULL && found == 0; s = s->next) {
        if (pieces_take(&s->pieces, bytes, &offset)) {
            found = s->facts.base + offset;
        }
    }
    *total = memory->total;
    (void)pthread_mutex_unlock(&memory->lock);
    return found;
}

/* Sets the state of the piece at an address; false: it is none that is given out. */
static bool give_up_piece(
        struct gpu_memory *memory, cu_pointer address, enum piece_state state)
{
    struct stretch *stretch;
    bool is_ours = false;

    (void)pthread_mutex_lock(&memory->lock);
    stretch = memory_find_locked(memory, address);
    if (stretch != NULL) {
        struct piece *piece =
                pieces_at(&stretch->pieces, address - stretch->facts.base);

        is_ours = piece->state == PIECE_USED &&
                piece->offset == address - stretch->facts.base;
        piece->state = is_ours ? state : piece->state;
        memory->has_parted = memory->has_parted || is_ours;
    }
    (void)pthread_mutex_unlock(&memory->lock);
    return is_ours;
}

/* On a stream of its own, and waited for: others' kernels need not end for it. */
static tutti_status zero(struct gpu *gpu, cu_pointer memory, size_t bytes)
{
    struct device_event *done = NULL;
    tutti_status status = gpu_check(gpu,
            gpu->cuda->memset_d8_async(memory, 0, bytes, gpu->streams[GPU_ZERO]),
            "zero device memory");

    if (status == TUTTI_OK) {
        status = gpu_record(gpu, gpu->streams[GPU_ZERO], &done);
    }
    if (status == TUTTI_OK) {
        status = gpu_event_wait(gpu, done);
        gpu_event_release(gpu, done);
    }
    return status;
}

/* The context is current. */
static cu_pointer allocate(struct gpu *gpu, size_t bytes)
{
    size_t total = 0;
    cu_pointer found;

    try_to_settle(gpu);
    found = carve(gpu->memory, bytes, &total);
    while (found == 0) {
        /* Another thread may be faster with what this one adds; then there is more. */
        if (grow(gpu, bytes, total) != TUTTI_OK) {
            return 0;
        }
        found = carve(gpu->memory, bytes, &total);
    }
    if (zero(gpu, found, bytes) != TUTTI_OK) {
        (void)give_up_piece(gpu->memory, found, PIECE_PARTED);
        return 0;
    }
    return found;
}

void *gpu_memory_alloc(struct gpu *gpu, size_t bytes)
{
    cu_pointer found;

    if (gpu_enter(gpu) != TUTTI_OK) {
        return NULL;
    }
    found = allocate(gpu, size_max(bytes, 1));
    gpu_leave(gpu);
    return memory_address(found);
}

void gpu_memory_give_back(struct gpu *gpu, void *memory)
{
    if (memory != NULL &&
            give_up_piece(gpu->memory, memory_pointer(memory), PIECE_PARTED)) {
        try_to_settle(gpu);
    }
}

/* ------------------------------------------------------------------- life cycle */

tutti_status gpu_memory_open(struct gpu *gpu)
{
    struct gpu_memory *memory = mem_calloc(1, sizeof *memory);

    if (memory == NULL) {
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory for that of a GPU");
    }
    (void)pthread_mutex_init(&memory->lock, NULL);
    gpu->memory = memory;
    return TUTTI_OK;
}

void gpu_memory_close(struct gpu *gpu)
{
    struct gpu_memory *memory = gpu->memory;

    release_leaving(gpu);
    while (memory->stretches != NULL) {
        struct stretch *stretch = memory->stretches;

        memory->stretches = stretch->next;
        if (!gpu->is_gone) {
            memory_drop(gpu, &stretch->facts);
        }
        pieces_fini(&stretch->pieces);
        mem_free(stretch);
    }
    (void)pthread_mutex_destroy(&memory->lock);
    mem_free(memory);
    gpu->memory = NULL;
}
