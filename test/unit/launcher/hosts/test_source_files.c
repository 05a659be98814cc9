/*
 * Sources that hand over files: PBS, LSF, Grid Engine, Kubeflow's MPI operator.
 */
#include "test/unit/launcher/hosts/resolve.h"

/* A file below the root, and what is found with it. */
struct file_case {
    const char *path;
    const char *text;
    struct resolve_case expect;
};

static void expect_with_file(const struct file_case *one)
{
    struct root root;

    root_make(&root);
    if (one->path != NULL) {
        root_write(&root, one->path, one->text, 0700);
    }
    expect_case(root.path, &one->expect);
    root_remove(&root);
}

static void expect_all(const struct file_case *cases, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        expect_with_file(&cases[i]);
    }
}

UNIT_TEST(test_pbs)
{
    static const struct file_case cases[] = {
        { .path = "/aux/123.srv",
                .text = "a\na\nb\na\n",
                .expect = { .variables = { "PBS_JOBID=123.srv",
                                    "PBS_NODEFILE=/aux/123.srv" },
                        .hosts = "a:3,b:1",
                        .source = "PBS job 123.srv" } },
        { .expect = { .variables = { "PBS_JOBID=123" },
                  .source = "PBS_NODEFILE is not set" } },
        { .expect = { .variables = { "PBS_JOBID=123", "PBS_NODEFILE=/aux/none" },
                  .source = "/aux/none: No such file" } },
        { .path = "/n",
                .text = "",
                .expect = { .variables = { "PBS_JOBID=1", "PBS_NODEFILE=/n" },
                        .source = "names no host" } },
        { .path = "/n",
                .text = "a\nb c\n",
                .expect = { .variables = { "PBS_JOBID=1", "PBS_NODEFILE=/n" },
                        .source = "/n:2: 'b c'" } },
    };

    expect_all(cases, sizeof cases / sizeof cases[0]);
}

UNIT_TEST(test_lsf)
{
    static const struct file_case cases[] = {
        { .path = "/h",
                .text = "a\na\nb\n",
                .expect = { .variables = { "LSB_JOBID=5", "LSB_DJOB_HOSTFILE=/h",
                                    "LSB_MCPU_HOSTS=x 1" },
                        .hosts = "a:2,b:1",
                        .source = "LSF job 5" } },
        { .expect = { .variables = { "LSB_JOBID=5", "LSB_MCPU_HOSTS=hostA 4  hostB 2 ",
                              "LSB_HOSTS=x" },
                  .hosts = "hostA:4,hostB:2",
                  .source = "LSF job 5" } },
        { .expect = { .variables = { "LSB_JOBID=5", "LSB_HOSTS=a a b" },
                  .hosts = "a:2,b:1",
                  .source = "LSF" } },
        { .expect = { .variables = { "LSB_JOBID=5", "LSB_MCPU_HOSTS=batch1 1 a 42 b 42",
                              "CSM_ALLOCATION_ID=7" },
                  .hosts = "a:42,b:42",
                  .source = "LSF" } },
        { .expect = { .variables = { "LSB_JOBID=5", "LSB_MCPU_HOSTS=batch1 1 a 42" },
                  .hosts = "batch1:1,a:42",
                  .source = "LSF" } },
        { .expect = { .variables = { "LSB_JOBID=5", "LSB_MCPU_HOSTS=a 1",
                              "CSM_ALLOCATION_ID=7" },
                  .hosts = "a:1",
                  .source = "LSF" } },
        { .expect = { .variables = { "LSB_JOBID=5", "LSB_MCPU_HOSTS=a 42 b 42",
                              "CSM_ALLOCATION_ID=7" },
                  .hosts = "a:42,b:42",
                  .source = "LSF" } },
        { .expect = { .variables = { "LSB_JOBID=5" }, .source = "is set, so" } },
        { .expect = { .variables = { "LSB_JOBID=5", "LSB_MCPU_HOSTS=a" },
                  .source = "behind host 'a' is no number" } },
        { .expect = { .variables = { "LSB_JOBID=5", "LSB_MCPU_HOSTS=a b 4" },
                  .source = "is no number of slots: 'b'" } },
        { .expect = { .variables = { "LSB_JOBID=5", "LSB_MCPU_HOSTS=a 0" },
                  .source = "is no number of slots: '0'" } },
        { .expect = { .variables = { "LSB_JOBID=5", "LSB_DJOB_HOSTFILE=/none" },
                  .source = "/none: No such file" } },
    };

    expect_all(cases, sizeof cases / sizeof cases[0]);
}

UNIT_TEST(test_grid_starter)
{
    static const struct file_case cases[] = {
        { .path = "/pe",
                .text = "node01 4 all.q@node01 UNDEFINED\n\n"
                        "node02 2 all.q@node02 0,1\r\nnode01 1 long.q@node01 "
                        "UNDEFINED\n",
                .expect = { .variables = { "JOB_ID=9", "PE_HOSTFILE=/pe" },
                        .hosts = "node01:5,node02:2",
                        .source = "Grid Engine job 9" } },
        { .path = "/pe",
                .text = "node01\n",
                .expect = { .variables = { "PE_HOSTFILE=/pe" },
                        .source = "behind host 'node01' is no number" } },
        { .path = "/pe",
                .text = "node01 x\n",
                .expect = { .variables = { "PE_HOSTFILE=/pe" },
                        .source = "is no number of slots: 'x'" } },
        { .path = "/pe",
                .text = "\n",
                .expect = { .variables = { "PE_HOSTFILE=/pe" },
                        .source = "names no host" } },
        { .expect = { .variables = { "PE_HOSTFILE=/none" },
                  .source = "/none: No such file" } },
        /* A job without a parallel environment. */
        { .expect = { .variables = { "JOB_ID=9", "SGE_TASK_ID=undefined" },
                  .hosts = "",
                  .source = "this machine" } },
    };

    expect_all(cases, sizeof cases / sizeof cases[0]);
}

UNIT_TEST(test_kubeflow)
{
    static const struct file_case cases[] = {
        { .path = "/etc/mpi/hostfile",
                .text = "job-worker-0.job.ns.svc slots=2\njob-worker-1.job.ns.svc "
                        "slots=2\n",
                .expect = { .variables = { "K_MPI_JOB_ROLE=launcher" },
                        .hosts = "job-worker-0.job.ns.svc:2,job-worker-1.job.ns.svc:2",
                        .source = "Kubeflow" } },
        { .path = "/etc/mpi/hostfile",
                .text = "job-worker-0.job.ns.svc:1\n",
                .expect = { .variables = { "I_MPI_PERHOST=8" },
                        .hosts = "job-worker-0.job.ns.svc:1",
                        .source = "/etc/mpi/hostfile" } },
        { .path = "/etc/mpi/discover_hosts.sh",
                .text = "#!/bin/sh\necho w-0\necho w-1\n",
                .expect = { .variables = { "PATH=/bin",
                                    "OMPI_MCA_orte_set_default_slots=4" },
                        .hosts = "w-0:4,w-1:4",
                        .source = "discover_hosts.sh" } },
        { .path = "/etc/mpi/discover_hosts.sh",
                .text = "#!/bin/sh\necho w-0\n",
                .expect = { .variables = { "PATH=/bin" },
                        .hosts = "w-0:1",
                        .source = "discover_hosts.sh" } },
        { .path = "/etc/mpi/hostfile",
                .text = "",
                .expect = { .variables = { "K_MPI_JOB_ROLE=launcher" },
                        .source = "names no host" } },
        { .expect = { .variables = { "K_MPI_JOB_ROLE=launcher" },
                  .hosts = "",
                  .source = "this machine" } },
    };

    expect_all(cases, sizeof cases / sizeof cases[0]);
}

UNIT_TEST(test_slots_per_host_goes_before_what_the_operator_says)
{
    static const struct resolve_case expect = {
        .variables = { "PATH=/bin", "OMPI_MCA_orte_set_default_slots=4" },
        .hosts = "w-0:3,w-1:2",
        .source = "discover_hosts.sh",
    };
    struct options options = { .slots_per_host = 3 };
    struct root root;

    root_make(&root);
    root_write(&root, "/etc/mpi/discover_hosts.sh", "#!/bin/sh\necho w-0\necho w-1:2\n",
            0700);
    expect_case_with(root.path, &expect, &options);
    root_remove(&root);
}
