/*
 * Persistent requests and the intake, without a context: threads that take persistent requests and push, a closer
 * that is sure of what was pushed, and an engine that must find everything once and in
 * order.
 */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>

#include "run/intake.h"
#include "run/persistent.h"
#include "test/unit/unit.h"

enum {
    THREADS = 4,
    PUSHES = 4000,
    CLOSES = 2000,
    BORROWS = 400,
    MANY_WORKS = 2000 /* several slabs */
};

/* ------------------------------------------------------------------- one thread */

static tutti_tensor begin_open(
        struct operation_table *operations, struct operation **own)
{
    tutti_tensor handle;

    *own = operation_take(operations);
    assert_non_null(*own);
    handle = persistent_begin(*own);
    persistent_open(*own);
    return handle;
}

/* As the engine ends an operation. */
static void finish(struct operation *operation)
{
    operation_advance(operation, OPERATION_ANNOUNCED);
    operation_advance(operation, OPERATION_DONE);
    atomic_store_explicit(&operation->done, 1, memory_order_release);
}

UNIT_TEST(test_lease_is_taken_once_until_consumed)
{
    struct operation_table operations = { .free = NULL };
    struct operation *own;
    const tutti_tensor handle = begin_open(&operations, &own);
    tutti_request request;

    assert_ptr_equal(persistent_take(&operations, handle), own);
    operation_begin(own, NULL, NULL);
    request = operation_handle(own);
    assert_null(persistent_take(&operations, handle));
    persistent_filled(own);
    assert_null(persistent_take(&operations, handle));
    assert_true(persistent_is_busy(own));
    finish(own);
    assert_false(persistent_is_busy(own));
    assert_null(persistent_take(&operations, handle)); /* not consumed */
    assert_true(operation_is_over(own, request));
    assert_true(operation_claim(own, request));
    assert_false(operation_claim(own, request));
    operation_unclaim(own);
    assert_ptr_equal(operation_find(&operations, request), own);
    assert_true(operation_claim(own, request));
    assert_false(operation_end(own));
    assert_null(operation_find(&operations, request));
    assert_ptr_equal(persistent_take(&operations, handle), own);
    operation_table_fini(&operations);
}

UNIT_TEST(test_lease_that_is_closed_or_borrowed_is_not_taken)
{
    struct operation_table operations = { .free = NULL };
    struct operation *own;
    const tutti_tensor handle = begin_open(&operations, &own);

    persistent_close(own);
    assert_null(persistent_take(&operations, handle));
    assert_false(persistent_is_busy(own));
    persistent_open(own);
    assert_true(persistent_borrow(own));
    assert_false(persistent_borrow(own));
    assert_null(persistent_take(&operations, handle));
    assert_true(persistent_is_busy(own));
    persistent_restore(own);
    assert_ptr_equal(persistent_take(&operations, handle), own);
    operation_begin(own, NULL, NULL);
    persistent_filled(own);
    assert_false(persistent_borrow(own)); /* in flight */
    finish(own);
    assert_true(persistent_borrow(own)); /* done, not consumed */
    assert_false(operation_end(own));
    assert_null(persistent_take(&operations, handle)); /* borrowed still */
    persistent_restore(own);
    assert_ptr_equal(persistent_take(&operations, handle), own);
    assert_false(persistent_borrow(own)); /* taken, though the last operation is done */
    operation_table_fini(&operations);
}

UNIT_TEST(test_handles_of_other_generations_are_unknown)
{
    struct operation_table operations = { .free = NULL };
    struct operation *own;
    const tutti_tensor first = begin_open(&operations, &own);
    tutti_tensor second;

    assert_ptr_equal(persistent_find(&operations, first), own);
    assert_null(persistent_find(&operations, 0));
    assert_null(persistent_find(&operations, 1));
    assert_null(persistent_find(&operations, first + 1));
    assert_null(persistent_find(&operations, UINT64_MAX));
    persistent_close(own);
    assert_true(persistent_end(own));
    assert_null(persistent_find(&operations, first));
    assert_null(persistent_take(&operations, first));
    assert_false(persistent_is_registered(own));
    second = persistent_begin(own);
    persistent_open(own);
    assert_true(second != first);
    assert_null(persistent_take(&operations, first));
    assert_ptr_equal(persistent_take(&operations, second), own);
    operation_table_fini(&operations);
}

/* Unregistered before the last request is consumed: whoever does gets the operation. */
UNIT_TEST(test_lease_that_ends_in_use_is_the_consumers)
{
    struct operation_table operations = { .free = NULL };
    struct operation *own;
    const tutti_tensor handle = begin_open(&operations, &own);

    assert_ptr_equal(persistent_take(&operations, handle), own);
    operation_begin(own, NULL, NULL);
    persistent_filled(own);
    finish(own);
    persistent_close(own);
    assert_false(persistent_end(own));
    assert_true(persistent_is_held(own));
    assert_true(operation_end(own));
    assert_false(persistent_is_held(own));
    operation_table_fini(&operations);
}

UNIT_TEST(test_cancel_is_of_one_operation)
{
    struct operation_table operations = { .free = NULL };
    struct operation *operation = operation_take(&operations);
    tutti_request first;

    assert_non_null(operation);
    operation_begin(operation, NULL, NULL);
    first = operation_handle(operation);
    assert_false(operation_take_cancel(operation));
    operation_ask_cancel(operation, first);
    assert_true(operation_take_cancel(operation));
    assert_false(operation_take_cancel(operation));
    assert_true(operation_end(operation));
    operation_begin(operation, NULL, NULL);
    operation_ask_cancel(operation, first); /* came late */
    assert_false(operation_take_cancel(operation));
    operation_table_fini(&operations);
}

UNIT_TEST(test_works_stay_where_they_are)
{
    static struct operation *taken[MANY_WORKS];
    struct operation_table operations = { .free = NULL };

    for (uint32_t i = 0; i < MANY_WORKS; i++) {
        taken[i] = operation_take(&operations);
        assert_non_null(taken[i]);
        operation_begin(taken[i], NULL, NULL);
    }
    for (uint32_t i = 0; i < MANY_WORKS; i++) {
        assert_ptr_equal(operation_at(&operations, taken[i]->index), taken[i]);
        assert_ptr_equal(
                operation_find(&operations, operation_handle(taken[i])), taken[i]);
    }
    assert_null(operation_at(&operations, UINT32_MAX));
    assert_null(operation_at(&operations, 1u << 20));
    operation_table_fini(&operations);
}

/* --------------------------------------------------------------- many threads */

/** Pushers, each with an operation of its own, and what the engine has seen of each. */
struct scene {
    struct operation_table operations;
    struct intake intake;
    struct operation *own[THREADS];
    tutti_tensor handle[THREADS];
    _Atomic uint64_t pushed[THREADS]; /* of each, counted before FILLING ends */
    _Atomic int over;
};

struct pusher {
    struct scene *scene;
    int index;
    pthread_t thread;
};

/* An operation has its number in `bytes`; the engine consumes it, too. */
static void *push_in_order(void *argument)
{
    const struct pusher *pusher = argument;
    struct scene *scene = pusher->scene;
    uint64_t next = 0;

    while (next < PUSHES && atomic_load(&scene->over) == 0) {
        struct operation *operation =
                persistent_take(&scene->operations, scene->handle[pusher->index]);

        if (operation == NULL) {
            (void)sched_yield();
            continue;
        }
        operation_begin(operation, NULL, NULL);
        operation->memory.bytes = next++;
        intake_push(&scene->intake, operation, operation, 1);
        atomic_store_explicit(
                &scene->pushed[pusher->index], next, memory_order_relaxed);
        persistent_filled(operation);
    }
    return NULL;
}

static void open_scene(struct scene *scene, struct pusher *pushers)
{
    memset(scene, 0, sizeof *scene);
    for (int i = 0; i < THREADS; i++) {
        scene->handle[i] = begin_open(&scene->operations, &scene->own[i]);
        pushers[i] = (struct pusher){ .scene = scene, .index = i };
    }
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(
                pthread_create(&pushers[i].thread, NULL, push_in_order, &pushers[i]),
                0);
    }
}

static void close_scene(struct scene *scene, struct pusher *pushers)
{
    atomic_store(&scene->over, 1);
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(pushers[i].thread, NULL), 0);
    }
    operation_table_fini(&scene->operations);
}

static int owner(const struct scene *scene, const struct operation *operation)
{
    int i = 0;

    while (scene->own[i] != operation) {
        i++;
    }
    return i;
}

/* Ends all that was pushed; counts what came of each thread, and in which order. */
static size_t run_engine(struct scene *scene, uint64_t *seen)
{
    struct operation *operation = intake_take(&scene->intake);
    size_t count = 0;

    while (operation != NULL) {
        struct operation *next = operation->next;
        const int from = owner(scene, operation);

        assert_int_equal(operation->memory.bytes, seen[from]);
        seen[from]++;
        count++;
        finish(operation);
        assert_false(operation_end(operation));
        operation = next;
    }
    return count;
}

UNIT_TEST(test_intake_loses_nothing)
{
    struct scene scene;
    struct pusher pushers[THREADS];
    uint64_t seen[THREADS] = { 0 };
    uint64_t total = 0;

    open_scene(&scene, pushers);
    while (total < (uint64_t)THREADS * PUSHES) {
        const size_t count = run_engine(&scene, seen);

        total += count;
        if (count == 0) {
            (void)sched_yield(); /* the pushers may share this core */
        }
    }
    close_scene(&scene, pushers);
    assert_null(intake_take(&scene.intake));
    assert_int_equal(atomic_load(&scene.intake.count), total);
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(seen[i], PUSHES);
    }
}

/* Operations that a thread pushes as one chain come as one, in its order. */
UNIT_TEST(test_chains_stay_together)
{
    struct operation_table operations = { .free = NULL };
    struct intake intake = { .count = 0 };
    struct operation *operation[4];

    for (int i = 0; i < 4; i++) {
        operation[i] = operation_take(&operations);
        assert_non_null(operation[i]);
    }
    intake_push(&intake, operation[0], operation[0], 1);
    operation[2]->next = operation[1];
    intake_push(&intake, operation[2], operation[1], 2);
    intake_push(&intake, operation[3], operation[3], 1);
    assert_int_equal(atomic_load(&intake.count), 4);
    assert_ptr_equal(intake_take(&intake), operation[0]);
    for (int i = 0; i < 4; i++) {
        assert_ptr_equal(operation[i]->next, i < 3 ? operation[i + 1] : NULL);
    }
    operation_table_fini(&operations);
}

/* What was submitted before a persistent request was closed is in the queue, and nothing follows. */
UNIT_TEST(test_close_waits_for_submitters)
{
    struct scene scene;
    struct pusher pushers[THREADS];
    uint64_t seen[THREADS] = { 0 };

    open_scene(&scene, pushers);
    for (int round = 0; round < CLOSES; round++) {
        for (int i = 0; i < THREADS; i++) {
            persistent_close(scene.own[i]);
        }
        (void)run_engine(&scene, seen);
        for (int i = 0; i < THREADS; i++) {
            assert_int_equal(seen[i], atomic_load(&scene.pushed[i]));
            assert_false(persistent_is_busy(scene.own[i]));
        }
        assert_null(intake_take(&scene.intake));
        for (int i = 0; i < THREADS; i++) {
            persistent_open(scene.own[i]);
        }
    }
    close_scene(&scene, pushers);
}

/** A thread that wants the one persistent request, with others that do. */
struct rival {
    struct scene *scene;
    _Atomic uint64_t won;
    pthread_t thread;
};

static void *want(void *argument)
{
    struct rival *rival = argument;
    struct scene *scene = rival->scene;

    while (atomic_load(&scene->over) == 0) {
        struct operation *operation =
                persistent_take(&scene->operations, scene->handle[0]);

        if (operation == NULL) {
            (void)sched_yield();
            continue;
        }
        /* Not atomic: ThreadSanitizer and the sum notice a second owner. */
        operation_begin(operation, NULL, NULL);
        operation->memory.bytes++;
        (void)atomic_fetch_add(&rival->won, 1);
        scene->own[0]->request.priority++;
        finish(operation);
        assert_false(operation_end(operation));
        persistent_filled(operation);
    }
    return NULL;
}

static bool has_each_won(struct rival *rivals)
{
    for (int i = 0; i < THREADS; i++) {
        if (atomic_load(&rivals[i].won) == 0) {
            return false;
        }
    }
    return true;
}

UNIT_TEST(test_rivals_never_hold_it_together)
{
    struct scene scene = { .over = 0 };
    struct rival rivals[THREADS];
    uint64_t won = 0;
    int borrowed = 0;

    scene.handle[0] = begin_open(&scene.operations, &scene.own[0]);
    for (int i = 0; i < THREADS; i++) {
        rivals[i].scene = &scene;
        atomic_init(&rivals[i].won, 0);
        assert_int_equal(pthread_create(&rivals[i].thread, NULL, want, &rivals[i]), 0);
    }
    /* On a busy machine the first thread may be through before another has run at all. */
    while (borrowed < BORROWS || !has_each_won(rivals)) {
        if (!persistent_borrow(scene.own[0])) {
            (void)sched_yield();
            continue;
        }
        scene.own[0]->request.priority++;
        borrowed++;
        persistent_restore(scene.own[0]);
        (void)sched_yield();
    }
    atomic_store(&scene.over, 1);
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(rivals[i].thread, NULL), 0);
        won += atomic_load(&rivals[i].won);
    }
    assert_int_equal(scene.own[0]->request.priority, won + (uint64_t)borrowed);
    operation_table_fini(&scene.operations);
}
