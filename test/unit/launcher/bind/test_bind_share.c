/*
 * Which share of its host a rank takes, from the variables of each launcher.
 */

#include "launcher/bind/share.h"
#include "test/unit/launcher/words.h"
#include "test/unit/unit.h"

enum {
    VARIABLES_MAX = 6
};

static void test_shares_of_each_launcher(void **state)
{
    static const struct {
        const char *variables[VARIABLES_MAX];
        struct share share;
    } cases[] = {
        { .variables = { "OMPI_COMM_WORLD_LOCAL_RANK=1",
                  "OMPI_COMM_WORLD_LOCAL_SIZE=4" },
                .share = { .index = 1, .count = 4 } },
        { .variables = { "MPI_LOCALNRANKS=3", "MPI_LOCALRANKID=2" },
                .share = { .index = 2, .count = 3 } },
        /* mpirun inside of a Slurm job: its own variables are nearer. */
        { .variables = { "OMPI_COMM_WORLD_LOCAL_RANK=0", "OMPI_COMM_WORLD_LOCAL_SIZE=2",
                  "SLURM_LOCALID=7", "SLURM_NODEID=0", "SLURM_STEP_TASKS_PER_NODE=8" },
                .share = { .index = 0, .count = 2 } },
        { .variables = { "SLURM_LOCALID=1", "SLURM_NODEID=0",
                  "SLURM_STEP_TASKS_PER_NODE=2(x2),1" },
                .share = { .index = 1, .count = 2 } },
        { .variables = { "SLURM_LOCALID=1", "SLURM_NODEID=1",
                  "SLURM_STEP_TASKS_PER_NODE=2(x2),1" },
                .share = { .index = 1, .count = 2 } },
        { .variables = { "SLURM_LOCALID=0", "SLURM_NODEID=2",
                  "SLURM_STEP_TASKS_PER_NODE=2(x2),1", "SLURM_CPU_BIND_TYPE=none" },
                .share = { .index = 0, .count = 1 } },
        /* Bound by Slurm: it still is the second task of its node. */
        { .variables = { "SLURM_LOCALID=1", "SLURM_NODEID=0",
                  "SLURM_STEP_TASKS_PER_NODE=2", "SLURM_CPU_BIND_TYPE=mask_cpu:" },
                .share = { .index = 1, .count = 2 } },
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct arguments list = { .items = NULL };
        struct share share = { .index = -1 };

        assert_true(share_read(&share, words_set(&list, cases[i].variables)));
        assert_int_equal(share.index, cases[i].share.index);
        assert_int_equal(share.count, cases[i].share.count);
        arguments_fini(&list);
    }
}

static void test_without_a_sound_share_nothing_is_bound(void **state)
{
    static const char *const cases[][VARIABLES_MAX] = {
        { NULL },
        { "OMPI_COMM_WORLD_LOCAL_RANK=1" },
        { "OMPI_COMM_WORLD_LOCAL_RANK=4", "OMPI_COMM_WORLD_LOCAL_SIZE=4" },
        { "OMPI_COMM_WORLD_LOCAL_RANK=-1", "OMPI_COMM_WORLD_LOCAL_SIZE=4" },
        { "MPI_LOCALRANKID=x", "MPI_LOCALNRANKS=2" },
        { "MPI_LOCALRANKID=0", "MPI_LOCALNRANKS=0" },
        { "SLURM_LOCALID=0" },
        { "SLURM_LOCALID=0", "SLURM_NODEID=3", "SLURM_STEP_TASKS_PER_NODE=2(x2),1" },
        { "SLURM_LOCALID=0", "SLURM_NODEID=0", "SLURM_STEP_TASKS_PER_NODE=" },
        { "SLURM_LOCALID=0", "SLURM_NODEID=0", "SLURM_STEP_TASKS_PER_NODE=x" },
        { "SLURM_LOCALID=0", "SLURM_NODEID=1", "SLURM_STEP_TASKS_PER_NODE=2(x0)" },
        { "SLURM_LOCALID=0", "SLURM_NODEID=1", "SLURM_STEP_TASKS_PER_NODE=2(x" },
        { "SLURM_LOCALID=0", "SLURM_NODEID=0",
                "SLURM_STEP_TASKS_PER_NODE=99999999999999999999" },
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct arguments list = { .items = NULL };
        struct share share = { .index = -1 };

        assert_false(share_read(&share, words_set(&list, cases[i])));
        assert_int_equal(share.index, -1);
        arguments_fini(&list);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shares_of_each_launcher),
        cmocka_unit_test(test_without_a_sound_share_nothing_is_bound),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
