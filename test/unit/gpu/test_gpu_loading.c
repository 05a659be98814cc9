/*
 * Loading of the CUDA driver and of NCCL, and what is found, in words: over the simulated driver,
 * and an NCCL that has nothing but a version.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <tutti/tutti.h>

#include "base/config.h"
#include "ops/gpu/find.h"
#include "test/gpusim/gpusim_test.h"
#include "test/unit/unit.h"

#define CUDA "/libgpusim_cuda.so"
#define NCCL "/libfake_nccl.so"

/* Compares a text from which the folder of the libraries is cut away. */
static void assert_sentence(const char *said, const char *expected)
{
    const size_t folder_length = strlen(LIBRARIES "/");
    char text[8192];
    size_t length = 0;

    for (; *said != '\0' && length < sizeof text - 1; said++) {
        while (strncmp(said, LIBRARIES "/", folder_length) == 0) {
            said += folder_length;
        }
        text[length++] = *said;
    }
    text[length] = '\0';
    assert_string_equal(text, expected);
}

/* ---------------------------------------------------------------------- the driver */

/* What the driver answers to cuInit(), once; 0: as it is. */
static const struct {
    const char *library;
    int init;
    const char *visible; /* CUDA_VISIBLE_DEVICES */
    const char *sentence;
} refusals[] = {
    { "libcuda_of_nowhere.so.1", 0, NULL,
            "there is no CUDA driver: libcuda_of_nowhere.so.1: cannot open shared "
            "object file: No such file or directory" },
    { LIBRARIES NCCL, 0, NULL,
            "libfake_nccl.so lacks cuInit: it is no CUDA driver, or older than CUDA "
            "11.0" },
    { LIBRARIES CUDA, 34, NULL,
            "libgpusim_cuda.so is a stub of the CUDA toolkit, not a driver (error "
            "34)" },
    { LIBRARIES CUDA, 100, NULL, "the CUDA driver reports no device" },
    { LIBRARIES CUDA, 100, "-1",
            "the CUDA driver reports no device (CUDA_VISIBLE_DEVICES=-1)" },
    { LIBRARIES CUDA, 802, NULL,
            "the CUDA driver in libgpusim_cuda.so does not start: "
            "CUDA_ERROR_SYSTEM_NOT_READY, system not yet initialized (error 802)" },
    { LIBRARIES CUDA, 4711, NULL,
            "the CUDA driver in libgpusim_cuda.so does not start: an unknown error, "
            "the driver has no text for it (error 4711)" },
};

UNIT_TEST(test_a_driver_that_is_missing_is_said_in_a_sentence)
{
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        struct cuda_driver driver = { .version = 77 };

        if (refusals[i].init != 0) {
            gpusim_fail("cuInit", 1, refusals[i].init);
        }
        (void)unsetenv("CUDA_VISIBLE_DEVICES");
        if (refusals[i].visible != NULL) {
            (void)setenv("CUDA_VISIBLE_DEVICES", refusals[i].visible, 1);
        }
        assert_int_equal(
                driver_load(refusals[i].library, &driver), TUTTI_ERR_UNSUPPORTED);
        assert_sentence(tutti_last_error(), refusals[i].sentence);
        assert_int_equal(driver.version, 77);
    }
    (void)unsetenv("CUDA_VISIBLE_DEVICES");
}

UNIT_TEST(test_a_uuid_of_an_older_driver)
{
    struct cuda_driver driver;
    char uuid[GPU_UUID_MAX];

    assert_int_equal(driver_load(LIBRARIES CUDA, &driver), TUTTI_OK);
    assert_int_equal(driver.version, 13000);
    driver.device_get_uuid_v2 = NULL; /* as an older one */
    assert_int_equal(driver_read_uuid(&driver, 0, uuid), 0);
    assert_string_equal(uuid, "GPU-10111213-1415-1617-1819-1a1b1c1d1e1f");
}

UNIT_TEST(test_a_child_cannot_use_its_parents_driver)
{
    struct cuda_driver driver;
    int ended = -1;
    pid_t child;

    assert_int_equal(driver_load(LIBRARIES CUDA, &driver), TUTTI_OK);
    child = fork();
    if (child == 0) {
        const bool refused =
                driver_load(LIBRARIES CUDA, &driver) == TUTTI_ERR_UNSUPPORTED &&
                strstr(tutti_last_error(), "it was used before fork() in the parent") !=
                        NULL;

        _exit(refused ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &ended, 0), child);
    assert_int_equal(ended, 0);
}

/* ------------------------------------------------------------------------- NCCL */

UNIT_TEST(test_an_nccl_that_is_missing_or_too_old)
{
    static const struct {
        const char *library;
        const char *version; /* NULL: it does not tell one */
        const char *sentence;
    } rows[] = {
        { "libnccl_of_nowhere.so.2", NULL,
                "there is no NCCL: libnccl_of_nowhere.so.2: cannot open shared object "
                "file: No such file or directory" },
        { LIBRARIES CUDA, NULL,
                "libgpusim_cuda.so lacks ncclGetVersion: it is not NCCL" },
        { LIBRARIES "/libfake_nccl_torn.so", "22809",
                "libfake_nccl_torn.so lacks ncclSend" },
        /* Too old comes first: what else is missing follows from it. */
        { LIBRARIES "/libfake_nccl_torn.so", "21104",
                "NCCL 2.11.4 in libfake_nccl_torn.so is older than 2.12" },
        { LIBRARIES NCCL, "2804", "NCCL 2.8.4 in libfake_nccl.so is older than 2.12" },
        { LIBRARIES NCCL, NULL,
                "NCCL in libfake_nccl.so does not tell its version (error 2)" },
    };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct nccl_api api = { .version = 77 };

        (void)unsetenv("FAKE_NCCL_VERSION");
        if (rows[i].version != NULL) {
            (void)setenv("FAKE_NCCL_VERSION", rows[i].version, 1);
        }
        assert_int_equal(nccl_load(rows[i].library, &api), TUTTI_ERR_UNSUPPORTED);
        assert_sentence(tutti_last_error(), rows[i].sentence);
        assert_int_equal(api.version, 77);
    }
}

/* Where pip has put it: in the packages of a virtual environment, or where PYTHONPATH leads. */
UNIT_TEST(test_what_pip_has_installed)
{
    static const char *const variables[] = { "VIRTUAL_ENV", "PYTHONPATH" };
    static const char *const folders[] = { "/lib/python3.9/site-packages", "" };
    char root[] = "/tmp/tutti-pip-XXXXXX";
    char command[512];
    struct nccl_api api;

    assert_non_null(mkdtemp(root));
    (void)setenv("FAKE_NCCL_VERSION", "22809", 1);
    for (int i = 0; i < 2; i++) {
        (void)snprintf(command, sizeof command,
                "d=%s%s/nvidia/nccl/lib && mkdir -p $d && cp " LIBRARIES NCCL
                " $d/libnccl-%d.so.2",
                root, folders[i], i);
        assert_int_equal(system(command), 0);
        (void)snprintf(command, sizeof command, "libnccl-%d.so.2", i);
        assert_int_equal(nccl_load(command, &api), TUTTI_ERR_UNSUPPORTED);
        (void)setenv(variables[i], root, 1);
        assert_int_equal(nccl_load(command, &api), TUTTI_OK);
        (void)unsetenv(variables[i]);
        assert_int_equal(api.version, 22809);
        (void)snprintf(command, sizeof command, "%s%s/nvidia/nccl/lib/libnccl-%d.so.2",
                root, folders[i], i);
        assert_string_equal(api.library, command);
    }
    (void)snprintf(command, sizeof command, "rm -r %s", root);
    assert_int_equal(system(command), 0);
}

/* ------------------------------------------------------------------------- words */

/* What is found, in words. */
static const char *describe(void)
{
    static struct gpu_found found;
    static char text[16384];
    struct config config;

    assert_int_equal(config_init(&config), TUTTI_OK);
    assert_int_equal(
            config_set(&config, "cuda_library", LIBRARIES CUDA, "test"), TUTTI_OK);
    gpu_find(&config, &found);
    assert_true(gpu_describe(&config, &found, text, sizeof text));
    config_fini(&config);
    return text;
}

UNIT_TEST(test_a_device_that_does_not_answer)
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

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char expected[256];

        gpusim_fail(rows[i].call, 1, 999);
        (void)snprintf(expected, sizeof expected,
                "no GPU: the CUDA driver does not tell the %s of device 0: "
                "CUDA_ERROR_UNKNOWN, unknown error (error 999)\n",
                rows[i].what);
        assert_sentence(describe(), expected);
    }
}
