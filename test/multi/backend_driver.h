/*
 * Drives a backend through ops/op.h without the core: makes batches whose inputs are
 * distinct in rank and index, runs several at once, and compares every bit of the
 * results with reduce_tree() over the inputs of all ranks, made again locally; where they
 * travel in 16 bits, also with their sums in float64.
 */
#ifndef TUTTI_TEST_MULTI_BACKEND_DRIVER_H
#define TUTTI_TEST_MULTI_BACKEND_DRIVER_H

#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/config.h"
#include "ops/op.h"
#include "ops/reduce/reduce.h"

/** Most ranks of a test. */
#define BENCH_RANKS_MAX 64

/** What a backend is opened with. */
struct setup {
    const struct op_backend *backend;
    enum config_algorithm algorithm;
    size_t gather_bytes;
    size_t chunk_bytes;
    size_t link_bytes; /* messages of a link between nodes; 0: there is none */
    enum config_wire_dtype wire;
};

/** An open backend on this rank. */
struct bench {
    const struct op_backend *backend;
    void *state;
    struct config config;
    struct op_env env;
    MPI_Comm comms[OP_LANES]; /* duplicates of the world, owned */
    int rank;
    int size;
    struct op_set world;
    int *identity; /* world ranks of `world`; owned */
};

void bench_open(struct bench *bench, const struct setup *setup);
void bench_close(struct bench *bench);

/** One batch, its guarded memory and the inputs it was made from. */
struct flight {
    struct op_batch batch;
    struct op_run run;
    struct op_part parts[BENCH_RANKS_MAX]; /* of a REDUCESCATTER */
    uint8_t *input; /* with guards; owned */
    uint8_t *output; /* with guards; equals input when in place */
    void *task; /* owned */
    tutti_dtype wire; /* what its elements travel as: its type, or a 16-bit one */
    unsigned salt; /* makes the data of each flight different */
    bool small_numbers; /* values whose sums and products of few are exact */
    bool live;
};

/** What is to be moved; pointers are made by flight_make(). */
struct order {
    const struct op_set *set;
    uint64_t sequence;
    uint32_t lane;
    tutti_collective collective;
    tutti_dtype dtype;
    tutti_reduce_op op;
    double prescale;
    double postscale;
    int root;
    size_t count;
    bool in_place;
    bool small_numbers;
};

/** Fills memory and starts nothing. */
void flight_make(
        struct flight *flight, const struct bench *bench, const struct order *order);
void flight_start(struct flight *flight, const struct bench *bench);
/** Steps it once; true when it has become final. */
bool flight_step(struct flight *flight, const struct bench *bench, bool *moved);
/** Compares output, input and guards with what they must be. */
void flight_check(const struct flight *flight);
/** Compares them with what they were before the flight. */
void flight_check_untouched(const struct flight *flight);
void flight_free(struct flight *flight);

/** Where a batch stands. */
struct lane_turn {
    uint32_t lane;
    int turn; /* its number in the lane */
};

/**
 * Batch i of OP_SLOTS of a round as this rank starts them: OP_INFLIGHT_MAX of each lane, the
 * lanes in an order of its own.
 */
struct lane_turn lane_turn_of(const struct bench *bench, int round, int i);

/** Makes, runs, checks and frees one batch. */
void run_one(const struct bench *bench, const struct order *order);
/** Steps started flights, in the order given, until all are final. */
void run_all(const struct bench *bench, struct flight *flights, int count);

#endif
