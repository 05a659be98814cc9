/*
 * What files of the kernel and of NVIDIA's driver say of GPUs.
 */
#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "launcher/bind/pci.h"
#include "test/unit/launcher/bind/stage.h"

enum {
    PATH_TEXT_MAX = 256
};

static int make_folder(void **state)
{
    char *folder = strdup("/tmp/tutti_gpus.XXXXXX");

    *state = folder;
    return folder == NULL || mkdtemp(folder) == NULL ? -1 : 0;
}

static int remove_folder(void **state)
{
    char *folder = *state;
    char command[PATH_TEXT_MAX];
    static const char *const devices[] = { "0000:59:00.0", "0000:a5:00.0",
        "0000:00:02.0" };
    static const char *const files[] = { "information", "class", "vendor", "" };

    for (size_t i = 0; i < 12; i++) {
        (void)snprintf(command, sizeof command, "%s/%s/%s", folder, devices[i / 4],
                files[i % 4]);
        (void)remove(command);
    }
    (void)rmdir(folder);
    free(folder);
    return 0;
}

static void write_file(
        const char *folder, const char *device, const char *name, const char *text)
{
    char path[PATH_TEXT_MAX];
    FILE *file;

    (void)snprintf(path, sizeof path, "%s/%s", folder, device);
    assert_true(mkdir(path, 0700) == 0 || errno == EEXIST);
    (void)snprintf(path, sizeof path, "%s/%s/%s", folder, device, name);
    file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void write_device(
        const char *folder, const char *device, const char *class, const char *vendor)
{
    write_file(folder, device, "class", class);
    write_file(folder, device, "vendor", vendor);
}

static void test_the_kernel_tells_whether_there_may_be_a_gpu(void **state)
{
    const char *folder = *state;

    assert_true(pci_may_have_gpu("/a/folder/that/is/not/there"));
    assert_false(pci_may_have_gpu(folder));
    write_device(folder, "0000:00:02.0", "0x030000\n", "0x1d0f\n");
    assert_false(pci_may_have_gpu(folder));
    write_device(folder, "0000:00:02.0", "0x068000\n", "0x10de\n");
    assert_false(pci_may_have_gpu(folder));
    write_device(folder, "0000:00:02.0", "0x120000\n", "0x1002\n");
    assert_true(pci_may_have_gpu(folder));
    write_device(folder, "0000:00:02.0", "0x030200\n", "0x10de\n");
    assert_true(pci_may_have_gpu(folder));
}

static void test_the_driver_tells_names_and_which_gpus_a_container_has(void **state)
{
    const char *folder = *state;
    struct stage stage;
    struct gpus *gpus = &stage.machine.gpus;

    stage_open(&stage, "p5en.48xl", NULL);
    gpus_read_driver(gpus, folder);
    assert_int_equal(gpus->count, 8);

    write_file(folder, "0000:59:00.0", "information",
            "Model: \t\t NVIDIA H200\nIRQ:   \t\t 17\n"
            "GPU UUID: \t GPU-12340000-aaaa-bbbb-cccc-000000000001\n"
            "Video BIOS: \t ??.??.??.??.??\n");
    write_file(folder, "0000:a5:00.0", "information",
            "GPU UUID: \t GPU-\?\?\?\?\?\?\?\?-\?\?\?\?\n");
    gpus_read_driver(gpus, folder);
    assert_int_equal(gpus->count, 2);
    assert_string_equal(
            gpus->items[0].uuid, "GPU-12340000-aaaa-bbbb-cccc-000000000001");
    assert_string_equal(gpus->items[1].bus, "0000:a5:00.0");
    assert_string_equal(gpus->items[1].uuid, "");
    stage_close(&stage);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make_folder, remove_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_the_kernel_tells_whether_there_may_be_a_gpu),
        TEST(test_the_driver_tells_names_and_which_gpus_a_container_has),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
