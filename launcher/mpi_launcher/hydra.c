/*
 * Hydra: mpiexec of MPICH, of MVAPICH and of Intel MPI. It hands our whole environment on,
 * over its own connections, never in arguments.
 */
#include <string.h>

#include "base/mem.h"
#include "launcher/mpi_launcher/mpi_launcher.h"

static void add_genv(struct arguments *words, const char *entry)
{
    size_t len = strcspn(entry, "=");

    /* A bare NAME needs nothing. */
    if (entry[len] == '=') {
        arguments_add(words, "-genv");
        arguments_add_format(words, "%.*s", (int)len, entry);
        arguments_add(words, entry + len + 1);
    }
}

/* `ssh_variable` holds words for ssh. */
static void add_remote(const struct options *options, const struct launch_facts *facts,
        const char *ssh_variable, struct launch_command *command)
{
    char *ssh = launch_join_ssh(options, facts, &command->words);

    if (ssh != NULL) {
        arguments_set(&command->variables, ssh_variable, ssh);
    }
    mem_free(ssh);
}

static void add_common(const struct options *options, const struct launch_facts *facts,
        const char *ssh_variable, struct launch_command *command)
{
    struct arguments *words = &command->words;

    if (options->bind != BIND_MPI) {
        arguments_add(words, "-bind-to");
        arguments_add(words, "none");
    }
    if (launch_is_remote(facts)) {
        add_remote(options, facts, ssh_variable, command);
    }
    if (facts->network->interface[0] != '\0') {
        /* Where mpiexec listens; its name is one of this machine, and stays here. */
        arguments_add(words, "-iface");
        arguments_add(words, facts->network->interface);
    }
    for (size_t i = 0; i < command->exports.count; i++) {
        add_genv(words, command->exports.items[i]);
    }
    arguments_add_all(words, options->mpi_args.items);
}

static void add_ranks(struct arguments *words, int ranks)
{
    arguments_add(words, "-np");
    arguments_add_format(words, "%d", ranks);
}

static void build_mpich(const struct options *options, const struct launch_facts *facts,
        struct launch_command *command)
{
    static const char variable[] = "HYDRA_LAUNCHER_EXTRA_ARGS";

    if (facts->hosts->count > 0) {
        launch_add_hosts(&command->words, "-hosts", facts->hosts);
    }
    add_common(options, facts, variable, command);
    add_ranks(&command->words, options->np);
    launch_add_program(options, facts, &command->words);
}

static bool is_even(const struct host_list *hosts)
{
    for (size_t i = 1; i < hosts->count; i++) {
        if (hosts->hosts[i].slots != hosts->hosts[0].slots) {
            return false;
        }
    }
    return true;
}

/* Intel's -hosts takes names only, so the slots are said once for all hosts. */
static void add_even_hosts(struct arguments *words, const struct host_list *hosts)
{
    struct arguments names = { .items = NULL };
    char *text;

    for (size_t i = 0; i < hosts->count; i++) {
        arguments_add(&names, hosts->hosts[i].name);
    }
    text = arguments_join(&names, ",");
    arguments_fini(&names);
    if (text == NULL) {
        words->failed = true;
        return;
    }
    arguments_add(words, "-hosts");
    arguments_add(words, text);
    arguments_add(words, "-ppn");
    arguments_add_format(words, "%d", hosts->hosts[0].slots);
    mem_free(text);
}

/* Hosts with different slots are sections of the command, each with its own ranks. */
static void add_sections(const struct options *options,
        const struct launch_facts *facts, struct arguments *words)
{
    int *counts = mem_calloc(facts->hosts->count, sizeof *counts);
    bool is_first = true;

    if (counts == NULL) {
        words->failed = true;
        return;
    }
    launch_spread(facts->hosts, options->np, counts);
    for (size_t i = 0; i < facts->hosts->count && counts[i] > 0; i++) {
        if (!is_first) {
            arguments_add(words, ":");
        }
        is_first = false;
        add_ranks(words, counts[i]);
        arguments_add(words, "-host");
        arguments_add(words, facts->hosts->hosts[i].name);
        launch_add_program(options, facts, words);
    }
    mem_free(counts);
}

static void build_intel(const struct options *options, const struct launch_facts *facts,
        struct launch_command *command)
{
    static const char variable[] = "I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS";

    if (!is_even(facts->hosts)) {
        add_common(options, facts, variable, command);
        add_sections(options, facts, &command->words);
        return;
    }
    if (facts->hosts->count > 0) {
        add_even_hosts(&command->words, facts->hosts);
    }
    add_common(options, facts, variable, command);
    add_ranks(&command->words, options->np);
    launch_add_program(options, facts, &command->words);
}

const struct mpi_launcher launcher_mpich = {
    .kind = MPI_KIND_MPICH,
    .name = "mpich",
    .title = "MPICH",
    .programs = (const char *const[]){ "mpiexec.hydra", "mpiexec.mpich", "mpirun.mpich",
            "mpiexec.mpich4", NULL },
    .versions = (const char *const[]){ "HYDRA", "MPICH", "mvapich", "MVAPICH", NULL },
    .build = build_mpich,
};

const struct mpi_launcher launcher_intel = {
    .kind = MPI_KIND_INTEL,
    .name = "intel",
    .title = "Intel MPI",
    .programs = (const char *const[]){ NULL },
    .versions = (const char *const[]){ "Intel(R) MPI", NULL },
    .build = build_intel,
};
