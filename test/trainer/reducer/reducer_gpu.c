/*
 * A reducer of gradients in device memory, over the simulated GPU: marked on streams that change,
 * waited for on a stream.
 */
#include <string.h>

#include <tutti/trainer.h>

#include "model.h"
#include "ranks.h"
#include "test/suite/gpu.h"
#include "test/unit/unit.h"

enum {
    RANKS = 2,
    STEPS = 6
};

static void write_gradient(tutti_reducer *reducer, tutti *t, int param, void *stream)
{
    float values[4099];

    for (int64_t i = 0; i < model_counts[param]; i++) {
        values[i] = model_gradient(
                tutti_size(t), tutti_rank(t), tutti_reducer_step(reducer), param, i);
    }
    suite_gpu_write(tutti_reducer_gradient(reducer, (size_t)param), values,
            (size_t)model_counts[param] * sizeof *values, stream);
}

static void reduce_on_device(tutti *t, void *user)
{
    tutti_param params[MODEL_PARAMS];
    tutti_reducer_options options;
    tutti_reducer *reducer = NULL;

    (void)user;
    suite_gpu_enter(t);
    model_params(params);
    tutti_reducer_options_default(&options);
    options.memory = TUTTI_DEVICE;
    (void)CHECK(tutti_reducer_create(t, params, MODEL_PARAMS, &options, &reducer) ==
            TUTTI_OK);
    for (int64_t step = 0; step < STEPS; step++) {
        void *stream = step == 3 ? NULL : suite_gpu_stream();

        for (int p = MODEL_PARAMS; p-- > 0;) {
            write_gradient(reducer, t, p, stream);
            (void)CHECK(tutti_reducer_ready_on(reducer, (size_t)p, stream) == TUTTI_OK);
        }
        (void)CHECK(tutti_reducer_wait_stream(reducer, suite_gpu_stream(), NULL) ==
                TUTTI_OK);
        suite_gpu_synchronize();
        for (int p = 0; p < MODEL_PARAMS; p++) {
            suite_gpu_see(tutti_reducer_gradient(reducer, (size_t)p),
                    (size_t)model_counts[p] * sizeof(float));
        }
        (void)CHECK(model_all_wrong(reducer, tutti_size(t), step) == 0);
    }
    (void)CHECK(tutti_reducer_destroy(reducer) == TUTTI_OK);
    suite_gpu_enter(NULL);
}

UNIT_TEST(test_gradients_on_a_device_are_averaged_on_streams)
{
    suite_gpu_begin(GPUSIM_CUDA, GPUSIM_NCCL, RANKS);
    assert_int_equal(ranks_run(RANKS, reduce_on_device, NULL), 0);
}
