/*
 * How much memory is left, on trees of both versions of cgroups and on this machine.
 */
#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cgroup.h"
#include "base/headroom.h"
#include "test/unit/unit.h"

#define MIB ((uint64_t)1 << 20)

UNIT_TEST(test_paths_of_cgroups)
{
    static const char hybrid[] = "9:name=systemd:/a\n5:cpu,memory:/b/c\n"
                                 "4:memoryx:/d\n0::/e\n";
    static const struct {
        const char *cgroups, *controller, *path;
    } cases[] = {
        { .cgroups = hybrid, .controller = "", .path = "/e" },
        { .cgroups = hybrid, .controller = "memory", .path = "/b/c" },
        { .cgroups = hybrid, .controller = "cpu", .path = "/b/c" },
        { .cgroups = hybrid, .controller = "pids", .path = NULL },
        { .cgroups = "0::/\n", .controller = "", .path = "/" },
        { .cgroups = "4:memory:/x\n", .controller = "", .path = NULL },
        { .cgroups = "0::/no-newline", .controller = "", .path = "/no-newline" },
        { .cgroups = "", .controller = "", .path = NULL },
        { .cgroups = "junk\n", .controller = "", .path = NULL },
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char path[64] = "";
        bool found =
                cgroup_find(cases[i].cgroups, cases[i].controller, path, sizeof path);

        assert_int_equal(found, cases[i].path != NULL);
        if (found) {
            assert_string_equal(path, cases[i].path);
        }
    }
}

/* A file of a tree, with what it says. */
struct file {
    const char *path, *text;
};

static void write_file(const char *root, const struct file *file)
{
    char whole[PATH_MAX];
    FILE *stream;

    (void)snprintf(whole, sizeof whole, "%s%s", root, file->path);
    for (char *slash = strchr(whole + 1, '/'); slash != NULL;
            slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        (void)mkdir(whole, S_IRWXU);
        *slash = '/';
    }
    stream = fopen(whole, "we");
    assert_non_null(stream);
    (void)fputs(file->text, stream);
    (void)fclose(stream);
}

static int remove_one(
        const char *path, const struct stat *file, int type, struct FTW *place)
{
    (void)file;
    (void)type;
    (void)place;
    return remove(path);
}

static void check_room(const struct file *files, uint64_t total, uint64_t left)
{
    static const struct file machine = { "/proc/meminfo",
        "MemTotal:  1024000 kB\nMemFree:  1 kB\nMemAvailable:  512000 kB\n" };
    char root[] = "/tmp/tutti-headroom-XXXXXX";
    struct memory_room room;

    assert_non_null(mkdtemp(root));
    write_file(root, &machine);
    for (const struct file *file = files; file->path != NULL; file++) {
        write_file(root, file);
    }
    room = memory_room(root);
    assert_int_equal(nftw(root, remove_one, 8, FTW_DEPTH | FTW_PHYS), 0);
    assert_int_equal(room.total, total);
    assert_int_equal(room.left, left);
}

#define GROUP "/sys/fs/cgroup"

UNIT_TEST(test_the_smallest_of_all_limits_counts)
{
    static const struct file no_limit[] = { { "/proc/self/cgroup", "0::/job\n" },
        { GROUP "/job/memory.max", "max\n" }, { NULL, NULL } };
    static const struct file parent[] = { { "/proc/self/cgroup", "0::/job/step\n" },
        { GROUP "/job/step/memory.max", "838860800\n" },
        { GROUP "/job/step/memory.current", "104857600\n" },
        { GROUP "/job/memory.max", "419430400\n" },
        { GROUP "/job/memory.current", "314572800\n" },
        { GROUP "/job/memory.stat",
                "anon 7\nfile 99\ninactive_file 1048576\nactive_file 2097152\n" },
        { NULL, NULL } };
    static const struct file version_1[] = { { "/proc/self/cgroup",
                                                     "4:memory:/job\n0::/\n" },
        { GROUP "/memory/job/memory.limit_in_bytes", "209715200\n" },
        { GROUP "/memory/job/memory.usage_in_bytes", "104857600\n" },
        { GROUP "/memory/job/memory.stat",
                "inactive_file 5\ntotal_inactive_file 1048576\n" },
        { GROUP "/memory/memory.limit_in_bytes", "9223372036854771712\n" },
        { NULL, NULL } };
    /* In a container, the path is one of the host; and it may have more than its limit. */
    static const struct file container[] = { { "/proc/self/cgroup", "0::/docker/x\n" },
        { GROUP "/memory.max", "104857600\n" },
        { GROUP "/memory.current", "104861696\n" }, { NULL, NULL } };

    check_room(&no_limit[2], 1000 * MIB, 500 * MIB);
    check_room(no_limit, 1000 * MIB, 500 * MIB);
    check_room(parent, 400 * MIB, 103 * MIB);
    check_room(version_1, 200 * MIB, 101 * MIB);
    check_room(container, 100 * MIB, 0);
}

UNIT_TEST(test_without_files_nothing_is_refused)
{
    const struct memory_room room = memory_room("/nonexistent");

    assert_int_equal(room.total, UINT64_MAX);
    assert_int_equal(room.left, UINT64_MAX);
}

UNIT_TEST(test_more_than_the_machine_has_is_refused)
{
    const struct memory_room here = memory_room("");
    struct headroom room;

    headroom_init(&room, 2);
    assert_false(headroom_take(&room, here.total));
    assert_false(headroom_take(&room, SIZE_MAX));
    assert_true(headroom_take(&room, 1));
    headroom_fini(&room);
}
