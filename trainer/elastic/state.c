/*
 * What is registered, and the life of a state.
 */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "elastic/elastic.h"
#include "error.h"

/* tuttirun gives a process one place in its host's memory. */
static atomic_bool is_held;

static tutti_status state_refuse(const char *why)
{
    return error_set(TUTTI_ERR_INVALID, "%s", why);
}

tutti_status tutti_state_create(tutti *t, tutti_state **state)
{
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): written before main() */
    const char *place = getenv(ELASTIC_VARIABLE);
    tutti_state *made;
    tutti_status status;

    if (t == NULL || state == NULL) {
        return state_refuse("tutti_state_create: the context or the result is NULL");
    }
    made = calloc(1, sizeof *made);
    if (made == NULL) {
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory for a state");
    }
    made->region.fd = -1;
    made->newest = -1;
    made->holds_process = place != NULL && !atomic_exchange(&is_held, true);
    status = group_init(&made->group, t, TUTTI_WORLD);
    if (status == TUTTI_OK && place != NULL && !made->holds_process) {
        status = state_refuse("tutti_state_create: this process has a state already");
    }
    if (status == TUTTI_OK) {
        status = region_open(&made->region, place);
    }
    if (status != TUTTI_OK) {
        tutti_state_destroy(made);
        return status;
    }
    *state = made;
    return TUTTI_OK;
}

void tutti_state_destroy(tutti_state *state)
{
    if (state == NULL) {
        return;
    }
    region_close(&state->region);
    while (state->memories != NULL) {
        struct elastic_memory *next = state->memories->next;

        free(state->memories);
        state->memories = next;
    }
    free(state->tensors);
    free(state->divided);
    free(state->piece);
    free(state->parts);
    if (state->holds_process) {
        atomic_store(&is_held, false);
    }
    free(state);
}

static tutti_status make_room(tutti_state *state, size_t n)
{
    const size_t need = state->count + n;
    const size_t capacity = need > 2 * state->capacity ? need : 2 * state->capacity;
    tutti_state_tensor *tensors;

    if (need <= state->capacity) {
        return TUTTI_OK;
    }
    tensors = reallocarray(state->tensors, capacity, sizeof *tensors);
    if (tensors == NULL) {
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory for a state");
    }
    state->tensors = tensors;
    state->capacity = capacity;
    return TUTTI_OK;
}

tutti_status tutti_state_register_tensors(
        tutti_state *state, const tutti_state_tensor *tensors, size_t n)
{
    tutti_status status;

    if (state == NULL || (tensors == NULL && n > 0)) {
        return state_refuse("tutti_state_register: the state or the tensors are NULL");
    }
    if (state->is_open) {
        return state_refuse("tutti_state_register: after the first commit, restore or "
                            "sync; register before");
    }
    status = make_room(state, n);
    if (status != TUTTI_OK || n == 0) {
        return status;
    }
    memcpy(state->tensors + state->count, tensors, n * sizeof *tensors);
    status = state_check(state->tensors, state->count + n);
    if (status == TUTTI_OK) {
        state->count += n;
    }
    return status;
}

tutti_status tutti_state_register(
        tutti_state *state, void *data, size_t bytes, const char *name)
{
    struct elastic_memory *memory;
    tutti_state_tensor tensor = { .dtype = TUTTI_UINT8, .ndim = 1 };
    tutti_status status;

    if (state == NULL || data == NULL || name == NULL || bytes > INT64_MAX ||
            strlen(name) > STATE_NAME_MAX) {
        return state_refuse("tutti_state_register: the state, the data or the name is "
                            "missing, or too long");
    }
    memory = calloc(1, sizeof *memory);
    if (memory == NULL) {
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory for a state");
    }
    memcpy(memory->name, name, strlen(name));
    memory->bytes = (int64_t)bytes;
    tensor.name = memory->name;
    tensor.data = data;
    tensor.dims = &memory->bytes;
    tensor.count = memory->bytes;
    status = tutti_state_register_tensors(state, &tensor, 1);
    if (status != TUTTI_OK) {
        free(memory);
        return status;
    }
    memory->next = state->memories;
    state->memories = memory;
    return TUTTI_OK;
}

/* The slot that holds the newest commit that counts; looked at before anybody writes. */
static int find_newest(const struct region *region)
{
    uint64_t number = 0;
    int newest = -1;

    for (int slot = 0; slot < REGION_SLOTS; slot++) {
        const struct region_commit commit = region_look(region, slot);

        if (commit.is_complete && commit.number > number) {
            number = commit.number;
            newest = slot;
        }
    }
    return newest;
}

static tutti_status prepare(tutti_state *state)
{
    state->layout = state->count;
    state->total = 0;
    for (size_t i = 0; i < state->count; i++) {
        const tutti_state_tensor *tensor = &state->tensors[i];
        const uint64_t bytes = elastic_bytes(tensor);

        state->layout = state_hash(state->layout, tensor->name, strlen(tensor->name));
        state->layout = state_hash(state->layout, &bytes, sizeof bytes);
        state->total += bytes;
    }
    state->newest = find_newest(&state->region);
    free(state->divided); /* of a first use that failed */
    free(state->piece);
    free(state->parts);
    state->divided = calloc(state->count + 1, 1);
    state->piece = malloc(ELASTIC_PIECE_BYTES);
    state->parts = calloc(
            state->count * parts_stride(&state->group) + 1, sizeof *state->parts);
    return state->divided != NULL && state->piece != NULL && state->parts != NULL
            ? TUTTI_OK
            : error_set(TUTTI_ERR_NO_MEMORY, "no memory for a state");
}

/* Which rank supplies which elements, where some have a part only. */
static tutti_status find_parts(tutti_state *state)
{
    const size_t n = state->count;
    struct part *room = calloc(n * (size_t)state->group.ranks + 1, sizeof *room);
    tutti_status status = group_agree(&state->group,
            room != NULL ? TUTTI_OK
                         : error_set(TUTTI_ERR_NO_MEMORY, "no memory for a state"));

    if (status == TUTTI_OK) {
        status = parts_divide(
                state->parts, room, &state->group, state->tensors, n, false);
    }
    free(room);
    return status;
}

/* Which tensors are divided, on any rank. */
static tutti_status find_divided(tutti_state *state)
{
    tutti_status status;

    for (size_t i = 0; i < state->count; i++) {
        state->divided[i] = !state_is_whole(&state->tensors[i]);
    }
    status = group_heard(state->group.t,
            tutti_allreduce(state->group.t, "tutti.elastic.divided", state->divided,
                    state->divided, (int64_t)state->count, TUTTI_UINT8, TUTTI_MAX,
                    &state->group.options));
    state->has_divided = memchr(state->divided, 1, state->count) != NULL;
    return status;
}

tutti_status elastic_open(tutti_state *state)
{
    tutti_status status;

    if (state == NULL) {
        return state_refuse("the elastic state is NULL");
    }
    if (state->is_open) {
        return TUTTI_OK;
    }
    status = state_agree(&state->group, prepare(state), state->tensors, state->count);
    if (status == TUTTI_OK && state->count > 0) {
        status = find_divided(state);
    }
    if (status == TUTTI_OK && state->has_divided) {
        status = find_parts(state);
    }
    state->is_open = status == TUTTI_OK;
    return status;
}

int64_t elastic_told(const tutti_state *state)
{
    const uint64_t notice =
            atomic_load_explicit(&state->region.control->notice, memory_order_relaxed);

    return elastic_generation(notice) == state->region.generation
            ? (int64_t)(notice & UINT32_MAX)
            : TUTTI_NOTICE_NONE;
}

tutti_status elastic_hear(tutti_state *state, int64_t told)
{
    state->notice = (tutti_notice)told;
    return told == TUTTI_NOTICE_NONE ? TUTTI_OK : TUTTI_AGAIN;
}

tutti_status tutti_check_hosts(tutti_state *state)
{
    int64_t told;
    tutti_status status;

    if (state == NULL) {
        return state_refuse("tutti_check_hosts: the state is NULL");
    }
    told = elastic_told(state);
    status = group_heard(state->group.t,
            tutti_allreduce(state->group.t, "tutti.elastic.hosts", &told, &told, 1,
                    TUTTI_INT64, TUTTI_MAX, &state->group.options));
    return status == TUTTI_OK ? elastic_hear(state, told) : status;
}

tutti_notice tutti_state_notice(const tutti_state *state)
{
    return state == NULL ? TUTTI_NOTICE_NONE : state->notice;
}

uint32_t tutti_state_generation(const tutti_state *state)
{
    return state == NULL ? 0 : state->region.generation;
}
