/*
 * The tree of a process set along which announcements go up and the log goes down.
 */
#include "agree/tree.h"

#include "base/mem.h"

/*
 * Position i of a k-ary heap has parent (i - 1) / k. Leaders are the heap of nodes in
 * order of first appearance; the members of one node are another heap whose position 0 is
 * the leader. Parents always have a lower rank than their children.
 */
static void link_node(
        struct tree *tree, const int *node_of, int leader, int fanout, int *member_at)
{
    int count = 0;

    for (int r = leader; r < tree->size; r++) {
        if (node_of[r] != node_of[leader]) {
            continue;
        }
        member_at[count] = r;
        if (count > 0) {
            tree->parents[r] = member_at[(count - 1) / fanout];
        }
        count++;
    }
}

static void link_all(
        struct tree *tree, const int *node_of, int fanout, int *leaders, int *member_at)
{
    int leader_count = 0;

    for (int r = 0; r < tree->size; r++) {
        tree->parents[r] = -2;
    }
    for (int r = 0; r < tree->size; r++) {
        if (tree->parents[r] != -2) {
            continue;
        }
        leaders[leader_count] = r;
        tree->parents[r] =
                leader_count == 0 ? -1 : leaders[(leader_count - 1) / fanout];
        leader_count++;
        link_node(tree, node_of, r, fanout, member_at);
    }
}

static bool collect_subtree(const struct tree *tree, int top, struct bitset *members)
{
    if (!bitset_init(members, tree->size)) {
        return false;
    }
    for (int r = top; r < tree->size; r++) {
        if (tree_is_below(tree, r, top)) {
            bitset_add(members, r);
        }
    }
    return true;
}

static bool collect_children(struct tree *tree)
{
    int count = 0;

    for (int r = 0; r < tree->size; r++) {
        count += tree->parents[r] == tree->rank ? 1 : 0;
    }
    tree->children = mem_calloc((size_t)count + 1, sizeof *tree->children);
    tree->subtrees = mem_calloc((size_t)count + 1, sizeof *tree->subtrees);
    if (tree->children == NULL || tree->subtrees == NULL) {
        return false;
    }
    for (int r = 0; r < tree->size; r++) {
        if (tree->parents[r] == tree->rank) {
            tree->children[tree->child_count++] = r;
        }
    }
    for (int c = 0; c < tree->child_count; c++) {
        if (!collect_subtree(tree, tree->children[c], &tree->subtrees[c])) {
            return false;
        }
    }
    return true;
}

bool tree_init(struct tree *tree, int size, int rank, const int *node_of, int fanout)
{
    int *scratch = mem_calloc((size_t)size, 2 * sizeof *scratch);
    bool ok;

    *tree = (struct tree){ .size = size, .rank = rank };
    tree->parents = mem_calloc((size_t)size, sizeof *tree->parents);
    ok = scratch != NULL && tree->parents != NULL;
    if (ok) {
        link_all(tree, node_of, fanout, scratch, scratch + size);
        ok = collect_children(tree);
    }
    mem_free(scratch);
    if (!ok) {
        tree_fini(tree);
    }
    return ok;
}

void tree_fini(struct tree *tree)
{
    for (int c = 0; c < tree->child_count; c++) {
        bitset_fini(&tree->subtrees[c]);
    }
    mem_free(tree->subtrees);
    mem_free(tree->children);
    mem_free(tree->parents);
    *tree = (struct tree){ 0 };
}

int tree_child_index(const struct tree *tree, int member)
{
    int low = 0;
    int high = tree->child_count;

    while (low < high) {
        const int middle = low + (high - low) / 2;

        if (tree->children[middle] < member) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < tree->child_count && tree->children[low] == member ? low : -1;
}

bool tree_is_below(const struct tree *tree, int member, int top)
{
    while (member >= 0 && member != top) {
        member = tree->parents[member];
    }
    return member == top;
}
