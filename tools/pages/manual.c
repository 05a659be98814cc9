/*
 * Options and parameters in tuttirun(1).
 */
#include <stdio.h>

#include "launcher/flags.h"
#include "tools/pages/pages.h"

/* Text in which nothing is a request, an escape or a hyphen. */
static void print_plain(const char *text)
{
    for (; *text != '\0'; text++) {
        if (*text == '\\') {
            (void)fputs("\\e", stdout);
        } else if (*text == '-') {
            (void)fputs("\\-", stdout);
        } else if (*text == '\'') {
            (void)fputs("\\(aq", stdout);
        } else if (*text == '.') {
            (void)fputs(".\\&", stdout);
        } else {
            (void)putchar(*text);
        }
    }
}

/* A line of text; \& keeps its first character from being a request. */
static void print_line(const char *text)
{
    (void)fputs("\\&", stdout);
    print_plain(text);
    (void)putchar('\n');
}

static void print_name(const char *dashes, const char *name)
{
    (void)fputs("\\fB", stdout);
    print_plain(dashes);
    print_plain(name);
    (void)fputs("\\fR", stdout);
}

static void print_flag(const struct flag *flag)
{
    const char letter[2] = { flag->letter, '\0' };
    char name[FLAG_NAME_LIMIT];
    char sentence[FLAG_SENTENCE_MAX];

    (void)puts(".TP");
    if (flag->letter != '\0') {
        print_name("-", letter);
        (void)fputs(", ", stdout);
    }
    print_name("--", flag_spell(flag, name));
    if (flag->alias != NULL) {
        (void)fputs(", ", stdout);
        print_name("--", flag->alias);
    }
    if (flag->argument != NULL) {
        (void)fputs(flag->absent != NULL ? "[=\\fI" : " \\fI", stdout);
        print_plain(flag->argument);
        (void)fputs(flag->absent != NULL ? "\\fR]" : "\\fR", stdout);
    }
    (void)putchar('\n');
    print_line(flag_sentence(flag, sentence));
}

void pages_manual_options(void)
{
    size_t count;
    const struct flag *rows = flag_rows(&count);

    for (size_t i = 0; i < count; i++) {
        if (rows[i].kind == FLAG_GROUP) {
            (void)printf(".SS ");
            print_line(rows[i].help);
        } else if (flag_is_ours(&rows[i])) {
            print_flag(&rows[i]);
        }
    }
}

void pages_manual_parameters(void)
{
    size_t count;
    const struct flag *rows = flag_rows(&count);

    for (size_t i = 0; i < count; i++) {
        if (rows[i].kind == FLAG_PARAMETER) {
            print_flag(&rows[i]);
        }
    }
}
