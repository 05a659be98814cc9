/*
 * What the rest of the trainer's layer sees of a reducer: its parameters, and the place of an
 * optimizer at the end of a step.
 */
#ifndef TUTTI_TRAINER_REDUCER_REDUCER_H
#define TUTTI_TRAINER_REDUCER_REDUCER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tutti/trainer/reducer.h>
#include <tutti/trainer/state.h>

/** Who takes the averaged gradients of a step, in place of the caller. */
struct reducer_sink {
    /* Gradients are reduce-scattered: this rank gets its part of each parameter alone
       (tutti_part(count, ranks, rank)), updates that part of the value, and the reducer
       gathers the values. False: this rank gets all of each gradient. */
    bool sharded;
    /* Sharded: values are gathered after end() and not after each update. */
    bool gathers_late;
    /**
     * Once for each step, before the first update. The report has the norm, the clip scale and the
     * overflow, if they were asked for. Not called in a step with an overflow. An error
     * ends the step without updates.
     */
    tutti_status (*begin)(void *user, const tutti_step_report *report);
    /**
     * Elements [first, first + count) of a parameter are to be updated. `gradient` points to
     * element `first` of the gradient, in the parameter's type, and is to be multiplied
     * by `scale`: clipping, and the loss scale undone. Called as soon as the gradient is
     * averaged, while others are in flight, unless a norm or the overflow is asked for.
     */
    void (*update)(void *user, size_t param, int64_t first, int64_t count,
            const void *gradient, double scale);
    /** After all updates; may run collectives. NULL: nothing to do. */
    tutti_status (*end)(void *user);
    /** Ranks have joined, `last` as the last one: all get what that one has. NULL: nothing to do. */
    tutti_status (*joined)(void *user, int last);
    void *user;
};

/**
 * Gives the gradients of the following steps to a sink; NULL: to the caller again. Between
 * steps. A call that fails has changed nothing.
 * @return TUTTI_OK, TUTTI_ERR_INVALID (a step is under way, or there is a sink already, or a
 *         parameter has no value), TUTTI_ERR_UNSUPPORTED (device memory, or sharded with
 *         uneven data)
 */
tutti_status reducer_set_sink(tutti_reducer *reducer, const struct reducer_sink *sink);

/**
 * Ends a step that is under way when the context has failed, or ranks have finalized: its
 * memory is the caller's again.
 */
void reducer_give_up(tutti_reducer *reducer);

size_t reducer_params(const tutti_reducer *reducer);
/** Parameter i as it was registered; its gradient is never NULL. */
const tutti_param *reducer_param(const tutti_reducer *reducer, size_t i);
tutti *reducer_context(const tutti_reducer *reducer);
/** The options, complete. */
const tutti_reducer_options *reducer_options(const tutti_reducer *reducer);
/** Ranks of its process set, and this rank's index in it. */
int reducer_ranks(const tutti_reducer *reducer);
int reducer_rank(const tutti_reducer *reducer);

#endif
