/*
 * Jobs over the simulated GPU from end to end: through the public API alone, with real
 * engines. Ranks are threads of one process (ends.c) or processes of MPI (test/multi/gpu.c), each
 * with a simulated GPU of its own unless a case says otherwise. A check that fails ends the
 * process, for the other ranks may be waiting for this one.
 */
#ifndef TUTTI_TEST_GPU_ENDS_H
#define TUTTI_TEST_GPU_ENDS_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tutti/tutti.h>

#include "test/gpusim/cuda.h"
#include "test/gpusim/gpusim_test.h"

#define ENDS_RANKS_MAX 4
#define ENDS_MEMORY_MAX 100 /* blocks of a rank */
#define ENDS_SECONDS INT64_C(1000000000)
/* How long anything may take that a test waits for. */
#define ENDS_PATIENCE (250 * ENDS_SECONDS)

#define CHECK(condition) \
    ends_check((condition), r->rank, __FILE__, __LINE__, #condition)

/** Ends the process with words, and tutti's last error, when it does not hold. */
void ends_check(
        bool holds, int rank, const char *file, int line, const char *condition);

struct ends_job;

/** One rank. */
struct ends_rank {
    struct ends_job *job;
    tutti *t;
    int rank; /* in the world */
    int size;
    int device; /* of the simulator */
    void *context; /* its primary context, current in the rank's thread */
    void *stream; /* a non-blocking one of the caller's */
    uint64_t memory[ENDS_MEMORY_MAX]; /* device memory that goes with the rank */
    void *pinned[ENDS_MEMORY_MAX]; /* likewise */
    size_t memory_count, pinned_count;
    pthread_t thread; /* of ranks that are threads */
    pthread_t beside; /* what a body has left to run during tutti_finalize() */
    bool has_beside;
};

/** A case: what runs on each rank, and under which parameters. */
struct ends_case {
    const char *name;
    void (*body)(struct ends_rank *r);
    const char *parameters; /* "name=value name=value"; "" for none */
    tutti_status finalize; /* what tutti_finalize() says on each rank */
    bool is_lost; /* a device is, and nothing of it can be given back */
};

#define ENDS_LOG_BYTES 16384

/** What the ranks of a process share. */
struct ends_job {
    const struct ends_case *what;
    int size;
    tutti_config *config;
    pthread_barrier_t barrier; /* of ranks that are threads */
    void (*meet)(struct ends_rank *r);
    pthread_mutex_t lock; /* of lines */
    char lines[ENDS_LOG_BYTES]; /* what was logged */
    struct ends_rank ranks[ENDS_RANKS_MAX];
};

/** Fills in the configuration of a job: libraries, the log, and the case's parameters. */
void ends_configure(
        struct ends_job *job, const struct ends_case *what, const char *nccl);
/** The device's context and the stream, in the rank's thread; and their end, with all memory. */
void ends_enter(struct ends_rank *r);
void ends_leave(struct ends_rank *r);

/** Cases, up to one without a name. */
extern const struct ends_case cases_failures[];
extern const struct ends_case cases_graphs[];
extern const struct ends_case cases_streams[];

/**
 * Runs a case by ranks that are threads. Afterwards nothing may be left of the simulator's
 * objects.
 * @return the exit status
 */
int ends_run(const struct ends_case *what, int ranks, const char *nccl);

/** All ranks come here, without tutti. */
void ends_meet(struct ends_rank *r);
/** True when a line with these words has been logged by a rank of this process. */
bool ends_was_logged(struct ends_job *job, const char *words);
/** Sleeps for a moment. */
void ends_nap(void);
/** For tutti a quarter of an hour passes, again and again until it logs these words. */
void ends_pass_time(struct ends_rank *r, const char *words);

/** Device memory of the driver's, full of poison; freed by ends_leave(). */
float *ends_alloc(struct ends_rank *r, int64_t count);
/** Pinned host memory; likewise. */
float *ends_pinned(struct ends_rank *r, int64_t count);
/** A kernel's place: fills floats on a stream, as a backward pass would. */
void ends_fill(
        struct ends_rank *r, float *memory, float value, int64_t count, void *stream);
/** Copies to pinned memory on a stream, as an update would read. */
void ends_take(struct ends_rank *r, float *pinned, const float *memory, int64_t count,
        void *stream);
/** All of them have this value. */
void ends_expect(struct ends_rank *r, const float *host, float value, int64_t count);

/** Options with a stream. */
tutti_options ends_on(void *stream);
/** Submits a sum of floats in the world; it must be accepted. */
tutti_request ends_sum(struct ends_rank *r, const char *name, const float *input,
        float *output, int64_t count, void *stream);
/** The same out of fresh memory, through to its right result. */
void ends_whole_sum(struct ends_rank *r, const char *name);
/** The same of a tensor of the caller's; `pinned` has room for it on the host. */
void ends_whole_sum_of(struct ends_rank *r, const char *name, float *tensor,
        float *pinned, int64_t count);
/** One that blocks, in a process set; the result is `total` unless it fails. */
tutti_status ends_sum_in(
        struct ends_rank *r, const char *name, tutti_process_set set, float total);
/** Of the tensors below, which are more than fit into the parameters of a kernel. */
#define ENDS_MANY_FLOATS 3300
/** Sums of many small tensors of a block but one, as one batch, for which `waits` waits. */
void ends_sum_many(struct ends_rank *r, float *block, int left_out, void *waits);
void ends_expect_many(struct ends_rank *r, const float *seen, int left_out);
tutti_stats ends_stats(struct ends_rank *r);
/** rank + 1 of all ranks, added up. */
float ends_total(const struct ends_rank *r);

#endif
