/*
 * PBS and Torque: a file with a line for each process, in which a host is repeated. It is
 * on the first host only.
 */
#include "base/error.h"
#include "launcher/hosts/resolver.h"

static tutti_status resolve(
        const struct source_facts *facts, struct placement *placement)
{
    const char *job = resolver_get(facts, "PBS_JOBID");
    const char *path = resolver_get(facts, "PBS_NODEFILE");
    tutti_status status;

    if (job == NULL) {
        return TUTTI_OK;
    }
    if (path == NULL) {
        return error_set(TUTTI_ERR_INVALID,
                "PBS job %s: PBS_NODEFILE is not set, so its hosts are not known; name "
                "them with -H",
                job);
    }
    status = resolver_hostfile(facts, placement, path);
    if (status == TUTTI_OK) {
        resolver_describe(placement, "PBS job %.64s", job);
    }
    return status;
}

const struct resolver resolver_pbs = {
    .name = "PBS",
    .allocates = true,
    .resolve = resolve,
};
