/*
 * Kubeflow's MPI operator: a hostfile of Open MPI's or Intel's form, or, in elastic jobs, a
 * script that prints the pods that run, without slots. Our own GPUs say nothing about
 * those of the workers: the launcher's pod has none.
 */
#include <unistd.h>

#include "launcher/hosts/resolver.h"
#include "launcher/hosts/script_hosts.h"

static const char hostfile[] = "/etc/mpi/hostfile";
static const char script[] = "/etc/mpi/discover_hosts.sh";

/* Slots where no number was, unless the user said: what the operator tells the MPI. */
static tutti_status imply(const struct source_facts *facts, struct host_list *hosts)
{
    int slots = resolver_count(facts, "OMPI_MCA_orte_set_default_slots");

    slots = slots == 0 ? resolver_count(facts, "I_MPI_PERHOST") : slots;
    if (slots == 0 || facts->options->slots_per_host > 0) {
        return TUTTI_OK;
    }
    return slots > 0 ? host_list_imply(hosts, slots) : TUTTI_ERR_INVALID;
}

static tutti_status resolve(
        const struct source_facts *facts, struct placement *placement)
{
    char file[RESOLVER_PATH_MAX];
    const char *found = NULL;
    tutti_status status = TUTTI_OK;

    if (access(resolver_path(facts, hostfile, file), F_OK) == 0) {
        found = hostfile;
        status = host_list_read(&placement->hosts, file);
    } else if (access(resolver_path(facts, script, file), F_OK) == 0) {
        found = script;
        status = script_hosts(facts, file, &placement->hosts);
    }
    if (status != TUTTI_OK || found == NULL) {
        return status;
    }
    resolver_describe(placement, "Kubeflow's MPI operator (%s)", found);
    return imply(facts, &placement->hosts);
}

const struct resolver resolver_kubeflow = {
    .name = "Kubeflow's MPI operator",
    .resolve = resolve,
};
