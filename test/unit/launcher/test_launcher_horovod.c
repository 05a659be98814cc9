/*
 * The flags of horovodrun: each is taken or refused by a sentence of its own, and what
 * it is taken for exists.
 */
#include <stdio.h>
#include <string.h>

#include "launcher/command_line.h"
#include "launcher/flags.h"
#include "test/unit/launcher/words.h"
#include "test/unit/unit.h"

#define PARSE(options, ...) \
    words_parse(options, WORDS("tuttirun", "-np", "1", __VA_ARGS__, "prog"))

/* What horovodrun --help lists, from its sources and not from our table. */
static const char *const listed[] = { "version", "np", "num-proc", "cb", "check-build",
    "disable-cache", "start-timeout", "network-interfaces", "network-interface",
    "output-filename", "verbose", "config-file", "ssh-port", "ssh-identity-file",
    "fusion-threshold-mb", "cycle-time-ms", "cache-capacity", "hierarchical-allreduce",
    "no-hierarchical-allreduce", "hierarchical-allgather", "no-hierarchical-allgather",
    "torus-allreduce", "no-torus-allreduce", "autotune", "no-autotune",
    "autotune-log-file", "autotune-warmup-samples", "autotune-steps-per-sample",
    "autotune-bayes-opt-max-samples", "autotune-gaussian-process-noise", "min-np",
    "min-num-proc", "max-np", "max-num-proc", "slots-per-host", "elastic-timeout",
    "reset-limit", "blacklist-cooldown-range", "timeline-filename",
    "timeline-mark-cycles", "no-timeline-mark-cycles", "stall-check", "no-stall-check",
    "stall-check-warning-time-seconds", "stall-check-shutdown-time-seconds",
    "mpi-threads-disable", "no-mpi-threads-disable", "mpi-args", "tcp", "binding-args",
    "num-nccl-streams", "thread-affinity", "gloo-timeout-seconds", "log-level",
    "log-with-timestamp", "log-without-timestamp", "prefix-timestamp",
    "prefix-output-with-timestamp", "hosts", "hostfile", "host-discovery-script",
    "gloo", "mpi", "jsrun", "help" };

/* The keys of its configuration file. */
static const char *const keys[] = { "params.fusion_threshold_mb",
    "params.cycle_time_ms", "params.cache_capacity", "params.hierarchical_allreduce",
    "params.hierarchical_allgather", "params.torus_allreduce", "autotune.enabled",
    "autotune.log_file", "autotune.warmup_samples", "autotune.steps_per_sample",
    "autotune.bayes_opt_max_samples", "autotune.gaussian_process_noise",
    "timeline.filename", "timeline.mark_cycles", "stall_check.enabled",
    "stall_check.warning_time_seconds", "stall_check.shutdown_time_seconds",
    "library_options.mpi_threads_disable", "library_options.num_nccl_streams",
    "library_options.thread_affinity", "library_options.gloo_timeout_seconds",
    "logging.level", "logging.with_timestamp" };

UNIT_TEST(test_every_flag_and_key_is_in_the_table)
{
    for (size_t i = 0; i < sizeof listed / sizeof listed[0]; i++) {
        if (flag_find(listed[i]) == NULL) {
            fail_msg("--%s is missing", listed[i]);
        }
    }
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        if (flag_of_key(keys[i]) == NULL) {
            fail_msg("%s is missing", keys[i]);
        }
    }
}

/* 1 when a flag of this name is missing, or takes a value though none is given it. */
static int complain(const struct flag *flag, const char *name, bool has_value)
{
    const struct flag *ours = flag_find_ours(name);

    if (ours == NULL) {
        print_error("--%s: there is no --%s\n", flag->name, name);
        return 1;
    }
    if (ours->absent == NULL && (ours->argument != NULL) != has_value) {
        print_error("--%s: --%s %s a value\n", flag->name, name,
                has_value ? "does not take" : "takes");
        return 1;
    }
    return 0;
}

UNIT_TEST(test_what_it_is_taken_for_exists)
{
    size_t count;
    const struct flag *flags = flag_rows(&count);
    int missing = 0;

    for (size_t i = 0; i < count; i++) {
        const char *to = flags[i].to == NULL ? "" : flags[i].to;

        while ((to = strstr(to, "--")) != NULL) {
            size_t len = strcspn(to, " ");
            char name[64];

            (void)snprintf(name, sizeof name, "%.*s", (int)len - 2, to + 2);
            to += len;
            missing += complain(&flags[i], name, to[0] == ' ' && to[1] != '-');
        }
        if (flags[i].kind == FLAG_SAME) {
            missing += complain(&flags[i], flags[i].name, flags[i].argument != NULL);
        }
    }
    assert_int_equal(missing, 0);
}

UNIT_TEST(test_every_row_is_whole)
{
    size_t count;
    const struct flag *flags = flag_rows(&count);

    for (size_t i = 0; i < count; i++) {
        const struct flag *flag = &flags[i];
        const bool is_meant = flag->kind == FLAG_IS || flag->kind == FLAG_SAME;

        assert_non_null(flag->help);
        assert_true((flag->to != NULL) == (flag->kind == FLAG_IS));
        assert_true(flag->help[0] != '\0' || is_meant);
        assert_true(flag->off == NULL || flag_find(flag->off) != NULL);
        for (size_t k = 0; flag->kind == FLAG_REFUSED && k < i; k++) {
            assert_string_not_equal(flags[k].help, flag->help);
        }
    }
}

/* Gives each flag a value, if it takes one, that suits most. */
UNIT_TEST(test_each_is_taken_or_refused_with_its_sentence)
{
    size_t count;
    const struct flag *flags = flag_rows(&count);

    for (size_t i = 0; i < count; i++) {
        struct options options;
        char name[FLAG_NAME_LIMIT];
        char flag[FLAG_NAME_LIMIT + 2];
        tutti_status status;

        if (flags[i].kind < FLAG_NOTHING) {
            continue; /* below, and those of other tests */
        }
        (void)snprintf(flag, sizeof flag, "--%s", flag_spell(&flags[i], name));
        status = flags[i].argument == NULL ? PARSE(&options, flag)
                                           : PARSE(&options, flag, "3");
        if (flags[i].kind == FLAG_REFUSED) {
            assert_int_equal(status, TUTTI_ERR_INVALID);
            assert_non_null(strstr(tutti_last_error(), flag));
            assert_non_null(strstr(tutti_last_error(), flags[i].help));
        } else {
            assert_int_equal(status, TUTTI_OK);
            assert_int_equal(
                    options.notes.count, flags[i].kind == FLAG_IGNORED ? 1 : 0);
            assert_string_equal(options.program[0], "prog");
        }
        options_fini(&options);
    }
}

UNIT_TEST(test_values_are_converted)
{
    struct options options;

    assert_int_equal(PARSE(&options, "--fusion-threshold-mb", "64", "--no-stall-check",
                             "--log-level", "WARNING"),
            TUTTI_OK);
    assert_int_equal(options.config.fusion_bytes, 64 << 20);
    assert_true(options.config.stall_warning_s == 0);
    assert_true(options.config.stall_fail_s == 0);
    assert_int_equal(options.export.count, 4);
    assert_string_equal(options.export.items[3], "TUTTI_LOG_LEVEL=warn");
    options_fini(&options);

    assert_int_equal(PARSE(&options, "--fusion-threshold-mb=0", "--log-level=FATAL",
                             "--stall-check-warning-time-seconds=9",
                             "--stall-check-shutdown-time-seconds=11",
                             "--no-hierarchical-allreduce"),
            TUTTI_OK);
    assert_int_equal(options.config.fusion_bytes, 1);
    assert_string_equal(options.export.items[1], "TUTTI_LOG_LEVEL=error");
    assert_true(options.config.stall_warning_s == 9);
    assert_true(options.config.stall_fail_s == 11);
    assert_int_equal(options.config.hierarchy, CONFIG_HIERARCHY_FLAT);
    options_fini(&options);

    assert_int_equal(PARSE(&options, "--log-level", "TRACE", "--cb"), TUTTI_OK);
    assert_true(options.version);
    assert_true(options.verbose);
    options_fini(&options);
}

UNIT_TEST(test_binding_arguments_go_to_mpirun)
{
    struct options options;

    assert_int_equal(PARSE(&options, "--binding-args=--rankfile r"), TUTTI_OK);
    assert_int_equal(options.bind, BIND_MPI);
    assert_int_equal(options.mpi_args.count, 2);
    assert_string_equal(options.mpi_args.items[1], "r");
    options_fini(&options);
}

UNIT_TEST(test_mpi_stands_alone_or_before_a_name)
{
    struct options options;

    assert_int_equal(PARSE(&options, "--mpi"), TUTTI_OK);
    assert_string_equal(options.program[0], "prog");
    options_fini(&options);
    assert_int_equal(PARSE(&options, "--mpi", "--verbose"), TUTTI_OK);
    assert_true(options.verbose);
    options_fini(&options);
    assert_int_equal(PARSE(&options, "--mpi", "mpich"), TUTTI_OK);
    assert_int_equal(options.engine, STARTER_MPICH);
    assert_string_equal(options.program[0], "prog");
    options_fini(&options);
}

UNIT_TEST(test_malformed_values_name_the_flag_that_was_given)
{
    static const char *const words[][2] = {
        { "--fusion-threshold-mb", "x" },
        { "--fusion-threshold-mb", "-3" },
        { "--fusion-threshold-mb", "99999999999999" },
        { "--stall-check-warning-time-seconds", "-1" },
        { "--stall-check-shutdown-time-seconds", "1e9" },
        { "--log-level", "LOUD" },
    };

    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        struct options options;

        assert_int_not_equal(PARSE(&options, words[i][0], words[i][1]), TUTTI_OK);
        assert_non_null(strstr(tutti_last_error(), words[i][0]));
        options_fini(&options);
    }
}
