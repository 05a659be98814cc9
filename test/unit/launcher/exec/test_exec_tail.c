/*
 * The last lines of a rank's stderr.
 */

#include <stdio.h>
#include <string.h>

#include "launcher/exec/tail.h"
#include "test/unit/unit.h"

UNIT_TEST(test_the_last_lines_are_kept)
{
    static struct tail tail;
    char expected[LINK_TAIL_MAX] = "";
    size_t len = 0;

    for (int i = 0; i < 100; i++) {
        char line[32];

        (void)snprintf(line, sizeof line, "line %d\n", i);
        tail_add(&tail, line, strlen(line));
    }
    for (int i = 100 - LINK_TAIL_LINES; i < 100; i++) {
        len += (size_t)snprintf(expected + len, sizeof expected - len, "line %d\n", i);
    }
    assert_int_equal(tail.count, LINK_TAIL_LINES);
    assert_int_equal(tail.len, len);
    assert_memory_equal(tail.text, expected, len);
}

UNIT_TEST(test_long_lines_push_out_more_than_one)
{
    static struct tail tail;
    static char line[LINK_TAIL_MAX];

    memset(line, 'x', sizeof line);
    line[sizeof line - 1] = '\n';
    tail_add(&tail, "a\n", 2);
    tail_add(&tail, "b\n", 2);
    tail_add(&tail, line + 2, sizeof line - 2);
    assert_int_equal(tail.count, 2);
    assert_memory_equal(tail.text, "b\nx", 3);
    assert_int_equal(tail.len, LINK_TAIL_MAX);
}

UNIT_TEST(test_of_a_line_that_is_too_long_the_end_is_kept)
{
    static struct tail tail;
    static char line[LINK_TAIL_MAX * 2];

    memset(line, 'x', sizeof line);
    memcpy(line + sizeof line - 4, "end\n", 4);
    tail_add(&tail, line, sizeof line);
    assert_int_equal(tail.len, LINK_TAIL_MAX);
    assert_memory_equal(tail.text + LINK_TAIL_MAX - 4, "end\n", 4);
    tail_add(&tail, "next\n", 5);
    assert_int_equal(tail.len, 5);
}
