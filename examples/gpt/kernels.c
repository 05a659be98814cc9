#include "kernels.h"

#include <float.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

/* The build gives the name (kernels_avx2), its text and the lanes of a vector. */
#if FLT_EVAL_METHOD != 0
#    error "float must be computed as float: build for SSE or another unit without wider registers"
#endif

enum {
    LANES = GPT_LANES,
    TILE_ROWS = 4,
    TILE_VECTORS = 2
};

/** Work below which starting threads costs more than it saves, in products. */
static const size_t threads_from = 1 << 18;

/** A vector at any address. */
typedef float lanes __attribute__((
        vector_size(LANES * sizeof(float)), aligned(sizeof(float)), may_alias));

/** Always inlined with constant `rows` and `vectors`, so the sums stay in registers. */
/* NOLINTNEXTLINE(readability-function-size): rows, columns, terms, lanes */
static inline __attribute__((always_inline)) void multiply_tile(
        const struct product *p, size_t row, size_t column, size_t rows, size_t vectors)
{
    const float *a = p->a + row * p->a_row;
    const float *b = p->b + column;
    lanes sum[TILE_ROWS][TILE_VECTORS] = { 0 };

    for (size_t r = 0; r < rows && p->bias != NULL; r++) {
        for (size_t v = 0; v < vectors; v++) {
            sum[r][v] = *(const lanes *)(p->bias + column + v * LANES);
        }
    }
    for (size_t d = 0; d < p->depth; d++) {
        for (size_t r = 0; r < rows; r++) {
            for (size_t v = 0; v < vectors; v++) {
                sum[r][v] += a[r * p->a_row + d * p->a_depth] *
                        *(const lanes *)(b + d * p->b_depth + v * LANES);
            }
        }
    }
    for (size_t r = 0; r < rows; r++) {
        for (size_t v = 0; v < vectors; v++) {
            *(lanes *)(p->out + (row + r) * p->out_row + column + v * LANES) =
                    sum[r][v];
        }
    }
}

/** Results that no vector fits into: the same sums, one by one. */
/* NOLINTNEXTLINE(readability-function-size): rows, columns, terms, lanes */
static void multiply_narrow(const struct product *p, size_t row, size_t rows)
{
    for (size_t r = row; r < row + rows; r++) {
        for (size_t c = 0; c < p->columns; c++) {
            float sum = p->bias != NULL ? p->bias[c] : 0.0F;

            for (size_t d = 0; d < p->depth; d++) {
                sum += p->a[r * p->a_row + d * p->a_depth] * p->b[d * p->b_depth + c];
            }
            p->out[r * p->out_row + c] = sum;
        }
    }
}

static inline __attribute__((always_inline)) void multiply_rows(
        const struct product *p, size_t row, size_t rows)
{
    enum {
        WIDE = TILE_VECTORS * LANES
    };
    size_t column = 0;

    for (; column + WIDE <= p->columns; column += WIDE) {
        multiply_tile(p, row, column, rows, TILE_VECTORS);
    }
    for (; column + LANES <= p->columns; column += LANES) {
        multiply_tile(p, row, column, rows, 1);
    }
    if (column < p->columns && p->columns >= LANES) {
        /* the last vector computes some results once more, to the same values */
        multiply_tile(p, row, p->columns - LANES, rows, 1);
    } else if (column < p->columns) {
        multiply_narrow(p, row, rows);
    }
}

/** One thread's part of a product. */
static void multiply_range(const struct product *p, size_t begin, size_t end)
{
    size_t row = begin;

    for (; row + TILE_ROWS <= end; row += TILE_ROWS) {
        multiply_rows(p, row, TILE_ROWS);
    }
    for (; row < end; row++) {
        multiply_rows(p, row, 1);
    }
}

static void multiply_here(const struct product *p)
{
    multiply_range(p, 0, p->rows);
}

static void multiply(const struct product *p)
{
    const size_t block = (size_t)8 * TILE_ROWS;

#pragma omp parallel for if (p->rows * p->columns * p->depth >= threads_from)
    for (size_t row = 0; row < p->rows; row += block) {
        multiply_range(p, row, row + block < p->rows ? row + block : p->rows);
    }
}

static void transpose(const float *in, size_t rows, size_t columns, float *out)
{
    for (size_t column = 0; column < columns; column++) {
        for (size_t row = 0; row < rows; row++) {
            out[column * rows + row] = in[row * columns + column];
        }
    }
}

static void sum_rows(const float *in, size_t rows, size_t columns, float *out)
{
    memset(out, 0, columns * sizeof *out);
    for (size_t row = 0; row < rows; row++) {
        for (size_t column = 0; column < columns; column++) {
            out[column] += in[row * columns + column];
        }
    }
}

static void add(const float *in, size_t count, float *out)
{
    for (size_t i = 0; i < count; i++) {
        out[i] += in[i];
    }
}

/** Partial sums to their sum, by halves. */
static float sum_partials(float *partial)
{
    for (size_t half = KERNELS_PARTIALS / 2; half > 0; half /= 2) {
        for (size_t i = 0; i < half; i++) {
            partial[i] += partial[i + half];
        }
    }
    return partial[0];
}

/** The sum of a row: term i goes into partial sum i modulo KERNELS_PARTIALS. */
static float sum_row(const float *in, size_t count)
{
    float partial[KERNELS_PARTIALS] = { 0 };
    size_t i = 0;

    for (; i + KERNELS_PARTIALS <= count; i += KERNELS_PARTIALS) {
        for (size_t l = 0; l < KERNELS_PARTIALS; l++) {
            partial[l] += in[i + l];
        }
    }
    for (size_t l = 0; i + l < count; l++) {
        partial[l] += in[i + l];
    }
    return sum_partials(partial);
}

/** The sum of the products of two rows, likewise. */
static float dot_rows(const float *a, const float *b, size_t count)
{
    float partial[KERNELS_PARTIALS] = { 0 };
    size_t i = 0;

    for (; i + KERNELS_PARTIALS <= count; i += KERNELS_PARTIALS) {
        for (size_t l = 0; l < KERNELS_PARTIALS; l++) {
            partial[l] += a[i + l] * b[i + l];
        }
    }
    for (size_t l = 0; i + l < count; l++) {
        partial[l] += a[i + l] * b[i + l];
    }
    return sum_partials(partial);
}

/** e^x to 2 units in the last place, by Cephes' polynomial; x is cut to [-87, 88]. */
static inline float exp_of(float x)
{
    const float round = 0x1.8p23F; /* added and taken away: the nearest whole number */
    union {
        float number;
        uint32_t bits;
    } whole, power;
    float n;
    float sum;

    x = x < -87.0F ? -87.0F : x;
    x = x > 88.0F ? 88.0F : x;
    whole.number = x * 1.44269504F + round;
    n = whole.number - round;
    x = x - n * 0.693359375F; /* log(2) in two parts, the first exact */
    x = x - n * -2.12194440e-4F;
    sum = 1.9875691500e-4F;
    sum = sum * x + 1.3981999507e-3F;
    sum = sum * x + 8.3334519073e-3F;
    sum = sum * x + 4.1665795894e-2F;
    sum = sum * x + 1.6666665459e-1F;
    sum = sum * x + 5.0000001201e-1F;
    sum = sum * x * x + x + 1.0F;
    power.bits = (whole.bits + 127U) << 23; /* the low bits of `whole` are n */
    return sum * power.number;
}

/** log(x) of a positive normal number: of its exponent, and a series for its mantissa. */
static double log_of(float x)
{
    union {
        float number;
        uint32_t bits;
    } mantissa = { .number = x };
    int exponent = (int)(mantissa.bits >> 23) - 127;
    double z;
    double square;
    double sum = 0.0;

    mantissa.bits = (mantissa.bits & 0x7fffffU) | 0x3f800000U; /* [1, 2) */
    if (mantissa.number > 1.41421356F) {
        mantissa.number *= 0.5F;
        exponent++;
    }
    z = ((double)mantissa.number - 1.0) / ((double)mantissa.number + 1.0);
    square = z * z;
    for (int term = 13; term >= 1; term -= 2) {
        sum = sum * square + 1.0 / term;
    }
    return 2.0 * z * sum + exponent * 0.69314718055994530942;
}

static void normalise(const struct normalisation *norm, const float *in, float *out)
{
    size_t columns = norm->columns;
    float share = 1.0F / (float)columns;

#pragma omp parallel for if (norm->rows * columns * 8 >= threads_from)
    for (size_t row = 0; row < norm->rows; row++) {
        const float *from = in + row * columns;
        float *centred = norm->centred + row * columns;
        float mean = sum_row(from, columns) * share;
        float inverse;

        for (size_t c = 0; c < columns; c++) {
            centred[c] = from[c] - mean;
        }
        inverse = 1.0F / sqrtf(dot_rows(centred, centred, columns) * share + 1e-5F);
        for (size_t c = 0; c < columns; c++) {
            centred[c] *= inverse;
            out[row * columns + c] = centred[c] * norm->scale[c] + norm->shift[c];
        }
        norm->inverse[row] = inverse;
    }
}

static void normalise_back(
        const struct normalisation *norm, float *d_out, float *d_scale, float *d_shift)
{
    size_t columns = norm->columns;
    float share = 1.0F / (float)columns;

    sum_rows(d_out, norm->rows, columns, d_shift);
    memset(d_scale, 0, columns * sizeof *d_scale);
    for (size_t row = 0; row < norm->rows; row++) {
        float *d = d_out + row * columns;
        const float *centred = norm->centred + row * columns;
        float mean;
        float slope;

        for (size_t c = 0; c < columns; c++) {
            d_scale[c] += d[c] * centred[c];
            d[c] *= norm->scale[c];
        }
        mean = sum_row(d, columns) * share;
        slope = dot_rows(d, centred, columns) * share;
        for (size_t c = 0; c < columns; c++) {
            d[c] = (d[c] - mean - centred[c] * slope) * norm->inverse[row];
        }
    }
}

/** Softmax of a row in place. @return the sum of the exponentials, relative to `largest` */
static float soften(float *row, size_t count, float *largest)
{
    float most = row[0];
    float sum;

    for (size_t i = 1; i < count; i++) {
        most = row[i] > most ? row[i] : most;
    }
    for (size_t i = 0; i < count; i++) {
        row[i] = exp_of(row[i] - most);
    }
    sum = sum_row(row, count);
    for (size_t i = 0; i < count; i++) {
        row[i] /= sum;
    }
    *largest = most;
    return sum;
}

/** Where the numbers of one head of one sequence lie. */
struct head {
    size_t stride; /* from one position to the next in qkv */
    size_t first; /* of the queries in qkv; keys and values follow at `part` each */
    size_t part;
    size_t out; /* of the result: [positions] at stride / 3 each */
    float *weights; /* [positions][positions] */
    float *square; /* [positions][positions] of scratch */
    float *turned; /* [width][positions] of scratch */
};

static struct head head_at(const struct attention *attention, size_t index)
{
    size_t sequence = index / attention->heads;
    size_t head = index % attention->heads;
    size_t channels = attention->heads * attention->width;
    size_t square = attention->positions * attention->positions;
    size_t row = sequence * attention->positions;

    return (struct head){
        .stride = 3 * channels,
        .first = row * 3 * channels + head * attention->width,
        .part = channels,
        .out = row * channels + head * attention->width,
        .weights = attention->weights + index * square,
        .square = attention->scratch +
                index * attention->positions *
                        (attention->positions + attention->width),
        .turned = attention->scratch +
                index * attention->positions *
                        (attention->positions + attention->width) +
                square,
    };
}

/** turned[width][positions] = in, whose rows are `stride` apart. */
static void turn(const struct attention *attention, const float *in, size_t stride,
        float *turned)
{
    for (size_t c = 0; c < attention->width; c++) {
        for (size_t p = 0; p < attention->positions; p++) {
            turned[c * attention->positions + p] = in[p * stride + c];
        }
    }
}

static void attend_head(
        const struct attention *attention, const struct head *head, float *out)
{
    size_t positions = attention->positions;
    const float *queries = attention->qkv + head->first;
    float scale = 1.0F / sqrtf((float)attention->width);
    float largest;

    turn(attention, queries + head->part, head->stride, head->turned);
    multiply_here(&(struct product){ .rows = positions,
            .columns = positions,
            .depth = attention->width,
            .a = queries,
            .a_row = head->stride,
            .a_depth = 1,
            .b = head->turned,
            .b_depth = positions,
            .out = head->weights,
            .out_row = positions });
    for (size_t p = 0; p < positions; p++) {
        float *row = head->weights + p * positions;

        for (size_t i = 0; i <= p; i++) {
            row[i] *= scale;
        }
        (void)soften(row, p + 1, &largest);
        memset(row + p + 1, 0, (positions - p - 1) * sizeof *row);
    }
    multiply_here(&(struct product){ .rows = positions,
            .columns = attention->width,
            .depth = positions,
            .a = head->weights,
            .a_row = positions,
            .a_depth = 1,
            .b = queries + 2 * head->part,
            .b_depth = head->stride,
            .out = out + head->out,
            .out_row = head->part });
}

static void attend(const struct attention *attention, float *out)
{
    size_t count = attention->sequences * attention->heads;
    size_t work = attention->positions * attention->positions * attention->width;

#pragma omp parallel for if (count * work >= threads_from)
    for (size_t i = 0; i < count; i++) {
        struct head head = head_at(attention, i);

        attend_head(attention, &head, out);
    }
}

/** The gradient of the scores, before the softmax, into head->square. */
static void soften_back(const struct attention *attention, const struct head *head)
{
    size_t positions = attention->positions;
    float scale = 1.0F / sqrtf((float)attention->width);

    for (size_t p = 0; p < positions; p++) {
        const float *weights = head->weights + p * positions;
        float *d = head->square + p * positions;
        float mean = dot_rows(weights, d, p + 1);

        for (size_t i = 0; i < positions; i++) {
            /* the weights of later positions are zero */
            d[i] = weights[i] * (d[i] - mean) * scale;
        }
    }
}

static void attend_head_back(const struct attention *attention, const struct head *head,
        const float *d_out, float *d_qkv)
{
    const float *queries = attention->qkv + head->first;
    const float *keys = queries + head->part;
    const float *d = d_out + head->out;
    float *d_queries = d_qkv + head->first;
    size_t positions = attention->positions;
    struct product product = { .rows = positions,
        .columns = attention->width,
        .depth = positions,
        .out_row = head->stride };

    /* of the values: weights transposed x d */
    product.a = head->weights;
    product.a_row = 1;
    product.a_depth = positions;
    product.b = d;
    product.b_depth = head->part;
    product.out = d_queries + 2 * head->part;
    multiply_here(&product);

    /* of the scores: d x values transposed, then through the softmax */
    turn(attention, keys + head->part, head->stride, head->turned);
    multiply_here(&(struct product){ .rows = positions,
            .columns = positions,
            .depth = attention->width,
            .a = d,
            .a_row = head->part,
            .a_depth = 1,
            .b = head->turned,
            .b_depth = positions,
            .out = head->square,
            .out_row = positions });
    soften_back(attention, head);

    /* of the keys: d of the scores transposed x queries; of the queries: it x keys */
    product.a = head->square;
    product.b = queries;
    product.b_depth = head->stride;
    product.out = d_queries + head->part;
    multiply_here(&product);
    product.a_row = positions;
    product.a_depth = 1;
    product.b = keys;
    product.out = d_queries;
    multiply_here(&product);
}

static void attend_back(
        const struct attention *attention, const float *d_out, float *d_qkv)
{
    size_t count = attention->sequences * attention->heads;
    size_t work = attention->positions * attention->positions * attention->width;

#pragma omp parallel for if (count * work >= threads_from)
    for (size_t i = 0; i < count; i++) {
        struct head head = head_at(attention, i);

        attend_head_back(attention, &head, d_out, d_qkv);
    }
}

/** (1 + tanh(u)) / 2 is the logistic function of 2 u, so GELU needs no tanh. */
static inline float gate_of(float x)
{
    float u = 0.797884561F * (x + 0.044715F * x * x * x);

    return 1.0F / (1.0F + exp_of(-2.0F * u));
}

static void gelu(const float *in, size_t count, float *out)
{
#pragma omp parallel for if (count * 32 >= threads_from)
    for (size_t i = 0; i < count; i++) {
        out[i] = in[i] * gate_of(in[i]);
    }
}

static void gelu_back(const float *in, size_t count, float *d)
{
#pragma omp parallel for if (count * 32 >= threads_from)
    for (size_t i = 0; i < count; i++) {
        float x = in[i];
        float gate = gate_of(x);
        float slope = 0.797884561F * (1.0F + 3.0F * 0.044715F * x * x);

        d[i] *= gate + 2.0F * x * gate * (1.0F - gate) * slope;
    }
}

static void entropy(float *logits, const int *targets, size_t rows, size_t columns,
        float scale, double *losses)
{
#pragma omp parallel for if (rows * columns * 32 >= threads_from)
    for (size_t row = 0; row < rows; row++) {
        float *of = logits + row * columns;
        size_t target = (size_t)targets[row];
        float right = of[target];
        float largest;
        double loss = log_of(soften(of, columns, &largest));

        loss += (double)largest - (double)right;
        /* a loss that is not finite is left as it is */
        losses[row] =
                fabs(loss) < 1e6 ? (double)(int64_t)(loss * 0x1p24) * 0x1p-24 : loss;
        of[target] -= 1.0F;
        for (size_t c = 0; c < columns; c++) {
            of[c] *= scale;
        }
    }
}

const struct kernels GPT_KERNELS = {
    .name = GPT_KERNELS_NAME,
    .multiply = multiply,
    .transpose = transpose,
    .sum_rows = sum_rows,
    .add = add,
    .normalise = normalise,
    .normalise_back = normalise_back,
    .attend = attend,
    .attend_back = attend_back,
    .gelu = gelu,
    .gelu_back = gelu_back,
    .entropy = entropy,
};
