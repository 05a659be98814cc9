/*
 * Open MPI 4 (orterun) and Open MPI 5 (prterun of PRRTE 3), whose command lines differ in
 * the names of parameters: Open MPI 5 renamed rsh to ssh, and sets with --prtemca what
 * concerns its daemons.
 *
 * Ranks fill the slots of the hosts in order, so that the ranks of a host are neighbours.
 * mpirun does not bind: its defaults bind two ranks to a core each and leave the library's
 * threads no room.
 */
#include <stddef.h>

#include "base/mem.h"
#include "launcher/starter/starter.h"

enum {
    /*
     * Up to so many hosts mpirun itself connects to each of them, so that hosts need no
     * key for one another; more are reached over a tree, or starting takes long.
     */
    DIRECT_HOSTS_MAX = 64
};

/* Names that differ between the two. */
struct openmpi_words {
    const char *parameter; /* the flag that sets a parameter of mpirun itself */
    const char *agent; /* what starts a daemon on another host               */
    const char *agent_args; /* flags for it                                  */
    const char *no_tree; /* the daemons do not start each other              */
    const char *network; /* ranges of addresses for what the daemons say     */
};

static void add_parameter(struct arguments *words, const struct openmpi_words *named,
        const char *name, const char *value)
{
    arguments_add(words, named->parameter);
    arguments_add(words, name);
    arguments_add(words, value);
}

/* How the daemons are started on other hosts. */
static void add_remote(const struct options *options, const struct starter_facts *facts,
        const struct openmpi_words *named, struct arguments *words)
{
    char *ssh = starter_join_ssh(options, facts, words);

    if (facts->remote_agent != NULL) {
        add_parameter(words, named, named->agent, facts->remote_agent);
    }
    if (ssh != NULL) {
        add_parameter(words, named, named->agent_args, ssh);
    }
    mem_free(ssh);
    if (facts->remote_agent != NULL || facts->hosts->count <= DIRECT_HOSTS_MAX) {
        add_parameter(words, named, named->no_tree, "1");
    }
}

/*
 * The supervisors look after the ranks, so what the daemons do is only the last resort, but
 * its time counts: between SIGCONT, SIGTERM and SIGKILL a daemon sleeps 1 s by default.
 * A host that is cut off is noticed after 2 + 3 s, a little later than by tuttirun, who has
 * more to say; without this after 8 minutes.
 */
static void add_limits(const struct starter_facts *facts,
        const struct openmpi_words *named, struct arguments *words)
{
    add_parameter(words, named, "odls_base_sigkill_timeout", "0");
    if (!facts->is_here) {
        add_parameter(words, named, "oob_tcp_keepalive_time", "2");
        add_parameter(words, named, "oob_tcp_keepalive_intvl", "1");
        add_parameter(words, named, "oob_tcp_keepalive_probes", "3");
    }
}

static void add_network(const struct starter_facts *facts,
        const struct openmpi_words *named, struct arguments *words)
{
    if (facts->network->cidrs[0] == '\0') {
        return;
    }
    add_parameter(words, named, named->network, facts->network->cidrs);
    arguments_add(words, "--mca");
    arguments_add(words, "btl_tcp_if_include");
    arguments_add(words, facts->network->cidrs);
}

static void build_named(const struct options *options,
        const struct starter_facts *facts, const struct openmpi_words *named,
        struct starter_command *command)
{
    struct arguments *words = &command->words;

    if (facts->is_root) {
        arguments_add(words, "--allow-run-as-root");
    }
    arguments_add(words, "--map-by");
    if (facts->hosts->count > 0) {
        arguments_add(words, "slot");
        starter_add_hosts(words, "-H", facts->hosts);
    } else {
        /* The slots of this machine are its cores; more ranks than that is allowed. */
        arguments_add(words, "slot:OVERSUBSCRIBE");
    }
    if (options->bind != BIND_MPI) {
        arguments_add(words, "--bind-to");
        arguments_add(words, "none");
    }
    if (starter_is_remote(facts)) {
        add_remote(options, facts, named, words);
    }
    if (options->supervise) {
        add_limits(facts, named, words);
    }
    add_network(facts, named, words);
    for (size_t i = 0; i < command->exports.count; i++) {
        arguments_add(words, "-x");
        arguments_add(words, command->exports.items[i]);
    }
    arguments_add_all(words, options->mpi_args.items);
    arguments_add(words, "-np");
    arguments_add_format(words, "%d", options->np);
    starter_add_program(options, facts, words);
}

static void build_orte(const struct options *options, const struct starter_facts *facts,
        struct starter_command *command)
{
    static const struct openmpi_words named = {
        .parameter = "--mca",
        .agent = "plm_rsh_agent",
        .agent_args = "plm_rsh_args",
        .no_tree = "plm_rsh_no_tree_spawn",
        .network = "oob_tcp_if_include",
    };

    build_named(options, facts, &named, command);
}

static void build_prrte(const struct options *options,
        const struct starter_facts *facts, struct starter_command *command)
{
    static const struct openmpi_words named = {
        .parameter = "--prtemca",
        .agent = "plm_ssh_agent",
        .agent_args = "plm_ssh_args",
        .no_tree = "plm_ssh_no_tree_spawn",
        .network = "prte_if_include",
    };

    build_named(options, facts, &named, command);
}

const struct starter starter_openmpi = {
    .kind = STARTER_OPENMPI,
    .name = "openmpi",
    .title = "Open MPI 4",
    .programs = (const char *const[]){ "orterun", NULL },
    .versions = (const char *const[]){ "(OpenRTE)", "(Open MPI) 4.", "(Open MPI) 3.",
            "(Open MPI) 2.", "IBM Spectrum MPI", NULL },
    .build = build_orte,
};

const struct starter starter_prrte = {
    .kind = STARTER_OPENMPI,
    .name = "openmpi",
    .title = "Open MPI 5",
    .programs = (const char *const[]){ "prterun", "prun", NULL },
    .versions =
            (const char *const[]){ "(Open MPI) 5.", "(Open MPI) 6.", "(PRRTE)", NULL },
    .build = build_prrte,
};
