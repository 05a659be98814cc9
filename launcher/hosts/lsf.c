/*
 * LSF: a file with a line for each slot (LSB_DJOB_HOSTFILE), pairs of host and slots
 * (LSB_MCPU_HOSTS), or a host for each slot (LSB_HOSTS, absent from large jobs).
 */
#include "base/error.h"
#include "base/mem.h"
#include "launcher/hosts/resolver.h"

/* Both lists of words; in that of pairs each host is followed by its slots. */
static tutti_status read_words(
        struct placement *placement, const char *name, const char *value, bool pairs)
{
    char *copy = mem_strdup(value);
    char *next = copy;
    char *host = copy == NULL ? NULL : resolver_word(&next);
    tutti_status status = copy == NULL
            ? error_set(TUTTI_ERR_NO_MEMORY, "out of memory for %s", name)
            : TUTTI_OK;

    while (status == TUTTI_OK && host != NULL) {
        status = resolver_add_counted(
                placement, name, host, pairs ? resolver_word(&next) : "1");
        host = resolver_word(&next);
    }
    mem_free(copy);
    return status;
}

/*
 * On IBM's CORAL systems the first host is a launch node, with one slot, on which no rank
 * shall run.
 */
static void drop_launch_node(const struct source_facts *facts, struct host_list *hosts)
{
    if (resolver_get(facts, "CSM_ALLOCATION_ID") != NULL && hosts->count > 1 &&
            hosts->hosts[0].slots == 1) {
        host_list_drop_first(hosts);
    }
}

static tutti_status read_hosts(
        const struct source_facts *facts, struct placement *placement)
{
    const char *file = resolver_get(facts, "LSB_DJOB_HOSTFILE");
    const char *pairs = resolver_get(facts, "LSB_MCPU_HOSTS");
    const char *hosts = resolver_get(facts, "LSB_HOSTS");

    if (file != NULL) {
        return resolver_hostfile(facts, placement, file);
    }
    if (pairs != NULL) {
        return read_words(placement, "LSB_MCPU_HOSTS", pairs, true);
    }
    if (hosts != NULL) {
        return read_words(placement, "LSB_HOSTS", hosts, false);
    }
    return error_set(TUTTI_ERR_INVALID,
            "LSF job %s: none of LSB_DJOB_HOSTFILE, LSB_MCPU_HOSTS and LSB_HOSTS is "
            "set, so its hosts are not known; name them with -H",
            resolver_get(facts, "LSB_JOBID"));
}

static tutti_status resolve(
        const struct source_facts *facts, struct placement *placement)
{
    tutti_status status;

    if (resolver_get(facts, "LSB_JOBID") == NULL) {
        return TUTTI_OK;
    }
    status = read_hosts(facts, placement);
    if (status == TUTTI_OK) {
        drop_launch_node(facts, &placement->hosts);
        resolver_describe(placement, "LSF job %.32s", resolver_get(facts, "LSB_JOBID"));
    }
    return status;
}

const struct resolver resolver_lsf = {
    .name = "LSF",
    .allocates = true,
    .resolve = resolve,
};
