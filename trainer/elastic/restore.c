/*
 * From kept memory to what is registered.
 */
#include <string.h>

#include "elastic/elastic.h"
#include "error.h"

/** What this rank could supply. */
struct choice {
    struct region_commit slots[REGION_SLOTS];
    bool is_bad[REGION_SLOTS]; /* its checksums are wrong             */
    uint64_t below; /* commits from this number on are given up; 0: none is */
};

static bool is_left(const struct choice *choice, uint64_t number)
{
    return number != 0 && (choice->below == 0 || number < choice->below);
}

static tutti_status greatest(const tutti_state *state, uint64_t *number)
{
    return group_heard(state->group.t,
            tutti_allreduce(state->group.t, "tutti.elastic.newest", number, number, 1,
                    TUTTI_UINT64, TUTTI_MAX, &state->group.options));
}

/** The newest commit that is marked anywhere; 0: there is none. */
static tutti_status find_number(
        const tutti_state *state, const struct choice *choice, uint64_t *number)
{
    *number = 0;
    for (int slot = 0; slot < REGION_SLOTS; slot++) {
        const struct region_commit *commit = &choice->slots[slot];

        if (commit->is_complete && is_left(choice, commit->number) &&
                commit->number > *number) {
            *number = commit->number;
        }
    }
    return greatest(state, number);
}

/** The slot with this commit; -1: none. */
static int slot_of(const struct choice *choice, uint64_t number)
{
    for (int slot = 0; slot < REGION_SLOTS; slot++) {
        if (choice->slots[slot].number == number) {
            return slot;
        }
    }
    return -1;
}

/** The lowest rank whose host has the commit and can read it; -1: none. */
static tutti_status find_owner(
        const tutti_state *state, struct choice *choice, uint64_t number, int *owner)
{
    const int ranks = state->group.ranks;
    tutti_status status = TUTTI_OK;
    uint64_t is_sound = 0;

    while (status == TUTTI_OK && is_sound == 0) {
        const int slot = slot_of(choice, number);
        /* the greatest of what counts down from rank 0 */
        uint64_t rank = slot >= 0 && !choice->is_bad[slot]
                ? (uint64_t)(ranks - state->group.rank)
                : 0;

        status = greatest(state, &rank);
        *owner = ranks - (int)rank;
        if (status != TUTTI_OK || rank == 0) {
            *owner = -1;
            return status;
        }
        if (*owner == state->group.rank) {
            is_sound = region_is_sound(
                    &state->region, slot, state->piece, ELASTIC_PIECE_BYTES);
            choice->is_bad[slot] = is_sound == 0;
        }
        status = greatest(state, &is_sound);
    }
    return status;
}

/** Copies bytes [at, at + count) of a whole tensor, those that this rank has. */
static void take(const tutti_state_tensor *tensor, uint64_t at, const void *bytes,
        uint64_t count)
{
    const uint64_t size = tutti_dtype_size(tensor->dtype);
    const uint64_t first = (uint64_t)tensor->first * size;
    const uint64_t last = first + (uint64_t)tensor->count * size;
    const uint64_t from = at > first ? at : first;
    const uint64_t end = at + count < last ? at + count : last;

    if (from < end) {
        memcpy((char *)tensor->data + (from - first), (const char *)bytes + (from - at),
                end - from);
    }
}

/** One tensor, which begins at byte `at` of the commit. */
static tutti_status restore_tensor(const tutti_state *state,
        const tutti_state_tensor *tensor, int owner, int slot, uint64_t at)
{
    const uint64_t bytes = elastic_bytes(tensor);
    tutti_status status = TUTTI_OK;
    tutti_status read = TUTTI_OK;

    for (uint64_t from = 0; status == TUTTI_OK && from < bytes;) {
        const uint64_t count =
                bytes - from < ELASTIC_PIECE_BYTES ? bytes - from : ELASTIC_PIECE_BYTES;

        if (owner == state->group.rank) {
            read = region_read(&state->region, slot, at + from, state->piece, count);
        }
        if (read != TUTTI_OK) { /* it was read a moment ago; the others wait for it */
            (void)tutti_abort(state->group.t, tutti_last_error());
            return read;
        }
        status = group_heard(state->group.t,
                tutti_broadcast(state->group.t, "tutti.elastic.restore", state->piece,
                        (int64_t)count, TUTTI_UINT8, owner, &state->group.options));
        if (status == TUTTI_OK) {
            take(tensor, from, state->piece, count);
        }
        from += count;
    }
    return status;
}

/** The owner knows whether what was committed is what is registered. */
static tutti_status check_layout(
        const tutti_state *state, const struct choice *choice, int owner, int slot)
{
    tutti_status status = TUTTI_OK;

    if (owner == state->group.rank &&
            (choice->slots[slot].layout != state->layout ||
                    choice->slots[slot].total != state->total)) {
        status = error_set(TUTTI_ERR_MISMATCH,
                "the program that committed its state had registered other memory "
                "(%llu bytes) than this one (%llu bytes)",
                (unsigned long long)choice->slots[slot].total,
                (unsigned long long)state->total);
    }
    return group_agree(&state->group, status);
}

static tutti_status fill(
        tutti_state *state, const struct choice *choice, uint64_t number, int owner)
{
    const int slot = slot_of(choice, number);
    tutti_status status = check_layout(state, choice, owner, slot);
    uint64_t at = 0;

    for (size_t i = 0; status == TUTTI_OK && i < state->count; i++) {
        status = restore_tensor(state, &state->tensors[i], owner, slot, at);
        at += elastic_bytes(&state->tensors[i]);
    }
    /* All ranks of a host know the same of it, and so write to the same slot next. */
    state->newest = slot;
    return status;
}

tutti_status tutti_state_restore(tutti_state *state, uint64_t *number)
{
    struct choice choice = { .below = 0 };
    uint64_t newest = 0;
    int owner = -1;
    tutti_status status = elastic_open(state);

    if (status != TUTTI_OK) {
        return status;
    }
    for (int slot = 0; slot < REGION_SLOTS; slot++) {
        choice.slots[slot] = region_look(&state->region, slot);
    }
    do {
        status = find_number(state, &choice, &newest);
        if (status == TUTTI_OK && newest != 0) {
            status = find_owner(state, &choice, newest, &owner);
            choice.below = newest;
        }
    } while (status == TUTTI_OK && newest != 0 && owner < 0);
    if (status == TUTTI_OK && newest != 0) {
        status = fill(state, &choice, newest, owner);
    }
    if (status == TUTTI_OK && number != NULL) {
        *number = newest;
    }
    return status;
}

/** All ranks get what rank 0 has of what all have. */
static tutti_status share_first(tutti_state *state)
{
    tutti_status status = TUTTI_OK;

    for (size_t i = 0; status == TUTTI_OK && i < state->count; i++) {
        if (state->divided[i] == 0) {
            status = tutti_broadcast_state(
                    state->group.t, TUTTI_WORLD, &state->tensors[i], 1, 0);
        }
    }
    return status;
}

tutti_status tutti_state_sync(tutti_state *state)
{
    uint64_t number = 0;
    tutti_status status = tutti_state_restore(state, &number);

    return status == TUTTI_OK && number == 0 ? share_first(state) : status;
}
