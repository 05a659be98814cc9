/*
 * What the coordinator makes plans of: plan_learn.c, plan_append.c.
 */
#ifndef TUTTI_AGREE_LEARN_H
#define TUTTI_AGREE_LEARN_H

#include "agree/negotiator.h"

/** A tensor is about to be launched; true: a plan begins instead. */
bool learn_launch(struct negotiator *negotiator, struct tensor_state *tensor,
        tutti_status *status);
/** It failed: that was its turn in the iteration. */
void learn_failed(struct negotiator *negotiator, struct tensor_state *tensor);
/** It is launched whatever it is. */
void learn_note(struct negotiator *negotiator, struct tensor_state *tensor);
/** The coordinator has left a plan, because of an arrival. */
void learn_left(struct negotiator *negotiator, struct plan *plan,
        const struct arrival *arrival);

/** A tensor that is to be planned. */
struct candidate {
    struct tensor_state *tensor;
    size_t place; /* among the candidates, as they were laid out */
    size_t batch; /* that it was laid out in */
};

/** It keeps its number, and nobody is known to give other metadata now. */
static inline bool tensor_is_as_before(const struct tensor_state *tensor)
{
    return !tensor->tally->retired && tensor->tally->variants == NULL;
}

/** Room for that many negotiator->learner.candidates. @return false: no memory */
TUTTI_MUST_USE bool plan_reserve(struct negotiator *negotiator, size_t count);
/**
 * Appends a new plan of the first `count` candidates, which are in the order of their waves,
 * or of those that can be planned. @return false: there are none, or *status is an error
 */
bool plan_append_new(struct negotiator *negotiator, uint32_t lane, size_t count,
        tutti_status *status);
/** Appends the plan as it is. @return false: a tensor of it changes now, so it cannot be */
bool plan_append_again(struct negotiator *negotiator, const struct plan *plan);

#endif
