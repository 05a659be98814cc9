/*
 * The configuration file: what its keys set, that the command line wins, and how it is
 * refused.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "launcher/command_line.h"
#include "test/unit/launcher/words.h"
#include "test/unit/unit.h"

static char file_name[32];

static void write_file(const char *text)
{
    int fd;

    (void)snprintf(file_name, sizeof file_name, "/tmp/job.XXXXXX");
    fd = mkstemp(file_name);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    assert_int_equal(close(fd), 0);
}

/* Parses "tuttirun --config-file FILE", more flags, and "prog" with this file. */
static tutti_status parse(
        struct options *options, const char *text, const char *const more[WORDS_MAX])
{
    const char *all[WORDS_MAX + 4] = { "tuttirun", "--config-file", file_name };
    size_t count = 3;
    tutti_status status;

    write_file(text);
    for (size_t i = 0; more[i] != NULL; i++) {
        all[count++] = more[i];
    }
    all[count] = "prog";
    status = words_parse(options, all);
    assert_int_equal(unlink(file_name), 0);
    return status;
}

static void parse_well(
        struct options *options, const char *text, const char *const more[WORDS_MAX])
{
    if (parse(options, text, more) != TUTTI_OK) {
        fail_msg("%s", tutti_last_error());
    }
}

UNIT_TEST(test_keys_are_names_of_flags_and_parameters)
{
    struct options options;

    parse_well(&options,
            "# a job\n"
            "np: 3\n"
            "bind: none\n"
            "mpirun: /x/mpiexec\n"
            "dry-run: yes\n"
            "verbose: false\n"
            "spin_us: 7\n"
            "stall-fail-s: 2.5\n"
            "x: A=1\n",
            WORDS(NULL));
    assert_int_equal(options.np, 3);
    assert_int_equal(options.bind, BIND_NONE);
    assert_string_equal(options.mpirun, "/x/mpiexec");
    assert_true(options.dry_run);
    assert_false(options.verbose);
    assert_int_equal(options.config.spin_us, 7);
    assert_int_equal(options.export.count, 3);
    assert_string_equal(options.export.items[0], "TUTTI_SPIN_US=7");
    assert_string_equal(options.export.items[1], "TUTTI_STALL_FAIL_S=2.5");
    assert_string_equal(options.export.items[2], "A=1");
    assert_string_equal(options.program[0], "prog");
    assert_string_equal(options.config_file, file_name);
    options_fini(&options);
}

UNIT_TEST(test_lists_and_variables)
{
    struct options options;

    parse_well(&options,
            "hosts: [a:2, b]\n"
            "export: [A, B=2 3]\n"
            "mpi-args:\n  - -l\n  - --tag 'x y'\n"
            "env:\n  C: \"4\"\n  D:\n  E: ''\n",
            WORDS(NULL));
    assert_int_equal(options.np, 3);
    assert_int_equal(options.mpi_args.count, 3);
    assert_string_equal(options.mpi_args.items[2], "x y");
    assert_int_equal(options.export.count, 5);
    assert_string_equal(options.export.items[0], "A");
    assert_string_equal(options.export.items[1], "B=2 3");
    assert_string_equal(options.export.items[2], "C=4");
    assert_string_equal(options.export.items[3], "D");
    assert_string_equal(options.export.items[4], "E=");
    options_fini(&options);
}

UNIT_TEST(test_the_command_line_wins)
{
    static const char text[] = "np: 3\nspin_us: 7\nbind: none\nhosts: a:9\n"
                               "env: {A: 1, TUTTI_INFLIGHT: 3}\n";
    struct options options;

    parse_well(&options, text,
            WORDS("-np", "2", "--spin-us=8", "-x", "A=5", "--inflight", "2"));
    assert_int_equal(options.np, 2);
    assert_int_equal(options.config.spin_us, 8);
    assert_int_equal(options.bind, BIND_NONE);
    assert_int_equal(host_list_slots(&options.hosts), 9);
    assert_int_equal(options.export.count, 3);
    assert_string_equal(options.export.items[0], "TUTTI_SPIN_US=8");
    assert_string_equal(options.export.items[1], "A=5");
    assert_string_equal(options.export.items[2], "TUTTI_INFLIGHT=2");
    options_fini(&options);

    parse_well(&options, text, WORDS("-H", "b:4"));
    assert_int_equal(host_list_slots(&options.hosts), 4);
    options_fini(&options);
    parse_well(&options, "np: 1\nhostfile: ./nowhere\n", WORDS("-H", "b:4"));
    options_fini(&options);
}

UNIT_TEST(test_groups_of_horovodrun)
{
    struct options options;

    parse_well(&options,
            "np: 2\n"
            "controller: mpi\n"
            "params:\n"
            "  fusion_threshold_mb: 32\n"
            "  cycle_time_ms: 5\n"
            "  cache_capacity: 128\n"
            "  hierarchical_allreduce: false\n"
            "  torus_allreduce: false\n"
            "  spin_us: 9\n"
            "autotune:\n"
            "  enabled: true\n"
            "  warmup_samples: 3\n"
            "timeline: {mark_cycles: false}\n"
            "stall_check:\n"
            "  warning_time_seconds: 12\n"
            "  shutdown_time_seconds: 24\n"
            "logging:\n"
            "  level: WARNING\n"
            "  with_timestamp: false\n",
            WORDS(NULL));
    assert_int_equal(options.config.fusion_bytes, 32 << 20);
    assert_int_equal(options.config.cache_capacity, 128);
    assert_int_equal(options.config.hierarchy, CONFIG_HIERARCHY_FLAT);
    assert_int_equal(options.config.spin_us, 9);
    assert_true(options.config.stall_warning_s == 12);
    assert_true(options.config.stall_fail_s == 24);
    assert_int_equal(options.notes.count, 3);
    assert_non_null(strstr(options.notes.items[0], ":5: cycle_time_ms"));
    options_fini(&options);

    parse_well(&options, "np: 1\nstall_check: {enabled: no, warning_time_seconds: 5}\n",
            WORDS(NULL));
    assert_true(options.config.stall_warning_s == 0);
    assert_true(options.config.stall_fail_s == 0);
    options_fini(&options);
}

UNIT_TEST(test_a_file_may_be_empty)
{
    static const char *const texts[] = { "", "# nothing\n", "---\n", "---\n...\n",
        "~\n" };

    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        struct options options;

        parse_well(&options, texts[i], WORDS("-np", "1"));
        options_fini(&options);
    }
}

UNIT_TEST(test_refusals_name_file_line_and_key)
{
    static const struct {
        const char *text;
        const char *says[2];
    } cases[] = {
        { .text = "np: 1\nspin_su: 3\n", .says = { ":2: spin_su", "mean spin-us" } },
        { .text = "hostflie: x\n", .says = { ":1: hostflie", "mean hostfile" } },
        { .text = "qqqqqqqqqqqqq: x\n", .says = { ":1: qqq", "names of flags" } },
        { .text = "\nspin_us: x\n", .says = { ":2: spin_us", "1000000" } },
        { .text = "spin_us: 1.5\n", .says = { ":1: spin_us", "1.5" } },
        { .text = "bind: core\n", .says = { ":1: bind core", "auto|none|mpi" } },
        { .text = "np: 0\n", .says = { ":1: np 0", "from 1" } },
        { .text = "np:\n", .says = { ":1: np", "value is missing" } },
        { .text = "np: ~\n", .says = { ":1: np", "value is missing" } },
        { .text = "np: [1, 2]\n", .says = { ":1: np", "not a list" } },
        { .text = "bind: {a: 1}\n", .says = { ":1: bind", "not a list or a group" } },
        { .text = "np: \"1\\0\"\n", .says = { ":1: np", "not a list" } },
        { .text = "np: 1\nnp: 2\n", .says = { ":2: np", "already in line 1" } },
        { .text = "verbose: 2\n", .says = { ":1: verbose 2", "true or false" } },
        { .text = "help: true\n", .says = { ":1: help", "command line" } },
        { .text = "config-file: x\n", .says = { ":1: config-file", "command line" } },
        { .text = "hosts: a\nhostfile: b\n", .says = { ":2: hostfile b", "already" } },
        { .text = "hosts: [a, [b]]\n", .says = { ":1: hosts", "not a list" } },
        { .text = "hosts: a:x\n", .says = { ":1: hosts", "a:x" } },
        { .text = "env: 3\n", .says = { ":1: env", "NAME: value" } },
        { .text = "env:\n  1A: 3\n", .says = { ":2: 1A", "NAME" } },
        { .text = "env:\n  A: [3]\n", .says = { ":2: A", "not a list" } },
        { .text = "params: 3\n", .says = { ":1: params", "keys of its own" } },
        { .text = "params:\n  fusion: 3\n", .says = { ":2: fusion", "is no key" } },
        { .text = "params:\n  fusion_threshold_mb: 3m\n", .says = { ":2:", "3m" } },
        { .text = "autotune:\n  enabled: x\n", .says = { ":2: enabled", "true" } },
        { .text = "timeline: {mark_cycles: true}\n", .says = { ":1: mark", "cycles" } },
        { .text = "controller: gloo\n", .says = { ":1: controller", "MPI" } },
        { .text = "controller: x\n", .says = { ":1: controller x", "mpi|gloo|jsrun" } },
        { .text = "gloo: true\n", .says = { ":1: gloo", "MPI" } },
        { .text = "blacklist_cooldown_range: 2\n", .says = { ":1: bl", "MIN,MAX" } },
        { .text = "- np\n", .says = { "", "np: 4" } },
        { .text = "? [a]\n: 1\n", .says = { ":1", "name of a flag" } },
        { .text = "a: b: c\n", .says = { ":1", "not allowed" } },
        { .text = "np: 1\n\tbind: none\n", .says = { ":", "" } },
        { .text = "np: 1\n---\nnp: 2\n", .says = { ":2", "second" } },
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct options options;
        tutti_status status = parse(&options, cases[i].text, WORDS("-np", "1"));

        if (status == TUTTI_OK || strstr(tutti_last_error(), file_name) == NULL ||
                strstr(tutti_last_error(), cases[i].says[0]) == NULL ||
                strstr(tutti_last_error(), cases[i].says[1]) == NULL) {
            fail_msg("%s\ngave %d: %s", cases[i].text, (int)status, tutti_last_error());
        }
        options_fini(&options);
    }
}

UNIT_TEST(test_true_is_a_flag_without_its_optional_value)
{
    struct options options;

    parse_well(&options, "np: 1\nshow-binding: true\n", WORDS(NULL));
    assert_string_equal(options.show_binding, "text");
    options_fini(&options);
    parse_well(&options, "np: 1\nshow-binding: false\n", WORDS(NULL));
    assert_null(options.show_binding);
    options_fini(&options);
    parse_well(&options, "np: 1\nshow-binding: svg\n", WORDS(NULL));
    options_fini(&options);
}

UNIT_TEST(test_a_file_that_cannot_be_read)
{
    struct options options;

    assert_int_equal(
            words_parse(&options, WORDS("tuttirun", "--config-file", "./nowhere")),
            TUTTI_ERR_SYSTEM);
    assert_non_null(strstr(tutti_last_error(), "cannot read ./nowhere"));
    options_fini(&options);
    assert_int_not_equal(
            words_parse(&options, WORDS("tuttirun", "--config-file=.", "prog")),
            TUTTI_OK);
    options_fini(&options);
    assert_int_equal(parse(&options, "np: 1\n", WORDS("--config-file", "./other")),
            TUTTI_ERR_INVALID);
    assert_non_null(strstr(tutti_last_error(), "one file only"));
    options_fini(&options);
}

UNIT_TEST(test_a_program_of_the_same_words_is_left_alone)
{
    struct options options;

    parse_well(&options, "np: 1\n", WORDS("--", "--config-file", "./nowhere"));
    assert_string_equal(options.program[0], "--config-file");
    options_fini(&options);
}

UNIT_TEST(test_running_out_of_memory_is_an_error)
{
    struct arguments words = { .items = NULL };
    tutti_status status = TUTTI_ERR_NO_MEMORY;
    char *const *argv;
    uint64_t n;

    write_file("np: 2\nmpirun: x\nmpi-args: [a, b]\nspin_us: 4\nenv: {A: 1}\n");
    argv = words_set(&words, WORDS("tuttirun", "--config-file", file_name, "prog"));
    for (n = 0; status == TUTTI_ERR_NO_MEMORY; n++) {
        struct options options;

        mem_fail_at(n + 1);
        status = command_line_parse(&options, argv);
        mem_fail_at(0);
        options_fini(&options);
    }
    assert_int_equal(status, TUTTI_OK);
    assert_true(n > 12); /* each of the values is a copy */
    assert_int_equal(unlink(file_name), 0);
    arguments_fini(&words);
}
