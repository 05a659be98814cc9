/*
 * Cores and load: how many cores this process may use, and whether one of them is idle.
 * Facts from sched_getaffinity, the cgroup's cpu.max and /proc.
 */
#ifndef TUTTI_BASE_CPU_H
#define TUTTI_BASE_CPU_H

#include <stdbool.h>
#include <stdint.h>

/** Cores this process may use: affinity, limited by cgroup cpu.max; at least 1. */
int cpu_allowed_count(void);
/** Whole cores in the text of a cpu.max, "150000 100000"; LONG_MAX: no limit in it. */
long cpu_max_parse(const char *text);
/** True when the affinity mask is smaller than the set of online cores. */
bool cpu_is_bound(void);

/** Remembers a sample of the load, so that asking often is cheap. Of one thread. */
struct cpu_load {
    int allowed; /* cpu_allowed_count() at init */
    bool bound; /* cpu_is_bound() at init */
    int loadavg_fd; /* /proc/loadavg kept open; -1: not readable */
    int64_t sampled_ns; /* time of the last sample; 0: none */
    int64_t interval_ns; /* until the next sample: 500 us, or more when it is dear */
    int idle; /* its result */
    bool confirmed; /* and that of the sample before it: a core is free */
    bool doubted; /* something since then speaks against a free core */
    uint64_t samples, doubts; /* how many so far */
    int64_t no_yield_ns; /* until then a yield is dear: cpu_load_yield() */
};

void cpu_load_init(struct cpu_load *load);
void cpu_load_fini(struct cpu_load *load);

/**
 * Cores that nobody uses: allowed cores minus runnable threads (of this process when it is
 * bound, of the machine otherwise), the caller counted. Below 0: more threads than cores,
 * or nothing is known. Samples at most every 500 us and for at most 3 % of the time.
 */
int cpu_load_idle(struct cpu_load *load, int64_t now_ns);

/**
 * True when the calling thread may spin without taking a core from a runnable thread:
 * cpu_load_idle() was not below 0. That is believed without another look until it is
 * doubted, so a thread that keeps its core makes no system call here.
 */
bool cpu_load_has_free(struct cpu_load *load, int64_t now_ns);

/**
 * True when two samples in a row found a core free, the last one less than 100 ms ago, and
 * there is no doubt: the caller may spin even where it would otherwise yield. Samples
 * nothing.
 */
bool cpu_load_is_sure(const struct cpu_load *load, int64_t now_ns);

/**
 * Says that others may want the core: the caller lost it for a while, or waits in vain, or
 * slept and knows nothing of the meantime. Costs nothing by itself; the next
 * cpu_load_has_free() looks, if it is time.
 */
void cpu_load_doubt(struct cpu_load *load);

/**
 * Gives the core to another thread for a moment, unless such moments have lately been long:
 * beside busy threads a yield takes a slice of each of them, milliseconds, where a sleep is ended
 * by its wake-up.
 * @return false: did nothing, the caller had better sleep
 */
bool cpu_load_yield(struct cpu_load *load, int64_t now_ns);

/** The kernel's number of the calling thread; a system call for the first call of a thread. */
int32_t cpu_thread_id(void);
/** A thread of this process that is looked at. Zeroed is valid. */
struct cpu_thread {
    int32_t id; /* 0: none yet */
    int stat_fd; /* its stat of /proc, kept open; -1: cannot be read */
};

/** True when thread `id` runs or waits for a core; false when it sleeps or has ended, and where
 * nothing is known. */
bool cpu_thread_runs(struct cpu_thread *thread, int32_t id);
void cpu_thread_fini(struct cpu_thread *thread);

/** One pause of a spin loop. */
static inline void cpu_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

#endif
