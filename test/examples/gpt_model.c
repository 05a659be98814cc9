/*
 * The transformer of examples/gpt: its gradients are right, and its bits depend neither on the
 * kind of vector instructions, nor on threads, nor on what else is in a batch.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "examples/digits/random.h"
#include "examples/gpt/model.h"
#include "test/unit/unit.h"

enum {
    SEQUENCES = 5,
    CONTEXT = 19, /* nothing is a multiple of a vector */
    VOCABULARY = 37,
    ROWS = SEQUENCES * CONTEXT
};

static const struct model_shape shape = {
    .layers = 2,
    .channels = 36,
    .heads = 3,
    .context = CONTEXT,
    .vocabulary = VOCABULARY,
};

/** A model with memory for gradients, larger values than at the start, and some tokens. */
struct work {
    struct model model;
    float *gradients;
    int tokens[ROWS];
    int targets[ROWS];
};

static struct work *work_create(const char *kernels, bool tied)
{
    struct work *work = calloc(1, sizeof *work);
    struct model_shape of = shape;
    uint64_t state = 7;
    float *gradient;

    assert_non_null(work);
    of.tied = tied;
    assert_true(model_init(&work->model, &of, kernels_find(kernels), SEQUENCES));
    model_randomize(&work->model, 3);
    for (size_t i = 0; i < work->model.value_count; i++) {
        work->model.values[i] += 0.1F * (float)random_signed(&state);
    }
    work->gradients = calloc(work->model.value_count, sizeof *work->gradients);
    assert_non_null(work->gradients);
    gradient = work->gradients;
    for (size_t p = 0; p < work->model.parameter_count; p++) {
        work->model.parameters[p].gradient = gradient;
        gradient += work->model.parameters[p].count;
    }
    for (int row = 0; row < ROWS; row++) {
        work->tokens[row] = (int)(random_bits(&state) % VOCABULARY);
        work->targets[row] = (int)(random_bits(&state) % VOCABULARY);
    }
    return work;
}

static void work_destroy(struct work *work)
{
    model_fini(&work->model);
    free(work->gradients);
    free(work);
}

/** The mean loss of sequences from `first` on. */
static double forward(struct work *work, int first, int sequences)
{
    int rows = sequences * CONTEXT;

    model_prepare(&work->model);
    model_forward(&work->model, work->tokens + first * CONTEXT, sequences);
    return model_loss(
                   &work->model, work->targets + first * CONTEXT, 1.0F / (float)rows) /
            rows;
}

static double forward_backward(struct work *work, int first, int sequences)
{
    double loss = forward(work, first, sequences);
    size_t at;

    for (int group = shape.layers + 1; group >= 0; group--) {
        (void)model_backward(&work->model, group, &at);
    }
    return loss;
}

/**
 * Compares the gradient of a parameter with a difference of losses, along it and a random
 * direction of the same length.
 */
static void check_gradient(struct work *work, const struct parameter *parameter)
{
    const double step = 2e-3;
    uint64_t state = 11;
    double norm = 0.0;
    double expected = 0.0;
    double found;
    float *saved = calloc(2 * parameter->count, sizeof *saved);
    float *along = saved + parameter->count;

    assert_non_null(saved);
    memcpy(saved, parameter->value, parameter->count * sizeof *saved);
    for (size_t i = 0; i < parameter->count; i++) {
        norm += (double)parameter->gradient[i] * (double)parameter->gradient[i];
    }
    norm = sqrt(norm);
    for (size_t i = 0; i < parameter->count; i++) {
        double way = parameter->gradient[i] / norm +
                random_signed(&state) * sqrt(3.0 / (double)parameter->count);

        along[i] = (float)(way * step / (norm + 0.1));
        expected += (double)parameter->gradient[i] * (double)along[i];
        parameter->value[i] = saved[i] + along[i];
    }
    found = forward(work, 0, SEQUENCES);
    for (size_t i = 0; i < parameter->count; i++) {
        parameter->value[i] = saved[i] - along[i];
    }
    found = (found - forward(work, 0, SEQUENCES)) / 2.0;
    memcpy(parameter->value, saved, parameter->count * sizeof *saved);
    free(saved);
    if (!(fabs(found - expected) <= 1e-3 * fabs(expected) + 1e-7)) {
        fail_msg("%s: the loss changes by %.3e, by its gradient of norm %.3e it were "
                 "%.3e",
                parameter->name, found, norm, expected);
    }
}

static void check_gradients(bool tied)
{
    struct work *work = work_create("auto", tied);

    (void)forward_backward(work, 0, SEQUENCES);
    for (size_t p = 0; p < work->model.parameter_count; p++) {
        check_gradient(work, &work->model.parameters[p]);
    }
    work_destroy(work);
}

UNIT_TEST(gradients_are_those_of_the_loss)
{
    check_gradients(true);
    check_gradients(false);
}

UNIT_TEST(all_kernels_give_the_same_bits)
{
    static const char *const names[] = { "avx2", "avx512" };
    struct work *plain = work_create("plain", true);
    double loss = forward_backward(plain, 0, SEQUENCES);

    for (size_t n = 0; n < sizeof names / sizeof names[0]; n++) {
        struct work *work;

        if (kernels_find(names[n]) == NULL) {
            continue; /* this processor does not have them */
        }
        work = work_create(names[n], true);
        assert_true(forward_backward(work, 0, SEQUENCES) == loss);
        assert_memory_equal(work->gradients, plain->gradients,
                plain->model.value_count * sizeof *plain->gradients);
        work_destroy(work);
    }
    work_destroy(plain);
}

UNIT_TEST(a_sequence_does_not_depend_on_the_others)
{
    struct work *work = work_create("auto", true);
    size_t count = (size_t)CONTEXT * VOCABULARY;
    float *whole = calloc(SEQUENCES * count, sizeof *whole);

    assert_non_null(whole);
    model_prepare(&work->model);
    model_forward(&work->model, work->tokens, SEQUENCES);
    memcpy(whole, work->model.logits, SEQUENCES * count * sizeof *whole);
    for (size_t s = 0; s < SEQUENCES; s++) {
        model_forward(&work->model, work->tokens + s * CONTEXT, 1);
        assert_memory_equal(
                work->model.logits, whole + s * count, count * sizeof *whole);
    }
    free(whole);
    work_destroy(work);
}

UNIT_TEST(losses_add_up_exactly_in_any_order)
{
    struct work *work = work_create("auto", true);
    double upwards = 0.0;
    double downwards = 0.0;

    (void)forward(work, 0, SEQUENCES);
    for (int row = 0; row < ROWS; row++) {
        upwards += work->model.losses[row] * 3.0;
        downwards += work->model.losses[ROWS - 1 - row];
    }
    assert_true(upwards == downwards * 3.0);
    work_destroy(work);
}
