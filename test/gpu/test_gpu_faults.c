/*
 * Every call of the driver fails once, at its uses in a short life of a GPU: what is
 * returned says what could not be done, nothing crashes, and nothing is left behind.
 */
#include <stdio.h>
#include <string.h>

#include "test/gpu/rig.h"

#define BYTES ((size_t)1000)

/* Errors: one that passes, and two that lose the device. */
static const int errors[] = { CU_ERROR_OUT_OF_MEMORY, CU_ERROR_ILLEGAL_ADDRESS,
    CU_ERROR_CONTEXT_DESTROYED };

/*
 * Not tried: calls that give back what was had, where what fails cannot but stay; and what is asked only
 * to say something in an error, or has another way.
 */
static const char *const spared[] = { "cuCtxPopCurrent_v2", "cuEventDestroy_v2",
    "cuModuleUnload", "cuMemFreeHost", "cuMemFree_v2", "cuStreamDestroy_v2",
    "cuDevicePrimaryCtxRelease_v2", "cuStreamSynchronize", "cuGetErrorName",
    "cuGetErrorString", "cuThreadExchangeStreamCaptureMode" };

static const char *const functions[] = {
#define CUDA_REQUIRED(field, symbol, parameters) #symbol,
#define CUDA_OPTIONAL(field, symbol, parameters) #symbol,
#include "ops/gpu/driver.def"
};

static bool is_spared(const char *function)
{
    for (size_t i = 0; i < sizeof spared / sizeof *spared; i++) {
        if (strcmp(spared[i], function) == 0) {
            return true;
        }
    }
    return false;
}

/* What the first failure in a life says; "" for none. */
static char failure[ERROR_TEXT_MAX];

static bool went_well(tutti_status status)
{
    if (status != TUTTI_OK && status != TUTTI_AGAIN && failure[0] == '\0') {
        (void)snprintf(failure, sizeof failure, "%s", tutti_last_error());
        if (strlen(failure) < 30) {
            fail_msg("\"%s\" does not say what could not be done, and why", failure);
        }
    }
    return failure[0] == '\0';
}

static bool is_there(const void *memory)
{
    return went_well(memory == NULL ? TUTTI_ERR_NO_MEMORY : TUTTI_OK);
}

/* Some of all that can be done with a GPU. */
static void live(struct gpu *gpu, void *stream)
{
    const struct device d = gpu_device(gpu);
    struct device_event *event = NULL;
    struct device_event *done = NULL;
    enum op_space space = OP_HOST;
    bool captured = false;
    void *memory = d.alloc(gpu, BYTES);
    void *host = memory == NULL ? NULL : d.host_alloc(gpu, BYTES);
    const struct device_copy copy = { .to = memory, .from = host, .bytes = BYTES };
    struct gpu_slab *slab = NULL;

    if (is_there(memory) && is_there(host) &&
            went_well(d.look(gpu, host, BYTES, &space)) &&
            went_well(d.record(gpu, stream, &event, &captured)) &&
            went_well(d.copy(gpu, HOST_TO_DEVICE, &copy, 1, &event, 1, &done)) &&
            went_well(d.follow(gpu, stream, done)) && went_well(d.passed(gpu, done))) {
        slab = gpu_slab_take(gpu, BYTES, gpu->streams[GPU_PACK]);
        (void)is_there(slab);
    }
    if (slab != NULL) {
        gpu_slab_give(gpu, slab, done);
    }
    d.release(gpu, event);
    d.release(gpu, done);
    gpusim_settle();
    d.host_give_back(gpu, host);
    d.give_back(gpu, memory);
}

static void live_through(void *stream)
{
    struct rig rig;
    struct gpu *gpu = NULL;

    failure[0] = '\0';
    rig_init(&rig);
    rig_set(&rig, "gpu_fusion_bytes", "1");
    if (went_well(gpu_open(&rig.config, &rig.log, &rig.seat, &gpu))) {
        if (gpu != NULL) {
            live(gpu, stream);
        } else {
            (void)went_well(TUTTI_ERR_UNSUPPORTED); /* said, and no error */
        }
        gpu_close(gpu);
    }
    rig_fini(&rig);
}

#define FUNCTIONS (sizeof functions / sizeof *functions)

/* How often each function is called in a life without faults. */
static void count_uses(void *stream, long uses[FUNCTIONS])
{
    for (size_t i = 0; i < FUNCTIONS; i++) {
        uses[i] = -gpusim_calls(functions[i]);
    }
    live_through(stream);
    assert_string_equal(failure, "");
    for (size_t i = 0; i < FUNCTIONS; i++) {
        uses[i] += gpusim_calls(functions[i]);
    }
}

static void try_all(int error, void *stream)
{
    long uses[FUNCTIONS];

    count_uses(stream, uses);
    for (size_t i = 0; i < FUNCTIONS; i++) {
        /* What is used often is tried less densely towards the end. */
        for (long nth = 1; nth <= uses[i] && !is_spared(functions[i]);
                nth += 1 + nth / 4) {
            const struct gpusim_live before = gpusim_live();

            gpusim_fail(functions[i], nth, error);
            live_through(stream);
            gpusim_fail_nothing();
            /* What was only said to be gone is really there, and stays. */
            if (error != CU_ERROR_CONTEXT_DESTROYED) {
                assert_nothing_leaked(&before);
            }
        }
    }
    /* The faults are over, and so is their effect. */
    live_through(stream);
    assert_string_equal(failure, "");
}

UNIT_TEST(test_every_call_may_fail)
{
    void *stream;

    (void)caller_enter(1);
    stream = caller_stream();
    for (size_t e = 0; e < sizeof errors / sizeof *errors; e++) {
        try_all(errors[e], stream);
    }
    assert_int_equal(cuStreamDestroy_v2(stream), 0);
    caller_leave(1);
}
