/*
 * tuttirun --help and --version, made from the tables of flags and parameters.
 */
#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "launcher/built.h"
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
    char name[FLAG_NAME_LIMIT];
    char sentence[FLAG_SENTENCE_MAX];
    char text[256] = "";

    if (flag->letter != '\0') {
        text_append(text, sizeof text, "-%c, ", flag->letter);
    }
    text_append(text, sizeof text, "--%s", flag_spell(flag, name));
    if (flag->alias != NULL) {
        text_append(text, sizeof text, ", --%s", flag->alias);
    }
    if (flag->argument != NULL) {
        text_append(text, sizeof text, "%s%s%s", flag->absent != NULL ? "[=" : " ",
                flag->argument, flag->absent != NULL ? "]" : "");
    }
    print_entry(file, text, flag_sentence(flag, sentence));
}

static void print_flags(FILE *file)
{
    size_t count;
    const struct flag *rows = flag_rows(&count);

    (void)fprintf(file,
            "usage: tuttirun -np N [-H LIST | --hostfile FILE] [options] program "
            "[args]\n"
            "\nStarts N ranks of a program with the launcher already installed: "
            "mpirun, mpiexec\nor srun.\n"
            "\n"
            "  tuttirun -np 4 ./train                  four ranks here\n"
            "  tuttirun -H a:4,b:4 ./train             eight ranks on two hosts\n"
            "  tuttirun --config-file job.yaml ./train flags from a file\n"
            "  tuttirun --dry-run -np 4 ./train        what would be run\n");
    for (size_t i = 0; i < count; i++) {
        if (rows[i].kind == FLAG_GROUP) {
            (void)fprintf(file, "\n%s:\n", rows[i].help);
        } else if (flag_is_ours(&rows[i])) {
            print_flag(file, &rows[i]);
        }
    }
}

static void print_parameters(FILE *file)
{
    size_t count;
    const struct flag *rows = flag_rows(&count);

    (void)fprintf(file,
            "Parameters of the library (each is also a variable: TUTTI_SPIN_US is "
            "--spin-us):\n");
    for (size_t i = 0; i < count; i++) {
        if (rows[i].kind == FLAG_PARAMETER) {
            print_flag(file, &rows[i]);
        }
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

static void print_horovod(FILE *file, const struct flag *flag)
{
    char name[FLAG_NAME_LIMIT];

    (void)fprintf(file, "  --%s of horovodrun: %s%s%s\n", flag_spell(flag, name),
            flag->kind == FLAG_IS                ? flag->to
                    : flag->kind == FLAG_REFUSED ? "is refused here"
                                                 : "does nothing here",
            flag->help[0] == '\0' ? "" : ": ", flag->help);
}

/* One flag, of whichever table. */
static tutti_status print_topic(FILE *file, const char *topic)
{
    const char *name = topic + strspn(topic, "-");
    const bool is_letter = name[0] != '\0' && name[1] == '\0';
    const struct flag *flag =
            is_letter ? flag_of_letter(name[0]) : flag_find_ours(name);
    const struct flag *nearest = flag_nearest(name);
    char text[FLAG_NAME_LIMIT];

    if (flag != NULL) {
        print_flag(file, flag);
        return TUTTI_OK;
    }
    flag = flag_find(name);
    if (flag != NULL) {
        print_horovod(file, flag);
        return TUTTI_OK;
    }
    if (nearest != NULL) {
        return error_set(TUTTI_ERR_INVALID,
                "--help %s: there is no such flag; did you mean %s? Other topics: "
                "parameters, all",
                topic, flag_spell(nearest, text));
    }
    return error_set(TUTTI_ERR_INVALID,
            "--help %s: there is no such topic; choose parameters, all, or the name of "
            "a flag",
            topic);
}

tutti_status help_print(FILE *file, const char *topic)
{
    bool all = strcmp(topic, "all") == 0;
    bool parameters = strcmp(topic, "parameters") == 0;

    if (topic[0] != '\0' && !all && !parameters) {
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
            tutti_version(), built_mpi, has_mpi ? " " : "", built_mpirun, __VERSION__,
            has_mpi ? ", messages of MPI" : "");
}
