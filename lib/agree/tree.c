/*
 * The tree of a process set along which announcements go up and the log goes down.
 *
 * Position i of a k-ary heap has parent (i - 1) / k, and children k i + 1 to k i + k.
 * Leaders are the heap of nodes in order of first appearance; the members of one node are
 * another heap whose position 0 is the leader. Parents always have a lower rank than their
 * children.
 */
#include "agree/tree.h"

#include <stdlib.h>

#include "base/mem.h"

static bool shape_alloc(struct tree_shape *shape)
{
    const size_t size = (size_t)shape->size;

    shape->nodes = mem_calloc(size, sizeof *shape->nodes);
    shape->places = mem_calloc(size, sizeof *shape->places);
    shape->firsts = mem_calloc(size + 1, sizeof *shape->firsts);
    shape->members = mem_calloc(size, sizeof *shape->members);
    return shape->nodes != NULL && shape->places != NULL && shape->firsts != NULL &&
            shape->members != NULL;
}

/* Numbers the nodes; numbers: [largest node + 1] zeroed. firsts[n + 1]: members of node n. */
static void number_nodes(struct tree_shape *shape, const int *node_of, int *numbers)
{
    for (int r = 0; r < shape->size; r++) {
        int *number = &numbers[node_of[r]];

        if (*number == 0) {
            *number = ++shape->node_count;
        }
        shape->nodes[r] = *number - 1;
        shape->places[r] = shape->firsts[*number]++;
    }
}

static int largest(const int *values, int count)
{
    int most = 0;

    for (int i = 0; i < count; i++) {
        most = values[i] > most ? values[i] : most;
    }
    return most;
}

bool tree_shape_init(struct tree_shape *shape, int size, const int *node_of, int fanout)
{
    int *numbers = mem_calloc((size_t)largest(node_of, size) + 1, sizeof *numbers);

    *shape = (struct tree_shape){ .size = size, .fanout = fanout };
    if (numbers == NULL || !shape_alloc(shape)) {
        mem_free(numbers);
        tree_shape_fini(shape);
        return false;
    }
    number_nodes(shape, node_of, numbers);
    mem_free(numbers);
    for (int n = 0; n < shape->node_count; n++) {
        shape->firsts[n + 1] += shape->firsts[n];
    }
    for (int r = 0; r < size; r++) {
        shape->members[shape->firsts[shape->nodes[r]] + shape->places[r]] = r;
    }
    return true;
}

void tree_shape_fini(struct tree_shape *shape)
{
    mem_free(shape->nodes);
    mem_free(shape->places);
    mem_free(shape->firsts);
    mem_free(shape->members);
    *shape = (struct tree_shape){ 0 };
}

int tree_shape_parent(const struct tree_shape *shape, int member)
{
    const int node = shape->nodes[member];
    const int place = shape->places[member];

    if (place > 0) {
        return shape->members[shape->firsts[node] + (place - 1) / shape->fanout];
    }
    return node > 0 ? shape->members[shape->firsts[(node - 1) / shape->fanout]] : -1;
}

static int node_size(const struct tree_shape *shape, int node)
{
    return shape->firsts[node + 1] - shape->firsts[node];
}

/*
 * Positions at or below one position of a heap are, level by level, a run each. Writes the
 * members that the positions `first` to `last` and those below them stand for.
 */
static int add_places(
        const struct tree_shape *shape, int node, int first, int last, int *below)
{
    int count = 0;

    while (first < node_size(shape, node)) {
        for (int p = first; p <= last && p < node_size(shape, node); p++) {
            below[count++] = shape->members[shape->firsts[node] + p];
        }
        first = first * shape->fanout + 1;
        last = last * shape->fanout + shape->fanout;
    }
    return count;
}

static int add_nodes(const struct tree_shape *shape, int first, int last, int *below)
{
    int count = 0;

    while (first < shape->node_count) {
        const int end = last < shape->node_count ? last + 1 : shape->node_count;

        for (int m = shape->firsts[first]; m < shape->firsts[end]; m++) {
            below[count++] = shape->members[m];
        }
        first = first * shape->fanout + 1;
        last = last * shape->fanout + shape->fanout;
    }
    return count;
}

int tree_shape_below(const struct tree_shape *shape, int top, int *below)
{
    const int node = shape->nodes[top];
    const int place = shape->places[top];

    return place == 0 ? add_nodes(shape, node, node, below)
                      : add_places(shape, node, place, place, below);
}

static int by_number(const void *a, const void *b)
{
    const int left = *(const int *)a;
    const int right = *(const int *)b;

    return left < right ? -1 : left > right;
}

/* Members of its node, and for a leader leaders of other nodes. */
int tree_shape_children(const struct tree_shape *shape, int member, int *children)
{
    const int node = shape->nodes[member];
    const int place = shape->places[member];
    const int k = shape->fanout;
    int count = 0;

    for (int p = k * place + 1; p <= k * place + k && p < node_size(shape, node); p++) {
        children[count++] = shape->members[shape->firsts[node] + p];
    }
    for (int n = k * node + 1; place == 0 && n <= k * node + k && n < shape->node_count;
            n++) {
        children[count++] = shape->members[shape->firsts[n]];
    }
    qsort(children, (size_t)count, sizeof *children, by_number);
    return count;
}

/* ------------------------------------------------------------ what one member knows */

static int by_first(const void *a, const void *b)
{
    return by_number(&((const struct tree_range *)a)->first,
            &((const struct tree_range *)b)->first);
}

static bool find_children(struct tree *tree, const struct tree_shape *shape)
{
    tree->children = mem_calloc(2 * (size_t)shape->fanout, sizeof *tree->children);
    if (tree->children == NULL) {
        return false;
    }
    tree->child_count = tree_shape_children(shape, tree->rank, tree->children);
    tree->near = mem_calloc((size_t)tree->child_count + 1, sizeof *tree->near);
    tree->child_is_near =
            mem_calloc((size_t)tree->child_count + 1, sizeof *tree->child_is_near);
    if (tree->near == NULL || tree->child_is_near == NULL) {
        return false;
    }
    for (int c = 0; c < tree->child_count; c++) {
        if (shape->nodes[tree->children[c]] == shape->nodes[tree->rank]) {
            tree->child_is_near[c] = true;
            tree->near[tree->near_count++] = tree->children[c];
        }
    }
    tree->parent_is_near =
            tree->parent >= 0 && shape->nodes[tree->parent] == shape->nodes[tree->rank];
    return true;
}

/* Adds what is below a child; below: [size] scratch. */
static bool add_ranges(struct tree *tree, const struct tree_shape *shape, int child,
        int *below, size_t *capacity)
{
    const int count = tree_shape_below(shape, tree->children[child], below);
    struct tree_range *range = NULL;

    qsort(below, (size_t)count, sizeof *below, by_number);
    for (int i = 0; i < count; i++) {
        if (range != NULL && range->last + 1 == below[i]) {
            range->last++;
            continue;
        }
        if (!mem_grow(&tree->below, capacity, tree->range_count + 1,
                    sizeof *tree->below)) {
            return false;
        }
        range = &tree->below[tree->range_count++];
        *range = (struct tree_range){
            .first = below[i], .last = below[i], .child = child
        };
    }
    return true;
}

static bool find_below(struct tree *tree, const struct tree_shape *shape)
{
    size_t capacity = 0;
    bool ok = true;
    int *below;

    if (tree->child_count == 0) {
        return true;
    }
    below = mem_alloc((size_t)shape->size * sizeof *below);
    for (int c = 0; c < tree->child_count && ok; c++) {
        ok = below != NULL && add_ranges(tree, shape, c, below, &capacity);
    }
    mem_free(below);
    if (ok) {
        qsort(tree->below, tree->range_count, sizeof *tree->below, by_first);
    }
    return ok;
}

bool tree_init(struct tree *tree, const struct tree_shape *shape, int rank)
{
    *tree = (struct tree){ .size = shape->size,
        .rank = rank,
        .parent = tree_shape_parent(shape, rank),
        .shape = rank == 0 ? shape : NULL };
    if (!find_children(tree, shape) || !find_below(tree, shape)) {
        tree_fini(tree);
        return false;
    }
    return true;
}

void tree_fini(struct tree *tree)
{
    mem_free(tree->below);
    mem_free(tree->children);
    mem_free(tree->near);
    mem_free(tree->child_is_near);
    *tree = (struct tree){ 0 };
}

int tree_child_index(const struct tree *tree, int member)
{
    const int child = tree_child_above(tree, member);

    return child >= 0 && tree->children[child] == member ? child : -1;
}

int tree_child_above(const struct tree *tree, int member)
{
    size_t low = 0;
    size_t high = tree->range_count;

    while (low < high) {
        const size_t middle = low + (high - low) / 2;

        if (tree->below[middle].last < member) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < tree->range_count && tree->below[low].first <= member
            ? tree->below[low].child
            : -1;
}
