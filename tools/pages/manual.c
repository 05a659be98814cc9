/*
 * tuttirun(1).
 */
#include <stdio.h>
#include <string.h>

#include <tutti/tutti.h>

#include "launcher/flags.h"
#include "tools/pages/pages.h"

static const char beginning[] =
        ".SH NAME\n"
        "tuttirun \\- start the ranks of a data-parallel job\n"
        ".SH SYNOPSIS\n"
        ".B tuttirun\n"
        "[\\fB\\-np\\fR \\fIN\\fR]\n"
        "[\\fB\\-H\\fR \\fILIST\\fR | \\fB\\-\\-hostfile\\fR \\fIFILE\\fR]\n"
        "[\\fIoptions\\fR] \\fIprogram\\fR [\\fIargs\\fR]\n"
        ".SH DESCRIPTION\n"
        "Starts\n"
        ".I N\n"
        "ranks of a program with the launcher already installed (mpirun, mpiexec or "
        "srun),\n"
        "gives each rank its share of its host, and reports the first rank that "
        "failed.\n"
        ".PP\n"
        "Flags end at the first word that is none, the program, or at\n"
        ".BR \\-\\- .\n"
        "Long flags may be written with one dash and with\n"
        ".RB ' = ':\n"
        ".BR \"\\-np 4\" ,\n"
        ".BR \\-\\-np=4 .\n"
        "Flags of\n"
        ".B horovodrun\n"
        "are understood where they mean the same.\n";

static const char middle[] = ".SH PARAMETERS\n"
                             "Each parameter of the library is a flag, checked before "
                             "anything starts, and a\n"
                             "variable:\n"
                             ".B TUTTI_SPIN_US\n"
                             "is\n"
                             ".BR \\-\\-spin\\-us .\n"
                             "The flag wins.\n";

static const char end[] =
        ".SH CONFIGURATION FILE\n"
        "The file of\n"
        ".B \\-\\-config\\-file\n"
        "is YAML. Its keys are names of flags and parameters;\n"
        ".B env\n"
        "holds variables for the ranks. The groups of horovodrun's files are read as "
        "well.\n"
        "An unknown key is an error.\n"
        ".PP\n"
        ".RS 4\n"
        ".nf\n"
        "np: 8\n"
        "hosts: [a:4, b:4]\n"
        "stall_warning_s: 30\n"
        "env:\n"
        "  OMP_NUM_THREADS: 4\n"
        ".fi\n"
        ".RE\n"
        ".PP\n"
        "A flag of the command line wins over the file, and the file over\n"
        ".B TUTTI_\n"
        "variables.\n"
        ".SH EXIT STATUS\n"
        "That of the program: the first failed rank's, or 128 and the signal that "
        "ended "
        "it.\n"
        ".TP\n"
        ".B 124\n"
        "the job took longer than it was allowed to\n"
        ".TP\n"
        ".B 125\n"
        "tuttirun could not start it\n"
        ".TP\n"
        ".B 126\n"
        "a host could not run the program\n"
        ".TP\n"
        ".B 127\n"
        "a host did not find the program\n"
        ".TP\n"
        ".B 130\n"
        "interrupted\n"
        ".SH ENVIRONMENT\n"
        "Variables that begin with\n"
        ".B TUTTI_\n"
        "or\n"
        ".B HOROVOD_\n"
        "are handed on to the ranks; others with\n"
        ".BR \\-x .\n"
        ".SH EXAMPLES\n"
        ".TP\n"
        ".B tuttirun \\-np 4 ./train\n"
        "four ranks here\n"
        ".TP\n"
        ".B tuttirun \\-H a:4,b:4 ./train \\-\\-epochs 3\n"
        "eight ranks on two hosts\n"
        ".TP\n"
        ".B tuttirun \\-\\-dry\\-run \\-\\-config\\-file job.yaml ./train\n"
        "what would be run\n"
        ".SH SEE ALSO\n"
        ".BR mpirun (1),\n"
        ".BR srun (1)\n";

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

void pages_manual(void)
{
    size_t count;
    const struct flag *rows = flag_rows(&count);

    (void)puts(".\\\" Made from the tables of flags when tutti is built.");
    (void)printf(".TH TUTTIRUN 1 \"\" \"tutti %s\" \"tutti\"\n", tutti_version());
    (void)fputs(beginning, stdout);
    (void)puts(".SH OPTIONS");
    for (size_t i = 0; i < count; i++) {
        if (rows[i].kind == FLAG_GROUP) {
            (void)printf(".SS ");
            print_line(rows[i].help);
        } else if (flag_is_ours(&rows[i])) {
            print_flag(&rows[i]);
        }
    }
    (void)fputs(middle, stdout);
    for (size_t i = 0; i < count; i++) {
        if (rows[i].kind == FLAG_PARAMETER) {
            print_flag(&rows[i]);
        }
    }
    (void)fputs(end, stdout);
}
