/*
 * From options to a command that can be run.
 */
#include "launcher/launch.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "launcher/engine/command.h"
#include "launcher/environment.h"
#include "launcher/program.h"

/* Set by the build: "openmpi", "mpich" or "none", and the path of its mpirun. */
static const char built_family[] = TUTTI_MPI_NAME;
static const char built_mpirun[] = TUTTI_MPIEXEC;

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

/* Neither Open MPI's nor MPICH's mpirun can take one: to them ':' starts the slots. */
static tutti_status refuse_addresses(const struct host_list *hosts)
{
    for (size_t i = 0; i < hosts->count; i++) {
        if (strchr(hosts->hosts[i].name, ':') != NULL) {
            return error_set(TUTTI_ERR_INVALID,
                    "host [%s]: mpirun takes no IPv6 address; give the host a name",
                    hosts->hosts[i].name);
        }
    }
    return TUTTI_OK;
}

static tutti_status check_program(
        const struct options *options, char *const *environment)
{
    char file[PATH_MAX];
    char own_name[HOST_NAME_LIMIT] = "";
    tutti_status status = program_find(options->program[0],
            environment_get(environment, "PATH"), file, sizeof file);

    (void)gethostname(own_name, sizeof own_name - 1);
    if (status == TUTTI_OK || host_list_is_here(&options->hosts.list, own_name)) {
        return status;
    }
    (void)fprintf(stderr,
            "tuttirun: on this host, which may not be one of the job: %s\n",
            tutti_last_error());
    return TUTTI_OK;
}

static enum mpi_family family_built_with(void)
{
    return strcmp(built_family, "openmpi") == 0  ? FAMILY_OPENMPI
            : strcmp(built_family, "mpich") == 0 ? FAMILY_MPICH
                                                 : FAMILY_AUTO;
}

/* The family to start: --mpi, else what --mpirun is called, else the built one. */
static tutti_status choose_family(
        const struct options *options, enum mpi_family *family)
{
    *family = options->engine.family;
    if (*family == FAMILY_AUTO && options->engine.mpirun != NULL) {
        *family = command_family_of(options->engine.mpirun);
    }
    if (*family == FAMILY_AUTO) {
        *family = family_built_with();
    }
    if (*family == FAMILY_AUTO) {
        return error_set(TUTTI_ERR_INVALID,
                "tutti was built without MPI, which starts the ranks; choose one with "
                "--mpi openmpi or --mpi mpich");
    }
    return TUTTI_OK;
}

static tutti_status find_mpirun(const struct options *options, enum mpi_family family,
        const char *path, char *file)
{
    static const char *const openmpi[] = { "mpirun.openmpi", "orterun", "mpirun",
        NULL };
    static const char *const mpich[] = { "mpirun.mpich", "mpiexec.hydra", "mpirun",
        NULL };
    const char *const *names = family == FAMILY_MPICH ? mpich : openmpi;

    if (options->engine.mpirun != NULL) {
        return program_find(options->engine.mpirun, path, file, PATH_MAX);
    }
    if (family == family_built_with() &&
            program_find(built_mpirun, path, file, PATH_MAX) == TUTTI_OK) {
        return TUTTI_OK;
    }
    for (; *names != NULL; names++) {
        if (program_find(*names, path, file, PATH_MAX) == TUTTI_OK) {
            return TUTTI_OK;
        }
    }
    return error_set(TUTTI_ERR_INVALID,
            "the mpirun of %s is not in PATH; install it or name it with --mpirun",
            family == FAMILY_MPICH ? "MPICH" : "Open MPI");
}

tutti_status launch_find_engine(
        const struct options *options, char *const *environment, char *file)
{
    enum mpi_family family;
    tutti_status status = choose_family(options, &family);

    return status != TUTTI_OK
            ? status
            : find_mpirun(options, family, environment_get(environment, "PATH"), file);
}

static tutti_status find_self(char *file)
{
    ssize_t len = readlink("/proc/self/exe", file, PATH_MAX - 1);

    if (len < 0) {
        return error_set_errno(TUTTI_ERR_SYSTEM, "read /proc/self/exe");
    }
    file[len] = '\0';
    return TUTTI_OK;
}

tutti_status launch_prepare(const struct options *options, char *const *environment,
        struct arguments *command)
{
    char mpirun[PATH_MAX];
    char self[PATH_MAX];
    struct command_facts facts = {
        .mpirun = mpirun,
        .self = self,
        .is_root = geteuid() == 0,
        .environment = environment,
    };
    tutti_status status = check_environment();

    if (status == TUTTI_OK) {
        status = refuse_addresses(&options->hosts.list);
    }
    if (status == TUTTI_OK) {
        status = check_program(options, environment);
    }
    if (status == TUTTI_OK) {
        status = choose_family(options, &facts.family);
    }
    if (status == TUTTI_OK) {
        status = find_mpirun(
                options, facts.family, environment_get(environment, "PATH"), mpirun);
    }
    if (status == TUTTI_OK) {
        status = find_self(self);
    }
    return status == TUTTI_OK ? command_build(options, &facts, command) : status;
}
