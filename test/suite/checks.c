/*
 * Checks for suites that several ranks run together.
 */
#include "test/suite/checks.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Failures printed per rank; the rest is only counted. */
#define PRINTED_MAX 20

void checks_step(struct checks *c, const char *step)
{
    atomic_store_explicit(&c->step, step, memory_order_relaxed);
}

/* True when this failure shall be printed. */
static bool count(struct checks *c, bool ok)
{
    (void)atomic_fetch_add_explicit(&c->made, 1, memory_order_relaxed);
    return !ok &&
            atomic_fetch_add_explicit(&c->failed, 1, memory_order_relaxed) <
            PRINTED_MAX;
}

static const char *or_empty(const char *text)
{
    return text != NULL ? text : "";
}

bool checks_expect(
        struct checks *c, bool ok, const char *file, int line, const char *text)
{
    if (count(c, ok)) {
        (void)fprintf(stderr, "%s:%d: rank %d of %d, %s, %s: not so: %s\n", file, line,
                c->rank, c->size, or_empty(c->topic), or_empty(c->step), text);
    }
    return ok;
}

bool checks_expect_status(struct checks *c, tutti_status want, tutti_status got,
        const char *file, int line, const char *text)
{
    if (count(c, got == want)) {
        (void)fprintf(stderr,
                "%s:%d: rank %d of %d, %s, %s: %s instead of %s (last error: %s): %s\n",
                file, line, c->rank, c->size, or_empty(c->topic), or_empty(c->step),
                tutti_status_name(got), tutti_status_name(want), tutti_last_error(),
                text);
    }
    return got == want;
}

void checks_list(const struct checks *c, int by, const char *input, tutti_status status,
        const char *message)
{
    char text[1024];
    size_t n = 0;

    if (!c->list || c->rank != by) {
        return;
    }
    /* A row of Markdown: a bar within a cell is escaped. */
    for (const char *from = message; *from != '\0' && n + 2 < sizeof text; from++) {
        if (*from == '|') {
            text[n++] = '\\';
        }
        text[n++] = *from;
    }
    text[n] = '\0';
    printf("| %s | %s | `%s` | %s |\n", or_empty(c->topic), input,
            tutti_status_name(status), text);
}

void checks_refused(
        struct checks *c, const char *input, tutti_status want, tutti_status got)
{
    if (!EXPECT_STATUS(c, want, got)) {
        (void)fprintf(stderr, "(of: %s)\n", input);
    }
    EXPECT(c, tutti_last_error()[0] != '\0');
    checks_list(c, 0, input, got, tutti_last_error());
}

static void put(const char *text)
{
    /* Nothing can be done about a broken stderr. */
    if (write(STDERR_FILENO, text, strlen(text)) < 0) {
        return;
    }
}

static void put_number(int number)
{
    char digits[12];
    size_t at = sizeof digits - 1;

    digits[at] = '\0';
    do {
        digits[--at] = (char)('0' + number % 10);
        number /= 10;
    } while (number > 0 && at > 0);
    put(&digits[at]);
}

void checks_report_hang(struct checks *const *ranks, int n)
{
    for (int i = 0; i < n; i++) {
        put("hang: rank ");
        put_number(ranks[i]->rank);
        put(" of ");
        put_number(ranks[i]->size);
        put(": ");
        put(or_empty(ranks[i]->topic));
        put(", ");
        put(or_empty(ranks[i]->step));
        put("\n");
    }
}
