/*
 * Batch normalization over ranks equals that of one rank with the whole batch; sparse
 * gradients equal the dense sum, with equal bits on all ranks.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <tutti/trainer/layers.h>

#include "ranks.h"
#include "test/unit/unit.h"

enum {
    RANKS = 3,
    CHANNELS = 5,
    INNER = 4,
    IMAGES = 6, /* of all ranks: 0 on rank 0, 4 on rank 1, 2 on rank 2 */
    NUMBERS = IMAGES * CHANNELS * INNER
};

static const int first_image[RANKS + 1] = { 0, 0, 4, 6 };

/* A whole batch and what one rank makes of it. */
struct whole {
    bool last; /* channels are last: NHWC */
    float x[NUMBERS], dy[NUMBERS], y[NUMBERS], dx[NUMBERS];
    float gamma[CHANNELS], beta[CHANNELS], dgamma[CHANNELS], dbeta[CHANNELS];
    double variance[CHANNELS]; /* running, after one batch */
    double sums[RANKS][2 * CHANNELS]; /* dgamma, dbeta of the ranks */
};

static int place(const struct whole *whole, int image, int c, int i)
{
    return whole->last ? (image * INNER + i) * CHANNELS + c
                       : (image * CHANNELS + c) * INNER + i;
}

/* By the formulas as they are in the paper, in double. */
static void reference(struct whole *whole, int c)
{
    const double n = IMAGES * INNER;
    double mean = 0, variance = 0, sum = 0, product = 0, scale;

    for (int k = 0; k < IMAGES * INNER; k++) {
        mean += whole->x[place(whole, k / INNER, c, k % INNER)] / n;
    }
    for (int k = 0; k < IMAGES * INNER; k++) {
        double distance = whole->x[place(whole, k / INNER, c, k % INNER)] - mean;

        variance += distance * distance / n;
    }
    scale = 1 / sqrt(variance + 1e-5);
    for (int k = 0; k < IMAGES * INNER; k++) {
        int at = place(whole, k / INNER, c, k % INNER);

        sum += whole->dy[at];
        product += whole->dy[at] * (whole->x[at] - mean) * scale;
        whole->y[at] = (float)((whole->x[at] - mean) * scale * whole->gamma[c] +
                whole->beta[c]);
    }
    for (int k = 0; k < IMAGES * INNER; k++) {
        int at = place(whole, k / INNER, c, k % INNER);
        double normal = (whole->x[at] - mean) * scale;

        whole->dx[at] = (float)(whole->gamma[c] * scale *
                (whole->dy[at] - sum / n - normal * product / n));
    }
    whole->dgamma[c] = (float)product;
    whole->dbeta[c] = (float)sum;
    whole->variance[c] = 0.9 + 0.1 * variance * n / (n - 1);
}

static bool is_near(const float *a, const float *b, int n)
{
    for (int i = 0; i < n; i++) {
        if (fabsf(a[i] - b[i]) > 2e-5F * (1 + fabsf(b[i]))) {
            return false;
        }
    }
    return true;
}

static void run_norm(tutti *t, void *user)
{
    struct whole *whole = user;
    int images = first_image[tutti_rank(t) + 1] - first_image[tutti_rank(t)];
    int at = first_image[tutti_rank(t)] * CHANNELS * INNER;
    int count = images * CHANNELS * INNER;
    tutti_batch_shape shape = { .outer = whole->last ? images * INNER : images,
        .channels = CHANNELS,
        .inner = whole->last ? 1 : INNER };
    float y[NUMBERS + 1], dx[NUMBERS + 1], dgamma[CHANNELS], dbeta[CHANNELS];
    double *mean, *variance;
    tutti_batch_norm *bn;

    CHECK(tutti_batch_norm_create(t, tutti_rank(t) == 1 ? "b1" : "bn", CHANNELS, NULL,
                  &bn) == TUTTI_ERR_MISMATCH);
    CHECK(strstr(tutti_last_error(), "rank 0 gave \"bn\", rank 1 gave \"b1\"") != NULL);
    if (!CHECK(tutti_batch_norm_create(t, "bn", CHANNELS, NULL, &bn) == TUTTI_OK)) {
        return;
    }
    /* A backward pass without a forward pass, on all ranks. */
    CHECK(tutti_batch_norm_backward(bn, &shape, whole->x, whole->dy, NULL, dx, NULL,
                  NULL) == TUTTI_ERR_INVALID);
    CHECK(tutti_batch_norm_forward(
                  bn, &shape, whole->x + at, whole->gamma, whole->beta, y) == TUTTI_OK);
    CHECK(is_near(y, whole->y + at, count));
    CHECK(tutti_batch_norm_backward(bn, &shape, whole->x + at, whole->dy + at,
                  whole->gamma, dx, dgamma, dbeta) == TUTTI_OK);
    CHECK(is_near(dx, whole->dx + at, count));
    for (int c = 0; c < CHANNELS; c++) {
        whole->sums[tutti_rank(t)][c] = dgamma[c];
        whole->sums[tutti_rank(t)][CHANNELS + c] = dbeta[c];
    }
    tutti_batch_norm_running(bn, &mean, &variance);
    for (int c = 0; c < CHANNELS; c++) {
        CHECK(fabs(variance[c] - whole->variance[c]) < 1e-6 * whole->variance[c]);
    }
    /* The same batch again, in the hands of other ranks: nothing is left of the first. */
    at = first_image[RANKS - 1 - tutti_rank(t)] * CHANNELS * INNER;
    shape.outer =
            first_image[RANKS - tutti_rank(t)] - first_image[RANKS - 1 - tutti_rank(t)];
    count = (int)shape.outer * CHANNELS * INNER;
    shape.outer *= whole->last ? INNER : 1;
    CHECK(tutti_batch_norm_forward(
                  bn, &shape, whole->x + at, whole->gamma, whole->beta, y) == TUTTI_OK);
    CHECK(is_near(y, whole->y + at, count));
    shape.channels -= tutti_rank(t) == 1 ? 1 : 0;
    CHECK(tutti_batch_norm_forward(bn, &shape, whole->x, NULL, NULL, y) ==
            TUTTI_ERR_INVALID);
    CHECK(strstr(tutti_last_error(), "rank 1") != NULL);
    tutti_batch_norm_destroy(bn);
}

static void check_norm(bool last)
{
    static struct whole whole;

    memset(&whole, 0, sizeof whole);
    whole.last = last;
    for (int i = 0; i < NUMBERS; i++) {
        whole.x[i] =
                1000.0F + (float)(i * 7 % 23) * 0.25F; /* small variance, large mean */
        whole.dy[i] = (float)(i * 5 % 17) - 6.5F;
    }
    for (int c = 0; c < CHANNELS; c++) {
        whole.gamma[c] = 1.0F + (float)c;
        whole.beta[c] = (float)c - 2.0F;
    }
    for (int c = 0; c < CHANNELS; c++) {
        reference(&whole, c);
    }
    assert_int_equal(ranks_run(RANKS, run_norm, &whole), 0);
    for (int c = 0; c < CHANNELS; c++) {
        float gamma = 0, beta = 0;

        for (int r = 0; r < RANKS; r++) {
            gamma += (float)whole.sums[r][c];
            beta += (float)whole.sums[r][CHANNELS + c];
        }
        assert_true(is_near(&gamma, &whole.dgamma[c], 1));
        assert_true(is_near(&beta, &whole.dbeta[c], 1));
    }
}

UNIT_TEST(test_unequal_batches_are_normalized_as_one_nchw)
{
    check_norm(false);
}

UNIT_TEST(test_unequal_batches_are_normalized_as_one_nhwc)
{
    check_norm(true);
}

/* Rank r looks up 4 * r rows, some of them several times. */
enum {
    LOOKERS = 4, /* three of which have rows, so that the order of sums shows */
    WIDTH = 3,
    TABLE = 10
};

struct lookup {
    int64_t count[LOOKERS];
    float rows[LOOKERS][TABLE * WIDTH];
};

static float gradient_of(int rank, int i, int j)
{
    return 0.1F * (float)(rank * rank + 1) + 1.7F * (float)i - 0.3F * (float)j;
}

static void run_sparse(tutti *t, void *user)
{
    struct lookup *lookup = user;
    int rank = tutti_rank(t);
    int64_t n = 4 * rank, ids[4 * LOOKERS + 1] = { 0 };
    float gradients[4 * LOOKERS * WIDTH + 1], table[TABLE * WIDTH] = { 0 };
    float expected[TABLE * WIDTH] = { 0 };
    tutti_sparse mine, merged;

    for (int i = 0; i < n; i++) {
        ids[i] = (i * 7 + rank) % 4 * 2;
        for (int j = 0; j < WIDTH; j++) {
            gradients[i * WIDTH + j] = gradient_of(rank, i, j);
        }
    }
    CHECK(tutti_embedding_gradient(ids, gradients, n, WIDTH, &mine) == TUTTI_OK);
    CHECK(tutti_sparse_reduce(t, "table", &mine, TUTTI_SUM, NULL, &merged) == TUTTI_OK);
    for (int64_t i = 1; i < merged.count; i++) {
        CHECK(merged.indices[i] > merged.indices[i - 1]);
    }
    CHECK(tutti_sparse_apply(&merged, table, TABLE, -1.0) == TUTTI_OK);
    CHECK(tutti_sparse_apply(&merged, table, 3, 1.0) == TUTTI_ERR_INVALID);
    for (int r = 0; r < LOOKERS; r++) {
        float part[TABLE * WIDTH] = { 0 };

        for (int i = 0; i < 4 * r; i++) {
            for (int j = 0; j < WIDTH; j++) {
                part[(i * 7 + r) % 4 * 2 * WIDTH + j] += gradient_of(r, i, j);
            }
        }
        for (int k = 0; k < TABLE * WIDTH; k++) {
            expected[k] += part[k];
        }
    }
    CHECK(memcmp(table, expected, sizeof table) == 0);
    lookup->count[rank] = merged.count;
    memcpy(lookup->rows[rank], merged.rows,
            (size_t)(merged.count * WIDTH) * sizeof *merged.rows);
    tutti_sparse_free(&merged);
    CHECK(tutti_sparse_reduce(t, "table", &mine, TUTTI_AVERAGE, NULL, &merged) ==
            TUTTI_OK);
    CHECK(merged.rows[0] == lookup->rows[rank][0] / (float)LOOKERS);
    tutti_sparse_free(&merged);
    CHECK(tutti_sparse_reduce(t, "table", &mine, rank == 2 ? TUTTI_AVERAGE : TUTTI_SUM,
                  NULL, &merged) == TUTTI_ERR_MISMATCH);
    CHECK(strstr(tutti_last_error(), "op: rank 0 gave \"sum\", rank 2 gave") != NULL);
    if (rank == 2) {
        mine.indices[0] = -5;
    }
    CHECK(tutti_sparse_reduce(t, "table", &mine, TUTTI_SUM, NULL, &merged) ==
            TUTTI_ERR_INVALID);
    CHECK(strstr(tutti_last_error(), "rank 2") != NULL);
    tutti_sparse_free(&mine);
}

UNIT_TEST(test_sparse_gradients_are_the_dense_sum_on_all_ranks)
{
    static struct lookup lookup;

    assert_int_equal(ranks_run(LOOKERS, run_sparse, &lookup), 0);
    for (int r = 1; r < LOOKERS; r++) {
        assert_int_equal(lookup.count[r], lookup.count[0]);
        assert_memory_equal(lookup.rows[r], lookup.rows[0], sizeof lookup.rows[0]);
    }
}
