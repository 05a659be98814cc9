/*
 * The engine's words: lines, of which the last are kept.
 */
#include <stdio.h>
#include <string.h>

#include "launcher/job/said.h"
#include "test/unit/unit.h"

static void count_line(void *context, const char *line)
{
    int *count = context;

    (void)line;
    (*count)++;
}

static void add(struct said *said, const char *text, int *count)
{
    said_add(said, text, strlen(text), count_line, count);
}

static void test_lines_are_put_together(void **state)
{
    static struct said said;
    int count = 0;

    (void)state;
    add(&said, "one\n\n\033[1mtw", &count);
    assert_int_equal(count, 1);
    add(&said, "o\r\nlast", &count);
    assert_int_equal(count, 2);
    said_end(&said, count_line, &count);
    said_end(&said, count_line, &count);
    assert_int_equal(count, 3);
    assert_int_equal(said_kept(&said), 3);
    assert_string_equal(said_line(&said, 0), "one");
    assert_string_equal(said_line(&said, 1), "[1mtwo");
    assert_string_equal(said_line(&said, 2), "last");
}

static void test_the_last_are_kept(void **state)
{
    static struct said said;
    char text[16];
    int count = 0;

    (void)state;
    for (int i = 0; i < SAID_LINES + 7; i++) {
        (void)snprintf(text, sizeof text, "%d\n", i);
        add(&said, text, &count);
    }
    assert_int_equal(said_kept(&said), SAID_LINES);
    assert_string_equal(said_line(&said, 0), "7");
    assert_string_equal(said_line(&said, SAID_LINES - 1), "106");
}

static void test_long_lines_are_cut(void **state)
{
    static struct said said;
    int count = 0;

    (void)state;
    for (int i = 0; i < 2 * SAID_LINE_MAX; i++) {
        add(&said, "x", &count);
    }
    add(&said, "\n", &count);
    assert_int_equal(strlen(said_line(&said, 0)), SAID_LINE_MAX - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines_are_put_together),
        cmocka_unit_test(test_the_last_are_kept),
        cmocka_unit_test(test_long_lines_are_cut),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
