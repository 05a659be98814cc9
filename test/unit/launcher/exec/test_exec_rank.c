/*
 * Which rank a process is, from the variables of each starter.
 */

#include "launcher/environment.h"
#include "launcher/exec/rank.h"
#include "test/unit/launcher/words.h"
#include "test/unit/unit.h"

enum {
    VARIABLES_MAX = 12
};

static const struct {
    const char *variables[VARIABLES_MAX];
    struct rank rank;
} cases[] = {
    { .variables = { "OMPI_COMM_WORLD_RANK=3", "OMPI_COMM_WORLD_SIZE=8",
              "OMPI_COMM_WORLD_LOCAL_RANK=1", "OMPI_COMM_WORLD_LOCAL_SIZE=4" },
            .rank = { .rank = 3, .size = 8, .local_rank = 1, .local_size = 4 } },
    { .variables = { "PMI_RANK=5", "PMI_SIZE=6", "MPI_LOCALRANKID=2",
              "MPI_LOCALNRANKS=3" },
            .rank = { .rank = 5, .size = 6, .local_rank = 2, .local_size = 3 } },
    /* srun --mpi=none */
    { .variables = { "SLURM_PROCID=4", "SLURM_STEP_NUM_TASKS=5", "SLURM_LOCALID=0",
              "SLURM_NODEID=2", "SLURM_STEP_TASKS_PER_NODE=2(x2),1", "SLURM_NTASKS=9" },
            .rank = { .rank = 4, .size = 5, .local_rank = 0, .local_size = 1 } },
    /* srun --mpi=pmi2, tasks bound by Slurm */
    { .variables = { "PMI_RANK=1", "PMI_SIZE=2", "SLURM_PROCID=1", "SLURM_LOCALID=1",
              "SLURM_NODEID=0", "SLURM_STEP_TASKS_PER_NODE=2",
              "SLURM_CPU_BIND_TYPE=mask_cpu:" },
            .rank = { .rank = 1, .size = 2, .local_rank = 1, .local_size = 2 } },
    /* srun --mpi=pmix */
    { .variables = { "PMIX_RANK=1", "SLURM_PROCID=1", "SLURM_STEP_NUM_TASKS=2",
              "SLURM_LOCALID=0", "SLURM_NODEID=1", "SLURM_STEP_TASKS_PER_NODE=1(x2)",
              "SLURM_CPU_BIND_TYPE=none" },
            .rank = { .rank = 1, .size = 2, .local_rank = 0, .local_size = 1 } },
    /* mpirun inside of a Slurm job: the inner starter counts */
    { .variables = { "SLURM_PROCID=0", "SLURM_STEP_NUM_TASKS=2", "SLURM_LOCALID=0",
              "SLURM_NODEID=0", "SLURM_STEP_TASKS_PER_NODE=1(x2)",
              "SLURM_CPU_BIND_TYPE=mask_cpu:", "OMPI_COMM_WORLD_RANK=2",
              "OMPI_COMM_WORLD_SIZE=4", "OMPI_COMM_WORLD_LOCAL_RANK=1",
              "OMPI_COMM_WORLD_LOCAL_SIZE=2" },
            .rank = { .rank = 2, .size = 4, .local_rank = 1, .local_size = 2 } },
    { .variables = { "PMIX_RANK=7" },
            .rank = { .rank = 7, .size = -1, .local_rank = -1, .local_size = -1 } },
    /* A place that cannot be is none. */
    { .variables = { "PMI_RANK=0", "PMI_SIZE=2", "MPI_LOCALRANKID=2",
              "MPI_LOCALNRANKS=2" },
            .rank = { .rank = 0, .size = 2, .local_rank = -1, .local_size = -1 } },
    { .variables = { "PMI_RANK=2", "PMI_SIZE=2" },
            .rank = { .rank = 2, .size = -1, .local_rank = -1, .local_size = -1 } },
    { .variables = { "PMI_RANK=x", "OMPI_COMM_WORLD_RANK=-1", "SLURM_LOCALID=0" },
            .rank = { .rank = -1, .size = -1, .local_rank = -1, .local_size = -1 } },
    { .variables = { "PATH=/bin" },
            .rank = { .rank = -1, .size = -1, .local_rank = -1, .local_size = -1 } },
};

UNIT_TEST(test_ranks_of_each_starter)
{
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct arguments list = { .items = NULL };
        struct rank rank = rank_read(words_set(&list, cases[i].variables));

        assert_int_equal(rank.rank, cases[i].rank.rank);
        assert_int_equal(rank.size, cases[i].rank.size);
        assert_int_equal(rank.local_rank, cases[i].rank.local_rank);
        assert_int_equal(rank.local_size, cases[i].rank.local_size);
        arguments_fini(&list);
    }
}

UNIT_TEST(test_horovod_is_told_what_is_known)
{
    static const char *const outer[] = { "HOROVOD_CONTROLLER=mpi", "HOROVOD_RANK=9",
        NULL };
    const struct rank rank = {
        .rank = 3, .size = 8, .local_rank = 0, .local_size = -1
    };
    struct arguments list = { .items = NULL };

    rank_tell_horovod(&rank, &list);
    assert_null(list.items);
    (void)words_set(&list, outer);
    rank_tell_horovod(&rank, &list);
    assert_string_equal(environment_get(list.items, "HOROVOD_RANK"), "3");
    assert_string_equal(environment_get(list.items, "HOROVOD_SIZE"), "8");
    assert_string_equal(environment_get(list.items, "HOROVOD_LOCAL_RANK"), "0");
    assert_null(environment_get(list.items, "HOROVOD_LOCAL_SIZE"));
    arguments_fini(&list);
}
