/*
 * A rank's output as lines, whatever the pieces are in which it arrives.
 */

#include <string.h>

#include "launcher/exec/lines.h"
#include "test/unit/unit.h"

enum {
    SHOWN_MAX = 1 << 18
};

/* What was shown. */
struct shown {
    char text[SHOWN_MAX];
    size_t len;
};

static struct shown shown;

static void take(void *to, const char *line, size_t len)
{
    struct shown *into = to;

    assert_int_equal(line[len - 1], '\n');
    assert_true(len <= LINES_SHOWN_MAX);
    assert_true(into->len + len < SHOWN_MAX);
    memcpy(into->text + into->len, line, len);
    into->len += len;
    into->text[into->len] = '\0';
}

static void begin(struct lines *lines)
{
    shown.len = 0;
    shown.text[0] = '\0';
    assert_int_equal(lines_init(lines, take, &shown), TUTTI_OK);
}

UNIT_TEST(test_bytes_become_lines)
{
    static const struct {
        const char *bytes;
        size_t len;
        const char *lines;
    } cases[] = {
        { .bytes = "a\nb\n", .lines = "a\nb\n" },
        { .bytes = "\n\na\n", .lines = "\n\na\n" },
        { .bytes = "no newline", .lines = "no newline\n" },
        { .bytes = "dos\r\nend\r\n", .lines = "dos\nend\n" },
        { .bytes = "\r\n", .lines = "\n" },
        { .bytes = "a\0b\n", .len = 4, .lines = "a\\0b\n" },
        { .bytes = "gr\xc3\xbc\xc3\x9f\xe2\x82\xac\xf0\x9f\x8e\xb5\n",
                .lines = "gr\xc3\xbc\xc3\x9f\xe2\x82\xac\xf0\x9f\x8e\xb5\n" },
        { .bytes = "1%\r2%\r3%\n", .lines = "1%\n3%\n" },
        { .bytes = "\r1%\r2%\r3%\n", .lines = "1%\n3%\n" },
        { .bytes = "1%\r2%\r3%", .lines = "1%\n3%\n" },
        { .bytes = "1%\r2%\r", .lines = "1%\n2%\n" },
        { .bytes = "1%\r2%\r\r\nnext\n", .lines = "1%\n2%\nnext\n" },
        { .bytes = "", .lines = "" },
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        size_t len = cases[i].len > 0 ? cases[i].len : strlen(cases[i].bytes);

        /* However it is cut into reads, the same is shown. */
        for (size_t piece = 1; piece <= len + 1; piece++) {
            struct lines lines;

            begin(&lines);
            for (size_t at = 0; at < len; at += piece) {
                lines_feed(&lines, cases[i].bytes + at,
                        piece < len - at ? piece : len - at, 0);
            }
            lines_end(&lines);
            assert_string_equal(shown.text, cases[i].lines);
            lines_fini(&lines);
        }
    }
}

UNIT_TEST(test_of_updates_the_latest_is_shown_now_and_then)
{
    struct lines lines;
    int64_t now = 1000;

    begin(&lines);
    assert_true(lines_due(&lines) == INT64_MAX);
    lines_feed(&lines, "1%\r2%\r3%\r", 9, now);
    assert_string_equal(shown.text, "1%\n");
    assert_true(lines_due(&lines) == now + LINES_UPDATE_NS);
    lines_tick(&lines, now + LINES_UPDATE_NS - 1);
    assert_string_equal(shown.text, "1%\n");
    lines_tick(&lines, now + LINES_UPDATE_NS);
    assert_string_equal(shown.text, "1%\n3%\n");
    assert_true(lines_due(&lines) == INT64_MAX);
    /* The newline that ends a shown update makes no empty line. */
    lines_feed(&lines, "\nnext\n", 6, now + LINES_UPDATE_NS);
    assert_string_equal(shown.text, "1%\n3%\nnext\n");
    lines_fini(&lines);
}

UNIT_TEST(test_a_line_without_end_is_cut_once)
{
    static char bytes[LINES_MAX * 2];
    struct lines lines;

    memset(bytes, 'x', sizeof bytes);
    begin(&lines);
    lines_feed(&lines, bytes, sizeof bytes, 0);
    lines_feed(&lines, bytes, sizeof bytes, 0);
    lines_feed(&lines, "\nnext\n", 6, 0);
    assert_int_equal(shown.len, LINES_MAX + strlen(" [cut]\nnext\n"));
    assert_string_equal(shown.text + LINES_MAX, " [cut]\nnext\n");
    lines_fini(&lines);
}

UNIT_TEST(test_a_cut_keeps_characters_whole)
{
    static const char *const characters[] = { "\xc3\xbc", "\xe2\x82\xac",
        "\xf0\x9f\x8e\xb5" };

    for (size_t i = 0; i < sizeof characters / sizeof characters[0]; i++) {
        size_t width = strlen(characters[i]);

        /* The character begins at each distance before the limit. */
        for (size_t before = 1; before <= width; before++) {
            static char bytes[LINES_MAX];
            struct lines lines;
            size_t whole = before == width ? LINES_MAX : LINES_MAX - before;

            memset(bytes, 'x', sizeof bytes);
            begin(&lines);
            lines_feed(&lines, bytes, LINES_MAX - before, 0);
            lines_feed(&lines, characters[i], width, 0);
            lines_feed(&lines, "yyyy\n", 5, 0);
            assert_string_equal(shown.text + whole, " [cut]\n");
            lines_fini(&lines);
        }
    }
}

UNIT_TEST(test_bytes_that_are_no_characters_stay)
{
    static char bytes[LINES_MAX + 1];
    struct lines lines;

    memset(bytes, '\x80', sizeof bytes);
    begin(&lines);
    lines_feed(&lines, bytes, sizeof bytes, 0);
    assert_string_equal(shown.text + LINES_MAX, " [cut]\n");
    lines_fini(&lines);
}

UNIT_TEST(test_an_update_is_not_shown_after_its_line)
{
    static char bytes[LINES_MAX + 1];
    struct lines lines;

    memset(bytes, 'y', sizeof bytes);
    begin(&lines);
    lines_feed(&lines, "1%\r2%\r", 6, 0);
    lines_feed(&lines, bytes, sizeof bytes, 0);
    lines_feed(&lines, "\nnext\n", 6, 0);
    assert_int_equal(shown.len, LINES_MAX + strlen("1%\n [cut]\nnext\n"));
    assert_string_equal(shown.text + shown.len - 6, "\nnext\n");
    lines_fini(&lines);
}
