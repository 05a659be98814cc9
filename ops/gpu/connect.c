/*
 * How the ranks of a process set meet in NCCL: those of all while tutti is initialised, or at the
 * first ticket; those of others at theirs.
 */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "ops/gpu/backend.h"
#include "ops/gpu/communicator.h"

/* With the parameters; what an older NCCL does not know of, it does not read. */
static void make_config(const struct gpu *gpu, struct nccl_config *config,
        struct communicator *communicator)
{
    const struct config *values = gpu->config;

    (void)snprintf(communicator->name, sizeof communicator->name,
            "tutti process set %u", communicator->set);
    nccl_config_init(config, communicator->name);
    if (values->gpu_nccl_min_ctas > 0) {
        config->min_ctas = values->gpu_nccl_min_ctas;
    }
    if (values->gpu_nccl_max_ctas > 0) {
        config->max_ctas = values->gpu_nccl_max_ctas;
    }
    if (values->gpu_nccl_traffic_class >= 0) {
        config->traffic_class = values->gpu_nccl_traffic_class;
    }
    if (*values->gpu_nccl_net != '\0') {
        config->net_name = values->gpu_nccl_net;
    }
}

/* For messages. */
static const char *making(const struct gpu *gpu)
{
    return *gpu->config->gpu_nccl_net == '\0'
            ? "make a communicator"
            : "make a communicator (over the network that gpu_nccl_net names)";
}

/* A part of the world's: no second search for the ranks. A rank that is no member helps. */
static nccl_result split_world(
        struct gpu *gpu, struct communicator *communicator, const struct op_set *set)
{
    const bool is_member = set->rank >= 0;
    struct nccl_config config;

    make_config(gpu, &config, communicator);
    communicator->parent = gpu->communicators->world->comm;
    return gpu->nccl->comm_split(communicator->parent, is_member ? 0 : NCCL_NO_COLOUR,
            is_member ? set->rank : 0, &communicator->comm, &config);
}

static nccl_result init(struct gpu *gpu, struct communicator *communicator,
        const struct op_set *set, struct nccl_id *ids, int count)
{
    const struct nccl_api *nccl = gpu->nccl;
    struct nccl_config config;

    if (nccl->comm_init_rank_config == NULL) {
        log_info(gpu->log,
                "NCCL %d blocks while the ranks of process set %u meet; 2.14 does not",
                nccl->version, set->id);
        return nccl->comm_init_rank(&communicator->comm, set->size, *ids, set->rank);
    }
    make_config(gpu, &config, communicator);
    if (count > 1) {
        return nccl->comm_init_rank_scalable(
                &communicator->comm, set->size, set->rank, count, ids, &config);
    }
    return nccl->comm_init_rank_config(
            &communicator->comm, set->size, *ids, set->rank, &config);
}

/* The one that is being made stays NULL where there is nothing to do for this rank. */
static tutti_status begin(struct gpu *gpu, const struct op_set *set,
        const uint8_t *tokens, int count, bool everyone)
{
    const bool splits = everyone && gpu->communicators->world != NULL &&
            gpu->nccl->comm_split != NULL;
    struct communicator *made;
    struct nccl_id *ids;
    nccl_result result;

    if (!splits && set->rank < 0) {
        return TUTTI_OK;
    }
    ids = mem_calloc((size_t)count, sizeof *ids);
    made = ids != NULL ? communicators_add(gpu, set) : NULL;
    if (made == NULL) {
        mem_free(ids);
        return error_set(TUTTI_ERR_NO_MEMORY,
                "no memory for the communicator of process set %u", set->id);
    }
    gpu->communicators->meeting = made;
    memcpy(ids, tokens, (size_t)count * sizeof *ids); /* a token is one */
    result = splits ? split_world(gpu, made, set) : init(gpu, made, set, ids, count);
    mem_free(ids);
    return communicator_check(gpu, made, result, making(gpu));
}

static tutti_status poll_meeting(const struct gpu *gpu)
{
    const struct communicator *made = gpu->communicators->meeting;
    const double limit_s = gpu->config->gpu_timeout_s;
    const double age_s = (double)(clock_ns() - made->since_ns) * 1e-9;
    const tutti_status status = communicator_poll(gpu, made, making(gpu));

    if (status != TUTTI_AGAIN || limit_s <= 0 || age_s < limit_s) {
        return status;
    }
    return error_set(TUTTI_ERR_SYSTEM,
            "rank %d: the %d ranks of process set %u have not met in NCCL on GPU %d "
            "(%s) "
            "for %.1f s (gpu_timeout_s=%g): do all of them reach each other "
            "(NCCL_SOCKET_IFNAME)?",
            gpu->rank, made->size, made->set, gpu->ordinal, gpu->pci, age_s, limit_s);
}

/* The one that is being made is ready. */
static void settle(struct communicators *all, const struct op_set *set)
{
    struct communicator *made = all->meeting;

    all->meeting = NULL;
    made->parent = NULL;
    made->stage = COMMUNICATOR_READY;
    if (set->rank < 0) {
        communicators_drop(all, made);
    } else if (set->index == 0) {
        all->world = made;
    }
}

tutti_status communicators_meet(struct gpu *gpu, const struct op_set *set,
        const uint8_t *tokens, int count, bool everyone)
{
    struct communicators *all = gpu->communicators;
    tutti_status status = TUTTI_OK;

    if (all->meeting == NULL) {
        status = begin(gpu, set, tokens, count, everyone);
    }
    if (status == TUTTI_OK && all->meeting != NULL) {
        status = poll_meeting(gpu);
        if (status == TUTTI_OK) {
            settle(all, set);
        }
    }
    return status;
}

/* ----------------------------------------------------------------- at the start */

_Static_assert(OP_TOKEN_BYTES == sizeof(struct nccl_id), "NCCL's id is the token");

tutti_status gpu_connect_token(struct gpu *gpu, uint8_t token[OP_TOKEN_BYTES])
{
    struct nccl_id id = { .bytes = { 0 } };
    nccl_result result;
    tutti_status status = gpu_enter(gpu);

    if (status != TUTTI_OK) {
        return status;
    }
    result = gpu->nccl->get_unique_id(&id);
    gpu_leave(gpu);
    if (result != NCCL_SUCCESS) {
        return error_set(TUTTI_ERR_SYSTEM,
                "rank %d: ncclGetUniqueId(): %s; NCCL_DEBUG=WARN says more", gpu->rank,
                nccl_error_text(gpu->nccl, result));
    }
    memcpy(token, &id, sizeof id);
    return TUTTI_OK;
}

int gpu_connect_tokens(const struct gpu *gpu, int ranks)
{
    const int each = gpu->config->gpu_nccl_ranks_per_id;

    return gpu->nccl->comm_init_rank_scalable != NULL ? (ranks - 1) / each + 1 : 1;
}

tutti_status gpu_connect(
        struct gpu *gpu, const struct op_set *world, const uint8_t *tokens, int count)
{
    tutti_status status = gpu_enter(gpu);

    if (status == TUTTI_OK) {
        status = communicators_meet(gpu, world, tokens, count, false);
        if (status != TUTTI_OK && status != TUTTI_AGAIN) {
            communicators_end(gpu, false); /* at once: others wait for this rank */
        }
        gpu_leave(gpu);
    }
    return status;
}

bool gpu_connect_blocks(const struct gpu *gpu)
{
    return gpu->nccl->comm_init_rank_config == NULL;
}
