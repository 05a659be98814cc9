/*
 * The dispatcher on a backend that notes what it is given and never finishes: sets have
 * windows, orders and numbers of their own; urgent batches move first.
 */
#include "base/mem.h"
#include "run/context.h"
#include "run/dispatch.h"
#include "run/outcomes.h"
#include "test/unit/unit.h"

enum {
    BATCHES_MAX = 64
};

/* What the backend was given. */
struct note {
    uint32_t set;
    uint64_t sequence;
    size_t count; /* of elements: in order of submission, from 1          */
};

struct notes {
    struct note started[BATCHES_MAX];
    int count;
    int cancelled;
    unsigned moving; /* 1 << sequence: such batches move when they are stepped */
    uint64_t stepped[BATCHES_MAX]; /* their sequence numbers, in order         */
    int steps;
};

static bool take_all(const void *state, const struct op_batch *batch)
{
    (void)state;
    (void)batch;
    return true;
}

static tutti_status note_start(void *state, void *task, const struct op_batch *batch)
{
    struct notes *notes = state;

    *(uint64_t *)task = batch->sequence;
    notes->started[notes->count++] = (struct note){
        .set = batch->set->id, .sequence = batch->sequence, .count = batch->count
    };
    return TUTTI_OK;
}

static tutti_status never_finish(void *state, void *task, bool *moved)
{
    struct notes *notes = state;
    const uint64_t sequence = *(const uint64_t *)task;

    notes->stepped[notes->steps++] = sequence;
    *moved = *moved || (notes->moving & 1u << sequence) != 0;
    return TUTTI_AGAIN;
}

static bool note_cancel(void *state, void *task)
{
    struct notes *notes = state;

    (void)task;
    notes->cancelled++;
    return true;
}

static void nothing_to_close(void *state)
{
    (void)state;
}

static const struct op_backend noting = { .name = "noting",
    .takes_runs = 1u << TUTTI_ALLREDUCE,
    .task_bytes = 64,
    .close = nothing_to_close,
    .accepts = take_all,
    .start = note_start,
    .step = never_finish,
    .cancel = note_cancel };

/* As much of a context as the dispatcher looks at, with two sets. */
struct scene {
    struct tutti context;
    struct process_set sets[2];
    struct process_set *table[2];
    struct operation operations[BATCHES_MAX];
    size_t operation_count;
    struct notes notes;
};

static struct scene *set_up(void)
{
    struct scene *scene = mem_calloc(1, sizeof *scene);

    assert_non_null(scene);
    for (uint32_t i = 0; i < 2; i++) {
        scene->sets[i].id = i;
        scene->sets[i].op = (struct op_set){ .id = i, .index = i, .size = 1 };
        scene->sets[i].context = &scene->context;
        scene->table[i] = &scene->sets[i];
    }
    scene->context.sets.sets = scene->table;
    scene->context.sets.count = 2;
    scene->context.config.inflight = 2;
    scene->context.observer.metrics = &scene->context.observer.own;
    scene->context.dispatcher.memory = &scene->context.outputs.memory;
    scene->context.dispatcher.backends[0] =
            (struct dispatcher_backend){ .ops = &noting, .state = &scene->notes };
    scene->context.dispatcher.backend_count = 1;
    scene->context.dispatcher.task_bytes = noting.task_bytes;
    return scene;
}

static void tear_down(struct scene *scene)
{
    assert_true(dispatch_cancel_all(&scene->context));
    dispatch_fini(&scene->context);
    forming_fini(&scene->context.engine.forming);
    mem_free(scene);
}

/* A sum of as many floats as were made, which tells it from the others. */
static struct operation *make_sum(struct scene *scene, enum operation_state state)
{
    struct operation *operation = &scene->operations[scene->operation_count++];

    *operation = (struct operation){ .state = state,
        .memory.bytes = scene->operation_count * sizeof(float) };
    operation->request.collective = TUTTI_ALLREDUCE;
    operation->request.meta.dtype = TUTTI_FLOAT32;
    operation->request.meta.count = (int64_t)scene->operation_count;
    return operation;
}

static void submit_urgent(struct scene *scene, int set, int priority)
{
    struct batch *batch = batch_new(&scene->context, &scene->sets[set]);
    struct operation *operation = make_sum(scene, OPERATION_AGREED);

    assert_non_null(batch);
    operation->request.priority = priority;
    assert_true(batch_add(&scene->context.dispatcher, batch, operation));
    dispatch_queue(&scene->context, batch);
}

static void submit(struct scene *scene, int set)
{
    submit_urgent(scene, set, 0);
}

/* A batch that this rank only counts. */
static void submit_skipped(struct scene *scene, int set)
{
    struct batch *batch = batch_new(&scene->context, &scene->sets[set]);

    assert_non_null(batch);
    dispatch_queue(&scene->context, batch);
}

static void run(struct scene *scene, bool anything)
{
    bool moved = false;

    assert_int_equal(dispatch_run(&scene->context, &moved), TUTTI_OK);
    assert_int_equal(moved, anything);
}

static bool is_idle(const struct scene *scene)
{
    const struct dispatcher *dispatcher = &scene->context.dispatcher;

    return dispatcher->running == NULL && dispatcher->waiting == 0;
}

static void assert_started(
        const struct scene *scene, int i, uint32_t set, uint64_t number)
{
    assert_true(i < scene->notes.count);
    assert_int_equal(scene->notes.started[i].set, set);
    assert_int_equal(scene->notes.started[i].sequence, number);
}

UNIT_TEST(test_each_set_counts_for_itself)
{
    struct scene *scene = set_up();

    submit(scene, 0);
    run(scene, true);
    submit(scene, 1);
    submit(scene, 0);
    submit(scene, 1);
    run(scene, true);
    run(scene, false);
    assert_int_equal(scene->notes.count, 4);
    assert_started(scene, 0, 0, 0);
    assert_started(scene, 1, 0, 1);
    assert_started(scene, 2, 1, 0);
    assert_started(scene, 3, 1, 1);
    tear_down(scene);
}

UNIT_TEST(test_a_full_window_holds_up_no_other_set)
{
    struct scene *scene = set_up();

    for (int i = 0; i < 4; i++) {
        submit(scene, 0);
    }
    run(scene, true);
    assert_int_equal(scene->notes.count, 2);
    submit(scene, 0);
    run(scene, false);
    submit(scene, 1);
    run(scene, true);
    assert_int_equal(scene->notes.count, 3);
    assert_started(scene, 2, 1, 0);
    assert_int_equal(scene->context.dispatcher.waiting, 3);
    tear_down(scene);
}

UNIT_TEST(test_a_batch_that_is_skipped_counts_in_its_set)
{
    struct scene *scene = set_up();

    submit_skipped(scene, 0);
    run(scene, true);
    assert_true(is_idle(scene));
    submit(scene, 0);
    submit(scene, 1);
    run(scene, true);
    assert_started(scene, 0, 0, 1);
    assert_started(scene, 1, 1, 0);
    tear_down(scene);
}

UNIT_TEST(test_cancelling_leaves_no_batch_behind)
{
    struct scene *scene = set_up();

    for (int i = 0; i < 3; i++) {
        submit(scene, 0);
        submit(scene, 1);
    }
    run(scene, true);
    assert_int_equal(scene->notes.count, 4);
    assert_true(dispatch_cancel_all(&scene->context));
    assert_int_equal(scene->notes.cancelled, 4);
    assert_true(is_idle(scene));
    run(scene, false);
    assert_int_equal(scene->notes.count, 4);
    tear_down(scene);
}

/* One turn in which the batches of these numbers are stepped, and no others. */
static void assert_steps(struct scene *scene, bool anything, const char *numbers)
{
    int i = 0;

    scene->notes.steps = 0;
    run(scene, anything);
    for (; numbers[i] != '\0'; i++) {
        assert_true(i < scene->notes.steps);
        assert_int_equal(scene->notes.stepped[i], numbers[i] - '0');
    }
    assert_int_equal(scene->notes.steps, i);
}

UNIT_TEST(test_priority_is_not_looked_at_unless_asked_for)
{
    struct scene *scene = set_up();

    submit_urgent(scene, 0, 0);
    submit_urgent(scene, 0, 5);
    scene->notes.moving = 1u << 1;
    assert_steps(scene, true, "01");
    assert_steps(scene, true, "01");
    tear_down(scene);
}

/* Batches 0 to 3 of a set, which are stepped as 1, 3, 2, 0. */
static void submit_four(struct scene *scene)
{
    scene->context.config.inflight = 4;
    scene->context.config.priority = true;
    submit_urgent(scene, 0, -1);
    submit_urgent(scene, 0, 5);
    submit_urgent(scene, 0, 0);
    submit_urgent(scene, 0, 5);
}

UNIT_TEST(test_urgent_batches_are_stepped_first_and_alone_while_they_move)
{
    struct scene *scene = set_up();

    submit_four(scene);
    scene->notes.moving = 1u << 1;
    assert_steps(scene, true, "13");
    scene->notes.moving = 1u << 2;
    assert_steps(scene, true, "132");
    scene->notes.moving = 1u << 0;
    assert_steps(scene, true, "1320");
    scene->notes.moving = 0;
    assert_steps(scene, false, "1320");
    tear_down(scene);
}

/* A set is launched in one order on all ranks, whatever is urgent on one of them. */
UNIT_TEST(test_priority_does_not_change_the_order_of_a_set)
{
    struct scene *scene = set_up();

    scene->context.config.priority = true;
    submit_urgent(scene, 0, 0);
    submit_urgent(scene, 1, 1);
    submit_urgent(scene, 0, 9);
    submit_urgent(scene, 0, 99);
    run(scene, true);
    assert_int_equal(scene->notes.count, 3);
    assert_started(scene, 0, 0, 0);
    assert_started(scene, 1, 0, 1);
    assert_started(scene, 2, 1, 0);
    assert_int_equal(scene->notes.started[0].count, 1);
    assert_int_equal(scene->notes.started[1].count, 3);
    tear_down(scene);
}

/* Of the one batch that there is. */
static enum batch_state state_of(const struct scene *scene)
{
    const struct dispatcher *dispatcher = &scene->context.dispatcher;
    const struct batch *waiting = scene->sets[0].first_waiting;

    return dispatcher->running != NULL      ? dispatcher->running->state
            : waiting != NULL               ? waiting->state
            : dispatcher->cancelled != NULL ? dispatcher->cancelled->state
                                            : dispatcher->spare->state;
}

UNIT_TEST(test_states_of_a_batch)
{
    struct scene *scene = set_up();

    submit(scene, 0);
    assert_int_equal(state_of(scene), BATCH_WAITING);
    run(scene, true);
    assert_int_equal(state_of(scene), BATCH_RUNNING);
    assert_true(dispatch_cancel_all(&scene->context));
    assert_int_equal(state_of(scene), BATCH_CANCELLED);
    tear_down(scene);
}

UNIT_TEST(test_a_batch_that_is_only_counted_is_used_again)
{
    struct scene *scene = set_up();

    submit_skipped(scene, 0);
    run(scene, true);
    assert_int_equal(state_of(scene), BATCH_SPARE);
    tear_down(scene);
}
