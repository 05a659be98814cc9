/*
 * tuttirun --help, made from the table of flags and the configuration table.
 */
#include "launcher/help.h"

#include <string.h>

#include "base/config.h"
#include "launcher/flags.h"

enum {
    HELP_COLUMN = 26, /* where the sentences start */
    HELP_WIDTH = 80 /* where they are broken     */
};

/* Prints a flag and its sentence, broken at blanks. */
static void print_entry(FILE *file, const char *flag, const char *help)
{
    int column = fprintf(file, "  %s", flag);

    if (column > HELP_COLUMN - 2) {
        (void)fputc('\n', file);
        column = 0;
    }
    while (*help != '\0') {
        size_t word = strcspn(help, " ");

        if (column + 1 + (int)word > HELP_WIDTH && column > HELP_COLUMN) {
            (void)fputc('\n', file);
            column = 0;
        }
        if (column < HELP_COLUMN) {
            column += fprintf(file, "%*s", HELP_COLUMN - column, "");
        } else {
            column += fprintf(file, " ");
        }
        column += fprintf(file, "%.*s", (int)word, help);
        help += word;
        help += strspn(help, " ");
    }
    (void)fputc('\n', file);
}

static void print_flag(FILE *file, const struct flag *flag)
{
    char text[128];
    size_t len = 0;

    if (flag->letter != '\0') {
        len += (size_t)snprintf(text, sizeof text, "-%c, ", flag->letter);
    }
    len += (size_t)snprintf(text + len, sizeof text - len, "--%s", flag->name);
    if (flag->alias != NULL) {
        len += (size_t)snprintf(text + len, sizeof text - len, ", --%s", flag->alias);
    }
    if (flag->argument != NULL) {
        (void)snprintf(text + len, sizeof text - len, flag->optional ? "[=%s]" : " %s",
                flag->argument);
    }
    print_entry(file, text, flag->help);
}

static void print_row(FILE *file, const struct config_row *row)
{
    char name[64];
    char flag[128];
    char help[512];

    (void)snprintf(flag, sizeof flag, "--%s %s",
            options_flag_name(row->name, name, sizeof name), row->range);
    (void)snprintf(help, sizeof help, "%s%s%s%s", row->help,
            row->initial[0] == '\0' ? "" : "; default ", row->initial,
            row->same ? "; equal on all ranks" : "");
    print_entry(file, flag, help);
}

void help_print(FILE *file)
{
    size_t count;
    const struct flag_group *const *groups = flag_groups(&count);
    const struct config_row *rows;

    (void)fprintf(file,
            "usage: tuttirun -np N [-H LIST | --hostfile FILE] [options] program "
            "[args]\n"
            "\nStarts N ranks of a program through the mpirun that is there.\n");
    for (size_t i = 0; i < count; i++) {
        (void)fprintf(file, "\n%s:\n", groups[i]->heading);
        for (size_t k = 0; k < groups[i]->count; k++) {
            print_flag(file, &groups[i]->flags[k]);
        }
    }
    (void)fprintf(file,
            "\nConfiguration of the library (each is also a variable: TUTTI_SPIN_US is "
            "--spin-us):\n");
    rows = config_rows(&count);
    for (size_t i = 0; i < count; i++) {
        print_row(file, &rows[i]);
    }
    (void)fprintf(file,
            "\nLong flags may be written with one dash (-np 4) and with '=' (--np=4).\n"
            "The exit status is the program's; 125: tuttirun could not start it; 126 "
            "and\n"
            "127: a host could not run it.\n");
}
