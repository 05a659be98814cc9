/*
 * Which files are leftovers.
 */

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "launcher/exec/shm_cleanup.h"
#include "test/unit/launcher/cases.h"

UNIT_CASES(test_names, "files in shared memory")
{
    (void)strcpy(out, shm_cleanup_knows(in) ? "known" : "unknown");
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

UNIT_TEST(test_only_leftovers_go)
{
    char folder[] = "/dev/shm/tutti-sweep-XXXXXX";
    struct sweep sweep = { .folder = folder, .user = geteuid() };
    char path[128];
    void *mapped;
    int kept;
    int fd;

    assert_non_null(mkdtemp(folder));
    sweep.since = shm_cleanup_clock();
    (void)close(make_file(folder, "vader_segment.1"));
    (void)close(make_file(folder, "other"));
    kept = make_file(folder, "nccl-open");
    fd = make_file(folder, "nccl-mapped");
    mapped = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
    assert_true(mapped != MAP_FAILED);
    (void)close(fd);

    assert_int_equal(shm_cleanup_run(&sweep), 1);
    assert_false(is_there(folder, "vader_segment.1"));
    assert_true(is_there(folder, "other"));
    assert_true(is_there(folder, "nccl-open"));
    assert_true(is_there(folder, "nccl-mapped"));

    /* Without users they are leftovers, but neither of another user nor of before. */
    (void)close(kept);
    (void)munmap(mapped, 4096);
    sweep.user = geteuid() + 1;
    assert_int_equal(shm_cleanup_run(&sweep), 0);
    sweep.user = geteuid();
    sweep.since = shm_cleanup_clock() + 1000000000;
    assert_int_equal(shm_cleanup_run(&sweep), 0);
    sweep.since = 0;
    assert_int_equal(shm_cleanup_run(&sweep), 2);

    sweep.folder = "/nonexistent";
    assert_int_equal(shm_cleanup_run(&sweep), 0);
    assert_true(is_there(folder, "other"));
    (void)snprintf(path, sizeof path, "%s/other", folder);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(folder), 0);
}

enum {
    SWEEPS = 100,
    FILES = 50 /* of one sweep, which two come across each other at */
};

struct sweepers {
    struct sweep sweep;
    pthread_barrier_t barrier;
};
