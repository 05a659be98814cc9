/*
 * Opening and closing a rank's GPU: which device it is, what the caller's thread sees of it,
 * and what is said where there is none.
 */
#include <stdio.h>
#include <string.h>

#include "test/gpu/rig.h"

/* Opens, asks for the ordinal, closes. */
static int chosen(struct rig *rig, const char *wanted)
{
    struct gpu *gpu;
    int ordinal;

    rig_set(rig, "gpu", wanted);
    gpu = rig_open(rig);
    ordinal = gpu->ordinal;
    gpu_close(gpu);
    return ordinal;
}

/* Streams do not block, and are urgent. */
GPU_TEST(test_an_open_gpu_has_all_it_needs)
{
    int least = 0;
    int greatest = 0;

    assert_string_equal(f->gpu->pci, "0000:27:00.0"); /* local rank 1 */
    assert_true(f->gpu->slab_bytes >= (size_t)4 << 20);
    assert_has(f->gpu->nccl_absence, "no-such-nccl.so");
    assert_has(f->rig.lines, "0000:27:00.0");
    assert_true(f->gpu->has_kernels);
    assert_int_equal(cuCtxGetStreamPriorityRange(&least, &greatest), 0);
    for (int i = 0; i < GPU_STREAMS; i++) {
        unsigned flags = 0;
        int priority = 1;

        assert_int_equal(cuStreamGetFlags(f->gpu->streams[i], &flags), 0);
        assert_int_equal(flags, CU_STREAM_NONBLOCKING);
        assert_int_equal(cuStreamGetPriority(f->gpu->streams[i], &priority), 0);
        assert_int_equal(priority, greatest);
    }
}

/* PCI ids and UUIDs as tools write them. */
UNIT_TEST(test_devices_are_chosen_as_the_parameter_says)
{
    static const struct {
        const char *wanted;
        int local_rank; /* of 4 devices */
        int ordinal;
    } rows[] = { { "auto", 6, 2 }, { "3", 6, 3 }, { "3, 0,1", 1, 0 }, { "3,0,1", 2, 1 },
        { "0000:37:00.0", 1, 2 }, { "00000000:37:00.0", 1, 2 }, { "37:00.0", 1, 2 },
        { "0000:37:00", 1, 2 }, { "GPU-30313233-3435-3637-3839-3a3B3c3D3e3F", 1, 2 },
        { "gpu-4", 1, 3 } };
    struct rig rig;

    rig_init(&rig);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        rig.seat.local_rank = rows[i].local_rank;
        assert_int_equal(chosen(&rig, rows[i].wanted), rows[i].ordinal);
    }
    rig_fini(&rig);
}

UNIT_TEST(test_what_is_not_there_is_refused_by_name)
{
    static const struct {
        const char *name, *value; /* of the parameter, which stays */
        int local_rank;
        const char *says;
    } rows[] = {
        { "gpu", "4", 1, "no device \"4\" for rank 5: the driver has 4 devices" },
        { "gpu", "-1", 1, "no device \"-1\"" },
        { "gpu", "99999999999999999999", 1, "no device" },
        { "gpu", "0x1", 1, "no device \"0x1\"" },
        { "gpu", "", 1, "no device \"\"" },
        { "gpu", "0,", 1, "no device \"\"" },
        { "gpu", "GPU-", 1, "no device" },
        { "gpu", "GPU-30313233-3435-3637-3839-3a3b3c3d3e30", 1, "no device" },
        { "gpu", "0000:37:0", 1, "no device" },
        { "gpu", "0,1", 2, "rank 5 is number 2 on its node" },
        { "gpu_kernels", "/no/such/file", 0, "gpu_kernels: /no/such/file" },
        { "gpu_kernels", "/proc/self", 0, "no file with kernels" },
        { "cuda_library", "no-such-driver.so", 0,
                "gpu=0,1, but rank 5 has none: there is no CUDA driver: "
                "no-such-driver.so" },
        { "gpu_nccl_min_ctas", "8", 0,
                "gpu_nccl_min_ctas=8 is more than gpu_nccl_max_ctas=4" },
    };
    const struct gpusim_live before = gpusim_live();
    struct gpu *gpu = NULL;
    struct rig rig;

    rig_init(&rig);
    rig_set(&rig, "gpu_nccl_max_ctas", "4");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        rig_set(&rig, rows[i].name, rows[i].value);
        rig.seat.local_rank = rows[i].local_rank;
        assert_int_equal(
                gpu_open(&rig.config, &rig.log, &rig.seat, &gpu), TUTTI_ERR_CONFIG);
        assert_null(gpu);
        assert_error_has(rows[i].says);
    }
    assert_nothing_leaked(&before);
    rig_fini(&rig);
}

UNIT_TEST(test_auto_takes_the_device_of_the_calling_thread)
{
    struct rig rig;

    rig_init(&rig);
    (void)caller_enter(3);
    assert_int_equal(chosen(&rig, "auto"), 3);
    rig.seat.is_alone = false; /* several ranks in the process: it is nobody's */
    assert_int_equal(chosen(&rig, "auto"), 1);
    caller_leave(3);
    rig_fini(&rig);
}

/* Also without kernels, which is said. */
UNIT_TEST(test_a_gpu_outlives_what_it_was_opened_with_and_leaves_the_callers_context)
{
    struct rig rig;
    struct gpu *gpu;
    void *mine;
    void *current = NULL;

    rig_init(&rig);
    mine = caller_enter(0);
    rig_set(&rig, "gpu", "2");
    gpusim_fail("cuModuleLoadData", 1, CU_ERROR_NO_BINARY_FOR_GPU);
    gpu = rig_open(&rig);
    assert_false(gpu->has_kernels);
    assert_has(rig.lines, "has no kernels of tutti: no kernel image is available");
    rig_fini(&rig);
    memset(&rig.config, 0xff, sizeof rig.config);
    assert_string_equal(gpu->config->cuda_library, GPUSIM_CUDA);
    ASSERT_OK(gpu_enter(gpu));
    ASSERT_OK(gpu_enter(gpu));
    gpu_leave(gpu);
    assert_int_equal(cuCtxGetCurrent(&current), 0);
    assert_ptr_equal(current, gpu->context);
    gpu_leave(gpu);
    assert_int_equal(cuCtxGetCurrent(&current), 0);
    assert_ptr_equal(current, mine);
    gpu_close(gpu);
    assert_int_equal(cuCtxGetCurrent(&current), 0);
    assert_ptr_equal(current, mine);
    caller_leave(0);
}

/* cudaDeviceReset() by the application, and a new context at the same handle. */
UNIT_TEST(test_a_reset_is_noticed)
{
    struct rig rig;
    struct gpu *gpu;
    struct device_event *event = NULL;
    void *context = NULL;
    const long queries = gpusim_calls("cuEventQuery");

    rig_init(&rig);
    gpu = rig_open(&rig);
    ASSERT_OK(gpu_record(gpu, gpu->streams[GPU_COMM], &event));
    gpusim_reset(gpu->ordinal);
    assert_int_equal(cuDevicePrimaryCtxRetain(&context, gpu->ordinal), 0);
    assert_int_equal(gpu_passed(gpu, event), TUTTI_ERR_SYSTEM);
    assert_error_has("rank 5 has lost GPU 1");
    assert_error_has("cudaDeviceReset()");
    assert_int_equal(gpusim_calls("cuEventQuery"), queries); /* it might crash */
    gpu_event_release(gpu, event);
    gpu_close(gpu);
    assert_int_equal(cuDevicePrimaryCtxRelease_v2(1), 0);
    assert_int_equal(
            cuDevicePrimaryCtxRelease_v2(1), 0); /* the one that gpu_close() left */
    assert_int_equal(gpusim_take_reports(NULL, 0), 0);
    rig_fini(&rig);
}
