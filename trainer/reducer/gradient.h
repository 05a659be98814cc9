/*
 * The inside of a reducer: its gradients, and the step that is under way.
 *
 * A gradient goes through a step like this, driven by the thread that waits or by callbacks:
 *
 *     marked ready -> submitted -> (stages of a compressor) -> averaged
 *         -> held until norm and overflow are known, if they are asked for
 *         -> given to the caller or the sink -> (sharded: its value is gathered) -> done
 *
 *   create.c    checks, allocates, frees
 *   register.c  registers collectives, for the caller or a sink
 *   gradient.c  a gradient's way through a step
 *   facts.c     norm and overflow
 *   verify.c    whether all ranks have the same results
 *   average.c   numbers that are averaged with the gradients
 *   step.c      what the files about a step share; its report and its end
 *   ready.c     marks
 *   wait.c      steps that end with a wait; gradients left out; joining
 *   callback.c  steps that end with a callback
 *   shards.c    sums whose bits do not depend on the number of ranks
 */
#ifndef TUTTI_TRAINER_REDUCER_GRADIENT_H
#define TUTTI_TRAINER_REDUCER_GRADIENT_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <tutti/trainer/compression.h>
#include <tutti/trainer/reducer.h>

#include "reducer/reducer.h"
#include "reducer/shards.h"

enum {
    PREFIX_MAX = 40, /* bytes */
    PARAM_NAME_MAX = 200, /* bytes; with prefix and suffixes a name of tutti */
    TENSOR_NAME_SIZE = TUTTI_NAME_MAX + 1,
    STAGES_DONE = -1,
    VERIFY_STAGES = 3
};

/** Where a gradient is in a step. */
enum gradient_phase {
    GRADIENT_OPEN, /* not all marks are there                            */
    GRADIENT_IN_FLIGHT, /* a collective of it is in flight, or was skipped    */
    GRADIENT_HELD, /* averaged; norm and overflow are awaited            */
    GRADIENT_GATHERING, /* its value is in flight                             */
    GRADIENT_DONE,
    GRADIENT_SKIPPED /* all ranks left it out                              */
};

/** What a step adds up of a gradient; zero before its last mark. */
struct gradient_sums {
    bool taken; /* by its last mark: that was refused if it is repeated  */
    int64_t sent_bytes;
    double squares; /* of the elements that this rank looks at            */
    double scaled_squares; /* likewise, times 2^-1200; not finite: an overflow   */
    double error_squared, norm_squared; /* of compression                           */
};

struct gradient {
    tutti_reducer *reducer;
    tutti_param param; /* as registered; name and dims are those below          */
    char name[PARAM_NAME_MAX + 1];
    int64_t dims[TUTTI_DIMS_MAX];
    int64_t part_first, part_count; /* this rank's part of it                       */
    bool registered; /* what follows, for the present sink                    */
    bool scattered; /* `sum` is a reduce-scatter                             */
    tutti_tensor sum; /* allreduce or reduce-scatter; 0: none                  */
    tutti_tensor gather; /* allgather of the value; 0: none                       */
    tutti_stream stream; /* that they were registered with                        */
    const tutti_compressor *compressor; /* has the stages; NULL: `sum` is all       */
    void *compression; /* its state                                          */
    struct shards_sum *shards; /* with options.shards; may be `compression`     */

    _Atomic int marks; /* in this step                                       */
    _Atomic int phase; /* enum gradient_phase                                */
    int stage; /* of the compressor, the next one; STAGES_DONE          */
    struct gradient_sums sums;
};

/** A number that is averaged with the gradients of a step. */
struct average {
    tutti_reducer *reducer;
    struct average *next;
    double *value; /* the caller's; NULL: not in this step               */
    double buffer; /* lent                                               */
    tutti_request request;
    char name[TENSOR_NAME_SIZE];
};

/** What the collectives of a step call when they are finished; NULL: they are waited for. */
struct step_calls {
    tutti_callback gradient; /* user is the gradient                             */
    tutti_callback average; /* the average                                        */
    tutti_callback facts; /* and digests: the reducer                           */
};

/** A dynamic loss scale. It is a tensor that is saved, so float64 only. */
struct loss_scale {
    double factor; /* 1 without one                                      */
    double good_steps; /* since it changed                                      */
};

struct tutti_reducer {
    tutti *t;
    tutti_reducer_options options; /* prefix and compressor resolved               */
    char prefix[PREFIX_MAX + 1];
    int ranks, rank; /* of and in the process set                          */
    int marks; /* of each gradient in a step                         */
    size_t count;
    struct gradient *gradients; /* [count]                                            */
    tutti_request *requests; /* [count] what is in flight of each gradient         */
    uint8_t *used; /* [count] with options.unused: which any rank has     */
    void *memory; /* gradients that the reducer allocated               */
    uint64_t (*digests)[2]; /* of each rank of the world, then of each gradient */
    struct reducer_sink sink; /* update is NULL: none                               */
    bool needs_facts; /* norm or overflow are asked for                     */
    bool whole_facts; /* each rank looks at all elements itself             */

    tutti_callback callback; /* the caller's; NULL: steps end with a wait            */
    void *user;
    struct step_calls calls; /* all or none                                        */
    pthread_mutex_t lock; /* of averages and the error                          */
    struct average *averages; /* of this step, and of former ones                   */

    int64_t step;
    _Atomic bool ending; /* a thread is in the wait                            */
    atomic_size_t left; /* with a callback: operations of the step that are not done */
    tutti_status error; /* the first one of the step                             */
    char error_text[512];
    bool began; /* sink.begin() was called                            */
    struct loss_scale loss_scale; /* of a resumed job, too: a tensor of float64 */
    char loss_scale_name[PREFIX_MAX + sizeof ":loss_scale"];
    int facts_stage; /* how far facts_advance() is                         */
    double facts[2]; /* sums of squares and scaled squares; lent           */
    int64_t overflow; /* the first parameter with one; lent                    */
    int verify_stage; /* how far verify_advance() is                        */
    tutti_request facts_request; /* and of digests                              */
    tutti_step_report report; /* of the step under way                              */
    tutti_step_report last_report; /* of the step before                            */
};

/** Registers what is submitted in each step. Any thread. (register.c) */
tutti_status gradient_register(struct gradient *gradient);
void gradient_unregister(struct gradient *gradient);

/** Submits the first collective of a gradient that a stream writes. Any thread. (gradient.c) */
tutti_status gradient_submit(struct gradient *gradient, tutti_stream stream);
/**
 * A collective of a gradient is finished: goes on with it, as far as it can without norm and
 * overflow if they are asked for. (gradient.c)
 * @return true: another collective of it is in flight
 */
bool gradient_continue(
        struct gradient *gradient, tutti_status status, const char *message);
/** Gives what is held to the caller or the sink, norm and overflow being known. (gradient.c) */
void gradients_deliver(tutti_reducer *reducer);
/** All updates are made: the sink's end, and what is gathered only then. (gradient.c) */
void gradients_end_sink(tutti_reducer *reducer);

/**
 * Adds up norm and overflow over the ranks, for the report. (facts.c)
 * @return TUTTI_AGAIN: a collective is in flight, call it again; TUTTI_OK; or an error, which the
 *         step has
 */
tutti_status facts_advance(tutti_reducer *reducer);

/**
 * Compares the results of the step if it is one that is to be compared. Returns like
 * facts_advance(), whose report it reads. (verify.c)
 */
tutti_status verify_advance(tutti_reducer *reducer);

/** Writes the average to the caller's number, and takes it out of the step. (average.c) */
void average_finish(struct average *average, tutti_status status);

/** Options of a collective in this step. (step.c) */
tutti_options step_options(
        const tutti_reducer *reducer, tutti_callback callback, void *user);
/**
 * Reduces numbers in place, for facts or digests. (step.c)
 * @return TUTTI_AGAIN: it is in flight; or an error, which the step has
 */
tutti_status step_reduce(tutti_reducer *reducer, const char *suffix, void *values,
        int64_t count, tutti_dtype dtype, tutti_reduce_op op);
/** True if a step has begun: a gradient is marked, or a number is being averaged. (step.c) */
bool reducer_in_step(tutti_reducer *reducer);
/** Notes the first error of a step. (step.c) */
void step_fail(tutti_reducer *reducer, tutti_status status, const char *text);
/** True if nothing completes it any more: it can be ended without its other gradients. (step.c) */
bool step_is_broken(tutti_reducer *reducer);
/**
 * An error that only this rank has, while others wait for its collectives: fails the context with
 * it. (step.c)
 */
void step_fail_alone(tutti_reducer *reducer, tutti_status status);
/** Clears the report of the step that begins now. (step.c) */
void step_begin_report(tutti_reducer *reducer);
/** Ends the step: the report, the loss scale, marks, and the number of the next. (step.c) */
tutti_status step_end(tutti_reducer *reducer, tutti_step_report *report);

#endif
