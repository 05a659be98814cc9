/*
 * A rank's GPU: opening and closing it.
 */
#include "ops/gpu/gpu.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "ops/gpu/choice.h"
#include "ops/gpu/communicator.h"
#include "ops/gpu/find.h"
#include "ops/gpu/memory.h"

/* A batch that was just packed is still in so much of the second-level cache when it is sent:
 * beside it are the tensors, and the kernels of the application. */
#define FUSION_EIGHTHS 3
#define FUSION_MIN ((size_t)4 << 20)

/* ---------------------------------------------------------------------- opening */

size_t gpu_fusion_bytes(const struct gpu *gpu)
{
    const size_t chosen = gpu->config->gpu_fusion_bytes;

    return chosen != 0 ? chosen
                       : size_max(gpu->l2_bytes / 8 * FUSION_EIGHTHS, FUSION_MIN);
}

static void note_context_id(struct gpu *gpu)
{
    if (gpu->cuda->ctx_get_id != NULL &&
            gpu->cuda->ctx_get_id(gpu->context, &gpu->context_id) != CU_SUCCESS) {
        gpu->driver.ctx_get_id = NULL; /* it does not tell: the state will do */
    }
}

static tutti_status read_facts(struct gpu *gpu)
{
    struct gpu_device_facts facts;
    const tutti_status status = gpu_device_read(gpu->cuda, gpu->ordinal, &facts);

    if (status == TUTTI_OK) {
        gpu->device = facts.device;
        memcpy(gpu->name, facts.name, sizeof gpu->name);
        memcpy(gpu->pci, facts.pci, sizeof gpu->pci);
        gpu->sm_count = facts.sm_count;
        gpu->l2_bytes = facts.l2_bytes;
        gpu->slab_bytes = gpu_fusion_bytes(gpu);
    }
    return status;
}

/*
 * Of the highest priority, so that communication starts before the next kernel of the
 * application; non-blocking, so that the legacy default stream does not wait for them.
 */
static tutti_status make_streams(struct gpu *gpu)
{
    int least = 0;
    int greatest = 0;
    tutti_status status =
            gpu_check(gpu, gpu->cuda->ctx_get_stream_priority_range(&least, &greatest),
                    "read the priorities of streams");

    for (int i = 0; i < GPU_STREAMS && status == TUTTI_OK; i++) {
        status = gpu_check(gpu,
                gpu->cuda->stream_create(
                        &gpu->streams[i], CU_STREAM_NONBLOCKING, greatest),
                "create a stream");
    }
    return status;
}

static tutti_status furnish(struct gpu *gpu)
{
    tutti_status status = make_streams(gpu);

    if (status == TUTTI_OK) {
        status = image_load(gpu);
    }
    if (status == TUTTI_OK) {
        status = gpu_events_open(gpu);
    }
    return status == TUTTI_OK ? gpu_memory_open(gpu) : status;
}

static tutti_status open_device(struct gpu *gpu)
{
    const struct cuda_driver *cuda = gpu->cuda;
    tutti_status status = read_facts(gpu);

    if (status == TUTTI_OK) {
        status = gpu_check(gpu,
                cuda->device_primary_ctx_retain(&gpu->context, gpu->device),
                "make the context of the device");
    }
    if (status != TUTTI_OK) {
        gpu->context = NULL;
        return status;
    }
    note_context_id(gpu);
    status = gpu_enter(gpu);
    if (status == TUTTI_OK) {
        status = furnish(gpu);
        gpu_leave(gpu);
    }
    return status;
}

static tutti_status open_nccl(struct gpu *gpu)
{
    if (nccl_load(gpu->config->nccl_library, &gpu->nccl_table) == TUTTI_OK) {
        gpu->nccl = &gpu->nccl_table;
        return communicators_open(gpu);
    }
    (void)snprintf(
            gpu->nccl_absence, sizeof gpu->nccl_absence, "%s", tutti_last_error());
    return TUTTI_OK;
}

static struct gpu *gpu_new(
        const struct config *config, const struct log *log, const struct gpu_seat *seat)
{
    struct gpu *gpu = mem_calloc(1, sizeof *gpu);

    if (gpu == NULL) {
        return NULL;
    }
    gpu->cuda = &gpu->driver;
    gpu->config = &gpu->values;
    gpu->log = &gpu->sink;
    gpu->sink = *log;
    gpu->rank = seat->rank;
    gpu->ordinal = -1;
    if (config_copy(&gpu->values, config) != TUTTI_OK) {
        mem_free(gpu);
        return NULL;
    }
    return gpu;
}

/*
 * No driver is a fact and no error, unless a device is asked for by name. *gpu is taken
 * over: it is NULL afterwards where there is none.
 */
static tutti_status find_device(struct gpu *gpu, const struct gpu_seat *seat)
{
    const char *wanted = gpu->config->gpu;
    char why[ERROR_TEXT_MAX / 2];

    if (driver_load(gpu->config->cuda_library, &gpu->driver) == TUTTI_OK) {
        return choice_make(gpu->cuda, wanted, seat, &gpu->ordinal);
    }
    if (!choice_is_definite(wanted)) {
        return TUTTI_OK;
    }
    (void)snprintf(why, sizeof why, "%s", tutti_last_error());
    return error_set(TUTTI_ERR_CONFIG, "gpu=%s, but rank %d has none: %s", wanted,
            seat->rank, why);
}

/* ---------------------------------------------------------------------- closing */

/* What is still on the streams uses memory that is to be freed. */
static void wait_for_streams(const struct gpu *gpu)
{
    for (int i = 0; i < GPU_STREAMS; i++) {
        if (gpu->streams[i] != NULL) {
            (void)gpu->cuda->stream_synchronize(gpu->streams[i]);
        }
    }
}

static void close_device(struct gpu *gpu)
{
    gpu->is_gone = !gpu_enter_to_close(gpu);
    if (!gpu->is_gone) {
        if (gpu->communicators != NULL) {
            communicators_end(gpu, false); /* those that no backend had */
        }
        wait_for_streams(gpu);
    }
    gpu_graphs_close(gpu);
    if (gpu->memory != NULL) {
        slabs_close(gpu);
        pinned_close(gpu);
        gpu_memory_close(gpu);
    }
    gpu_events_close(gpu);
    if (gpu->is_gone) {
        return;
    }
    for (int i = 0; i < GPU_STREAMS; i++) {
        if (gpu->streams[i] != NULL) {
            (void)gpu->cuda->stream_destroy(gpu->streams[i]);
        }
    }
    if (gpu->module != NULL) {
        (void)gpu->cuda->module_unload(gpu->module);
    }
    gpu_leave(gpu);
    (void)gpu->cuda->device_primary_ctx_release(gpu->device);
}

void gpu_close(struct gpu *gpu)
{
    if (gpu == NULL) {
        return;
    }
    if (gpu->context != NULL) {
        close_device(gpu);
    }
    communicators_release(gpu->communicators);
    config_fini(&gpu->values);
    mem_free(gpu);
}

/* ------------------------------------------------------------------------- open */

tutti_status gpu_open(const struct config *config, const struct log *log,
        const struct gpu_seat *seat, struct gpu **opened)
{
    struct gpu *gpu;
    tutti_status status;

    *opened = NULL;
    if (choice_is_off(config->gpu)) {
        error_note("gpu=off");
        return TUTTI_OK;
    }
    if (config->gpu_nccl_max_ctas > 0 &&
            config->gpu_nccl_min_ctas > config->gpu_nccl_max_ctas) {
        return error_set(TUTTI_ERR_CONFIG,
                "gpu_nccl_min_ctas=%d is more than gpu_nccl_max_ctas=%d",
                config->gpu_nccl_min_ctas, config->gpu_nccl_max_ctas);
    }
    gpu = gpu_new(config, log, seat);
    if (gpu == NULL) {
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory to open a GPU");
    }
    status = find_device(gpu, seat);
    if (status == TUTTI_OK && gpu->ordinal >= 0) {
        status = open_nccl(gpu);
    }
    if (status == TUTTI_OK && gpu->ordinal >= 0) {
        status = open_device(gpu);
    }
    if (status != TUTTI_OK || gpu->ordinal < 0) {
        gpu_close(gpu);
        return status;
    }
    log_info(gpu->log, "GPU %d (%s, %s), CUDA %d.%d, NCCL %s%d, %s", gpu->ordinal,
            gpu->name, gpu->pci, gpu->cuda->version / 1000,
            gpu->cuda->version % 1000 / 10, gpu->nccl == NULL ? "is not there: " : "",
            gpu->nccl == NULL ? 0 : gpu->nccl->version,
            gpu->has_kernels ? "with kernels" : "without kernels");
    *opened = gpu;
    return TUTTI_OK;
}
