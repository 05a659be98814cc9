/*
 * Models without negotiators.
 */
#include "tools/scale/other.h"

#include <math.h>

#include "agree/tree.h"
#include "run/spread.h"
#include "test/sim/grow.h"

/* Of a request of Horovod on the wire. */
#define REQUEST_BYTES 100.0
/* Of what a rank tells about a failure. */
#define NEWS_BYTES 200

static double hop_ns(const struct model *model, double bytes)
{
    return 2 * model->overhead_ns + model->latency_ns +
            model->byte_ns * (model->header_bytes + bytes);
}

static double larger(double a, double b)
{
    return a > b ? a : b;
}

/* --------------------------------------------------------------------- a death */

struct told {
    double *free_ns; /* [ranks] when the host of a rank is free again; owned */
    int *messages; /* [ranks]; owned */
    bool *knows; /* [ranks]; owned */
};

/* A rank that knows tells its neighbours; the dead one does not answer. */
static void tell(struct network *network, struct told *told, int rank, int ranks)
{
    int peers[SPREAD_PEERS_MAX];
    const int count = spread_peers(rank, ranks, peers);

    told->knows[rank] = true;
    for (int i = 0; i < count; i++) {
        struct mail *mail = sim_alloc(1, sizeof *mail + NEWS_BYTES);

        mail->from = rank;
        mail->to = peers[i];
        mail->len = NEWS_BYTES;
        told->free_ns[rank] += network->model->overhead_ns;
        told->messages[rank]++;
        network_send(network, told->free_ns[rank], mail);
    }
}

struct spread other_death(const struct model *model, int ranks, uint64_t seed)
{
    const int dead = ranks / 2;
    const int finder = (dead + 1) % ranks;
    struct told told = { .free_ns = sim_alloc((size_t)ranks, sizeof(double)),
        .messages = sim_alloc((size_t)ranks, sizeof(int)),
        .knows = sim_alloc((size_t)ranks, sizeof(bool)) };
    struct spread spread = { .told = 1 };
    struct network network;
    struct event event;

    network_init(&network, model, ranks, seed);
    tell(&network, &told, finder, ranks);
    while (network_next(&network, &event)) {
        const int rank = event.rank;

        free(event.mail);
        if (rank == dead) {
            continue;
        }
        told.free_ns[rank] =
                larger(event.at_ns, told.free_ns[rank]) + model->overhead_ns;
        told.messages[rank]++;
        if (!told.knows[rank]) {
            spread.told++;
            spread.ns = larger(spread.ns, told.free_ns[rank]);
            tell(&network, &told, rank, ranks);
        }
    }
    for (int r = 0; r < ranks; r++) {
        spread.messages_most = told.messages[r] > spread.messages_most
                ? told.messages[r]
                : spread.messages_most;
    }
    network_fini(&network);
    free(told.free_ns);
    free(told.messages);
    free(told.knows);
    return spread;
}

/* ----------------------------------------------------------------------- the start */

static double between_ns(const struct model *model, int a, int b)
{
    return a / model->per_node == b / model->per_node
            ? model->local_ns
            : model->latency_ns + model->byte_ns * model->header_bytes;
}

/* Of the result: the runs of a regular placement, and limits. */
#define RESULT_BYTES 64
/* Of a frame of lib/transport/mpi.c. */
#define FRAME_BYTES 4028

/* The ranks at or below one in the binomial tree. */
static int ranks_below(int rank, int ranks)
{
    const int most = rank == 0 ? ranks : rank & -rank;

    return most < ranks - rank ? most : ranks - rank;
}

static int nodes_below(const struct model *model, int rank, int ranks)
{
    return (ranks_below(rank, ranks) - 1) / model->per_node + 1;
}

/* What the host of either side has to do for a message of several frames. */
static double frames_ns(const struct model *model, double bytes)
{
    return ceil(bytes / FRAME_BYTES) * model->overhead_ns;
}

struct start other_start(
        const struct model *model, int ranks, double record_bytes, double place_bytes)
{
    const double result = record_bytes + RESULT_BYTES;
    double *at = sim_alloc((size_t)ranks, sizeof *at);
    struct start start = { .ns = 0 };

    /* Up: at[r] is when rank r has heard all below it. */
    for (int r = ranks - 1; r >= 0; r--) {
        for (int step = 1; step < ranks_below(r, ranks); step *= 2) {
            const int child = r + step;
            const int places = nodes_below(model, child, ranks);
            const double bytes = record_bytes + place_bytes * places;
            const double come = at[child] + frames_ns(model, bytes) +
                    between_ns(model, r, child) + model->byte_ns * bytes;

            at[r] = larger(at[r], come) + frames_ns(model, bytes) +
                    model->entry_ns * places;
            start.bytes_most += r == 0 ? bytes : 0;
        }
    }
    /* Down: at[r] is when rank r has the result; the largest part of the tree first. */
    for (int r = 0; r < ranks; r++) {
        double free_ns = at[r];
        int step = 1;

        start.ns = larger(start.ns, at[r]);
        while (2 * step < ranks_below(r, ranks)) {
            step *= 2;
        }
        for (; step > 0 && ranks_below(r, ranks) > 1; step /= 2) {
            free_ns += larger(frames_ns(model, result), model->byte_ns * result);
            at[r + step] = free_ns + between_ns(model, r, r + step) +
                    model->byte_ns * result + frames_ns(model, result);
        }
    }
    free(at);
    return start;
}

/* ----------------------------------------------------------------- agreement: max-plus */

static int by_time(const void *a, const void *b)
{
    const double left = *(const double *)a;
    const double right = *(const double *)b;

    return left < right ? -1 : left > right;
}

/* When a host that is free at `free_ns` has taken in messages that come at these times. */
static double take_all_ns(double *come, int count, double free_ns, double each_ns)
{
    qsort(come, (size_t)count, sizeof *come, by_time);
    for (int i = 0; i < count; i++) {
        free_ns = larger(free_ns, come[i]) + each_ns;
    }
    return free_ns;
}

static double recur(const struct model *model, const struct tree_shape *shape,
        int tensors, double *at, double *come, int *children)
{
    const double work_ns = model->entry_ns * tensors;
    const int ranks = shape->size;
    double last = 0;

    /* Up: at[r] is when rank r has heard all below it. */
    for (int r = ranks - 1; r >= 0; r--) {
        const int count = tree_shape_children(shape, r, children);

        for (int c = 0; c < count; c++) {
            come[c] = at[children[c]] + model->overhead_ns +
                    between_ns(model, r, children[c]);
        }
        at[r] = take_all_ns(come, count, work_ns, model->overhead_ns + work_ns);
    }
    /* Down: at[r] is when rank r has read the log message. */
    at[0] += work_ns;
    for (int r = 0; r < ranks; r++) {
        const int count = tree_shape_children(shape, r, children);

        last = larger(last, at[r]);
        for (int c = 0; c < count; c++) {
            at[children[c]] = at[r] + model->overhead_ns * (c + 1) +
                    between_ns(model, r, children[c]) + model->overhead_ns + work_ns;
        }
    }
    return last;
}

double other_slow_ns(const struct model *model, int ranks, int fanout, int tensors)
{
    double *at = sim_alloc((size_t)ranks, sizeof *at);
    double *come = sim_alloc(2 * (size_t)fanout, sizeof *come);
    int *children = sim_alloc(2 * (size_t)fanout, sizeof *children);
    int *node_of = sim_alloc((size_t)ranks, sizeof *node_of);
    struct tree_shape shape;
    double ns = NAN;

    for (int r = 0; r < ranks; r++) {
        node_of[r] = r / model->per_node;
    }
    if (tree_shape_init(&shape, ranks, node_of, fanout)) {
        ns = recur(model, &shape, tensors, at, come, children);
        tree_shape_fini(&shape);
    }
    free(at);
    free(come);
    free(children);
    free(node_of);
    return ns;
}

/* ------------------------------------------------------------------ other schemes */

double other_gather_ns(const struct model *model, int ranks, int tensors)
{
    const double request = REQUEST_BYTES * tensors;
    const double steps = ceil(log2(ranks));
    /* Sizes go first, along a binomial tree; then the requests, one by one at rank 0; then
     * the length of the response and the response, along a binomial tree. */
    return steps * (hop_ns(model, 4) + hop_ns(model, 4) + hop_ns(model, request)) +
            hop_ns(model, request) +
            (ranks - 1) *
            (model->overhead_ns + model->entry_ns * tensors +
                    model->byte_ns * (model->header_bytes + request));
}

double other_bits_ns(const struct model *model, int ranks, int tensors)
{
    const double words = ceil((tensors + 3) / 64.0);

    return ceil(log2(ranks)) * hop_ns(model, 8 * words) + model->entry_ns * tensors;
}
