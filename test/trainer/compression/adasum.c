/*
 * Adasum against the formula of the paper along the documented tree, and against what Horovod's
 * own tests expect (test/parallel/test_adasum_pytorch.py and test_adasum_tensorflow.py): sizes
 * size * 20 - 17, size * 20 - 13, size * 2 + 1 and size + 2, an error below 100 units in the last
 * place; parallel gradients are averaged, and neither the smallest nor widely different lengths
 * matter.
 */
#include <float.h>
#include <math.h>
#include <string.h>

#include <tutti/trainer.h>

#include "gradients.h"
#include "ranks.h"
#include "test/unit/unit.h"

enum {
    RANKS_MAX = 8,
    COUNT_MAX = 1024
};

struct test_case {
    int64_t count;
    float gradients[RANKS_MAX][COUNT_MAX];
    double expected[COUNT_MAX];
};

static void add(double *a, const double *b, int64_t n)
{
    double aa = 0.0;
    double bb = 0.0;
    double ab = 0.0;

    for (int64_t i = 0; i < n; i++) {
        aa += a[i] * a[i];
        bb += b[i] * b[i];
        ab += a[i] * b[i];
    }
    for (int64_t i = 0; i < n; i++) {
        a[i] = (aa > 0.0 ? 1.0 - ab / (2.0 * aa) : 1.0) * a[i] +
                (bb > 0.0 ? 1.0 - ab / (2.0 * bb) : 1.0) * b[i];
    }
}

/** Ranks first to first + length - 1, split at the largest power of two below length. */
static void reduce(const struct test_case *now, int first, int length, double *out)
{
    double right[COUNT_MAX];
    int split = 1;

    if (length == 1) {
        for (int64_t i = 0; i < now->count; i++) {
            out[i] = now->gradients[first][i];
        }
        return;
    }
    while (2 * split < length) {
        split *= 2;
    }
    reduce(now, first, split, out);
    reduce(now, first + split, length - split, right);
    add(out, right, now->count);
}

static void run(tutti *t, void *user)
{
    const struct test_case *now = user;
    tutti_reducer_options options;
    tutti_param param = { .name = "gradient",
        .gradient = (void *)(uintptr_t)now->gradients[tutti_rank(t)],
        .count = now->count,
        .dtype = TUTTI_FLOAT32 };
    tutti_reducer *reducer = NULL;
    float first[COUNT_MAX];
    double error = 0.0;
    double norm = 0.0;

    tutti_reducer_options_default(&options);
    options.compressor = tutti_compress_adasum();
    (void)CHECK(tutti_reducer_create(t, &param, 1, &options, &reducer) == TUTTI_OK);
    (void)CHECK(tutti_reducer_ready(reducer, 0) == TUTTI_OK);
    (void)CHECK(tutti_reducer_wait(reducer, NULL) == TUTTI_OK);
    memcpy(first, param.gradient, sizeof first);
    (void)CHECK(tutti_broadcast(t, "first", first, now->count, TUTTI_FLOAT32, 0,
                        NULL) == TUTTI_OK);
    (void)CHECK(memcmp(first, param.gradient, (size_t)now->count * sizeof *first) == 0);
    for (int64_t i = 0; i < now->count; i++) {
        error += pow(first[i] - now->expected[i], 2.0);
        norm += pow(now->expected[i], 2.0);
    }
    (void)CHECK(sqrt(error) <= 100.0 * FLT_EPSILON * sqrt(norm));
    (void)CHECK(tutti_reducer_destroy(reducer) == TUTTI_OK);
}

UNIT_TEST(test_the_formula_at_any_number_of_ranks)
{
    for (int ranks = 1; ranks <= RANKS_MAX; ranks++) {
        const int64_t sizes[] = { 1, 4, ranks * 20 - 17, ranks * 20 - 13, ranks * 2 + 1,
            ranks + 2 };

        for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
            struct test_case now = { .count = sizes[s] };

            for (int r = 0; r < ranks; r++) {
                for (int64_t i = 0; i < now.count; i++) {
                    now.gradients[r][i] = 0.6F + gradient_of(r, 0, 0, i);
                }
            }
            reduce(&now, 0, ranks, now.expected);
            assert_int_equal(ranks_run(ranks, run, &now), 0);
        }
    }
}

static void run_parallel(int ranks, const float *lengths)
{
    struct test_case now = { .count = COUNT_MAX };

    for (int i = 0; i < COUNT_MAX; i++) {
        for (int r = 0; r < ranks; r++) {
            now.gradients[r][i] = lengths[r] * gradient_of(0, 0, 0, i);
            now.expected[i] += (double)now.gradients[r][i] / ranks;
        }
    }
    assert_int_equal(ranks_run(ranks, run, &now), 0);
}

/* Means of means are means where ranks are a power of two. */
UNIT_TEST(test_parallel_gradients_are_averaged_whatever_their_lengths)
{
    const float ordinary[] = { 0.3F, -1.7F, 2.2F, 0.01F, 1.0F, 1.0F, -0.5F, 3.0F };
    const float tiny[] = { FLT_MIN, 3 * FLT_MIN, 2 * FLT_MIN, 7 * FLT_MIN };
    const float wide[] = { 1.8e19F, FLT_MIN, 1e-10F, 1.0F, 1e10F, 1e-30F, 1e5F, 1e-5F };

    run_parallel(2, ordinary);
    run_parallel(8, ordinary);
    run_parallel(4, tiny);
    run_parallel(8, wide);
}
