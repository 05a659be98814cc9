/*
 * tuttirun: starts the ranks of a job with the launcher already installed (mpirun, mpiexec
 * or srun), and supervises them until the job has ended.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <tutti/tutti.h>

#include "base/error.h"
#include "base/mem.h"
#include "launcher/arguments.h"
#include "launcher/bind/bind_map.h"
#include "launcher/elastic/elastic.h"
#include "launcher/exec/exec.h"
#include "launcher/exec/start.h"
#include "launcher/exit_status.h"
#include "launcher/flags.h"
#include "launcher/here/here.h"
#include "launcher/horovod.h"
#include "launcher/hosts/source.h"
#include "launcher/job/job.h"
#include "launcher/job/recordings.h"
#include "launcher/mpi_launcher/mpi_launcher.h"
#include "launcher/mpi_launcher/prepare.h"
#include "launcher/options.h"
#include "launcher/session/link.h"
#include "launcher/session/loop.h"
#include "launcher/shell.h"
#include "launcher/signals.h"
#include "tools/check/check.h"

static int report(void)
{
    (void)fprintf(stderr, "tuttirun: %s\n", tutti_last_error());
    return EXIT_LAUNCHER;
}

/* As a line for a shell; variables that are set for the command come first. */
static int show(FILE *file, const struct launch_command *command)
{
    struct arguments all = { .items = NULL };
    char *line = NULL;

    if (command->variables.count > 0) {
        arguments_add(&all, "env");
        arguments_add_all(&all, command->variables.items);
    }
    arguments_add_all(&all, command->words.items);
    if (!all.failed) {
        line = arguments_quote(&all);
    }
    arguments_fini(&all);
    if (line == NULL) {
        (void)fprintf(stderr, "tuttirun: out of memory\n");
        return EXIT_LAUNCHER;
    }
    (void)fprintf(file, "%s\n", line);
    mem_free(line);
    return EXIT_SUCCESS;
}

/* Flags that have no effect. */
static void print_notes(const struct options *options)
{
    for (size_t i = 0; i < options->notes.count; i++) {
        (void)fprintf(stderr, "tuttirun: %s\n", options->notes.items[i]);
    }
}

/* Without supervisors, tuttirun becomes the MPI launcher. Returns only when it cannot. */
static int become(const struct launch_command *command, char *const *environment)
{
    signals_restore();
    (void)execve(command->words.items[0], command->words.items, environment);
    (void)error_set_errno(TUTTI_ERR_SYSTEM, "cannot run %s", command->words.items[0]);
    return report();
}

static int run_command(const struct options *options, const struct placement *placement,
        const struct job_hooks *hooks, const struct launch_command *command,
        char *const *environment)
{
    struct arguments variables = { .items = NULL };
    struct job_plan plan = {
        .options = options,
        .placement = placement,
        .command = command->words.items,
        .hooks = hooks,
    };
    int result;

    if (options->dry_run) {
        return show(stdout, command);
    }
    if (options->verbose) {
        (void)show(stderr, command);
    }
    launch_environment(command, environment, &variables);
    plan.environment = variables.items;
    if (arguments_status(&variables) != TUTTI_OK) {
        result = report();
    } else {
        result =
                options->supervise ? job_run(&plan) : become(command, plan.environment);
    }
    arguments_fini(&variables);
    return result;
}

/* Once; a generation, where the job is elastic. */
static int run_placed(const struct options *options, const struct placement *placement,
        const struct job_hooks *hooks, char *const *environment)
{
    struct launch_command command = { .words = { .items = NULL } };
    int result = launch_prepare(options, placement, environment, &command) != TUTTI_OK
            ? report()
            : run_command(options, placement, hooks, &command, environment);

    launch_command_fini(&command);
    return result;
}

/* ------------------------------------------------------- where ranks run */

/* A variable of the ranks, unless the user set it. */
static void export_number(struct options *options, const char *name, int number)
{
    char text[16];

    if (!arguments_has(&options->export, name)) {
        (void)snprintf(text, sizeof text, "%d", number);
        arguments_set(&options->export, name, text);
    }
}

static tutti_status take(struct options *options, const struct placement *placement)
{
    struct host_list hosts = { .hosts = NULL };
    tutti_status status = host_list_copy(&hosts, &placement->hosts);

    if (status != TUTTI_OK) {
        return status;
    }
    host_list_fini(&options->hosts);
    options->hosts = hosts;
    if (options->np == 0) {
        options->np = placement->ranks;
    }
    status = options_settle_ranks(options, &options->hosts);
    if (status == TUTTI_OK && placement->shard.count > 0) {
        export_number(options, "SHARD_INDEX", placement->shard.index);
        export_number(options, "SHARD_COUNT", placement->shard.count);
        status = arguments_status(&options->export);
    }
    return status;
}

/* Tells the ranks what they are, if that was asked for and is known. */
static tutti_status export_roles(
        struct options *options, const struct placement *placement)
{
    if (!options->roles) {
        return TUTTI_OK;
    }
    if (placement->roles == NULL) {
        return error_set(TUTTI_ERR_INVALID,
                "--roles takes the hosts and roles of TF_CONFIG, but the hosts are "
                "from %s",
                placement->source);
    }
    arguments_set(&options->export, "TUTTI_ROLES", placement->roles);
    return arguments_status(&options->export);
}

static void print_place(
        const struct options *options, const struct placement *placement)
{
    char text[ERROR_TEXT_MAX];

    (void)fprintf(stderr, "tuttirun: %s\n",
            placement_describe(placement, options->np, text, sizeof text));
    if (placement->shard.count > 0) {
        (void)fprintf(stderr,
                "tuttirun: an array job: its ranks have SHARD_INDEX=%d of "
                "SHARD_COUNT=%d\n",
                placement->shard.index, placement->shard.count);
    }
}

/* Becomes the starter of its ranks; returns only where that fails. */
static tutti_status follow(
        const struct options *options, const struct placement *placement)
{
    struct launch_command command = { .words = { .items = NULL } };
    struct arguments variables = { .items = NULL };
    char join[LINK_JOIN_MAX];
    tutti_status status = launch_prepare(options, placement, environ, &command);

    if (status == TUTTI_OK) {
        status = here_wait(&placement->join, options->join_timeout, join);
    }
    if (status == TUTTI_OK) {
        launch_environment(&command, environ, &variables);
        arguments_set(&variables, LINK_VARIABLE, join);
        arguments_set(&variables, HERE_VARIABLE, placement->join.first);
        status = arguments_status(&variables);
    }
    if (status == TUTTI_OK) {
        (void)become(&command, variables.items);
        status = TUTTI_ERR_SYSTEM;
    }
    arguments_fini(&variables);
    launch_command_fini(&command);
    return status;
}

/* On a host that is not the first. */
static int wait_placed(const struct options *options, const struct placement *placement)
{
    if (placement->share.count == 0 || options->dry_run) {
        (void)fprintf(
                stderr, "tuttirun: %s: another host runs the job\n", placement->source);
        return EXIT_SUCCESS;
    }
    if (options->verbose) {
        (void)fprintf(stderr, "tuttirun: %s: host %s runs the job\n", placement->source,
                placement->join.first);
    }
    return follow(options, placement) == TUTTI_OK ? EXIT_SUCCESS : report();
}

static tutti_status place_ranks(
        struct options *options, char *const *environment, struct placement *placement)
{
    struct source_facts facts = {
        .options = options,
        .environment = environment,
        .root = "",
    };
    tutti_status status;

    status = source_resolve(&facts, placement);
    if (status == TUTTI_OK) {
        status = here_place(options, placement);
    }
    if (status == TUTTI_OK && placement->join.nodes > 1 && !options->dry_run) {
        status = join_secret_read(options, environment, &placement->join);
    }
    if (status != TUTTI_OK || (placement->waits && placement->join.nodes <= 1)) {
        return status;
    }
    status = take(options, placement);
    if (status == TUTTI_OK && placement->join.nodes > 1) {
        status = here_share(placement, options->np);
    }
    if (status == TUTTI_OK) {
        status = export_roles(options, placement);
    }
    if (status == TUTTI_OK && !placement->waits &&
            (options->verbose || options->dry_run)) {
        print_place(options, placement);
    }
    return status;
}

static int run_job(const struct options *options, const struct placement *placement)
{
    return options->min_np > 0 && !options->dry_run
            ? elastic_run(options, placement, run_placed, environ)
            : run_placed(options, placement, NULL, environ);
}

static int run(struct options *options)
{
    struct placement placement = { .ranks = 0 };
    tutti_status status = options->horovod ? horovod_serve(options, environ) : TUTTI_OK;
    int result;

    if (options->min_np > 0) {
        signals_leave_again();
    }
    if (status == TUTTI_OK) {
        status = place_ranks(options, environ, &placement);
    }
    /* It has been read; nothing that is started gets it. */
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): tuttirun has one thread */
    (void)unsetenv(JOIN_SECRET_VARIABLE);
    result = status != TUTTI_OK ? report()
            : placement.waits   ? wait_placed(options, &placement)
                                : run_job(options, &placement);
    placement_fini(&placement);
    return result;
}

/*
 * Opens /dev/null in place of standard streams that are closed, as MPI launchers do for their
 * supervisors: the next file to be opened would be taken for one of them.
 */
static void fill_streams(void)
{
    int fd;

    do {
        fd = open("/dev/null", O_RDWR);
    } while (fd >= 0 && fd <= STDERR_FILENO);
    fd_close(&fd);
}

/* A default, as in shells: we look for programs in PATH, and so do MPI launchers. */
static void fill_path(void)
{
    char path[256];

    if (environment_get(environ, "PATH") == NULL &&
            confstr(_CS_PATH, path, sizeof path) <= sizeof path) {
        (void)setenv("PATH", path, 0); /* NOLINT(concurrency-mt-unsafe): one thread */
    }
}

/* What the command line asks for. */
static int obey(struct options *options)
{
    if (options->help != NULL) {
        return help_print(stdout, options->help) == TUTTI_OK ? EXIT_SUCCESS : report();
    }
    if (options->version) {
        if (options->verbose) {
            help_print_build(stdout);
        } else {
            (void)printf("tuttirun %s\n", tutti_version());
        }
        return EXIT_SUCCESS;
    }
    if (options->stacks > 0) {
        return recordings_ask_process(options->stacks) == TUTTI_OK ? EXIT_SUCCESS
                                                                   : report();
    }
    if (options->check) {
        print_notes(options);
        return check_run(options, environ);
    }
    if (options->show_binding != NULL) {
        return bind_show(options, environ) == TUTTI_OK ? EXIT_SUCCESS : report();
    }
    print_notes(options);
    return run(options);
}

int main(int argc, char **argv)
{
    struct options options;
    int result = EXIT_SUCCESS;

    signals_begin();
    fill_streams();
    if (argc > 1 && strcmp(argv[1], "--exec") == 0) {
        shell_enter();
        return exec_main(argv + 2, environ);
    }
    if (argc > 1 && strcmp(argv[1], "--start") == 0) {
        return start_main(argv + 2, environ);
    }
    if (check_part(argv, environ, &result)) {
        return result;
    }
    fill_path();
    if (command_line_parse(&options, argv) == TUTTI_OK) {
        options.horovod = options.horovod || horovod_is_name(argv[0]);
        shell_note(&options.export);
        result = obey(&options);
    } else {
        result = report();
    }
    options_fini(&options);
    return result;
}
