/*
 * From options and hosts to the engine's command, by what is on this machine.
 */
#include "launcher/engine/prepare.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "launcher/engine/detect.h"
#include "launcher/engine/network.h"

/* Set by the build: "openmpi", "mpich" or "none", and the path of its mpirun. */
static const char built_family[] = TUTTI_MPI_NAME;
static const char built_mpirun[] = TUTTI_MPIEXEC;

static tutti_status find_self(char *file)
{
    ssize_t len = readlink("/proc/self/exe", file, PATH_MAX - 1);

    if (len < 0) {
        return error_set_errno(TUTTI_ERR_SYSTEM, "read /proc/self/exe");
    }
    file[len] = '\0';
    return TUTTI_OK;
}

static enum engine_kind kind_built_with(void)
{
    return strcmp(built_family, "openmpi") == 0  ? ENGINE_OPENMPI
            : strcmp(built_family, "mpich") == 0 ? ENGINE_MPICH
                                                 : ENGINE_AUTO;
}

tutti_status engine_find(const struct options *options,
        const struct placement *placement, char *const *environment,
        struct detect_choice *choice)
{
    const struct detect_facts question = {
        .options = options,
        .environment = environment,
        .built = kind_built_with(),
        .built_mpirun = built_mpirun,
        .is_slurm = placement->is_slurm,
    };

    return detect_engine(&question, choice);
}

tutti_status engine_prepare(const struct options *options,
        const struct placement *placement, char *const *environment,
        struct engine_command *command)
{
    const struct detect_facts question = {
        .options = options,
        .environment = environment,
        .built = kind_built_with(),
        .built_mpirun = built_mpirun,
        .is_slurm = placement->is_slurm,
    };
    struct network_choice network;
    struct detect_choice engine;
    char self[PATH_MAX];
    char own_name[HOST_NAME_LIMIT] = "";
    struct engine_facts facts = {
        .path = engine.path,
        .self = self,
        .hosts = &placement->hosts,
        .is_slurm = placement->is_slurm,
        .is_step = detect_step(environment),
        .is_root = geteuid() == 0,
        .network = &network,
        .environment = environment,
    };
    tutti_status status = detect_engine(&question, &engine);

    (void)gethostname(own_name, sizeof own_name - 1);
    facts.is_here = host_list_is_here(&placement->hosts, own_name);
    if (status == TUTTI_OK) {
        facts.ranks = engine.ranks;
        status = network_choose(&placement->hosts, options->engine.nic, &network);
    }
    if (status == TUTTI_OK) {
        status = find_self(self);
    }
    if (status == TUTTI_OK && options->verbose) {
        (void)fprintf(stderr, "tuttirun: %s starts the ranks: %s\n",
                engine.engine->title, engine.how);
    }
    return status == TUTTI_OK ? engine_build(engine.engine, options, &facts, command)
                              : status;
}
