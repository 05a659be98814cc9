/*
 * tuttirun: starts the ranks of a job through the mpirun that is there, and becomes it,
 * so that signals, input and the exit status pass through.
 */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <tutti/tutti.h>

#include "base/error.h"
#include "base/mem.h"
#include "launcher/arguments.h"
#include "launcher/bind/share.h"
#include "launcher/check/check.h"
#include "launcher/help.h"
#include "launcher/launch.h"
#include "launcher/options.h"

/* What env, timeout and containers return when they themselves failed. */
enum {
    EXIT_LAUNCHER = 125
};

static int report(void)
{
    (void)fprintf(stderr, "tuttirun: %s\n", tutti_last_error());
    return EXIT_LAUNCHER;
}

static int show(FILE *file, const struct arguments *command)
{
    char *line = arguments_quote(command);

    if (line == NULL) {
        (void)fprintf(stderr, "tuttirun: out of memory\n");
        return EXIT_LAUNCHER;
    }
    (void)fprintf(file, "%s\n", line);
    mem_free(line);
    return EXIT_SUCCESS;
}

/* Returns only when the command was shown or cannot be run. */
static int run(const struct options *options, char *const *environment)
{
    struct arguments command = { .items = NULL };
    int result;

    if (launch_prepare(options, environment, &command) != TUTTI_OK) {
        result = report();
    } else if (options->dry_run) {
        result = show(stdout, &command);
    } else {
        if (options->verbose) {
            (void)show(stderr, &command);
        }
        (void)execve(command.items[0], command.items, environment);
        (void)error_set_errno(TUTTI_ERR_SYSTEM, "cannot run %s", command.items[0]);
        result = report();
    }
    arguments_fini(&command);
    return result;
}

/* Without a source of hosts but the command line. */
static int check(const struct options *options, char *const *environment)
{
    struct placement placement = { .hosts = options->hosts.list };
    char engine[PATH_MAX] = "";
    struct check_plan plan = {
        .options = options,
        .placement = &placement,
        .environment = environment,
        .engine = engine,
    };

    if (launch_find_engine(options, environment, engine) != TUTTI_OK) {
        engine[0] = '\0';
    }
    return check_run(&plan);
}

int main(int argc, char **argv)
{
    struct options options;
    int result = EXIT_SUCCESS;

    if (argc > 1 && strcmp(argv[1], "--exec") == 0) {
        return share_exec(argv + 2, environ);
    }
    if (check_part(argv, environ, &result)) {
        return result;
    }
    if (options_parse(&options, argv) != TUTTI_OK) {
        result = report();
    } else if (options.action == OPTIONS_HELP) {
        help_print(stdout);
    } else if (options.action == OPTIONS_VERSION) {
        (void)printf("tuttirun %s\n", tutti_version());
    } else if (options.action == OPTIONS_CHECK) {
        result = check(&options, environ);
    } else {
        result = run(&options, environ);
    }
    options_fini(&options);
    return result;
}
