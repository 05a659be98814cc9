/*
 * Parameter servers compute what a hand-made loop computes: averages, momentum, parts on
 * several servers, workers that finish early, evaluators.
 */
#include <math.h>

#include "model.h"
#include "ranks.h"
#include "server/plan.h"
#include "test/unit/unit.h"

static const double rate = 0.05;
static const double momentum = 0.9;
static const double decay = 0.01;

/* A loop on one rank: SGD as the header defines it. */
struct loop {
    struct model model;
    float a_velocity[MODEL_A], c_velocity[MODEL_C];
    double b_velocity[MODEL_B];
};

static void step_float(float *value, float *velocity, float gradient)
{
    *velocity = gradient + (float)decay * *value + (float)momentum * *velocity;
    *value -= (float)rate * *velocity;
}

/* Updates with the average of the gradients of workers first to n - 1. */
static void loop_step(struct loop *loop, int first, int n, int step)
{
    struct model *model = &loop->model;

    for (int i = 0; i < MODEL_C; i++) {
        float sum = model_gradient(first, step, i);
        double wide = sum * 1.3;
        float count = (float)(n - first);

        for (int w = first + 1; w < n; w++) {
            sum += model_gradient(w, step, i);
            wide += model_gradient(w, step, i) * 1.3;
        }
        step_float(&model->c[i], &loop->c_velocity[i], sum / count);
        if (i < MODEL_A) {
            step_float(&model->a[i], &loop->a_velocity[i], -(sum / count));
        }
        if (i < MODEL_B) {
            loop->b_velocity[i] = wide / (double)count + decay * model->b[i] +
                    momentum * loop->b_velocity[i];
            model->b[i] -= rate * loop->b_velocity[i];
        }
    }
}

/* A job: its settings, and what its workers must end with. */
struct job {
    tutti_server_options options;
    int workers;
    int steps;
    int early; /* worker 0 finishes after so many steps */
    struct loop expected;
};

static void job_init(struct job *job, tutti_server_mode mode, int workers, int steps)
{
    memset(job, 0, sizeof *job);
    tutti_server_options_default(&job->options);
    job->options.mode = mode;
    job->options.staleness = 3; /* which these modes do not use */
    job->options.rate = rate;
    job->options.momentum = momentum;
    job->options.weight_decay = decay;
    job->options.split_bytes = 256;
    job->workers = workers;
    job->steps = job->early = steps;
    model_init(&job->expected.model, 1.0F);
}

static void train(
        tutti_server *ps, const struct job *job, struct model *model, int worker)
{
    int steps = worker == 0 ? job->early : job->steps;
    tutti_server_report report = { .size = sizeof report };

    CHECK(tutti_server_pull(ps) == TUTTI_OK);
    for (int step = 0; step < steps; step++) {
        model_backward(model, worker, step);
        CHECK(tutti_server_step(ps) == TUTTI_OK);
    }
    CHECK(tutti_server_finish(ps) == TUTTI_OK);
    CHECK(tutti_server_report_get(ps, &report) == TUTTI_OK);
    CHECK(report.clock == steps && report.pushes == steps);
    CHECK(report.pulls == steps + 2 && report.over);
    CHECK(report.staleness == 0 && report.histogram[0] == steps + 1);
    CHECK(report.sent_bytes >= steps * (int64_t)(sizeof model->a + sizeof model->c));
}

static void evaluate(tutti_server *ps)
{
    tutti_server_report report = { .size = sizeof report };

    while (!report.over && CHECK(tutti_server_pull(ps) == TUTTI_OK)) {
        CHECK(tutti_server_report_get(ps, &report) == TUTTI_OK);
    }
    CHECK(tutti_server_push(ps) == TUTTI_ERR_INVALID);
    CHECK(tutti_server_finish(ps) == TUTTI_OK);
}

static void run_rank(tutti *t, void *user)
{
    struct job *job = user;
    struct model model;
    tutti_server *ps;

    /* Only the chief's values count. */
    model_init(&model, tutti_rank(t) == 0 ? 1.0F : -50.0F);
    if (!CHECK(tutti_server_create(t, model.params, MODEL_PARAMS, &job->options, &ps) ==
                TUTTI_OK)) {
        return;
    }
    if (tutti_server_role(ps) == TUTTI_ROLE_SERVER) {
        CHECK(tutti_server_serve(ps) == TUTTI_OK);
    } else if (tutti_server_role(ps) == TUTTI_ROLE_EVALUATOR) {
        evaluate(ps);
        CHECK(job->early < job->steps || model_equals(&model, &job->expected.model));
    } else {
        train(ps, job, &model, tutti_rank(t));
        CHECK(model_equals(&model, &job->expected.model));
    }
    CHECK(tutti_server_destroy(ps) == TUTTI_OK);
}

UNIT_TEST(test_sync_is_the_average_made_by_hand)
{
    static struct job job;

    job_init(&job, TUTTI_SERVER_SYNC, 3, 5);
    job.options.servers = 2;
    job.options.evaluators = 1;
    for (int step = 0; step < job.steps; step++) {
        loop_step(&job.expected, 0, 3, step);
    }
    assert_int_equal(ranks_run(6, run_rank, &job), 0);
}

UNIT_TEST(test_async_with_one_worker_is_a_sequential_loop)
{
    static struct job job;

    job_init(&job, TUTTI_SERVER_ASYNC, 1, 6);
    job.options.servers = 3;
    for (int step = 0; step < job.steps; step++) {
        loop_step(&job.expected, 0, 1, step);
    }
    assert_int_equal(ranks_run(4, run_rank, &job), 0);
}

UNIT_TEST(test_who_is_finished_is_not_averaged)
{
    static struct job job;

    job_init(&job, TUTTI_SERVER_SYNC, 3, 4);
    job.early = 2;
    for (int step = 0; step < job.steps; step++) {
        loop_step(&job.expected, step < job.early ? 0 : 1, 3, step);
    }
    assert_int_equal(ranks_run(4, run_rank, &job), 0);
}

/* What an update of the caller saw: every element must come once per push, at one rate. */
struct seen {
    int64_t elements;
    double rates;
};

static void subtract(void *user, const tutti_server_slice *slice)
{
    struct seen *seen = user;

    seen->elements += slice->count;
    seen->rates += slice->rate * (double)slice->count;
    for (int64_t i = 0; i < slice->count && slice->dtype == TUTTI_FLOAT32; i++) {
        ((float *)slice->value)[i] -= ((const float *)slice->gradient)[i];
    }
}

ON_RANKS(test_an_update_of_the_caller_gets_every_element_with_its_rate, 3)
{
    struct model model;
    struct seen seen = { .elements = 0 };
    tutti_server_options options;
    tutti_server *ps;
    const int64_t all = MODEL_A + MODEL_B + MODEL_C;

    tutti_server_options_default(&options);
    options.mode = TUTTI_SERVER_SSP;
    options.role = tutti_rank(t) == 0 ? TUTTI_ROLE_SERVER : TUTTI_ROLE_WORKER;
    options.update = subtract;
    options.user = &seen;
    model_init(&model, 2.0F);
    if (!CHECK(tutti_server_create(t, model.params, MODEL_PARAMS, &options, &ps) ==
                TUTTI_OK)) {
        return;
    }
    if (tutti_rank(t) == 0) {
        CHECK(tutti_server_serve(ps) == TUTTI_OK);
        CHECK(seen.elements == 2 * all);
        CHECK(fabs(seen.rates - 0.75 * (double)all) < 1e-9 * (double)all);
    } else {
        CHECK(tutti_server_pull(ps) == TUTTI_OK);
        /* The other's push may be in it. */
        CHECK(model.c[30] == 2.0F - 1.0F || model.c[30] == 2.0F - 1.0F - 0.5F);
        model_backward(&model, 0, 0);
        model.c_gradient[30] = 0.5F;
        CHECK(tutti_server_set_rate(ps, 0.25 * tutti_rank(t)) == TUTTI_OK);
        CHECK(tutti_server_push(ps) == TUTTI_OK);
        CHECK(tutti_server_finish(ps) == TUTTI_OK);
        CHECK(model.c[30] == 2.0F - 1.0F - 2 * 0.5F);
    }
    CHECK(tutti_server_destroy(ps) == TUTTI_OK);
}

UNIT_TEST(test_parameters_are_divided_by_bytes)
{
    static const int64_t counts[] = { 3, 100000, 16, 16, 5000, 1 };
    enum {
        N = sizeof counts / sizeof counts[0]
    };
    tutti_param params[N] = { { .name = "x" } };
    struct server_slice slices[N + 8];
    size_t bytes;

    for (int servers = 1; servers <= 8; servers++) {
        size_t total = 0;
        size_t count = 0;
        size_t param = 0;
        int64_t next = 0;

        for (size_t i = 0; i < N; i++) {
            params[i].count = counts[i];
            params[i].dtype = i % 2 == 0 ? TUTTI_FLOAT64 : TUTTI_FLOAT32;
            total += (size_t)counts[i] * tutti_dtype_size(params[i].dtype);
        }
        for (int s = 0; s < servers; s++) {
            const size_t before = count;

            count += server_plan(params, N, s, servers, 1024, slices + count, &bytes);
            assert_true(count <= N + (size_t)servers - 1);
            assert_true(bytes <= total / (size_t)servers + 4096);
            for (size_t i = before; i < count; i++) {
                if (next == counts[param]) {
                    param++;
                    next = 0;
                }
                assert_int_equal(slices[i].param, param);
                assert_int_equal(slices[i].first, next);
                assert_true(
                        slices[i].count == counts[param] || slices[i].bytes >= 1024);
                assert_true(slices[i].offset + slices[i].bytes <= bytes);
                next += slices[i].count;
            }
        }
        assert_true(param == N - 1 && next == counts[N - 1]);
    }
}
