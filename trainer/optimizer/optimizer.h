/*
 * The inside of an optimizer.
 *
 *   options.c   defaults, what is refused, and what all ranks must have alike
 *   create.c    allocates on all ranks or on none, frees
 *   step.c      takes averaged gradients from the reducer and updates parameters
 *   state.c     the state as named tensors, and its size
 *   update*     the arithmetic
 *   schedule.c  learning rates
 */
#ifndef TUTTI_TRAINER_OPTIMIZER_OPTIMIZER_H
#define TUTTI_TRAINER_OPTIMIZER_OPTIMIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tutti/trainer/optimizer.h>

#include "optimizer/update.h"
#include "reducer/reducer.h"
#include "state/agree.h"

enum {
    OPTIMIZER_PREFIX_MAX = 40, /* bytes */
    OPTIMIZER_STATE_BYTES_MAX = 64, /* of a custom update */
    STATE_ALIGNMENT = 64 /* bytes */
};

/** What is kept for each element. */
enum optimizer_state {
    STATE_MOMENT1,
    STATE_MOMENT2,
    STATE_MASTER,
    STATE_CUSTOM,
    STATE_KINDS
};

/** A parameter, and this rank's part of its state. */
struct optimizer_slot {
    const tutti_param *param; /* the reducer's */
    const struct update_kernels *kernels; /* for its type and this processor */
    int64_t first, count; /* the elements that this rank updates */
    unsigned char *states[STATE_KINDS]; /* [count] elements each; NULL: not kept */
    char *names[STATE_KINDS]; /* of these as tensors */
    int64_t custom_dims[2]; /* shape of STATE_CUSTOM */
};

struct tutti_optimizer {
    tutti_reducer *reducer;
    tutti_optimizer_options options; /* prefix resolved; the present learning rate */
    char prefix[OPTIMIZER_PREFIX_MAX + 1];
    char steps_name[OPTIMIZER_PREFIX_MAX + sizeof ".step"];
    size_t count;
    struct optimizer_slot *slots; /* [count] */
    int64_t *steps; /* [count] how often each parameter was updated */
    int64_t steps_dims[1];
    double *squares; /* LAMB: [count] pairs of squared norms, in this step, of this rank's
                        parts of the value and of the direction; lent in end() */
    unsigned char *memory; /* of all states and names */
    int64_t bytes_here, bytes_replicated;
};

/** Name of a kind, e.g. "AdamW". (options.c) */
const char *optimizer_kind_name(tutti_optimizer_kind kind);

/**
 * Completes options from the caller's, which may be NULL or of another version, and checks them.
 * (options.c)
 */
tutti_status optimizer_take_options(
        tutti_optimizer *optimizer, const tutti_optimizer_options *options);

/**
 * Ends the part of a call that a rank does alone: the status of the first rank that failed, or
 * TUTTI_ERR_MISMATCH if options differ. (options.c)
 */
tutti_status optimizer_agree(const struct state_group *group, tutti_status status,
        const tutti_optimizer_options *options);

/**
 * Bytes of all states, each aligned, and their names; they are given out if there is memory.
 * (state.c)
 */
size_t optimizer_lay_out(tutti_optimizer *optimizer, unsigned char *memory);

/** The place of an optimizer at the end of the reducer's steps. (step.c) */
struct reducer_sink optimizer_sink(tutti_optimizer *optimizer);

#endif
