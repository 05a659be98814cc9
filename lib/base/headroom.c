/*
 * How much memory this process may still take.
 */
#include "base/headroom.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cgroup.h"
#include "base/clock.h"
#include "base/mem.h"

enum {
    FILE_TEXT_MAX = 8192,
    DECIMAL = 10,
    STEPS = 32, /* of which memory has at least so many, for all that share */
    PAGE_TABLE_SHARE = 256, /* of what is mapped; twice, for who maps it elsewhere */
    CREDIT_NS = 100000000 /* then others may have used what was left */
};

#define STEP_MIN ((size_t)1 << 20)
#define STEP_MAX ((size_t)32 << 20)

/* Versions of cgroups: where each is mounted by custom, and its files. */
static const struct version {
    const char *controller; /* in /proc/self/cgroup               */
    const char *mount; /* of its tree                        */
    const char *limit; /* file: bytes, or "max"              */
    const char *usage; /* file: bytes                        */
    const char *cached[2]; /* in memory.stat: that can be dropped */
} versions[] = {
    { .controller = "",
            .mount = "/sys/fs/cgroup",
            .limit = "memory.max",
            .usage = "memory.current",
            .cached = { "inactive_file ", "active_file " } },
    { .controller = "memory",
            .mount = "/sys/fs/cgroup/memory",
            .limit = "memory.limit_in_bytes",
            .usage = "memory.usage_in_bytes",
            .cached = { "total_inactive_file ", "total_active_file " } },
};

/* The number behind a name at the beginning of a line; `missing` without it. */
static uint64_t number_of(const char *text, const char *name, uint64_t missing)
{
    const size_t len = strlen(name);

    while (text != NULL && strncmp(text, name, len) != 0) {
        text = strchr(text, '\n');
        text = text == NULL ? NULL : text + 1;
    }
    if (text != NULL) {
        char *end;
        const uint64_t number = strtoull(text + len, &end, DECIMAL);

        return end != text + len ? number : missing;
    }
    return missing;
}

/* A file of a cgroup that holds a number; `missing` when it does not. */
static uint64_t file_number(const char *folder, const char *name, uint64_t missing)
{
    char path[PATH_MAX];
    char text[64];

    return snprintf(path, sizeof path, "%s/%s", folder, name) < (int)sizeof path &&
                    kernel_file_read(path, text, sizeof text) > 0
            ? number_of(text, "", missing)
            : missing;
}

/* What the kernel can drop to make room. */
static uint64_t cached_bytes(const char *folder, const struct version *version)
{
    char path[PATH_MAX];
    char text[FILE_TEXT_MAX];

    if (snprintf(path, sizeof path, "%s/memory.stat", folder) >= (int)sizeof path ||
            kernel_file_read(path, text, sizeof text) <= 0) {
        return 0;
    }
    return number_of(text, version->cached[0], 0) +
            number_of(text, version->cached[1], 0);
}

/* A search through the cgroups of one version. */
struct search {
    const struct version *version;
    struct memory_room *room;
};

/* Lowers what there is to what a cgroup leaves. */
static void apply_limit(void *user, const char *folder)
{
    const struct search *search = user;
    const struct version *version = search->version;
    struct memory_room *room = search->room;
    const uint64_t limit = file_number(folder, version->limit, UINT64_MAX);
    uint64_t usage;
    uint64_t left;

    /* Larger than the machine, as are the numbers that stand for none: reached by nobody. */
    if (limit >= room->total) {
        return;
    }
    usage = file_number(folder, version->usage, 0);
    left = usage < limit ? limit - usage : 0;
    if (left < room->left) {
        left += cached_bytes(folder, version);
        room->left = left < room->left ? left : room->left;
    }
    room->total = limit;
}

struct memory_room memory_room(const char *root)
{
    struct memory_room room = { .total = UINT64_MAX, .left = UINT64_MAX };
    char path[PATH_MAX];
    char text[FILE_TEXT_MAX];

    (void)snprintf(path, sizeof path, "%s/proc/meminfo", root);
    if (kernel_file_read(path, text, sizeof text) > 0) {
        room.total = number_of(text, "MemTotal:", UINT64_MAX / 1024) * 1024;
        room.left = number_of(text, "MemAvailable:", UINT64_MAX / 1024) * 1024;
    }
    (void)snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
    if (kernel_file_read(path, text, sizeof text) > 0) {
        for (size_t i = 0; i < sizeof versions / sizeof *versions; i++) {
            struct search search = { .version = &versions[i], .room = &room };

            (void)snprintf(path, sizeof path, "%s%s", root, versions[i].mount);
            cgroup_each_folder(
                    text, versions[i].controller, path, apply_limit, &search);
        }
    }
    return room;
}

void headroom_init(struct headroom *room, int sharers)
{
    const struct memory_room now = memory_room("");
    const uint64_t share = now.total / STEPS / (uint64_t)sharers;

    *room = (struct headroom){ .step = size_max(
                                       size_min((size_t)share, STEP_MAX), STEP_MIN) };
    room->reserve = (size_t)sharers * room->step;
    (void)pthread_mutex_init(&room->lock, NULL);
}

void headroom_fini(struct headroom *room)
{
    (void)pthread_mutex_destroy(&room->lock);
}

static bool take_locked(struct headroom *room, size_t bytes)
{
    const int64_t now = clock_ns();
    uint64_t left;

    if (bytes <= room->credit && now - room->looked_ns < CREDIT_NS) {
        room->credit -= bytes;
        return true;
    }
    left = memory_room("").left;
    room->looked_ns = now;
    room->credit = 0;
    left = left > room->reserve ? left - room->reserve : 0;
    if (left - left / PAGE_TABLE_SHARE < bytes) {
        errno = ENOMEM;
        return false;
    }
    room->credit = room->step - size_min(bytes, room->step);
    return true;
}

bool headroom_take(struct headroom *room, size_t bytes)
{
    bool taken;

    pthread_mutex_lock(&room->lock);
    taken = take_locked(room, bytes);
    pthread_mutex_unlock(&room->lock);
    return taken;
}
