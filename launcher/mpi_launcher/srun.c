/*
 * srun, inside an allocation of Slurm; outside of one it makes its own.
 *
 * What each flag is for:
 *   --ntasks, --nodes, --nodelist, --ntasks-per-node, --distribution  the ranks fill the
 *       hosts in order. Hosts with different numbers of ranks are listed once per rank.
 *   --overcommit      there are more ranks than CPUs in the allocation
 *   --mpi             how the program's MPI finds its fellows: Open MPI by PMIx, MPICH and
 *                     Intel MPI by PMI-2. Without it ranks may be "0 of 1" each. none: without MPI
 *   --cpu-bind=none   the supervisor binds, and its parent's mask would be in its way
 *   --kill-on-bad-exit  0 with supervisors: one that is lost must not have the others killed
 *                     before these could tell why. 1 without: nobody else ends them.
 *   --export=ALL      our environment; a user's SLURM_EXPORT_ENV=NONE would drop it
 *   --input=0         standard input goes to rank 0, as mpirun does it; not to all
 *   --overlap         only when srun started tuttirun: its step holds what this one needs
 *   SLURM_PMIX_FENCE=ring  by Slurm's default, a tree for fences without data, a rank can leave
 *                     MPI_Init while another is at its beginning, which the first message kills
 *                     (docs/launcher/slurm.md has figures)
 * Not used: --no-kill (a lost node ends the step, which is right), --exact and
 * --cpus-per-task (a step gets all of the allocation's CPUs and GPUs without them),
 * --gres and --gpu-bind (GPUs are the supervisor's matter).
 */
#include <string.h>

#include "base/mem.h"
#include "launcher/mpi_launcher/mpi_launcher.h"

#define PMIX_FENCE "SLURM_PMIX_FENCE"

/* The names, each as often as it has ranks; once each when they are as many everywhere. */
static char *list_names(const struct host_list *hosts, const int *counts, bool repeat)
{
    struct arguments names = { .items = NULL };
    char *text;

    for (size_t i = 0; i < hosts->count; i++) {
        const int times = repeat || counts[i] == 0 ? counts[i] : 1;

        for (int n = 0; n < times; n++) {
            arguments_add(&names, hosts->hosts[i].name);
        }
    }
    text = arguments_join(&names, ",");
    arguments_fini(&names);
    return text;
}

/* The hosts that have ranks are the first of the list. */
static size_t count_used(const struct host_list *hosts, const int *counts)
{
    size_t used = 0;

    while (used < hosts->count && counts[used] > 0) {
        used++;
    }
    return used;
}

static void add_layout(
        const struct host_list *hosts, const int *counts, struct arguments *words)
{
    const size_t used = count_used(hosts, counts);
    bool is_even = true;
    char *names;

    for (size_t i = 1; i < used; i++) {
        is_even = is_even && counts[i] == counts[0];
    }
    names = list_names(hosts, counts, !is_even);
    if (names == NULL) {
        words->failed = true;
        return;
    }
    arguments_add_format(words, "--nodes=%zu", used);
    arguments_add_format(words, "--nodelist=%s", names);
    if (is_even) {
        arguments_add_format(words, "--ntasks-per-node=%d", counts[0]);
        arguments_add(words, "--distribution=block");
    } else {
        arguments_add(words, "--distribution=arbitrary");
    }
    mem_free(names);
}

static void add_hosts(const struct options *options, const struct launch_facts *facts,
        struct arguments *words)
{
    const struct host_list *hosts = facts->hosts;
    int *counts;

    arguments_add_format(words, "--ntasks=%d", options->np);
    if (hosts->count == 0 || (facts->is_here && !facts->is_slurm)) {
        return; /* Slurm chooses the nodes */
    }
    counts = mem_calloc(hosts->count, sizeof *counts);
    if (counts == NULL) {
        words->failed = true;
        return;
    }
    launch_spread(hosts, options->np, counts);
    add_layout(hosts, counts, words);
    if (options->np > host_list_slots(hosts)) {
        arguments_add(words, "--overcommit");
    }
    mem_free(counts);
}

static const char *mpi_plugin(enum mpi_kind ranks)
{
    switch (ranks) {
    case MPI_KIND_OPENMPI:
        return "pmix";
    case MPI_KIND_MPICH:
    case MPI_KIND_INTEL:
        return "pmi2";
    case MPI_KIND_AUTO:
    case MPI_KIND_SRUN:
    case MPI_KIND_LOCAL:
    case MPI_KIND_SSH:
    case MPI_KIND_HERE:
        break;
    }
    return "none"; /* supervisors connect the ranks */
}

/* srun hands its environment on to the ranks, so only values are added to it. */
static void add_exports(
        const struct launch_facts *facts, struct launch_command *command)
{
    struct arguments *variables = &command->variables;

    for (size_t i = 0; i < command->exports.count; i++) {
        if (strchr(command->exports.items[i], '=') != NULL) {
            arguments_add(variables, command->exports.items[i]);
        }
    }
    if (facts->network->is_asked) {
        arguments_add_format(
                variables, "OMPI_MCA_btl_tcp_if_include=%s", facts->network->cidrs);
    }
    if (facts->ranks == MPI_KIND_OPENMPI &&
            environment_get(facts->environment, PMIX_FENCE) == NULL) {
        arguments_add(variables, PMIX_FENCE "=ring");
    }
}

static void build(const struct options *options, const struct launch_facts *facts,
        struct launch_command *command)
{
    struct arguments *words = &command->words;

    add_hosts(options, facts, words);
    arguments_add_format(words, "--mpi=%s", mpi_plugin(facts->ranks));
    if (options->bind != BIND_MPI) {
        arguments_add(words, "--cpu-bind=none");
    }
    arguments_add_format(words, "--kill-on-bad-exit=%d", options->supervise ? 0 : 1);
    arguments_add(words, "--export=ALL");
    arguments_add(words, "--input=0");
    if (facts->is_step) {
        arguments_add(words, "--overlap");
    }
    add_exports(facts, command);
    arguments_add_all(words, options->mpi_args.items);
    launch_add_program(options, facts, words);
}

const struct mpi_launcher launcher_srun = {
    .kind = MPI_KIND_SRUN,
    .name = "srun",
    .title = "Slurm's srun",
    .programs = (const char *const[]){ "srun", NULL },
    .versions = (const char *const[]){ "slurm ", "slurm-wlm ", NULL },
    .build = build,
};
