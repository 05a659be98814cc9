/*
 * Cores and load, from the kernel's own accounts.
 *
 * How many cores: the affinity mask, cut to the CPU bandwidth of the cgroup (v2: the
 * least cpu.max on the way from the process's cgroup up to the root).
 *
 * How many threads want one: a process that is bound to its share of the machine looks
 * at its own threads only, since the others have shares of their own. A process that
 * is not bound competes with the whole machine, whose runnable threads are the fourth
 * field of /proc/loadavg. The one costs microseconds for each thread, the other less
 * than one, hence the interval between samples.
 *
 * A thread that spins on a core of its own needs no samples at all: it notices when that
 * core is taken away. So "free" holds until it is doubted, and only "not free", which
 * nothing but a look can end, is looked at again and again.
 */
#include "base/cpu.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cgroup.h"
#include "base/clock.h"
#include "base/mem.h"

enum {
    SAMPLE_INTERVAL_NS = 500000,
    SURE_NS = 100000000,
    SAMPLE_COST_SHARE = 32, /* a sample takes at most this part of the time */
    YIELD_DEAR_NS =
            2000000, /* ranks that share a core and wait, too, give it back sooner */
    YIELD_COST_SHARE = 16, /* dear ones take at most this part of the time */
    FILE_TEXT_MAX = 4096,
    AFFINITY_BYTES_MAX = 1 << 17
};

/* Number of cores in the affinity mask; 0 when the kernel does not tell. */
static int affinity_count(void)
{
    size_t size = sizeof(cpu_set_t);

    /* The kernel wants room for all the cores it was built for, however many. */
    for (; size <= AFFINITY_BYTES_MAX; size *= 2) {
        cpu_set_t *set = mem_alloc(size);
        int count = -1;

        if (set == NULL) {
            return 0;
        }
        if (sched_getaffinity(0, size, set) == 0) {
            count = CPU_COUNT_S(size, set);
        } else if (errno != EINVAL) {
            count = 0;
        }
        mem_free(set);
        if (count >= 0) {
            return count;
        }
    }
    return 0;
}

long cpu_max_parse(const char *text)
{
    char *end;
    long quota = strtol(text, &end, 10);
    long period;

    if (end == text) {
        return LONG_MAX;
    }
    period = strtol(end, NULL, 10);
    return quota > 0 && period > 0 ? quota / period : LONG_MAX;
}

/* Lowers *cores to a cgroup's limit; without a cpu.max there is none. */
static void quota_apply(void *cores, const char *folder)
{
    long *least = cores;
    char path[PATH_MAX];
    char text[64];

    if (snprintf(path, sizeof path, "%s/cpu.max", folder) < (int)sizeof path &&
            kernel_file_read(path, text, sizeof text) > 0 &&
            cpu_max_parse(text) < *least) {
        *least = cpu_max_parse(text);
    }
}

static long quota_limit(long cores)
{
    char text[FILE_TEXT_MAX];

    if (kernel_file_read("/proc/self/cgroup", text, sizeof text) > 0) {
        cgroup_each_folder(text, "", "/sys/fs/cgroup", quota_apply, &cores);
    }
    return cores;
}

int cpu_allowed_count(void)
{
    long cores = quota_limit(affinity_count());

    return cores < 1 ? 1 : (int)cores;
}

bool cpu_is_bound(void)
{
    int count = affinity_count();

    return count > 0 && count < sysconf(_SC_NPROCESSORS_ONLN);
}

/* Runnable threads of the machine, the caller included; -1 when unknown. */
static long runnable_in_machine(int loadavg_fd)
{
    char text[128];
    ssize_t len = pread(loadavg_fd, text, sizeof text - 1, 0);
    char *field = text;
    char *end;
    long runnable;
    int i;

    if (len <= 0) {
        return -1;
    }
    text[len] = '\0';
    /* "0.20 0.18 0.12 3/80 11206": three averages, then runnable/existing */
    for (i = 0; i < 3; i++) {
        field = strchr(field, ' ');
        if (field == NULL) {
            return -1;
        }
        field++;
    }
    runnable = strtol(field, &end, 10);
    return end != field && *end == '/' ? runnable : -1;
}

/* Whether the stat of a thread in /proc says that it is in state R; false when unknown. */
static bool stat_is_runnable(int fd)
{
    char text[512];
    const ssize_t len = pread(fd, text, sizeof text - 1, 0);
    const char *state;

    if (len <= 0) {
        return false;
    }
    text[len] = '\0';
    /* "11206 (name) R ...": the name may itself contain brackets and spaces */
    state = strrchr(text, ')');
    return state != NULL && state[1] == ' ' && state[2] == 'R';
}

static bool task_is_runnable(int tasks_fd, const char *id)
{
    char path[64];
    bool is_runnable;
    int fd;

    (void)snprintf(path, sizeof path, "%.32s/stat", id);
    fd = openat(tasks_fd, path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return false;
    }
    is_runnable = stat_is_runnable(fd);
    (void)close(fd);
    return is_runnable;
}

int32_t cpu_thread_id(void)
{
    static _Thread_local int32_t id;

    if (id == 0) {
        id = (int32_t)gettid();
    }
    return id;
}

bool cpu_thread_runs(struct cpu_thread *thread, int32_t id)
{
    char path[64];

    if (id == 0) {
        return false;
    }
    if (thread->id != id) {
        cpu_thread_fini(thread);
        (void)snprintf(path, sizeof path, "/proc/self/task/%" PRId32 "/stat", id);
        thread->stat_fd = open(path, O_RDONLY | O_CLOEXEC);
        thread->id = id;
    }
    return stat_is_runnable(thread->stat_fd);
}

void cpu_thread_fini(struct cpu_thread *thread)
{
    if (thread->id != 0 && thread->stat_fd >= 0) {
        (void)close(thread->stat_fd);
    }
    *thread = (struct cpu_thread){ .stat_fd = -1 };
}

/* Runnable threads among the `len` bytes of entries of /proc/self/task. */
static long runnable_entries(int tasks_fd, const char *entries, ssize_t len)
{
    long runnable = 0;
    ssize_t at = 0;

    while (at < len) {
        const struct dirent64 *entry = (const void *)(entries + at);

        at += entry->d_reclen;
        if (entry->d_name[0] != '.' && task_is_runnable(tasks_fd, entry->d_name)) {
            runnable++;
        }
    }
    return runnable;
}

/*
 * Runnable threads of this process, the caller included; when that is `enough`, perhaps
 * not all; -1 when unknown. Reads the directory by system call: opendir() would
 * allocate.
 */
static long runnable_in_process(long enough)
{
    _Alignas(struct dirent64) char entries[FILE_TEXT_MAX];
    int fd = open("/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    long runnable = 0;
    ssize_t len;

    if (fd < 0) {
        return -1;
    }
    do {
        len = getdents64(fd, entries, sizeof entries);
        runnable += runnable_entries(fd, entries, len);
    } while (len > 0 && runnable < enough);
    (void)close(fd);
    return runnable;
}

void cpu_load_init(struct cpu_load *load)
{
    *load = (struct cpu_load){
        .allowed = cpu_allowed_count(),
        .bound = cpu_is_bound(),
        .loadavg_fd = open("/proc/loadavg", O_RDONLY | O_CLOEXEC),
    };
}

void cpu_load_fini(struct cpu_load *load)
{
    if (load->loadavg_fd >= 0) {
        (void)close(load->loadavg_fd);
    }
    *load = (struct cpu_load){ .loadavg_fd = -1 };
}

int cpu_load_idle(struct cpu_load *load, int64_t now_ns)
{
    int64_t start_ns, cost_ns;
    const bool was_free = load->sampled_ns != 0 && load->idle >= 0;
    long runnable;

    if (load->sampled_ns != 0 && now_ns - load->sampled_ns < load->interval_ns) {
        return load->idle;
    }
    start_ns = clock_ns();
    /* With as many others as cores the answer is no, however many more there are. */
    runnable = load->bound ? runnable_in_process(load->allowed + 1L)
                           : runnable_in_machine(load->loadavg_fd);
    /* Knowing nothing, leave the cores to others. */
    load->idle = runnable >= 0 && runnable <= load->allowed
            ? load->allowed - (int)runnable
            : -1;
    load->sampled_ns = now_ns;
    load->confirmed = was_free && load->idle >= 0;
    load->doubted = false;
    load->samples++;
    /* A process of many threads takes long to look at. */
    cost_ns = clock_ns() - start_ns;
    load->interval_ns = SAMPLE_INTERVAL_NS;
    if (cost_ns * SAMPLE_COST_SHARE > SAMPLE_INTERVAL_NS) {
        load->interval_ns = cost_ns * SAMPLE_COST_SHARE;
    }
    return load->idle;
}

bool cpu_load_has_free(struct cpu_load *load, int64_t now_ns)
{
    if (load->sampled_ns != 0 && load->idle >= 0 && !load->doubted) {
        return true;
    }
    return cpu_load_idle(load, now_ns) >= 0;
}

bool cpu_load_is_sure(const struct cpu_load *load, int64_t now_ns)
{
    return load->confirmed && !load->doubted && now_ns - load->sampled_ns < SURE_NS;
}

void cpu_load_doubt(struct cpu_load *load)
{
    load->doubts += load->doubted ? 0 : 1;
    load->doubted = true;
}

bool cpu_load_yield(struct cpu_load *load, int64_t now_ns)
{
    int64_t took_ns;

    if (now_ns < load->no_yield_ns) {
        return false;
    }
    (void)sched_yield();
    took_ns = clock_ns() - now_ns;
    if (took_ns > YIELD_DEAR_NS) {
        load->no_yield_ns = now_ns + took_ns * YIELD_COST_SHARE;
    }
    return true;
}
