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

enum {
    EXIT_TEXT_MAX = 12
};

/* The command line parsed last, which its options borrow. */
static struct arguments command_line;

static int free_command_line(void **state)
{
    (void)state;
    arguments_fini(&command_line);
    return 0;
}

/* Parses "tuttirun" and these words. */
static tutti_status parse(
        struct options *options, const char *const words[EXIT_TEXT_MAX])
{
    const char *all[EXIT_TEXT_MAX + 2] = { "tuttirun" };

    for (size_t i = 0; words[i] != NULL; i++) {
        all[i + 1] = words[i];
    }
    return command_line_parse(options, exit_text_set(&command_line, all));
}

#define WORDS(...) ((const char *const[EXIT_TEXT_MAX]){ __VA_ARGS__ })

static void test_number_of_ranks_in_all_forms(void **state)
{
    static const char *const forms[][2] = {
        { "-np", "3" },
        { "-n", "3" },
        { "-n3", NULL },
        { "--np", "3" },
        { "--np=3", NULL },
        { "-np=3", NULL },
        { "--num-proc", "3" },
        { "-num-proc=3", NULL },
    };

    (void)state;
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        struct options options;
        const char *const first[EXIT_TEXT_MAX] = { forms[i][0],
            forms[i][1] != NULL ? forms[i][1] : "prog",
            forms[i][1] != NULL ? "prog" : NULL };

        assert_int_equal(parse(&options, first), TUTTI_OK);
        assert_int_equal(options.np, 3);
        assert_string_equal(options.program[0], "prog");
        assert_null(options.program[1]);
        options_fini(&options);
    }
}

static void test_flags_of_the_program_are_left_to_it(void **state)
{
    struct options options;

    (void)state;
    assert_int_equal(
            parse(&options, WORDS("-np", "2", "prog", "-np", "9", "--help", NULL)),
            TUTTI_OK);
    assert_int_equal(options.np, 2);
    assert_null(options.help);
    assert_string_equal(options.program[1], "-np");
    assert_string_equal(options.program[3], "--help");
    options_fini(&options);
}

static void test_two_dashes_end_the_flags(void **state)
{
    struct options options;

    (void)state;
    assert_int_equal(parse(&options, WORDS("-np", "2", "--", "-prog", NULL)), TUTTI_OK);
    assert_string_equal(options.program[0], "-prog");
    options_fini(&options);
}

static void test_ranks_default_to_the_slots_of_the_hosts(void **state)
{
    struct options options;

    (void)state;
    assert_int_equal(parse(&options, WORDS("-H", "a:2,b:3", "prog", NULL)), TUTTI_OK);
    assert_int_equal(options.np, 5);
    options_fini(&options);
    assert_int_equal(
            parse(&options, WORDS("-Ha:4", "-np", "3", "prog", NULL)), TUTTI_OK);
    assert_int_equal(options.np, 3);
    options_fini(&options);
}

static void test_more_ranks_than_slots_names_both(void **state)
{
    struct options options;

    (void)state;
    assert_int_equal(parse(&options, WORDS("-H", "a:2,b", "-np", "4", "prog", NULL)),
            TUTTI_ERR_INVALID);
    assert_non_null(strstr(tutti_last_error(), "-np 4"));
    assert_non_null(strstr(tutti_last_error(), "3 slots"));
    options_fini(&options);
}

static void test_every_parameter_of_the_library_is_a_flag(void **state)
{
    size_t count;
    const struct config_row *rows = config_rows(&count);

    (void)state;
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
                parse(&options, WORDS("-np", "1", flag, rows[i].initial, "prog", NULL)),
                TUTTI_OK);
        assert_int_equal(options.export.count, 1);
        assert_string_equal(options.export.items[0], expected);
        options_fini(&options);
    }
}

static void test_no_flag_hides_another(void **state)
{
    size_t count;
    const struct flag *rows = flag_rows(&count);

    (void)state;
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

static void test_the_last_value_of_a_parameter_counts(void **state)
{
    struct options options;

    (void)state;
    assert_int_equal(parse(&options,
                             WORDS("-np", "1", "--spin-us", "5", "-x", "A=1",
                                     "--spin_us=7", "-xA", "prog", NULL)),
            TUTTI_OK);
    assert_int_equal(options.config.spin_us, 7);
    assert_int_equal(options.export.count, 2);
    assert_string_equal(options.export.items[0], "TUTTI_SPIN_US=7");
    assert_string_equal(options.export.items[1], "A");
    options_fini(&options);
}

static void test_other_flags_are_read(void **state)
{
    struct options options;

    (void)state;
    assert_int_equal(
            parse(&options,
                    WORDS("-np", "1", "--mpi", "mpich", "--mpirun", "/x/mpiexec",
                            "--mpi-args", "-l -v", "-v", "--bind=none", "prog", NULL)),
            TUTTI_OK);
    assert_int_equal(options.engine, STARTER_MPICH);
    assert_string_equal(options.mpirun, "/x/mpiexec");
    assert_int_equal(options.mpi_args.count, 2);
    assert_int_equal(options.bind, BIND_NONE);
    assert_true(options.verbose);
    assert_false(options.dry_run);
    options_fini(&options);
}

static void test_help_and_version_need_nothing_else(void **state)
{
    struct options options;

    (void)state;
    assert_int_equal(parse(&options, WORDS("--help", NULL)), TUTTI_OK);
    assert_non_null(options.help);
    options_fini(&options);
    assert_int_equal(parse(&options, WORDS("-V", "--bogus", NULL)), TUTTI_OK);
    assert_true(options.version);
    options_fini(&options);
}

static void test_refusals_name_the_flag_and_the_way_out(void **state)
{
    static const struct {
        const char *words[EXIT_TEXT_MAX];
        const char *says[2];
    } cases[] = {
        { .words = { "-np", "2" }, .says = { "no program", "--help" } },
        { .words = { "-np" }, .says = { "-np", "value is missing" } },
        { .words = { "-np", "0", "prog" }, .says = { "-np 0", "from 1" } },
        { .words = { "-np", "-3", "prog" }, .says = { "-np -3", "from 1" } },
        { .words = { "-np", "2x", "prog" }, .says = { "-np 2x", "from 1" } },
        { .words = { "--np=9999999999", "prog" }, .says = { "--np", "1048576" } },
        { .words = { "-np", "prog" }, .says = { "-np prog", "from 1" } },
        { .words = { "--hostfle", "x" }, .says = { "--hostfle", "--hostfile" } },
        { .words = { "--spin-su", "4" }, .says = { "--spin-su", "--spin-us" } },
        { .words = { "--qqqqqqqqqqq" }, .says = { "unknown option", "--help" } },
        { .words = { "-q" }, .says = { "unknown option -q", "--help" } },
        { .words = { "-vx", "prog" }, .says = { "unknown option -vx", "" } },
        { .words = { "--dry-run=1", "prog" }, .says = { "--dry-run", "no value" } },
        { .words = { "--spin-us", "x", "prog" }, .says = { "--spin-us", "1000000" } },
        { .words = { "--strict", "./prog" }, .says = { "--strict", "true" } },
        { .words = { "-H", "a:x", "prog" }, .says = { "a:x", "slots" } },
        { .words = { "-H", "a", "-H", "b", "p" }, .says = { "-H b", "already" } },
        { .words = { "-H", "a", "--hostfile", "b", "p" },
                .says = { "--hostfile b", "already" } },
        { .words = { "--hostfile", "./none", "p" }, .says = { "./none", "No such" } },
        { .words = { "--mpi=lam", "p" }, .says = { "--mpi lam", "openmpi" } },
        { .words = { "--bind", "core", "p" }, .says = { "--bind core", "auto" } },
        { .words = { "--mpirun", "", "p" }, .says = { "--mpirun", "empty" } },
        { .words = { "--mpi-args", "'a", "p" }, .says = { "--mpi-args", "quote" } },
        { .words = { "-x", "=1", "p" }, .says = { "-x =1", "NAME" } },
        { .words = { "-x", "1A=1", "p" }, .says = { "-x 1A=1", "NAME" } },
        { .words = { "-x", "A-B", "p" }, .says = { "-x A-B", "NAME" } },
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct options options;

        assert_int_not_equal(parse(&options, cases[i].words), TUTTI_OK);
        if (strstr(tutti_last_error(), cases[i].says[0]) == NULL ||
                strstr(tutti_last_error(), cases[i].says[1]) == NULL) {
            fail_msg("%s: %s", cases[i].words[0], tutti_last_error());
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

static void test_help_lists_every_flag(void **state)
{
    const char *text = help_text("all");
    size_t count;
    const struct flag *rows = flag_rows(&count);
    char name[FLAG_NAME_LIMIT];
    char option[FLAG_NAME_LIMIT + 2];

    (void)state;
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

static void test_help_fits_a_terminal(void **state)
{
    const char *line = help_text("all");

    (void)state;
    while (*line != '\0') {
        size_t len = strcspn(line, "\n");

        assert_in_range(len, 0, 88);
        line += len + 1;
    }
}

static void test_help_about_a_topic(void **state)
{
    static char nothing[64];
    FILE *file = fmemopen(nothing, sizeof nothing, "w");

    (void)state;
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

static void test_topics_follow_help(void **state)
{
    static const char *const forms[][2] = { { "--help", "bind" }, { "-h", "bind" },
        { "--help=bind", NULL } };
    struct options options;

    (void)state;
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        assert_int_equal(
                parse(&options, WORDS(forms[i][0], forms[i][1], NULL)), TUTTI_OK);
        assert_string_equal(options.help, "bind");
        options_fini(&options);
    }
    assert_int_equal(parse(&options, WORDS("--version", "--verbose", NULL)), TUTTI_OK);
    assert_true(options.verbose);
    options_fini(&options);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_number_of_ranks_in_all_forms),
        cmocka_unit_test(test_flags_of_the_program_are_left_to_it),
        cmocka_unit_test(test_two_dashes_end_the_flags),
        cmocka_unit_test(test_ranks_default_to_the_slots_of_the_hosts),
        cmocka_unit_test(test_more_ranks_than_slots_names_both),
        cmocka_unit_test(test_every_parameter_of_the_library_is_a_flag),
        cmocka_unit_test(test_no_flag_hides_another),
        cmocka_unit_test(test_the_last_value_of_a_parameter_counts),
        cmocka_unit_test(test_other_flags_are_read),
        cmocka_unit_test(test_help_and_version_need_nothing_else),
        cmocka_unit_test(test_refusals_name_the_flag_and_the_way_out),
        cmocka_unit_test(test_help_lists_every_flag),
        cmocka_unit_test(test_help_fits_a_terminal),
        cmocka_unit_test(test_help_about_a_topic),
        cmocka_unit_test(test_topics_follow_help),
    };

    return cmocka_run_group_tests(tests, NULL, free_command_line);
}
