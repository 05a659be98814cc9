/*
 * Hosts of a Slurm allocation, from variables as Slurm 22.05 sets them.
 */
#include "test/unit/launcher/hosts/resolve.h"

static const struct resolve_case cases[] = {
    /* sbatch -N3 -n5 */
    { .variables = { "SLURM_JOB_ID=17", "SLURM_JOB_NODELIST=tt[1-3]",
              "SLURM_TASKS_PER_NODE=2(x2),1", "SLURM_NTASKS=5",
              "SLURM_JOB_CPUS_PER_NODE=2(x2),1" },
            .hosts = "tt1:2,tt2:2,tt3:1",
            .source = "Slurm job 17" },
    /* The old names. */
    { .variables = { "SLURM_JOBID=17", "SLURM_NODELIST=a,b",
              "SLURM_TASKS_PER_NODE=1(x2)", "SLURM_NPROCS=2" },
            .hosts = "a:1,b:1",
            .source = "Slurm job 17" },
    /* Without -n: the GPUs of each node, which Slurm does not count as tasks. */
    { .variables = { "SLURM_JOB_ID=17", "SLURM_JOB_NODELIST=a[1-2]",
              "SLURM_TASKS_PER_NODE=96(x2)", "SLURM_GPUS_ON_NODE=8" },
            .hosts = "a1:8,a2:8",
            .source = "Slurm" },
    { .variables = { "SLURM_JOB_ID=17", "SLURM_JOB_NODELIST=a[1-2]",
              "SLURM_TASKS_PER_NODE=96(x2)", "SLURM_GPUS_PER_NODE=h100:4" },
            .hosts = "a1:4,a2:4",
            .source = "Slurm" },
    { .variables = { "SLURM_JOB_ID=17", "SLURM_JOB_NODELIST=a[1-2]",
              "SLURM_TASKS_PER_NODE=96(x2)", "SLURM_GPUS=6" },
            .hosts = "a1:3,a2:3",
            .source = "Slurm" },
    { .variables = { "SLURM_JOB_ID=17", "SLURM_JOB_NODELIST=a[1-2]",
              "SLURM_TASKS_PER_NODE=96(x2)", "SLURM_GPUS_PER_NODE=turing:1,ampere:3",
              "SLURM_GPUS=turing:2,ampere:6", "SLURM_GPUS_ON_NODE=4" },
            .hosts = "a1:4,a2:4",
            .source = "Slurm" },
    /* The hosts have unequal numbers of them, or it is not known how many. */
    { .variables = { "SLURM_JOB_ID=17", "SLURM_JOB_NODELIST=a[1-2]",
              "SLURM_TASKS_PER_NODE=4(x2)", "SLURM_GPUS=7" },
            .source = "SLURM_GPUS=7 (0: not set) do not say" },
    { .variables = { "SLURM_JOB_ID=17", "SLURM_JOB_NODELIST=a[1-2]",
              "SLURM_TASKS_PER_NODE=4(x2)", "SLURM_GPUS=6", "SLURM_GPUS_ON_NODE=4" },
            .source = "SLURM_GPUS_ON_NODE=4" },
    { .variables = { "SLURM_JOB_ID=17", "SLURM_JOB_NODELIST=a[1-2]",
              "SLURM_TASKS_PER_NODE=4(x2)", "SLURM_GPUS_PER_NODE=tesla" },
            .source = "SLURM_GPUS_PER_NODE=tesla is no number of GPUs" },
    /* -n counts, whatever the GPUs. */
    { .variables = { "SLURM_JOB_ID=17", "SLURM_JOB_NODELIST=a[1-2]", "SLURM_NTASKS=4",
              "SLURM_TASKS_PER_NODE=2(x2)", "SLURM_GPUS_ON_NODE=8" },
            .hosts = "a1:2,a2:2",
            .source = "Slurm" },
    { .variables = { "SLURM_JOB_ID=17", "SLURM_JOB_NODELIST=a[1-2]",
              "SLURM_NTASKS_PER_NODE=2", "SLURM_TASKS_PER_NODE=2(x2)",
              "SLURM_GPUS_ON_NODE=8" },
            .hosts = "a1:2,a2:2",
            .source = "Slurm" },
    /* salloc without -n: cores. */
    { .variables = { "SLURM_JOB_ID=17", "SLURM_JOB_NODELIST=a[1-2]",
              "SLURM_JOB_CPUS_PER_NODE=8,6", "SLURM_CPUS_PER_TASK=4" },
            .hosts = "a1:2,a2:1",
            .source = "Slurm" },
    { .variables = { "SLURM_JOB_ID=17", "SLURM_JOB_NODELIST=a,b",
              "SLURM_JOB_CPUS_PER_NODE=8,2", "SLURM_CPUS_PER_TASK=4" },
            .hosts = "a:2,b:1",
            .source = "Slurm" },
    { .variables = { "SLURM_JOB_ID=17", "SLURM_JOB_NODELIST=a,b" },
            .hosts = "a:1,b:1",
            .source = "Slurm" },
    /* srun --pty: the step's hosts. */
    { .variables = { "SLURM_JOB_ID=17", "SLURM_STEP_ID=3", "SLURM_STEP_NODELIST=b",
              "SLURM_STEP_TASKS_PER_NODE=1", "SLURM_STEP_NUM_TASKS=1",
              "SLURM_JOB_NODELIST=a,b", "SLURM_TASKS_PER_NODE=4(x2)" },
            .hosts = "b:1",
            .source = "this step of it" },
    /* The shell of an interactive salloc is a step of its own on the first host. */
    { .variables = { "SLURM_JOB_ID=17", "SLURM_STEP_ID=4294967290",
              "SLURM_STEP_NODELIST=a", "SLURM_STEP_TASKS_PER_NODE=1",
              "SLURM_JOB_NODELIST=a,b", "SLURM_TASKS_PER_NODE=4(x2)",
              "SLURM_NTASKS=8" },
            .hosts = "a:4,b:4",
            .source = "Slurm job 17" },
    /* Repeated hosts add up. */
    { .variables = { "SLURM_JOB_ID=17", "SLURM_JOB_NODELIST=n[1,1,2]",
              "SLURM_TASKS_PER_NODE=1(x3)", "SLURM_NTASKS=3" },
            .hosts = "n1:2,n2:1",
            .source = "Slurm" },
    { .variables = { "SLURM_JOB_ID=17", "SLURM_JOB_NODELIST=n[3-1]" },
            .source = "SLURM_JOB_NODELIST=n[3-1]: a range" },
    { .variables = { "SLURM_JOB_ID=17", "SLURM_JOB_NODELIST=n[1-3]", "SLURM_NTASKS=2",
              "SLURM_TASKS_PER_NODE=1(x2)" },
            .source = "fewer numbers than the job's 3 hosts" },
    { .variables = { "SLURM_JOB_ID=17" }, .source = "SLURM_JOB_NODELIST is not set" },
    { .variables = { "SLURM_JOB_ID=17", "SLURM_JOB_NODELIST=n;1" },
            .source = "host 'n;1': a host name has" },
    { .variables = { "SLURM_JOB_ID=17", "SLURM_JOB_NODELIST=a,b", "SLURM_HET_SIZE=2" },
            .source = "heterogeneous" },
    { .variables = { "SLURM_JOB_ID=17", "SLURM_STEP_ID=0", "SLURM_STEP_NODELIST=a,b",
              "SLURM_STEP_TASKS_PER_NODE=2(x2)", "SLURM_STEP_NUM_TASKS=4" },
            .source = "srun started tuttirun 4 times" },
};

UNIT_TEST(test_allocations_and_steps)
{
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        expect_case("", &cases[i]);
    }
}

UNIT_TEST(test_srun_reaches_the_hosts)
{
    struct options options = { .np = 0 };
    struct placement placement;

    assert_int_equal(resolve("", cases[0].variables, &options, &placement), TUTTI_OK);
    assert_true(placement.is_slurm);
    assert_false(placement.waits);
    placement_fini(&placement);
}

UNIT_TEST(test_more_ranks_than_gpus_take_the_cores)
{
    static const struct resolve_case few = {
        .variables = { "SLURM_JOB_ID=17", "SLURM_JOB_NODELIST=a[1-2]",
                "SLURM_TASKS_PER_NODE=96(x2)", "SLURM_GPUS_ON_NODE=8" },
        .hosts = "a1:8,a2:8",
        .source = "Slurm",
    };
    struct resolve_case many = few;
    struct options options = { .np = 16 };

    expect_case_with("", &few, &options);
    options.np = 17;
    many.hosts = "a1:96,a2:96";
    expect_case_with("", &many, &options);
    options.slots_per_host = 3;
    many.hosts = "a1:3,a2:3";
    expect_case_with("", &many, &options);
}
