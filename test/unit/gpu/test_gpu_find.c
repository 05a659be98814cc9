/*
 * What is found, as facts and in words.
 */
#include <stdio.h>

#include "base/config.h"
#include "loading.h"
#include "ops/gpu/find.h"

/* A configuration over the fakes, and what is found with it. */
struct scene {
    struct config config;
    struct gpu_found found;
    char text[8192]; /* what gpu_describe() wrote */
};

static struct scene scene;

static void set(const char *name, const char *value)
{
    assert_int_equal(config_set(&scene.config, name, value, name), TUTTI_OK);
}

static int open_scene(void **state)
{
    (void)clear_fakes(state);
    if (config_init(&scene.config) != TUTTI_OK) {
        return -1;
    }
    set("cuda_library", FAKES "/libfake_cuda.so");
    set("nccl_library", FAKES "/libfake_nccl.so");
    return setenv("FAKE_NCCL_VERSION", "22809", 1);
}

static int close_scene(void **state)
{
    (void)state;
    config_fini(&scene.config);
    return 0;
}

#define TEST(name) UNIT_TEST_WITH(name, open_scene, close_scene)

static void assert_described(const char *expected)
{
    gpu_find(&scene.config, &scene.found);
    assert_true(
            gpu_describe(&scene.config, &scene.found, scene.text, sizeof scene.text));
    assert_sentence(scene.text, expected);
}

TEST(test_an_older_driver_has_older_uuids)
{
    set("cuda_library", FAKES "/libfake_cuda_11.so");
    gpu_find(&scene.config, &scene.found);
    assert_string_equal(
            scene.found.devices[0].uuid, "GPU-10111213-1415-1617-1819-1a1b1c1d1e64");
}

TEST(test_more_devices_than_fit)
{
    (void)setenv("FAKE_CUDA_DEVICES", "100", 1);
    gpu_find(&scene.config, &scene.found);
    assert_int_equal(scene.found.device_count, GPU_DEVICES_MAX);
    assert_string_equal(scene.found.devices[GPU_DEVICES_MAX - 1].name, "Fake 163");
}

TEST(test_a_device_that_does_not_answer)
{
    static const struct {
        const char *call;
        const char *what;
    } rows[] = {
        { "cuDeviceGet", "handle" },
        { "cuDeviceGetName", "name" },
        { "cuDeviceGetPCIBusId", "PCI id" },
        { "cuDeviceGetUuid_v2", "UUID" },
        { "cuDeviceTotalMem_v2", "memory" },
        { "cuDeviceGetAttribute", "multiprocessors" },
    };
    char expected[512];

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        (void)setenv("FAKE_CUDA_SILENT", rows[i].call, 1);
        (void)snprintf(expected, sizeof expected,
                "no GPU: the CUDA driver does not tell the %s of device 0: an unknown "
                "error, "
                "the driver has no text for it (error 999)\n",
                rows[i].what);
        assert_described(expected);
        assert_false(scene.found.has_driver);
        assert_int_equal(scene.found.device_count, 0);
    }
}

TEST(test_off_looks_for_nothing)
{
    set("gpu", "off");
    assert_described("no GPU: GPUs are switched off (gpu=off)\n");
    assert_false(scene.found.has_driver);
    assert_false(scene.found.has_nccl);
}

#define DEVICES \
    "CUDA 12.4 in libfake_cuda.so\n" \
    "GPU 0: Fake 100, 0000:1a:00.0, GPU-f0f1f2f3-f4f5-f6f7-f8f9-fafbfcfdfe64, 132 " \
    "multiprocessors, 80.0 GiB, compute capability 9.0\n" \
    "GPU 1: Fake 101, 0001:1b:00.0, GPU-f0f1f2f3-f4f5-f6f7-f8f9-fafbfcfdfe65, 133 " \
    "multiprocessors, 81.0 GiB, compute capability 9.1\n"

TEST(test_words_for_all_that_is_there)
{
    set("gpu_kernels", "some.fatbin");
    assert_described(DEVICES
            "NCCL 2.28.9 in libfake_nccl.so\n"
            "NCCL calls used: ncclGetLastError, ncclCommInitRankConfig, ncclCommSplit, "
            "ncclCommFinalize, ncclCommRevoke, ncclCommInitRankScalable, ncclMemAlloc, "
            "ncclMemFree, "
            "ncclCommRegister, ncclCommDeregister\n"
            "kernels: in some.fatbin\n");
}

TEST(test_words_for_an_older_nccl)
{
    set("gpu_kernels", "some.fatbin");
    (void)setenv("FAKE_NCCL_VERSION", "21801", 1);
    assert_described(DEVICES
            "NCCL 2.18.1 in libfake_nccl.so\n"
            "NCCL calls used: ncclGetLastError, ncclCommInitRankConfig, ncclCommSplit, "
            "ncclCommFinalize\n"
            "NCCL calls not there: ncclCommRevoke (2.28.7), ncclCommInitRankScalable "
            "(2.23.4), "
            "ncclMemAlloc (2.19.1), "
            "ncclMemFree (2.19.1), ncclCommRegister (2.19.1), "
            "ncclCommDeregister (2.19.1)\n"
            "kernels: in some.fatbin\n");
}

TEST(test_words_without_nccl)
{
    (void)setenv("FAKE_NCCL_VERSION", "21104", 1);
    gpu_find(&scene.config, &scene.found);
    assert_true(scene.found.has_driver);
    assert_false(scene.found.has_nccl);
    set("gpu_kernels", "some.fatbin");
    assert_described(DEVICES "no NCCL: NCCL 2.11.4 in libfake_nccl.so is older than "
                             "2.12; tensors in device "
                             "memory go through host memory\n"
                             "kernels: in some.fatbin\n");
}

TEST(test_kernels_are_part_of_the_build_or_not)
{
    gpu_find(&scene.config, &scene.found);
    assert_true(
            gpu_describe(&scene.config, &scene.found, scene.text, sizeof scene.text));
    assert_non_null(strstr(scene.text,
            gpu_has_kernels()
                    ? "\nkernels: built in\n"
                    : "\nkernels: none, since tutti was built without nvcc\n"));
}
