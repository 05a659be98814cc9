/*
 * The command line of tuttirun: forms of flags, values, and what is refused how.
 */
#include <stdio.h>
#include <string.h>

#include "launcher/command_line.h"
#include "launcher/flags.h"
#include "launcher/help.h"
#include "test/unit/launcher/words.h"
#include "test/unit/unit.h"

#define PARSE(options, ...) words_parse(options, WORDS("tuttirun", __VA_ARGS__))

UNIT_TEST(test_ranks_and_program)
{
    static const struct {
        const char *words[WORDS_MAX];
        int ranks;
        const char *program[3];
    } cases[] = {
        { { "tuttirun", "-np", "3", "prog" }, 3, { "prog" } },
        { { "tuttirun", "-n", "3", "prog" }, 3, { "prog" } },
        { { "tuttirun", "-n3", "prog" }, 3, { "prog" } },
        { { "tuttirun", "--np", "3", "prog" }, 3, { "prog" } },
        { { "tuttirun", "--np=3", "prog" }, 3, { "prog" } },
        { { "tuttirun", "-np=3", "prog" }, 3, { "prog" } },
        { { "tuttirun", "--num-proc", "3", "prog" }, 3, { "prog" } },
        { { "tuttirun", "-num-proc=3", "prog" }, 3, { "prog" } },
        /* Flags behind the program are the program's. */
        { { "tuttirun", "-np", "2", "prog", "-np", "--help" }, 2,
                { "prog", "-np", "--help" } },
        { { "tuttirun", "-np", "2", "--", "-prog" }, 2, { "-prog" } },
        /* By default, the slots of the hosts. */
        { { "tuttirun", "-H", "a:2,b:3", "prog" }, 5, { "prog" } },
        { { "tuttirun", "-Ha:4", "-np", "3", "prog" }, 3, { "prog" } },
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct options options;
        size_t count = 0;

        assert_int_equal(words_parse(&options, cases[i].words), TUTTI_OK);
        assert_int_equal(options.np, cases[i].ranks);
        assert_null(options.help);
        for (; count < 3 && cases[i].program[count] != NULL; count++) {
            assert_string_equal(options.program[count], cases[i].program[count]);
        }
        assert_null(options.program[count]);
        options_fini(&options);
    }
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

UNIT_TEST(test_the_last_value_of_a_parameter_counts)
{
    struct options options;

    assert_int_equal(PARSE(&options, "-np", "1", "--spin-us", "5", "-x", "A=1",
                             "--spin_us=7", "-xA", "prog"),
            TUTTI_OK);
    assert_int_equal(options.config.spin_us, 7);
    assert_int_equal(options.export.count, 2);
    assert_string_equal(options.export.items[0], "TUTTI_SPIN_US=7");
    assert_string_equal(options.export.items[1], "A");
    options_fini(&options);
}

UNIT_TEST(test_other_flags_are_read)
{
    struct options options;

    assert_int_equal(
            PARSE(&options, "-np", "1", "--mpi", "mpich", "--mpirun", "/x/mpiexec",
                    "--mpi-args", "-l -v", "-v", "--bind=none", "prog"),
            TUTTI_OK);
    assert_int_equal(options.engine, STARTER_MPICH);
    assert_string_equal(options.mpirun, "/x/mpiexec");
    assert_int_equal(options.mpi_args.count, 2);
    assert_int_equal(options.bind, BIND_NONE);
    assert_true(options.verbose);
    assert_false(options.dry_run);
    options_fini(&options);
}

UNIT_TEST(test_help_and_version_need_nothing_else)
{
    struct options options;

    assert_int_equal(PARSE(&options, "--help"), TUTTI_OK);
    assert_non_null(options.help);
    options_fini(&options);
    assert_int_equal(PARSE(&options, "-V", "--bogus"), TUTTI_OK);
    assert_true(options.version);
    options_fini(&options);
}

static const struct {
    const char *words[WORDS_MAX];
    const char *says[2];
} refusals[] = {
    { .words = { "tuttirun", "-np", "2" }, .says = { "no program", "--help" } },
    { .words = { "tuttirun", "-np" }, .says = { "-np", "value is missing" } },
    { .words = { "tuttirun", "-np", "0", "prog" }, .says = { "-np 0", "from 1" } },
    { .words = { "tuttirun", "-np", "-3", "prog" }, .says = { "-np -3", "from 1" } },
    { .words = { "tuttirun", "-np", "2x", "prog" }, .says = { "-np 2x", "from 1" } },
    { .words = { "tuttirun", "--np=9999999999", "prog" },
            .says = { "--np", "1048576" } },
    { .words = { "tuttirun", "-np", "prog" }, .says = { "-np prog", "from 1" } },
    { .words = { "tuttirun", "--hostfle", "x" },
            .says = { "--hostfle", "--hostfile" } },
    { .words = { "tuttirun", "--spin-su", "4" }, .says = { "--spin-su", "--spin-us" } },
    { .words = { "tuttirun", "--qqqqqqqqqqq" },
            .says = { "unknown option", "--help" } },
    { .words = { "tuttirun", "-q" }, .says = { "unknown option -q", "--help" } },
    { .words = { "tuttirun", "-vx", "prog" }, .says = { "unknown option -vx", "" } },
    { .words = { "tuttirun", "--dry-run=1", "prog" },
            .says = { "--dry-run", "no value" } },
    { .words = { "tuttirun", "--spin-us", "x", "prog" },
            .says = { "--spin-us", "1000000" } },
    { .words = { "tuttirun", "--strict=x", "./prog" }, .says = { "--strict", "true" } },
    { .words = { "tuttirun", "-H", "a:x", "prog" }, .says = { "a:x", "slots" } },
    { .words = { "tuttirun", "-H", "a:2,b", "-np", "4", "prog" },
            .says = { "-np 4", "3 slots" } },
    { .words = { "tuttirun", "-H", "a", "-H", "b", "p" },
            .says = { "-H b", "already" } },
    { .words = { "tuttirun", "-H", "a", "--hostfile", "b", "p" },
            .says = { "--hostfile b", "already" } },
    { .words = { "tuttirun", "--hostfile", "./none", "p" },
            .says = { "./none", "No such" } },
    { .words = { "tuttirun", "--mpi=lam", "p" }, .says = { "--mpi lam", "openmpi" } },
    { .words = { "tuttirun", "--bind", "core", "p" },
            .says = { "--bind core", "auto" } },
    { .words = { "tuttirun", "--mpirun", "", "p" }, .says = { "--mpirun", "empty" } },
    { .words = { "tuttirun", "--mpi-args", "'a", "p" },
            .says = { "--mpi-args", "quote" } },
    { .words = { "tuttirun", "-x", "=1", "p" }, .says = { "-x =1", "NAME" } },
    { .words = { "tuttirun", "-x", "1A=1", "p" }, .says = { "-x 1A=1", "NAME" } },
    { .words = { "tuttirun", "-x", "A-B", "p" }, .says = { "-x A-B", "NAME" } },
    { .words = { "tuttirun", "--only-ranks", "x", "p" },
            .says = { "--only-ranks x", "" } },
    { .words = { "tuttirun", "--timeout", "-1", "p" }, .says = { "--timeout -1", "" } },
    { .words = { "tuttirun", "--heartbeat-ms", "0", "p" }, .says = { "-ms 0: ", "" } },
    { .words = { "tuttirun", "--grace-ms", "x", "p" }, .says = { "--grace-ms x", "" } },
    { .words = { "tuttirun", "--heartbeat-timeout", "0" }, .says = { "out 0: ", "" } },
    { .words = { "tuttirun", "--heartbeat-timeout", "86401" },
            .says = { "86401: ", "" } },
    { .words = { "tuttirun", "--output-rate", "x", "p" },
            .says = { "-rate x: ", "64k" } },
    { .words = { "tuttirun", "--prefix", "maybe", "p" },
            .says = { "--prefix maybe", "" } },
    /* Two that contradict each other, one of them by default. */
    { .words = { "tuttirun", "--heartbeat-ms", "30001", "-np", "1", "p" },
            .says = { "--heartbeat-timeout 60", "shorter than 2 heartbeats" } },
};

UNIT_TEST(test_refusals_name_the_flag_and_the_way_out)
{
    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++) {
        struct options options;

        assert_int_not_equal(words_parse(&options, refusals[i].words), TUTTI_OK);
        if (strstr(tutti_last_error(), refusals[i].says[0]) == NULL ||
                strstr(tutti_last_error(), refusals[i].says[1]) == NULL) {
            fail_msg("%s: %s", refusals[i].words[1], tutti_last_error());
        }
        options_fini(&options);
    }
}

/* The text of --help about a topic; static storage. */
static const char *help_text(const char *topic)
{
    static char text[32768];
    FILE *file = fmemopen(text, sizeof text, "w");

    assert_non_null(file);
    assert_int_equal(help_print(file, topic), TUTTI_OK);
    assert_int_equal(fclose(file), 0);
    return text;
}

UNIT_TEST(test_help_lists_every_flag)
{
    const char *text = help_text("all");
    size_t count;
    const struct flag *rows = flag_rows(&count);
    char name[FLAG_NAME_LIMIT];
    char option[FLAG_NAME_LIMIT + 2];

    for (size_t i = 0; i < count; i++) {
        if (rows[i].kind == FLAG_GROUP) {
            assert_non_null(strstr(text, rows[i].help));
        } else if (flag_is_ours(&rows[i]) || rows[i].kind == FLAG_PARAMETER) {
            (void)snprintf(option, sizeof option, "--%s", flag_spell(&rows[i], name));
            assert_non_null(strstr(text, option));
            assert_true(rows[i].argument == NULL || strstr(text, rows[i].argument));
        }
    }
}

UNIT_TEST(test_help_fits_a_terminal)
{
    const char *line = help_text("all");

    while (*line != '\0') {
        size_t len = strcspn(line, "\n");

        assert_in_range(len, 0, 88);
        line += len + 1;
    }
}

UNIT_TEST(test_help_about_a_topic)
{
    static char nothing[64];
    FILE *file = fmemopen(nothing, sizeof nothing, "w");

    assert_non_null(strstr(help_text(""), "--help parameters"));
    assert_null(strstr(help_text(""), "--spin-us"));
    assert_null(strstr(help_text("parameters"), "--hostfile"));
    assert_non_null(strstr(help_text("bind"), "--bind HOW"));
    assert_non_null(strstr(help_text("--spin_us"), "1000000"));
    assert_non_null(strstr(help_text("n"), "--np"));
    assert_non_null(strstr(help_text("gloo"), "refused"));
    assert_int_equal(help_print(file, "hostfle"), TUTTI_ERR_INVALID);
    assert_non_null(strstr(tutti_last_error(), "did you mean hostfile"));
    assert_int_equal(help_print(file, "qqqqqqqqq"), TUTTI_ERR_INVALID);
    assert_non_null(strstr(tutti_last_error(), "parameters, all"));
    assert_int_equal(fclose(file), 0);
}

UNIT_TEST(test_topics_follow_help)
{
    static const char *const forms[][2] = { { "--help", "bind" }, { "-h", "bind" },
        { "--help=bind", NULL } };
    struct options options;

    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        assert_int_equal(PARSE(&options, forms[i][0], forms[i][1]), TUTTI_OK);
        assert_string_equal(options.help, "bind");
        options_fini(&options);
    }
    assert_int_equal(PARSE(&options, "--version", "--verbose"), TUTTI_OK);
    assert_true(options.verbose);
    options_fini(&options);
}
