/*
 * Public calls on process sets.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/call.h"
#include "base/bitset.h"
#include "base/mem.h"
#include "run/context.h"
#include "run/driver.h"
#include "run/persistent.h"

tutti_status call_check_ranks(const char *what, const int *ranks, int n, int size)
{
    struct bitset seen;
    tutti_status status = TUTTI_OK;

    if (ranks == NULL || n < 1 || n > size) {
        return error_set(TUTTI_ERR_INVALID,
                "%s: %d ranks given (1 to %d are possible)%s", what, n, size,
                ranks == NULL ? ", or a pointer is NULL" : "");
    }
    if (!bitset_init(&seen, size)) {
        return error_set(TUTTI_ERR_NO_MEMORY, "%s: no memory", what);
    }
    for (int i = 0; i < n && status == TUTTI_OK; i++) {
        if (ranks[i] < 0 || ranks[i] >= size) {
            status = error_set(TUTTI_ERR_INVALID,
                    "%s: entry %d is rank %d, but the world has %d ranks", what, i,
                    ranks[i], size);
        } else if (bitset_has(&seen, ranks[i])) {
            status = error_set(TUTTI_ERR_INVALID,
                    "%s: rank %d is listed twice (entry %d)", what, ranks[i], i);
        } else {
            bitset_add(&seen, ranks[i]);
        }
    }
    bitset_fini(&seen);
    return status;
}

/* Whether this thread may make or remove a set now. */
static tutti_status check_thread(tutti *t)
{
    tutti_status status = context_may_wait(t);

    if (status == TUTTI_OK && groups_are_open(&t->work.groups) && group_is_open(t)) {
        status = error_set(TUTTI_ERR_INVALID,
                "process sets cannot be changed inside a group (rank %d)", t->rank);
    }
    return status;
}

/* Queues an internal operation of the world and waits for it. */
static tutti_status run_internal(tutti *t, struct submission *submission)
{
    tutti_request request = TUTTI_REQUEST_NULL;
    tutti_status status;

    driver_enter(t);
    status = submit_queue(t, submission, &request);
    if (status == TUTTI_OK) {
        status = call_wait(t, &request, TUTTI_FOREVER);
    }
    driver_leave(t);
    return status;
}

/*
 * Calls that make sets have no names by which the ranks could tell them apart. So on each
 * rank they come one after the other: the n-th of a rank meets the n-th of the others, and
 * if they ask for different things all fail. A split counts as one call. A call that waits
 * for its turn drives the engine meanwhile.
 */
struct turn {
    tutti *t;
    uint32_t ticket;
};

static bool is_served(void *what)
{
    const struct turn *turn = what;

    /* Pairs with end_turn(). */
    return atomic_load_explicit(&turn->t->sets.served, memory_order_acquire) ==
            turn->ticket;
}

static tutti_status begin_turn(tutti *t)
{
    struct turn turn = { .t = t };
    const tutti_status status = check_thread(t);

    if (status != TUTTI_OK) {
        return status;
    }
    driver_enter(t);
    turn.ticket = atomic_fetch_add_explicit(&t->sets.tickets, 1, memory_order_relaxed);
    driver_wait(t, is_served, &turn, INT64_MAX);
    return TUTTI_OK;
}

static void end_turn(tutti *t)
{
    (void)atomic_fetch_add_explicit(&t->sets.served, 1, memory_order_release);
    doorbell_ring(t->driver.bell);
    doorbell_ring(&t->driver.done_bell);
    driver_leave(t);
}

/* All ranks agree on this list of ranks; an empty one stands for a split. */
static tutti_status run_create(
        tutti *t, const int64_t *ranks, int n, tutti_process_set *set)
{
    return run_internal(t,
            &(struct submission){ .collective = META_SET_CREATE,
                    .name = "create",
                    .set = TUTTI_WORLD,
                    .meta = { .prescale = 1, .postscale = 1, .ndim = n, .dims = ranks },
                    .output = set });
}

tutti_status tutti_process_set_create(
        tutti *t, const int *ranks, int n, tutti_process_set *set)
{
    tutti_process_set created = 0;
    int64_t *dims;
    tutti_status status = call_check_context(t);

    if (status != TUTTI_OK) {
        return status;
    }
    status = call_check_ranks("process set", set != NULL ? ranks : NULL, n, t->size);
    if (status != TUTTI_OK) {
        return status;
    }
    dims = mem_calloc((size_t)n, sizeof *dims);
    if (dims == NULL) {
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory for a process set");
    }
    for (int i = 0; i < n; i++) {
        dims[i] = ranks[i];
    }
    status = begin_turn(t);
    if (status == TUTTI_OK) {
        status = run_create(t, dims, n, &created);
        end_turn(t);
    }
    mem_free(dims);
    if (status == TUTTI_OK) {
        *set = created;
    }
    return status;
}

/* ------------------------------------------------------------------- splitting */

/** What a rank gives to a split. */
struct membership {
    int64_t color;
    int64_t key;
    int64_t rank;
};

static int compare_memberships(const void *a, const void *b)
{
    const struct membership *first = a;
    const struct membership *second = b;

    if (first->color != second->color) {
        return first->color < second->color ? -1 : 1;
    }
    if (first->key != second->key) {
        return first->key < second->key ? -1 : 1;
    }
    return first->rank < second->rank ? -1 : 1;
}

/* Creates the sets of all colors, one by one: every rank in the same order. */
static tutti_status create_colors(tutti *t, const struct membership *all,
        int64_t *ranks, int64_t color, tutti_process_set *own)
{
    tutti_status status = TUTTI_OK;
    int next;

    for (int first = 0; first < t->size && status == TUTTI_OK; first = next) {
        tutti_process_set set = TUTTI_WORLD;

        for (next = first; next < t->size && all[next].color == all[first].color;
                next++) {
            ranks[next - first] = all[next].rank;
        }
        if (all[first].color == TUTTI_UNDEFINED) {
            continue;
        }
        status = run_create(t, ranks, next - first, &set);
        if (status == TUTTI_OK && all[first].color == color) {
            *own = set;
        }
    }
    return status;
}

/* Under a name that no caller can use. */
static tutti_status exchange_memberships(
        tutti *t, const struct membership *mine, struct membership *all)
{
    return run_internal(t,
            &(struct submission){ .collective = TUTTI_ALLGATHER,
                    .name = "tutti_process_set_split\x01",
                    .set = TUTTI_WORLD,
                    .meta = { .row_count = sizeof *mine / sizeof mine->color,
                            .dtype = TUTTI_INT64,
                            .prescale = 1,
                            .postscale = 1 },
                    .rows = { .rows = 1 },
                    .input = mine,
                    .output = all });
}

/* In a turn. `ranks` and `all` have room for the world. */
static tutti_status split(tutti *t, const struct membership *mine,
        struct membership *all, int64_t *ranks, tutti_process_set *own)
{
    tutti_status status = run_create(t, NULL, 0, own);

    if (status == TUTTI_OK) {
        status = exchange_memberships(t, mine, all);
    }
    if (status != TUTTI_OK) {
        return status;
    }
    qsort(all, (size_t)t->size, sizeof *all, compare_memberships);
    return create_colors(t, all, ranks, mine->color, own);
}

tutti_status tutti_process_set_split(
        tutti *t, int color, int key, tutti_process_set *set)
{
    struct membership *all;
    int64_t *ranks;
    tutti_process_set own = TUTTI_WORLD;
    tutti_status status = call_check_context(t);

    if (status != TUTTI_OK) {
        return status;
    }
    if (set == NULL || (color < 0 && color != TUTTI_UNDEFINED)) {
        return error_set(TUTTI_ERR_INVALID,
                "process set: color is %d (0 or more, or TUTTI_UNDEFINED)%s", color,
                set == NULL ? ", or set is NULL" : "");
    }
    all = mem_calloc((size_t)t->size, sizeof *all);
    ranks = mem_calloc((size_t)t->size, sizeof *ranks);
    if (all == NULL || ranks == NULL) {
        status = error_set(TUTTI_ERR_NO_MEMORY, "no memory to split the world");
    } else {
        status = begin_turn(t);
    }
    if (status == TUTTI_OK) {
        const struct membership mine = { color, key, t->rank };

        status = split(t, &mine, all, ranks, &own);
        end_turn(t);
    }
    mem_free(all);
    mem_free(ranks);
    if (status == TUTTI_OK) {
        *set = own;
    }
    return status;
}

/* ------------------------------------------------------------------- removal */

/* Under the lock. */
static void reopen_set(tutti *t, struct process_set *set)
{
    set->closing = false;
    persistent_gate_all(t);
}

/* Under the lock: no more submissions to the set, if it has nothing in flight. */
static tutti_status close_set(tutti *t, tutti_process_set id)
{
    struct process_set *set = process_sets_find(&t->sets, id);

    if (set == NULL || id == TUTTI_WORLD) {
        return error_set(TUTTI_ERR_INVALID, "process set %u %s", id,
                set == NULL ? "does not exist" : "is the world and stays");
    }
    if (set->closing) {
        return error_set(TUTTI_ERR_DUPLICATE,
                "process set %u is being destroyed already on rank %d", id, t->rank);
    }
    set->closing = true;
    persistent_gate_all(t);
    if (set->in_flight > 0 || persistent_any_busy(t, set)) {
        reopen_set(t, set);
        return error_set(TUTTI_ERR_DUPLICATE,
                "process set %u has work in flight on rank %d", id, t->rank);
    }
    return TUTTI_OK;
}

tutti_status tutti_process_set_destroy(tutti *t, tutti_process_set set)
{
    char name[32];
    tutti_status status = call_check_context(t);

    if (status != TUTTI_OK) {
        return status;
    }
    status = check_thread(t);
    if (status != TUTTI_OK) {
        return status;
    }
    pthread_mutex_lock(&t->lock);
    status = close_set(t, set);
    pthread_mutex_unlock(&t->lock);
    if (status != TUTTI_OK) {
        return status;
    }
    (void)snprintf(name, sizeof name, "destroy %u", set);
    status = run_internal(t,
            &(struct submission){ .collective = META_SET_DESTROY,
                    .name = name,
                    .set = TUTTI_WORLD,
                    .meta = { .prescale = 1, .postscale = 1, .count = set } });
    if (status != TUTTI_OK) {
        struct process_set *kept;

        pthread_mutex_lock(&t->lock);
        kept = process_sets_find(&t->sets, set);
        if (kept != NULL) {
            reopen_set(t, kept);
        }
        pthread_mutex_unlock(&t->lock);
    }
    return status;
}

static tutti_status no_set(tutti_process_set set)
{
    return error_set(TUTTI_ERR_INVALID, "process set %u does not exist", set);
}

tutti_status tutti_process_set_info(
        tutti *t, tutti_process_set set, int *size, int *rank)
{
    const struct process_set *found;
    tutti_status status = call_check_context(t);

    if (status != TUTTI_OK) {
        return status;
    }
    pthread_mutex_lock(&t->lock);
    found = process_sets_find(&t->sets, set);
    if (found == NULL) {
        status = no_set(set);
    } else {
        if (size != NULL) {
            *size = found->op.size;
        }
        if (rank != NULL) {
            *rank = found->op.rank;
        }
    }
    pthread_mutex_unlock(&t->lock);
    return status;
}

tutti_status tutti_process_set_ranks(
        tutti *t, tutti_process_set set, int *ranks, int capacity)
{
    const struct process_set *found;
    tutti_status status = call_check_context(t);

    if (status != TUTTI_OK) {
        return status;
    }
    pthread_mutex_lock(&t->lock);
    found = process_sets_find(&t->sets, set);
    if (found == NULL) {
        status = no_set(set);
    } else if (ranks == NULL || capacity < found->op.size) {
        status = error_set(TUTTI_ERR_INVALID,
                "process set %u has %d ranks, but there is room for %d", set,
                found->op.size, ranks == NULL ? 0 : capacity);
    } else {
        memcpy(ranks, found->world_ranks, (size_t)found->op.size * sizeof *ranks);
    }
    pthread_mutex_unlock(&t->lock);
    return status;
}

tutti_status tutti_process_set_list(
        tutti *t, tutti_process_set *sets, int capacity, int *count)
{
    tutti_status status = call_check_context(t);

    if (status != TUTTI_OK) {
        return status;
    }
    if (count == NULL || capacity < 0 || (sets == NULL && capacity > 0)) {
        return error_set(TUTTI_ERR_INVALID,
                "tutti_process_set_list: capacity is %d; it must be 0 or more, and "
                "sets "
                "(unless it is 0) and count not NULL",
                capacity);
    }
    pthread_mutex_lock(&t->lock);
    *count = (int)t->sets.named;
    for (int i = 0; i < *count && i < capacity; i++) {
        sets[i] = t->sets.sets[i]->id;
    }
    pthread_mutex_unlock(&t->lock);
    return TUTTI_OK;
}

/* Whichever takes a batch, by its size or otherwise: none may have another order. */
static bool backends_follow_ranks(
        const struct dispatcher *dispatcher, const struct op_set *set)
{
    for (int b = 0; b < dispatcher->backend_count; b++) {
        const struct dispatcher_backend *backend = &dispatcher->backends[b];

        if (backend->ops->space == OP_HOST && backend->ops->follows_ranks != NULL &&
                !backend->ops->follows_ranks(backend->state, set)) {
            return false;
        }
    }
    return true;
}

bool tutti_sums_follow_ranks(tutti *t, tutti_process_set set)
{
    const struct process_set *found;
    bool follow;

    if (call_check_context(t) != TUTTI_OK) {
        return false;
    }
    pthread_mutex_lock(&t->lock);
    found = process_sets_find(&t->sets, set);
    follow = found != NULL && found->op.rank >= 0 &&
            backends_follow_ranks(&t->dispatcher, &found->op);
    pthread_mutex_unlock(&t->lock);
    return follow;
}
