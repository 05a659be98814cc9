/*
 * Configuration: the table, values from text, the environment, and the public object.
 * Every test starts with an environment without TUTTI_ and HOROVOD_ variables.
 */
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
        { "backend", "nccl", "one of auto|shm|mpi|vendor" },
        { "backend", "", "auto|shm|mpi|vendor" },
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

TEST(test_variables_set_parameters)
{
    struct fixture *fixture = *state;

    set_variable("TUTTI_FUSION_BYTES", "2m");
    set_variable("TUTTI_HOST_ID", "here");
    set_variable("TUTTI_BACKGROUND_THREAD", "off");
    set_variable("TUTTI_INTERNAL_ANYTHING", "x");
    set_variable("TUTTI_LOCAL_DEVICE", "0");

    assert_int_equal(read_environment(fixture), TUTTI_OK);
    assert_int_equal(fixture->config.fusion_bytes, 2097152);
    assert_string_equal(fixture->config.host_id, "here");
    assert_false(fixture->config.background_thread);
    assert_string_equal(fixture->warnings, "");
}

TEST(test_a_bad_variable_fails_and_changes_nothing)
{
    struct fixture *fixture = *state;

    set_variable("TUTTI_FUSION_BYTES", "2m");
    set_variable("TUTTI_STALL_FAIL_S", "soon");

    assert_int_equal(read_environment(fixture), TUTTI_ERR_CONFIG);
    assert_string_equal(tutti_last_error(),
            "TUTTI_STALL_FAIL_S: stall_fail_s cannot be \"soon\": it takes a number in "
            "0..86400");
    assert_int_equal(fixture->config.fusion_bytes, 0);

    /* Empty is not the same as unset. */
    set_variable("TUTTI_STALL_FAIL_S", "");
    assert_int_equal(read_environment(fixture), TUTTI_ERR_CONFIG);
    assert_error_has("TUTTI_STALL_FAIL_S");
}

TEST(test_an_unknown_variable_is_a_warning)
{
    struct fixture *fixture = *state;

    set_variable("TUTTI_FUSION_BYTE", "2m");
    set_variable("TUTTI_fusion_bytes", "2m");
    assert_int_equal(read_environment(fixture), TUTTI_OK);

    assert_non_null(strstr(fixture->warnings,
            "TUTTI_FUSION_BYTE names no parameter; did you mean "
            "TUTTI_FUSION_BYTES?\n"));
    assert_non_null(strstr(fixture->warnings, "TUTTI_fusion_bytes names no parameter"));
    assert_int_equal(fixture->config.fusion_bytes, 0);
}

TEST(test_an_unknown_variable_is_an_error_when_strict)
{
    set_variable("TUTTI_ZEBRA", "1");
    set_variable("TUTTI_STRICT", "1");
    assert_int_equal(read_environment(*state), TUTTI_ERR_CONFIG);
    assert_string_equal(tutti_last_error(), "TUTTI_ZEBRA names no parameter");
}

TEST(test_horovods_variables_are_read_and_said)
{
    struct fixture *fixture = *state;

    set_variable("HOROVOD_FUSION_THRESHOLD", "134217728");
    set_variable("HOROVOD_CACHE_CAPACITY", "2048");
    set_variable("HOROVOD_STALL_CHECK_TIME_SECONDS", "30");
    set_variable("HOROVOD_STALL_SHUTDOWN_TIME_SECONDS", "600");
    set_variable("HOROVOD_TIMELINE", "/somewhere");

    assert_int_equal(read_environment(fixture), TUTTI_OK);
    assert_int_equal(fixture->config.fusion_bytes, 134217728);
    assert_int_equal(fixture->config.cache_capacity, 2048);
    assert_true(fixture->config.stall_warning_s == 30);
    assert_true(fixture->config.stall_fail_s == 600);
    assert_string_equal(fixture->warnings,
            "HOROVOD_FUSION_THRESHOLD is read as TUTTI_FUSION_BYTES\n"
            "HOROVOD_CACHE_CAPACITY is read as TUTTI_CACHE_CAPACITY\n"
            "HOROVOD_STALL_CHECK_TIME_SECONDS is read as TUTTI_STALL_WARNING_S\n"
            "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS is read as TUTTI_STALL_FAIL_S\n"
            "HOROVOD_TIMELINE is read as TUTTI_TIMELINE\n");
}

TEST(test_tuttis_variables_win_over_horovods)
{
    struct fixture *fixture = *state;

    set_variable("HOROVOD_FUSION_THRESHOLD", "1000");
    set_variable("TUTTI_FUSION_BYTES", "2000");
    assert_int_equal(read_environment(fixture), TUTTI_OK);
    assert_int_equal(fixture->config.fusion_bytes, 2000);
}

TEST(test_horovods_values_are_translated)
{
    static const struct {
        const char *variable, *text, *name, *formatted;
    } cases[] = {
        { "HOROVOD_LOG_LEVEL", "trace", "log_level", "trace" },
        { "HOROVOD_LOG_LEVEL", "DEBUG", "log_level", "debug" },
        { "HOROVOD_LOG_LEVEL", "info", "log_level", "info" },
        { "HOROVOD_LOG_LEVEL", "Warning", "log_level", "warn" },
        { "HOROVOD_LOG_LEVEL", "error", "log_level", "error" },
        { "HOROVOD_LOG_LEVEL", "fatal", "log_level", "error" },
        /* Off there; here a limit that nothing fits. */
        { "HOROVOD_FUSION_THRESHOLD", "0", "fusion_bytes", "1" },
    };
    struct fixture *fixture = *state;
    char text[CONFIG_TEXT_MAX + 1];

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        set_variable(cases[i].variable, cases[i].text);
        assert_int_equal(read_environment(fixture), TUTTI_OK);
        assert_true(config_format(
                &fixture->config, config_find(cases[i].name), text, sizeof text));
        assert_string_equal(text, cases[i].formatted);
    }
    set_variable("HOROVOD_LOG_LEVEL", "loud");
    assert_int_equal(read_environment(fixture), TUTTI_ERR_CONFIG);
    assert_error_has("HOROVOD_LOG_LEVEL");
    assert_error_has("loud");
}

TEST(test_horovods_stall_check_can_be_disabled)
{
    static const char *const yes[] = { "1", "2", "true", "on" };
    static const char *const no[] = { "0", "-1", "false" };
    struct fixture *fixture = *state;
    size_t i;

    set_variable("HOROVOD_STALL_CHECK_TIME_SECONDS", "30");
    set_variable("HOROVOD_STALL_SHUTDOWN_TIME_SECONDS", "600");
    for (i = 0; i < sizeof yes / sizeof *yes; i++) {
        set_variable("HOROVOD_STALL_CHECK_DISABLE", yes[i]);
        assert_int_equal(read_environment(fixture), TUTTI_OK);
        assert_true(fixture->config.stall_warning_s == 0);
        assert_true(fixture->config.stall_fail_s == 0);
    }
    for (i = 0; i < sizeof no / sizeof *no; i++) {
        set_variable("HOROVOD_STALL_CHECK_DISABLE", no[i]);
        assert_int_equal(read_environment(fixture), TUTTI_OK);
        assert_true(fixture->config.stall_warning_s == 30);
    }
    set_variable("HOROVOD_STALL_CHECK_DISABLE", "perhaps");
    assert_int_equal(read_environment(fixture), TUTTI_ERR_CONFIG);
    assert_error_has("HOROVOD_STALL_CHECK_DISABLE");
    assert_error_has("perhaps");
}

TEST(test_horovods_cycle_time_is_ignored_aloud)
{
    struct fixture *fixture = *state;

    set_variable("HOROVOD_CYCLE_TIME", "0.1");
    assert_int_equal(read_environment(fixture), TUTTI_OK);
    assert_string_equal(fixture->warnings,
            "HOROVOD_CYCLE_TIME is ignored: tutti acts on events and has no cycle "
            "timer\n");
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
        "SLURM_STEP_NUM_TASKS" };
    static const struct {
        const char *values[3]; /* of the names; NULL: not set */
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
    };

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const char *variable = NULL;

        for (int j = 0; j < 3; j++) {
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
    for (int j = 0; j < 3; j++) {
        assert_int_equal(unsetenv(names[j]), 0);
    }
}
