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
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "launcher/mpi_launcher/mpi_launcher.h"

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
    const char *keep_domains; /* without it, of a host's name the first label counts */
};

/* What a command is made of. */
struct build {
    const struct options *options;
    const struct launch_facts *facts;
    const struct openmpi_words *named;
    struct arguments *words; /* so far */
};

/* Those that the user has set count: mpirun takes none twice. */
static void add(const struct build *build, const char *flag, const char *name,
        const char *value)
{
    const struct arguments *given = &build->options->mpi_args;

    for (size_t i = 0; i < given->count; i++) {
        if (strcmp(given->items[i], name) == 0) {
            return;
        }
    }
    arguments_add(build->words, flag);
    arguments_add(build->words, name);
    arguments_add(build->words, value);
}

static void add_parameter(
        const struct build *build, const char *name, const char *value)
{
    add(build, build->named->parameter, name, value);
}

static void add_number(const struct build *build, const char *name, int value)
{
    char text[16];

    (void)snprintf(text, sizeof text, "%d", value);
    add_parameter(build, name, text);
}

/* How the daemons are started on other hosts. */
static void add_remote(const struct build *build)
{
    char *ssh = launch_join_ssh(build->options, build->facts, build->words);

    if (ssh != NULL) {
        add_parameter(build, build->named->agent_args, ssh);
    }
    mem_free(ssh);
    if (build->facts->hosts->count <= DIRECT_HOSTS_MAX) {
        add_number(build, build->named->no_tree, 1);
    }
}

/*
 * The supervisors look after the ranks, so what the daemons do is only the last resort, but
 * its time counts: between SIGCONT, SIGTERM and SIGKILL a daemon sleeps 1 s by default.
 * A host that is cut off is noticed a little later than by tuttirun, who has more to say;
 * without this after 8 minutes.
 */
static void add_limits(const struct build *build)
{
    const int interval_s = launch_keepalive_s(build->options);

    add_number(build, "odls_base_sigkill_timeout", 0);
    if (!build->facts->is_here) {
        add_number(build, "oob_tcp_keepalive_time", interval_s);
        add_number(build, "oob_tcp_keepalive_intvl", interval_s);
        add_number(build, "oob_tcp_keepalive_probes", LAUNCH_PROBES);
    }
}

static void add_network(const struct build *build)
{
    const char *cidrs = build->facts->network->cidrs;

    if (cidrs[0] != '\0') {
        add_parameter(build, build->named->network, cidrs);
        add(build, "--mca", "btl_tcp_if_include", cidrs);
    }
}

static void build_named(const struct options *options, const struct launch_facts *facts,
        const struct openmpi_words *named, struct launch_command *command)
{
    struct arguments *words = &command->words;
    const struct build build = {
        .options = options, .facts = facts, .named = named, .words = words
    };

    if (facts->is_root) {
        arguments_add(words, "--allow-run-as-root");
    }
    arguments_add(words, "--map-by");
    if (facts->hosts->count > 0) {
        arguments_add(words, "slot");
        launch_add_hosts(words, "-H", facts->hosts);
    } else {
        /* The slots of this machine are its cores; more ranks than that is allowed. */
        arguments_add(words, "slot:OVERSUBSCRIBE");
    }
    if (options->bind != BIND_MPI) {
        arguments_add(words, "--bind-to");
        arguments_add(words, "none");
    }
    if (launch_is_remote(facts)) {
        add_remote(&build);
    } else {
        /* Where there is no ssh mpirun refuses to start, even if it needs none. */
        add_parameter(&build, named->agent, "");
    }
    for (size_t i = 0; !facts->is_here && i < facts->hosts->count; i++) {
        if (strchr(facts->hosts->hosts[i].name, '.') != NULL) {
            add_number(&build, named->keep_domains, 1);
            break;
        }
    }
    if (options->supervise) {
        add_limits(&build);
    }
    add_network(&build);
    for (size_t i = 0; i < command->exports.count; i++) {
        arguments_add(words, "-x");
        arguments_add(words, command->exports.items[i]);
    }
    arguments_add_all(words, options->mpi_args.items);
    arguments_add(words, "-np");
    arguments_add_format(words, "%d", options->np);
    launch_add_program(options, facts, words);
}

static void build_orte(const struct options *options, const struct launch_facts *facts,
        struct launch_command *command)
{
    static const struct openmpi_words named = {
        .parameter = "--mca",
        .agent = "plm_rsh_agent",
        .agent_args = "plm_rsh_args",
        .no_tree = "plm_rsh_no_tree_spawn",
        .network = "oob_tcp_if_include",
        .keep_domains = "orte_keep_fqdn_hostnames",
    };

    build_named(options, facts, &named, command);
}

static void build_prrte(const struct options *options, const struct launch_facts *facts,
        struct launch_command *command)
{
    static const struct openmpi_words named = {
        .parameter = "--prtemca",
        .agent = "plm_ssh_agent",
        .agent_args = "plm_ssh_args",
        .no_tree = "plm_ssh_no_tree_spawn",
        .network = "prte_if_include",
        .keep_domains = "prte_keep_fqdn_hostnames",
    };

    build_named(options, facts, &named, command);
}

const struct mpi_launcher launcher_openmpi = {
    .kind = MPI_KIND_OPENMPI,
    .name = "openmpi",
    .title = "Open MPI 4",
    .programs = (const char *const[]){ "orterun", NULL },
    .versions = (const char *const[]){ "(OpenRTE)", "(Open MPI) 4.", "(Open MPI) 3.",
            "(Open MPI) 2.", "IBM Spectrum MPI", NULL },
    .build = build_orte,
};

const struct mpi_launcher launcher_prrte = {
    .kind = MPI_KIND_OPENMPI,
    .name = "openmpi",
    .title = "Open MPI 5",
    .programs = (const char *const[]){ "prterun", "prun", NULL },
    .versions =
            (const char *const[]){ "(Open MPI) 5.", "(Open MPI) 6.", "(PRRTE)", NULL },
    .build = build_prrte,
};
