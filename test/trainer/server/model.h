/*
 * A small model for the tests of parameter servers: three parameters, of which servers divide
 * the last, and gradients that depend on worker, step and element.
 */
#ifndef TUTTI_TEST_TRAINER_SERVER_MODEL_H
#define TUTTI_TEST_TRAINER_SERVER_MODEL_H

#include <string.h>

#include <tutti/trainer/server.h>

enum {
    MODEL_A = 1000,
    MODEL_B = 7,
    MODEL_C = 5003,
    MODEL_PARAMS = 3
};

struct model {
    float a[MODEL_A], a_gradient[MODEL_A];
    double b[MODEL_B], b_gradient[MODEL_B];
    float c[MODEL_C], c_gradient[MODEL_C];
    tutti_param params[MODEL_PARAMS];
};

static inline void model_init(struct model *model, float start)
{
    memset(model, 0, sizeof *model);
    model->params[0] = (tutti_param){ .name = "a",
        .value = model->a,
        .gradient = model->a_gradient,
        .count = MODEL_A,
        .dtype = TUTTI_FLOAT32 };
    model->params[1] = (tutti_param){ .name = "b",
        .value = model->b,
        .gradient = model->b_gradient,
        .count = MODEL_B,
        .dtype = TUTTI_FLOAT64 };
    model->params[2] = (tutti_param){ .name = "c",
        .value = model->c,
        .gradient = model->c_gradient,
        .count = MODEL_C,
        .dtype = TUTTI_FLOAT32 };
    for (int i = 0; i < MODEL_C; i++) {
        model->a[i % MODEL_A] = start + (float)(i % 17);
        model->b[i % MODEL_B] = start / 3.0 + i % 5;
        model->c[i] = start - (float)(i % 29);
    }
}

/* Values whose sums are rounded, so that their order shows. */
static inline float model_gradient(int worker, int step, int i)
{
    return (float)(1 + i % 11) * 0.1F + (float)(worker * worker) * 3.7F +
            (float)step * 0.013F;
}

static inline void model_backward(struct model *model, int worker, int step)
{
    for (int i = 0; i < MODEL_C; i++) {
        float gradient = model_gradient(worker, step, i);

        model->c_gradient[i] = gradient;
        if (i < MODEL_A) {
            model->a_gradient[i] = -gradient;
        }
        if (i < MODEL_B) {
            model->b_gradient[i] = gradient * 1.3;
        }
    }
}

static inline bool model_equals(const struct model *x, const struct model *y)
{
    return memcmp(x->a, y->a, sizeof x->a) == 0 &&
            memcmp(x->b, y->b, sizeof x->b) == 0 &&
            memcmp(x->c, y->c, sizeof x->c) == 0;
}

#endif
