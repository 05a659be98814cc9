/*
 * Which source counts, hosts of the command line inside an allocation, discovery scripts,
 * array jobs and TPUs.
 */
#include <signal.h>

#include "test/unit/launcher/hosts/resolve.h"

#define BATCH \
    "AWS_BATCH_JOB_NUM_NODES=2", "AWS_BATCH_JOB_ID=b-1", "AWS_BATCH_JOB_NODE_INDEX=0", \
            "AWS_BATCH_JOB_MAIN_NODE_INDEX=0"
#define SLURM "SLURM_JOB_ID=17", "SLURM_JOB_NODELIST=s"
#define LSF "LSB_JOBID=5", "LSB_HOSTS=l"
#define SAGEMAKER "SM_HOSTS=[\"algo-1\"]", "SM_CURRENT_HOST=algo-1"
#define TF "TF_CONFIG={\"cluster\":{\"worker\":[\"t:1\"]}}"
#define TPU "TPU_NAME=v4"

/* Each case has the source that counts before those of the case below it. */
UNIT_TEST(test_order_of_precedence)
{
    static const struct resolve_case cases[] = {
        { .variables = { TPU, TF, BATCH, SAGEMAKER, LSF, SLURM },
                .hosts = "s:1",
                .source = "Slurm" },
        { .variables = { TPU, TF, BATCH, SAGEMAKER, LSF },
                .hosts = "l:1",
                .source = "LSF" },
        { .variables = { TPU, TF, BATCH, SAGEMAKER },
                .hosts = "algo-1:1",
                .source = "SageMaker" },
        { .variables = { TPU, TF, BATCH }, .hosts = "", .source = "AWS Batch job b-1" },
        { .variables = { TPU, TF }, .hosts = "t:1", .source = "TF_CONFIG" },
        { .variables = { TPU }, .source = "TPUs are not supported" },
        { .variables = { NULL }, .hosts = "", .source = "this machine" },
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        expect_case("", &cases[i]);
    }
}

UNIT_TEST(test_tpus_are_refused_with_the_hosts_found)
{
    static const struct resolve_case cases[] = {
        { .variables = { "KUBE_GOOGLE_CLOUD_TPU_ENDPOINTS=grpc://10.2.3.4:8470", TPU },
                .source = "hosts found: "
                          "KUBE_GOOGLE_CLOUD_TPU_ENDPOINTS=grpc://10.2.3.4" },
        { .variables = { "TPU_CONFIG={}" }, .source = "TPU_CONFIG={}" },
        { .variables = { "COLAB_TPU_ADDR=10.1.2.3:8470" }, .source = "-H localhost:4" },
        { .variables = { "XRT_TPU_CONFIG=tpu_worker;0;10.1.2.3:8470" },
                .source = "XRT_TPU_CONFIG=tpu_worker" },
        /* Set to nothing, as some images have it. */
        { .variables = { "TPU_NAME=" }, .hosts = "", .source = "this machine" },
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        expect_case("", &cases[i]);
    }
}

static void expect_asked(const char *hosts, const struct resolve_case *expect)
{
    struct options options = { .np = 0 };

    assert_int_equal(host_list_parse(&options.hosts, hosts), TUTTI_OK);
    expect_case_with("", expect, &options);
    host_list_fini(&options.hosts);
}

UNIT_TEST(test_hosts_of_the_command_line_are_of_the_allocation)
{
    static const struct {
        const char *asked;
        struct resolve_case expect;
    } cases[] = {
        { .asked = "n2:4,m",
                .expect = { .variables = { "SLURM_JOB_ID=17",
                                    "SLURM_JOB_NODELIST=n[1-3],m" },
                        .hosts = "n2:4,m:1",
                        .source = "the command line" } },
        { .asked = "n2.cluster,m.cluster",
                .expect = { .variables = { "SLURM_JOB_ID=17",
                                    "SLURM_JOB_NODELIST=n[1-3],m" },
                        .hosts = "n2.cluster:1,m.cluster:1",
                        .source = "the command line" } },
        { .asked = "n2,n4",
                .expect = { .variables = { "SLURM_JOB_ID=17",
                                    "SLURM_JOB_NODELIST=n[1-3]" },
                        .source =
                                "host n4 is not one of Slurm job 17, which has n1" } },
        { .asked = "n2.other",
                .expect = { .variables = { "LSB_JOBID=5", "LSB_HOSTS=n2.cluster" },
                        .source = "host n2.other is not one of LSF job 5" } },
        { .asked = "n",
                .expect = { .variables = { "LSB_JOBID=5", "LSB_HOSTS=n2" },
                        .source = "host n is not" } },
        { .asked = "n2",
                .expect = { .variables = { "LSB_JOBID=5", "LSB_HOSTS=n" },
                        .source = "host n2 is not" } },
        /* Addresses and the loopback name cannot be compared. */
        { .asked = "10.0.0.1,[::1],localhost",
                .expect = { .variables = { "LSB_JOBID=5", "LSB_HOSTS=n2" },
                        .hosts = "10.0.0.1:1,[::1]:1,localhost:1",
                        .source = "the command line" } },
        /* What cannot be understood does not count. */
        { .asked = "a",
                .expect = { .variables = { "SLURM_JOB_ID=17", "SLURM_HET_SIZE=2" },
                        .hosts = "a:1",
                        .source = "the command line" } },
        { .asked = "a",
                .expect = { .variables = { TPU, TF },
                        .hosts = "a:1",
                        .source = "the command line" } },
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        expect_asked(cases[i].asked, &cases[i].expect);
    }
}

UNIT_TEST(test_srun_reaches_hosts_that_are_named)
{
    static const char *const variables[] = { SLURM, NULL };
    struct options options = { .np = 0 };
    struct placement placement;

    assert_int_equal(host_list_parse(&options.hosts, "s:2"), TUTTI_OK);
    assert_int_equal(resolve("", variables, &options, &placement), TUTTI_OK);
    assert_true(placement.is_slurm);
    placement_fini(&placement);
    host_list_fini(&options.hosts);
}

UNIT_TEST(test_discovery_scripts)
{
    static const struct {
        const char *script;
        struct resolve_case expect;
    } cases[] = {
        { .script = "#!/bin/sh\necho a\necho b:4\necho '[::1]:2'\n",
                .expect = { .variables = { "PATH=/bin", SLURM },
                        .hosts = "a:2,b:4,[::1]:2",
                        .source = "/discover" } },
        { .script = "#!/bin/sh\necho $NAME\n",
                .expect = { .variables = { "PATH=/bin", "NAME=a" },
                        .hosts = "a:2",
                        .source = "/discover" } },
        { .script = "#!/bin/sh\necho a\necho no credentials >&2\nexit 3\n",
                .expect = { .variables = { "PATH=/bin" },
                        .source =
                                "/discover ended with status 3; it said on stderr: no "
                                "credentials" } },
        { .script = "#!/bin/sh\nkill -9 $$\n",
                .expect = { .variables = { "PATH=/bin" },
                        .source =
                                "was ended by signal 9; it said on stderr: nothing" } },
        { .script = "#!/bin/sh\n",
                .expect = { .variables = { "PATH=/bin" }, .source = "names no host" } },
        { .script = "#!/bin/sh\necho a b\n",
                .expect = { .variables = { "PATH=/bin" },
                        .source = "/discover:1: 'a b'" } },
        { .script = "#!/no/such/shell\n",
                .expect = { .variables = { "PATH=/bin" }, .source = "cannot run" } },
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct options options = { .slots_per_host = 2 };
        char file[64];
        struct root root;

        root_make(&root);
        root_write(&root, "/discover", cases[i].script, 0700);
        (void)snprintf(file, sizeof file, "%s/discover", root.path);
        options.host_discovery_script = file;
        expect_case_with(root.path, &cases[i].expect, &options);
        root_remove(&root);
    }
}

/* Ends for this: the script, and a child that it left behind with its output open. */
UNIT_TEST(test_discovery_scripts_that_hang_are_killed)
{
    static const char *const variables[] = { "PATH=/bin:/usr/bin", NULL };
    struct arguments environment = { .items = NULL };
    struct options options = { .np = 0 };
    struct source_facts facts = { .options = &options,
        .environment = words_set(&environment, variables),
        .root = "",
        .own_name = "me",
        .script_ms = 3000 };
    struct placement placement = { .ranks = 0 };
    struct root root;
    char file[64];
    FILE *pids;
    long pid = 0;

    root_make(&root);
    root_write(&root, "/discover",
            "#!/bin/sh\nsleep 1000 &\necho $! >\"${0%/*}/pid\"\nwait\n", 0700);
    (void)snprintf(file, sizeof file, "%s/discover", root.path);
    options.host_discovery_script = file;
    assert_int_equal(source_resolve(&facts, &placement), TUTTI_ERR_INVALID);
    assert_non_null(strstr(tutti_last_error(), "has not ended within 3 s"));
    (void)snprintf(file, sizeof file, "%s/pid", root.path);
    pids = fopen(file, "re");
    assert_non_null(pids);
    assert_int_equal(fscanf(pids, "%ld", &pid), 1);
    assert_int_equal(fclose(pids), 0);
    /* It is a zombie of init's, or gone. */
    for (int i = 0; i < 1000 && kill((pid_t)pid, 0) == 0; i++) {
        char state_letter = '?';
        char line[64];

        (void)snprintf(line, sizeof line, "/proc/%ld/stat", pid);
        pids = fopen(line, "re");
        if (pids != NULL) {
            if (fscanf(pids, "%*d (%*[^)]) %c", &state_letter) != 1) {
                state_letter = '?';
            }
            (void)fclose(pids);
        }
        if (state_letter == 'Z') {
            break;
        }
        assert_true(i < 999);
        (void)usleep(10000);
    }
    arguments_fini(&environment);
    root_remove(&root);
}

UNIT_TEST(test_array_jobs_are_shards_and_no_world)
{
    static const struct {
        const char *variables[RESOLVE_VARIABLES];
        int index;
        int count;
    } cases[] = {
        { .variables = { "SLURM_ARRAY_TASK_ID=7", "SLURM_ARRAY_TASK_COUNT=4",
                  "SLURM_ARRAY_TASK_MIN=3", "SLURM_ARRAY_TASK_MAX=9",
                  "SLURM_ARRAY_TASK_STEP=2" },
                .index = 2,
                .count = 4 },
        /* --array=1,5,9,20 has no even distance. */
        { .variables = { "SLURM_ARRAY_TASK_ID=9", "SLURM_ARRAY_TASK_COUNT=4",
                  "SLURM_ARRAY_TASK_MIN=1", "SLURM_ARRAY_TASK_MAX=20",
                  "SLURM_ARRAY_TASK_STEP=1" } },
        { .variables = { "SLURM_ARRAY_TASK_ID=1", "SLURM_ARRAY_TASK_COUNT=4",
                  "SLURM_ARRAY_TASK_MIN=1", "SLURM_ARRAY_TASK_MAX=20",
                  "SLURM_ARRAY_TASK_STEP=1" } },
        { .variables = { "SLURM_ARRAY_TASK_ID=4", "SLURM_ARRAY_TASK_COUNT=4",
                  "SLURM_ARRAY_TASK_MIN=3", "SLURM_ARRAY_TASK_MAX=9",
                  "SLURM_ARRAY_TASK_STEP=2" } },
        { .variables = { "AWS_BATCH_JOB_ARRAY_INDEX=0", "AWS_BATCH_JOB_ARRAY_SIZE=10" },
                .index = 0,
                .count = 10 },
        { .variables = { "AWS_BATCH_JOB_ARRAY_INDEX=10",
                  "AWS_BATCH_JOB_ARRAY_SIZE=10" } },
        { .variables = { "SGE_TASK_ID=10", "SGE_TASK_FIRST=1", "SGE_TASK_LAST=10",
                  "SGE_TASK_STEPSIZE=3" },
                .index = 3,
                .count = 4 },
        { .variables = { "SGE_TASK_ID=10", "SGE_TASK_FIRST=0",
                  "SGE_TASK_LAST=2147483647" } },
        { .variables = { "SGE_TASK_ID=undefined", "SGE_TASK_FIRST=undefined",
                  "SGE_TASK_LAST=undefined", "SGE_TASK_STEPSIZE=undefined" } },
        { .variables = { "SLURM_ARRAY_TASK_ID=0" } },
        { .variables = { NULL } },
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct options options = { .np = 0 };
        struct placement placement;

        assert_int_equal(
                resolve("", cases[i].variables, &options, &placement), TUTTI_OK);
        assert_string_equal(placement.source, "this machine");
        assert_int_equal(placement.shard.count, cases[i].count);
        assert_int_equal(placement.shard.index, cases[i].index);
        placement_fini(&placement);
    }
}

UNIT_TEST(test_children_of_aws_batch_wait)
{
    static const char *const child[] = { "AWS_BATCH_JOB_NUM_NODES=2",
        "AWS_BATCH_JOB_ID=b-1", "AWS_BATCH_JOB_NODE_INDEX=1",
        "AWS_BATCH_JOB_MAIN_NODE_INDEX=0",
        "AWS_BATCH_JOB_MAIN_NODE_PRIVATE_IPV4_ADDRESS=10.0.0.97", NULL };
    static const struct resolve_case outside = {
        .variables = { "AWS_BATCH_JOB_NUM_NODES=2", "AWS_BATCH_JOB_ID=b-1",
                "AWS_BATCH_JOB_NODE_INDEX=2", "AWS_BATCH_JOB_MAIN_NODE_INDEX=0" },
        .source = "is no node of AWS_BATCH_JOB_NUM_NODES=2",
    };
    static const struct resolve_case lost = {
        .variables = { "AWS_BATCH_JOB_NUM_NODES=2", "AWS_BATCH_JOB_ID=b-1",
                "AWS_BATCH_JOB_NODE_INDEX=1", "AWS_BATCH_JOB_MAIN_NODE_INDEX=0" },
        .source = "the main node is not known",
    };
    static const struct resolve_case incomplete = {
        .variables = { "AWS_BATCH_JOB_NUM_NODES=2", "AWS_BATCH_JOB_ID=b-1" },
        .source = "is not set",
    };
    struct options options = { .np = 0 };
    struct placement placement;

    assert_int_equal(resolve("", child, &options, &placement), TUTTI_OK);
    assert_true(placement.waits);
    assert_int_equal(placement.join.nodes, 2);
    assert_int_equal(placement.join.index, 1);
    assert_string_equal(placement.join.first, "10.0.0.97");
    assert_string_equal(placement.join.key, "b-1 attempt 0");
    placement_fini(&placement);
    expect_case("", &incomplete);
    expect_case("", &outside);
    expect_case("", &lost);
}

/* A number that is none is not the same as one that is not set. */
UNIT_TEST(test_malformed_numbers_are_refused)
{
    static const struct resolve_case cases[] = {
        { .variables = { "AWS_BATCH_JOB_NUM_NODES=x" },
                .source = "AWS_BATCH_JOB_NUM_NODES=x is no number" },
        { .variables = { "SM_HOSTS=[\"a\"]", "SM_CURRENT_HOST=a", "SM_NUM_GPUS=-1" },
                .source = "SM_NUM_GPUS=-1 is no number" },
        { .variables = { "SLURM_JOB_ID=1", "SLURM_JOB_NODELIST=a",
                  "SLURM_JOB_CPUS_PER_NODE=4", "SLURM_CPUS_PER_TASK=two" },
                .source = "SLURM_CPUS_PER_TASK=two is no number" },
        { .variables = { "SLURM_ARRAY_TASK_ID=x" },
                .source = "SLURM_ARRAY_TASK_ID=x is no number" },
        { .variables = { "SGE_TASK_ID=undefined", "AWS_BATCH_JOB_NUM_NODES=" },
                .hosts = "",
                .source = "this machine" },
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        expect_case("", &cases[i]);
    }
}

UNIT_TEST(test_one_node_of_aws_batch_is_this_machine)
{
    static const char *const variables[] = { "AWS_BATCH_JOB_NUM_NODES=1",
        "AWS_BATCH_JOB_ID=b-1", "AWS_BATCH_JOB_NODE_INDEX=0",
        "AWS_BATCH_JOB_MAIN_NODE_INDEX=0", NULL };
    struct options options = { .slots_per_host = 3 };
    struct placement placement;

    assert_int_equal(resolve("", variables, &options, &placement), TUTTI_OK);
    assert_int_equal(placement.ranks, 3);
    assert_int_equal(placement.join.nodes, 0);
    assert_int_equal(placement.hosts.count, 0);
    placement_fini(&placement);
    options.slots_per_host = 0;
    assert_int_equal(resolve("", variables, &options, &placement), TUTTI_OK);
    assert_true(placement.ranks > 0);
    placement_fini(&placement);
}

UNIT_TEST(test_a_placement_is_described_in_a_line)
{
    static const char *const variables[] = { LSF, NULL };
    struct options options = { .np = 0 };
    struct placement placement;
    char text[256];

    assert_int_equal(resolve("", variables, &options, &placement), TUTTI_OK);
    assert_string_equal(placement_describe(&placement, 1, text, sizeof text),
            "1 rank on 1 host from LSF job 5: l:1");
    placement_fini(&placement);
    assert_string_equal(placement_describe(&placement, 2, text, sizeof text),
            "2 ranks on this machine");
}
