/*
 * Cases of a test as text, in the file cases.txt of the test's folder:
 *
 *   [section]
 *   # a comment
 *   INPUT => OUTPUT
 *
 * A line that begins with a blank continues the one before; behind a ">" it is a line of it. \n, \r, \t, \s (a blank), \0, \\ and
 * \xHH are as in C. An OUTPUT "~PART & PART" is one that contains the parts, and "!PART & PART" a
 * refusal, whose message does.
 */
#ifndef TUTTI_TEST_LAUNCHER_CASES_H
#define TUTTI_TEST_LAUNCHER_CASES_H

#include <stdio.h>
#include <string.h>

#include "launcher/arguments.h"
#include "test/unit/unit.h"

enum {
    CASES_OUT = 16384, /* bytes of an output */
    CASES_FIELDS = 40
};

/** Writes to `out` what it makes of an input, which is its own and has `len` bytes. */
typedef void cases_function(char *in, size_t len, char *out);

/** A test of the cases of a section: the body is a cases_function. */
#define UNIT_CASES(name, section) \
    static void name##_of(char *in, size_t len, char *out); \
    UNIT_TEST_WITH(name, NULL, cases_end) \
    { \
        cases_run(section, name##_of); \
    } \
    static void name##_of(char *in __attribute__((unused)), \
            size_t len __attribute__((unused)), char *out __attribute__((unused)))

void cases_run(const char *section, cases_function *function);
/** After a test that failed inside of a case, says which. */
int cases_end(void **state);
/** What is written of a refusal: its message, behind a "!". */
void cases_refused(char *out);

/** The words of a text as a shell reads them, NULL-terminated; good until the next call. */
char *const *cases_words(const char *text);
/** Cuts a text at each "|"; `fields`, without the blanks around them, end with NULL. */
size_t cases_fields(char *text, char *fields[CASES_FIELDS]);

#endif
