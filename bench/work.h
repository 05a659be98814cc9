/*
 * A set of tensors with their buffers, and the ways to do a collective on all of them:
 * tutti, which gets them all in reverse order and then waits for all; raw MPI, one
 * blocking call per tensor in the same order on the same buffers; and for allreduce the
 * limit, which is one call of the reduction kernel on buffers that all ranks map, and the
 * exchange, which is tutti's data plane without agreement.
 */
#ifndef TUTTI_BENCH_WORK_H
#define TUTTI_BENCH_WORK_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tutti/tutti.h>

#include "bench/core/pattern.h"
#include "bench/core/workloads.h"
#include "bench/job.h"
#include "bench/segment.h"

/** One buffer per tensor. */
struct buffers {
    unsigned char **tensors; /* NULL: not allocated */
    void *arena; /* of tutti_alloc(), what they are part of; NULL: other memory */
    void *shared; /* of malloc() and tutti_share(); likewise */
};

struct work;
struct private_sum;

/** Does the collective on all tensors once. */
typedef tutti_status (*work_step)(struct work *work);

/** What callbacks tell the thread that submitted, which sleeps meanwhile. */
struct work_news {
    pthread_mutex_t lock; /* of the following */
    pthread_cond_t over; /* `pending` is 0 */
    size_t pending; /* operations whose callback has not run */
    tutti_status status; /* first error */
    char message[256]; /* what it said */
    double ended_us; /* when the last one ran */
};

struct work {
    struct job *job;
    tutti *t; /* borrowed from the job; the context that does it */
    const struct bench_workload *tensors; /* borrowed */
    struct bench_operation operation; /* from the arguments */
    struct bench_pattern pattern; /* this rank's inputs and the results */
    work_step step; /* how tutti does it; may be changed after opening */
    enum bench_complete complete; /* how the ends of operations are noticed */
    struct work_news *news; /* with callbacks; owned by the work that was opened */
    double ended_us; /* when the last step was over, if not when it returned; or 0 */
    const void *program; /* of another step: what it needs; borrowed */
    uint64_t steps; /* of another step: how many it has done */
    double tail_us; /* of another step: what it has waited after backward passes, in all */
    bool in_place; /* inputs and outputs are the same */
    bool alternates; /* in place, in the one or the other of `owned` */
    bool result_in_front; /* the last step put this rank's part in front of the others */
    struct buffers owned[2]; /* the second only out of place or when it alternates */
    unsigned char **inputs; /* of owned[0], or by turns */
    unsigned char **outputs; /* the inputs in place, else of owned[1] */
    tutti_request *requests; /* in the order of submission */
    int64_t *uses; /* of each tensor: its step */
    tutti_tensor *ids; /* of the tensors; NULL: submitted by name */
    struct segment *segment; /* owned; what owned[0] is part of; NULL: other memory */
    struct exchange *exchange; /* borrowed; its batches; NULL: not compared with */
    struct private_sum
            *private_sum; /* borrowed; of copy and cma; NULL: not compared with */
    void **slices; /* with a segment: this rank's slice of the part of each rank */
};

/**
 * False, with a sentence on stderr and job->left_out set, when memory is too small.
 * @param buffers  of a tensor: 1 in place, 2 out of place or when they alternate
 */
bool work_fits(struct job *job, const struct bench_workload *tensors, int buffers);
/** Allocates and zeroes the buffers. @param[out] work  for work_close() on success */
tutti_status work_open(struct work *work, struct job *job,
        const struct bench_workload *tensors, bool in_place);
/** The same, in place, with two sets of buffers: see work_alternate(). */
tutti_status work_open_alternating(
        struct work *work, struct job *job, const struct bench_workload *tensors);
/** The same work and step, with buffers of its own, on the job's slow context. */
tutti_status work_open_slow(struct work *slow, const struct work *work);
/** The same, in place, in memory that all ranks map: for work_step_limit(). Collective. */
tutti_status work_open_mapped(
        struct work *work, struct job *job, const struct bench_workload *tensors);
/** Also of one that was never opened, but zeroed. */
void work_close(struct work *work);

/** What all tensors take up side by side, each in whole cache lines. */
size_t work_bytes(const struct work *work);
/** Elements of a rank's part of a tensor, where it has parts. */
uint64_t work_part(const struct work *work, size_t index);
/** Where the input begins: at this rank's part when it is one. */
unsigned char *work_input(const struct work *work, size_t index);
/** Where the output begins: at this rank's part when it is one. */
unsigned char *work_output(const struct work *work, size_t index);

/** Goes on with the other set of buffers, as trainers with two sets of gradients do. */
void work_alternate(struct work *work);
/** Zeroes all buffers: what timed steps run on, so that in-place sums stay what they are. */
void work_clear(struct work *work);
/** Writes the known inputs, and into other outputs something that is wrong. */
void work_fill(struct work *work);
/** Elements of this rank's outputs that are not the result of the known inputs. */
int64_t work_count_wrong(const struct work *work);
/** Submits tensors `from` to `to` - 1 counted from the back. */
tutti_status work_submit(struct work *work, size_t from, size_t to);
/** Waits, as work->complete says, for everything that was submitted. */
tutti_status work_wait(struct work *work);
/** The same work, step and buffers, borrowed, with tutti_wait_all(); not to be closed. */
struct work work_waiting(const struct work *work);

tutti_status work_step_tutti(struct work *work);
tutti_status work_step_mpi(struct work *work);
/**
 * Every rank reduces its slice of all tensors from the buffers of all ranks into the
 * buffers of all ranks, between two meetings of the ranks and with no other protocol.
 */
tutti_status work_step_limit(struct work *work);

/**
 * What the two steps below need; for an allreduce of one tensor in private memory, in
 * place, among ranks of one host. Collective. private_sum_close() also after a failure.
 */
tutti_status private_sum_open(struct private_sum **opened, const struct work *work);
void private_sum_close(struct private_sum *sum);
/** Through memory that all ranks map, in pieces that stay in the cache. */
tutti_status work_step_copy(struct work *work);
/** By process_vm_readv(): bytes that a rank needs of another are copied once. */
tutti_status work_step_cma(struct work *work);

/** The data plane alone moves the batches; see exchange.h. */
tutti_status work_step_exchange(struct work *work);

/**
 * Does `checks` steps on known inputs and counts wrong elements of this rank. Leaves the
 * buffers zeroed.
 */
tutti_status work_check(struct work *work, work_step step, int checks, int64_t *wrong);

/** Adds the members that say what is done: operation, type, bytes, tensors, memory. */
void work_to_json(struct bench_json *json, const struct work *work);

#endif
