/*
 * Lists of strings: growing, replacing, splitting and quoting.
 */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "launcher/arguments.h"
#include "test/unit/launcher/words.h"
#include "test/unit/unit.h"

UNIT_TEST(test_list_grows_and_stays_terminated)
{
    struct arguments list = { .items = NULL };

    for (int i = 0; i < 100; i++) {
        arguments_add_format(&list, "%d", i);
        assert_null(list.items[i + 1]);
    }
    assert_int_equal(list.count, 100);
    assert_string_equal(list.items[0], "0");
    assert_string_equal(list.items[99], "99");
    assert_int_equal(arguments_status(&list), TUTTI_OK);
    arguments_fini(&list);
}

UNIT_TEST(test_set_replaces_the_entry_of_the_same_name_only)
{
    struct arguments list = { .items = NULL };

    arguments_set(&list, "AB", "1");
    arguments_set(&list, "A", "2");
    arguments_put(&list, "C");
    arguments_set(&list, "AB", "3");
    arguments_set(&list, "C", "4");
    arguments_put(&list, "A");

    assert_int_equal(list.count, 3);
    assert_string_equal(list.items[0], "AB=3");
    assert_string_equal(list.items[1], "A");
    assert_string_equal(list.items[2], "C=4");
    assert_null(list.items[3]);
    assert_true(arguments_has(&list, "C=5"));
    assert_false(arguments_has(&list, "B"));
    arguments_fini(&list);
}

UNIT_TEST(test_every_failing_allocation_is_latched)
{
    for (uint64_t n = 1;; n++) {
        struct arguments list = { .items = NULL };
        bool failed;

        mem_fail_at(n);
        arguments_add(&list, "a");
        arguments_add_format(&list, "%d", 1);
        arguments_set(&list, "a", "2");
        mem_fail_at(0);
        failed = list.failed;
        assert_int_equal(
                arguments_status(&list), failed ? TUTTI_ERR_NO_MEMORY : TUTTI_OK);
        arguments_fini(&list);
        if (!failed) {
            assert_true(n > 3);
            break;
        }
    }
}

UNIT_TEST(test_split_follows_the_shell)
{
    static const struct {
        const char *text;
        const char *words[5];
    } cases[] = {
        { .text = "", .words = { NULL } },
        { .text = "  \t ", .words = { NULL } },
        { .text = "a bc  d", .words = { "a", "bc", "d", NULL } },
        { .text = " 'a b' \"c d\" ", .words = { "a b", "c d", NULL } },
        { .text = "x'y z'w", .words = { "xy zw", NULL } },
        { .text = "a\\ b \\'c", .words = { "a b", "'c", NULL } },
        { .text = "'a\\b' \"c\\\"d\"", .words = { "a\\b", "c\"d", NULL } },
        { .text = "'' a \"\"", .words = { "", "a", "", NULL } },
        { .text = "end\\", .words = { "end\\", NULL } },
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct arguments list = { .items = NULL };
        size_t count = 0;

        assert_int_equal(arguments_split(&list, cases[i].text, "--x"), TUTTI_OK);
        for (; cases[i].words[count] != NULL; count++) {
            assert_true(count < list.count);
            assert_string_equal(list.items[count], cases[i].words[count]);
        }
        assert_int_equal(list.count, count);
        arguments_fini(&list);
    }
}

UNIT_TEST(test_split_refuses_an_open_quote_and_adds_nothing)
{
    struct arguments list = { .items = NULL };

    arguments_add(&list, "before");
    assert_int_equal(arguments_split(&list, "a 'b c", "--mpi-args"), TUTTI_ERR_INVALID);
    assert_non_null(strstr(tutti_last_error(), "--mpi-args"));
    assert_non_null(strstr(tutti_last_error(), "a 'b c"));
    assert_int_equal(list.count, 1);
    arguments_fini(&list);
}

UNIT_TEST(test_quote_leaves_plain_words_and_quotes_the_rest)
{
    struct arguments list = { .items = NULL };
    char *line;

    arguments_add(&list, "/bin/sh");
    arguments_add(&list, "a b");
    arguments_add(&list, "");
    arguments_add(&list, "it's");
    arguments_add(&list, "$HOME");
    arguments_add(&list, "x\ny");
    line = arguments_quote(&list);
    assert_string_equal(line, "/bin/sh 'a b' '' 'it'\\''s' '$HOME' 'x'$'\\012''y'");
    mem_free(line);
    arguments_fini(&list);
}

UNIT_TEST(test_quoting_then_splitting_gives_the_words_back)
{
    static const char *const words[] = { "plain", "two words", "", "quote'quote", "\\",
        "a\"b", "*?[]{}~#&;|<>()!`", NULL };
    struct arguments list = { .items = NULL };
    struct arguments again = { .items = NULL };
    char *line;

    (void)words_set(&list, words);
    line = arguments_quote(&list);
    assert_int_equal(arguments_split(&again, line, "test"), TUTTI_OK);
    assert_int_equal(again.count, list.count);
    for (size_t i = 0; i < list.count; i++) {
        assert_string_equal(again.items[i], words[i]);
    }
    mem_free(line);
    arguments_fini(&again);
    arguments_fini(&list);
}

UNIT_TEST(test_joined_words_are_as_they_were)
{
    static const char *const words[] = { "a b", "", "c", NULL };
    struct arguments list = { .items = NULL };
    char *line = arguments_join(&list, ",");

    assert_string_equal(line, "");
    mem_free(line);
    (void)words_set(&list, words);
    line = arguments_join(&list, ", ");
    assert_string_equal(line, "a b, , c");
    mem_free(line);
    list.failed = true;
    assert_null(arguments_join(&list, ","));
    arguments_fini(&list);
}
