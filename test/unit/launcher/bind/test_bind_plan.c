/*
 * What each rank gets, on machines like real ones: the rows of rows.h.
 */
#include <stdio.h>

#include "base/mem.h"
#include "test/unit/launcher/bind/rows.h"
#include "test/unit/launcher/bind/stage.h"
#include "test/unit/launcher/words.h"

static void assert_list(hwloc_const_bitmap_t set, const char *expected)
{
    char text[256];

    (void)hwloc_bitmap_list_snprintf(text, sizeof text, set);
    assert_string_equal(text, expected);
}

static void assert_rank(const struct bind_plan *plan, const struct stage *stage,
        int rank, const struct row_rank *expected)
{
    const struct bind_place *place = &plan->places[rank];
    const struct gpu *gpu = bind_plan_gpu(plan, &stage->machine, rank);

    assert_list(place->cpus, expected->cpus);
    assert_list(place->memory, expected->memory);
    assert_int_equal(gpu == NULL ? -1 : gpu - stage->machine.gpus.items, expected->gpu);
    assert_int_equal(place->threads, expected->threads);
    assert_true(place->is_bound);
}

static void check_row(const struct row *row, struct stage *stage)
{
    const char *const variables[] = { row->variable, NULL };
    struct arguments environment = { .items = NULL };
    struct bind_plan plan;

    assert_int_equal(bind_plan_init(&plan, &stage->machine, row->count,
                             words_set(&environment, variables)),
            TUTTI_OK);
    for (int rank = 0; rank < row->count; rank++) {
        assert_rank(&plan, stage, rank, &row->ranks[rank]);
    }
    bind_plan_fini(&plan);
    arguments_fini(&environment);
}

UNIT_TEST(test_ranks_get_what_was_worked_out_by_hand)
{
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct stage stage;

        stage_open(&stage, rows[i].machine, rows[i].allowed);
        check_row(&rows[i], &stage);
        stage_close(&stage);
    }
}

UNIT_TEST(test_recorded_machines_give_the_same)
{
    const char *folder = getenv("TUTTI_TOPOLOGIES");
    int checked = 0;

    if (folder == NULL) {
        (void)printf(
                "skipped: TUTTI_TOPOLOGIES names no folder of hwloc's XML files\n");
        skip();
        return;
    }
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char path[512];
        struct stage stage;

        (void)snprintf(path, sizeof path, "%s/%s.xml", folder, rows[i].machine);
        if (stage_open_file(&stage, path, rows[i].allowed)) {
            check_row(&rows[i], &stage);
            stage_close(&stage);
            checked++;
        }
    }
    (void)printf("%d of %zu rows on recorded machines\n", checked,
            sizeof rows / sizeof rows[0]);
    assert_true(checked > 0);
}

/* Every rank its own cores, or the same as all of its part; all within what is allowed. */
static void check_shares(const struct bind_plan *plan, const struct stage *stage)
{
    for (int a = 0; a < plan->count; a++) {
        const struct bind_place *place = &plan->places[a];

        assert_false(hwloc_bitmap_iszero(place->cpus));
        assert_true(hwloc_bitmap_isincluded(place->cpus, stage->allowed));
        assert_true(place->threads >= 1);
        for (int b = 0; b < a; b++) {
            bool is_same = place->sharers > 1 && place->part == plan->places[b].part;

            assert_int_equal(hwloc_bitmap_intersects(place->cpus, plan->places[b].cpus),
                    is_same);
        }
    }
}

UNIT_TEST(test_shares_never_overlap_nor_leave_what_is_allowed)
{
    static const char *const sets[] = { NULL, "0-1", "24-25,48-49", "0,8,16,80-81",
        "1-7", "0-191" };
    static char *const none[] = { NULL };
    size_t models;
    const struct machine_model *model = machine_all(&models);

    for (size_t i = 0; i < models * sizeof sets / sizeof sets[0]; i++) {
        struct stage stage;

        stage_open(&stage, model[i % models].name, sets[i / models]);
        hwloc_bitmap_and(stage.allowed, stage.allowed,
                hwloc_topology_get_allowed_cpuset(stage.topology));
        for (int count = 1; count <= 17 && !hwloc_bitmap_iszero(stage.allowed);
                count++) {
            struct bind_plan plan;

            assert_int_equal(
                    bind_plan_init(&plan, &stage.machine, count, none), TUTTI_OK);
            check_shares(&plan, &stage);
            bind_plan_fini(&plan);
        }
        stage_close(&stage);
    }
}

UNIT_TEST(test_more_ranks_than_cores_are_not_bound)
{
    static char *const none[] = { NULL };
    struct stage stage;
    struct bind_plan plan;

    stage_open(&stage, "cpus", NULL);
    assert_int_equal(bind_plan_init(&plan, &stage.machine, 9, none), TUTTI_OK);
    assert_false(plan.places[8].is_bound);
    assert_int_equal(plan.places[8].threads, 1);
    assert_list(plan.places[8].cpus, "0-15");
    bind_plan_fini(&plan);
    stage_close(&stage);

    stage_open(&stage, "p5en.48xl", "0-1");
    assert_int_equal(bind_plan_init(&plan, &stage.machine, 3, none), TUTTI_OK);
    assert_false(plan.places[2].is_bound);
    assert_list(plan.places[2].cpus, "0-1");
    bind_plan_fini(&plan);
    stage_close(&stage);
}

UNIT_TEST(test_a_limit_of_cpu_time_limits_threads)
{
    static char *const none[] = { NULL };
    struct stage stage;
    struct bind_plan plan;

    stage_open(&stage, "cpus", NULL);
    stage.machine.quota = 6;
    assert_int_equal(bind_plan_init(&plan, &stage.machine, 2, none), TUTTI_OK);
    assert_int_equal(plan.places[0].cores, 4);
    assert_int_equal(plan.places[0].threads, 3);
    bind_plan_fini(&plan);
    stage_close(&stage);
}

/* Addresses decide the order, not where the machine lists them. */
UNIT_TEST(test_gpus_are_in_the_order_of_their_buses)
{
    static char *const none[] = { NULL };
    struct stage stage;
    struct bind_plan plan;

    stage_open(&stage, "instinct", NULL);
    assert_int_equal(stage.machine.gpus.vendor, GPU_AMD);
    assert_int_equal(stage.machine.gpus.count, 4);
    assert_string_equal(stage.machine.gpus.items[0].bus, "0000:05:00.0");
    assert_int_equal(bind_plan_init(&plan, &stage.machine, 4, none), TUTTI_OK);
    assert_list(plan.places[0].cpus, "8-11,24-27");
    assert_list(plan.places[2].cpus, "0-3,16-19");
    bind_plan_fini(&plan);
    stage_close(&stage);
}

/* Neither an NVSwitch nor the VGA adapter of a management controller is one. */
UNIT_TEST(test_only_gpus_are_gpus)
{
    struct stage stage;

    stage_open(&stage, "cpus", NULL);
    assert_int_equal(stage.machine.gpus.count, 0);
    stage_close(&stage);
    stage_open(&stage, "nvidiaDGX2", NULL);
    assert_int_equal(stage.machine.gpus.count, 16);
    stage_close(&stage);
}

UNIT_TEST(test_a_plan_without_memory_fails_cleanly)
{
    static char *const none[] = { NULL };
    struct stage stage;
    int failures = 0;

    stage_open(&stage, "cpus", NULL);
    for (uint64_t n = 1; n < 64; n++) {
        struct bind_plan plan;
        tutti_status status;

        mem_fail_at(n);
        status = bind_plan_init(&plan, &stage.machine, 3, none);
        mem_fail_at(0);
        failures += status == TUTTI_ERR_NO_MEMORY ? 1 : 0;
        assert_true(status == TUTTI_OK || status == TUTTI_ERR_NO_MEMORY);
        bind_plan_fini(&plan);
    }
    assert_true(failures >= 4);
    stage_close(&stage);
}
