/*
 * Which files are leftovers.
 */

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "launcher/exec/sweep.h"
#include "test/unit/unit.h"

static void test_names(void **state)
{
    static const char *const known[] = { "vader_segment.h.0.1.2", "sm_segment.h.0.1",
        "ucx_shm_posix_1a", "mpich_shar_tmpAbC", "nccl-Ab12", "psm2_shm.1",
        "psm3_shm.2" };
    static const char *const unknown[] = { "sem.mine", "tutti-1", "my_vader_segment.1",
        "pulse-shm-1", "", ".", "nccl" };

    (void)state;
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        assert_true(sweep_knows(known[i]));
    }
    for (size_t i = 0; i < sizeof unknown / sizeof unknown[0]; i++) {
        assert_false(sweep_knows(unknown[i]));
    }
}

static void test_lines_of_maps(void **state)
{
    dev_t device;
    ino_t inode;

    (void)state;
    assert_true(sweep_parse_map(
            "7f00-7f01 rw-s 00001000 00:1a 4711     /dev/shm/x y", &device, &inode));
    assert_true(device == makedev(0, 0x1a));
    assert_int_equal(inode, 4711);
    assert_false(sweep_parse_map("7f00-7f01 rw-p 00000000 00:00 0 ", &device, &inode));
    assert_false(sweep_parse_map("7f00-7f01", &device, &inode));
    assert_false(sweep_parse_map("", &device, &inode));
}

/* A file in a folder; returns it open. */
static int make_file(const char *folder, const char *name)
{
    char path[128];
    int fd;

    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, 4096), 0);
    return fd;
}

static bool is_there(const char *folder, const char *name)
{
    char path[128];

    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    return access(path, F_OK) == 0;
}

static void test_only_leftovers_go(void **state)
{
    char folder[] = "/tmp/tutti-sweep-XXXXXX";
    struct sweep sweep = { .folder = folder, .user = geteuid() };
    char path[128];
    void *mapped;
    int kept;
    int fd;

    (void)state;
    assert_non_null(mkdtemp(folder));
    sweep.since = sweep_clock();
    (void)close(make_file(folder, "vader_segment.1"));
    (void)close(make_file(folder, "other"));
    kept = make_file(folder, "nccl-open");
    fd = make_file(folder, "nccl-mapped");
    mapped = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
    assert_true(mapped != MAP_FAILED);
    (void)close(fd);

    assert_int_equal(sweep_run(&sweep), 1);
    assert_false(is_there(folder, "vader_segment.1"));
    assert_true(is_there(folder, "other"));
    assert_true(is_there(folder, "nccl-open"));
    assert_true(is_there(folder, "nccl-mapped"));

    /* Without users they are leftovers, but neither of another user nor of before. */
    (void)close(kept);
    (void)munmap(mapped, 4096);
    sweep.user = geteuid() + 1;
    assert_int_equal(sweep_run(&sweep), 0);
    sweep.user = geteuid();
    sweep.since = sweep_clock() + 1000000000;
    assert_int_equal(sweep_run(&sweep), 0);
    sweep.since = 0;
    assert_int_equal(sweep_run(&sweep), 2);

    sweep.folder = "/nonexistent";
    assert_int_equal(sweep_run(&sweep), 0);
    assert_true(is_there(folder, "other"));
    (void)snprintf(path, sizeof path, "%s/other", folder);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(folder), 0);
}

static void test_what_others_may_use_is_left(void **state)
{
    (void)state;
    assert_false(sweep_is_blind(0xEFFFFFFC, 0xEFFFFFFF)); /* no container        */
    assert_false(sweep_is_blind(0xF0000001, 0xF0000002)); /* memory of its own   */
    assert_false(sweep_is_blind(0xEFFFFFFC, 0xF0000002)); /* sees all processes  */
    assert_true(sweep_is_blind(0xF0000001, 0xEFFFFFFF)); /* docker --ipc=host    */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_lines_of_maps),
        cmocka_unit_test(test_only_leftovers_go),
        cmocka_unit_test(test_what_others_may_use_is_left),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
