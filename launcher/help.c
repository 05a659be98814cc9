/*
 * tuttirun --help and --version, made from the tables of flags and parameters.
 */
#include "launcher/help.h"

#include <string.h>

#include "base/config.h"
#include "base/error.h"
#include "launcher/flags.h"
#include "launcher/horovod_flags.h"
#include "launcher/options.h"

static const char built_mpi[] = TUTTI_MPI_NAME;

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
    char help[512];
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
    if (flag_names_choices(flag)) {
        print_entry(file, text, flag->help);
        return;
    }
    (void)snprintf(help, sizeof help, "%s (%s)", flag->help, flag->choices);
    print_entry(file, text, help);
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

static void print_flags(FILE *file)
{
    size_t count;
    const struct flag_group *const *groups = flag_groups(&count);

    (void)fprintf(file,
            "usage: tuttirun -np N [-H LIST | --hostfile FILE] [options] program "
            "[args]\n"
            "\nStarts N ranks of a program through the MPI or Slurm that is there.\n"
            "\n"
            "  tuttirun -np 4 ./train                  four ranks here\n"
            "  tuttirun -H a:4,b:4 ./train             eight ranks on two hosts\n"
            "  tuttirun --config-file job.yaml ./train flags from a file\n"
            "  tuttirun --dry-run -np 4 ./train        what would be run\n");
    for (size_t i = 0; i < count; i++) {
        (void)fprintf(file, "\n%s:\n", groups[i]->heading);
        for (size_t k = 0; k < groups[i]->count; k++) {
            print_flag(file, &groups[i]->flags[k]);
        }
    }
}

static void print_parameters(FILE *file)
{
    size_t count;
    const struct config_row *rows = config_rows(&count);

    (void)fprintf(file,
            "Parameters of the library (each is also a variable: TUTTI_SPIN_US is "
            "--spin-us):\n");
    for (size_t i = 0; i < count; i++) {
        print_row(file, &rows[i]);
    }
}

static void print_end(FILE *file)
{
    (void)fprintf(file,
            "\nParameters of the library are flags, too: tuttirun --help parameters.\n"
            "Flags of horovodrun are understood where they mean the same.\n"
            "Long flags may be written with one dash (-np 4) and with '=' (--np=4).\n"
            "The exit status is the program's; 125: tuttirun could not start it; 126 "
            "and\n"
            "127: a host could not run it. See also tuttirun(1).\n");
}

static const char *horovod_word(const struct horovod_flag *flag)
{
    switch (flag->meaning) {
    case HOROVOD_SAME:
        return "the same here";
    case HOROVOD_IS:
        return flag->to;
    case HOROVOD_NOTHING:
        return "does nothing here";
    case HOROVOD_REFUSED:
        return "is refused here";
    }
    return "";
}

/* One flag, of whichever table. */
static tutti_status print_topic(FILE *file, const char *topic)
{
    const char *name = topic + strspn(topic, "-");
    struct options_name found = options_find(name);
    char nearest[64];

    if (found.flag == NULL && name[0] != '\0' && name[1] == '\0') {
        found.flag = flag_of_letter(name[0]);
    }
    if (found.flag != NULL) {
        print_flag(file, found.flag);
    } else if (found.row != NULL) {
        print_row(file, found.row);
    } else if (found.horovod != NULL) {
        (void)fprintf(file, "  --%s of horovodrun: %s%s%s\n", found.horovod->name,
                horovod_word(found.horovod), found.horovod->note == NULL ? "" : ": ",
                found.horovod->note == NULL ? "" : found.horovod->note);
    } else if (options_nearest(name, nearest, sizeof nearest)[0] != '\0') {
        return error_set(TUTTI_ERR_INVALID,
                "--help %s: there is no such flag; did you mean %s? Other topics: "
                "parameters, all",
                topic, nearest);
    } else {
        return error_set(TUTTI_ERR_INVALID,
                "--help %s: there is no such topic; choose parameters, all, or the "
                "name "
                "of a flag",
                topic);
    }
    return TUTTI_OK;
}

tutti_status help_print(FILE *file, const char *topic)
{
    bool all = topic != NULL && strcmp(topic, "all") == 0;
    bool parameters = topic != NULL && strcmp(topic, "parameters") == 0;

    if (topic != NULL && !all && !parameters) {
        return print_topic(file, topic);
    }
    if (!parameters) {
        print_flags(file);
    }
    if (all) {
        (void)fputc('\n', file);
    }
    if (parameters || all) {
        print_parameters(file);
    }
    if (!parameters) {
        print_end(file);
    }
    return TUTTI_OK;
}

void help_print_build(FILE *file)
{
    bool has_mpi = strcmp(built_mpi, "none") != 0;

    (void)fprintf(file,
            "tuttirun %s\n"
            "MPI        %s%s%s\n"
            "compiler   %s\n"
            "data       shared memory%s\n"
            "GPUs       no\n",
            tutti_version(), built_mpi, has_mpi ? " " : "",
            has_mpi ? TUTTI_MPIEXEC : "", __VERSION__,
            has_mpi ? ", messages of MPI" : "");
}
