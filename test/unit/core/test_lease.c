/*
 * Leases and the intake, without a context: threads that take leases and push, a closer
 * that is sure of what was pushed, and an engine that must find everything once and in
 * order.
 */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>

#include "core/intake.h"
#include "core/lease.h"
#include "test/unit/unit.h"

enum {
    THREADS = 4,
    PUSHES = 4000,
    CLOSES = 2000,
    BORROWS = 400,
    MANY_WORKS = 2000 /* several slabs */
};

/* ------------------------------------------------------------------- one thread */

static tutti_tensor begin_open(struct work_table *works, struct work **own)
{
    tutti_tensor handle;

    *own = work_take(works);
    assert_non_null(*own);
    handle = lease_begin(*own);
    lease_open(*own);
    return handle;
}

/* As the engine ends an operation. */
static void finish(struct work *work)
{
    work_advance(work, WORK_ANNOUNCED);
    work_advance(work, WORK_DONE);
    atomic_store_explicit(&work->done, 1, memory_order_release);
}

static void test_lease_is_taken_once_until_consumed(void **state)
{
    struct work_table works = { .free = NULL };
    struct work *own;
    const tutti_tensor handle = begin_open(&works, &own);
    tutti_request request;

    (void)state;
    assert_ptr_equal(lease_take(&works, handle), own);
    work_begin(own, NULL, NULL);
    request = work_handle(own);
    assert_null(lease_take(&works, handle));
    lease_filled(own);
    assert_null(lease_take(&works, handle));
    assert_true(lease_is_busy(own));
    finish(own);
    assert_false(lease_is_busy(own));
    assert_null(lease_take(&works, handle)); /* not consumed */
    assert_true(work_is_over(own, request));
    assert_true(work_claim(own, request));
    assert_false(work_claim(own, request));
    work_unclaim(own);
    assert_ptr_equal(work_find(&works, request), own);
    assert_true(work_claim(own, request));
    assert_false(work_end(own));
    assert_null(work_find(&works, request));
    assert_ptr_equal(lease_take(&works, handle), own);
    work_table_fini(&works);
}

static void test_lease_that_is_closed_or_borrowed_is_not_taken(void **state)
{
    struct work_table works = { .free = NULL };
    struct work *own;
    const tutti_tensor handle = begin_open(&works, &own);

    (void)state;
    lease_close(own);
    assert_null(lease_take(&works, handle));
    assert_false(lease_is_busy(own));
    lease_open(own);
    assert_true(lease_borrow(own));
    assert_false(lease_borrow(own));
    assert_null(lease_take(&works, handle));
    assert_true(lease_is_busy(own));
    lease_restore(own);
    assert_ptr_equal(lease_take(&works, handle), own);
    work_begin(own, NULL, NULL);
    lease_filled(own);
    assert_false(lease_borrow(own)); /* in flight */
    finish(own);
    assert_true(lease_borrow(own)); /* done, not consumed */
    assert_false(work_end(own));
    assert_null(lease_take(&works, handle)); /* borrowed still */
    lease_restore(own);
    assert_ptr_equal(lease_take(&works, handle), own);
    assert_false(lease_borrow(own)); /* taken, though the last operation is done */
    work_table_fini(&works);
}

static void test_handles_of_other_generations_are_unknown(void **state)
{
    struct work_table works = { .free = NULL };
    struct work *own;
    const tutti_tensor first = begin_open(&works, &own);
    tutti_tensor second;

    (void)state;
    assert_ptr_equal(lease_find(&works, first), own);
    assert_null(lease_find(&works, 0));
    assert_null(lease_find(&works, 1));
    assert_null(lease_find(&works, first + 1));
    assert_null(lease_find(&works, UINT64_MAX));
    lease_close(own);
    assert_true(lease_end(own));
    assert_null(lease_find(&works, first));
    assert_null(lease_take(&works, first));
    assert_false(lease_is_registered(own));
    second = lease_begin(own);
    lease_open(own);
    assert_true(second != first);
    assert_null(lease_take(&works, first));
    assert_ptr_equal(lease_take(&works, second), own);
    work_table_fini(&works);
}

/* Unregistered before the last request is consumed: whoever does gets the work. */
static void test_lease_that_ends_in_use_is_the_consumers(void **state)
{
    struct work_table works = { .free = NULL };
    struct work *own;
    const tutti_tensor handle = begin_open(&works, &own);

    (void)state;
    assert_ptr_equal(lease_take(&works, handle), own);
    work_begin(own, NULL, NULL);
    lease_filled(own);
    finish(own);
    lease_close(own);
    assert_false(lease_end(own));
    assert_true(lease_is_held(own));
    assert_true(work_end(own));
    assert_false(lease_is_held(own));
    work_table_fini(&works);
}

static void test_cancel_is_of_one_operation(void **state)
{
    struct work_table works = { .free = NULL };
    struct work *work = work_take(&works);
    tutti_request first;

    (void)state;
    assert_non_null(work);
    work_begin(work, NULL, NULL);
    first = work_handle(work);
    assert_false(work_take_cancel(work));
    work_ask_cancel(work, first);
    assert_true(work_take_cancel(work));
    assert_false(work_take_cancel(work));
    assert_true(work_end(work));
    work_begin(work, NULL, NULL);
    work_ask_cancel(work, first); /* came late */
    assert_false(work_take_cancel(work));
    work_table_fini(&works);
}

static void test_works_stay_where_they_are(void **state)
{
    static struct work *taken[MANY_WORKS];
    struct work_table works = { .free = NULL };

    (void)state;
    for (uint32_t i = 0; i < MANY_WORKS; i++) {
        taken[i] = work_take(&works);
        assert_non_null(taken[i]);
        work_begin(taken[i], NULL, NULL);
    }
    for (uint32_t i = 0; i < MANY_WORKS; i++) {
        assert_ptr_equal(work_at(&works, taken[i]->index), taken[i]);
        assert_ptr_equal(work_find(&works, work_handle(taken[i])), taken[i]);
    }
    assert_null(work_at(&works, UINT32_MAX));
    assert_null(work_at(&works, 1u << 20));
    work_table_fini(&works);
}

/* --------------------------------------------------------------- many threads */

/** Pushers, each with a work of its own, and what the engine has seen of each. */
struct scene {
    struct work_table works;
    struct intake intake;
    struct work *own[THREADS];
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
        struct work *work = lease_take(&scene->works, scene->handle[pusher->index]);

        if (work == NULL) {
            (void)sched_yield();
            continue;
        }
        work_begin(work, NULL, NULL);
        work->bytes = next++;
        intake_push(&scene->intake, work, work, 1);
        atomic_store_explicit(
                &scene->pushed[pusher->index], next, memory_order_relaxed);
        lease_filled(work);
    }
    return NULL;
}

static void open_scene(struct scene *scene, struct pusher *pushers)
{
    memset(scene, 0, sizeof *scene);
    for (int i = 0; i < THREADS; i++) {
        scene->handle[i] = begin_open(&scene->works, &scene->own[i]);
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
    work_table_fini(&scene->works);
}

static int owner(const struct scene *scene, const struct work *work)
{
    int i = 0;

    while (scene->own[i] != work) {
        i++;
    }
    return i;
}

/* Ends all that was pushed; counts what came of each thread, and in which order. */
static size_t run_engine(struct scene *scene, uint64_t *seen)
{
    struct work *work = intake_take(&scene->intake);
    size_t count = 0;

    while (work != NULL) {
        struct work *next = work->next;
        const int from = owner(scene, work);

        assert_int_equal(work->bytes, seen[from]);
        seen[from]++;
        count++;
        finish(work);
        assert_false(work_end(work));
        work = next;
    }
    return count;
}

static void test_intake_loses_nothing(void **state)
{
    struct scene scene;
    struct pusher pushers[THREADS];
    uint64_t seen[THREADS] = { 0 };
    uint64_t total = 0;

    (void)state;
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

/* Works that a thread pushes as one chain come as one, in its order. */
static void test_chains_stay_together(void **state)
{
    struct work_table works = { .free = NULL };
    struct intake intake = { .count = 0 };
    struct work *work[4];

    (void)state;
    for (int i = 0; i < 4; i++) {
        work[i] = work_take(&works);
        assert_non_null(work[i]);
    }
    intake_push(&intake, work[0], work[0], 1);
    work[2]->next = work[1];
    intake_push(&intake, work[2], work[1], 2);
    intake_push(&intake, work[3], work[3], 1);
    assert_int_equal(atomic_load(&intake.count), 4);
    assert_ptr_equal(intake_take(&intake), work[0]);
    for (int i = 0; i < 4; i++) {
        assert_ptr_equal(work[i]->next, i < 3 ? work[i + 1] : NULL);
    }
    work_table_fini(&works);
}

/* What was submitted before a lease was closed is in the queue, and nothing follows. */
static void test_close_waits_for_submitters(void **state)
{
    struct scene scene;
    struct pusher pushers[THREADS];
    uint64_t seen[THREADS] = { 0 };

    (void)state;
    open_scene(&scene, pushers);
    for (int round = 0; round < CLOSES; round++) {
        for (int i = 0; i < THREADS; i++) {
            lease_close(scene.own[i]);
        }
        (void)run_engine(&scene, seen);
        for (int i = 0; i < THREADS; i++) {
            assert_int_equal(seen[i], atomic_load(&scene.pushed[i]));
            assert_false(lease_is_busy(scene.own[i]));
        }
        assert_null(intake_take(&scene.intake));
        for (int i = 0; i < THREADS; i++) {
            lease_open(scene.own[i]);
        }
    }
    close_scene(&scene, pushers);
}

/** A thread that wants the one lease, with others that do. */
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
        struct work *work = lease_take(&scene->works, scene->handle[0]);

        if (work == NULL) {
            (void)sched_yield();
            continue;
        }
        /* Not atomic: ThreadSanitizer and the sum notice a second owner. */
        work_begin(work, NULL, NULL);
        work->bytes++;
        (void)atomic_fetch_add(&rival->won, 1);
        scene->own[0]->request.priority++;
        finish(work);
        assert_false(work_end(work));
        lease_filled(work);
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

static void test_rivals_never_hold_it_together(void **state)
{
    struct scene scene = { .over = 0 };
    struct rival rivals[THREADS];
    uint64_t won = 0;
    int borrowed = 0;

    (void)state;
    scene.handle[0] = begin_open(&scene.works, &scene.own[0]);
    for (int i = 0; i < THREADS; i++) {
        rivals[i].scene = &scene;
        atomic_init(&rivals[i].won, 0);
        assert_int_equal(pthread_create(&rivals[i].thread, NULL, want, &rivals[i]), 0);
    }
    /* On a busy machine the first thread may be through before another has run at all. */
    while (borrowed < BORROWS || !has_each_won(rivals)) {
        if (!lease_borrow(scene.own[0])) {
            (void)sched_yield();
            continue;
        }
        scene.own[0]->request.priority++;
        borrowed++;
        lease_restore(scene.own[0]);
        (void)sched_yield();
    }
    atomic_store(&scene.over, 1);
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(rivals[i].thread, NULL), 0);
        won += atomic_load(&rivals[i].won);
    }
    assert_int_equal(scene.own[0]->request.priority, won + (uint64_t)borrowed);
    work_table_fini(&scene.works);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lease_is_taken_once_until_consumed),
        cmocka_unit_test(test_lease_that_is_closed_or_borrowed_is_not_taken),
        cmocka_unit_test(test_handles_of_other_generations_are_unknown),
        cmocka_unit_test(test_lease_that_ends_in_use_is_the_consumers),
        cmocka_unit_test(test_cancel_is_of_one_operation),
        cmocka_unit_test(test_works_stay_where_they_are),
        cmocka_unit_test(test_intake_loses_nothing),
        cmocka_unit_test(test_chains_stay_together),
        cmocka_unit_test(test_close_waits_for_submitters),
        cmocka_unit_test(test_rivals_never_hold_it_together),
    };

    return cmocka_run_group_tests_name("lease", tests, NULL, NULL);
}
