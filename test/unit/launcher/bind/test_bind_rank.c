/*
 * A rank takes its place: on the machine that runs the test, where the effect is looked
 * at, and on others, where it is in the variables.
 */
#include <sched.h>
#include <stdio.h>
#include <unistd.h>

#include "base/mem.h"
#include "launcher/bind/bind.h"
#include "launcher/environment.h"
#include "test/unit/launcher/bind/stage.h"
#include "test/unit/launcher/words.h"

enum {
    VARIABLES_MAX = 5,
    PATH_TEXT_MAX = 64
};

static cpu_set_t cpus_at_start;
static char recorded[PATH_TEXT_MAX]; /* file of a pretended machine, "": none */

static int remember_cpus(void **state)
{
    (void)state;
    return sched_getaffinity(0, sizeof cpus_at_start, &cpus_at_start);
}

static int restore(void **state)
{
    (void)state;
    (void)unsetenv("HWLOC_XMLFILE");
    if (recorded[0] != '\0') {
        (void)unlink(recorded);
        recorded[0] = '\0';
    }
    return sched_setaffinity(0, sizeof cpus_at_start, &cpus_at_start);
}

#define RANK_TEST(name) UNIT_TEST_WITH(name, remember_cpus, restore)

/* hwloc reads the variable itself; bind_rank() looks at the rank's. */
static void pretend(const char *machine, struct arguments *environment)
{
    FILE *file;
    int fd;

    (void)snprintf(recorded, sizeof recorded, "/tmp/tutti_rank.XXXXXX");
    fd = mkstemp(recorded);
    assert_true(fd >= 0);
    file = fdopen(fd, "w");
    assert_non_null(file);
    machine_write(machine_find(machine), file);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(setenv("HWLOC_XMLFILE", recorded, 1), 0);
    arguments_set(environment, "HWLOC_XMLFILE", recorded);
}

static cpu_set_t cpus_now(void)
{
    cpu_set_t now;

    assert_int_equal(sched_getaffinity(0, sizeof now, &now), 0);
    return now;
}

static int cores_here(void)
{
    hwloc_topology_t topology;
    int cores;

    assert_int_equal(hwloc_topology_init(&topology), 0);
    assert_int_equal(hwloc_topology_load(topology), 0);
    cores = hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_CORE);
    hwloc_topology_destroy(topology);
    return cores;
}

static void bind_as(int index, int count, const char *expected_start)
{
    const struct bind_request request = { .index = index, .count = count };
    struct arguments environment = { .items = NULL };
    char text[BIND_TEXT_MAX];

    assert_int_equal(bind_rank(&request, &environment, text), TUTTI_OK);
    assert_memory_equal(text, expected_start, strlen(expected_start));
    assert_non_null(environment_get(environment.items, "OMP_NUM_THREADS"));
    arguments_fini(&environment);
}

RANK_TEST(test_the_shares_of_this_machine_are_all_its_threads)
{
    int count = cores_here();
    cpu_set_t all, both;

    CPU_ZERO(&all);
    for (int index = 0; index < count; index++) {
        cpu_set_t mine;

        bind_as(index, count, "1 core (cpus ");
        mine = cpus_now();
        CPU_AND(&both, &mine, &all);
        assert_int_equal(CPU_COUNT(&both), 0);
        CPU_OR(&all, &all, &mine);
        assert_int_equal(restore(NULL), 0);
    }
    assert_true(CPU_EQUAL(&all, &cpus_at_start));
}

/* What a parent bound is the limit: a share of one core is that core. */
RANK_TEST(test_a_bound_parent_is_never_left)
{
    int count = cores_here();
    cpu_set_t before, after;

    bind_as(count - 1, count, "1 core (cpus ");
    before = cpus_now();
    bind_as(0, 1, "1 core (cpus ");
    after = cpus_now();
    assert_true(CPU_EQUAL(&before, &after));
    bind_as(1, 2, "not bound: 2 ranks, 1 core");
    after = cpus_now();
    assert_true(CPU_EQUAL(&before, &after));
}

struct variables_case {
    const char *machine;
    struct bind_request request;
    const char *before[VARIABLES_MAX]; /* the rank's environment           */
    const char *after[VARIABLES_MAX]; /* entries that are there afterwards */
    const char *absent; /* a variable that must not be                    */
    const char *says; /* part of the words                                */
};

static void check_variables(const struct variables_case *expected)
{
    struct arguments environment = { .items = NULL };
    char text[BIND_TEXT_MAX];
    char *const *items;

    (void)words_set(&environment, expected->before);
    pretend(expected->machine, &environment);
    assert_int_equal(bind_rank(&expected->request, &environment, text), TUTTI_OK);
    items = environment.items;
    for (size_t i = 0; i < VARIABLES_MAX && expected->after[i] != NULL; i++) {
        char name[64];
        size_t len = strcspn(expected->after[i], "=");

        (void)snprintf(name, sizeof name, "%.*s", (int)len, expected->after[i]);
        assert_non_null(environment_get(items, name));
        assert_string_equal(environment_get(items, name), expected->after[i] + len + 1);
    }
    if (expected->absent != NULL) {
        assert_null(environment_get(items, expected->absent));
    }
    if (strstr(text, expected->says) == NULL) {
        fail_msg("no '%s' in: %s", expected->says, text);
    }
    arguments_fini(&environment);
}

static const struct variables_case cases[] = {
    { .machine = "p5en.48xl",
            .request = { .index = 5, .count = 8 },
            .after = { "TUTTI_LOCAL_DEVICE=5", "CUDA_DEVICE_ORDER=PCI_BUS_ID",
                    "OMP_NUM_THREADS=12" },
            .absent = "CUDA_VISIBLE_DEVICES",
            .says = "GPU 5 (0000:8c:00.0)" },
    { .machine = "p5en.48xl",
            .request = { .index = 5, .count = 8, .one_gpu = true },
            .after = { "TUTTI_LOCAL_DEVICE=0", "CUDA_VISIBLE_DEVICES=5" },
            .says = "GPU 5 (0000:8c:00.0)" },
    { .machine = "p5en.48xl",
            .request = { .index = 1, .count = 2, .one_gpu = true },
            .before = { "CUDA_VISIBLE_DEVICES=6,3" },
            .after = { "TUTTI_LOCAL_DEVICE=0", "CUDA_VISIBLE_DEVICES=3" },
            .says = "GPU 3 (0000:73:00.0)" },
    { .machine = "p5en.48xl",
            .request = { .index = 9, .count = 10 },
            .after = { "TUTTI_LOCAL_DEVICE=1" },
            .says = "shared by 2 ranks" },
    { .machine = "p5en.48xl",
            .request = { .index = 0, .count = 8 },
            .before = { "OMP_NUM_THREADS=96", "CUDA_DEVICE_ORDER=FASTEST_FIRST" },
            .after = { "OMP_NUM_THREADS=96", "CUDA_DEVICE_ORDER=FASTEST_FIRST" },
            .says = "; OMP_NUM_THREADS=96, but it has 24 cpus" },
    { .machine = "p5en.48xl",
            .request = { .index = 0, .count = 8 },
            .before = { "OMP_NUM_THREADS=24" },
            .after = { "OMP_NUM_THREADS=24" },
            .says = "nothing is bound" },
    /* Nobody binds, but a rank still has its GPU. */
    { .machine = "p5en.48xl",
            .request = { .index = 2, .count = 8, .how = BIND_NONE },
            .after = { "TUTTI_LOCAL_DEVICE=2" },
            .absent = "OMP_NUM_THREADS",
            .says = "not bound, as asked: cpus 0-191, GPU 2 at 0000:72:00.0" },
    { .machine = "cpus",
            .request = { .index = 1, .count = 2 },
            .before = { "SLURM_CPU_BIND_TYPE=mask_cpu:" },
            .after = { "OMP_NUM_THREADS=8" },
            .says = "bound by Slurm: cpus 0-15" },
    /* An mpirun inside of a Slurm job starts ranks of its own. */
    { .machine = "cpus",
            .request = { .index = 1, .count = 2 },
            .before = { "SLURM_CPU_BIND_TYPE=mask_cpu:",
                    "OMPI_COMM_WORLD_LOCAL_RANK=1" },
            .after = { "OMP_NUM_THREADS=4" },
            .says = "4 cores (cpus 4-7,12-15)" },
    { .machine = "cpus",
            .request = { .index = 0, .count = 9 },
            .after = { "OMP_NUM_THREADS=1" },
            .absent = "TUTTI_LOCAL_DEVICE",
            .says = "not bound: 9 ranks, 8 cores" },
    { .machine = "instinct",
            .request = { .index = 3, .count = 4, .one_gpu = true },
            .after = { "TUTTI_LOCAL_DEVICE=0", "ROCR_VISIBLE_DEVICES=3" },
            .absent = "CUDA_DEVICE_ORDER",
            .says = "GPU 3 (0000:a5:00.0)" },
};

RANK_TEST(test_variables_tell_the_program)
{
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        check_variables(&cases[i]);
        assert_int_equal(restore(NULL), 0);
    }
}

RANK_TEST(test_a_list_that_cannot_be_right_is_refused)
{
    const struct bind_request request = { .index = 0, .count = 1 };
    static const char *const variables[] = { "CUDA_VISIBLE_DEVICES=8", NULL };
    struct arguments environment = { .items = NULL };
    char text[BIND_TEXT_MAX];

    (void)words_set(&environment, variables);
    pretend("p5en.48xl", &environment);
    assert_int_equal(bind_rank(&request, &environment, text), TUTTI_ERR_INVALID);
    arguments_fini(&environment);
}

RANK_TEST(test_there_is_no_rank_outside_the_count)
{
    static const struct bind_request requests[] = {
        { .index = -1, .count = 2 },
        { .index = 2, .count = 2 },
        { .index = 0, .count = 0 },
    };
    struct arguments environment = { .items = NULL };
    char text[BIND_TEXT_MAX];

    for (size_t i = 0; i < sizeof requests / sizeof requests[0]; i++) {
        assert_int_equal(
                bind_rank(&requests[i], &environment, text), TUTTI_ERR_INVALID);
    }
    arguments_fini(&environment);
}

RANK_TEST(test_no_memory_is_an_error)
{
    const struct bind_request request = { .index = 0, .count = 1 };
    int failures = 0;

    for (uint64_t n = 1; n < 16; n++) {
        struct arguments environment = { .items = NULL };
        char text[BIND_TEXT_MAX] = "";
        tutti_status status;

        mem_fail_at(n);
        status = bind_rank(&request, &environment, text);
        mem_fail_at(0);
        assert_true(status == TUTTI_OK || status == TUTTI_ERR_NO_MEMORY);
        failures += status == TUTTI_OK ? 0 : 1;
        arguments_fini(&environment);
    }
    assert_true(failures >= 5);
}
