/*
 * Ranks that drive the GPU backend through op.h, as threads of one process, each with a
 * simulated GPU of its own. A check that fails ends the process, for the other ranks may be
 * waiting for this one.
 */
#ifndef TUTTI_TEST_GPU_BACKEND_H
#define TUTTI_TEST_GPU_BACKEND_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tutti/tutti.h>

#include "ops/gpu/backend.h"
#include "ops/gpu/gpu.h"
#include "ops/op.h"

#define BACKEND_RANKS_MAX 6
#define BACKEND_PARAMETERS 8

#define CHECK(condition) \
    backend_check((condition), r->rank, __FILE__, __LINE__, #condition)

/** Ends the process with words when it does not hold. */
void backend_check(
        bool holds, int rank, const char *file, int line, const char *condition);

struct backend_world;

/** One rank. */
struct backend_rank {
    struct backend_world *world; /* borrowed */
    int rank; /* in the world */
    struct config config;
    struct log log;
    struct gpu *gpu; /* owned */
    struct device device; /* over gpu */
    void *state; /* of op_gpu */
    struct op_env env;
    struct op_device_counts counts;
    uint64_t sequence; /* of the next batch */
    int naps; /* between the steps of the last one */
    char lines[1024]; /* what it logged */
    pthread_t thread;
};

/** What ranks share. */
struct backend_world {
    int size;
    const char
            *parameters[BACKEND_PARAMETERS + 1][2]; /* name and value, up to a NULL */
    void (*body)(struct backend_rank *r);
    pthread_barrier_t barrier;
    uint8_t token[OP_TOKEN_BYTES];
    int ranks[BACKEND_RANKS_MAX]; /* 0, 1, 2 ... */
    struct backend_rank all[BACKEND_RANKS_MAX];
};

/** Sets the libraries: the simulated driver, this NCCL, and any file for kernels. */
void backend_library(
        struct backend_world *world, const char *program, const char *nccl);
/** One more parameter of all ranks. */
void backend_set_parameter(
        struct backend_world *world, const char *name, const char *value);

/** Runs the body on `size` ranks, with GPU and backend opened and closed around it. */
void backend_run(struct backend_world *world);

/** All ranks come here. */
void backend_barrier(struct backend_rank *r);
/** The set of all ranks. */
struct op_set backend_set(const struct backend_rank *r);
/** The ranks of a set meet; rank 0 makes the token. All ranks call it. */
void backend_meet(struct backend_rank *r, const struct op_set *set, bool everyone);
/** The ranks of a set meet, and that fails; the last error says why. */
void backend_meet_in_vain(struct backend_rank *r, const struct op_set *set);

/** Starts a batch and steps until it is issued, or fails: then there is no event. */
tutti_status backend_try_issue(
        struct backend_rank *r, struct op_batch *batch, struct device_event **event);
/** The same, and it must not fail. */
struct device_event *backend_issue(struct backend_rank *r, struct op_batch *batch);
/** Waits until an event has passed, and releases it. */
void backend_pass(struct backend_rank *r, struct device_event *event);
/** Both. */
void backend_do(struct backend_rank *r, struct op_batch *batch);

void *backend_alloc(struct backend_rank *r, size_t bytes);
void backend_write(struct backend_rank *r, void *to, const void *from, size_t bytes);
void backend_read(struct backend_rank *r, void *to, const void *from, size_t bytes);

#endif
