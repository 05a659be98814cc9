/*
 * PowerSGD: a gradient is a matrix M of n rows and m columns, approximated by P Q^T, where P
 * and Q have r columns. One step of subspace iteration, from the Q of the step before:
 *
 *   stage 0   P = M Q, averaged over the ranks
 *   stage 1   the columns of P made orthonormal; Q = M^T P, averaged over the ranks
 *   stage 2   the result is P Q^T
 *
 * P and Q are stored column by column. Each rank's residual is M less its projection on P, as
 * in algorithm 2 of the paper.
 */
#include <math.h>
#include <string.h>

#include "compression/compressed.h"
#include "state/agree.h"

/** The state of a parameter. */
struct power_sgd {
    struct compressed common;
    int64_t n;
    int64_t m;
    int64_t r;
    float *p; /* [r][n], exchanged in place */
    float *projected; /* [r][m], M^T P of this rank */
    float *mean; /* [r][m], of all ranks */
    float *q; /* [r][m], where the next step starts, equal on all ranks */
    float *row; /* [m], of M */
};

static void prepare(void *state, const tutti_compressor_info *info)
{
    struct power_sgd *power = state;
    struct compressed *c = &power->common;
    int64_t n = info->dims[0];
    int64_t m = info->count / n;
    int64_t r = compressed_min(c->settings.rank, compressed_min(n, m));
    const int64_t dims[2] = { r, m };
    /* numbers from -1 to 1 that depend on the parameter's name alone: equal on all ranks */
    uint64_t random = state_hash(0, info->name, strlen(info->name));

    power->n = n;
    power->m = m;
    power->r = r;
    c->plain = c->plain || info->ndim < 2 || r * (n + m) >= info->count;
    power->q = compressed_tensor(c, "q", dims, 0, r * m);
    power->row = compressed_alloc(c, m * (int64_t)sizeof *power->row);
    power->p = compressed_alloc(c, r * n * (int64_t)sizeof *power->p);
    power->projected = compressed_alloc(c, r * m * (int64_t)sizeof *power->projected);
    power->mean = compressed_alloc(c, r * m * (int64_t)sizeof *power->mean);
    for (int64_t i = 0; power->q != NULL && i < r * m; i++) {
        random = state_hash(random, &i, sizeof i);
        power->q[i] = (float)((double)(random >> 40) * 0x1p-23 - 1.0);
    }
}

static float *row_of(const struct power_sgd *power, const float *gradient, int64_t i)
{
    compressed_add(&power->common, gradient, i * power->m, power->m, power->row);
    return power->row;
}

/** out[j] += factor * column[j] */
static void add_scaled(
        float *restrict out, float factor, const float *restrict column, int64_t n)
{
    for (int64_t j = 0; j < n; j++) {
        out[j] += factor * column[j];
    }
}

/** P = M Q */
static void multiply(struct power_sgd *power, const float *gradient)
{
    for (int64_t i = 0; i < power->n; i++) {
        const float *row = row_of(power, gradient, i);

        for (int64_t c = 0; c < power->r; c++) {
            power->p[c * power->n + i] =
                    (float)elements_dot(row, power->q + c * power->m, power->m);
        }
    }
}

/** projected = M^T P */
static void project(struct power_sgd *power, const float *gradient)
{
    memset(power->projected, 0, (size_t)(power->r * power->m) * sizeof(float));
    for (int64_t i = 0; i < power->n; i++) {
        const float *row = row_of(power, gradient, i);

        for (int64_t c = 0; c < power->r; c++) {
            add_scaled(power->projected + c * power->m, power->p[c * power->n + i], row,
                    power->m);
        }
    }
}

/** Divides a column by its length; one that is not longer than `noise` becomes zero. */
static void normalize(float *column, int64_t n, double noise)
{
    double length = sqrt(elements_dot(column, column, n));

    for (int64_t i = 0; i < n; i++) {
        column[i] = length <= noise ? 0.0F : (float)((double)column[i] / length);
    }
}

/** Makes the columns of P orthonormal (Gram-Schmidt, modified). */
static void orthogonalize(struct power_sgd *power)
{
    for (int64_t c = 0; c < power->r; c++) {
        float *column = power->p + c * power->n;
        double before = sqrt(elements_dot(column, column, power->n));

        for (int64_t b = 0; b < c; b++) {
            const float *other = power->p + b * power->n;

            add_scaled(column, (float)-elements_dot(column, other, power->n), other,
                    power->n);
        }
        /* what is left of a dependent column is rounding */
        normalize(column, power->n, 1e-6 * before);
    }
}

/** out = n elements, from `first` on, of P columns^T */
static void expand(const struct power_sgd *power, const float *columns, int64_t first,
        int64_t n, float *out)
{
    memset(out, 0, (size_t)n * sizeof *out);
    while (n > 0) {
        int64_t row = first / power->m;
        int64_t j = first % power->m;
        int64_t length = compressed_min(n, power->m - j);

        for (int64_t c = 0; c < power->r; c++) {
            add_scaled(out, power->p[c * power->n + row], columns + c * power->m + j,
                    length);
        }
        first += length;
        out += length;
        n -= length;
    }
}

static void power_sgd_sent(
        void *state, int64_t first, int64_t n, const float *sum, float *out)
{
    const struct power_sgd *power = state;

    (void)sum;
    expand(power, power->projected, first, n, out);
}

/** A column that came to nothing would stay so: the old one gets another try. */
static void keep_q(struct power_sgd *power)
{
    for (int64_t c = 0; c < power->r; c++) {
        float *column = power->mean + c * power->m;

        if (elements_dot(column, column, power->m) > 0.0) {
            /* the length does not matter, and is kept within the range of a float */
            normalize(column, power->m, 0.0);
            memcpy(power->q + c * power->m, column, (size_t)power->m * sizeof *column);
        }
    }
}

/** A number that is not finite, of any rank, is in a column of P, and so in the mean. */
static void decode(struct power_sgd *power, float *gradient, tutti_exchange *next)
{
    bool finite =
            isfinite(elements_squares(TUTTI_FLOAT32, power->mean, power->r * power->m));

    compressed_settle(&power->common, gradient, finite, next);
    expand(power, power->mean, 0, power->common.count, gradient);
    if (finite) {
        keep_q(power);
    }
}

static tutti_status power_sgd_stage(
        void *state, int stage, float *gradient, tutti_exchange *next)
{
    struct power_sgd *power = state;

    if (stage == 0) {
        multiply(power, gradient);
        return compressed_ask(next, TUTTI_ALLREDUCE, power->p, power->p,
                power->r * power->n, TUTTI_FLOAT32);
    }
    if (stage == 1) {
        orthogonalize(power);
        project(power, gradient);
        return compressed_ask(next, TUTTI_ALLREDUCE, power->projected, power->mean,
                power->r * power->m, TUTTI_FLOAT32);
    }
    decode(power, gradient, next);
    return TUTTI_OK;
}

static tutti_status power_sgd_open(const tutti_compressor_info *info, void **state)
{
    static const struct codec codec = { .bytes = sizeof(struct power_sgd),
        .prepare = prepare,
        .stage = power_sgd_stage,
        .sent = power_sgd_sent };

    return compressed_open(info, &codec, state);
}

const tutti_compressor *tutti_compress_power_sgd(void)
{
    static const tutti_compressor compressor =
            COMPRESSED_HOOK("PowerSGD", power_sgd_open);

    return &compressor;
}
