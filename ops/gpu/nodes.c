#include "ops/gpu/nodes.h"

#include <stddef.h>

#include "base/error.h"
#include "base/mem.h"

tutti_status nodes_view_make(struct nodes_view *view, const struct op_set *set,
        const int *node_of, int ranks)
{
    int *members = mem_calloc((size_t)ranks, sizeof *members);

    if (members == NULL) {
        return error_set(TUTTI_ERR_NO_MEMORY,
                "no memory for the nodes of process set %u", set->id);
    }
    *view = (struct nodes_view){ .node = node_of[set->world_ranks[set->rank]] };
    for (int m = 0; m < set->size; m++) {
        const int node = node_of[set->world_ranks[m]];

        view->count += members[node] == 0 ? 1 : 0;
        view->local += node == view->node && m < set->rank ? 1 : 0;
        members[node]++;
    }
    view->each = members[view->node];
    for (int m = 0; m < set->size; m++) {
        if (members[node_of[set->world_ranks[m]]] != members[view->node]) {
            view->each = 0;
        }
    }
    mem_free(members);
    return TUTTI_OK;
}

bool nodes_view_has_steps(const struct nodes_view *view)
{
    return view->count > 1 && view->each > 1;
}
