#include "ops/gpu/packing.h"

#include <string.h>

#include "base/error.h"
#include "base/mem.h"

/* ------------------------------------------------------------------ open, close */

/* The kernels that take more parameters may be missing in the image. */
static size_t parameter_bytes(const struct gpu *gpu)
{
    for (int k = 0; k < KERNEL_COUNT; k++) {
        if (kernel_is_optional(k) && gpu->kernels[k] == NULL) {
            return KERNEL_SMALL_BYTES;
        }
    }
    return kernel_parameter_bytes(gpu->cuda->version);
}

void packing_open(
        struct packing *packing, struct gpu *gpu, struct op_device_counts *counts)
{
    const int limit = gpu->config->gpu_pack_sms;

    packing->gpu = gpu;
    packing->counts = counts;
    packing->target = (struct kernel_target){
        .sm_count = limit > 0 && limit < gpu->sm_count ? limit : gpu->sm_count,
        .parameter_bytes = parameter_bytes(gpu),
    };
    memcpy(packing->target.blocks, gpu->kernel_blocks, sizeof packing->target.blocks);
    packing->pieces_max = packing->target.parameter_bytes >= KERNEL_LARGE_BYTES
            ? PACK_LARGE_PIECES
            : PACK_SMALL_PIECES;
}

void packing_close(struct packing *packing)
{
    for (size_t i = 0; i < PACKING_TABLES; i++) {
        struct packing_table *table = &packing->tables[i];

        gpu_event_release(packing->gpu, table->copied);
        gpu_host_give_back(packing->gpu, table->image);
        *table = (struct packing_table){ 0 };
    }
    gpu_memory_give_back(packing->gpu, packing->memory);
    pieces_fini(&packing->pieces);
    pack_plan_fini(&packing->plan);
}

/* ----------------------------------------------------------------------- tables */

static uint64_t hash_of(const struct pack_plan *plan)
{
    const uint64_t prime = 0x9e3779b97f4a7c15u;
    uint64_t hash = plan->piece_count;

    for (size_t i = 0; i < plan->piece_count; i++) {
        const struct pack_piece *piece = &plan->pieces[i];

        hash = (hash ^ piece->tensor) * prime;
        hash = (hash ^ hash >> 29 ^ piece->packed) * prime;
        hash = (hash ^ hash >> 31 ^ piece->count) * prime;
    }
    return hash;
}

/* Chunks follow from pieces, of which the number of the first is one. */
static bool is_of(
        const struct packing_table *table, const struct pack_plan *plan, uint64_t hash)
{
    return table->used != 0 && table->hash == hash &&
            table->piece_count == plan->piece_count &&
            memcmp(table->image, plan->pieces,
                    plan->piece_count * sizeof *plan->pieces) == 0;
}

/* What is put on a stream from now on comes after what is on another now. */
static tutti_status chain(struct gpu *gpu, cu_stream behind, cu_stream before)
{
    struct device_event *event = NULL;
    tutti_status status = gpu_record(gpu, before, &event);

    if (status == TUTTI_OK) {
        status = gpu_follow(gpu, behind, event);
    }
    gpu_event_release(gpu, event);
    return status;
}

/* Notes when its copy is known to have ended. TUTTI_AGAIN: it has not. */
static tutti_status settle(struct packing *packing, struct packing_table *table)
{
    tutti_status status = TUTTI_OK;

    if (table->copied != NULL) {
        status = gpu_passed(packing->gpu, table->copied);
    }
    if (status == TUTTI_OK && table->copied != NULL) {
        gpu_event_release(packing->gpu, table->copied);
        table->copied = NULL;
    }
    return status;
}

/*
 * Kernels that use tables are on two streams, and so are the copies of new ones: with each
 * behind what is on the other, the memory can be used again. That is rare.
 */
static tutti_status drop_table(struct packing *packing, struct packing_table *table)
{
    struct gpu *gpu = packing->gpu;
    tutti_status status = settle(packing, table);

    if (status == TUTTI_OK) {
        status = chain(gpu, gpu->streams[GPU_UNPACK], gpu->streams[GPU_PACK]);
    }
    if (status == TUTTI_OK) {
        status = chain(gpu, gpu->streams[GPU_PACK], gpu->streams[GPU_UNPACK]);
    }
    if (status == TUTTI_OK) {
        gpu_host_give_back(gpu, table->image);
        pieces_at(&packing->pieces, table->offset)->state = PIECE_PARTED;
        pieces_turn(&packing->pieces, PIECE_PARTED, PIECE_FREE);
        *table = (struct packing_table){ 0 };
    }
    return status;
}

/* The one that was used longest ago; one that is empty before all others. */
static struct packing_table *find_oldest(struct packing *packing, bool may_be_empty)
{
    struct packing_table *oldest = NULL;

    for (size_t i = 0; i < PACKING_TABLES; i++) {
        struct packing_table *table = &packing->tables[i];

        if ((table->used != 0 || may_be_empty) &&
                (oldest == NULL || table->used < oldest->used)) {
            oldest = table;
        }
    }
    return oldest;
}

/* An empty table with memory. TUTTI_AGAIN: there is none now. */
static tutti_status find_room(
        struct packing *packing, size_t bytes, struct packing_table **room)
{
    tutti_status status = TUTTI_OK;
    size_t offset = 0;

    if (packing->memory == NULL) {
        packing->memory = gpu_memory_alloc(packing->gpu, PACKING_BYTES);
        if (packing->memory == NULL || !pieces_init(&packing->pieces, PACKING_BYTES)) {
            gpu_memory_give_back(packing->gpu, packing->memory);
            packing->memory = NULL;
            return TUTTI_AGAIN;
        }
    }
    *room = find_oldest(packing, true);
    if ((*room)->used != 0) {
        status = drop_table(packing, *room);
    }
    while (status == TUTTI_OK && !pieces_take(&packing->pieces, bytes, &offset)) {
        struct packing_table *oldest = find_oldest(packing, false);

        status = oldest == NULL ? TUTTI_AGAIN : drop_table(packing, oldest);
    }
    if (status == TUTTI_OK) {
        (*room)->offset = offset;
        (*room)->memory = (cu_pointer)(uintptr_t)packing->memory + offset;
    }
    return status;
}

/* Fills a table that has memory. Errors: TUTTI_ERR_SYSTEM ... */
static tutti_status fill_table(struct packing *packing, struct packing_table *table,
        size_t bytes, cu_stream stream)
{
    struct gpu *gpu = packing->gpu;
    tutti_status status;

    pack_table_write(&packing->plan, table->image);
    table->used = ++packing->uses;
    table->piece_count = packing->plan.piece_count;
    status = gpu_check(gpu,
            gpu->cuda->memcpy_htod_async(table->memory, table->image, bytes, stream),
            "copy a table of tensors to it");
    return status == TUTTI_OK ? gpu_record(gpu, stream, &table->copied) : status;
}

/* A new table with the plan. TUTTI_AGAIN: there is no memory for it. */
static tutti_status make_table(struct packing *packing, uint64_t hash, cu_stream stream,
        struct packing_table **made)
{
    const size_t bytes = pack_table_bytes(&packing->plan);
    void *image = gpu_host_alloc(packing->gpu, bytes);
    tutti_status status;

    if (image == NULL) {
        return TUTTI_AGAIN;
    }
    status = find_room(packing, bytes, made);
    if (status != TUTTI_OK) {
        gpu_host_give_back(packing->gpu, image);
        return status;
    }
    (*made)->hash = hash;
    (*made)->image = image;
    return fill_table(packing, *made, bytes, stream);
}

/* The table of the plan, made if need be. TUTTI_AGAIN: it has to do without. */
static tutti_status find_table(
        struct packing *packing, cu_stream stream, cu_pointer *address)
{
    const uint64_t hash = hash_of(&packing->plan);
    struct packing_table *table = NULL;
    tutti_status status;

    for (size_t i = 0; i < PACKING_TABLES; i++) {
        table = &packing->tables[i];
        if (is_of(table, &packing->plan, hash)) {
            table->used = ++packing->uses;
            *address = table->memory;
            status = settle(packing, table);
            return status == TUTTI_AGAIN
                    ? gpu_follow(packing->gpu, stream, table->copied)
                    : status;
        }
    }
    status = make_table(packing, hash, stream, &table);
    if (status == TUTTI_OK) {
        *address = table->memory;
    }
    return status;
}

/* --------------------------------------------------------------------- launches */

static tutti_status launch(struct packing *packing, const struct packing_work *work,
        cu_pointer packed, cu_pointer table)
{
    struct gpu *gpu = packing->gpu;
    const bool gathers = work->direction == PACK_GATHER;
    const struct pack_work what = { .direction = work->direction,
        .packed = packed,
        .table = table,
        .scale = gathers ? work->form->before : work->form->after,
        .divisor = gathers ? 1 : work->form->divisor };
    const struct kernel_launch how =
            pack_launch(&packing->plan, &what, &packing->target, &packing->args);
    void *parameters[] = { &packing->args };

    if (packing->counts != NULL) {
        (void)atomic_fetch_add_explicit(
                &packing->counts->launches, 1, memory_order_relaxed);
    }
    return gpu_check(gpu,
            gpu->cuda->launch_kernel(gpu->kernels[how.kernel], how.grid, 1, 1,
                    how.threads, 1, 1, 0, work->stream, parameters, NULL),
            gathers ? "launch the packing kernel" : "launch the unpacking kernel");
}

/* Which pieces a launch is for, and what their offsets count from. */
enum packing_part {
    PACKING_ALL, /* absolute addresses */
    PACKING_SLAB, /* those in the slab, from its beginning */
    PACKING_REST /* the others: absolute addresses */
};

static bool is_in(enum packing_part part, const struct script_piece *piece)
{
    return part == PACKING_ALL || piece->packed.in_slab == (part == PACKING_SLAB);
}

/* Adds pieces from *next on, at most `most`. */
static tutti_status add_pieces(struct packing *packing, const struct packing_work *work,
        enum packing_part part, size_t most, size_t *next)
{
    tutti_status status = TUTTI_OK;

    pack_plan_reset(&packing->plan, work->form->dtype, work->form->wire);
    while (*next < work->pieces->count && packing->plan.piece_count < most &&
            status == TUTTI_OK) {
        const struct script_piece *piece = &work->pieces->pieces[*next];
        const uint64_t base =
                part != PACKING_SLAB && piece->packed.in_slab ? work->slab : 0;

        if (is_in(part, piece)) {
            status = pack_plan_add_at(&packing->plan, piece->tensor, piece->count,
                    base + piece->packed.at);
        }
        (*next)++;
    }
    return status;
}

/* As many launches as the parameters need. */
static tutti_status run_by_value(
        struct packing *packing, const struct packing_work *work)
{
    tutti_status status = TUTTI_OK;
    size_t next = 0;

    while (next < work->pieces->count && status == TUTTI_OK) {
        status = add_pieces(packing, work, PACKING_ALL, packing->pieces_max, &next);
        if (status == TUTTI_OK) {
            status = launch(packing, work, 0, 0);
        }
    }
    return status;
}

/* Tables hold no address of a slab: the next batch like this one may have another. */
static tutti_status run_by_table(struct packing *packing,
        const struct packing_work *work, enum packing_part part)
{
    cu_pointer table = 0;
    size_t next = 0;
    tutti_status status = add_pieces(packing, work, part, SIZE_MAX, &next);

    if (status != TUTTI_OK || packing->plan.piece_count == 0) {
        return status;
    }
    if (pack_plan_form(&packing->plan, &packing->target) == PACK_TABLE) {
        status = find_table(packing, work->stream, &table);
    }
    if (status != TUTTI_OK) {
        return status;
    }
    return launch(packing, work, part == PACKING_SLAB ? work->slab : 0, table);
}

tutti_status packing_run(struct packing *packing, const struct packing_work *work)
{
    tutti_status status = TUTTI_AGAIN;

    if (work->pieces->count > packing->pieces_max && !work->is_captured) {
        status = run_by_table(packing, work, PACKING_SLAB);
    }
    if (status == TUTTI_OK) {
        status = run_by_table(packing, work, PACKING_REST);
    }
    /* All of it again, if need be: what was packed is packed to the same place. */
    return status == TUTTI_AGAIN ? run_by_value(packing, work) : status;
}
