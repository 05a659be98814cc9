/*
 * Loading of the CUDA driver: what is missing is said in one sentence.
 */
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "loading.h"
#include "ops/gpu/driver.h"

/*
 * First, for a stub that is loaded has the name of the driver: whatever this machine has, the
 * default library gives a table or one sentence.
 */
LOADING_TEST(test_this_machine)
{
    struct cuda_driver driver;

    if (driver_load("libcuda.so.1", &driver) == TUTTI_OK) {
        assert_true(driver.version >= 11000);
        return;
    }
    print_message("%s\n", tutti_last_error());
    assert_true(strncmp(tutti_last_error(),
                        "there is no CUDA driver: libcuda.so.1: ", 39) == 0 ||
            strncmp(tutti_last_error(), "the CUDA driver ", 16) == 0 ||
            strncmp(tutti_last_error(), "libcuda.so.1 ", 13) == 0);
    assert_null(strchr(tutti_last_error(), '\n'));
}

LOADING_TEST(test_a_driver_is_a_full_table)
{
    struct cuda_driver driver;
    int devices = 0;

    assert_int_equal(driver_load(FAKES "/libfake_cuda.so", &driver), TUTTI_OK);
    assert_int_equal(driver.version, 12040);
    assert_int_equal(driver.device_get_count(&devices), CU_SUCCESS);
    assert_int_equal(devices, 2);
#define CUDA_REQUIRED(field, symbol, parameters) assert_non_null(driver.field);
#define CUDA_OPTIONAL(field, symbol, parameters) assert_non_null(driver.field);
#include "ops/gpu/driver.def"
}

LOADING_TEST(test_an_older_driver_lacks_what_is_optional)
{
    struct cuda_driver driver;

    assert_int_equal(driver_load(FAKES "/libfake_cuda_11.so", &driver), TUTTI_OK);
    assert_null(driver.library_load_data);
    assert_null(driver.device_get_uuid_v2);
    assert_non_null(driver.module_load_data);
    assert_non_null(driver.device_get_uuid);
}

/* Of what the driver answers, by the environment; NULL: as it is. */
static const struct {
    const char *library;
    const char *init, *devices, *visible;
    const char *sentence;
} refusals[] = {
    { "libcuda_of_nowhere.so.1", NULL, NULL, NULL,
            "there is no CUDA driver: libcuda_of_nowhere.so.1: cannot open shared "
            "object file: No such file or directory" },
    { FAKES "/libfake_cuda_10.so", NULL, NULL, NULL,
            "libfake_cuda_10.so lacks cuLaunchHostFunc: it is no CUDA driver, or older "
            "than CUDA 11.0" },
    { FAKES "/libfake_nccl.so", NULL, NULL, NULL,
            "libfake_nccl.so lacks cuInit: it is no CUDA driver, or older than CUDA "
            "11.0" },
    { FAKES "/libfake_cuda.so", "34", NULL, NULL,
            "libfake_cuda.so is a stub of the CUDA toolkit, not a driver (error 34)" },
    { FAKES "/libfake_cuda.so", "100", NULL, NULL,
            "the CUDA driver reports no device" },
    { FAKES "/libfake_cuda.so", "100", NULL, "-1",
            "the CUDA driver reports no device (CUDA_VISIBLE_DEVICES=-1)" },
    { FAKES "/libfake_cuda.so", "0", "0", "-1",
            "the CUDA driver reports no device (CUDA_VISIBLE_DEVICES=-1)" },
    { FAKES "/libfake_cuda.so", "803", NULL, NULL,
            "the CUDA driver in libfake_cuda.so does not start: "
            "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH, system has unsupported display driver "
            "/ cuda driver combination (error 803)" },
    { FAKES "/libfake_cuda.so", "4711", NULL, NULL,
            "the CUDA driver in libfake_cuda.so does not start: an unknown error, the "
            "driver has no text for it (error 4711)" },
};

static void set_fake(const char *name, const char *value)
{
    if (value != NULL) {
        (void)setenv(name, value, 1);
    }
}

LOADING_TEST(test_what_is_missing_is_said_in_a_sentence)
{
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        struct cuda_driver driver = { .version = 77 };

        (void)clear_fakes(state);
        set_fake("FAKE_CUDA_INIT", refusals[i].init);
        set_fake("FAKE_CUDA_DEVICES", refusals[i].devices);
        set_fake("CUDA_VISIBLE_DEVICES", refusals[i].visible);
        assert_int_equal(
                driver_load(refusals[i].library, &driver), TUTTI_ERR_UNSUPPORTED);
        assert_sentence(tutti_last_error(), refusals[i].sentence);
        assert_int_equal(driver.version, 77);
    }
}

LOADING_TEST(test_a_child_cannot_use_its_parents_driver)
{
    struct cuda_driver driver;
    int ended = -1;
    pid_t child;

    assert_int_equal(driver_load(FAKES "/libfake_cuda.so", &driver), TUTTI_OK);
    child = fork();
    if (child == 0) {
        const bool refused = driver_load(FAKES "/libfake_cuda.so", &driver) ==
                        TUTTI_ERR_UNSUPPORTED &&
                strstr(tutti_last_error(),
                        "libfake_cuda.so cannot be used in this process (error 3): it "
                        "was "
                        "used before fork() in the parent; start processes that use "
                        "GPUs "
                        "with exec()") != NULL;

        _exit(refused ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &ended, 0), child);
    assert_int_equal(ended, 0);
}

#define THREADS 4

static void *load(void *into)
{
    return driver_load(FAKES "/libfake_cuda.so", into) == TUTTI_OK ? into : NULL;
}

LOADING_TEST(test_threads_load_the_same_driver)
{
    struct cuda_driver drivers[THREADS];
    pthread_t threads[THREADS];

    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, load, &drivers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        void *loaded;

        assert_int_equal(pthread_join(threads[i], &loaded), 0);
        assert_ptr_equal(loaded, &drivers[i]);
        assert_memory_equal(&drivers[i].init, &drivers[0].init, sizeof drivers[0].init);
    }
}
