/*
 * A commit: all ranks write, one allreduce says that all have, all mark it.
 */
#include <stdatomic.h>
#include <string.h>

#include "elastic/elastic.h"
#include "error.h"

/** A commit under way. */
struct writing {
    tutti_state *state;
    int slot;
    struct region_share share; /* of this rank                             */
    tutti_status status; /* of its writes: what others send is taken nonetheless */
};

static void put_piece(
        struct writing *writing, uint64_t at, const void *bytes, uint64_t count)
{
    if (writing->status == TUTTI_OK) {
        writing->status = region_write(&writing->state->region, writing->slot,
                &writing->share, at, bytes, (size_t)count);
    }
}

/** Elements that a rank supplies: in pieces to all ranks, each of which writes its share. */
static tutti_status gather_part(struct writing *writing,
        const tutti_state_tensor *tensor, const struct part *part, uint64_t at)
{
    tutti_state *state = writing->state;
    const uint64_t size = tutti_dtype_size(tensor->dtype);
    const char *own = tensor->data;
    const uint64_t end = (uint64_t)(part->first + part->count) * size;
    tutti_status status = TUTTI_OK;

    for (uint64_t from = (uint64_t)part->first * size; from < end;) {
        const uint64_t count =
                end - from < ELASTIC_PIECE_BYTES ? end - from : ELASTIC_PIECE_BYTES;

        if (part->rank == state->group.rank) {
            memcpy(state->piece, own + (from - (uint64_t)tensor->first * size), count);
        }
        status = group_heard(state->group.t,
                tutti_broadcast(state->group.t, "tutti.elastic.part", state->piece,
                        (int64_t)count, TUTTI_UINT8, (int)part->rank,
                        &state->group.options));
        if (status != TUTTI_OK) {
            return status;
        }
        put_piece(writing, at + from, state->piece, count);
        from += count;
    }
    return TUTTI_OK;
}

static tutti_status write_tensors(struct writing *writing)
{
    const tutti_state *state = writing->state;
    tutti_status status = TUTTI_OK;
    uint64_t at = 0;

    for (size_t i = 0; status == TUTTI_OK && i < state->count; i++) {
        const tutti_state_tensor *tensor = &state->tensors[i];
        const struct part *part = &state->parts[i * parts_stride(&state->group)];

        if (state->divided[i] == 0) {
            put_piece(writing, at, tensor->data, elastic_bytes(tensor));
        }
        for (; status == TUTTI_OK && state->divided[i] != 0 && part->count > 0;
                part++) {
            status = gather_part(writing, tensor, part, at);
        }
        at += elastic_bytes(tensor);
    }
    return status;
}

/** From here on the newest commit of this host. */
static tutti_status mark(struct writing *writing)
{
    tutti_state *state = writing->state;
    _Atomic uint64_t *committed = &state->region.control->committed;
    tutti_status status;

    writing->share.is_complete = 1;
    status = region_put(&state->region, writing->slot, &writing->share);
    atomic_store_explicit(committed, writing->share.number, memory_order_relaxed);
    state->newest = writing->slot;
    return status;
}

tutti_status tutti_state_commit(tutti_state *state)
{
    struct writing writing = { .state = state };
    int64_t ballot[2];
    tutti_status status = elastic_open(state);

    if (status != TUTTI_OK) {
        return status;
    }
    writing.slot = state->newest == 0 ? 1 : 0;
    writing.share = region_share(&state->region, state->total);
    writing.status = region_put(&state->region, writing.slot, &writing.share);
    status = write_tensors(&writing);
    if (status != TUTTI_OK) {
        return status;
    }
    writing.share.layout = state->layout;
    writing.share.number = elastic_number(state->region.generation, ++state->commits);
    if (writing.status == TUTTI_OK) {
        writing.status = region_put(&state->region, writing.slot, &writing.share);
    }
    ballot[0] = writing.status != TUTTI_OK;
    ballot[1] = elastic_told(state);
    status = group_heard(state->group.t,
            tutti_allreduce(state->group.t, "tutti.elastic.commit", ballot, ballot, 2,
                    TUTTI_INT64, TUTTI_MAX, &state->group.options));
    if (status == TUTTI_OK && ballot[0] != 0) {
        status = group_agree(&state->group, writing.status);
    }
    if (status == TUTTI_OK) {
        status = mark(&writing);
        if (status != TUTTI_OK) { /* the others have committed, and go on */
            (void)tutti_abort(state->group.t, tutti_last_error());
        }
    }
    return status == TUTTI_OK ? elastic_hear(state, ballot[1]) : status;
}
