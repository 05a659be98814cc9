/*
 * What the coordinator makes of when tensors were ready: the batches of its plans.
 */
#include "scene.h"
#include "test/unit/unit.h"

enum {
    RANKS = 3,
    LAYERS = 4,
    US = 1000
};

static const char *const names[LAYERS] = { "layer 3", "layer 2", "layer 1", "layer 0" };

/* A backward pass: what is submitted, and how long after the one before. */
struct pass {
    int64_t gap_ns[LAYERS];
    int64_t slow_ns; /* by so much the last rank is later than the others         */
    int priority[LAYERS];
    unsigned group; /* layers that are a group, as bits                       */
    uint32_t group_size;
    unsigned doubles; /* layers of float64, as bits                             */
    int64_t count; /* elements of each                                        */
};

static void begin(struct scene *scene)
{
    assert_true(scene_init(scene, SCENE_TREE, RANKS, 100, 3));
    for (int r = 0; r < RANKS; r++) {
        struct negotiator_config *config = &scene->ranks[r].config;

        config->limits =
                (struct planner_limits){ .batch_bytes = 4096, .tensor_bytes = 1024 };
        scene->ranks[r].now_ns = 1000000 * US;
    }
}

/* Time passes. */
static void later(struct scene *scene, int64_t ns)
{
    for (int r = 0; r < RANKS; r++) {
        scene->ranks[r].now_ns += ns;
    }
}

static void say(struct scene *scene, const struct pass *pass, int rank, int layer)
{
    struct request request = scene_request(names[layer], pass->count);

    request.priority = pass->priority[layer];
    if ((pass->group >> layer & 1) != 0) {
        request.meta.group = 77;
        request.meta.group_size = pass->group_size;
    }
    if ((pass->doubles >> layer & 1) != 0) {
        request.meta.dtype = TUTTI_FLOAT64;
    }
    scene_play(scene, rank, &request);
}

static void run_pass(struct scene *scene, const struct pass *pass)
{
    scene_clear(scene);
    for (int i = 0; i < LAYERS; i++) {
        later(scene, pass->gap_ns[i]);
        for (int r = 0; r < RANKS - 1; r++) {
            say(scene, pass, r, i);
        }
        if (pass->slow_ns == 0) {
            say(scene, pass, RANKS - 1, i);
        }
    }
    for (int i = 0; i < LAYERS && pass->slow_ns != 0; i++) {
        later(scene, pass->slow_ns);
        say(scene, pass, RANKS - 1, i);
    }
    assert_int_equal(scene->end_count, RANKS * LAYERS);
}

/* The plan that is made of so many layers of passes like this. */
static const struct plan *learn_some(
        struct scene *scene, const struct pass *pass, uint32_t layers)
{
    const struct plan *plan;

    for (int i = 0; i < 4; i++) {
        run_pass(scene, pass);
    }
    plan = scene->ranks[0].plans.lanes[1].current;
    assert_non_null(plan);
    assert_int_equal(plan->state, PLAN_ON);
    assert_int_equal(plan->item_count, layers);
    assert_int_equal(plan->decided, 2 * plan->batch_count);
    assert_null(scene->ranks[0].plans.lanes[2].current);
    return plan;
}

/* The same of all layers. */
static const struct plan *learn(struct scene *scene, const struct pass *pass)
{
    return learn_some(scene, pass, LAYERS);
}

static void assert_order(const struct plan *plan, const int *layers)
{
    for (uint32_t i = 0; i < plan->item_count; i++) {
        assert_string_equal(plan->items[i]->name, names[layers[i]]);
    }
}

UNIT_TEST(test_layers_far_apart_are_batches_of_their_own)
{
    const struct pass pass = { .gap_ns = { 500 * US, 100 * US, 10 * US, 100 * US },
        .count = 10 };
    const struct plan *plan;
    struct scene scene;

    begin(&scene);
    plan = learn(&scene, &pass);
    assert_int_equal(plan->batch_count, 3);
    assert_int_equal(plan->batches[0].count, 1);
    assert_int_equal(plan->batches[1].count, 2);
    assert_order(plan, (const int[]){ 0, 1, 2, 3 });
    scene_fini(&scene);
}

/* Numbers that were measured: a batch costs more than the gaps. */
UNIT_TEST(test_layers_are_merged_while_that_pays)
{
    const struct pass pass = { .gap_ns = { 500 * US, 100 * US, 10 * US, 100 * US },
        .count = 10 };
    struct scene scene;

    begin(&scene);
    for (int i = 0; i < 10; i++) {
        negotiator_sample(&scene.ranks[0], 40, 120 * US);
    }
    assert_int_equal(learn(&scene, &pass)->batch_count, 1);
    scene_fini(&scene);
}

/* The others are done when the last rank begins, layer by layer. */
UNIT_TEST(test_a_rank_that_is_late_alone_splits_nothing)
{
    const struct pass pass = {
        .gap_ns = { 500 * US, US, US, US }, .slow_ns = 100 * US, .count = 10
    };
    struct scene scene;

    begin(&scene);
    assert_int_equal(learn(&scene, &pass)->batch_count, 1);
    scene_fini(&scene);
}

UNIT_TEST(test_a_group_that_no_batch_can_hold_is_left_out)
{
    const struct pass pass = { .gap_ns = { 500 * US, US, US, US },
        .group = 0x5,
        .group_size = 2,
        .doubles = 0x4,
        .count = 10 };
    struct scene scene;

    begin(&scene);
    assert_order(learn_some(&scene, &pass, 2), (const int[]){ 1, 3 });
    scene_fini(&scene);
}

UNIT_TEST(test_urgent_tensors_come_first_when_asked_for)
{
    const struct pass pass = { .gap_ns = { 500 * US, US, 100 * US, US },
        .priority = { 1, 7, 7, 8 },
        .count = 1000 };
    struct scene scene;

    begin(&scene);
    assert_order(learn(&scene, &pass), (const int[]){ 0, 1, 2, 3 });
    scene_fini(&scene);
    begin(&scene);
    scene.ranks[0].config.priority = true;
    assert_order(learn(&scene, &pass), (const int[]){ 1, 0, 3, 2 });
    scene_fini(&scene);
}
