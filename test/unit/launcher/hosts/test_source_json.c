/*
 * Sources that write JSON: SageMaker and TF_CONFIG.
 */
#include "test/unit/launcher/hosts/resolve.h"

#define GROUP(name, type, host) \
    "{\"instance_group_name\":\"" name "\",\"instance_type\":\"" type \
    "\",\"hosts\":[\"" host "\"]}"
#define CONFIG(current, hosts, groups) \
    "{\"current_host\":\"" current "\",\"current_instance_type\":\"ml.p4d\"," \
    "\"current_group_name\":\"g\",\"hosts\":[" hosts "],\"instance_groups\":[" groups \
    "],\"network_interface_name\":\"eth0\"}"

static const char path[] = "/opt/ml/input/config/resourceconfig.json";

static void expect_file(const char *text, const struct resolve_case *expect)
{
    struct root root;

    root_make(&root);
    root_write(&root, path, text, 0600);
    expect_case(root.path, expect);
    root_remove(&root);
}

UNIT_TEST(test_sagemaker_file)
{
    static const struct {
        const char *text;
        struct resolve_case expect;
    } cases[] = {
        /* In the order given, not sorted. */
        { .text = CONFIG("algo-1", "\"algo-1\",\"algo-2\",\"algo-10\"",
                  GROUP("g", "ml.p4d", "algo-1")),
                .expect = { .variables = { "SM_NUM_GPUS=8", "SM_HOSTS=[\"x\"]" },
                        .hosts = "algo-1:8,algo-2:8,algo-10:8",
                        .source = "SageMaker" } },
        { .text = CONFIG("algo-1", "\"algo-1\"", ""),
                .expect = { .variables = { "SM_NUM_GPUS=0" },
                        .hosts = "algo-1:1",
                        .source = "resourceconfig.json" } },
        { .text = CONFIG("algo-1", "\"algo-1\",\"algo-2\"",
                  GROUP("a", "ml.p4d", "algo-1") "," GROUP("b", "ml.g5", "algo-2")),
                .expect = { .variables = { "SM_NUM_GPUS=8" },
                        .source = "hosts of different types" } },
        { .text = "{\"current_host\":\"algo-1\"",
                .expect = { .variables = { "A=b" },
                        .source = "resourceconfig.json is no JSON: line 1" } },
        { .text = "{\"current_host\":\"algo-1\"}",
                .expect = { .variables = { "A=b" }, .source = "no list of hosts" } },
        { .text = "{\"hosts\":[\"algo-1\"]}",
                .expect = { .variables = { "A=b" }, .source = "which of the hosts" } },
        { .text = "{\"hosts\":[1]}",
                .expect = { .variables = { "A=b" }, .source = "host 0 is no text" } },
        { .text = "{\"hosts\":[\"a b\"]}",
                .expect = { .variables = { "A=b" }, .source = "host 'a b'" } },
        { .text = "[]",
                .expect = { .variables = { "A=b" }, .source = "no list of hosts" } },
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        expect_file(cases[i].text, &cases[i].expect);
    }
}

UNIT_TEST(test_sagemaker_variables)
{
    static const struct resolve_case cases[] = {
        { .variables = { "SM_RESOURCE_CONFIG=" CONFIG(
                                 "algo-2", "\"algo-1\",\"algo-2\"", ""),
                  "SM_NUM_GPUS=4" },
                .hosts = "algo-1:4,algo-2:4",
                .source = "SM_RESOURCE_CONFIG" },
        { .variables = { "SM_HOSTS=[\"algo-1\",\"algo-2\"]", "SM_CURRENT_HOST=algo-1" },
                .hosts = "algo-1:1,algo-2:1",
                .source = "SM_HOSTS" },
        { .variables = { "SM_HOSTS=[\"algo-1\"]" }, .source = "which of the hosts" },
        { .variables = { "SM_HOSTS=algo-1" }, .source = "SM_HOSTS is no JSON" },
        { .variables = { "SM_HOSTS=[]", "SM_CURRENT_HOST=algo-1" },
                .source = "no list of hosts" },
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        expect_case("", &cases[i]);
    }
}

/* The reason of a failure goes to a file in a folder that the platform makes. */
UNIT_TEST(test_sagemaker_takes_the_reason_of_a_failure)
{
    static const char *const variables[] = { "A=b", NULL };
    struct options options = { .np = 0 };
    struct placement placement;
    struct root root;
    char file[64];

    root_make(&root);
    root_write(&root, path, CONFIG("algo-1", "\"algo-1\"", ""), 0600);
    assert_int_equal(resolve(root.path, variables, &options, &placement), TUTTI_OK);
    assert_string_equal(placement.failure, "");
    placement_fini(&placement);
    root_write(&root, "/opt/ml/output/data", "", 0600);
    (void)snprintf(file, sizeof file, "%s/opt/ml/output/failure", root.path);
    assert_int_equal(resolve(root.path, variables, &options, &placement), TUTTI_OK);
    assert_string_equal(placement.failure, file);
    placement_fini(&placement);
    assert_int_equal(host_list_parse(&options.hosts, "algo-1:2"), TUTTI_OK);
    assert_int_equal(resolve(root.path, variables, &options, &placement), TUTTI_OK);
    assert_string_equal(placement.failure, file);
    placement_fini(&placement);
    host_list_fini(&options.hosts);
    root_remove(&root);
}

UNIT_TEST(test_sagemaker_other_hosts_wait)
{
    static const char *const first[] = { "SM_HOSTS=[\"algo-1\",\"algo-2\"]",
        "SM_CURRENT_HOST=algo-1", NULL };
    static const char *const second[] = { "SM_HOSTS=[\"algo-1\",\"algo-2\"]",
        "SM_CURRENT_HOST=algo-2", NULL };
    struct options options = { .np = 0 };
    struct placement placement;

    assert_int_equal(resolve("", first, &options, &placement), TUTTI_OK);
    assert_false(placement.waits);
    placement_fini(&placement);
    assert_int_equal(resolve("", second, &options, &placement), TUTTI_OK);
    assert_true(placement.waits);
    assert_string_equal(placement.own, "algo-2");
    assert_int_equal(placement.join.nodes, 2);
    assert_int_equal(placement.join.index, 1);
    assert_string_equal(placement.join.first, "algo-1");
    placement_fini(&placement);
    /* Also when the hosts are named: the first of those runs the job. */
    assert_int_equal(host_list_parse(&options.hosts, "algo-2:4,algo-1:4"), TUTTI_OK);
    assert_int_equal(resolve("", first, &options, &placement), TUTTI_OK);
    assert_true(placement.waits);
    assert_int_equal(placement.join.index, 1);
    assert_string_equal(placement.join.first, "algo-2");
    placement_fini(&placement);
    host_list_fini(&options.hosts);
}

UNIT_TEST(test_tf_config)
{
    static const struct resolve_case cases[] = {
        { .variables = { "TF_CONFIG={\"cluster\":{\"chief\":[\"h0:2222\"],"
                         "\"worker\":[\"h1:2222\",\"h2:2222\"],\"ps\":[\"h3:2222\"],"
                         "\"evaluator\":[\"h4:2222\"]},\"task\":{\"type\":\"chief\","
                         "\"index\":0},\"rpc_layer\":\"grpc\"}" },
                .hosts = "h0:1,h1:1,h2:1",
                .source = "TF_CONFIG" },
        /* No chief; a host with two processes. */
        { .variables = { "TF_CONFIG={\"cluster\":{\"worker\":[\"a:1\",\"b:1\",\"a:2\"]}"
                         "}" },
                .hosts = "a:2,b:1",
                .source = "TF_CONFIG" },
        /* Sparse, and in the order of the indices as numbers. */
        { .variables = { "TF_CONFIG={\"cluster\":{\"worker\":{\"10\":\"c:1\",\"9\":\"b:"
                         "1\","
                         "\"0\":\"a:1\"}}}" },
                .hosts = "a:1,b:1,c:1",
                .source = "TF_CONFIG" },
        { .variables = { "TF_CONFIG={\"cluster\":{\"worker\":[\"[::1]:7\",\"b\"]}}" },
                .hosts = "[::1]:1,b:1",
                .source = "TF_CONFIG" },
        { .variables = { "TF_CONFIG={\"cluster\":{\"worker\":[\"a:1\",\"b:1\"]},"
                         "\"task\":{\"type\":\"worker\",\"index\":\"1\"}}" },
                .source = "no number as its index" },
        { .variables = { "TF_CONFIG={\"cluster\":{\"worker\":[\"a:1\"]},\"task\":{"
                         "\"type\":"
                         "\"ps\",\"index\":0}}" },
                .source = "'ps', which is no rank" },
        { .variables = { "TF_CONFIG={\"cluster\":{\"worker\":[\"a:1\"]},\"task\":{"
                         "\"type\":"
                         "\"evaluator\",\"index\":0}}" },
                .source = "'evaluator', which is no rank" },
        /* Without a cluster a program is alone. */
        { .variables = { "TF_CONFIG={}" }, .hosts = "", .source = "this machine" },
        { .variables = { "TF_CONFIG={\"cluster\":{\"ps\":[\"h:1\"]}}" },
                .source = "no chief and no worker" },
        { .variables = { "TF_CONFIG={" }, .source = "TF_CONFIG is no JSON" },
        { .variables = { "TF_CONFIG=[]" }, .source = "are objects" },
        { .variables = { "TF_CONFIG={\"cluster\":[]}" }, .source = "are objects" },
        { .variables = { "TF_CONFIG={\"task\":5}" }, .source = "are objects" },
        { .variables = { "TF_CONFIG={\"cluster\":{\"worker\":\"a:1\"}}" },
                .source = "worker is no list" },
        { .variables = { "TF_CONFIG={\"cluster\":{\"worker\":[1]}}" },
                .source = "an address of worker is no text" },
        { .variables = { "TF_CONFIG={\"cluster\":{\"worker\":{\"x\":\"a:1\"}}}" },
                .source = "worker has the index 'x'" },
        { .variables = { "TF_CONFIG={\"cluster\":{\"worker\":[\"a b:1\"]}}" },
                .source = "host 'a b'" },
        { .variables = { "TF_CONFIG={\"cluster\":{\"worker\":[\"a\"],\"worker\":[]}}" },
                .source = "duplicate" },
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        expect_case("", &cases[i]);
    }
}

UNIT_TEST(test_roles_of_tf_config_follow_the_hosts)
{
    static const char *const variables[] = {
        "TF_CONFIG={\"cluster\":{\"ps\":[\"a:3\"],\"chief\":[\"a:1\"],\"worker\":"
        "[\"b:1\",\"[::1]:1\"],\"evaluator\":[\"b:2\"]}}",
        NULL
    };
    struct options options = { .np = 0 };
    struct placement placement;

    assert_int_equal(resolve("", variables, &options, &placement), TUTTI_OK);
    assert_int_equal(placement.hosts.count, 3);
    assert_null(placement.roles);
    placement_fini(&placement);
    options.roles = true;
    assert_int_equal(resolve("", variables, &options, &placement), TUTTI_OK);
    assert_int_equal(host_list_slots(&placement.hosts), 5);
    assert_string_equal(placement.roles, "chief,ps,worker,evaluator,worker");
    placement_fini(&placement);
}

UNIT_TEST(test_other_tasks_of_tf_config_join_the_first)
{
#define CLUSTER \
    "TF_CONFIG={\"cluster\":{\"chief\":[\"a:2222\"],\"worker\":{\"7\":\"c:3\"," \
    "\"2\":\"b:4\"}},\"task\":{\"type\":"
    static const char *const first[] = { CLUSTER "\"chief\",\"index\":0}}", NULL };
    static const char *const last[] = { CLUSTER "\"worker\",\"index\":7}}", NULL };
    static const struct resolve_case cases[] = {
        { .variables = { CLUSTER "\"worker\",\"index\":1}}" },
                .source = "worker 1, which is not in the cluster" },
        { .variables = { "TF_CONFIG={\"cluster\":{\"worker\":[\"a:1\",\"a:2\"]},"
                         "\"task\":{\"type\":\"worker\",\"index\":0}}" },
                .source = "several processes on one host" },
    };
    struct options options = { .np = 0 };
    struct placement placement;

    assert_int_equal(resolve("", first, &options, &placement), TUTTI_OK);
    assert_false(placement.waits);
    assert_int_equal(placement.join.nodes, 3);
    assert_int_equal(placement.join.index, 0);
    assert_int_equal(placement.join.port, 2222);
    placement_fini(&placement);
    assert_int_equal(resolve("", last, &options, &placement), TUTTI_OK);
    assert_true(placement.waits);
    assert_int_equal(placement.join.index, 2);
    assert_string_equal(placement.join.first, "a");
    assert_string_equal(placement.own, "c");
    placement_fini(&placement);
    expect_case("", &cases[0]);
    expect_case("", &cases[1]);
#undef CLUSTER
}
