/*
 * Which GPUs ranks see, what each rank gets on machines like real ones, and how that is shown.
 */
#include <stdio.h>

#include "base/mem.h"
#include "launcher/bind/bind_map.h"
#include "launcher/bind/host_gpus.h"
#include "launcher/bind/pci.h"
#include "test/unit/launcher/bind/stage.h"
#include "test/unit/launcher/cases.h"
#include "test/unit/launcher/root.h"

/* A machine that is planned for. */
struct planned {
    struct arguments environment;
    struct stage stage;
    struct bind_plan plan;
    int rank;
};

static void plan(struct planned *planned, char *text)
{
    static char *none[] = { NULL };
    char *const *words = cases_words(text);
    const char *allowed = NULL;
    int quota = 0;

    *planned = (struct planned){ .rank = 0 };
    for (size_t i = 2; words[i] != NULL; i++) {
        if (strncmp(words[i], "allowed=", 8) == 0) {
            allowed = words[i] + 8;
        } else if (sscanf(words[i], "quota=%d", &quota) != 1 &&
                sscanf(words[i], "rank=%d", &planned->rank) != 1) {
            arguments_add(&planned->environment, words[i]);
        }
    }
    stage_open(&planned->stage, words[0], allowed);
    planned->stage.machine.quota = quota;
    assert_int_equal(
            bind_plan_init(&planned->plan, &planned->stage.machine,
                    (int)strtol(words[1], NULL, 10),
                    planned->environment.items == NULL ? none
                                                       : planned->environment.items),
            TUTTI_OK);
}

static void unplan(struct planned *planned)
{
    bind_plan_fini(&planned->plan);
    stage_close(&planned->stage);
    arguments_fini(&planned->environment);
}

static size_t put(char *out, hwloc_const_bitmap_t set)
{
    return (size_t)hwloc_bitmap_list_snprintf(out, 256, set);
}

UNIT_CASES(test_ranks_get_what_was_worked_out_by_hand, "plans")
{
    struct planned planned;

    plan(&planned, in);
    for (int rank = 0; rank < planned.plan.count; rank++) {
        const struct bind_machine *machine = &planned.stage.machine;
        const struct bind_place *place = &planned.plan.places[rank];
        const struct gpu *gpu = bind_plan_gpu(&planned.plan, machine, rank);

        out += sprintf(out, rank > 0 ? " " : "");
        out += gpu == NULL ? sprintf(out, "-/")
                           : sprintf(out, "%d/", (int)(gpu - machine->gpus.items));
        out += put(out, place->cpus);
        *out++ = '/';
        out += put(out, place->memory);
        out += sprintf(out, "/%d%s", place->threads, place->is_bound ? "" : "/unbound");
    }
    unplan(&planned);
}

UNIT_CASES(test_plans_in_words, "words")
{
    struct planned planned;
    char brief[5];

    plan(&planned, in);
    map_describe(&planned.plan, &planned.stage.machine, planned.rank, out, CASES_OUT);
    map_describe(&planned.plan, &planned.stage.machine, planned.rank, brief, 5);
    assert_int_equal(strlen(brief), 4);
    unplan(&planned);
}

UNIT_CASES(test_plans_are_drawn, "drawings")
{
    struct planned planned;
    FILE *file = fmemopen(out, CASES_OUT, "w");

    assert_non_null(file);
    plan(&planned, in);
    map_draw(&planned.plan, &planned.stage.machine, file);
    assert_int_equal(fclose(file), 0);
    out[strlen(out) - 1] = '\0';
    unplan(&planned);
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
    const size_t count_of_sets = sizeof sets / sizeof sets[0];

    for (size_t i = 0; machine_name(i / count_of_sets) != NULL; i++) {
        struct stage stage;

        stage_open(&stage, machine_name(i / count_of_sets), sets[i % count_of_sets]);
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

/* Four GPUs, of which the driver has told the names. */
static void make_gpus(struct gpus *gpus, enum gpu_vendor vendor)
{
    static const char *const beginnings[] = { "00aa", "00ab", "11aa", "22aa" };

    *gpus = (struct gpus){ .vendor = vendor, .count = 4 };
    for (size_t i = 0; i < gpus->count; i++) {
        (void)snprintf(gpus->items[i].uuid, GPU_UUID_MAX,
                "GPU-%s0000-0000-0000-0000-000000000000", beginnings[i]);
    }
}

UNIT_CASES(test_lists_of_gpus_in_variables, "visible")
{
    struct visible visible;
    char *fields[CASES_FIELDS];
    struct gpus gpus;

    assert_int_equal(cases_fields(in, fields), 2);
    make_gpus(&gpus, strcmp(fields[0], "AMD") == 0 ? GPU_AMD : GPU_NVIDIA);
    gpus.count = strcmp(fields[0], "hidden") == 0 ? 0 : gpus.count;
    gpus.items[2].uuid[0] = strcmp(fields[0], "unnamed") == 0 ? '\0' : 'G';
    if (visible_read(&visible, &gpus, cases_words(fields[1])) != TUTTI_OK) {
        cases_refused(out);
        return;
    }
    for (size_t i = 0; i < visible.count; i++) {
        out += sprintf(out, "%s%d", i > 0 ? " " : "[", visible.items[i].gpu);
    }
    (void)sprintf(out, "%s] by %s", visible.count > 0 ? "" : "[", visible.variable);
}

static void write_file(
        const struct root *root, const char *device, const char *name, const char *text)
{
    char path[64];

    (void)snprintf(path, sizeof path, "/%s/%s", device, name);
    root_write(root, path, text, 0600);
}

static void write_device(const struct root *root, const char *device, const char *class,
        const char *vendor)
{
    write_file(root, device, "class", class);
    write_file(root, device, "vendor", vendor);
}

UNIT_TEST(test_the_kernel_tells_whether_there_may_be_a_gpu)
{
    struct root root;

    root_make(&root);
    assert_true(pci_may_have_gpu("/a/folder/that/is/not/there"));
    assert_false(pci_may_have_gpu(root.path));
    write_device(&root, "0000:00:02.0", "0x030000\n", "0x1d0f\n");
    assert_false(pci_may_have_gpu(root.path));
    write_device(&root, "0000:00:02.0", "0x068000\n", "0x10de\n");
    assert_false(pci_may_have_gpu(root.path));
    write_device(&root, "0000:00:02.0", "0x120000\n", "0x1002\n");
    assert_true(pci_may_have_gpu(root.path));
    write_device(&root, "0000:00:02.0", "0x030200\n", "0x10de\n");
    assert_true(pci_may_have_gpu(root.path));
    root_remove(&root);
}

UNIT_TEST(test_the_driver_tells_names_and_which_gpus_a_container_has)
{
    struct root root;
    struct stage stage;
    struct gpus *gpus = &stage.machine.gpus;

    root_make(&root);
    stage_open(&stage, "p5en.48xl", NULL);
    gpus_read_driver(gpus, root.path);
    assert_int_equal(gpus->count, 8);

    write_file(&root, "0000:59:00.0", "information",
            "Model: \t\t NVIDIA H200\nIRQ:   \t\t 17\n"
            "GPU UUID: \t GPU-12340000-aaaa-bbbb-cccc-000000000001\n"
            "Video BIOS: \t ??.??.??.??.??\n");
    write_file(&root, "0000:a5:00.0", "information",
            "GPU UUID: \t GPU-\?\?\?\?\?\?\?\?-\?\?\?\?\n");
    gpus_read_driver(gpus, root.path);
    assert_int_equal(gpus->count, 2);
    assert_string_equal(
            gpus->items[0].uuid, "GPU-12340000-aaaa-bbbb-cccc-000000000001");
    assert_string_equal(gpus->items[1].bus, "0000:a5:00.0");
    assert_string_equal(gpus->items[1].uuid, "");
    stage_close(&stage);
    root_remove(&root);
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
