/*
 * Batches that ride, and walks, from the core's side, on a backend that ends what it is
 * told to: what becomes of works, and of a set that is removed while a rank walks.
 */
#include "base/mem.h"
#include "core/context.h"
#include "core/engine.h"
#include "core/submit.h"
#include "test/unit/unit.h"

enum {
    LANE = 3,
    WORKS = 4
};

/* What the backend was given, and what it shall do. */
struct stage {
    const struct op_batch *started[16];
    int starts, walks, cancels;
    bool ends; /* what is not RIDING */
};

static bool take_all(const void *state, const struct op_batch *batch)
{
    (void)state;
    return batch->run_count == 1;
}

static tutti_status stage_open(const struct op_env *env, void **state)
{
    *state = env->native;
    return TUTTI_OK;
}

static void stage_close(void *state)
{
    (void)state;
}

static tutti_status stage_start(void *state, void *task, const struct op_batch *batch)
{
    struct stage *stage = state;

    *(const struct op_batch **)task = batch;
    stage->started[stage->starts++] = batch;
    return TUTTI_OK;
}

static tutti_status stage_walk(void *state, void *task, const struct op_batch *batch)
{
    struct stage *stage = state;

    *(const struct op_batch **)task = batch;
    stage->walks++;
    return TUTTI_OK;
}

static enum op_word hear_nobody(const void *state, const void *task, int member)
{
    (void)state;
    (void)task;
    (void)member;
    return OP_UNHEARD;
}

/* It reads the set of the batch, as backends do. */
static tutti_status stage_step(void *state, void *task, bool *moved)
{
    const struct stage *stage = state;
    const struct op_batch *batch = *(const struct op_batch *const *)task;
    const bool ends =
            stage->ends && batch->accord != OP_RIDING && batch->set->size == 1;

    *moved = *moved || ends;
    return ends ? TUTTI_OK : TUTTI_AGAIN;
}

static bool stage_cancel(void *state, void *task)
{
    struct stage *stage = state;
    const struct op_batch *batch = *(const struct op_batch *const *)task;

    stage->cancels += batch->set->size;
    return true;
}

static const struct op_backend staging = { .name = "staging",
    .task_bytes = 64,
    .open = stage_open,
    .close = stage_close,
    .accepts = take_all,
    .start = stage_start,
    .step = stage_step,
    .cancel = stage_cancel,
    .rides = take_all,
    .walk = stage_walk,
    .heard = hear_nobody };

/* A transport of one rank. */
static tutti_status send_nothing(void *state, int to, const void *bytes, size_t len)
{
    (void)state;
    (void)to;
    (void)bytes;
    (void)len;
    return TUTTI_ERR_INTERNAL;
}

static tutti_status receive_nothing(void *state, control_deliver deliver, void *user)
{
    (void)state;
    (void)deliver;
    (void)user;
    return TUTTI_AGAIN;
}

static bool always_flushed(void *state)
{
    (void)state;
    return true;
}

static void close_nothing(void *state)
{
    (void)state;
}

static const struct control_ops alone = { .name = "alone",
    .send = send_nothing,
    .poll = receive_nothing,
    .flushed = always_flushed,
    .close = close_nothing };

/* A context of one rank with a set beside the world. */
struct scene {
    struct tutti *t;
    struct process_set *set;
    struct stage stage;
    struct work works[WORKS];
};

static int set_up(void **state)
{
    static const char *const host = "a";
    struct scene *scene = mem_calloc(1, sizeof *scene);
    struct context_spec spec = { .size = 1,
        .control = { .ops = &alone, .size = 1 },
        .backends = { &staging },
        .backend_count = 1 };
    const int64_t rank = 0;

    assert_non_null(scene);
    spec.natives[0] = &scene->stage;
    assert_int_equal(config_init(&spec.config), TUTTI_OK);
    assert_int_equal(nodes_init(&spec.nodes, &host, 1), TUTTI_OK);
    assert_int_equal(context_create(&scene->t, &spec), TUTTI_OK);
    assert_int_equal(process_sets_add(scene->t, &rank, 1, &scene->set), TUTTI_OK);
    scene->t->config.inflight = 2;
    *state = scene;
    return 0;
}

static int tear_down(void **state)
{
    struct scene *scene = *state;

    context_destroy(scene->t);
    mem_free(scene);
    return 0;
}

/* A batch of one work that rides. */
static struct work *begin(struct scene *scene, uint64_t index)
{
    struct batch *batch = dispatcher_batch_new(scene->t, scene->set, LANE);
    struct work *work = &scene->works[index];

    assert_non_null(batch);
    *work = (struct work){ .state = WORK_BEGUN, .bytes = sizeof(float) };
    work->request.collective = TUTTI_ALLREDUCE;
    work->request.meta.dtype = TUTTI_FLOAT32;
    assert_true(dispatcher_batch_add(&scene->t->dispatcher, batch, work));
    dispatcher_begin(scene->t, batch, index);
    return work;
}

static void run(struct scene *scene)
{
    bool moved = false;

    assert_int_equal(dispatcher_run(scene->t, &moved), TUTTI_OK);
}

static void walk(struct scene *scene, uint64_t first, uint64_t count)
{
    assert_int_equal(
            dispatcher_walk(scene->t, scene->set, LANE, first, count), TUTTI_OK);
}

static void test_a_batch_rides_until_it_is_agreed(void **state)
{
    struct scene *scene = *state;
    const struct work *work = begin(scene, 0);

    scene->stage.ends = true;
    assert_null(dispatcher_rider(scene->set, LANE, 0));
    run(scene);
    assert_int_equal(scene->stage.starts, 1);
    assert_non_null(dispatcher_rider(scene->set, LANE, 0));
    assert_int_equal(scene->stage.started[0]->accord, OP_RIDING);
    assert_int_equal(work_state(work), WORK_BEGUN);
    scene->stage.ends = false;
    assert_int_equal(dispatcher_agree(scene->t, scene->set, LANE, 0), 1);
    assert_int_equal(scene->stage.started[0]->accord, OP_AGREED);
    assert_int_equal(work_state(work), WORK_RUNNING);
    assert_null(dispatcher_rider(scene->set, LANE, 0));
    assert_false(process_set_drains(scene->set));
}

static void test_what_is_dropped_keeps_its_works_until_it_ends(void **state)
{
    struct scene *scene = *state;
    const struct work *work = begin(scene, 0);

    run(scene);
    dispatcher_drop(scene->set, LANE, 0);
    assert_int_equal(scene->stage.started[0]->accord, OP_DROPPED);
    run(scene);
    assert_int_equal(work_state(work), WORK_BEGUN);
    assert_true(process_set_drains(scene->set));
    scene->stage.ends = true;
    run(scene);
    assert_int_equal(work_state(work), WORK_ANNOUNCED);
    assert_false(process_set_drains(scene->set));
}

static void test_nothing_below_the_outcome_is_dropped(void **state)
{
    struct scene *scene = *state;

    (void)begin(scene, 0);
    (void)begin(scene, 1);
    run(scene);
    dispatcher_drop(scene->set, LANE, 1);
    assert_int_equal(scene->stage.started[0]->accord, OP_RIDING);
    assert_int_equal(scene->stage.started[1]->accord, OP_DROPPED);
}

/* Others may have begun it, so its place in the lane is walked. */
static void test_what_is_dropped_before_its_launch_is_walked(void **state)
{
    struct scene *scene = *state;
    const struct work *work;

    (void)begin(scene, 0);
    (void)begin(scene, 1);
    work = begin(scene, 2);
    run(scene);
    assert_int_equal(scene->stage.starts, 2);
    dispatcher_drop(scene->set, LANE, 0);
    assert_int_equal(work_state(work), WORK_ANNOUNCED);
    scene->stage.ends = true;
    run(scene);
    run(scene);
    assert_int_equal(scene->stage.starts, 2);
    assert_int_equal(scene->stage.walks, 1);
    assert_int_equal(scene->set->lanes[LANE].sequence, 3);
    assert_true(dispatcher_is_idle(&scene->t->dispatcher));
}

/* The steps of the walk read the set; a sanitizer sees when that is gone. */
static void test_a_set_outlives_its_walks(void **state)
{
    struct scene *scene = *state;

    walk(scene, 0, 5);
    run(scene);
    assert_int_equal(scene->stage.walks, 2);
    process_sets_remove(scene->t, scene->set);
    assert_null(process_sets_find(&scene->t->sets, scene->set->id));
    run(scene);
    assert_int_equal(scene->stage.walks, 2);
    assert_int_equal(scene->t->dispatcher.waiting, 0);
    assert_int_equal(scene->set->lanes[LANE].rider_count, 2);
    scene->stage.ends = true;
    run(scene);
    assert_true(dispatcher_is_idle(&scene->t->dispatcher));
}

static void test_walks_of_a_removed_set_are_given_up_in_the_end(void **state)
{
    struct scene *scene = *state;

    walk(scene, 0, 2);
    run(scene);
    process_sets_remove(scene->t, scene->set);
    assert_true(dispatcher_cancel_all(scene->t));
    assert_int_equal(scene->stage.cancels, 2);
}

static void turn(struct scene *scene)
{
    bool moved = false;

    engine_turn(scene->t, &moved);
    assert_int_equal(atomic_load(&scene->t->failed), 0);
}

static void test_a_removal_waits_until_the_set_has_drained(void **state)
{
    struct scene *scene = *state;
    const tutti_process_set id = scene->set->id;
    const struct submission removal = { .collective = META_SET_DESTROY,
        .name = "destroy",
        .set = TUTTI_WORLD,
        .meta = { .prescale = 1, .postscale = 1, .count = id } };
    const struct work *work;
    tutti_request request;

    walk(scene, 0, 5);
    assert_int_equal(submit_queue(scene->t, &removal, &request), TUTTI_OK);
    work = work_find(&scene->t->works, request);
    assert_non_null(work);
    for (int i = 0; i < 3; i++) {
        turn(scene);
    }
    assert_false(work_is_over(work, request));
    assert_non_null(process_sets_find(&scene->t->sets, id));
    scene->stage.ends = true;
    for (int i = 0; i < 6; i++) {
        turn(scene);
    }
    assert_int_equal(scene->stage.walks, 5);
    assert_true(work_is_over(work, request));
    assert_null(process_sets_find(&scene->t->sets, id));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(
                test_a_batch_rides_until_it_is_agreed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(
                test_what_is_dropped_keeps_its_works_until_it_ends, set_up, tear_down),
        cmocka_unit_test_setup_teardown(
                test_nothing_below_the_outcome_is_dropped, set_up, tear_down),
        cmocka_unit_test_setup_teardown(
                test_what_is_dropped_before_its_launch_is_walked, set_up, tear_down),
        cmocka_unit_test_setup_teardown(
                test_a_set_outlives_its_walks, set_up, tear_down),
        cmocka_unit_test_setup_teardown(
                test_walks_of_a_removed_set_are_given_up_in_the_end, set_up, tear_down),
        cmocka_unit_test_setup_teardown(
                test_a_removal_waits_until_the_set_has_drained, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
