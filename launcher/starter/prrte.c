/*
 * Open MPI 5: its mpirun is prterun of PRRTE 3. What ssh is called changed from rsh, and
 * what concerns the daemons is set with --prtemca.
 */
#include "launcher/starter/openmpi.h"

static void build(const struct options *options, const struct starter_facts *facts,
        struct starter_command *command)
{
    static const struct openmpi_words named = {
        .parameter = "--prtemca",
        .agent = "plm_ssh_agent",
        .agent_args = "plm_ssh_args",
        .no_tree = "plm_ssh_no_tree_spawn",
        .network = "prte_if_include",
    };

    openmpi_build(options, facts, &named, &command->words);
}

const struct starter starter_prrte = {
    .kind = STARTER_OPENMPI,
    .name = "openmpi",
    .title = "Open MPI 5",
    .programs = (const char *const[]){ "prterun", "prun", NULL },
    .versions =
            (const char *const[]){ "(Open MPI) 5.", "(Open MPI) 6.", "(PRRTE)", NULL },
    .build = build,
};
