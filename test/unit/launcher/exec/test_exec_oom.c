/*
 * Whether the kernel killed for want of memory, on trees of both versions of cgroups.
 */

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "launcher/exec/oom.h"
#include "test/unit/unit.h"

UNIT_TEST(test_counters)
{
    static const struct {
        const char *events;
        bool is_there;
        uint64_t count;
    } cases[] = {
        { .events = "low 0\noom 3\noom_kill 2\noom_group_kill 0\n",
                .is_there = true,
                .count = 2 },
        { .events = "oom_kill_disable 0\nunder_oom 0\noom_kill 7\n",
                .is_there = true,
                .count = 7 },
        { .events = "oom_kill 12", .is_there = true, .count = 12 },
        { .events = "low 0\noom 3\n" },
        { .events = "oom_kill x\n" },
        { .events = "" },
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint64_t count = 0;

        assert_int_equal(oom_parse(cases[i].events, &count), cases[i].is_there);
        assert_int_equal(count, cases[i].count);
    }
}

static void write_file(const char *root, const char *path, const char *text)
{
    char whole[PATH_MAX];
    FILE *file;

    (void)snprintf(whole, sizeof whole, "%s%s", root, path);
    for (char *slash = strchr(whole + 1, '/'); slash != NULL;
            slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        (void)mkdir(whole, 0700);
        *slash = '/';
    }
    file = fopen(whole, "w");
    assert_non_null(file);
    (void)fputs(text, file);
    (void)fclose(file);
}

static int remove_one(
        const char *path, const struct stat *file, int type, struct FTW *place)
{
    (void)file;
    (void)type;
    (void)place;
    return remove(path);
}

/* The tree of a machine, and where its counter is. */
static void check_tree(const char *cgroups, const char *events, const char *limit)
{
    char root[] = "/tmp/tutti-oom-XXXXXX";
    char text[128];
    struct oom oom;

    assert_non_null(mkdtemp(root));
    write_file(root, "/proc/self/cgroup", cgroups);
    write_file(root, events, "oom 1\noom_kill 1\n");
    if (limit != NULL) {
        write_file(root, limit, "1073741824\n");
    }
    oom_open(&oom, root);
    assert_int_equal(oom.count, 1);
    assert_false(oom_has_killed(&oom, text, sizeof text));
    write_file(root, events, "oom 2\noom_kill 2\n");
    assert_true(oom_has_killed(&oom, text, sizeof text));
    assert_string_equal(text, limit != NULL ? "its memory limit is 1024.0 MiB" : "");

    assert_int_equal(nftw(root, remove_one, 8, FTW_DEPTH | FTW_PHYS), 0);
}

UNIT_TEST(test_trees)
{
    check_tree("0::/job/step\n", "/sys/fs/cgroup/job/step/memory.events",
            "/sys/fs/cgroup/job/step/memory.max");
    check_tree("4:memory:/job\n0::/\n", "/sys/fs/cgroup/memory/job/memory.oom_control",
            "/sys/fs/cgroup/memory/job/memory.limit_in_bytes");
    /* In a container, the path is one of the host. */
    check_tree("0::/docker/abc\n", "/sys/fs/cgroup/memory.events",
            "/sys/fs/cgroup/memory.max");
    check_tree("0::/\n", "/proc/vmstat", NULL);
}

UNIT_TEST(test_without_a_counter_nothing_is_known)
{
    char text[16];
    struct oom oom;

    oom_open(&oom, "/nonexistent");
    assert_false(oom_has_killed(&oom, text, sizeof text));
}
