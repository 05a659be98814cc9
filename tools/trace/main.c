/*
 * tutti-trace: timelines of a job's ranks.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "tools/trace/trace.h"

enum {
    CHANGED = 1, /* exit status of diff: a step takes another time */
    UNUSABLE = 2, /* exit status: wrong arguments, nothing to read   */
    FOLDERS_MAX = 2
};

static const char help[] =
        "usage: tutti-trace merge DIR [-o FILE] [--steps A-B] [--no-tensors]\n"
        "       tutti-trace summary DIR [--json]\n"
        "       tutti-trace diff DIR DIR\n"
        "       tutti-trace svg DIR --step N -o FILE\n"
        "\n"
        "Reads the timelines of a job's ranks, DIR/rank.0 and so on, recorded by\n"
        "tuttirun --timeline DIR, also while the job runs or after it was killed; and\n"
        "flight recordings (--record-dir).\n"
        "\n"
        "  merge          all ranks as JSON for https://ui.perfetto.dev or\n"
        "                 chrome://tracing\n"
        "  summary        breakdown of step time, and late ranks\n"
        "  diff           significant differences of the second from the first\n"
        "  svg            a picture of a step\n"
        "\n"
        "  -o FILE        output (default: standard output); FILE.gz is compressed\n"
        "  --steps A-B    only these steps; A- from A on, A only that one\n"
        "  --no-tensors   no row for each tensor, which makes the file much smaller\n"
        "  --json         the summary as JSON, of all steps\n"
        "  --step N       the step\n"
        "  --help         print this help\n"
        "\n"
        "Exit status: 0; 1 diff: step time has changed; 2 wrong arguments, or nothing\n"
        "to read. See docs/timeline.md.\n";

struct trace_arguments {
    const char *command;
    const char *folders[FOLDERS_MAX];
    int folder_count;
    const char *output; /* NULL: standard output */
    uint64_t step;
    bool has_step;
    bool is_json;
    struct merge_choice choice;
};

/* One that has a value; 0: it is none, -1: its value is wrong. */
static int read_value(
        struct trace_arguments *arguments, const char *name, const char *value)
{
    uint64_t last;

    if (value == NULL) {
        return 0;
    }
    if (strcmp(name, "-o") == 0) {
        arguments->output = value;
        return 1;
    }
    if (strcmp(name, "--steps") == 0) {
        return text_to_range(value, &arguments->choice.first, &arguments->choice.last)
                ? 1
                : -1;
    }
    if (strcmp(name, "--step") == 0) {
        arguments->has_step = text_to_range(value, &arguments->step, &last) &&
                last == arguments->step;
        return arguments->has_step ? 1 : -1;
    }
    return 0;
}

/* NULL, or the argument that is wrong. */
static const char *read_arguments(struct trace_arguments *arguments, char **argv)
{
    for (; *argv != NULL; argv++) {
        const int values = read_value(arguments, *argv, argv[1]);

        if (values < 0) {
            return argv[1];
        }
        if (values > 0) {
            argv++;
        } else if (strcmp(*argv, "--json") == 0) {
            arguments->is_json = true;
        } else if (strcmp(*argv, "--no-tensors") == 0) {
            arguments->choice.has_tensors = false;
        } else if (**argv == '-' || arguments->folder_count == FOLDERS_MAX) {
            return *argv;
        } else {
            arguments->folders[arguments->folder_count++] = *argv;
        }
    }
    return NULL;
}

/* A directory, read and put together. */
struct loaded {
    struct recorded_job job;
    struct trace trace;
    struct accounts accounts;
};

static void unload(struct loaded *loaded)
{
    accounts_fini(&loaded->accounts);
    if (loaded->trace.job != NULL) {
        trace_fini(&loaded->trace);
    }
    recorded_job_fini(&loaded->job);
}

static tutti_status load(struct loaded *loaded, const char *folder)
{
    tutti_status status;

    *loaded = (struct loaded){ .job = { .count = 0 } };
    status = recorded_job_load(&loaded->job, folder, stderr);
    if (status != TUTTI_OK) {
        return status;
    }
    status = trace_make(&loaded->trace, &loaded->job);
    if (status == TUTTI_OK) {
        status = accounts_make(&loaded->accounts, &loaded->trace);
    }
    if (status != TUTTI_OK) {
        unload(loaded);
    }
    return status;
}

static int print_error(void)
{
    (void)fprintf(stderr, "tutti-trace: %s\n", tutti_last_error());
    return UNUSABLE;
}

static tutti_status write_to(FILE *file, const struct loaded *loaded,
        const struct trace_arguments *arguments)
{
    if (strcmp(arguments->command, "svg") == 0) {
        return trace_draw_step(file, &loaded->trace, arguments->step);
    }
    if (strcmp(arguments->command, "merge") == 0) {
        return trace_merge(file, &loaded->trace, &arguments->choice);
    }
    if (arguments->is_json) {
        return trace_summary_json(file, &loaded->trace, &loaded->accounts);
    }
    trace_summary(file, &loaded->trace, &loaded->accounts);
    return TUTTI_OK;
}

/* What is made of one directory. */
static int write_one(const struct trace_arguments *arguments)
{
    const char *path = arguments->output;
    struct loaded loaded;
    tutti_status status = load(&loaded, arguments->folders[0]);
    FILE *file;
    bool failed;

    if (status != TUTTI_OK) {
        return print_error();
    }
    file = path == NULL ? stdout : trace_open_output(path);
    if (file == NULL) {
        unload(&loaded);
        return print_error();
    }
    status = write_to(file, &loaded, arguments);
    failed = ferror(file) != 0;
    if (fclose(file) != 0 || failed) {
        status = status == TUTTI_OK ? error_set_errno(TUTTI_ERR_SYSTEM, "write %s",
                                              path == NULL ? "stdout" : path)
                                    : status;
    }
    unload(&loaded);
    return status == TUTTI_OK ? EXIT_SUCCESS : print_error();
}

static int compare(const struct trace_arguments *arguments)
{
    struct loaded a;
    struct loaded b;
    bool has_changed;

    if (load(&a, arguments->folders[0]) != TUTTI_OK) {
        return print_error();
    }
    if (load(&b, arguments->folders[1]) != TUTTI_OK) {
        unload(&a);
        return print_error();
    }
    has_changed = trace_diff(stdout, &a.accounts, &b.accounts);
    unload(&a);
    unload(&b);
    return has_changed ? CHANGED : EXIT_SUCCESS;
}

static int wrong(const char *what)
{
    (void)fprintf(stderr, "tutti-trace: %s; tutti-trace --help explains\n", what);
    return UNUSABLE;
}

static int run(const struct trace_arguments *arguments)
{
    const char *command = arguments->command;
    const bool is_diff = strcmp(command, "diff") == 0;
    const bool is_svg = strcmp(command, "svg") == 0;

    if (arguments->folder_count != (is_diff ? 2 : 1)) {
        return wrong(is_diff ? "diff compares two directories"
                             : "name one directory with recordings");
    }
    if (is_svg != arguments->has_step) {
        return wrong("svg, and nothing else, takes --step N");
    }
    if (is_diff) {
        return compare(arguments);
    }
    return is_svg || strcmp(command, "summary") == 0 || strcmp(command, "merge") == 0
            ? write_one(arguments)
            : wrong("it is merge, summary, diff or svg");
}

int main(int argc, char **argv)
{
    struct trace_arguments arguments = { .choice = { .last = UINT64_MAX,
                                                 .has_tensors = true } };
    const char *bad;

    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0) {
            (void)fputs(help, stdout);
            return EXIT_SUCCESS;
        }
    }
    if (argc < 2) {
        (void)fputs(help, stderr);
        return UNUSABLE;
    }
    arguments.command = argv[1];
    bad = read_arguments(&arguments, argv + 2);
    if (bad != NULL) {
        (void)fprintf(
                stderr, "tutti-trace: %s: what is that? tutti-trace --help\n", bad);
        return UNUSABLE;
    }
    return run(&arguments);
}
