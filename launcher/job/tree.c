/*
 * The tree of supervisors.
 */
#include "launcher/job/tree.h"

#include <limits.h>

#include "base/mem.h"

tutti_status tree_init(struct tree *tree, int count, int fan_out)
{
    *tree = (struct tree){ .count = count, .fan_out = fan_out };
    if (fan_out == 0) {
        return TUTTI_OK;
    }
    tree->nodes = mem_calloc((size_t)count, sizeof *tree->nodes);
    if (tree->nodes == NULL) {
        return TUTTI_ERR_NO_MEMORY;
    }
    for (int i = 0; i < count; i++) {
        tree->nodes[i].above = TREE_NONE;
    }
    return TUTTI_OK;
}

void tree_fini(struct tree *tree)
{
    mem_free(tree->nodes);
    *tree = (struct tree){ .nodes = NULL };
}

/* Relays between a rank and tuttirun; -1: there is no way, or it leads over `without`. */
static int depth_without(const struct tree *tree, int rank, int without)
{
    int depth = 0;

    for (; rank != without; depth++) {
        const int above = tree->nodes[rank].above;

        if (above < 0) {
            return above == TREE_TOP ? depth : -1;
        }
        rank = above;
    }
    return -1;
}

int tree_depth(const struct tree *tree, int rank)
{
    return depth_without(tree, rank, TREE_NONE);
}

/* Counts a rank in, or out, where it is. */
static void count_at(struct tree *tree, int above, int change)
{
    if (above >= 0) {
        tree->nodes[above].below += change;
    } else if (above == TREE_TOP) {
        tree->top += change;
    }
}

/* How good a relay is; the smaller the better. */
struct rating {
    bool is_elsewhere; /* on another host */
    int depth, below;
};

static bool is_better(const struct rating *a, const struct rating *b)
{
    if (a->is_elsewhere != b->is_elsewhere) {
        return b->is_elsewhere;
    }
    return a->depth != b->depth ? a->depth < b->depth : a->below < b->below;
}

static int find_place(const struct tree *tree, int rank, int avoid)
{
    const int host = tree->nodes[rank].host;
    int best = TREE_TOP;
    /* tuttirun itself is better than any relay on another host while it has room. */
    struct rating least = { .is_elsewhere = true,
        .depth = tree->top < tree->fan_out ? -1 : INT_MAX };

    for (int i = 0; i < tree->count; i++) {
        const struct tree_node *node = &tree->nodes[i];
        struct rating rating = { .is_elsewhere = node->host != host,
            .below = node->below };

        if (node->above == TREE_NONE || !node->can_relay || i == avoid ||
                node->below >= tree->fan_out ||
                (rating.is_elsewhere && least.depth < 0)) {
            continue;
        }
        rating.depth = depth_without(tree, i, rank);
        if (rating.depth >= 0 && is_better(&rating, &least)) {
            least = rating;
            best = i;
        }
    }
    return best;
}

int tree_place(struct tree *tree, int rank, int host, bool can_relay, int avoid)
{
    struct tree_node *node = &tree->nodes[rank];

    count_at(tree, node->above, -1);
    node->above = TREE_NONE;
    node->host = host;
    node->can_relay = can_relay;
    node->above = find_place(tree, rank, avoid);
    count_at(tree, node->above, 1);
    return node->above;
}

void tree_remove(struct tree *tree, int rank)
{
    count_at(tree, tree->nodes[rank].above, -1);
    tree->nodes[rank].above = TREE_NONE;
}
