/*
 * Ranks that are processes drive a backend through ops/op.h without the core: batches of any
 * operation (test/batch), one or many at once, whose bits are compared when they are final.
 */
#ifndef TUTTI_TEST_MULTI_RANKS_H
#define TUTTI_TEST_MULTI_RANKS_H

#include <mpi.h>

#include "base/config.h"
#include "fabric/mpi/mpi_fabric.h"
#include "ops/op.h"
#include "test/batch/batch.h"

/** What a backend is opened with. */
struct setup {
    const struct op_backend *backend;
    enum config_algorithm algorithm;
    size_t gather_bytes;
    size_t chunk_bytes;
    size_t link_bytes; /* messages of a link between nodes; 0: there is none */
    enum config_wire_dtype wire;
};

/** Sets whose batches bench_run() starts in turn, and so many batches are in flight. */
enum {
    BENCH_SETS = 8,
    BENCH_BATCHES = BENCH_SETS * OP_INFLIGHT_MAX
};

/** An open backend on this rank. */
struct bench {
    const struct op_backend *backend;
    void *state;
    struct config config;
    struct op_env env;
    MPI_Comm comm; /* a duplicate of the world's, owned */
    struct fabric fabric; /* over it */
    struct mpi_fabric over; /* its state */
    struct batch *batches; /* [BENCH_BATCHES] owned; those of bench_run() in flight */
    struct op_set *sets; /* [BENCH_BATCHES] owned; of these */
    int rank;
    int size;
    struct op_set world;
    int identity[BATCH_RANKS_MAX]; /* world ranks of `world` */
};

void bench_open(struct bench *bench, const struct setup *setup);
void bench_close(struct bench *bench);

/** Makes the memory of a batch; starts nothing. */
void bench_make(const struct bench *bench, struct batch *batch,
        const struct batch_order *order);
void bench_start(const struct bench *bench, struct batch *batch);
/** Steps a batch until it is final, and returns how it ended. */
tutti_status bench_wait(const struct bench *bench, struct batch *batch);
/** Steps batches, in the order given, until all are final; checks and frees each. */
void bench_finish(const struct bench *bench, struct batch *batches, int count);
/** False for what takes so many messages that it goes no other way than with fewer. */
bool bench_cuts_into_few(const struct bench *bench, size_t bytes);
/**
 * Makes and starts batch number order->sequence of all ranks, whose set that chooses. It ends, and is checked
 * and freed, when a later one needs its slot, or in bench_close(). Ranks that waited for each
 * batch would need several turns of each core for it, and on a busy machine a turn takes long.
 */
void bench_run(const struct bench *bench, const struct batch_order *order);

/** Order number i of a mix, on a set. */
typedef struct batch_order (*order_maker)(const struct op_set *set, int i);

/**
 * Rounds of all batches that can be in flight on so many sets of all ranks; each rank begins
 * with another set, and steps in an order of its own.
 */
void run_at_once(const struct setup *setup, order_maker make, int sets, int rounds);

#endif
