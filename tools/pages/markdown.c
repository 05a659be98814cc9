/*
 * Tables of the documentation: the flags of tuttirun, those of horovodrun, and metrics.
 */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "launcher/flags.h"
#include "observe/metrics.h"
#include "tools/pages/pages.h"

/* True where a word begins that is better shown as code. */
static bool is_code(const char *text, char before)
{
    return isalnum((unsigned char)before) == 0 && before != '-' &&
            (strncmp(text, "--", 2) == 0 || strncmp(text, "TUTTI_", 6) == 0 ||
                    strncmp(text, "HOROVOD_", 8) == 0);
}

/* A sentence in a cell, flags and variables as code. */
static void print_sentence(const char *text)
{
    char before = ' ';

    while (*text != '\0') {
        if (is_code(text, before)) {
            size_t len = strcspn(text, " ,;:.()\"");

            (void)printf("`%.*s`", (int)len, text);
            before = text[len - 1];
            text += len;
            continue;
        }
        if (*text == '*' || *text == '|' || *text == '<' || *text == '[') {
            (void)putchar('\\');
        }
        before = *text;
        (void)putchar(*text++);
    }
}

static void print_flag(const struct flag *flag)
{
    char name[FLAG_NAME_LIMIT];

    (void)printf("| `--%s", flag_spell(flag, name));
    if (flag->argument != NULL) {
        (void)printf(flag->absent != NULL ? "[=%s]" : " %s", flag->argument);
    }
    (void)putchar('`');
    if (flag->alias != NULL) {
        (void)printf(", `-%s%s`", strlen(flag->alias) <= 2 ? "" : "-", flag->alias);
    }
    if (flag->letter != '\0') {
        (void)printf(", `-%c`", flag->letter);
    }
    (void)printf(" | ");
}

void pages_flags(void)
{
    size_t count;
    const struct flag *rows = flag_rows(&count);
    char sentence[FLAG_SENTENCE_MAX];

    for (size_t i = 0; i < count; i++) {
        if (rows[i].kind == FLAG_GROUP) {
            (void)printf(
                    "%s## %s\n\n| | |\n|---|---|\n", i == 0 ? "" : "\n", rows[i].help);
        } else if (flag_is_ours(&rows[i])) {
            print_flag(&rows[i]);
            print_sentence(flag_sentence(&rows[i], sentence));
            (void)puts(" |");
        }
    }
}

/* "--fusion-bytes %" with the name of the argument in the place of %. */
static void print_ours(const struct flag *flag)
{
    size_t before = strcspn(flag->to, "%");

    (void)printf("`%.*s%s%s`", (int)before, flag->to,
            flag->to[before] == '%' ? flag->argument : "",
            flag->to[before] == '%' ? flag->to + before + 1 : "");
}

static void print_horovod(const struct flag *flag)
{
    print_flag(flag);
    if (flag->kind == FLAG_IS) {
        print_ours(flag);
    } else if (flag_is_horovod(flag)) {
        (void)printf(flag->kind == FLAG_REFUSED ? "refused" : "does nothing");
    } else {
        (void)printf("the same");
    }
    (void)printf(" | ");
    print_sentence(flag->horovod != NULL ? flag->horovod : flag->help);
    (void)puts(" |");
}

/* A key of the file, and the flags that it stands for. */
static void print_key(const struct flag *flag)
{
    char name[FLAG_NAME_LIMIT];

    (void)printf("| `%s` | `--%s`", flag->key, flag_spell(flag, name));
    if (flag->off != NULL) {
        (void)printf(", `--%s`", flag->off);
    }
    (void)puts(" |");
}

void pages_horovodrun(void)
{
    size_t count;
    const struct flag *rows = flag_rows(&count);

    (void)puts("| horovodrun | tuttirun | |\n|---|---|---|");
    for (size_t i = 0; i < count; i++) {
        if (rows[i].horovod != NULL || rows[i].kind >= FLAG_SAME) {
            print_horovod(&rows[i]);
        }
    }
}

void pages_keys(void)
{
    size_t count;
    const struct flag *rows = flag_rows(&count);

    (void)puts("| key | flag |\n|---|---|");
    for (size_t i = 0; i < count; i++) {
        if (rows[i].key != NULL) {
            print_key(&rows[i]);
        }
    }
    (void)puts("| `controller` | `--mpi`, `--gloo`, `--jsrun` |");
}

void pages_metrics(void)
{
    static const char *const kinds[] = { "counter", "gauge", "histogram" };
    size_t count;
    const struct metrics_name *names = metrics_families(&count);

    (void)puts("| name | kind | labels | |\n|---|---|---|---|");
    for (size_t i = 0; i < count; i++) {
        (void)printf("| `%s` | %s | %s | %s |\n", names[i].name, kinds[names[i].kind],
                names[i].labels, names[i].help);
    }
}
