/*
 * What bench-scale simulates, under SimGrid's SMPI: each rank is a process of SimGrid with the
 * negotiator of the library, and steps of T tensors without plans.
 *
 *   smpirun -np RANKS ... scale-smpi PER_NODE FANOUT TENSORS OVERHEAD_NS ENTRY_NS STEPS
 *
 * The host overhead of messages and tensors is time that the process computes; the network
 * is SimGrid's. Built by script/bench scale with smpicc, out of the sources of lib/agree.
 */
#include <mpi.h>
#include <smpi/smpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agree/negotiator.h"

enum {
    STEPS_MAX = 64,
    MESSAGE_MAX = 1 << 16
};

struct rank {
    struct negotiator negotiator;
    int *ranks;
    double overhead_s, entry_s;
};

static void compute(double seconds)
{
    if (seconds > 0)
        smpi_execute_flops(seconds * 1e9);
}

/* What the negotiator says is done; returns outcomes. */
static int settle(struct rank *r)
{
    struct negotiator *n = &r->negotiator;
    int outcomes;

    if (negotiator_flush(n) != TUTTI_OK) {
        abort();
    }
    outcomes = (int)n->outbox.outcome_count;
    compute(outcomes * r->entry_s);
    for (size_t i = 0; i < n->outbox.action_count; i++) {
        const struct action *action = &n->outbox.actions[i];

        if (action->kind == ACTION_SEND) {
            MPI_Request request;
            void *copy = malloc(action->len);

            memcpy(copy, n->outbox.arena.data + action->offset, action->len);
            compute(r->overhead_s);
            MPI_Isend(copy, (int)action->len, MPI_BYTE, action->to, 0, MPI_COMM_WORLD,
                    &request);
            MPI_Request_free(&request); /* the copy is left: a few bytes */
        }
    }
    negotiator_clear(n);
    return outcomes;
}

/* Of the messages of these steps, those up are about all tensors, those down about one. */
static void take_in(struct rank *r, int tensors, bool wait)
{
    static uint8_t bytes[MESSAGE_MAX];
    MPI_Status status;
    int here = 1;
    int len;

    (void)wait;
    while (here != 0) {
        MPI_Recv(bytes, MESSAGE_MAX, MPI_BYTE, MPI_ANY_SOURCE, 0, MPI_COMM_WORLD,
                &status);
        MPI_Get_count(&status, MPI_BYTE, &len);
        compute(r->overhead_s +
                (status.MPI_SOURCE == r->negotiator.tree.parent ? 1 : tensors) *
                        r->entry_s);
        if (negotiator_receive(&r->negotiator, status.MPI_SOURCE, bytes, (size_t)len) !=
                TUTTI_OK) {
            abort();
        }
        MPI_Iprobe(MPI_ANY_SOURCE, 0, MPI_COMM_WORLD, &here, &status);
    }
}

static double step(struct rank *r, struct request *requests, int tensors)
{
    int pending = tensors;
    double begin, end, first, last;

    MPI_Barrier(MPI_COMM_WORLD);
    begin = MPI_Wtime();
    r->negotiator.now_ns = (int64_t)(begin * 1e9) + 1;
    compute(tensors * r->entry_s);
    for (int i = 0; i < tensors; i++) {
        if (negotiator_submit(&r->negotiator, &requests[i]) != TUTTI_OK) {
            abort();
        }
    }
    pending -= settle(r);
    while (pending > 0) {
        take_in(r, tensors, true);
        pending -= settle(r);
    }
    end = MPI_Wtime();
    MPI_Allreduce(&begin, &first, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    MPI_Allreduce(&end, &last, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return last - first;
}

int main(int argc, char **argv)
{
    static char names[4096][16];
    static struct request requests[4096];
    struct negotiator_config config = {
        .number_capacity = 16384, .lanes = 1, .window = 8
    };
    struct tree_shape shape;
    struct rank r = { 0 };
    int tensors, steps, *node_of;

    MPI_Init(&argc, &argv);
    if (argc != 7) {
        return 2;
    }
    MPI_Comm_rank(MPI_COMM_WORLD, &config.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &config.size);
    tensors = atoi(argv[3]);
    steps = atoi(argv[6]);
    r.overhead_s = atof(argv[4]) * 1e-9;
    r.entry_s = atof(argv[5]) * 1e-9;
    node_of = calloc((size_t)config.size, sizeof *node_of);
    r.ranks = calloc((size_t)config.size, sizeof *r.ranks);
    for (int i = 0; i < config.size; i++) {
        node_of[i] = i / atoi(argv[1]);
        r.ranks[i] = i;
    }
    if (!tree_shape_init(&shape, config.size, node_of, atoi(argv[2]))) {
        return 2;
    }
    config.shape = &shape;
    config.world_ranks = r.ranks;
    if (negotiator_init(&r.negotiator, &config) != TUTTI_OK) {
        return 2;
    }
    for (int i = 0; i < tensors; i++) {
        (void)snprintf(names[i], sizeof names[i], "t%d", i);
        requests[i] = (struct request){ .collective = TUTTI_ALLREDUCE,
            .name = names[i],
            .name_len = strlen(names[i]),
            .hash = request_hash(TUTTI_ALLREDUCE, names[i], strlen(names[i])),
            .meta = { .count = 16384,
                    .dtype = TUTTI_FLOAT32,
                    .prescale = 1,
                    .postscale = 1 },
            .cookie = requests };
    }
    for (int s = 0; s < steps + 2; s++) {
        const double seconds = step(&r, requests, tensors);

        if (config.rank == 0 && s >= 2) {
            printf("%d ranks: step of %d tensors: %.3f us\n", config.size, tensors,
                    seconds * 1e6);
        }
    }
    MPI_Finalize();
    return 0;
}
