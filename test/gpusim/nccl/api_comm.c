/*
 * The exported functions: the library, communicators, groups.
 */
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

#include "test/gpusim/nccl/api.h"
#include "test/gpusim/nccl/arrive.h"
#include "test/gpusim/nccl/calls.h"
#include "test/gpusim/nccl/gpusim_nccl.h"
#include "test/gpusim/nccl/job.h"

enum {
    CONFIG_LEAST_BYTES = offsetof(struct nccl_config, blocking) + sizeof(int)
};

nccl_result api_begin(const char *function, int rank)
{
    int result = gpusim_call(function);
    long value;

    if (fault_at(rank, function, &value)) {
        result = (int)value;
    }
    return result == 0
            ? NCCL_SUCCESS
            : comm_error(NULL, result, "%s: a fault of the simulator", function);
}

int api_rank(nccl_comm comm)
{
    return comm != NULL && comm_is_known(comm) ? comm->rank : -1;
}

nccl_result api_failed(nccl_result result)
{
    return job_group_failed(result);
}

nccl_result api_enter(nccl_comm comm, const char *function)
{
    nccl_result result = api_begin(function, api_rank(comm));

    if (result == NCCL_SUCCESS) {
        result = comm_enter(comm, function);
    }
    return result == NCCL_SUCCESS ? result : api_failed(result);
}

nccl_result ncclGetVersion(int *version)
{
    nccl_result result = api_begin("ncclGetVersion", -1);

    if (result == NCCL_SUCCESS) {
        *version = api_version;
    }
    return result;
}

const char *ncclGetErrorString(nccl_result error)
{
    return error == NCCL_SUCCESS ? "no error" : "an error (simulated)";
}

const char *ncclGetLastError(nccl_comm comm)
{
    return comm_last_error(comm);
}

nccl_result ncclGetUniqueId(struct nccl_id *id)
{
    nccl_result result = api_begin("ncclGetUniqueId", -1);
    unsigned char bytes[SEGMENT_ID_BYTES];

    if (result != NCCL_SUCCESS) {
        return result;
    }
    segment_id_make(bytes);
    memcpy(id->bytes, bytes, sizeof bytes);
    return NCCL_SUCCESS;
}

/* Whether a communicator with this config blocks: 1, 0, or -1 for a bad config. */
static int config_blocks(const struct nccl_config *config, bool otherwise)
{
    if (config == NULL) {
        return otherwise;
    }
    if (config->magic != NCCL_CONFIG_MAGIC || config->size < CONFIG_LEAST_BYTES) {
        return -1;
    }
    return config->blocking == 0 || config->blocking == 1 ? config->blocking : -1;
}

/* Of the config that was given last. */
static _Atomic int min_ctas, max_ctas, traffic_class;

/* False for what the real one refuses: a network that is not there. */
static bool note_config(const struct nccl_config *config)
{
    if (config == NULL || config->size < sizeof *config) {
        return true;
    }
    atomic_store(&min_ctas, config->min_ctas);
    atomic_store(&max_ctas, config->max_ctas);
    atomic_store(&traffic_class, config->traffic_class);
    return config->net_name == NULL || strcmp(config->net_name, "Socket") == 0;
}

void api_get_config(struct gpusim_nccl_live *live)
{
    live->min_ctas = atomic_load(&min_ctas);
    live->max_ctas = atomic_load(&max_ctas);
    live->traffic_class = atomic_load(&traffic_class);
}

static bool is_unnamed(const struct nccl_config *config)
{
    return config != NULL &&
            (config->size < sizeof *config || config->comm_name == NULL);
}

/* What all ranks must have been given alike; 0: one behind the first is no id. */
static uint64_t hash_ids(const struct nccl_id *ids, int count)
{
    uint64_t hash = 1;

    for (int i = 0; i < count; i++) {
        if (i > 0 && !segment_is_id((const unsigned char *)ids[i].bytes)) {
            return 0;
        }
        for (size_t b = 0; b < sizeof ids[i].bytes; b++) {
            hash = (hash ^ (unsigned char)ids[i].bytes[b]) * UINT64_C(0x100000001b3);
        }
    }
    return hash;
}

/* Ranks meet by the first of several ids. */
static nccl_result init_rank(nccl_comm *comm, int size, const struct nccl_id *ids,
        int id_count, int rank, int blocks)
{
    nccl_result result;
    unsigned char bytes[SEGMENT_ID_BYTES];

    if (comm == NULL || size < 1 || size > SEGMENT_RANKS_MAX || rank < 0 ||
            rank >= size || blocks < 0 || id_count < 1 || id_count > size ||
            hash_ids(ids, id_count) == 0) {
        return comm_error(NULL, NCCL_INVALID_ARGUMENT,
                "ncclCommInitRank: rank %d of %d, the config, or one of %d ids", rank,
                size, id_count);
    }
    if (gpusim_current_device() < 0) {
        return comm_error(
                NULL, NCCL_UNHANDLED_CUDA_ERROR, "there is no current context");
    }
    *comm = comm_create(rank, size, blocks == 1);
    (*comm)->ids = hash_ids(ids, id_count);
    memcpy(bytes, ids->bytes, sizeof bytes);
    for (int i = 1; i < id_count; i++) {
        segment_id_release((const unsigned char *)ids[i].bytes);
    }
    result = job_submit(arrive_by_id(*comm, bytes));
    return result;
}

nccl_result ncclCommInitRank(nccl_comm *comm, int size, struct nccl_id id, int rank)
{
    nccl_result result = api_begin("ncclCommInitRank", rank);

    if (result == NCCL_SUCCESS) {
        result = init_rank(comm, size, &id, 1, rank, 1);
    }
    return api_failed(result);
}

static nccl_result init_config(nccl_comm *comm, int size, const struct nccl_id *ids,
        int id_count, int rank, const struct nccl_config *config)
{
    nccl_result result;

    if (!note_config(config)) {
        return comm_error(NULL, NCCL_INVALID_USAGE, "there is no network \"%s\"",
                config->net_name);
    }
    result = init_rank(comm, size, ids, id_count, rank, config_blocks(config, true));
    if (result == NCCL_SUCCESS || result == NCCL_IN_PROGRESS) {
        (*comm)->is_unnamed = is_unnamed(config);
    }
    return result;
}

nccl_result ncclCommInitRankConfig(nccl_comm *comm, int size, struct nccl_id id,
        int rank, struct nccl_config *config)
{
    nccl_result result = api_begin("ncclCommInitRankConfig", rank);

    if (result == NCCL_SUCCESS) {
        result = init_config(comm, size, &id, 1, rank, config);
    }
    return api_failed(result);
}

nccl_result ncclCommInitRankScalable(nccl_comm *comm, int size, int rank, int count,
        struct nccl_id *ids, struct nccl_config *config)
{
    nccl_result result = api_begin("ncclCommInitRankScalable", rank);

    if (result == NCCL_SUCCESS) {
        result = init_config(comm, size, ids, count, rank, config);
    }
    return api_failed(result);
}

/* ---- from a parent ---- */

/* The parent is entered. */
static nccl_result divide(struct division *division, const struct nccl_config *config)
{
    nccl_comm parent = division->parent;
    int blocks = config_blocks(config, parent->blocking);
    bool has_child = division->colour != NCCL_NO_COLOUR;
    cu_context before;

    if (division->slot == NULL || blocks < 0 || !note_config(config)) {
        return comm_error(parent, NCCL_INVALID_ARGUMENT, "ncclCommSplit: argument");
    }
    if (comm_flying(parent) != 0) {
        return comm_misuse(parent, "ncclCommSplit", "operations are outstanding",
                NCCL_INVALID_USAGE);
    }
    *division->slot = NULL;
    if (has_child) {
        (void)cuCtxPushCurrent_v2(parent->context);
        division->child = comm_create(-1, 0, blocks == 1);
        (void)cuCtxPopCurrent_v2(&before);
        division->child->is_unnamed = is_unnamed(config);
        *division->slot = division->child;
    }
    return job_submit(arrive_by_parent(division));
}

nccl_result ncclCommSplit(nccl_comm comm, int colour, int key, nccl_comm *part,
        struct nccl_config *config)
{
    nccl_result result = api_enter(comm, "ncclCommSplit");
    struct division division = {
        .parent = comm,
        .slot = part,
        .colour = colour,
        .key = key,
    };

    if (result == NCCL_SUCCESS) {
        result = colour < NCCL_NO_COLOUR ? NCCL_INVALID_ARGUMENT
                                         : divide(&division, config);
        comm_leave(comm);
    }
    return api_failed(result);
}

/* ---- ends ---- */

nccl_result ncclCommFinalize(nccl_comm comm)
{
    nccl_result result = api_enter(comm, "ncclCommFinalize");

    if (result == NCCL_SUCCESS) {
        result = job_submit(end_finalize(comm));
        comm_leave(comm);
    }
    return result;
}

/* Polls left undone make a destruction a mistake. */
static bool is_in_progress(nccl_comm comm)
{
    bool pending;

    (void)pthread_mutex_lock(&comm->lock);
    pending = comm->pending != NULL;
    (void)pthread_mutex_unlock(&comm->lock);
    return pending;
}

/* Another thread is in a call, under which an abort frees the communicator. Entered. */
static bool is_shared(nccl_comm comm)
{
    bool shared;

    (void)pthread_mutex_lock(&comm->lock);
    shared = comm->users > 1;
    (void)pthread_mutex_unlock(&comm->lock);
    return shared;
}

nccl_result ncclCommDestroy(nccl_comm comm)
{
    nccl_result result = api_begin("ncclCommDestroy", api_rank(comm));

    if (comm == NULL || result != NCCL_SUCCESS) {
        return result;
    }
    result = comm_enter_any(comm, "ncclCommDestroy");
    if (result != NCCL_SUCCESS) {
        return api_failed(result);
    }
    if (is_in_progress(comm)) {
        result = comm_misuse(comm, "ncclCommDestroy",
                "before ncclCommGetAsyncError has said that the call before is done",
                NCCL_INVALID_ARGUMENT);
    }
    comm_leave_any(comm);
    return result == NCCL_SUCCESS ? job_submit(end_destroy(comm)) : api_failed(result);
}

nccl_result ncclCommAbort(nccl_comm comm)
{
    nccl_result result = api_begin("ncclCommAbort", api_rank(comm));

    if (comm == NULL || result != NCCL_SUCCESS) {
        return result;
    }
    result = comm_enter_any(comm, "ncclCommAbort");
    if (result != NCCL_SUCCESS) {
        return api_failed(result);
    }
    if (is_shared(comm)) {
        (void)comm_misuse(comm, "ncclCommAbort", "another thread is in a call on it",
                NCCL_SUCCESS);
    }
    comm_quit(comm, COMM_QUIT_ALL);
    comm_leave_any(comm);
    return job_submit(end_abort(comm));
}

/* ---- questions ---- */

nccl_result ncclCommGetAsyncError(nccl_comm comm, nccl_result *error)
{
    nccl_result result = api_begin("ncclCommGetAsyncError", api_rank(comm));

    if (result == NCCL_SUCCESS) {
        result = comm_enter_any(comm, "ncclCommGetAsyncError");
    }
    if (result != NCCL_SUCCESS) {
        return result;
    }
    *error = job_poll(comm);
    comm_leave_any(comm);
    return NCCL_SUCCESS;
}

/* ---- groups ---- */

nccl_result ncclGroupStart(void)
{
    nccl_result result = api_begin("ncclGroupStart", -1);

    if (result == NCCL_SUCCESS) {
        job_group_start();
    }
    return result;
}

nccl_result ncclGroupEnd(void)
{
    nccl_result result = api_begin("ncclGroupEnd", -1);

    if (result != NCCL_SUCCESS) {
        (void)job_group_failed(result);
    }
    result = job_group_end();
    return result;
}
