/*
 * tutti-autopsy: finds why a recorded job hangs or has failed.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/text.h"
#include "launcher/exec/look.h"
#include "tools/autopsy/autopsy.h"

enum {
    FOUND = 1, /* exit status: a cause was found           */
    UNREADABLE = 2 /* exit status: wrong arguments, no recordings */
};

static const char help[] =
        "usage: tutti-autopsy [--short] [--events N] [--svg FILE] DIR\n"
        "\n"
        "Reads the recordings of a job's ranks, DIR/rank.0 and so on, and reports the\n"
        "missing rank, the ranks and the tensor that wait for it, the last action and\n"
        "the time of each rank, slow ranks and links, and the last events of all.\n"
        "The job may still run.\n"
        "\n"
        "  --short      only the diagnosis, slow links and slow ranks, one line each\n"
        "  --events N   number of last events (40)\n"
        "  --svg FILE   also draw the events; tutti-trace draws more\n"
        "  --help       print this help\n"
        "\n"
        "Exit status: 0 no rank waits for another; 1 a cause was found; 2 there is\n"
        "nothing to read. tuttirun prints where recordings are; see\n"
        "docs/launcher/failures.md.\n";

struct arguments_of {
    const char *folder;
    const char *svg; /* NULL: none */
    size_t events;
    bool is_short;
};

/* False when they are wrong. */
static bool read_arguments(struct arguments_of *arguments, char **argv)
{
    int64_t number;

    for (argv++; *argv != NULL; argv++) {
        if (strcmp(*argv, "--short") == 0) {
            arguments->is_short = true;
        } else if (strcmp(*argv, "--svg") == 0 && argv[1] != NULL) {
            arguments->svg = *++argv;
        } else if (strcmp(*argv, "--events") == 0 && argv[1] != NULL &&
                text_to_int64(argv[1], &number) && number >= 0) {
            arguments->events = (size_t)number;
            argv++;
        } else if (**argv == '-' || arguments->folder != NULL) {
            return false;
        } else {
            arguments->folder = *argv;
        }
    }
    return arguments->folder != NULL;
}

/* For processes of this host that still write their recording, looks up what they are doing. */
static void look_at_living(struct recorded_job *job)
{
    char own_name[RECORDER_HOST_BYTES] = "";

    (void)gethostname(own_name, sizeof own_name - 1);
    for (size_t r = 0; r < job->count; r++) {
        struct recording_of *recording = &job->ranks[r];
        struct look_facts facts;
        char words[LOOK_TEXT_MAX];

        if (recording->is_copy || recording->is_finalized || recording->pid <= 0 ||
                strcmp(recording->host, own_name) != 0) {
            continue;
        }
        look_at(recording->pid, &facts);
        look_words(&facts, words);
        recording->process_state = facts.state;
        (void)snprintf(recording->process, sizeof recording->process, "%s", words);
        if (facts.state != 'X') {
            recording->end_ns = clock_ns();
        }
    }
}

/* Does nothing without a path. False: that failed, and an error was printed. */
static bool write_svg(const char *path, const struct recorded_job *job,
        const struct analysis *analysis)
{
    FILE *file;
    bool failed;

    if (path == NULL) {
        return true;
    }
    file = fopen(path, "we");
    if (file == NULL) {
        (void)fprintf(stderr, "tutti-autopsy: %s cannot be written\n", path);
        return false;
    }
    autopsy_draw(file, job, analysis);
    failed = ferror(file) != 0;
    failed = fclose(file) != 0 || failed;
    if (failed) {
        (void)fprintf(stderr, "tutti-autopsy: %s cannot be written\n", path);
    }
    return !failed;
}

static int report(const struct arguments_of *arguments, struct recorded_job *job)
{
    struct analysis analysis;
    int result;

    if (!arguments->is_short) {
        look_at_living(job);
    }
    if (analysis_make(&analysis, job) != TUTTI_OK) {
        (void)fprintf(stderr, "tutti-autopsy: %s\n", tutti_last_error());
        return UNREADABLE;
    }
    if (arguments->is_short) {
        autopsy_print_short(stdout, job, &analysis);
    } else {
        autopsy_print(stdout, job, &analysis, arguments->events);
    }
    result = analysis.cause != CULPRIT_NONE ? FOUND : EXIT_SUCCESS;
    if (!write_svg(arguments->svg, job, &analysis)) {
        result = UNREADABLE;
    }
    analysis_fini(&analysis);
    return result;
}

int main(int argc, char **argv)
{
    struct arguments_of arguments = { .events = 40 };
    struct recorded_job job;
    int result;

    if (argc == 2 && strcmp(argv[1], "--help") == 0) {
        (void)fputs(help, stdout);
        return EXIT_SUCCESS;
    }
    if (!read_arguments(&arguments, argv)) {
        (void)fputs(help, stderr);
        return UNREADABLE;
    }
    if (recorded_job_load(&job, arguments.folder, stderr) != TUTTI_OK) {
        (void)fprintf(stderr, "tutti-autopsy: %s\n", tutti_last_error());
        return UNREADABLE;
    }
    result = report(&arguments, &job);
    recorded_job_fini(&job);
    return result;
}
