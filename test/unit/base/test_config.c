/*
 * Configuration: the table, values from text, the environment, and the public object.
 * Every test starts with an environment without TUTTI_ and HOROVOD_ variables.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/config.h"
#include "base/mem.h"
#include "test/unit/unit.h"

/* A configuration that tests change, and the warnings about the environment. */
struct fixture {
    struct config config;
    char warnings[ERROR_TEXT_MAX];
};

static void clear_environment(const char *prefix)
{
    char name[128];
    char **entry = environ;

    while (*entry != NULL) {
        size_t len = strcspn(*entry, "=");

        if (strncmp(*entry, prefix, strlen(prefix)) != 0 || len >= sizeof name) {
            entry++;
            continue;
        }
        memcpy(name, *entry, len);
        name[len] = '\0';
        assert_int_equal(unsetenv(name), 0);
        entry = environ;
    }
}

static int setup(void **state)
{
    static struct fixture fixture;

    clear_environment("TUTTI_");
    clear_environment("HOROVOD_");
    assert_int_equal(config_init(&fixture.config), TUTTI_OK);
    fixture.warnings[0] = '\0';
    *state = &fixture;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *fixture = *state;

    mem_fail_at(0);
    config_fini(&fixture->config);
    clear_environment("TUTTI_");
    clear_environment("HOROVOD_");
    return 0;
}

#define TEST(name) UNIT_TEST_WITH(name, setup, teardown)

static void set_variable(const char *name, const char *value)
{
    assert_int_equal(setenv(name, value, 1), 0);
}

static tutti_status read_environment(struct fixture *fixture)
{
    return config_from_environment(
            &fixture->config, fixture->warnings, sizeof fixture->warnings);
}

static void assert_error_has(const char *part)
{
    if (strstr(tutti_last_error(), part) == NULL) {
        fail_msg("\"%s\" does not say \"%s\"", tutti_last_error(), part);
    }
}

TEST(test_the_rows_describe_themselves)
{
    const struct fixture *fixture = *state;
    const struct config_row *rows;
    size_t count, i;
    char text[CONFIG_TEXT_MAX + 1];

    rows = config_rows(&count);
    assert_int_equal(count, CONFIG_COUNT);
    for (i = 0; i < count; i++) {
        assert_ptr_equal(config_find(rows[i].name), &rows[i]);
        assert_true(strlen(rows[i].help) > 0);
        assert_true(strlen(rows[i].range) > 0);
        assert_true(config_format(&fixture->config, &rows[i], text, sizeof text));
        assert_string_equal(text, rows[i].initial);
    }
    assert_true(config_find("fusion_bytes")->same);
    assert_false(config_find("log_level")->same);
    assert_true(config_find("issue")->same);
    assert_true(config_find("gpu_half_sums")->same);
    assert_true(config_find("gpu_fusion_bytes")->same);
    assert_false(config_find("gpu")->same);
    assert_string_equal(
            config_find("fusion_bytes")->horovod, "HOROVOD_FUSION_THRESHOLD");
    assert_string_equal(config_find("inflight")->range, "1..8");
}

TEST(test_dashes_count_as_underscores)
{
    assert_ptr_equal(config_find("stall-warning-s"), config_find("stall_warning_s"));
    assert_non_null(config_find("stall-warning-s"));
    assert_null(config_find("stall warning s"));
    assert_null(config_find(""));
}

TEST(test_the_nearest_name_is_suggested)
{
    char long_name[200];

    memset(long_name, 'x', sizeof long_name);
    long_name[sizeof long_name - 1] = '\0';
    assert_string_equal(config_nearest("fusion_byte")->name, "fusion_bytes");
    assert_string_equal(config_nearest("FUSION-BYTES")->name, "fusion_bytes");
    assert_string_equal(config_nearest("fusion")->name, "fusion_bytes");
    assert_string_equal(config_nearest("loglevel")->name, "log_level");
    assert_null(config_nearest("zebra"));
    assert_null(config_nearest(""));
    assert_null(config_nearest(long_name));
    assert_null(config_find(long_name));
}

/* One value as text, and what it is when it is formatted again. */
struct value_case {
    const char *name;
    const char *text;
    const char *formatted;
};

TEST(test_values_are_parsed_by_their_type)
{
    static const struct value_case cases[] = {
        { "strict", "YES", "true" },
        { "strict", "0", "false" },
        { "inflight", "8", "8" },
        { "spin_us", "0", "0" },
        { "fusion_bytes", "64m", "67108864" },
        { "fusion-bytes", "1024GiB", "1099511627776" },
        { "stall_warning_s", "0.25", "0.25" },
        { "backend", "vendor", "vendor" },
        { "backend", "mpi", "messages" },
        { "log_level", "Trace", "trace" },
        { "host_id", "node 7", "node 7" },
        { "host_id", "", "" },
    };
    struct fixture *fixture = *state;
    char text[CONFIG_TEXT_MAX + 1];
    size_t i;

    for (i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(
                config_set(&fixture->config, cases[i].name, cases[i].text, "test"),
                TUTTI_OK);
        assert_true(config_format(
                &fixture->config, config_find(cases[i].name), text, sizeof text));
        assert_string_equal(text, cases[i].formatted);
    }
}

TEST(test_bad_values_are_refused_and_change_nothing)
{
    static const struct value_case cases[] = {
        { "strict", "maybe", "true or false" },
        { "strict", "", "true or false" },
        { "inflight", "0",
                "inflight cannot be \"0\": it takes a whole number in 1..8" },
        { "inflight", "9", "1..8" },
        { "inflight", "4294967297", "1..8" },
        { "inflight", "4x", "1..8" },
        { "inflight", "", "1..8" },
        { "inflight", "99999999999999999999", "1..8" },
        { "fusion_bytes", "-1", "bytes in 0..1099511627776 (suffixes k, m and g" },
        { "fusion_bytes", "1025g", "0..1099511627776" },
        { "fusion_bytes", "64mb", "0..1099511627776" },
        { "fusion_bytes", "18446744073709551616", "0..1099511627776" },
        { "stall_warning_s", "nan", "0..86400" },
        { "stall_warning_s", "inf", "0..86400" },
        { "stall_warning_s", "-1", "a number in 0..86400" },
        { "stall_warning_s", "86400.5", "0..86400" },
        { "backend", "nccl", "one of auto|shm|messages|vendor" },
        { "backend", "", "auto|shm|messages|vendor" },
        { "host_id", "a\nb", "255" },
    };
    struct fixture *fixture = *state;
    char before[CONFIG_TEXT_MAX + 1];
    char after[CONFIG_TEXT_MAX + 1];
    size_t i;

    for (i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct config_row *row = config_find(cases[i].name);

        assert_true(config_format(&fixture->config, row, before, sizeof before));
        assert_int_equal(
                config_set(&fixture->config, cases[i].name, cases[i].text, "--origin"),
                TUTTI_ERR_CONFIG);
        assert_true(config_format(&fixture->config, row, after, sizeof after));
        assert_string_equal(before, after);
        assert_error_has("--origin");
        assert_error_has(cases[i].name);
        assert_error_has(cases[i].text);
        assert_error_has(cases[i].formatted);
    }
}

TEST(test_texts_have_a_longest_length)
{
    struct fixture *fixture = *state;
    char text[CONFIG_TEXT_MAX + 2];

    memset(text, 'h', sizeof text);
    text[CONFIG_TEXT_MAX + 1] = '\0';
    assert_int_equal(
            config_set(&fixture->config, "host_id", text, "test"), TUTTI_ERR_CONFIG);
    text[CONFIG_TEXT_MAX] = '\0';
    assert_int_equal(config_set(&fixture->config, "host_id", text, "test"), TUTTI_OK);
    assert_string_equal(fixture->config.host_id, text);
}

TEST(test_an_unknown_name_is_refused_with_a_suggestion)
{
    struct fixture *fixture = *state;

    assert_int_equal(config_set(&fixture->config, "fusion_byte", "1", "--fusion-byte"),
            TUTTI_ERR_CONFIG);
    assert_string_equal(tutti_last_error(),
            "--fusion-byte: there is no parameter \"fusion_byte\"; did you mean "
            "\"fusion_bytes\"?");

    assert_int_equal(
            config_set(&fixture->config, "zebra", "1", "--zebra"), TUTTI_ERR_CONFIG);
    assert_string_equal(tutti_last_error(), "--zebra: there is no parameter \"zebra\"");
}

/* Variables, and what comes of them: values of parameters, and words of warnings or of the error. */
struct environment_case {
    const char *set[7];
    tutti_status status;
    const char *values[5];
    const char *words;
};

static const struct environment_case environments[] = {
    { .set = { "TUTTI_FUSION_BYTES=2m", "TUTTI_HOST_ID=here",
              "TUTTI_BACKGROUND_THREAD=off", "TUTTI_INTERNAL_ANYTHING=x",
              "TUTTI_LOCAL_DEVICE=0" },
            .values = { "fusion_bytes=2097152", "host_id=here",
                    "background_thread=false" },
            .words = "" },
    /* A bad one changes nothing; empty is not the same as unset. */
    { .set = { "TUTTI_FUSION_BYTES=2m", "TUTTI_STALL_FAIL_S=soon" },
            .status = TUTTI_ERR_CONFIG,
            .values = { "fusion_bytes=0" },
            .words = "TUTTI_STALL_FAIL_S: stall_fail_s cannot be \"soon\": it takes a "
                     "number in 0..86400" },
    { .set = { "TUTTI_STALL_FAIL_S=" },
            .status = TUTTI_ERR_CONFIG,
            .words = "TUTTI_STALL_FAIL_S" },
    { .set = { "TUTTI_FUSION_BYTE=2m" },
            .values = { "fusion_bytes=0" },
            .words = "TUTTI_FUSION_BYTE names no parameter; did you mean "
                     "TUTTI_FUSION_BYTES?\n" },
    { .set = { "TUTTI_fusion_bytes=2m" },
            .values = { "fusion_bytes=0" },
            .words = "TUTTI_fusion_bytes names no parameter" },
    { .set = { "TUTTI_ZEBRA=1", "TUTTI_STRICT=1" },
            .status = TUTTI_ERR_CONFIG,
            .words = "TUTTI_ZEBRA names no parameter" },
    { .set = { "HOROVOD_FUSION_THRESHOLD=134217728", "HOROVOD_CACHE_CAPACITY=2048",
              "HOROVOD_STALL_CHECK_TIME_SECONDS=30",
              "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS=600",
              "HOROVOD_TIMELINE=/somewhere" },
            .values = { "fusion_bytes=134217728", "cache_capacity=2048",
                    "stall_warning_s=30", "stall_fail_s=600" },
            .words = "HOROVOD_FUSION_THRESHOLD is read as TUTTI_FUSION_BYTES\n"
                     "HOROVOD_CACHE_CAPACITY is read as TUTTI_CACHE_CAPACITY\n"
                     "HOROVOD_STALL_CHECK_TIME_SECONDS is read as "
                     "TUTTI_STALL_WARNING_S\n"
                     "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS is read as "
                     "TUTTI_STALL_FAIL_S\n"
                     "HOROVOD_TIMELINE is read as TUTTI_TIMELINE\n" },
    { .set = { "HOROVOD_FUSION_THRESHOLD=1000", "TUTTI_FUSION_BYTES=2000" },
            .values = { "fusion_bytes=2000" } },
    /* Off there; here a limit that nothing fits. */
    { .set = { "HOROVOD_FUSION_THRESHOLD=0" }, .values = { "fusion_bytes=1" } },
    { .set = { "HOROVOD_LOG_LEVEL=trace" }, .values = { "log_level=trace" } },
    { .set = { "HOROVOD_LOG_LEVEL=DEBUG" }, .values = { "log_level=debug" } },
    { .set = { "HOROVOD_LOG_LEVEL=Warning" }, .values = { "log_level=warn" } },
    { .set = { "HOROVOD_LOG_LEVEL=fatal" }, .values = { "log_level=error" } },
    { .set = { "HOROVOD_LOG_LEVEL=loud" },
            .status = TUTTI_ERR_CONFIG,
            .words = "HOROVOD_LOG_LEVEL: log_level cannot be \"loud\"" },
#define STALLS \
    "HOROVOD_STALL_CHECK_TIME_SECONDS=30", "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS=600"
    { .set = { STALLS, "HOROVOD_STALL_CHECK_DISABLE=1" },
            .values = { "stall_warning_s=0", "stall_fail_s=0" } },
    { .set = { STALLS, "HOROVOD_STALL_CHECK_DISABLE=on" },
            .values = { "stall_warning_s=0", "stall_fail_s=0" } },
    { .set = { STALLS, "HOROVOD_STALL_CHECK_DISABLE=-1" },
            .values = { "stall_warning_s=30", "stall_fail_s=600" } },
    { .set = { STALLS, "HOROVOD_STALL_CHECK_DISABLE=false" },
            .values = { "stall_warning_s=30" } },
    { .set = { "HOROVOD_STALL_CHECK_DISABLE=perhaps" },
            .status = TUTTI_ERR_CONFIG,
            .words = "HOROVOD_STALL_CHECK_DISABLE" },
#undef STALLS
    /* Of what there is no more. */
    { .set = { "TUTTI_PLAN_ALPHA_US=5" }, .words = "there are no plans any more" },
    { .set = { "TUTTI_PLAN=never" }, .status = TUTTI_ERR_CONFIG, .words = "\"never\"" },
    { .set = { "HOROVOD_CYCLE_TIME=0.1" },
            .words = "HOROVOD_CYCLE_TIME is ignored: tutti acts on events and has no "
                     "cycle "
                     "timer\n" },
};

/* The name and the value of "NAME=value". */
static void cut(const char *text, char name[64], const char **value)
{
    const char *equals = strchr(text, '=');

    (void)snprintf(name, 64, "%.*s", (int)(equals - text), text);
    *value = equals + 1;
}

static void expect_environment(
        struct fixture *fixture, const struct environment_case *c)
{
    char name[64];
    char text[CONFIG_TEXT_MAX + 1];
    const char *value, *words;

    for (int i = 0; c->set[i] != NULL; i++) {
        cut(c->set[i], name, &value);
        assert_int_equal(setenv(name, value, 1), 0);
    }
    assert_int_equal(read_environment(fixture), c->status);
    words = c->status == TUTTI_OK ? fixture->warnings : tutti_last_error();
    if (c->words != NULL && strstr(words, c->words) == NULL) {
        fail_msg("%s: \"%s\" does not say \"%s\"", c->set[0], words, c->words);
    }
    assert_true(c->words == NULL || c->words[0] != '\0' || words[0] == '\0');
    for (int i = 0; c->values[i] != NULL; i++) {
        cut(c->values[i], name, &value);
        assert_true(
                config_format(&fixture->config, config_find(name), text, sizeof text));
        assert_string_equal(text, value);
    }
}

UNIT_TEST(test_variables_of_tutti_and_horovod)
{
    for (size_t i = 0; i < sizeof environments / sizeof *environments; i++) {
        void *fixture;

        assert_int_equal(setup(&fixture), 0);
        expect_environment(fixture, &environments[i]);
        assert_int_equal(teardown(&fixture), 0);
    }
}

TEST(test_warnings_are_kept_whole)
{
    struct fixture *fixture = *state;
    char warnings[60] = "first\n";

    set_variable("HOROVOD_CACHE_CAPACITY", "2048");
    set_variable("TUTTI_ZEBRA", "1");
    assert_int_equal(
            config_from_environment(&fixture->config, warnings, sizeof warnings),
            TUTTI_OK);
    /* The line about Horovod would not fit whole. */
    assert_string_equal(warnings, "first\nTUTTI_ZEBRA names no parameter\n");
}

TEST(test_ignored_parameters_are_said_once)
{
    tutti_config *config = NULL;

    set_variable("TUTTI_PLAN", "auto");
    assert_int_equal(tutti_config_create(&config), TUTTI_OK);
    assert_int_equal(tutti_config_set(config, "spin_us", "1"), TUTTI_OK);
    assert_int_equal(tutti_config_set(config, "plan", "off"), TUTTI_OK);
    assert_string_equal(config->warnings,
            "plan, plan_alpha_us and plan_beta_ns_per_mb are ignored: there are no "
            "plans any more, and nothing needs to be set\n");
    tutti_config_destroy(config);
}

TEST(test_the_object_refuses_what_is_wrong)
{
    tutti_config *config = NULL;
    const char *text = "untouched";

    assert_int_equal(tutti_config_create(NULL), TUTTI_ERR_INVALID);
    assert_int_equal(tutti_config_create(&config), TUTTI_OK);

    assert_int_equal(tutti_config_set(NULL, "spin_us", "1"), TUTTI_ERR_INVALID);
    assert_int_equal(tutti_config_set(config, NULL, "1"), TUTTI_ERR_INVALID);
    assert_int_equal(tutti_config_set(config, "spin_us", NULL), TUTTI_ERR_INVALID);
    assert_int_equal(tutti_config_set(config, "spin_us", "-1"), TUTTI_ERR_CONFIG);
    assert_error_has("spin_us");
    assert_int_equal(tutti_config_set(config, "spin", "1"), TUTTI_ERR_CONFIG);
    assert_error_has("spin_us");
    assert_int_equal(tutti_config_get(NULL, "spin_us", &text), TUTTI_ERR_INVALID);
    assert_int_equal(tutti_config_get(config, NULL, &text), TUTTI_ERR_INVALID);
    assert_int_equal(tutti_config_get(config, "spin_us", NULL), TUTTI_ERR_INVALID);
    assert_int_equal(tutti_config_get(config, "spin", &text), TUTTI_ERR_CONFIG);
    assert_string_equal(text, "untouched");
    assert_int_equal(tutti_config_set_log(NULL, NULL, NULL), TUTTI_ERR_INVALID);

    assert_int_equal(tutti_config_get(config, "spin_us", &text), TUTTI_OK);
    assert_string_equal(text, "50");
    tutti_config_destroy(config);
}

TEST(test_internal_variables_are_no_parameters)
{
    assert_null(config_internal("TUTTI_INTERNAL_FAILURE_PAGE"));
    set_variable("TUTTI_INTERNAL_FAILURE_PAGE", "17");
    assert_string_equal(config_internal("TUTTI_INTERNAL_FAILURE_PAGE"), "17");
    assert_null(config_internal("HOME"));
    assert_string_equal(config_foreign("TUTTI_INTERNAL_FAILURE_PAGE"), "17");
    assert_null(config_foreign("TUTTI_TEST_NOBODY_SETS_THIS"));
}

TEST(test_the_launcher_says_how_many_ranks_there_are)
{
    static const char *const names[] = { "OMPI_COMM_WORLD_SIZE", "PMI_SIZE",
        "SLURM_STEP_NUM_TASKS", "WORLD_SIZE", "RANK", "LOCAL_RANK" };
    static const struct {
        const char *values[6]; /* of the names; NULL: not set */
        int ranks;
        int name;
    } rows[] = {
        { { NULL, NULL, NULL }, 0, -1 },
        { { "4", NULL, NULL }, 4, 0 },
        { { NULL, "3", NULL }, 3, 1 },
        { { NULL, NULL, "2" }, 2, 2 },
        { { "1", NULL, "2" }, 1, 0 },
        { { NULL, "0", "2" }, 2, 2 },
        { { "x", "5000000000", "-1" }, 0, -1 },
        { { NULL, NULL, NULL, "2" }, 0, -1 }, /* hosts, to an operator of Kubernetes */
        { { NULL, NULL, NULL, "2", "0", "0" }, 2, 3 },
        { { NULL, NULL, "4", "2", "0", "0" }, 4, 2 },
    };

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const char *variable = NULL;

        for (int j = 0; j < 6; j++) {
            if (rows[i].values[j] == NULL) {
                assert_int_equal(unsetenv(names[j]), 0);
            } else {
                assert_int_equal(setenv(names[j], rows[i].values[j], 1), 0);
            }
        }
        assert_int_equal(config_launched_ranks(&variable), rows[i].ranks);
        assert_ptr_equal(
                variable == NULL ? NULL : strstr(names[rows[i].name], variable),
                variable == NULL ? NULL : names[rows[i].name]);
    }
    for (int j = 0; j < 6; j++) {
        assert_int_equal(unsetenv(names[j]), 0);
    }
}
