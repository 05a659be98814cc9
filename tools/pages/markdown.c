/*
 * Pages of the documentation: the flags of tuttirun, those of horovodrun, and metrics.
 */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "launcher/flags.h"
#include "observe/metrics.h"
#include "tools/pages/pages.h"

static const char reference_head[] =
        "# Flags of tuttirun\n"
        "\n"
        "<!-- Written by script/gendocs from the tables of flags. -->\n"
        "\n"
        "    tuttirun [flags] program [args]\n"
        "\n"
        "Flags end at the first word that is none, the program, or at `--`. Long flags "
        "may be\n"
        "written with one dash (`-np 4`) and with `=` (`--np=4`). The parameters of "
        "the "
        "library\n"
        "are flags as well: [configuration.md](configuration.md). What horovodrun "
        "calls "
        "them is in\n"
        "[horovodrun.md](../launcher/horovodrun.md), and how a file holds them in\n"
        "[config-file.md](../launcher/config-file.md).\n";

static const char horovodrun_head[] =
        "# Flags of horovodrun\n"
        "\n"
        "<!-- Written by script/gendocs from launcher/flags.def. -->\n"
        "\n"
        "Command lines and configuration files of horovodrun are understood where they "
        "mean the\n"
        "same: a flag is taken, does nothing, or is refused with a sentence that says "
        "why.\n"
        "`tuttirun --help FLAG` says it, too.\n"
        "\n"
        "| horovodrun | tuttirun | |\n"
        "|---|---|---|\n";

static const char horovodrun_keys[] =
        "\n"
        "## Its configuration file\n"
        "\n"
        "`tuttirun --config-file` reads the groups of horovodrun's files "
        "([config-file.md](config-file.md)).\n"
        "A group with `enabled: false` is passed over.\n"
        "\n"
        "| key | flag |\n"
        "|---|---|\n";

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

void pages_reference(void)
{
    size_t count;
    const struct flag *rows = flag_rows(&count);
    char sentence[FLAG_SENTENCE_MAX];

    (void)fputs(reference_head, stdout);
    for (size_t i = 0; i < count; i++) {
        if (rows[i].kind == FLAG_GROUP) {
            (void)printf("\n## %s\n\n| | |\n|---|---|\n", rows[i].help);
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

    (void)fputs(horovodrun_head, stdout);
    for (size_t i = 0; i < count; i++) {
        if (rows[i].horovod != NULL || rows[i].kind >= FLAG_SAME) {
            print_horovod(&rows[i]);
        }
    }
    (void)fputs(horovodrun_keys, stdout);
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

    (void)fputs(
            "# Metrics\n\n"
            "<!-- Written by script/gendocs from lib/observe/metrics.c. -->\n\n"
            "What each rank counts, and its labels; [metrics.md](../metrics.md) says "
            "how it is read. Times are in seconds, sizes in bytes. `size` is the size "
            "of "
            "a batch on this rank: at most that many bytes, and more than half of "
            "it.\n\n"
            "| name | kind | labels | |\n|---|---|---|---|\n",
            stdout);
    for (size_t i = 0; i < count; i++) {
        (void)printf("| `%s` | %s | %s | %s |\n", names[i].name, kinds[names[i].kind],
                names[i].labels, names[i].help);
    }
}
