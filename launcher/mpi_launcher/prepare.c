#include "launcher/mpi_launcher/prepare.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "launcher/arguments.h"
#include "launcher/built.h"
#include "launcher/mpi_launcher/detect.h"
#include "launcher/mpi_launcher/job_network.h"
#include "launcher/mpi_launcher/mpi_collectives.h"
#include "launcher/program.h"

/* What the program is linked to, where its file is on this machine. */
static void read_program(
        const struct options *options, char *const *environment, struct linked *linked)
{
    char file[PATH_MAX];

    *linked = (struct linked){ .kind = MPI_KIND_AUTO };
    if (program_find(options->program[0], environment_get(environment, "PATH"), file,
                sizeof file) == TUTTI_OK) {
        linked_read(file, environment, linked);
    }
}

/* srun starts the ranks of any MPI. */
static tutti_status check_linked(const struct options *options,
        const struct linked *linked, const struct detect_choice *choice)
{
    if (detect_serves(choice->launcher, linked->kind) ||
            choice->launcher->kind == MPI_KIND_SRUN || options->any_mpi) {
        return TUTTI_OK;
    }
    if (choice->launcher == &launcher_own) {
        return error_set(TUTTI_ERR_INVALID,
                "%s is linked to %s (%s), but would be started without an MPI, and to "
                "its "
                "MPI every rank would be rank 0 of 1; choose another --engine, or "
                "--any-mpi to start it all the same",
                options->program[0],
                linked->kind == MPI_KIND_MPICH ? "MPICH or Intel MPI" : "Open MPI",
                linked->library);
    }
    return error_set(TUTTI_ERR_INVALID,
            "%s is linked to %s (%s), but %s of %s would start it, and every rank "
            "would be rank 0 of 1; use --engine %s, or --any-mpi to start it all the "
            "same",
            options->program[0],
            linked->kind == MPI_KIND_MPICH ? "MPICH or Intel MPI" : "Open MPI",
            linked->library, choice->path, choice->launcher->title,
            linked->kind == MPI_KIND_MPICH ? "mpich" : "openmpi");
}

tutti_status launch_find(const struct options *options,
        const struct placement *placement, char *const *environment,
        const struct linked *program, struct detect_choice *choice)
{
    const struct detect_facts question = {
        .options = options,
        .environment = environment,
        .built = mpi_kind_built_with(),
        .built_mpirun = built_mpirun,
        .program = program->kind,
        /* Other hosts are reached as the MPI was set up for, by PBS or LSF for example. */
        .needs_no_mpi = program->needs_no_mpi && network_is_here(&placement->hosts),
        .is_slurm = placement->is_slurm,
    };

    return detect_launcher(&question, choice);
}

/* What tuttirun itself can start. */
static tutti_status check_own(
        const struct options *options, const struct launch_facts *facts)
{
    if (!options->supervise) {
        return error_set(TUTTI_ERR_INVALID,
                "--supervise off: without an MPI ranks find each other through their "
                "supervisors; choose an MPI with --engine, or leave it out");
    }
    if (options->engine != MPI_KIND_SSH && options->engine != MPI_KIND_AUTO &&
            !facts->is_here && !facts->share->is_set) {
        return error_set(TUTTI_ERR_INVALID,
                "--engine %s starts ranks on this host alone, and %s is another one; "
                "--engine ssh reaches it",
                options->engine == MPI_KIND_LOCAL ? "local" : "here",
                facts->hosts->hosts[0].name);
    }
    return TUTTI_OK;
}

static tutti_status build_command(const struct options *options,
        const struct placement *placement, char *const *environment,
        struct launch_command *command)
{
    static const struct host_list nobody = { .count = 0 };
    struct network_choice network;
    struct detect_choice launcher;
    char self[PATH_MAX];
    char mpi_collectives[PATH_MAX];
    struct launch_facts facts = {
        .path = launcher.path,
        .self = self,
        .hosts = &placement->hosts,
        .is_slurm = placement->is_slurm,
        .share = &placement->share,
        .is_step = detect_step(environment),
        .is_root = geteuid() == 0,
        .network = &network,
        .mpi_collectives = mpi_collectives,
        .environment = environment,
    };
    struct linked linked;
    tutti_status status;

    read_program(options, environment, &linked);
    status = launch_find(options, placement, environment, &linked, &launcher);
    if (status == TUTTI_OK) {
        status = check_linked(options, &linked, &launcher);
    }
    facts.is_here = network_is_here(&placement->hosts);
    if (status == TUTTI_OK) {
        facts.ranks = launcher.ranks;
        status = launcher.launcher == &launcher_own ? check_own(options, &facts)
                                                    : TUTTI_OK;
    }
    if (status == TUTTI_OK) {
        /* Routes to the hosts are for an MPI launcher. */
        status = network_choose(
                launcher.launcher == &launcher_own ? &nobody : &placement->hosts,
                options->nic, &network);
    }
    if (status == TUTTI_OK) {
        status = program_self(self, sizeof self);
    }
    if (status == TUTTI_OK && options->mpi_collectives) {
        status = mpi_collectives_find(self, launcher.ranks, mpi_collectives);
    }
    if (status == TUTTI_OK && options->verbose) {
        (void)fprintf(stderr, "tuttirun: %s starts the ranks: %s\n",
                launcher.launcher->title, launcher.how);
    }
    return status == TUTTI_OK
            ? launch_build(launcher.launcher, options, &facts, command)
            : status;
}

/* Values that every rank would refuse are refused once. */
static tutti_status check_environment(void)
{
    struct config config;
    char warnings[ERROR_TEXT_MAX] = "";
    tutti_status status = config_init(&config);

    if (status != TUTTI_OK) {
        return status;
    }
    status = config_from_environment(&config, warnings, sizeof warnings);
    config_fini(&config);
    return status;
}

tutti_status launch_check_hosts(const struct host_list *hosts)
{
    for (size_t i = 0; i < hosts->count; i++) {
        if (strchr(hosts->hosts[i].name, ':') != NULL) {
            return error_set(TUTTI_ERR_INVALID,
                    "host [%s]: no engine takes an IPv6 address; give the host a name "
                    "in DNS or /etc/hosts",
                    hosts->hosts[i].name);
        }
    }
    return TUTTI_OK;
}

static tutti_status check_program(const struct options *options,
        const struct placement *placement, char *const *environment)
{
    char file[PATH_MAX];
    tutti_status status = program_find(options->program[0],
            environment_get(environment, "PATH"), file, sizeof file);

    if (status == TUTTI_OK || placement->share.is_set) {
        return TUTTI_OK; /* else the supervisors tell the first host */
    }
    if (network_is_here(&placement->hosts)) {
        return status;
    }
    (void)fprintf(stderr,
            "tuttirun: on this host, which may not be one of the job: %s\n",
            tutti_last_error());
    return TUTTI_OK;
}

tutti_status launch_prepare(const struct options *options,
        const struct placement *placement, char *const *environment,
        struct launch_command *command)
{
    tutti_status status = check_environment();

    if (status == TUTTI_OK) {
        status = launch_check_hosts(&placement->hosts);
    }
    if (status == TUTTI_OK) {
        status = check_program(options, placement, environment);
    }
    return status == TUTTI_OK ? build_command(options, placement, environment, command)
                              : status;
}
