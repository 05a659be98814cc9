/*
 * Cases of a test as text.
 */
#include "test/unit/launcher/cases.h"

#include <ctype.h>
#include <stdlib.h>

enum {
    LINE_MAX = 8192,
    HEX = 16
};

/* Of the case that runs; 0: none. */
static int line_now;

static char *trim(char *text)
{
    size_t len;

    text += strspn(text, " \n");
    len = strlen(text);
    while (len > 0 && strchr(" \n", text[len - 1]) != NULL) {
        text[--len] = '\0';
    }
    return text;
}

/* In place; returns the number of bytes. */
static size_t unescape(char *text)
{
    static const char letters[] = "nrts0\\";
    static const char meant[] = "\n\r\t \0\\";
    char *to = text;

    for (const char *from = text; *from != '\0'; from++) {
        const char *letter = *from == '\\' ? strchr(letters, from[1]) : NULL;

        if (letter != NULL && *letter != '\0') {
            *to++ = meant[letter - letters];
            from++;
        } else if (*from == '\\' && from[1] == 'x') {
            const char digits[] = { from[2], from[3], '\0' };

            *to++ = (char)strtol(digits, NULL, HEX);
            from += 3;
        } else {
            *to++ = *from;
        }
    }
    *to = '\0';
    return (size_t)(to - text);
}

static bool has_parts(const char *out, char *parts)
{
    while (parts != NULL) {
        char *end = strstr(parts, " & ");

        if (end != NULL) {
            *end = '\0';
        }
        if (strstr(out, parts) == NULL) {
            return false;
        }
        parts = end == NULL ? NULL : end + 3;
    }
    return true;
}

static bool is_expected(const char *out, char *expected)
{
    if (expected[0] == '~') {
        return has_parts(out, expected + 1);
    }
    return expected[0] == '!' ? out[0] == '!' && has_parts(out + 1, expected + 1)
                              : strcmp(out, expected) == 0;
}

static void run_line(char *line, cases_function *function)
{
    static char out[CASES_OUT];
    char *arrow = strstr(line, "=>");
    char *expected;
    size_t len;

    assert_non_null(arrow);
    *arrow = '\0';
    expected = trim(arrow + 2);
    (void)unescape(expected);
    line = trim(line);
    len = unescape(line);
    out[0] = '\0';
    function(line, len, out);
    if (!is_expected(out, expected)) {
        fail_msg("%s", out);
    }
}

/* The next line with those that continue it, or false. */
static bool take(FILE *file, char *line, int *number, int *next)
{
    size_t len = 0;
    char *start;
    int c;

    *number = *next;
    line[0] = '\0';
    do {
        assert_true(len + 2 < LINE_MAX);
        if (fgets(line + len, (int)(LINE_MAX - len), file) == NULL) {
            break;
        }
        ++*next;
        /* A line that goes on: its blanks are one, or the end of a line. */
        start = line + len + strspn(line + len, " ");
        if (len > 0) {
            line[len] = start[0] == '>' ? '\n' : ' ';
            start += start[0] == '>' ? 1 : 0;
            memmove(line + len + 1, start, strlen(start) + 1);
        }
        len = strlen(line) - (line[strlen(line) - 1] == '\n' ? 1 : 0);
        line[len] = '\0';
        c = getc(file);
        (void)ungetc(c, file);
    } while (len > 0 && c == ' ');
    return *next > *number;
}

void cases_run(const char *section, cases_function *function)
{
    FILE *file = fopen(TUTTI_CASES, "re");
    char line[LINE_MAX];
    bool is_inside = false;
    int count = 0;
    int next = 1;

    assert_non_null(file);
    while (take(file, line, &line_now, &next)) {
        if (line[0] == '[' && strstr(line, "=>") == NULL) {
            is_inside = strncmp(line + 1, section, strlen(section)) == 0 &&
                    line[strlen(section) + 1] == ']';
        } else if (is_inside && line[0] != '#' && line[0] != '\0') {
            run_line(line, function);
            count++;
        }
    }
    line_now = 0;
    (void)fclose(file);
    assert_true(count > 0);
}

int cases_end(void **state)
{
    (void)state;
    if (line_now != 0) {
        print_error("in the case of " TUTTI_CASES ":%d\n", line_now);
        line_now = 0;
    }
    (void)cases_words("");
    return 0;
}

void cases_refused(char *out)
{
    (void)snprintf(out, CASES_OUT, "!%s", tutti_last_error());
}

char *const *cases_words(const char *text)
{
    static char *const none[] = { NULL };
    static struct arguments words;

    arguments_fini(&words);
    assert_int_equal(arguments_split(&words, text, "a case"), TUTTI_OK);
    return words.items == NULL ? none : words.items;
}

size_t cases_fields(char *text, char *fields[CASES_FIELDS])
{
    size_t count = 0;

    while (text != NULL) {
        char *end = strchr(text, '|');

        if (end != NULL) {
            *end = '\0';
        }
        assert_true(count + 1 < CASES_FIELDS);
        fields[count++] = trim(text);
        text = end == NULL ? NULL : end + 1;
    }
    fields[count] = NULL;
    return count;
}
