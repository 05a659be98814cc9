/*
 * Top-k, sign and PowerSGD against slow, obvious versions that compute all ranks.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <tutti/trainer.h>

#include "gradients.h"
#include "ranks.h"
#include "test/unit/unit.h"

enum {
    RANKS = 3,
    STEPS = 4,
    RANK = 2, /* of PowerSGD */
    ROWS = 48,
    COLUMNS = 41,
    COUNT = ROWS * COLUMNS
};

static const double ratio = 0.07;

/** What all ranks have left out, and the mean of a step. */
struct reference {
    float residual[RANKS][COUNT];
    float sum[RANKS][COUNT]; /* gradient and residual */
    double mean[COUNT];
    double q[RANK][COLUMNS];
};

typedef void (*reference_step)(struct reference *reference);

static const float *sorted; /* by magnitude; of the main thread */

static int larger_first(const void *a, const void *b)
{
    int i = *(const int *)a;
    int j = *(const int *)b;
    float x = fabsf(sorted[i]);
    float y = fabsf(sorted[j]);

    return x != y ? (x < y) - (x > y) : (i > j) - (i < j);
}

static void top_k(struct reference *reference)
{
    for (int r = 0; r < RANKS; r++) {
        int order[COUNT];

        for (int i = 0; i < COUNT; i++) {
            order[i] = i;
        }
        sorted = reference->sum[r];
        qsort(order, COUNT, sizeof order[0], larger_first);
        memcpy(reference->residual[r], reference->sum[r], sizeof reference->sum[r]);
        for (int k = 0; k < (int)ceil(ratio * COUNT); k++) {
            reference->mean[order[k]] += reference->sum[r][order[k]] / RANKS;
            reference->residual[r][order[k]] = 0.0F;
        }
    }
}

static void sign(struct reference *reference)
{
    for (int r = 0; r < RANKS; r++) {
        double scale = 0.0;

        for (int i = 0; i < COUNT; i++) {
            scale += fabs((double)reference->sum[r][i]) / COUNT;
        }
        for (int i = 0; i < COUNT; i++) {
            float sent = (float)(reference->sum[r][i] < 0.0F ? -scale : scale);

            reference->mean[i] += sent / RANKS;
            reference->residual[r][i] = reference->sum[r][i] - sent;
        }
    }
}

/** P = mean of M Q, orthonormal. */
static void make_p(const struct reference *reference, double (*p)[ROWS])
{
    for (int c = 0; c < RANK; c++) {
        double length = 0.0;

        for (int i = 0; i < ROWS; i++) {
            p[c][i] = 0.0;
            for (int r = 0; r < RANKS; r++) {
                for (int j = 0; j < COLUMNS; j++) {
                    p[c][i] += reference->sum[r][i * COLUMNS + j] * reference->q[c][j] /
                            RANKS;
                }
            }
        }
        for (int b = 0; b < c; b++) {
            double dot = 0.0;

            for (int i = 0; i < ROWS; i++) {
                dot += p[c][i] * p[b][i];
            }
            for (int i = 0; i < ROWS; i++) {
                p[c][i] -= dot * p[b][i];
            }
        }
        for (int i = 0; i < ROWS; i++) {
            length += p[c][i] * p[c][i];
        }
        for (int i = 0; i < ROWS; i++) {
            p[c][i] /= sqrt(length);
        }
    }
}

static void power_sgd(struct reference *reference)
{
    double p[RANK][ROWS];

    make_p(reference, p);
    memset(reference->q, 0, sizeof reference->q);
    memcpy(reference->residual, reference->sum, sizeof reference->sum);
    for (int r = 0; r < RANKS; r++) {
        for (int c = 0; c < RANK; c++) {
            for (int j = 0; j < COLUMNS; j++) {
                double of_rank = 0.0;

                for (int i = 0; i < ROWS; i++) {
                    of_rank += reference->sum[r][i * COLUMNS + j] * p[c][i];
                }
                reference->q[c][j] += of_rank / RANKS;
                for (int i = 0; i < ROWS; i++) {
                    reference->residual[r][i * COLUMNS + j] -=
                            (float)(p[c][i] * of_rank);
                    reference->mean[i * COLUMNS + j] += p[c][i] * of_rank / RANKS;
                }
            }
        }
    }
}

struct test_case {
    const tutti_compressor *compressor;
    float (*results)[COUNT]; /* [STEPS], of rank 0 */
    float q[RANK * COLUMNS]; /* where PowerSGD began */
};

static void run(tutti *t, void *user)
{
    struct test_case *now = user;
    tutti_compression_settings settings = { 0 };
    tutti_compressor compressor = tutti_compressor_with(now->compressor, &settings);
    tutti_param params[PARAMS];
    tutti_reducer *reducer = NULL;
    tutti_state_tensor tensors[2];

    tutti_compression_settings_default(&settings);
    settings.ratio = ratio;
    settings.rank = RANK;
    fill_params(params, &compressor);
    (void)CHECK(tutti_reducer_create(t, &params[3], 1, NULL, &reducer) == TUTTI_OK);
    if (tutti_reducer_tensors(reducer, tensors, 2) == 2 && tutti_rank(t) == 0) {
        memcpy(now->q, tensors[0].data, sizeof now->q);
    }
    for (int s = 0; s < STEPS; s++) {
        float *gradient = tutti_reducer_gradient(reducer, 0);

        for (int i = 0; i < COUNT; i++) {
            gradient[i] = gradient_of(tutti_rank(t), s, 3, i);
        }
        (void)CHECK(tutti_reducer_ready(reducer, 0) == TUTTI_OK);
        (void)CHECK(tutti_reducer_wait(reducer, NULL) == TUTTI_OK);
        if (tutti_rank(t) == 0) {
            memcpy(now->results[s], gradient, sizeof now->results[s]);
        }
    }
    (void)CHECK(tutti_reducer_destroy(reducer) == TUTTI_OK);
}

static void compare(const tutti_compressor *compressor, reference_step step)
{
    struct reference *reference = calloc(1, sizeof *reference);
    struct test_case now = { .compressor = compressor,
        .results = calloc(STEPS, sizeof *now.results) };

    assert_int_equal(ranks_run(RANKS, run, &now), 0);
    for (int i = 0; i < RANK * COLUMNS; i++) {
        reference->q[i / COLUMNS][i % COLUMNS] = now.q[i];
    }
    for (int s = 0; s < STEPS; s++) {
        memset(reference->mean, 0, sizeof reference->mean);
        for (int r = 0; r < RANKS; r++) {
            for (int i = 0; i < COUNT; i++) {
                reference->sum[r][i] =
                        gradient_of(r, s, 3, i) + reference->residual[r][i];
            }
        }
        step(reference);
        for (int i = 0; i < COUNT; i++) {
            assert_true(fabs(now.results[s][i] - reference->mean[i]) < 2e-5);
        }
    }
    free(now.results);
    free(reference);
}

UNIT_TEST(test_top_k)
{
    compare(tutti_compress_top_k(), top_k);
}

UNIT_TEST(test_sign)
{
    compare(tutti_compress_sign(), sign);
}

UNIT_TEST(test_power_sgd)
{
    compare(tutti_compress_power_sgd(), power_sgd);
}
