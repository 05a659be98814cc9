/*
 * Parameter servers are made and released; both on all ranks together.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "options.h"
#include "params.h"
#include "server/server.h"

static tutti_role role_by_rank(const tutti_server_options *options, int rank, int size)
{
    if (rank >= size - options->evaluators) {
        return TUTTI_ROLE_EVALUATOR;
    }
    if (rank >= size - options->evaluators - options->servers) {
        return TUTTI_ROLE_SERVER;
    }
    return rank == 0 ? TUTTI_ROLE_CHIEF : TUTTI_ROLE_WORKER;
}

/* Everything that this rank can do alone. */
static tutti_status prepare(struct tutti_server *ps, const tutti_param *params,
        size_t n, const tutti_server_options *options)
{
    const int size = tutti_size(ps->t);
    tutti_status status;

    tutti_server_options_default(&ps->options);
    options_take(&ps->options, sizeof ps->options, options);
    ps->role = ps->options.role != TUTTI_ROLE_BY_RANK
            ? ps->options.role
            : role_by_rank(&ps->options, tutti_rank(ps->t), size);
    ps->rate = ps->options.rate;
    status = server_check(ps, params, n);
    if (status != TUTTI_OK) {
        return status;
    }
    (void)snprintf(ps->name, sizeof ps->name, "%s", ps->options.name);
    ps->options.name = ps->name;
    ps->n = n;
    ps->params = params_copy(params, n);
    ps->ranks = calloc(2 * (size_t)size, sizeof *ps->ranks);
    if (ps->params == NULL || ps->ranks == NULL) {
        return error_set(TUTTI_ERR_NO_MEMORY, "out of memory for %zu parameters", n);
    }
    return TUTTI_OK;
}

/* Puts the ranks of a role behind those that are placed. @return how many */
static int place(struct tutti_server *ps, const int32_t *roles, tutti_role role)
{
    int placed = ps->client_count + ps->server_count;
    const int before = placed;

    for (int r = 0; r < tutti_size(ps->t); r++) {
        if (roles[r] == (int32_t)role) {
            ps->ranks[placed++] = r;
        }
    }
    return placed - before;
}

/* Who serves and who asks; the same on all ranks. */
static tutti_status arrange(struct tutti_server *ps)
{
    const int size = tutti_size(ps->t);
    const int32_t role = (int32_t)ps->role;
    int32_t *roles = ps->ranks + size;
    int chiefs;
    tutti_status status = group_heard(ps->t,
            tutti_allgather(ps->t, "tutti.server.roles", &role, roles, 1, 1, NULL,
                    TUTTI_INT32, NULL));

    if (status != TUTTI_OK) {
        return status;
    }
    ps->client_count = chiefs = place(ps, roles, TUTTI_ROLE_CHIEF);
    ps->client_count += place(ps, roles, TUTTI_ROLE_WORKER);
    ps->worker_count = ps->client_count;
    ps->client_count += place(ps, roles, TUTTI_ROLE_EVALUATOR);
    ps->server_count = place(ps, roles, TUTTI_ROLE_SERVER);
    if (chiefs > 1 || ps->worker_count == 0 || ps->server_count == 0) {
        return error_set(TUTTI_ERR_INVALID,
                "of %d ranks %d are chief, %d workers and %d servers: at most one "
                "chief, and at least one worker and one server are needed",
                size, chiefs, ps->worker_count - chiefs, ps->server_count);
    }
    return TUTTI_OK;
}

/* Which of the servers this rank is; 0 if it is none. */
static int find_own(const struct tutti_server *ps)
{
    int own = ps->server_count - 1;

    while (own > 0 && ps->ranks[ps->client_count + own] != tutti_rank(ps->t)) {
        own--;
    }
    return own;
}

/* The pairs of this rank, with what is divided between them. @return bytes of their parts */
static size_t divide(struct tutti_server *ps)
{
    const bool serves = ps->role == TUTTI_ROLE_SERVER;
    struct server_slice *slices = ps->slices;
    size_t bytes = 0;

    for (int i = 0; i < ps->pair_count; i++) {
        struct server_pair *pair = &ps->pairs[i];

        *pair = (struct server_pair){
            .ps = ps,
            .peer = ps->ranks[serves ? i : ps->client_count + i],
            .is_worker = !serves || i < ps->worker_count,
            .slices = slices,
        };
        pair->slice_count = server_plan(ps->params, ps->n, serves ? find_own(ps) : i,
                ps->server_count, ps->options.split_bytes, slices, &pair->bytes);
        slices += serves ? 0 : pair->slice_count; /* a server's are always the same */
        bytes += pair->bytes;
    }
    return bytes;
}

/* The memory of this rank's messages, and of a server's part, in one piece. */
static tutti_status allocate(struct tutti_server *ps)
{
    const bool serves = ps->role == TUTTI_ROLE_SERVER;
    const size_t sets = (size_t)ps->client_count * (size_t)ps->server_count;
    size_t bytes;
    char *at;
    tutti_status status;

    ps->pair_count = serves ? ps->client_count : ps->server_count;
    ps->slices = calloc(ps->n + (size_t)ps->server_count, sizeof *ps->slices);
    ps->pairs = calloc((size_t)ps->pair_count, sizeof *ps->pairs);
    ps->sets = calloc(sets, sizeof *ps->sets);
    if (ps->slices == NULL || ps->pairs == NULL || ps->sets == NULL) {
        return error_set(TUTTI_ERR_NO_MEMORY, "out of memory for parameter servers");
    }
    bytes = divide(ps) + (size_t)ps->pair_count * SERVER_ALIGN +
            (!serves ? 0 : (ps->options.momentum != 0.0 ? 2 : 1) * ps->pairs[0].bytes);
    status = tutti_alloc(ps->t, bytes, TUTTI_HOST, &ps->memory);
    if (status != TUTTI_OK) {
        return status;
    }
    memset(ps->memory, 0, bytes);
    at = ps->memory;
    for (int i = 0; i < ps->pair_count; i++) {
        ps->pairs[i].header = (void *)at;
        ps->pairs[i].part = at + SERVER_ALIGN;
        at += SERVER_ALIGN + ps->pairs[i].bytes;
    }
    ps->values = serves ? at : NULL;
    ps->velocity =
            serves && ps->options.momentum != 0.0 ? at + ps->pairs[0].bytes : NULL;
    return TUTTI_OK;
}

/* A set for each pair. All ranks make all of them, in the same order. */
static tutti_status make_sets(struct tutti_server *ps)
{
    const int rank = tutti_rank(ps->t);
    const int pairs = ps->client_count * ps->server_count;

    for (int i = 0; i < pairs; i++) {
        const int c = i / ps->server_count;
        const int s = i % ps->server_count;
        const int ranks[2] = { ps->ranks[c], ps->ranks[ps->client_count + s] };
        tutti_process_set set;
        tutti_status status =
                group_heard(ps->t, tutti_process_set_create(ps->t, ranks, 2, &set));

        if (status != TUTTI_OK) {
            return status;
        }
        ps->sets[ps->set_count++] = set;
        if (rank == ranks[0] || rank == ranks[1]) {
            ps->pairs[rank == ranks[0] ? s : c].set = set;
        }
    }
    return TUTTI_OK;
}

/* The parameters of the chief become those of the servers. */
static tutti_status send_first(struct tutti_server *ps)
{
    const bool serves = ps->role == TUTTI_ROLE_SERVER;
    const bool is_chief = tutti_rank(ps->t) == ps->ranks[0];
    const int count = serves ? 1 : is_chief ? ps->pair_count : 0;
    tutti_status status = TUTTI_OK;

    for (int i = 0; status == TUTTI_OK && i < count; i++) {
        if (is_chief) {
            server_copy(&ps->pairs[i], SERVER_VALUES_OUT);
        }
        status = server_message(
                &ps->pairs[i], SERVER_FIRST, NULL, &ps->pairs[i].requests[0]);
    }
    status = server_wait(ps, status);
    if (status == TUTTI_OK && serves) {
        memcpy(ps->values, ps->pairs[0].part, ps->pairs[0].bytes);
    }
    ps->report = (tutti_server_report){ .clock = 0 };
    return status;
}

/* Removes the sets, which is collective but in a failed context, and frees the rest. */
static void release(struct tutti_server *ps)
{
    tutti_status status = TUTTI_OK;

    while (status == TUTTI_OK && ps->set_count > 0) {
        status = group_heard(
                ps->t, tutti_process_set_destroy(ps->t, ps->sets[--ps->set_count]));
    }
    (void)tutti_free(ps->t, ps->memory);
    free(ps->params);
    free(ps->ranks);
    free(ps->slices);
    free(ps->pairs);
    free(ps->sets);
    (void)pthread_mutex_destroy(&ps->lock);
    (void)pthread_cond_destroy(&ps->arrived);
    free(ps);
}

tutti_status tutti_server_create(tutti *t, const tutti_param *params, size_t n,
        const tutti_server_options *options, tutti_server **out)
{
    struct tutti_server *ps;
    struct state_group group;
    tutti_status status;

    if (t == NULL || out == NULL || (options != NULL && options->size == 0)) {
        return error_set(TUTTI_ERR_INVALID,
                "tutti_server_create(): no context, no place for the result, or "
                "options.size is 0: call tutti_server_options_default()");
    }
    *out = NULL;
    status = group_init(&group, t, TUTTI_WORLD);
    if (status != TUTTI_OK) {
        return status;
    }
    ps = calloc(1, sizeof *ps);
    if (ps == NULL) {
        return group_agree(
                &group, error_set(TUTTI_ERR_NO_MEMORY, "out of memory for a server"));
    }
    ps->t = t;
    (void)pthread_mutex_init(&ps->lock, NULL);
    (void)pthread_cond_init(&ps->arrived, NULL);
    status = server_compare(ps, &group, prepare(ps, params, n, options));
    if (status == TUTTI_OK) {
        status = arrange(ps);
    }
    if (status == TUTTI_OK) {
        status = group_agree(&group, allocate(ps));
    }
    if (status == TUTTI_OK) {
        status = make_sets(ps);
    }
    if (status == TUTTI_OK) {
        status = send_first(ps);
    }
    if (status != TUTTI_OK) {
        release(ps);
        return status;
    }
    *out = ps;
    return TUTTI_OK;
}

tutti_status tutti_server_destroy(tutti_server *ps)
{
    if (ps == NULL) {
        return TUTTI_OK;
    }
    if (!ps->finished && !ps->failed && !has_context_failed(ps->t)) {
        return error_set(TUTTI_ERR_INVALID,
                "tutti_server_destroy() at rank %d: call %s first", tutti_rank(ps->t),
                ps->role == TUTTI_ROLE_SERVER ? "tutti_server_serve()"
                                              : "tutti_server_finish()");
    }
    release(ps);
    return TUTTI_OK;
}
