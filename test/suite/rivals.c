/*
 * Threads of a rank that change state against each other: groups, joins, process sets,
 * registrations and cancellations, up to a finalize that comes while other ranks are still
 * at work, or a failure. Whatever they are told must be said in words that belong to the
 * status, every operation that was taken ends once, and nobody waits for ever.
 *
 * What a thread does follows from the seed and is the same on all ranks, but for what is
 * meant to differ; how threads and ranks interleave is the machine's.
 */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test/batch/pattern.h"
#include "test/batch/reference.h"
#include "test/suite/buffer.h"
#include "test/suite/suite.h"

enum {
    THREADS = 3,
    ROUNDS = 8,
    OPERATIONS_MAX = 4 * ROUNDS, /* of a thread */
    PROGRAMS = 12,
    RANKS_MAX = 64
};

/** How a program ends. */
enum ending {
    TOGETHER, /* all ranks have done everything                    */
    EARLY, /* one rank leaves half way                          */
    ABORT, /* one rank fails the context half way               */
    ENDING_COUNT
};

/** A program on a context of its own. */
struct arena {
    tutti *t;
    struct checks *c;
    enum ending ending;
    bool odd; /* this rank is the one that leaves or aborts                 */
    bool joins; /* some thread does                                          */
    _Atomic int taken; /* operations with callbacks                           */
    _Atomic int ended; /* callbacks                                           */
    _Atomic uint64_t request; /* the latest that may be cancelled by anybody  */
};

/** An operation with a callback. */
struct operation {
    struct arena *arena;
    int64_t value;
};

/** Random numbers. */
struct dice {
    uint64_t seed, thrown;
};

/** A thread of a rank. */
struct rival {
    struct arena *arena;
    int index;
    struct dice shared; /* the same on all ranks   */
    struct dice own; /* another on each rank    */
    struct operation operations[OPERATIONS_MAX];
    int operation_count;
    bool (*round)(struct rival *rival, int round); /* false: it is over */
    pthread_t thread;
};

/* 0 to n - 1. */
static int throw(struct dice * dice, int n)
{
    return (int)(pattern_mix(dice->seed, ++dice->thrown) % (uint64_t)n);
}

/* A status, and the words that come with it. */
static bool is_told(const struct arena *a, tutti_status status, const char *text)
{
    const struct {
        tutti_status status;
        bool may_be;
        const char *words;
    } tellings[] = {
        { TUTTI_OK, true, "" },
        { TUTTI_ERR_INVALID, a->joins, "joined" }, /* this rank has           */
        { TUTTI_ERR_UNSUPPORTED, a->joins, "joined" }, /* another one has     */
        { TUTTI_ERR_CANCELLED, true, "cancel" },
        { TUTTI_ERR_FINALIZED, true, "finalize" },
        { TUTTI_ERR_CONTEXT_FAILED, a->ending == ABORT, "on purpose" },
    };

    for (size_t i = 0; i < sizeof tellings / sizeof *tellings; i++) {
        if (tellings[i].status == status) {
            return tellings[i].may_be && strstr(text, tellings[i].words) != NULL;
        }
    }
    return false;
}

/* Checks it; true when it went well. */
static bool went_well(struct arena *a, const char *what, tutti_status status)
{
    if (!EXPECT(a->c, is_told(a, status, tutti_last_error()))) {
        (void)fprintf(stderr, "(%s: %s: %s)\n", what, tutti_status_name(status),
                tutti_last_error());
    }
    return status == TUTTI_OK;
}

/* Nothing will change that. */
static bool is_over(tutti_status status)
{
    return status == TUTTI_ERR_FINALIZED || status == TUTTI_ERR_CONTEXT_FAILED;
}

static void note_end(void *user, tutti_status status, const char *message)
{
    struct operation *operation = user;
    struct arena *a = operation->arena;

    if (!EXPECT(a->c, is_told(a, status, message))) {
        (void)fprintf(stderr, "(ended: %s: %s)\n", tutti_status_name(status), message);
    }
    EXPECT(a->c, (status == TUTTI_OK) == (message[0] == '\0'));
    if (status == TUTTI_OK) {
        EXPECT(a->c, operation->value <= a->c->size);
        EXPECT(a->c, operation->value == a->c->size || a->joins);
    }
    (void)atomic_fetch_add(&a->ended, 1);
}

static struct operation *next_operation(struct rival *r)
{
    struct operation *operation = &r->operations[r->operation_count++];

    *operation = (struct operation){ .arena = r->arena, .value = 1 };
    return operation;
}

static tutti_status begin_sum(struct rival *r, const char *name, tutti_process_set set)
{
    struct operation *operation = next_operation(r);
    tutti_options options;

    tutti_options_default(&options);
    options.process_set = set;
    options.callback = note_end;
    options.user = operation;
    return tutti_allreduce_async(r->arena->t, name, &operation->value,
            &operation->value, 1, TUTTI_INT64, TUTTI_SUM, &options, NULL);
}

/* ------------------------------------------------------------------- the rounds */

/* Members are refused while this rank has joined; on some rank one is bad. */
static bool groups(struct rival *r, int round)
{
    struct arena *a = r->arena;
    const int count = 1 + throw(&r->shared, 3);
    const bool spoils = throw(&r->own, 10) == 0;
    char first[1024] = "";
    char name[32];
    tutti_status status = TUTTI_OK;

    EXPECT_OK(a->c, tutti_group_begin(a->t));
    for (int i = 0; i < count; i++) {
        (void)snprintf(name, sizeof name, "group %d.%d.%d", r->index, round, i);
        status = begin_sum(r, name, TUTTI_WORLD);
        if (!went_well(a, "member", status) && first[0] == '\0') {
            (void)snprintf(first, sizeof first, "%s", tutti_last_error());
        }
    }
    if (spoils) {
        EXPECT_STATUS(a->c, TUTTI_ERR_INVALID, tutti_barrier(a->t, "no", NULL));
        if (first[0] == '\0') {
            (void)snprintf(first, sizeof first, "%s", tutti_last_error());
        }
    }
    if (first[0] == '\0') {
        /* Counted before it can end. */
        (void)atomic_fetch_add(&a->taken, count);
    }
    status = tutti_group_end(a->t);
    if (first[0] != '\0') {
        EXPECT(a->c, status != TUTTI_OK && strcmp(first, tutti_last_error()) == 0);
    } else if (!went_well(a, "group_end", status)) {
        (void)atomic_fetch_sub(&a->taken, count);
    }
    return !is_over(status);
}

static bool joins(struct rival *r, int round)
{
    int last = -1;
    const tutti_status status = tutti_join(r->arena->t, NULL, &last);

    (void)round;
    if (went_well(r->arena, "join", status)) {
        EXPECT(r->arena->c, last >= 0 && last < r->arena->c->size);
    }
    return !is_over(status);
}

/*
 * What is refused while a rank has joined, or has something in flight, is tried again until
 * it has not; not where a rank leaves, for which a join may wait until all give up.
 */
static bool is_to_be_tried_again(struct arena *a, const char *what, tutti_status status)
{
    const bool is_refused =
            status == TUTTI_ERR_DUPLICATE || !went_well(a, what, status);

    (void)sched_yield();
    return is_refused && !is_over(status) && a->ending != EARLY;
}

/* The list has all ranks, so every thread that makes sets may meet any other. */
static bool sets(struct rival *r, int round)
{
    struct arena *a = r->arena;
    tutti_process_set set = 0;
    tutti_status status;
    int ranks[RANKS_MAX];

    (void)round;
    for (int i = 0; i < a->c->size; i++) {
        ranks[i] = a->c->size - 1 - i;
    }
    do {
        status = tutti_process_set_create(a->t, ranks, a->c->size, &set);
    } while (is_to_be_tried_again(a, "create", status));
    if (status != TUTTI_OK) {
        return false;
    }
    (void)atomic_fetch_add(&a->taken, 1);
    if (!went_well(a, "sum in a set", begin_sum(r, "in the set", set))) {
        (void)atomic_fetch_sub(&a->taken, 1);
    }
    do {
        status = tutti_process_set_destroy(a->t, set);
    } while (is_to_be_tried_again(a, "destroy", status));
    return status == TUTTI_OK;
}

/* Another thread may have the name in flight when it is to be forgotten. */
static bool registrations(struct rival *r, int round)
{
    struct arena *a = r->arena;
    struct operation *operation = next_operation(r);
    char name[32];
    const tutti_tensor_desc desc = { .size = sizeof desc,
        .name = name,
        .collective = TUTTI_ALLREDUCE,
        .count = 1,
        .dtype = TUTTI_INT64 };
    tutti_tensor tensor = 0;
    tutti_tensor second = 0;
    tutti_status status;

    (void)snprintf(name, sizeof name, "registered %d.%d", r->index, round);
    EXPECT_OK(a->c, tutti_tensor_register(a->t, &desc, &tensor));
    EXPECT_STATUS(
            a->c, TUTTI_ERR_DUPLICATE, tutti_tensor_register(a->t, &desc, &second));
    (void)atomic_fetch_add(&a->taken, 1);
    status = tutti_submit(a->t, tensor, &operation->value, &operation->value,
            TUTTI_NO_STEP, note_end, operation, NULL);
    if (!went_well(a, "submit", status)) {
        (void)atomic_fetch_sub(&a->taken, 1);
    }
    if (tutti_tensor_unregister(a->t, tensor) != TUTTI_OK) {
        EXPECT(a->c, strstr(tutti_last_error(), name) != NULL);
    }
    return !is_over(status);
}

/* Another thread may have consumed it, or it is over. */
static void cancel(struct arena *a, tutti_request request)
{
    if (tutti_cancel(a->t, request) != TUTTI_OK) {
        EXPECT(a->c,
                strstr(tutti_last_error(), "no request") != NULL ||
                        strstr(tutti_last_error(), "has finished") != NULL);
    }
}

/* Cancels its own on some ranks, and what another thread shows. */
static bool cancellations(struct rival *r, int round)
{
    struct arena *a = r->arena;
    struct operation *operation = next_operation(r);
    tutti_request request = TUTTI_REQUEST_NULL;
    char name[32];
    tutti_status status;

    (void)snprintf(name, sizeof name, "cancelled %d.%d", r->index, round);
    status = tutti_allreduce_async(a->t, name, &operation->value, &operation->value, 1,
            TUTTI_INT64, TUTTI_SUM, NULL, &request);
    if (!went_well(a, "to be cancelled", status)) {
        return !is_over(status);
    }
    if (throw(&r->own, 3) == 0) {
        cancel(a, request);
    }
    cancel(a, atomic_exchange(&a->request, request));
    status = tutti_wait_all(
            a->t, 1, &request, throw(&r->own, 2) * INT64_C(1000000), NULL);
    if (status == TUTTI_ERR_TIMEOUT) {
        EXPECT(a->c, strstr(tutti_last_error(), name) != NULL);
        return true; /* finalize ends it */
    }
    (void)went_well(a, "wait", status);
    return !is_over(status);
}

/* ------------------------------------------------------------------ a program */

static void *run_rival(void *argument)
{
    struct rival *r = argument;
    struct arena *a = r->arena;
    bool goes_on = true;

    for (int i = 0; i < ROUNDS && goes_on; i++) {
        if (a->odd && i == ROUNDS / 2 && a->ending == EARLY) {
            return NULL;
        }
        if (a->odd && i == ROUNDS / 2 && a->ending == ABORT) {
            EXPECT_OK(a->c, tutti_abort(a->t, "on purpose"));
        }
        goes_on = r->round(r, i);
    }
    return NULL;
}

/* Any mixture; one that joins at most. */
static void cast_roles(struct rival *rivals, struct arena *a, uint64_t seed)
{
    static bool (*const roles[])(struct rival *, int) = { joins, groups, sets,
        registrations, cancellations };
    const int count = (int)(sizeof roles / sizeof *roles);
    struct dice dice = { .seed = seed };

    for (int i = 0; i < THREADS; i++) {
        rivals[i].arena = a;
        rivals[i].index = i;
        rivals[i].round =
                roles[i == 0 ? throw(&dice, count) : 1 + throw(&dice, count - 1)];
        rivals[i].shared.seed = pattern_mix(seed, 100 + (uint64_t)i);
        rivals[i].own.seed = pattern_mix(rivals[i].shared.seed, (uint64_t)a->c->rank);
        a->joins = a->joins || rivals[i].round == joins;
    }
    a->ending = (enum ending) throw(&dice, ENDING_COUNT);
    a->odd = a->c->rank == throw(&dice, a->c->size);
}

static void play(struct checks *c, uint64_t seed)
{
    struct arena a = { .t = job_open(c, NULL), .c = c };
    struct rival *rivals = must_alloc(THREADS, sizeof *rivals);
    const int failed = atomic_load(&c->failed);

    cast_roles(rivals, &a, seed);
    for (int i = 0; i < THREADS; i++) {
        EXPECT(c, pthread_create(&rivals[i].thread, NULL, run_rival, &rivals[i]) == 0);
    }
    for (int i = 0; i < THREADS; i++) {
        (void)pthread_join(rivals[i].thread, NULL);
    }
    (void)went_well(&a, "finalize", tutti_finalize(a.t));
    EXPECT(c, atomic_load(&a.taken) == atomic_load(&a.ended));
    if (atomic_load(&c->failed) != failed) {
        (void)fprintf(stderr, "(program %llu)\n", (unsigned long long)seed);
    }
    free(rivals);
}

void suite_rivals(tutti *t, struct checks *c)
{
    (void)t;
    checks_step(c, "random programs");
    for (uint64_t i = 0; i < PROGRAMS; i++) {
        play(c, 1000 * (uint64_t)c->size + i);
    }
}
