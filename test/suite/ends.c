/*
 * How operations end, for every collective: late ranks and time-outs, cancellation, a
 * failure among others, requests that go from thread to thread, callbacks, registration.
 */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "test/suite/flight.h"
#include "test/suite/gpu.h"
#include "test/suite/suite.h"

enum {
    RANKS_MAX = 64,
    KINDS = 10
};

/** One operation of each kind, with the world as its crew. */
struct kinds {
    int ranks[RANKS_MAX];
    struct crew world;
    struct operation operations[KINDS];
    struct flight flights[KINDS];
    char names[KINDS][32];
};

static void kinds_init(struct kinds *k, const struct checks *c, const char *name)
{
    static const tutti_collective collectives[KINDS] = { TUTTI_ALLREDUCE,
        TUTTI_BROADCAST, TUTTI_REDUCE, TUTTI_REDUCESCATTER, TUTTI_ALLGATHER,
        TUTTI_ALLTOALL, TUTTI_GATHER, TUTTI_SCATTER, TUTTI_ALLGATHER, TUTTI_ALLTOALL };

    k->world = crew_of_world(c, k->ranks);
    for (int i = 0; i < KINDS; i++) {
        k->operations[i] = (struct operation){ .collective = collectives[i],
            .pattern = { TUTTI_FLOAT32, TUTTI_AVERAGE, (uint32_t)(10 + i) },
            .scales = { 1, 1 },
            .root = i % c->size,
            .count = 23,
            .row_count = 2,
            .form = i < 8 ? FORM_LISTED : FORM_UNKNOWN,
            .owns_output = i >= 8 };
        (void)snprintf(k->names[i], sizeof k->names[i], "%s %d", name, i);
    }
}

static void begin(tutti *t, struct checks *c, struct kinds *k, int i)
{
    flight_begin(t, c, &k->flights[i], &k->operations[i], &k->world, k->names[i]);
}

static void end_all(tutti *t, struct checks *c, struct kinds *k)
{
    for (int i = 0; i < KINDS; i++) {
        flight_end(t, c, &k->flights[i]);
    }
}

/* What is in flight for certain, as the last rank has not come, cannot be submitted again. */
static void duplicate(tutti *t, struct checks *c, const struct kinds *k, int i)
{
    struct flight again;

    flight_prepare(&again, &k->operations[i], &k->world);
    EXPECT_STATUS(c, TUTTI_ERR_DUPLICATE, flight_submit(t, &again, k->names[i]));
    EXPECT(c, again.request == TUTTI_REQUEST_NULL);
    flight_fini(&again);
}

/* A wait that is too short leaves the operation as it was. */
static void timeouts(tutti *t, struct checks *c)
{
    const bool late = c->rank == c->size - 1;
    struct kinds k;

    checks_step(c, "time-outs");
    kinds_init(&k, c, "late");
    for (int i = 0; i < KINDS && !late; i++) {
        tutti_request before;

        begin(t, c, &k, i);
        duplicate(t, c, &k, i);
        before = k.flights[i].request;
        EXPECT_STATUS(c, TUTTI_ERR_TIMEOUT, tutti_wait(t, &k.flights[i].request, 0));
        EXPECT_STATUS(c, TUTTI_ERR_TIMEOUT, tutti_wait(t, &k.flights[i].request, -1));
        EXPECT(c, strstr(tutti_last_error(), k.names[i]) != NULL);
        checks_list(c, i == 0 ? 0 : -1, "waiting too short", TUTTI_ERR_TIMEOUT,
                tutti_last_error());
        EXPECT_STATUS(
                c, TUTTI_ERR_TIMEOUT, tutti_wait(t, &k.flights[i].request, 100000));
        EXPECT_STATUS(c, TUTTI_AGAIN, tutti_test(t, &k.flights[i].request));
        EXPECT(c, k.flights[i].request == before);
    }
    job_meet(c);
    for (int i = 0; i < KINDS && late; i++) {
        begin(t, c, &k, i);
    }
    end_all(t, c, &k);
}

static uint64_t announced(tutti *t, struct checks *c)
{
    tutti_stats stats = { .size = sizeof stats };

    EXPECT_OK(c, tutti_stats_get(t, &stats));
    return stats.announced_by_bit + stats.announced_by_name;
}

/* All but the last rank submit, and rank 0 withdraws what the others know of. */
static void withdraw(tutti *t, struct checks *c, struct kinds *k)
{
    for (int i = 0; i < KINDS; i++) {
        const uint64_t before = announced(t, c);

        begin(t, c, k, i);
        while (announced(t, c) == before) {
            (void)sched_yield();
        }
        if (c->rank == 0) {
            EXPECT_OK(c, tutti_cancel(t, k->flights[i].request));
        }
    }
}

static void begin_all(tutti *t, struct checks *c, struct kinds *k)
{
    for (int i = 0; i < KINDS; i++) {
        begin(t, c, k, i);
    }
}

/* Withdrawn before the last rank has come: it ends alike on all, and nothing is written. */
static void cancelled(tutti *t, struct checks *c)
{
    const bool late = c->rank == c->size - 1;
    struct kinds k;

    checks_step(c, "cancelled");
    kinds_init(&k, c, "cancelled");
    for (int round = 0; round < 3; round++) {
        if (!late) {
            withdraw(t, c, &k);
        }
        /* When it is over the coordinator has heard what came before. */
        EXPECT_OK(c, tutti_barrier(t, "cancelled before", NULL));
        if (late) {
            begin_all(t, c, &k);
        }
        for (int i = 0; i < KINDS; i++) {
            flight_fail(t, c, &k.flights[i], TUTTI_ERR_CANCELLED);
        }
        begin_all(t, c, &k);
        end_all(t, c, &k);
    }
}

/* One fails, the others do not; those with an output of their own stay to be taken. */
static void partial_failure(tutti *t, struct checks *c)
{
    enum {
        BAD = 5
    };
    const bool odd = c->rank == c->size - 1;
    struct kinds k;
    tutti_request requests[KINDS];
    tutti_status statuses[KINDS];

    checks_step(c, "a failure among others");
    kinds_init(&k, c, "among others");
    k.operations[BAD].pattern.dtype = odd ? TUTTI_INT32 : TUTTI_UINT32;
    for (int i = 0; i < KINDS; i++) {
        begin(t, c, &k, i);
        requests[i] = k.flights[i].request;
    }
    EXPECT_STATUS(c, TUTTI_ERR_MISMATCH,
            tutti_wait_all(t, KINDS, requests, TUTTI_FOREVER, statuses));
    EXPECT(c, strstr(tutti_last_error(), k.names[BAD]) != NULL);
    for (int i = 0; i < KINDS; i++) {
        EXPECT_STATUS(c, i == BAD ? TUTTI_ERR_MISMATCH : TUTTI_OK, statuses[i]);
        k.flights[i].request = requests[i];
        if (i != BAD) {
            flight_end(t, c, &k.flights[i]);
        }
    }
    EXPECT(c, requests[BAD] == TUTTI_REQUEST_NULL);
    flight_fini(&k.flights[BAD]);
}

/** A thread of the application. */
struct helper {
    tutti *t;
    struct checks *c;
    struct kinds *kinds;
};

static void *submit_all(void *argument)
{
    const struct helper *h = argument;

    for (int i = 0; i < KINDS; i++) {
        begin(h->t, h->c, h->kinds, (i + h->c->rank) % KINDS);
    }
    return NULL;
}

static void *take_all(void *argument)
{
    const struct helper *h = argument;

    end_all(h->t, h->c, h->kinds);
    return NULL;
}

static void in_a_thread(struct checks *c, void *(*work)(void *), struct helper *helper)
{
    pthread_t thread;

    EXPECT(c, pthread_create(&thread, NULL, work, helper) == 0);
    (void)pthread_join(thread, NULL);
}

/* One thread submits, another one waits and takes. */
static void across_threads(tutti *t, struct checks *c)
{
    struct kinds k;
    struct helper helper = { .t = t, .c = c, .kinds = &k };

    checks_step(c, "across threads");
    kinds_init(&k, c, "handed over");
    in_a_thread(c, submit_all, &helper);
    in_a_thread(c, take_all, &helper);
}

static void register_one(
        tutti *t, struct checks *c, const struct kinds *k, int i, tutti_tensor *tensor)
{
    struct flight shape;

    flight_prepare(&shape, &k->operations[i], &k->world);
    EXPECT_OK(c, flight_register(t, &shape, k->names[i], tensor));
    flight_fini(&shape);
}

static void begin_mixed(tutti *t, struct checks *c, struct kinds *k,
        const tutti_tensor *tensors, int round)
{
    for (int i = 0; i < KINDS; i++) {
        struct flight *flight = &k->flights[i];

        flight_prepare(flight, &k->operations[i], &k->world);
        if (flight->stream != NULL) {
            suite_gpu_synchronize(); /* the registration may have no stream, or the other way */
        }
        EXPECT_OK(c,
                (round + i + c->rank) % 2 == 0
                        ? flight_submit_registered(t, flight, tensors[i])
                        : flight_submit(t, flight, k->names[i]));
    }
}

/* By id here and by name there, again and again, all in flight together. */
static void registered(tutti *t, struct checks *c)
{
    tutti_tensor tensors[KINDS];
    struct kinds k;

    checks_step(c, "registered");
    kinds_init(&k, c, "registered");
    for (int i = 0; i < KINDS; i++) {
        register_one(t, c, &k, i, &tensors[i]);
    }
    for (int round = 0; round < 6; round++) {
        begin_mixed(t, c, &k, tensors, round);
        end_all(t, c, &k);
    }
    for (int i = 0; i < KINDS; i++) {
        EXPECT_OK(c, tutti_tensor_unregister(t, tensors[i]));
    }
}

/** What a callback was told. */
struct told {
    _Atomic int ok;
    _Atomic int failed;
};

static void tell(void *user, tutti_status status, const char *message)
{
    struct told *told = user;

    if (status == TUTTI_OK && message[0] == '\0') {
        (void)atomic_fetch_add(&told->ok, 1);
    } else {
        (void)atomic_fetch_add(&told->failed, 1);
    }
}

/* Callbacks instead of requests, where the output is the caller's. */
static void callbacks(tutti *t, struct checks *c)
{
    struct told told = { 0 };
    tutti_options options;
    int32_t in[RANKS_MAX];
    int32_t out[5][RANKS_MAX];
    const int last = c->size - 1;

    checks_step(c, "callbacks");
    for (int i = 0; i < c->size; i++) {
        in[i] = 100 * c->rank + i;
    }
    tutti_options_default(&options);
    options.callback = tell;
    options.user = &told;
    EXPECT_OK(c,
            tutti_allgather_async(
                    t, "told", in, out[0], 1, 1, NULL, TUTTI_INT32, &options, NULL));
    EXPECT_OK(c,
            tutti_alltoall_async(t, "told", in, out[1], c->size, 1, NULL, NULL,
                    TUTTI_INT32, &options, NULL));
    EXPECT_OK(c,
            tutti_gather_async(t, "told", in, out[2], 1, 1, NULL, TUTTI_INT32, last,
                    &options, NULL));
    EXPECT_OK(c,
            tutti_scatter_async(t, "told", in, out[3], 1, 1, NULL, TUTTI_INT32, last,
                    &options, NULL));
    EXPECT_OK(c,
            tutti_reducescatter_async(t, "told", in, out[4], c->size, 1, NULL,
                    TUTTI_INT32, TUTTI_MAX, &options, NULL));
    while (atomic_load(&told.ok) + atomic_load(&told.failed) < 5) {
        (void)sched_yield();
    }
    EXPECT(c, atomic_load(&told.ok) == 5);
    EXPECT(c, out[0][last] == 100 * last && out[1][last] == 100 * last + c->rank);
    EXPECT(c, c->rank != last || out[2][last] == 100 * last);
    EXPECT(c, out[3][0] == 100 * last + c->rank && out[4][0] == 100 * last + c->rank);
}

void suite_ends(tutti *t, struct checks *c)
{
    if (c->size > 1) {
        timeouts(t, c);
        cancelled(t, c);
        partial_failure(t, c);
    }
    across_threads(t, c);
    registered(t, c);
    callbacks(t, c);
}
