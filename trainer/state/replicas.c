/*
 * What all ranks are to have alike: copies the state or bytes of one rank to all ranks, and finds
 * ranks whose state is not that of the others.
 */
#include <stdio.h>
#include <stdlib.h>

#include "error.h"
#include "state/tensors.h"

enum {
    RANKS_TEXT_BYTES = 200
};

static tutti_status check_root(const struct state_group *group, int root)
{
    if (root < 0 || root >= group->ranks) {
        return error_set(TUTTI_ERR_INVALID,
                "root %d of a broadcast is no rank of the set, 0 to %d", root,
                group->ranks - 1);
    }
    return TUTTI_OK;
}

static tutti_status check_whole(const tutti_state_tensor *tensors, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (!state_is_whole(&tensors[i])) {
            return error_set(TUTTI_ERR_INVALID,
                    "tensor \"%s\": this rank has a part of it; a broadcast copies all "
                    "of a tensor. Parts are saved and loaded by checkpoints",
                    tensors[i].name);
        }
    }
    return TUTTI_OK;
}

static tutti_status submit(const struct state_group *group,
        const tutti_state_tensor *tensors, size_t n, int root, tutti_request *requests)
{
    tutti_status status = TUTTI_OK;

    for (size_t i = 0; status == TUTTI_OK && i < n; i++) {
        char name[40];

        (void)snprintf(name, sizeof name, "tutti.state.%zu", i);
        status =
                tutti_broadcast_async(group->t, name, tensors[i].data, tensors[i].count,
                        tensors[i].dtype, root, &group->options, &requests[i]);
    }
    if (status != TUTTI_OK) { /* the other ranks wait for what was not submitted */
        (void)tutti_abort(group->t, tutti_last_error());
    }
    return status;
}

tutti_status tutti_broadcast_state(tutti *t, tutti_process_set set,
        const tutti_state_tensor *tensors, size_t n, int root)
{
    struct state_group group;
    const struct setting from = number_setting("root", root);
    tutti_request *requests;
    tutti_status status = group_init(&group, t, set);
    tutti_status waited;

    if (status != TUTTI_OK) {
        return status;
    }
    requests = calloc(n + 1, sizeof *requests);
    status = requests == NULL
            ? error_set(TUTTI_ERR_NO_MEMORY, "no memory to broadcast %zu tensors", n)
            : check_root(&group, root);
    status = state_agree(&group, status, tensors, n);
    if (status == TUTTI_OK) {
        status = group_same(&group, check_whole(tensors, n), &from, 1, NULL);
    }
    if (status == TUTTI_OK) {
        status = submit(&group, tensors, n, root, requests);
        waited = tutti_wait_all(t, n, requests, TUTTI_FOREVER, NULL);
        status = status != TUTTI_OK ? status : waited;
    }
    free(requests);
    return status;
}

static tutti_status check_object(
        const struct state_group *group, void **bytes, const size_t *count, int root)
{
    if (bytes == NULL || count == NULL ||
            (group->rank == root &&
                    (*count > INT64_MAX || (*bytes == NULL && *count > 0)))) {
        return error_set(TUTTI_ERR_INVALID,
                "the bytes of an object or their number are NULL, or have no memory");
    }
    return check_root(group, root);
}

tutti_status tutti_broadcast_object(
        tutti *t, tutti_process_set set, void **bytes, size_t *count, int root)
{
    struct state_group group;
    void *memory = NULL;
    int64_t length;
    tutti_status status = group_init(&group, t, set);

    if (status != TUTTI_OK) {
        return status;
    }
    status = group_agree(&group, check_object(&group, bytes, count, root));
    if (status != TUTTI_OK || bytes == NULL || count == NULL) {
        return status;
    }
    length = (int64_t)*count;
    status = group_heard(t,
            tutti_broadcast(t, "tutti.state.object.length", &length, 1, TUTTI_INT64,
                    root, &group.options));
    if (status != TUTTI_OK) {
        return status;
    }
    if (group.rank != root) {
        status = tutti_alloc(t, (size_t)length, TUTTI_HOST, &memory);
    }
    status = group_agree(&group, status);
    if (status == TUTTI_OK && length > 0) {
        status = group_heard(t,
                tutti_broadcast(t, "tutti.state.object",
                        group.rank == root ? *bytes : memory, length, TUTTI_UINT8, root,
                        &group.options));
    }
    if (status != TUTTI_OK) {
        (void)tutti_free(t, memory);
    } else if (group.rank != root) {
        *bytes = memory;
        *count = (size_t)length;
    }
    return status;
}

/** Hashes the tensors that all ranks have whole, and compares. */
static tutti_status compare_hashes(const struct state_group *group,
        const tutti_state_tensor *tensors, size_t n, uint64_t *hashes, size_t *first)
{
    tutti_status status;

    for (size_t i = 0; i < n; i++) {
        hashes[i] = state_is_whole(&tensors[i]);
    }
    status = group_heard(group->t,
            tutti_allreduce(group->t, "tutti.state.whole", hashes, hashes, (int64_t)n,
                    TUTTI_UINT64, TUTTI_MIN, &group->options));
    for (size_t i = 0; status == TUTTI_OK && i < n; i++) {
        if (hashes[i] != 0) {
            hashes[i] =
                    state_hash(0, tensors[i].data, (size_t)state_bytes(&tensors[i]));
        }
    }
    return status == TUTTI_OK ? group_compare(group, hashes, n, first) : status;
}

/** Says which ranks do not have the number that most have; of two, the first rank's. */
static tutti_status report(
        const struct state_group *group, const char *name, const uint64_t *hashes)
{
    char text[RANKS_TEXT_BYTES] = "";
    int most = 0;
    int common = 0;
    int used = 0;

    for (int r = 0; r < group->ranks; r++) {
        int same = 0;

        for (int other = 0; other < group->ranks; other++) {
            same += hashes[other] == hashes[r];
        }
        if (same > most) {
            most = same;
            common = r;
        }
    }
    for (int r = 0; r < group->ranks && used < RANKS_TEXT_BYTES; r++) {
        if (hashes[r] != hashes[common]) {
            used += snprintf(text + used, RANKS_TEXT_BYTES - (size_t)used, "%s%d",
                    used > 0 ? ", " : "", r);
        }
    }
    return error_set(TUTTI_ERR_MISMATCH,
            "tensor \"%s\" does not have the same bits on all ranks: rank%s %s "
            "differ%s from rank %d%s",
            name, group->ranks - most > 1 ? "s" : "", text,
            group->ranks - most > 1 ? "" : "s", common,
            most > 1 ? ", whose bits most ranks have" : "");
}

tutti_status tutti_check_state(
        tutti *t, tutti_process_set set, const tutti_state_tensor *tensors, size_t n)
{
    struct state_group group;
    tutti_status status = group_init(&group, t, set);
    uint64_t *hashes; /* of all tensors here, then of one tensor on all ranks */
    size_t first = n;

    if (status != TUTTI_OK) {
        return status;
    }
    hashes = calloc(n + (size_t)group.ranks, sizeof *hashes);
    status = hashes == NULL
            ? error_set(TUTTI_ERR_NO_MEMORY, "no memory to compare %zu tensors", n)
            : TUTTI_OK;
    status = state_agree(&group, status, tensors, n);
    if (status == TUTTI_OK && hashes != NULL) {
        status = compare_hashes(&group, tensors, n, hashes, &first);
    }
    if (status == TUTTI_OK && first < n) {
        status = group_heard(t,
                tutti_allgather(t, "tutti.state.hashes", &hashes[first], &hashes[n], 1,
                        1, NULL, TUTTI_UINT64, &group.options));
        if (status == TUTTI_OK) {
            status = report(&group, tensors[first].name, &hashes[n]);
        }
    }
    free(hashes);
    return status;
}
