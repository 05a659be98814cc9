/*
 * The communicator of all ranks, made while tutti is initialised.
 */
#include "base/error.h"
#include "base/mem.h"
#include "ops/gpu/backend.h"
#include "ops/gpu/communicator.h"
#include "ops/gpu/gpu.h"

static tutti_status begin(struct gpu *gpu)
{
    if (gpu->connected == NULL) {
        gpu->connected = mem_calloc(1, sizeof *gpu->connected);
        if (gpu->connected == NULL) {
            return error_set(TUTTI_ERR_NO_MEMORY, "no memory for NCCL's communicators");
        }
        gpu->connected->gpu = gpu;
    }
    return TUTTI_OK;
}

tutti_status gpu_connect_token(struct gpu *gpu, uint8_t token[OP_TOKEN_BYTES])
{
    const struct communicators none = { .gpu = gpu };
    tutti_status status = gpu_enter(gpu);

    if (status == TUTTI_OK) {
        status = communicators_token(&none, token);
        gpu_leave(gpu);
    }
    return status;
}

int gpu_connect_tokens(const struct gpu *gpu, int ranks)
{
    const int each = gpu->config->gpu_nccl_ranks_per_id;

    return gpu->nccl->comm_init_rank_scalable != NULL ? (ranks - 1) / each + 1 : 1;
}

tutti_status gpu_connect(
        struct gpu *gpu, const struct op_set *world, const uint8_t *tokens, int count)
{
    tutti_status status = begin(gpu);

    if (status == TUTTI_OK) {
        status = gpu_enter(gpu);
    }
    if (status == TUTTI_OK) {
        status = communicators_meet(gpu->connected, world, tokens, count, false);
        if (status != TUTTI_OK && status != TUTTI_AGAIN) {
            gpu_disconnect(gpu); /* at once: others wait for this rank */
        }
        gpu_leave(gpu);
    }
    return status;
}

bool gpu_connect_blocks(const struct gpu *gpu)
{
    return gpu->nccl->comm_init_rank_config == NULL;
}

struct communicators gpu_connected_take(struct gpu *gpu)
{
    struct communicators taken = { .gpu = gpu };

    if (gpu->connected != NULL) {
        taken = *gpu->connected;
        mem_free(gpu->connected);
        gpu->connected = NULL;
    }
    return taken;
}

void gpu_disconnect(struct gpu *gpu)
{
    if (gpu->connected != NULL) {
        struct communicators left = gpu_connected_take(gpu);

        communicators_close(&left, false);
    }
}
