/*
 * The cost of a batch: least squares over the fastest batch of each class of lengths.
 */
#include "agree/cost.h"

/* Batches that are enough for an estimate. */
#define SAMPLES_MIN 8
/* The longest must be so many times as long as the shortest to tell beta from alpha. */
#define SPREAD_MIN 8
/* A measurement is not believed further from the assumption than this. */
#define DOUBT 8

static const struct cost within_node = { .alpha_ns = 20e3, .beta_ns = 0.1 };
static const struct cost between_nodes = { .alpha_ns = 50e3, .beta_ns = 1 };

/** Weighted sums over the classes. A weight is 1 / t^2: errors count as shares of t. */
struct sums {
    double w, n, t, nn, nt;
    size_t shortest, longest;
};

void cost_init(struct cost_model *model, const struct cost *given, bool spans_nodes)
{
    *model = (struct cost_model){ .given = *given,
        .assumed = spans_nodes ? between_nodes : within_node };
}

static int class_of(size_t bytes)
{
    int class = 0;

    while (bytes > 1 && class < COST_CLASSES - 1) {
        bytes /= 2;
        class ++;
    }
    return class;
}

void cost_sample(struct cost_model *model, size_t bytes, int64_t ns)
{
    struct cost_class *class = &model->classes[class_of(bytes)];

    if (ns <= 0) {
        return;
    }
    model->samples++;
    if (class->ns == 0 || ns < class->ns) {
        *class = (struct cost_class){ .bytes = bytes, .ns = ns };
    }
}

static struct sums sum_up(const struct cost_model *model)
{
    struct sums sums = { .shortest = SIZE_MAX };

    for (int c = 0; c < COST_CLASSES; c++) {
        const struct cost_class *class = &model->classes[c];
        const double n = (double)class->bytes;
        const double t = (double)class->ns;

        if (class->ns == 0) {
            continue;
        }
        sums.w += 1 / (t * t);
        sums.n += n / (t * t);
        sums.t += t / (t * t);
        sums.nn += n * n / (t * t);
        sums.nt += n * t / (t * t);
        sums.shortest = class->bytes < sums.shortest ? class->bytes : sums.shortest;
        sums.longest = class->bytes > sums.longest ? class->bytes : sums.longest;
    }
    return sums;
}

/* The slope of the line through the classes, when they are far enough apart. */
static double slope(const struct sums *sums, double assumed)
{
    const double spread = sums->w * sums->nn - sums->n * sums->n;

    if (sums->longest / SPREAD_MIN < sums->shortest || spread <= 0) {
        return assumed;
    }
    return (sums->w * sums->nt - sums->n * sums->t) / spread;
}

static double believe(double measured, double assumed)
{
    if (measured < assumed / DOUBT) {
        return assumed / DOUBT;
    }
    return measured < assumed * DOUBT ? measured : assumed * DOUBT;
}

struct cost cost_estimate(const struct cost_model *model)
{
    struct cost cost = model->assumed;

    if (model->samples >= SAMPLES_MIN) {
        const struct sums sums = sum_up(model);

        cost.beta_ns =
                believe(slope(&sums, model->assumed.beta_ns), model->assumed.beta_ns);
        if (model->given.beta_ns > 0) {
            cost.beta_ns = model->given.beta_ns;
        }
        cost.alpha_ns = believe(
                (sums.t - cost.beta_ns * sums.n) / sums.w, model->assumed.alpha_ns);
    }
    if (model->given.alpha_ns > 0) {
        cost.alpha_ns = model->given.alpha_ns;
    }
    if (model->given.beta_ns > 0) {
        cost.beta_ns = model->given.beta_ns;
    }
    return cost;
}
