/*
 * The kernels of update.h for one type: the file that includes this defines
 *
 *   real                the type
 *   UPDATE_KERNELS      the name of the struct update_kernels
 */
#ifndef TUTTI_TRAINER_OPTIMIZER_UPDATE_BODY_H
#define TUTTI_TRAINER_OPTIMIZER_UPDATE_BODY_H

#include <stddef.h>
#include <tgmath.h>

#include "optimizer/update.h"

static void sgd(const struct update_span *span, const struct update_terms *terms)
{
    const real scale = (real)terms->scale;
    const real rate = (real)terms->rate;
    const real decay = (real)terms->decay;
    const real momentum = (real)terms->momentum;
    const bool nesterov = terms->nesterov;
    real *restrict value = span->value;
    real *restrict moment = span->moment1;
    const real *restrict gradient = span->gradient;

    if (moment == NULL) {
        for (int64_t i = 0; i < span->count; i++) {
            value[i] -= rate * (gradient[i] * scale + decay * value[i]);
        }
        return;
    }
    for (int64_t i = 0; i < span->count; i++) {
        const real g = gradient[i] * scale + decay * value[i];

        moment[i] = momentum * moment[i] + g;
        value[i] -= rate * (nesterov ? g + momentum * moment[i] : moment[i]);
    }
}

static void adam(const struct update_span *span, const struct update_terms *terms)
{
    const real scale = (real)terms->scale;
    const real rate = (real)terms->rate;
    const real decay = (real)terms->decay;
    const real keep = (real)terms->keep;
    const real share1 = (real)(1 - terms->beta1);
    const real share2 = (real)(1 - terms->beta2);
    const real beta2 = (real)terms->beta2;
    const real scale2 = (real)terms->scale2;
    const real epsilon = (real)terms->epsilon;
    real *restrict value = span->value;
    real *restrict moment1 = span->moment1;
    real *restrict moment2 = span->moment2;
    const real *restrict gradient = span->gradient;

    for (int64_t i = 0; i < span->count; i++) {
        const real g = gradient[i] * scale + decay * value[i];
        const real m = moment1[i] + share1 * (g - moment1[i]);
        const real v = beta2 * moment2[i] + share2 * g * g;

        moment1[i] = m;
        moment2[i] = v;
        value[i] = keep * value[i] - rate * m / (sqrt(v) * scale2 + epsilon);
    }
}

static void moments(const struct update_span *span, const struct update_terms *terms)
{
    const real scale = (real)terms->scale;
    const real share1 = (real)(1 - terms->beta1);
    const real share2 = (real)(1 - terms->beta2);
    const real beta2 = (real)terms->beta2;
    real *restrict moment1 = span->moment1;
    real *restrict moment2 = span->moment2;
    const real *restrict gradient = span->gradient;

    for (int64_t i = 0; i < span->count; i++) {
        const real g = gradient[i] * scale;

        moment1[i] += share1 * (g - moment1[i]);
        moment2[i] = beta2 * moment2[i] + share2 * g * g;
    }
}

static void direction(
        const struct update_span *span, const struct update_terms *terms, void *result)
{
    const real scale1 = (real)terms->scale1;
    const real scale2 = (real)terms->scale2;
    const real epsilon = (real)terms->epsilon;
    const real decay = (real)terms->decay;
    const real *restrict value = span->value;
    const real *restrict moment1 = span->moment1;
    const real *restrict moment2 = span->moment2;
    real *restrict out = result;

    for (int64_t i = 0; i < span->count; i++) {
        out[i] = moment1[i] * scale1 / (sqrt(moment2[i]) * scale2 + epsilon) +
                decay * value[i];
    }
}

static void subtract(const struct update_span *span, double factor, const void *from)
{
    const real rate = (real)factor;
    real *restrict value = span->value;
    const real *restrict step = from;

    for (int64_t i = 0; i < span->count; i++) {
        value[i] -= rate * step[i];
    }
}

const struct update_kernels UPDATE_KERNELS = {
    .sgd = sgd,
    .adam = adam,
    .moments = moments,
    .direction = direction,
    .subtract = subtract,
};

#endif
