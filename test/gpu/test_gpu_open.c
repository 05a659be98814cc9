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

static void assert_refused(struct rig *rig, const char *wanted, const char *says)
{
    struct gpu *gpu = NULL;

    rig_set(rig, "gpu", wanted);
    assert_int_equal(
            gpu_open(&rig->config, &rig->log, &rig->seat, &gpu), TUTTI_ERR_CONFIG);
    assert_null(gpu);
    assert_error_has(says);
}

GPU_TEST(test_an_open_gpu_has_all_it_needs)
{
    struct gpu *gpu = f->gpu;
    int least = 0;
    int greatest = 0;

    assert_int_equal(gpu->ordinal, 1); /* local rank 1 */
    assert_string_equal(gpu->pci, gpusim_device_pci(1));
    assert_true(gpu->sm_count > 0);
    assert_true(gpu->l2_bytes > 0);
    assert_true(gpu->slab_bytes >= (size_t)4 << 20);
    assert_null(gpu->nccl);
    assert_has(gpu->nccl_absence, "no-such-nccl.so");
    assert_has(f->rig.lines, gpusim_device_pci(1));
    assert_true(gpu->has_kernels);
    assert_non_null(gpu->kernels[0]);
    /* Streams do not block, and are urgent. */
    assert_int_equal(cuCtxGetStreamPriorityRange(&least, &greatest), 0);
    for (int i = 0; i < GPU_STREAMS; i++) {
        unsigned flags = 0;
        int priority = 1;

        assert_int_equal(cuStreamGetFlags(gpu->streams[i], &flags), 0);
        assert_int_equal(flags, CU_STREAM_NONBLOCKING);
        assert_int_equal(cuStreamGetPriority(gpu->streams[i], &priority), 0);
        assert_int_equal(priority, greatest);
    }
}

UNIT_TEST(test_devices_are_chosen_as_the_parameter_says)
{
    static const struct {
        const char *wanted;
        int local_rank; /* of 4 devices */
        int ordinal;
    } rows[] = { { "auto", 6, 2 }, { "3", 6, 3 }, { "3, 0,1", 1, 0 },
        { "3,0,1", 2, 1 } };
    const char *pci;
    struct rig rig;
    char text[32];

    rig_init(&rig);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        rig.seat.local_rank = rows[i].local_rank;
        assert_int_equal(chosen(&rig, rows[i].wanted), rows[i].ordinal);
    }
    pci = gpusim_device_pci(2);
    assert_int_equal(chosen(&rig, pci), 2);
    (void)snprintf(text, sizeof text, "0000%s", pci); /* eight digits of domain */
    assert_int_equal(chosen(&rig, text), 2);
    assert_int_equal(chosen(&rig, pci + 5), 2); /* none */
    (void)snprintf(text, sizeof text, "%.10s", pci); /* no function */
    assert_int_equal(chosen(&rig, text), 2);
    for (size_t i = 0; text[i] != '\0'; i++) {
        text[i] = text[i] >= 'a' && text[i] <= 'f' ? (char)(text[i] - 32) : text[i];
    }
    assert_int_equal(chosen(&rig, text), 2);
    text[strlen(text) - 1] = '\0';
    assert_refused(&rig, text, "no device");
    rig_fini(&rig);
}

/* As nvidia-smi writes it. */
static void write_uuid(int device, char text[64])
{
    unsigned char bytes[16];
    size_t len = 4;

    assert_int_equal(cuDeviceGetUuid_v2(bytes, device), 0);
    memcpy(text, "GPU-", 4);
    for (int i = 0; i < 16; i++) {
        if (i == 4 || i == 6 || i == 8 || i == 10) {
            text[len++] = '-';
        }
        text[len++] = "0123456789abcdef"[bytes[i] >> 4];
        text[len++] = "0123456789ABCDEF"[bytes[i] & 15];
    }
    text[len] = '\0';
}

UNIT_TEST(test_uuids_are_known_by_their_beginning)
{
    struct rig rig;
    char text[64];

    rig_init(&rig);
    assert_int_equal(cuInit(0), 0);
    for (int device = 0; device < 4; device++) {
        write_uuid(device, text);
        assert_int_equal(chosen(&rig, text), device);
    }
    text[strlen(text) - 1] ^= 1;
    assert_refused(&rig, text, "no device");
    assert_refused(&rig, "GPU-", "no device");
    rig_fini(&rig);
}

UNIT_TEST(test_what_is_not_there_is_refused_by_name)
{
    const struct gpusim_live before = gpusim_live();
    struct rig rig;

    rig_init(&rig);
    assert_refused(&rig, "4", "no device \"4\" for rank 5: the driver has 4 devices");
    assert_refused(&rig, "-1", "no device \"-1\"");
    assert_refused(&rig, "99999999999999999999", "no device");
    assert_refused(&rig, "0x1", "no device \"0x1\"");
    assert_refused(&rig, "", "no device \"\"");
    assert_refused(&rig, "0,", "no device \"\"");
    rig.seat.local_rank = 2;
    assert_refused(&rig, "0,1", "rank 5 is number 2 on its node");
    rig_set(&rig, "cuda_library", "no-such-driver.so");
    assert_refused(&rig, "0", "gpu=0, but rank 5 has none");
    assert_error_has("no-such-driver.so");
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

UNIT_TEST(test_without_a_gpu_there_is_a_reason_and_no_error)
{
    struct rig rig;
    struct gpu *gpu = (struct gpu *)&rig;

    rig_init(&rig);
    rig_set(&rig, "cuda_library", "no-such-driver.so");
    ASSERT_OK(gpu_open(&rig.config, &rig.log, &rig.seat, &gpu));
    assert_null(gpu);
    assert_error_has("no-such-driver.so");
    rig_set(&rig, "gpu", "off");
    ASSERT_OK(gpu_open(&rig.config, &rig.log, &rig.seat, &gpu));
    assert_null(gpu);
    assert_error_has("gpu=off");
    gpu_close(NULL);
    rig_fini(&rig);
}

UNIT_TEST(test_a_gpu_outlives_what_it_was_opened_with_and_leaves_the_callers_context)
{
    struct rig rig;
    struct gpu *gpu;
    void *mine;
    void *current = NULL;

    rig_init(&rig);
    mine = caller_enter(0);
    rig_set(&rig, "gpu", "2");
    gpu = rig_open(&rig);
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

/* cudaDeviceReset() by the application, and perhaps a new context at the same handle. */
static void try_reset(bool begins_again)
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
    if (begins_again) {
        assert_int_equal(cuDevicePrimaryCtxRetain(&context, gpu->ordinal), 0);
    }
    assert_int_equal(gpu_passed(gpu, event), TUTTI_ERR_SYSTEM);
    assert_error_has("rank 5 has lost GPU 1");
    assert_error_has("cudaDeviceReset()");
    assert_int_equal(gpu_enter(gpu), TUTTI_ERR_SYSTEM);
    assert_error_has("cudaDeviceReset()");
    assert_null(gpu_memory_alloc(gpu, 100));
    assert_int_equal(gpusim_calls("cuEventQuery"), queries); /* it might crash */
    gpu_event_release(gpu, event);
    gpu_close(gpu);
    if (begins_again) {
        assert_int_equal(cuDevicePrimaryCtxRelease_v2(1), 0);
    }
    assert_int_equal(
            cuDevicePrimaryCtxRelease_v2(1), 0); /* the one that gpu_close() left */
    assert_int_equal(gpusim_take_reports(NULL, 0), 0);
    rig_fini(&rig);
}

UNIT_TEST(test_a_reset_is_noticed)
{
    try_reset(false);
}

UNIT_TEST(test_a_reset_is_noticed_when_there_is_a_new_context)
{
    try_reset(true);
}

UNIT_TEST(test_kernels_that_cannot_be_had_are_said_once)
{
    struct rig rig;
    struct gpu *gpu = NULL;

    rig_init(&rig);
    gpusim_fail("cuModuleLoadData", 1, CU_ERROR_NO_BINARY_FOR_GPU);
    gpu = rig_open(&rig);
    assert_false(gpu->has_kernels);
    assert_has(rig.lines, "has no kernels of tutti: no kernel image is available");
    gpu_close(gpu);
    gpu = NULL;
    rig_set(&rig, "gpu_kernels", "/no/such/file");
    assert_int_equal(
            gpu_open(&rig.config, &rig.log, &rig.seat, &gpu), TUTTI_ERR_CONFIG);
    assert_error_has("gpu_kernels: /no/such/file");
    rig_set(&rig, "gpu_kernels", "/proc/self");
    assert_int_equal(
            gpu_open(&rig.config, &rig.log, &rig.seat, &gpu), TUTTI_ERR_CONFIG);
    assert_error_has("no file with kernels");
    rig_fini(&rig);
}

UNIT_TEST(test_more_thread_blocks_at_least_than_at_most_are_refused)
{
    struct rig rig;
    struct gpu *gpu = NULL;

    rig_init(&rig);
    rig_set(&rig, "gpu_nccl_min_ctas", "8");
    rig_set(&rig, "gpu_nccl_max_ctas", "4");
    assert_int_equal(
            gpu_open(&rig.config, &rig.log, &rig.seat, &gpu), TUTTI_ERR_CONFIG);
    assert_error_has("gpu_nccl_min_ctas=8 is more than gpu_nccl_max_ctas=4");
    rig_fini(&rig);
}
