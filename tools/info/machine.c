/*
 * Measures memory, caches, cores and the link.
 */
#include "tools/info/machine.h"

#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"

enum {
    CORES_MAX = 256,
    SAMPLES = 5,
    FLAGS = 20000, /* words handed over in a sample */
    WAKES = 200,
    SYSCALLS = 20000,
    SPINS_MAX = 10000
};

/* Four times the last cache, within this; each sample moves about SAMPLE_BYTES. */
#define MEMORY_MIN ((size_t)64 << 20)
#define MEMORY_MAX ((size_t)256 << 20)
#define SAMPLE_BYTES ((size_t)128 << 20)

typedef void (*mover)(char *memory, size_t bytes);

/* Keeps a value, and memory, from being optimised away. */
static _Atomic uint64_t sink;

/* A mover, as the others. NOLINTNEXTLINE(readability-non-const-parameter) */
static void read_all(char *memory, size_t bytes)
{
    const uint64_t *words = (const uint64_t *)(const void *)memory;
    uint64_t sums[4] = { 0 };

    for (size_t i = 0; i + 4 <= bytes / sizeof *words; i += 4) {
        for (size_t k = 0; k < 4; k++) {
            sums[k] += words[i + k];
        }
    }
    atomic_store_explicit(
            &sink, sums[0] + sums[1] + sums[2] + sums[3], memory_order_relaxed);
}

static void write_all(char *memory, size_t bytes)
{
    memset(memory, (int)(atomic_load_explicit(&sink, memory_order_relaxed) & 1), bytes);
}

static void copy_all(char *memory, size_t bytes)
{
    memcpy(memory + bytes / 2, memory, bytes / 2);
}

/* GB/s of one core. */
static double speed_of(mover move, char *memory, size_t bytes)
{
    const size_t rounds = 1 + SAMPLE_BYTES / bytes;
    double best = 0;

    move(memory, bytes);
    for (int sample = 0; sample < SAMPLES; sample++) {
        const int64_t begun = clock_ns();
        double speed;

        for (size_t i = 0; i < rounds; i++) {
            move(memory, bytes);
        }
        speed = (double)(rounds * bytes) / (double)(clock_ns() - begun);
        best = speed > best ? speed : best;
    }
    return best;
}

/* ------------------------------------------------------------------------ threads */

/* Those of the node that this process may be moved to, wherever it is bound. */
static int list_cores(int cores[CORES_MAX])
{
    cpu_set_t bound;
    cpu_set_t allowed;
    int count = 0;

    (void)sched_getaffinity(0, sizeof bound, &bound);
    memset(&allowed, 0xff, sizeof allowed);
    (void)sched_setaffinity(0, sizeof allowed, &allowed);
    (void)sched_getaffinity(0, sizeof allowed, &allowed);
    (void)sched_setaffinity(0, sizeof bound, &bound);
    for (int core = 0; core < CPU_SETSIZE && count < CORES_MAX; core++) {
        if (CPU_ISSET((size_t)core, &allowed)) {
            cores[count++] = core;
        }
    }
    return count;
}

static void pin(int core)
{
    cpu_set_t only;

    CPU_ZERO(&only);
    CPU_SET((size_t)core, &only);
    (void)pthread_setaffinity_np(pthread_self(), sizeof only, &only);
}

struct worker {
    pthread_t thread;
    int core;
    size_t bytes;
    char *memory;
    double speed; /* out */
};

static void *copy_on_core(void *argument)
{
    struct worker *worker = argument;

    pin(worker->core);
    memset(worker->memory, 1, worker->bytes);
    worker->speed = speed_of(copy_all, worker->memory, worker->bytes);
    return NULL;
}

/* GB/s of copies on all cores at once; 0: no memory, or no threads. */
static double speed_of_all(const int *cores, int count, size_t bytes)
{
    struct worker *workers = calloc((size_t)count, sizeof *workers);
    double sum = 0;
    int begun = 0;

    if (workers == NULL) {
        return 0;
    }
    for (int i = 0; i < count; i++) {
        workers[i].core = cores[i];
        workers[i].bytes = bytes;
        workers[i].memory = malloc(bytes);
        if (workers[i].memory == NULL ||
                pthread_create(&workers[i].thread, NULL, copy_on_core, &workers[i]) !=
                        0) {
            free(workers[i].memory);
            break;
        }
        begun++;
    }
    for (int i = 0; i < begun; i++) {
        (void)pthread_join(workers[i].thread, NULL);
        sum += workers[i].speed;
        free(workers[i].memory);
    }
    free(workers);
    return begun == count ? sum : 0;
}

/* ----------------------------------------------------------------------- latencies */

/** Two threads that answer each other. */
struct pair {
    _Atomic uint32_t word;
    int core; /* of the other thread; -1: any */
    sem_t to, from; /* a futex each */
};

static void wait_for(const struct pair *pair, uint32_t value)
{
    int spins = 0;

    while (atomic_load_explicit(&pair->word, memory_order_acquire) != value) {
        if (++spins > SPINS_MAX) {
            (void)sched_yield();
        }
    }
}

static void *answer_flags(void *argument)
{
    struct pair *pair = argument;

    pin(pair->core);
    for (uint32_t i = 0; i < SAMPLES * FLAGS; i++) {
        wait_for(pair, 2 * i + 1);
        atomic_store_explicit(&pair->word, 2 * i + 2, memory_order_release);
    }
    return NULL;
}

static double time_flags(const int *cores, int count)
{
    struct pair pair = { .core = cores[count > 1 ? 1 : 0] };
    pthread_t other;
    double best = 1e9;
    uint32_t i = 0;

    if (count < 2 || pthread_create(&other, NULL, answer_flags, &pair) != 0) {
        return 0;
    }
    for (int sample = 0; sample < SAMPLES; sample++) {
        const int64_t begun = clock_ns();
        double ns;

        for (int n = 0; n < FLAGS; n++, i++) {
            atomic_store_explicit(&pair.word, 2 * i + 1, memory_order_release);
            wait_for(&pair, 2 * i + 2);
        }
        ns = (double)(clock_ns() - begun) / (2.0 * FLAGS);
        best = ns < best ? ns : best;
    }
    (void)pthread_join(other, NULL);
    return best;
}

static void *answer_wakes(void *argument)
{
    struct pair *pair = argument;

    for (int i = 0; i < WAKES; i++) {
        (void)sem_wait(&pair->to);
        (void)sem_post(&pair->from);
    }
    return NULL;
}

/* Half of the best round: each of the two is asleep when it is woken. */
static double time_wakes(void)
{
    struct pair pair = { .core = -1 };
    pthread_t other;
    double best = 1e9;

    (void)sem_init(&pair.to, 0, 0);
    (void)sem_init(&pair.from, 0, 0);
    if (pthread_create(&other, NULL, answer_wakes, &pair) != 0) {
        return 0;
    }
    for (int i = 0; i < WAKES; i++) {
        int64_t begun;
        double ns;

        (void)usleep(100);
        begun = clock_ns();
        (void)sem_post(&pair.to);
        (void)sem_wait(&pair.from);
        ns = (double)(clock_ns() - begun) / 2;
        best = ns < best ? ns : best;
    }
    (void)pthread_join(other, NULL);
    return best;
}

static double time_syscalls(void)
{
    const int64_t begun = clock_ns();

    for (int i = 0; i < SYSCALLS; i++) {
        (void)syscall(SYS_getppid);
    }
    return (double)(clock_ns() - begun) / SYSCALLS;
}

/* ------------------------------------------------------------------------ machine */

static void add_level(struct machine_facts *machine, const char *name, long bytes)
{
    if (bytes > 0) {
        machine->levels[machine->level_count++] =
                (struct memory_level){ .name = name, .bytes = (size_t)bytes };
    }
}

/*
 * What is moved to see a level: most of it, or much more than the last cache. That of a virtual
 * machine may be said to be larger than any sample.
 */
static size_t sample_of(const struct machine_facts *machine, int level)
{
    const size_t bytes = machine->levels[level].bytes;
    const size_t before = level > 0 ? machine->levels[level - 1].bytes : 0;
    size_t sample = bytes / 4 * 3 & ~(size_t)63;

    if (bytes == 0) {
        sample = 4 * before > MEMORY_MIN ? 4 * before : MEMORY_MIN;
    }
    return sample < MEMORY_MAX ? sample : MEMORY_MAX;
}

bool machine_measure(struct machine_facts *machine)
{
    int cores[CORES_MAX];
    char *memory = malloc(MEMORY_MAX);

    *machine = (struct machine_facts){ .cores = list_cores(cores) };
    if (memory == NULL) {
        return false;
    }
    memset(memory, 1, MEMORY_MAX);
    add_level(machine, "L1", sysconf(_SC_LEVEL1_DCACHE_SIZE));
    add_level(machine, "L2", sysconf(_SC_LEVEL2_CACHE_SIZE));
    add_level(machine, "L3", sysconf(_SC_LEVEL3_CACHE_SIZE));
    machine->levels[machine->level_count++] = (struct memory_level){ .name = "memory" };
    for (int l = 0; l < machine->level_count; l++) {
        struct memory_level *level = &machine->levels[l];
        const size_t bytes = sample_of(machine, l);
        const bool shared = l + 2 >= machine->level_count;

        level->read = speed_of(read_all, memory, bytes);
        level->write = speed_of(write_all, memory, bytes);
        level->copy = speed_of(copy_all, memory, bytes);
        level->all = speed_of_all(cores, machine->cores,
                shared ? bytes / (size_t)machine->cores & ~(size_t)63 : bytes);
    }
    free(memory);
    machine->flag_ns = time_flags(cores, machine->cores);
    machine->wake_ns = time_wakes();
    machine->syscall_ns = time_syscalls();
    return machine->levels[machine->level_count - 1].all > 0;
}
