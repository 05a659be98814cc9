/*
 * Facts as lines, and what is read from the machine for them.
 */
#include <errno.h>
#include <string.h>

#include "launcher/bind/pci.h"
#include "test/unit/launcher/root.h"
#include "tools/check/local_facts.h"

static void take_all(struct facts *facts, char *text)
{
    char *rest = text;

    for (char *line = strsep(&rest, "\n"); line != NULL; line = strsep(&rest, "\n")) {
        assert_int_equal(facts_take(facts, line), TUTTI_OK);
    }
}

UNIT_TEST(test_what_is_written_is_read_back)
{
    struct facts facts = {
        .release = "1.2.3",
        .binary = "0123456789abcdef",
        .host = "node 7",
        .machine = "boot node7",
        .launcher = "Open MPI 4.1.4",
        .launcher_trouble = "",
        .seen_as = "fd00::7",
        .addresses = { "10.0.0.7", "fd00::7" },
        .address_count = 2,
        .gpus = 8,
        .gpus_unusable = 1,
        .shm_bytes = UINT64_MAX,
        .shm_free = 17,
        .cma_errno = EPERM,
        .ptrace_scope = -1,
        .port = 40000,
        .nonce = UINT64_MAX - 1,
    };
    struct facts read = { .port = 0 };
    char text[8192] = "";
    FILE *file = fmemopen(text, sizeof text, "w");

    facts_write(&facts, file);
    (void)fclose(file);
    assert_memory_equal(text, FACTS_BEGIN "\n", strlen(FACTS_BEGIN) + 1);
    assert_non_null(strstr(text, FACTS_END "\n"));
    take_all(&read, text);
    assert_memory_equal(&read, &facts, sizeof facts);
}

UNIT_TEST(test_malformed_facts_are_refused)
{
    static const char *const lines[] = { "gpus", "gpus ", "gpus 1x", "gpus -1",
        "shm_bytes 18446744073709551616", "ptrace_scope x",
        "seen_as 0123456789012345678901234567890123456789012345678901234567890123" };
    struct facts facts;

    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        facts = (struct facts){ .port = 0 };
        assert_int_equal(facts_take(&facts, lines[i]), TUTTI_ERR_PROTOCOL);
    }
    assert_non_null(strstr(tutti_last_error(), "seen_as"));
}

UNIT_TEST(test_starters_are_recognised)
{
    static const struct {
        const char *output;
        const char *name;
    } rows[] = {
        { "mpirun (Open MPI) 4.1.4\n\nReport bugs to x\n", "Open MPI 4.1.4" },
        { "mpirun.real (OpenRTE) 2.1.1\n", "Open MPI 2.1.1" },
        { "prterun (PRRTE) 3.0.5\n", "PRRTE 3.0.5" },
        { "HYDRA build details:\n    Version:           4.0.2\n    Date: x\n",
                "MPICH 4.0.2" },
        { "Intel(R) MPI Library for Linux* OS, Version 2021.9 Build 2023\n",
                "Intel MPI 2021.9" },
        { "slurm-wlm 22.05.8\n", "slurm-wlm 22.05.8" },
        { "\n\nsomething\nelse", "something" },
        { "", "" },
    };
    char text[FACTS_TEXT_MAX];

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        gather_launcher_name(rows[i].output, text);
        assert_string_equal(text, rows[i].name);
    }
}

static void put_device(const struct root *root, const char *name, const char *vendor,
        const char *class)
{
    char path[256];

    (void)snprintf(path, sizeof path, "/sys/bus/pci/devices/%s/vendor", name);
    root_write(root, path, vendor, 0600);
    (void)snprintf(path, sizeof path, "/sys/bus/pci/devices/%s/class", name);
    root_write(root, path, class, 0600);
}

UNIT_TEST(test_gpus_are_counted)
{
    struct root root;
    struct pci_gpus gpus;

    root_make(&root);
    pci_count_gpus(&gpus, root.path);
    assert_int_equal(gpus.usable + gpus.unusable, 0);

    put_device(&root, "0000:01:00.0", "0x10de\n", "0x030200\n");
    put_device(&root, "0000:02:00.0", "0x10de\n", "0x030000\n");
    put_device(&root, "0000:02:00.1", "0x10de\n", "0x040300\n"); /* its sound       */
    put_device(&root, "0000:03:00.0", "0x8086\n", "0x030000\n"); /* of another kind */
    put_device(&root, "0000:04:00.0", "0x1002\n", "0x120000\n");
    pci_count_gpus(&gpus, root.path);
    assert_int_equal(gpus.usable, 0); /* nothing to open them by */
    assert_int_equal(gpus.unusable, 2);

    root_write(&root, "/dev/nvidia1", "", 0600);
    root_write(&root, "/dev/nvidiactl", "", 0600);
    root_write(&root, "/dev/nvidia", "", 0600);
    pci_count_gpus(&gpus, root.path);
    assert_int_equal(gpus.usable, 1);
    assert_int_equal(gpus.unusable, 1);
    root_write(&root, "/dev/kfd", "", 0600);
    root_write(&root, "/dev/nvidia0", "", 0600);
    pci_count_gpus(&gpus, root.path);
    assert_int_equal(gpus.usable, 3);
    assert_int_equal(gpus.unusable, 0);
    root_remove(&root);
}

UNIT_TEST(test_hash_tells_files_apart)
{
    struct root root;
    char path[128];
    char one[FACTS_TEXT_MAX];
    char other[FACTS_TEXT_MAX];

    root_make(&root);
    (void)snprintf(path, sizeof path, "%s/a", root.path);
    root_write(&root, "/a", "a", 0600);
    assert_int_equal(gather_hash(path, one), TUTTI_OK);
    assert_string_equal(one, "af63dc4c8601ec8c"); /* FNV-1a of "a" */
    root_write(&root, "/a", "b", 0600);
    assert_int_equal(gather_hash(path, other), TUTTI_OK);
    assert_string_not_equal(one, other);
    (void)unlink(path);
    assert_int_equal(gather_hash(path, one), TUTTI_ERR_SYSTEM);
    root_remove(&root);
}
