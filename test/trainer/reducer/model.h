/*
 * Gradients whose averages are known exactly: small integers that differ between ranks, steps,
 * parameters and elements.
 */
#ifndef TUTTI_TEST_TRAINER_REDUCER_MODEL_H
#define TUTTI_TEST_TRAINER_REDUCER_MODEL_H

#include <stdint.h>

#include <tutti/trainer/reducer.h>

enum {
    MODEL_PARAMS = 4
};

static const int64_t model_counts[MODEL_PARAMS] = { 1, 1000, 7, 4099 };
static const char *const model_names[MODEL_PARAMS] = { "scale", "weights", "bias",
    "embedding" };

static inline void model_params(tutti_param *params)
{
    for (int i = 0; i < MODEL_PARAMS; i++) {
        params[i] = (tutti_param){
            .name = model_names[i], .count = model_counts[i], .dtype = TUTTI_FLOAT32
        };
    }
}

/* A multiple of the number of ranks for each rank, so that averages are integers. */
static inline float model_gradient(
        int ranks, int rank, int64_t step, int param, int64_t i)
{
    return (float)(ranks * ((rank + 1) * (param + 1) + (step + i) % 5));
}

static inline float model_average(int ranks, int64_t step, int param, int64_t i)
{
    float sum = 0;

    for (int r = 0; r < ranks; r++) {
        sum += model_gradient(ranks, r, step, param, i);
    }
    return sum / (float)ranks;
}

static inline void model_fill(tutti_reducer *reducer, int ranks, int rank, int param)
{
    float *gradient = tutti_reducer_gradient(reducer, (size_t)param);

    for (int64_t i = 0; i < model_counts[param]; i++) {
        gradient[i] =
                model_gradient(ranks, rank, tutti_reducer_step(reducer), param, i);
    }
}

/* The number of elements of a step that are not `factor` times the average. */
static inline int model_wrong(
        tutti_reducer *reducer, int ranks, int64_t step, int param, float factor)
{
    const float *gradient = tutti_reducer_gradient(reducer, (size_t)param);
    int wrong = 0;

    for (int64_t i = 0; i < model_counts[param]; i++) {
        wrong += gradient[i] == factor * model_average(ranks, step, param, i) ? 0 : 1;
    }
    return wrong;
}

static inline int model_all_wrong(tutti_reducer *reducer, int ranks, int64_t step)
{
    int wrong = 0;

    for (int p = 0; p < MODEL_PARAMS; p++) {
        wrong += model_wrong(reducer, ranks, step, p, 1);
    }
    return wrong;
}

#endif
