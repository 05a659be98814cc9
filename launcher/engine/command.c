/*
 * The command line of mpirun, for Open MPI (4 and 5) and for MPICH and its relatives.
 *
 * Ranks fill the slots of the hosts in order, so that the ranks of a host are
 * neighbours. mpirun does not bind: its defaults bind two ranks to a core each and
 * leave the library's threads no room.
 */
#include "launcher/engine/command.h"

#include <string.h>

#include "base/error.h"
#include "base/mem.h"

static void add_hosts(
        struct arguments *command, const char *flag, const struct host_list *hosts)
{
    char *text = host_list_format(hosts);

    if (text == NULL) {
        command->failed = true;
        return;
    }
    arguments_add(command, flag);
    arguments_add(command, text);
    mem_free(text);
}

/*
 * Open MPI hands on to other hosts only what it is told to. Names that were given with a
 * flag or -x have their value from there.
 */
static void add_handed_on(struct arguments *command, const struct options *options,
        char *const *environment)
{
    for (; *environment != NULL; environment++) {
        const char *entry = *environment;
        char name[256];
        size_t len = strcspn(entry, "=");

        if ((strncmp(entry, "TUTTI_", 6) != 0 && strncmp(entry, "HOROVOD_", 8) != 0) ||
                len >= sizeof name) {
            continue;
        }
        memcpy(name, entry, len);
        name[len] = '\0';
        if (!arguments_has(&options->exports, name)) {
            arguments_add(command, "-x");
            arguments_add(command, name);
        }
    }
}

static void add_openmpi(struct arguments *command, const struct options *options,
        const struct command_facts *facts)
{
    if (facts->is_root) {
        arguments_add(command, "--allow-run-as-root");
    }
    arguments_add(command, "--map-by");
    if (options->hosts.list.count > 0) {
        arguments_add(command, "slot");
        add_hosts(command, "-H", &options->hosts.list);
    } else {
        /* The slots of this machine are its cores; more ranks than that is allowed. */
        arguments_add(command, "slot:OVERSUBSCRIBE");
    }
    if (options->bind.how != BIND_MPI) {
        arguments_add(command, "--bind-to");
        arguments_add(command, "none");
    }
    for (size_t i = 0; i < options->exports.count; i++) {
        arguments_add(command, "-x");
        arguments_add(command, options->exports.items[i]);
    }
    add_handed_on(command, options, facts->environment);
}

static void add_genv(struct arguments *command, const char *entry)
{
    size_t len = strcspn(entry, "=");

    /* Hydra hands on our whole environment: a bare NAME needs nothing. */
    if (entry[len] == '=') {
        arguments_add(command, "-genv");
        arguments_add_format(command, "%.*s", (int)len, entry);
        arguments_add(command, entry + len + 1);
    }
}

static void add_mpich(struct arguments *command, const struct options *options)
{
    if (options->hosts.list.count > 0) {
        add_hosts(command, "-hosts", &options->hosts.list);
    }
    if (options->bind.how != BIND_MPI) {
        arguments_add(command, "-bind-to");
        arguments_add(command, "none");
    }
    for (size_t i = 0; i < options->exports.count; i++) {
        add_genv(command, options->exports.items[i]);
    }
}

static void add_wrapper(struct arguments *command, const struct options *options,
        const struct command_facts *facts)
{
    arguments_add(command, facts->self);
    arguments_add(command, "--exec");
    if (options->verbose) {
        arguments_add(command, "--verbose");
    }
    arguments_add(command, "--");
}

tutti_status command_build(const struct options *options,
        const struct command_facts *facts, struct arguments *command)
{
    arguments_add(command, facts->mpirun);
    if (facts->family == FAMILY_MPICH) {
        add_mpich(command, options);
    } else {
        add_openmpi(command, options, facts);
    }
    if (options->engine.mpi_args.count > 0) {
        arguments_add_all(command, options->engine.mpi_args.items);
    }
    arguments_add(command, "-np");
    arguments_add_format(command, "%d", options->ranks);
    if (options->bind.how == BIND_AUTO) {
        add_wrapper(command, options, facts);
    }
    arguments_add_all(command, options->program);
    return arguments_status(command);
}

enum mpi_family command_family_of(const char *mpirun)
{
    const char *slash = strrchr(mpirun, '/');
    const char *name = slash == NULL ? mpirun : slash + 1;

    if (strstr(name, "mpich") != NULL || strstr(name, "hydra") != NULL) {
        return FAMILY_MPICH;
    }
    if (strstr(name, "openmpi") != NULL || strstr(name, "orterun") != NULL ||
            strstr(name, "prterun") != NULL) {
        return FAMILY_OPENMPI;
    }
    return FAMILY_AUTO;
}
