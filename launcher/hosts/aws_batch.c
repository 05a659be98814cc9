/*
 * AWS Batch, multi-node parallel: a program is started on every node. The main node does
 * not know the others, who know its address.
 */
#include <string.h>

#include "base/error.h"
#include "launcher/arguments.h"
#include "launcher/bind/pci.h"
#include "launcher/hosts/resolver.h"

static tutti_status resolve(
        const struct source_facts *facts, struct placement *placement)
{
    int nodes = resolver_count(facts, "AWS_BATCH_JOB_NUM_NODES");
    int attempt = resolver_count(facts, "AWS_BATCH_JOB_ATTEMPT");
    const char *job = resolver_get(facts, "AWS_BATCH_JOB_ID");
    const char *address =
            resolver_get(facts, "AWS_BATCH_JOB_MAIN_NODE_PRIVATE_IPV4_ADDRESS");
    struct join_place *place = &placement->join;
    int index;
    int main_index;

    if (nodes <= 0 || attempt < 0) {
        return nodes == 0 ? TUTTI_OK : TUTTI_ERR_INVALID;
    }
    if (job == NULL ||
            !environment_get_int(
                    facts->environment, "AWS_BATCH_JOB_NODE_INDEX", 0, &index) ||
            !environment_get_int(facts->environment, "AWS_BATCH_JOB_MAIN_NODE_INDEX", 0,
                    &main_index)) {
        return error_set(TUTTI_ERR_INVALID,
                "AWS_BATCH_JOB_NUM_NODES=%d, but AWS_BATCH_JOB_ID, "
                "AWS_BATCH_JOB_NODE_INDEX or AWS_BATCH_JOB_MAIN_NODE_INDEX is not set",
                nodes);
    }
    if (nodes > HOSTS_LIMIT || index >= nodes || main_index >= nodes) {
        return error_set(TUTTI_ERR_INVALID,
                "AWS_BATCH_JOB_NODE_INDEX=%d or AWS_BATCH_JOB_MAIN_NODE_INDEX=%d is no "
                "node of AWS_BATCH_JOB_NUM_NODES=%d",
                index, main_index, nodes);
    }
    placement->waits = index != main_index;
    if (placement->waits &&
            (address == NULL || strlen(address) >= sizeof place->first)) {
        return error_set(TUTTI_ERR_INVALID,
                "AWS_BATCH_JOB_MAIN_NODE_PRIVATE_IPV4_ADDRESS is not set, so the main "
                "node is not known");
    }
    if (nodes == 1) {
        const int slots = facts->options->slots_per_host;

        placement->ranks = slots > 0 ? slots : pci_slots_here();
    } else {
        place->nodes = nodes;
        place->index = index;
        (void)snprintf(place->first, sizeof place->first, "%s",
                placement->waits ? address : "");
        (void)snprintf(place->key, sizeof place->key, "%s attempt %d", job, attempt);
    }
    resolver_describe(placement, "AWS Batch job %.64s", job);
    return TUTTI_OK;
}

const struct resolver resolver_batch = {
    .name = "AWS Batch",
    .resolve = resolve,
};
