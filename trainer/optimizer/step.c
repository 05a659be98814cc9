/*
 * Takes averaged gradients from the reducer and updates parameters.
 *
 * Elements that the kernels can use as they are go through one call; others, and LAMB's, go through
 * blocks that stay in the cache. LAMB needs the norms of the whole parameter before it changes
 * anything: update() takes the gradient into the moments and adds up squares, and the direction
 * is computed a second time when the norms are known, rather than kept.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "optimizer/optimizer.h"
#include "reducer/elements.h"

enum {
    BLOCK = 1024 /* elements */
};

/** Elements of a slot that are worked on together. */
struct block {
    struct update_span span; /* for the kernels */
    void *values; /* the parameter's; span.value, unless that is the master */
};

/** Elements of either type of the arithmetic. */
union elements {
    float floats[BLOCK];
    double doubles[BLOCK];
};

/* By squaring, which gives the same bits with every C library. */
static double power(double base, int64_t exponent)
{
    double result = 1;

    for (; exponent > 0; exponent /= 2) {
        result *= exponent % 2 == 1 ? base : 1;
        base *= base;
    }
    return result;
}

static struct update_terms terms_of(
        const tutti_optimizer *optimizer, size_t param, double scale)
{
    const tutti_optimizer_options *options = &optimizer->options;
    const bool decoupled = options->kind == TUTTI_OPTIMIZER_ADAMW;
    const double bias1 = 1 - power(options->beta1, optimizer->steps[param]);
    const double bias2 = 1 - power(options->beta2, optimizer->steps[param]);
    const bool adam = decoupled || options->kind == TUTTI_OPTIMIZER_ADAM;

    return (struct update_terms){
        .scale = scale,
        .rate = options->learning_rate / (adam ? bias1 : 1),
        .momentum = options->momentum,
        .nesterov = options->nesterov,
        .beta1 = options->beta1,
        .beta2 = options->beta2,
        .scale1 = 1 / bias1,
        .scale2 = 1 / sqrt(bias2),
        .epsilon = options->epsilon,
        .decay = decoupled ? 0 : options->weight_decay,
        .keep = decoupled ? 1 - options->learning_rate * options->weight_decay : 1,
    };
}

/* ------------------------------------------------------------------- blocks */

static tutti_dtype arithmetic_of(const tutti_param *param)
{
    return param->dtype == TUTTI_FLOAT64 ? TUTTI_FLOAT64 : TUTTI_FLOAT32;
}

/* At most `most` elements; `index` counts from the slot's first one. */
static struct block block_at(
        const struct optimizer_slot *slot, int64_t index, int64_t most)
{
    const tutti_param *param = slot->param;
    const int64_t left = slot->count - index;
    void *values = elements_at(param->dtype, param->value, slot->first + index);
    void *states[STATE_KINDS] = { NULL };

    for (int kind = 0; kind < STATE_KINDS; kind++) {
        if (slot->states[kind] != NULL) {
            states[kind] = elements_at(arithmetic_of(param), slot->states[kind], index);
        }
    }
    return (struct block){
        .span = { .value = states[STATE_MASTER] != NULL ? states[STATE_MASTER] : values,
                .moment1 = states[STATE_MOMENT1],
                .moment2 = states[STATE_MOMENT2],
                .count = left < most ? left : most },
        .values = values,
    };
}

/* A value that is not its master rounded was changed by the caller, and becomes the master. */
static void follow_values(tutti_dtype dtype, const struct block *block)
{
    const int64_t count = block->span.count;
    const uint16_t *values = block->values;
    float *masters = block->span.value;
    uint16_t rounded[BLOCK];
    float loaded[BLOCK];

    elements_store(dtype, masters, rounded, count);
    elements_load(dtype, values, loaded, count);
    for (int64_t i = 0; i < count; i++) {
        masters[i] = rounded[i] == values[i] ? masters[i] : loaded[i];
    }
}

/* Takes gradients into the moments, and adds up the squares. */
static void measure_lamb(const struct optimizer_slot *slot,
        const struct update_span *span, const struct update_terms *terms,
        double *squares)
{
    const tutti_dtype dtype = arithmetic_of(slot->param);
    union elements direction;

    slot->kernels->moments(span, terms);
    slot->kernels->direction(span, terms, &direction);
    squares[0] += elements_squares(dtype, span->value, span->count);
    squares[1] += elements_squares(dtype, &direction, span->count);
}

static void take_block(tutti_optimizer *optimizer, size_t param,
        const struct update_terms *terms, struct block block)
{
    const struct optimizer_slot *slot = &optimizer->slots[param];
    const tutti_dtype dtype = slot->param->dtype;
    const bool half = slot->states[STATE_MASTER] != NULL;
    float gradient[BLOCK];

    if (half) {
        elements_load(dtype, block.span.gradient, gradient, block.span.count);
        block.span.gradient = gradient;
        follow_values(dtype, &block);
    }
    if (optimizer->options.kind == TUTTI_OPTIMIZER_LAMB) {
        measure_lamb(slot, &block.span, terms, &optimizer->squares[2 * param]);
    } else if (optimizer->options.kind == TUTTI_OPTIMIZER_SGD) {
        slot->kernels->sgd(&block.span, terms);
    } else {
        slot->kernels->adam(&block.span, terms);
    }
    if (half) {
        elements_store(dtype, block.span.value, block.values, block.span.count);
    }
}

/* Subtracts LAMB's direction; squares hold those of the whole parameter. */
static void apply_lamb(const tutti_optimizer *optimizer, size_t param)
{
    const struct optimizer_slot *slot = &optimizer->slots[param];
    const struct update_terms terms = terms_of(optimizer, param, 1);
    const double *squares = &optimizer->squares[2 * param];
    const double ratio =
            squares[0] > 0 && squares[1] > 0 ? sqrt(squares[0]) / sqrt(squares[1]) : 1;

    for (int64_t at = 0; at < slot->count; at += BLOCK) {
        const struct block block = block_at(slot, at, BLOCK);
        union elements direction;

        slot->kernels->direction(&block.span, &terms, &direction);
        slot->kernels->subtract(&block.span, terms.rate * ratio, &direction);
        if (slot->states[STATE_MASTER] != NULL) {
            elements_store(slot->param->dtype, block.span.value, block.values,
                    block.span.count);
        }
    }
}

static void call_custom(const tutti_optimizer *optimizer, size_t param,
        const void *gradient, double scale)
{
    const struct optimizer_slot *slot = &optimizer->slots[param];
    const tutti_update update = {
        .size = sizeof update,
        .name = slot->param->name,
        .param = param,
        .first = slot->first,
        .count = slot->count,
        .dtype = slot->param->dtype,
        .value = elements_at(slot->param->dtype, slot->param->value, slot->first),
        .gradient = gradient,
        .gradient_scale = scale,
        .state = slot->states[STATE_CUSTOM],
        .learning_rate = optimizer->options.learning_rate,
        .step = optimizer->steps[param],
    };

    optimizer->options.update(optimizer->options.user, &update);
}

/* --------------------------------------------------------------------- sink */

static tutti_status begin(void *user, const tutti_step_report *report)
{
    tutti_optimizer *optimizer = user;

    (void)report;
    memset(optimizer->squares, 0, 2 * optimizer->count * sizeof *optimizer->squares);
    return TUTTI_OK;
}

/* The elements are those of the slot. */
static void update(void *user, size_t param, int64_t first, int64_t count,
        const void *gradient, double scale)
{
    tutti_optimizer *optimizer = user;
    const struct optimizer_slot *slot = &optimizer->slots[param];
    const size_t size = tutti_dtype_size(slot->param->dtype);
    const bool lamb = optimizer->options.kind == TUTTI_OPTIMIZER_LAMB;
    const int64_t most = lamb || slot->states[STATE_MASTER] != NULL ? BLOCK : count;
    struct update_terms terms;

    (void)first;
    optimizer->steps[param]++;
    if (optimizer->options.kind == TUTTI_OPTIMIZER_CUSTOM) {
        call_custom(optimizer, param, gradient, scale);
        return;
    }
    terms = terms_of(optimizer, param, scale);
    for (int64_t at = 0; at < count; at += most) {
        struct block block = block_at(slot, at, most);

        block.span.gradient = (const unsigned char *)gradient + (size_t)at * size;
        take_block(optimizer, param, &terms, block);
    }
    if (lamb && !optimizer->options.sharded) {
        apply_lamb(optimizer, param);
    }
}

/* A sharded LAMB: the norms of all parameters in one allreduce. */
static tutti_status end_lamb(void *user)
{
    tutti_optimizer *optimizer = user;
    const tutti_reducer_options *reducer = reducer_options(optimizer->reducer);
    tutti_options options;
    char name[TUTTI_NAME_MAX + 1];
    tutti_status status;

    (void)snprintf(name, sizeof name, "%s:lamb", reducer->prefix);
    tutti_options_default(&options);
    options.process_set = reducer->process_set;
    options.step = tutti_reducer_step(optimizer->reducer);
    status = tutti_allreduce(reducer_context(optimizer->reducer), name,
            optimizer->squares, optimizer->squares, (int64_t)(2 * optimizer->count),
            TUTTI_FLOAT64, TUTTI_SUM, &options);
    for (size_t i = 0; status == TUTTI_OK && i < optimizer->count; i++) {
        if (optimizer->squares[2 * i + 1] != 0) {
            apply_lamb(optimizer, i); /* the others were left out, or do not move */
        }
    }
    return status;
}

/* Values and state; a sharded optimizer has no ranks that join. */
static tutti_status joined(void *user, int last)
{
    tutti_optimizer *optimizer = user;
    tutti *t = reducer_context(optimizer->reducer);
    tutti_state_tensor *tensors;
    size_t n;
    tutti_status status = tutti_optimizer_state(optimizer, NULL, 0, &n);

    if (status != TUTTI_OK) {
        return status;
    }
    tensors = calloc(n + optimizer->count, sizeof *tensors);
    if (tensors == NULL) {
        return group_heard(t,
                error_set(
                        TUTTI_ERR_NO_MEMORY, "no memory to hand over %zu tensors", n));
    }
    status = tutti_optimizer_state(optimizer, tensors, n, &n);
    for (size_t i = 0; i < optimizer->count; i++) {
        const tutti_param *param = optimizer->slots[i].param;

        tensors[n + i] = (tutti_state_tensor){ .name = param->name,
            .data = param->value,
            .dtype = param->dtype,
            .ndim = 1,
            .dims = &param->count,
            .count = param->count };
    }
    if (status == TUTTI_OK) {
        status = tutti_broadcast_state(t,
                reducer_options(optimizer->reducer)->process_set, tensors,
                n + optimizer->count, last);
    }
    free(tensors);
    return status;
}

struct reducer_sink optimizer_sink(tutti_optimizer *optimizer)
{
    const bool late = optimizer->options.sharded &&
            optimizer->options.kind == TUTTI_OPTIMIZER_LAMB;

    return (struct reducer_sink){
        .sharded = optimizer->options.sharded,
        .gathers_late = late,
        .begin = begin,
        .update = update,
        .end = late ? end_lamb : NULL,
        .joined = joined,
        .user = optimizer,
    };
}

tutti_status tutti_optimizer_step(tutti_optimizer *optimizer, tutti_step_report *report)
{
    if (optimizer == NULL) {
        return error_set(
                TUTTI_ERR_INVALID, "tutti_optimizer_step: the optimizer is NULL");
    }
    return tutti_reducer_wait(optimizer->reducer, report);
}

tutti_status tutti_optimizer_set_learning_rate(
        tutti_optimizer *optimizer, double learning_rate)
{
    if (optimizer == NULL || !isfinite(learning_rate) || learning_rate < 0) {
        return error_set(TUTTI_ERR_INVALID,
                "tutti_optimizer_set_learning_rate: %s %g; it must be 0 or more",
                optimizer == NULL ? "the optimizer is NULL, the rate"
                                  : "the learning rate is",
                learning_rate);
    }
    optimizer->options.learning_rate = learning_rate;
    return TUTTI_OK;
}

double tutti_optimizer_learning_rate(const tutti_optimizer *optimizer)
{
    return optimizer->options.learning_rate;
}
