/*
 * The arithmetic of updates, over flat memory. What becomes of an element depends on its own
 * gradient, value and moments alone, so the bits do not depend on how elements are divided or on
 * the width of vectors.
 */
#ifndef TUTTI_TRAINER_OPTIMIZER_UPDATE_H
#define TUTTI_TRAINER_OPTIMIZER_UPDATE_H

#include <stdbool.h>
#include <stdint.h>

/** What all elements of a parameter have in common in a step. */
struct update_terms {
    double scale; /* of gradients                                             */
    double rate; /* what the direction is multiplied by: the learning rate,
                    divided by 1 - beta1^t with Adam                          */
    double momentum;
    bool nesterov;
    double beta1, beta2;
    double scale1; /* LAMB: 1 / (1 - beta1^t)                                  */
    double scale2; /* 1 / sqrt(1 - beta2^t)                                    */
    double epsilon;
    double decay; /* times the value, added to the gradient; LAMB: to the direction */
    double keep; /* what the value is multiplied by first: 1 - rate * decay of AdamW */
};

/** Elements of one parameter; all arrays are of the kernels' type, and do not overlap. */
struct update_span {
    void *value;
    const void *gradient;
    void *moment1; /* SGD: NULL without momentum                               */
    void *moment2;
    int64_t count;
};

/** For one type of elements. */
struct update_kernels {
    void (*sgd)(const struct update_span *span, const struct update_terms *terms);
    /** Adam and AdamW. */
    void (*adam)(const struct update_span *span, const struct update_terms *terms);
    /** LAMB: takes the gradient into the moments. */
    void (*moments)(const struct update_span *span, const struct update_terms *terms);
    /** LAMB: what is subtracted from the value, but for the rate and the ratio of norms. */
    void (*direction)(const struct update_span *span, const struct update_terms *terms,
            void *direction);
    /** LAMB: value -= factor * direction. */
    void (*subtract)(
            const struct update_span *span, double factor, const void *direction);
};

extern const struct update_kernels update_floats, update_doubles;
extern const struct update_kernels update_floats_avx2; /* where there is AVX2 */

/** Those for float32 that are the fastest on this processor. (update_floats.c) */
const struct update_kernels *update_fastest_floats(void);

#endif
