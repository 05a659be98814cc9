/*
 * What files of the kernel and of NVIDIA's driver say of GPUs.
 */
#include "launcher/bind/pci.h"
#include "test/unit/launcher/bind/stage.h"
#include "test/unit/launcher/root.h"

static void write_file(
        const struct root *root, const char *device, const char *name, const char *text)
{
    char path[64];

    (void)snprintf(path, sizeof path, "/%s/%s", device, name);
    root_write(root, path, text, 0600);
}

static void write_device(const struct root *root, const char *device, const char *class,
        const char *vendor)
{
    write_file(root, device, "class", class);
    write_file(root, device, "vendor", vendor);
}

UNIT_TEST(test_the_kernel_tells_whether_there_may_be_a_gpu)
{
    struct root root;

    root_make(&root);
    assert_true(pci_may_have_gpu("/a/folder/that/is/not/there"));
    assert_false(pci_may_have_gpu(root.path));
    write_device(&root, "0000:00:02.0", "0x030000\n", "0x1d0f\n");
    assert_false(pci_may_have_gpu(root.path));
    write_device(&root, "0000:00:02.0", "0x068000\n", "0x10de\n");
    assert_false(pci_may_have_gpu(root.path));
    write_device(&root, "0000:00:02.0", "0x120000\n", "0x1002\n");
    assert_true(pci_may_have_gpu(root.path));
    write_device(&root, "0000:00:02.0", "0x030200\n", "0x10de\n");
    assert_true(pci_may_have_gpu(root.path));
    root_remove(&root);
}

UNIT_TEST(test_the_driver_tells_names_and_which_gpus_a_container_has)
{
    struct root root;
    struct stage stage;
    struct gpus *gpus = &stage.machine.gpus;

    root_make(&root);
    stage_open(&stage, "p5en.48xl", NULL);
    gpus_read_driver(gpus, root.path);
    assert_int_equal(gpus->count, 8);

    write_file(&root, "0000:59:00.0", "information",
            "Model: \t\t NVIDIA H200\nIRQ:   \t\t 17\n"
            "GPU UUID: \t GPU-12340000-aaaa-bbbb-cccc-000000000001\n"
            "Video BIOS: \t ??.??.??.??.??\n");
    write_file(&root, "0000:a5:00.0", "information",
            "GPU UUID: \t GPU-\?\?\?\?\?\?\?\?-\?\?\?\?\n");
    gpus_read_driver(gpus, root.path);
    assert_int_equal(gpus->count, 2);
    assert_string_equal(
            gpus->items[0].uuid, "GPU-12340000-aaaa-bbbb-cccc-000000000001");
    assert_string_equal(gpus->items[1].bus, "0000:a5:00.0");
    assert_string_equal(gpus->items[1].uuid, "");
    stage_close(&stage);
    root_remove(&root);
}
