/*
 * Grouping of ranks by the text that identifies their host.
 */
#include "topo/nodes.h"

#include <string.h>

#include "base/error.h"
#include "base/map.h"
#include "base/mem.h"

/* A node while it is being found. */
struct found_node {
    const char *host; /* text of its lowest rank; borrowed */
    int number; /* in order of appearance */
};

static bool has_host(const void *value, const void *key)
{
    const struct found_node *node = value;

    return strcmp(node->host, key) == 0;
}

/* The node of a host, entered as number nodes->count if it is new; NULL: no memory. */
static const struct found_node *node_find(struct map *by_host, struct found_node *found,
        struct nodes *nodes, const char *host)
{
    uint64_t hash = hash_bytes(0, host, strlen(host));
    struct found_node *node = map_find(by_host, hash, has_host, host);

    if (node != NULL) {
        return node;
    }
    node = &found[nodes->count];
    *node = (struct found_node){ .host = host, .number = nodes->count };
    if (!map_insert(by_host, hash, node)) {
        return NULL;
    }
    nodes->count++;
    return node;
}

/* Places all ranks, lowest first, so that nodes are numbered by their lowest rank. */
static bool nodes_place(
        struct nodes *nodes, struct found_node *found, const char *const *hosts)
{
    struct map by_host = { .slots = NULL };
    const struct found_node *node = NULL;
    int rank;

    for (rank = 0; rank < nodes->size; rank++) {
        node = node_find(&by_host, found, nodes, hosts != NULL ? hosts[rank] : "");
        if (node == NULL) {
            break;
        }
        nodes->node_of[rank] = node->number;
        nodes->local_of[rank] = nodes->local_size[node->number]++;
    }
    map_fini(&by_host);
    return rank == nodes->size;
}

tutti_status nodes_init(struct nodes *nodes, const char *const *hosts, int size)
{
    size_t ranks = (size_t)size;
    struct found_node *found = mem_calloc(ranks, sizeof *found);
    struct nodes placed = {
        .size = size,
        .node_of = mem_calloc(ranks, sizeof *placed.node_of),
        .local_of = mem_calloc(ranks, sizeof *placed.local_of),
        .local_size = mem_calloc(ranks, sizeof *placed.local_size),
    };
    bool done = found != NULL && placed.node_of != NULL && placed.local_of != NULL &&
            placed.local_size != NULL && nodes_place(&placed, found, hosts);

    mem_free(found);
    if (!done) {
        nodes_fini(&placed);
        return error_set(TUTTI_ERR_NO_MEMORY,
                "out of memory for the placement of %d ranks", size);
    }
    *nodes = placed;
    return TUTTI_OK;
}

void nodes_fini(struct nodes *nodes)
{
    mem_free(nodes->node_of);
    mem_free(nodes->local_of);
    mem_free(nodes->local_size);
    *nodes = (struct nodes){ .size = 0 };
}
