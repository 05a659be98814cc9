/*
 * Command lines of tuttirun, its own flags and those of horovodrun, and configuration files.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "launcher/flags.h"
#include "launcher/options.h"
#include "test/unit/launcher/cases.h"
#include "test/unit/launcher/words.h"

#define PARSE(options, ...) words_parse(options, WORDS("tuttirun", __VA_ARGS__))

static void add(char *out, const char *name, const char *value)
{
    if (value != NULL) {
        (void)sprintf(out + strlen(out), "%s %s; ", name, value);
    }
}

static void add_list(char *out, const char *name, const struct arguments *list)
{
    char *line = arguments_quote(list);

    add(out, name, list->count > 0 ? line : NULL);
    mem_free(line);
}

/* What the options say; parameters and hosts when they were given. */
static void show(const struct options *options, char *out)
{
    const struct config *config = &options->config;
    struct arguments program = { .items = NULL };

    (void)sprintf(out, "np %d; engine %d; bind %d; %s%s%s%s", options->np,
            options->engine, options->bind, options->dry_run ? "dry-run; " : "",
            options->verbose ? "verbose; " : "", options->version ? "version; " : "",
            options->gpus_visible == GPUS_ONE ? "gpus one; " : "");
    add(out, "help", options->help);
    add(out, "show", options->show_binding);
    add(out, "mpirun", options->mpirun);
    add_list(out, "mpi-args", &options->mpi_args);
    add_list(out, "export", &options->export);
    if (options->export.count > 0) {
        (void)sprintf(out + strlen(out),
                "spin_us %d; fusion_bytes %zu; cache %d; stall %g %g; %s; ",
                (int)config->spin_us, (size_t)config->fusion_bytes,
                (int)config->cache_capacity, config->stall_warning_s,
                config->stall_fail_s,
                config->hierarchy == CONFIG_HIERARCHY_FLAT ? "flat" : "not flat");
    }
    if (options->hosts.count > 0) {
        (void)sprintf(
                out + strlen(out), "slots %d; ", host_list_slots(&options->hosts));
    }
    if (options->notes.count > 0) {
        (void)sprintf(out + strlen(out), "%zu notes: %s; ", options->notes.count,
                options->notes.items[0]);
    }
    if (options->program != NULL && options->program[0] != NULL) {
        arguments_add_all(&program, options->program);
        add_list(out, "program", &program);
        arguments_fini(&program);
    }
    out[strlen(out) - 1] = '\0';
}

/* Reads "tuttirun" and these words, of which `more` come first. */
static void parse(const char *const *more, const char *text, char *out)
{
    struct arguments words = { .items = NULL };
    struct options options;

    arguments_add(&words, "tuttirun");
    for (; *more != NULL; more++) {
        arguments_add(&words, *more);
    }
    arguments_add_all(&words, cases_words(text));
    if (command_line_parse(&options, words.items) == TUTTI_OK) {
        show(&options, out);
    } else {
        cases_refused(out);
    }
    options_fini(&options);
    arguments_fini(&words);
}

UNIT_CASES(test_command_lines, "command lines")
{
    static const char *const none[] = { NULL };

    parse(none, in, out);
}

static void write_file(char path[16], const char *text)
{
    int fd;

    (void)strcpy(path, "job.XXXXXX");
    fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    assert_int_equal(close(fd), 0);
}

UNIT_CASES(test_configuration_files, "configuration files")
{
    char path[16];
    const char *const more[] = { "--config-file", path, NULL };
    char *bar = strrchr(in, '|');

    assert_non_null(bar);
    *bar = '\0';
    write_file(path, in);
    parse(more, bar + 1, out);
    assert_int_equal(unlink(path), 0);
    assert_true(out[0] != '!' || strstr(out, path) != NULL || strstr(out, "one file"));
}

UNIT_TEST(test_every_parameter_of_the_library_is_a_flag)
{
    size_t count;
    const struct config_row *rows = config_rows(&count);

    assert_true(count > 0);
    for (size_t i = 0; i < count; i++) {
        struct options options;
        char name[FLAG_NAME_LIMIT];
        char variable[64];
        char flag[80];
        char expected[200];

        (void)snprintf(flag, sizeof flag, "--%s",
                flag_spell(flag_find_ours(rows[i].name), name));
        (void)snprintf(expected, sizeof expected, "%s=%s",
                options_variable(rows[i].name, variable, sizeof variable),
                rows[i].initial);
        assert_int_equal(
                PARSE(&options, "-np", "1", flag, rows[i].initial, "prog"), TUTTI_OK);
        assert_int_equal(options.export.count, 1);
        assert_string_equal(options.export.items[0], expected);
        options_fini(&options);
    }
}

UNIT_TEST(test_no_flag_hides_another)
{
    size_t count;
    const struct flag *rows = flag_rows(&count);

    for (size_t i = 0; i < count; i++) {
        const struct flag *flag = &rows[i];

        if (flag_is_ours(flag)) {
            assert_ptr_equal(flag_find(flag->name), flag);
            assert_ptr_equal(flag_find_ours(flag->name), flag);
            assert_true(flag->letter == '\0' || flag_of_letter(flag->letter) == flag);
            assert_true(flag->alias == NULL || flag_find(flag->alias) == flag);
        } else if (flag->kind == FLAG_PARAMETER) {
            assert_ptr_equal(flag_find_ours(flag->name), flag);
        }
    }
}

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
        status = flags[i].argument == NULL
                ? PARSE(&options, "-np", "1", flag, "prog")
                : PARSE(&options, "-np", "1", flag, "3", "prog");
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

UNIT_TEST(test_configuration_files_that_cannot_be_read)
{
    struct options options;

    assert_int_equal(PARSE(&options, "--config-file", "./nowhere"), TUTTI_ERR_SYSTEM);
    assert_non_null(strstr(tutti_last_error(), "cannot read ./nowhere"));
    options_fini(&options);
    assert_int_not_equal(PARSE(&options, "--config-file=.", "prog"), TUTTI_OK);
    options_fini(&options);
}

UNIT_TEST(test_running_out_of_memory_is_an_error)
{
    struct arguments words = { .items = NULL };
    tutti_status status = TUTTI_ERR_NO_MEMORY;
    char path[16];
    char *const *argv;
    uint64_t n;

    write_file(path, "np: 2\nmpirun: x\nmpi-args: [a, b]\nspin_us: 4\nenv: {A: 1}\n");
    argv = words_set(&words, WORDS("tuttirun", "--config-file", path, "prog"));
    for (n = 0; status == TUTTI_ERR_NO_MEMORY; n++) {
        struct options options;

        mem_fail_at(n + 1);
        status = command_line_parse(&options, argv);
        mem_fail_at(0);
        options_fini(&options);
    }
    assert_int_equal(status, TUTTI_OK);
    assert_true(n > 12); /* each of the values is a copy */
    assert_int_equal(unlink(path), 0);
    arguments_fini(&words);
}
