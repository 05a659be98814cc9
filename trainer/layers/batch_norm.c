/*
 * Batch normalization whose moments are those of the batches of all ranks.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tutti/trainer/layers.h>

#include "error.h"
#include "options.h"
#include "state/agree.h"

enum {
    NAME_MAX_BYTES = 200
};

/* A batch of this many numbers per channel is a rank whose arguments are wrong. */
static const double fault_count = -1.0;

struct tutti_batch_norm {
    tutti *t;
    tutti_batch_norm_options options;
    char name[NAME_MAX_BYTES + 16];
    size_t name_bytes; /* without what an operation appends */
    int64_t channels;
    int size; /* of the process set */
    tutti_batch_shape shape; /* of the last forward pass; outer < 0: none */
    double count; /* numbers per channel, over the ranks       */
    double *mean; /* of the last forward pass; owned: the following lie behind it */
    double *scale; /* likewise: 1 / sqrt(variance + epsilon) */
    double *running_mean, *running_variance;
    double *own; /* [1 + 2 * channels]: count, and two numbers per channel */
    double *all; /* [size][1 + 2 * channels] */
};

void tutti_moments_merge(tutti_moments *moments, const tutti_moments *other)
{
    double count = moments->count + other->count;
    double distance = other->mean - moments->mean;

    if (count == 0.0) {
        return;
    }
    moments->m2 +=
            other->m2 + distance * distance * (moments->count * (other->count / count));
    moments->mean += distance * (other->count / count);
    moments->count = count;
}

void tutti_batch_norm_options_default_sized(
        tutti_batch_norm_options *options, size_t size)
{
    const tutti_batch_norm_options defaults = {
        .size = size, .process_set = TUTTI_WORLD, .epsilon = 1e-5, .momentum = 0.1
    };

    options_give(options, size, &defaults, sizeof defaults);
}

static tutti_status prepare(tutti_batch_norm *bn, const char *name, int64_t count)
{
    const size_t channels = (size_t)count;
    const size_t row = 1 + 2 * channels;

    if (name == NULL || name[0] == '\0' || strlen(name) > NAME_MAX_BYTES || count < 1 ||
            count > INT32_MAX) {
        return error_set(TUTTI_ERR_INVALID,
                "tutti_batch_norm_create(): a name that has not 1 to %d bytes, or %lld "
                "channels",
                NAME_MAX_BYTES, (long long)count);
    }
    bn->channels = count;
    bn->name_bytes = strlen(name);
    memcpy(bn->name, name, bn->name_bytes);
    bn->mean = calloc(4 * channels + (1 + (size_t)bn->size) * row, sizeof *bn->mean);
    if (bn->mean == NULL) {
        return error_set(TUTTI_ERR_NO_MEMORY,
                "out of memory for a normalization of %zu channels", channels);
    }
    bn->scale = bn->mean + channels;
    bn->running_mean = bn->scale + channels;
    bn->running_variance = bn->running_mean + channels;
    bn->own = bn->running_variance + channels;
    bn->all = bn->own + row;
    for (size_t c = 0; c < channels; c++) {
        bn->running_variance[c] = 1.0;
    }
    return TUTTI_OK;
}

tutti_status tutti_batch_norm_create(tutti *t, const char *name, int64_t channels,
        const tutti_batch_norm_options *options, tutti_batch_norm **out)
{
    tutti_batch_norm_options complete;
    struct state_group group;
    tutti_batch_norm *bn;
    tutti_status status;

    if (out == NULL || (options != NULL && options->size == 0)) {
        return error_set(TUTTI_ERR_INVALID,
                "tutti_batch_norm_create(): no result, or options.size is 0");
    }
    tutti_batch_norm_options_default(&complete);
    options_take(&complete, sizeof complete, options);
    status = group_init(&group, t, complete.process_set);
    if (status != TUTTI_OK) {
        return status;
    }
    bn = calloc(1, sizeof *bn);
    if (bn == NULL) {
        return group_agree(&group,
                error_set(TUTTI_ERR_NO_MEMORY, "out of memory for a normalization"));
    }
    bn->options = complete;
    bn->t = t;
    bn->size = group.ranks;
    bn->shape.outer = -1;
    status = group_same(&group, prepare(bn, name, channels),
            (const struct setting[]){ text_setting("the name", name),
                    number_setting("the number of channels", (double)channels),
                    number_setting("options.epsilon", complete.epsilon),
                    number_setting("options.momentum", complete.momentum) },
            4, NULL);
    if (status != TUTTI_OK) {
        tutti_batch_norm_destroy(bn);
        return status;
    }
    *out = bn;
    return TUTTI_OK;
}

void tutti_batch_norm_destroy(tutti_batch_norm *bn)
{
    if (bn != NULL) {
        free(bn->mean);
        free(bn);
    }
}

/* Where the numbers of a channel begin that belong to one outer index. */
static int64_t place(const tutti_batch_shape *shape, int64_t outer, int64_t channel)
{
    return (outer * shape->channels + channel) * shape->inner;
}

static bool is_shape(const tutti_batch_norm *bn, const tutti_batch_shape *shape)
{
    return shape != NULL && shape->channels == bn->channels && shape->outer >= 0 &&
            shape->inner >= 1 &&
            shape->outer <= INT64_MAX / 8 / shape->inner / shape->channels;
}

/* The sum of distances of a channel from a number, or of their squares. */
static double sum_distances(const tutti_batch_shape *shape, const float *x,
        int64_t channel, double from, bool squared)
{
    double sum = 0.0;

    for (int64_t o = 0; o < shape->outer; o++) {
        const float *run = x + place(shape, o, channel);

        for (int64_t i = 0; i < shape->inner; i++) {
            const double distance = run[i] - from;

            sum += squared ? distance * distance : distance;
        }
    }
    return sum;
}

/*
 * bn->own of all ranks. A rank with wrong arguments is an error on all, which names it.
 * @param[out] count  the sum of the first numbers
 */
static tutti_status exchange(tutti_batch_norm *bn, const char *pass, double *count)
{
    tutti_options options;
    int64_t row = 1 + 2 * bn->channels;
    tutti_status status;

    tutti_options_default(&options);
    options.process_set = bn->options.process_set;
    (void)snprintf(
            bn->name + bn->name_bytes, sizeof bn->name - bn->name_bytes, "%s", pass);
    status = group_heard(bn->t,
            tutti_allgather(bn->t, bn->name, bn->own, bn->all, 1, row, NULL,
                    TUTTI_FLOAT64, &options));
    *count = 0.0;
    for (int r = 0; status == TUTTI_OK && r < bn->size; r++) {
        *count += bn->all[r * row];
        if (bn->all[r * row] == fault_count) {
            status = error_set(TUTTI_ERR_INVALID,
                    "%s: rank %d of the set has no tensor, or not one of %lld channels "
                    "as "
                    "it was in the forward pass",
                    bn->name, r, (long long)bn->channels);
        }
    }
    return status;
}

/* The moments of each channel over the ranks, in their order. */
static void take_moments(tutti_batch_norm *bn)
{
    const double share = bn->options.momentum;

    for (int64_t c = 0; c < bn->channels; c++) {
        tutti_moments moments = { .count = 0.0 };
        double unbiased;

        for (int r = 0; r < bn->size; r++) {
            const double *of = bn->all + r * (1 + 2 * bn->channels);
            const tutti_moments part = {
                .count = of[0], .mean = of[1 + c], .m2 = of[1 + bn->channels + c]
            };

            tutti_moments_merge(&moments, &part);
        }
        unbiased = moments.m2 / (moments.count > 1.0 ? moments.count - 1.0 : 1.0);
        bn->mean[c] = moments.mean;
        bn->scale[c] = 1.0 / sqrt(moments.m2 / moments.count + bn->options.epsilon);
        bn->running_mean[c] += share * (moments.mean - bn->running_mean[c]);
        bn->running_variance[c] += share * (unbiased - bn->running_variance[c]);
    }
}

/* NOLINTNEXTLINE(readability-function-size): a loop for each dimension */
static void normalize(const tutti_batch_norm *bn, const float *x, const float *gamma,
        const float *beta, float *y)
{
    for (int64_t o = 0; o < bn->shape.outer; o++) {
        for (int64_t c = 0; c < bn->channels; c++) {
            int64_t at = place(&bn->shape, o, c);
            double scale = bn->scale[c] * (gamma == NULL ? 1.0 : (double)gamma[c]);
            double shift = beta == NULL ? 0.0 : (double)beta[c];

            for (int64_t i = at; i < at + bn->shape.inner; i++) {
                y[i] = (float)((x[i] - bn->mean[c]) * scale + shift);
            }
        }
    }
}

tutti_status tutti_batch_norm_forward(tutti_batch_norm *bn,
        const tutti_batch_shape *shape, const float *x, const float *gamma,
        const float *beta, float *y)
{
    tutti_status status;
    bool is_good;

    if (bn == NULL) {
        return error_set(TUTTI_ERR_INVALID, "no normalization is given");
    }
    is_good = is_shape(bn, shape) && (shape->outer == 0 || (x != NULL && y != NULL));
    memset(bn->own, 0, (1 + 2 * (size_t)bn->channels) * sizeof *bn->own);
    bn->own[0] = is_good ? (double)shape->outer * (double)shape->inner : fault_count;
    for (int64_t c = 0; is_good && bn->own[0] > 0.0 && c < bn->channels; c++) {
        const double mean = sum_distances(shape, x, c, 0.0, false) / bn->own[0];

        bn->own[1 + c] = mean;
        bn->own[1 + bn->channels + c] = sum_distances(shape, x, c, mean, true);
    }
    bn->shape.outer = -1;
    status = exchange(bn, ".moments", &bn->count);
    if (status == TUTTI_OK && bn->count == 0.0) {
        status = error_set(
                TUTTI_ERR_INVALID, "%s: the batches of all ranks are empty", bn->name);
    }
    if (status != TUTTI_OK) {
        return status;
    }
    bn->shape = *shape;
    take_moments(bn);
    normalize(bn, x, gamma, beta, y);
    return TUTTI_OK;
}

/* The sums of dy and of dy times the normalized x, of this rank's batch. */
/* NOLINTNEXTLINE(readability-function-size): a loop for each dimension */
static void sum_gradients(tutti_batch_norm *bn, const float *x, const float *dy)
{
    for (int64_t c = 0; c < bn->channels; c++) {
        double sum = 0.0;
        double product = 0.0;

        for (int64_t o = 0; o < bn->shape.outer; o++) {
            int64_t at = place(&bn->shape, o, c);

            for (int64_t i = at; i < at + bn->shape.inner; i++) {
                sum += dy[i];
                product += dy[i] * ((x[i] - bn->mean[c]) * bn->scale[c]);
            }
        }
        bn->own[1 + c] = sum;
        bn->own[1 + bn->channels + c] = product;
    }
}

/* With the means over all ranks of dy and of its product with the normalized x. */
/* NOLINTNEXTLINE(readability-function-size): a loop for each dimension */
static void propagate(const tutti_batch_norm *bn, const float *x, const float *dy,
        const float *gamma, float *dx)
{
    int64_t row = 1 + 2 * bn->channels;

    for (int64_t c = 0; c < bn->channels; c++) {
        double sum = 0.0;
        double product = 0.0;
        double scale = bn->scale[c] * (gamma == NULL ? 1.0 : (double)gamma[c]);

        for (int r = 0; r < bn->size; r++) {
            sum += bn->all[r * row + 1 + c];
            product += bn->all[r * row + 1 + bn->channels + c];
        }
        for (int64_t o = 0; o < bn->shape.outer; o++) {
            int64_t at = place(&bn->shape, o, c);

            for (int64_t i = at; i < at + bn->shape.inner; i++) {
                double normal = (x[i] - bn->mean[c]) * bn->scale[c];

                dx[i] = (float)(scale *
                        (dy[i] - sum / bn->count - normal * (product / bn->count)));
            }
        }
    }
}

tutti_status tutti_batch_norm_backward(tutti_batch_norm *bn,
        const tutti_batch_shape *shape, const float *x, const float *dy,
        const float *gamma, float *dx, float *dgamma, float *dbeta)
{
    tutti_status status;
    bool is_good;
    double nothing;

    if (bn == NULL) {
        return error_set(TUTTI_ERR_INVALID, "no normalization is given");
    }
    is_good = bn->shape.outer >= 0 && is_shape(bn, shape) &&
            shape->outer == bn->shape.outer && shape->inner == bn->shape.inner &&
            (shape->outer == 0 || (x != NULL && dy != NULL && dx != NULL));
    bn->own[0] = is_good ? 0.0 : fault_count;
    if (is_good) {
        sum_gradients(bn, x, dy);
    }
    status = exchange(bn, ".gradients", &nothing);
    if (status != TUTTI_OK) {
        return status;
    }
    propagate(bn, x, dy, gamma, dx);
    for (int64_t c = 0; c < bn->channels; c++) {
        if (dbeta != NULL) {
            dbeta[c] = (float)bn->own[1 + c];
        }
        if (dgamma != NULL) {
            dgamma[c] = (float)bn->own[1 + bn->channels + c];
        }
    }
    return TUTTI_OK;
}

void tutti_batch_norm_running(tutti_batch_norm *bn, double **mean, double **variance)
{
    *mean = bn->running_mean;
    *variance = bn->running_variance;
}
