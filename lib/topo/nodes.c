/*
 * Placement as runs of ranks.
 */
#include "topo/nodes.h"

#include <limits.h>

#include "base/error.h"
#include "base/mem.h"

static tutti_status no_memory(void)
{
    return error_set(TUTTI_ERR_NO_MEMORY, "out of memory for the placement of ranks");
}

static struct nodes_run *last_run(const struct nodes *nodes)
{
    return nodes->run_count > 0 ? &nodes->runs[nodes->run_count - 1] : NULL;
}

/** The end of run i. */
static int run_end(const struct nodes *nodes, size_t i)
{
    return i + 1 < nodes->run_count ? nodes->runs[i + 1].first : nodes->size;
}

/* While a run has one node, any number of ranks may be on each. */
static bool run_takes(struct nodes_run *run, int end, int node)
{
    if (run->each == INT_MAX && node == run->node + 1) {
        run->each = end - run->first;
    }
    return node == run->node + (end - run->first) / run->each;
}

static bool begin_run(struct nodes *nodes, int node)
{
    if (!mem_grow(&nodes->runs, &nodes->run_capacity, nodes->run_count + 1,
                sizeof *nodes->runs)) {
        return false;
    }
    nodes->runs[nodes->run_count++] =
            (struct nodes_run){ .first = nodes->size, .node = node, .each = INT_MAX };
    return true;
}

bool nodes_add(struct nodes *nodes, int node, int ranks)
{
    for (int r = 0; r < ranks; r++) {
        struct nodes_run *last = last_run(nodes);

        if ((last == NULL || !run_takes(last, nodes->size, node)) &&
                !begin_run(nodes, node)) {
            return false;
        }
        nodes->size++;
    }
    nodes->count = node < nodes->count ? nodes->count : node + 1;
    return true;
}

/* Adds run i of another placement. */
static bool append_run(
        struct nodes *nodes, const struct nodes *more, size_t i, const int *numbers)
{
    const int end = run_end(more, i);
    int node = more->runs[i].node;
    int ranks = 0;

    for (int rank = more->runs[i].first; rank < end; rank += ranks) {
        ranks = end - rank < more->runs[i].each ? end - rank : more->runs[i].each;
        if (!nodes_add(nodes, numbers[node++], ranks)) {
            return false;
        }
    }
    return true;
}

bool nodes_append(struct nodes *nodes, const struct nodes *more, const int *numbers)
{
    bool done = true;

    for (size_t i = 0; i < more->run_count && done; i++) {
        done = append_run(nodes, more, i, numbers);
    }
    return done;
}

void nodes_fini(struct nodes *nodes)
{
    mem_free(nodes->runs);
    *nodes = (struct nodes){ .size = 0 };
}

int nodes_of(const struct nodes *nodes, int rank)
{
    const struct nodes_run *run;
    size_t low = 0;
    size_t high = nodes->run_count;

    while (high - low > 1) {
        const size_t middle = low + (high - low) / 2;

        if (nodes->runs[middle].first <= rank) {
            low = middle;
        } else {
            high = middle;
        }
    }
    run = &nodes->runs[low];
    return run->node + (rank - run->first) / run->each;
}

/** The ranks of a node in run i, from *first on. @return how many */
static int run_ranks(const struct nodes *nodes, size_t i, int node, int *first)
{
    const struct nodes_run *run = &nodes->runs[i];
    const int length = run_end(nodes, i) - run->first;
    const long from = (long)(node - run->node) * run->each;
    const long left = length - from;

    if (node < run->node || left <= 0) {
        return 0;
    }
    *first = run->first + (int)from;
    return left < run->each ? (int)left : run->each;
}

int nodes_ranks_before(const struct nodes *nodes, int node, int end)
{
    int ranks = 0;

    for (size_t i = 0; i < nodes->run_count && nodes->runs[i].first < end; i++) {
        int first = 0;
        const int count = run_ranks(nodes, i, node, &first);

        if (count > 0 && first < end) {
            ranks += count < end - first ? count : end - first;
        }
    }
    return ranks;
}

void nodes_list(const struct nodes *nodes, int node, int *ranks)
{
    for (size_t i = 0; i < nodes->run_count; i++) {
        int first = 0;
        const int count = run_ranks(nodes, i, node, &first);

        for (int r = 0; r < count; r++) {
            *ranks++ = first + r;
        }
    }
}

int *nodes_table(const struct nodes *nodes)
{
    int *table = mem_calloc((size_t)nodes->size, sizeof *table);

    for (int r = 0; table != NULL && r < nodes->size; r++) {
        table[r] = nodes_of(nodes, r);
    }
    return table;
}

/* ------------------------------------------------------------------------ the wire */

void nodes_put(struct wire_writer *out, const struct nodes *nodes)
{
    wire_put_varint(out, nodes->run_count);
    for (size_t i = 0; i < nodes->run_count; i++) {
        const struct nodes_run *run = &nodes->runs[i];
        const int length = run_end(nodes, i) - run->first;

        wire_put_varint(out, (uint64_t)length);
        wire_put_varint(out, (uint64_t)run->node);
        wire_put_varint(out, (uint64_t)(run->each < length ? run->each : length));
    }
}

/* Adds a run as it is; false: it cannot be. */
static bool get_run(struct wire_reader *in, struct nodes *nodes)
{
    const uint64_t length = wire_get_varint(in);
    const uint64_t node = wire_get_varint(in);
    const uint64_t each = wire_get_varint(in);
    uint64_t last;

    if (!wire_ok(in) || each == 0 || length < each ||
            length > (uint64_t)(INT_MAX - nodes->size) ||
            node > (uint64_t)nodes->count) {
        return false;
    }
    last = node + (length - 1) / each;
    nodes->runs[nodes->run_count++] = (struct nodes_run){ .first = nodes->size,
        .node = (int)node,
        .each = each == length ? INT_MAX : (int)each };
    nodes->size += (int)length;
    nodes->count = last < (uint64_t)nodes->count ? nodes->count : (int)last + 1;
    return true;
}

tutti_status nodes_get(struct wire_reader *in, struct nodes *nodes)
{
    const uint64_t runs = wire_get_varint(in);
    struct nodes read = { .size = 0 };

    if (!wire_ok(in) || runs > wire_left(in)) {
        return error_set(TUTTI_ERR_PROTOCOL, "malformed placement of ranks");
    }
    if (!mem_grow(&read.runs, &read.run_capacity, (size_t)runs, sizeof *read.runs)) {
        return no_memory();
    }
    for (uint64_t i = 0; i < runs; i++) {
        if (!get_run(in, &read)) {
            nodes_fini(&read);
            return error_set(TUTTI_ERR_PROTOCOL, "malformed placement of ranks");
        }
    }
    *nodes = read;
    return TUTTI_OK;
}
