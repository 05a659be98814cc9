/*
 * The starter's words: lines, of which the last are kept.
 */
#include <stdio.h>
#include <string.h>

#include "launcher/job/starter_output.h"
#include "test/unit/unit.h"

static void count_line(void *context, const char *line)
{
    int *count = context;

    (void)line;
    (*count)++;
}

static void add(struct starter_output *said, const char *text, int *count)
{
    starter_output_add(said, text, strlen(text), count_line, count);
}

UNIT_TEST(test_lines_are_put_together)
{
    static struct starter_output starter_output;
    int count = 0;

    add(&starter_output, "one\n\n\033[1mtw", &count);
    assert_int_equal(count, 1);
    add(&starter_output, "o\r\nlast", &count);
    assert_int_equal(count, 2);
    starter_output_end(&starter_output, count_line, &count);
    starter_output_end(&starter_output, count_line, &count);
    assert_int_equal(count, 3);
    assert_int_equal(starter_output_kept(&starter_output), 3);
    assert_string_equal(starter_output_line(&starter_output, 0), "one");
    assert_string_equal(starter_output_line(&starter_output, 1), "[1mtwo");
    assert_string_equal(starter_output_line(&starter_output, 2), "last");
}

UNIT_TEST(test_the_last_are_kept)
{
    static struct starter_output starter_output;
    char text[16];
    int count = 0;

    for (int i = 0; i < STARTER_OUTPUT_LINES + 7; i++) {
        (void)snprintf(text, sizeof text, "%d\n", i);
        add(&starter_output, text, &count);
    }
    assert_int_equal(starter_output_kept(&starter_output), STARTER_OUTPUT_LINES);
    assert_string_equal(starter_output_line(&starter_output, 0), "7");
    assert_string_equal(
            starter_output_line(&starter_output, STARTER_OUTPUT_LINES - 1), "106");
}

UNIT_TEST(test_long_lines_are_cut)
{
    static struct starter_output starter_output;
    int count = 0;

    for (int i = 0; i < 2 * STARTER_OUTPUT_LINE_MAX; i++) {
        add(&starter_output, "x", &count);
    }
    add(&starter_output, "\n", &count);
    assert_int_equal(strlen(starter_output_line(&starter_output, 0)),
            STARTER_OUTPUT_LINE_MAX - 1);
}
