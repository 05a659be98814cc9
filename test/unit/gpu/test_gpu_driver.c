/*
 * Loading of the CUDA driver: what is missing is said in one sentence.
 */
#include <pthread.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../unit.h"
#include "loading.h"
#include "ops/gpu/driver.h"

static void assert_refused(const char *library, const char *sentence)
{
    struct cuda_driver driver = { .version = 77 };

    assert_int_equal(driver_load(library, &driver), TUTTI_ERR_UNSUPPORTED);
    assert_sentence(tutti_last_error(), sentence);
    assert_int_equal(driver.version, 77);
}

static void test_a_driver_is_a_full_table(void **state)
{
    struct cuda_driver driver;
    int devices = 0;

    (void)state;
    assert_int_equal(driver_load(FAKES "/libfake_cuda.so", &driver), TUTTI_OK);
    assert_int_equal(driver.version, 12040);
    assert_int_equal(driver.device_get_count(&devices), CU_SUCCESS);
    assert_int_equal(devices, 2);
#define CUDA_REQUIRED(field, symbol, parameters) assert_non_null(driver.field);
#define CUDA_OPTIONAL(field, symbol, parameters) assert_non_null(driver.field);
#include "ops/gpu/driver.def"
}

static void test_an_older_driver_lacks_what_is_optional(void **state)
{
    struct cuda_driver driver;

    (void)state;
    assert_int_equal(driver_load(FAKES "/libfake_cuda_11.so", &driver), TUTTI_OK);
    assert_null(driver.library_load_data);
    assert_null(driver.device_get_uuid_v2);
    assert_non_null(driver.module_load_data);
    assert_non_null(driver.device_get_uuid);
}

static void test_a_library_that_is_not_there(void **state)
{
    (void)state;
    assert_refused("libcuda_of_nowhere.so.1",
            "there is no CUDA driver: libcuda_of_nowhere.so.1: cannot open shared "
            "object "
            "file: No such file or directory");
}

static void test_a_driver_that_is_too_old(void **state)
{
    (void)state;
    assert_refused(FAKES "/libfake_cuda_10.so",
            "libfake_cuda_10.so lacks cuLaunchHostFunc: it is no CUDA driver, or older "
            "than CUDA 11.0");
    assert_refused(FAKES "/libfake_nccl.so",
            "libfake_nccl.so lacks cuInit: it is no CUDA driver, or older than CUDA "
            "11.0");
}

static void test_a_stub_of_the_toolkit(void **state)
{
    (void)state;
    (void)setenv("FAKE_CUDA_INIT", "34", 1);
    assert_refused(FAKES "/libfake_cuda.so",
            "libfake_cuda.so is a stub of the CUDA toolkit, not a driver (error 34)");
}

static void test_the_toolkits_own_stub(void **state)
{
    struct cuda_driver driver;

    (void)state;
    if (CUDA_STUB[0] == '\0') {
        print_message("no CUDA toolkit with stubs here\n");
        skip();
    }
    assert_int_equal(driver_load(CUDA_STUB, &driver), TUTTI_ERR_UNSUPPORTED);
    assert_non_null(strstr(tutti_last_error(),
            " is a stub of the CUDA toolkit, not a driver (error 34)"));
}

static void test_a_driver_without_devices(void **state)
{
    (void)state;
    (void)setenv("FAKE_CUDA_INIT", "100", 1);
    assert_refused(FAKES "/libfake_cuda.so", "the CUDA driver reports no device");
    (void)setenv("CUDA_VISIBLE_DEVICES", "-1", 1);
    assert_refused(FAKES "/libfake_cuda.so",
            "the CUDA driver reports no device (CUDA_VISIBLE_DEVICES=-1)");
    (void)setenv("FAKE_CUDA_INIT", "0", 1);
    (void)setenv("FAKE_CUDA_DEVICES", "0", 1);
    assert_refused(FAKES "/libfake_cuda.so",
            "the CUDA driver reports no device (CUDA_VISIBLE_DEVICES=-1)");
}

static void test_a_driver_that_does_not_start(void **state)
{
    (void)state;
    (void)setenv("FAKE_CUDA_INIT", "803", 1);
    assert_refused(FAKES "/libfake_cuda.so",
            "the CUDA driver in libfake_cuda.so does not start: "
            "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH, system has unsupported display driver "
            "/ "
            "cuda driver combination (error 803)");
    (void)setenv("FAKE_CUDA_INIT", "4711", 1);
    assert_refused(FAKES "/libfake_cuda.so",
            "the CUDA driver in libfake_cuda.so does not start: an unknown error, the "
            "driver has no text for it (error 4711)");
}

static void test_a_child_cannot_use_its_parents_driver(void **state)
{
    struct cuda_driver driver;
    int ended = -1;
    pid_t child;

    (void)state;
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

static void test_threads_load_the_same_driver(void **state)
{
    struct cuda_driver drivers[THREADS];
    pthread_t threads[THREADS];

    (void)state;
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

/* Whatever this machine has, the default library gives a table or one sentence. */
static void test_this_machine(void **state)
{
    struct cuda_driver driver;

    (void)state;
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        /* First: a stub that is loaded has the name of the driver. */
        cmocka_unit_test_setup(test_this_machine, clear_fakes),
        cmocka_unit_test_setup(test_a_driver_is_a_full_table, clear_fakes),
        cmocka_unit_test_setup(
                test_an_older_driver_lacks_what_is_optional, clear_fakes),
        cmocka_unit_test_setup(test_a_library_that_is_not_there, clear_fakes),
        cmocka_unit_test_setup(test_a_driver_that_is_too_old, clear_fakes),
        cmocka_unit_test_setup(test_a_stub_of_the_toolkit, clear_fakes),
        cmocka_unit_test_setup(test_the_toolkits_own_stub, clear_fakes),
        cmocka_unit_test_setup(test_a_driver_without_devices, clear_fakes),
        cmocka_unit_test_setup(test_a_driver_that_does_not_start, clear_fakes),
        cmocka_unit_test_setup(test_a_child_cannot_use_its_parents_driver, clear_fakes),
        cmocka_unit_test_setup(test_threads_load_the_same_driver, clear_fakes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
