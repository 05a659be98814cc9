/*
 * What a rank may do instead of going on: it hangs in one way or another, or ends in one.
 */
#include "misbehave.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <mpi.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    PAGE = 4096,
    BLOCK = 1 << 24
};

static void say_and_exit(const char *what)
{
    (void)fprintf(stderr, "%s: %s\n", what, strerror(errno));
    exit(4); /* NOLINT(concurrency-mt-unsafe): nothing else runs that would mind */
}

/* ------------------------------------------------------------------ it hangs */

void lock_up(void)
{
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

    (void)pthread_mutex_lock(&mutex);
    (void)pthread_mutex_lock(&mutex);
}

static void wait_for_a_signal_of_none(void)
{
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    pthread_cond_t condition = PTHREAD_COND_INITIALIZER;

    (void)pthread_mutex_lock(&mutex);
    (void)pthread_cond_wait(&condition, &mutex);
}

static void compute(void)
{
    for (volatile unsigned long i = 0;; i++) {
        /* for ever */
    }
}

static void sleep_long(void)
{
    (void)sleep(PAGE);
}

static void read_pipe(void)
{
    int ends[2];
    char byte;

    if (pipe(ends) == 0) {
        (void)!read(ends[0], &byte, 1);
    }
}

static void fill_pipe(void)
{
    static char block[PAGE];
    int ends[2];

    while (pipe(ends) == 0) {
        while (write(ends[1], block, sizeof block) > 0) {
            /* until nobody reads */
        }
    }
}

static void read_socket(void)
{
    int ends[2];
    char byte;

    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0) {
        (void)!read(ends[0], &byte, 1);
    }
}

static void poll_for_ever(void)
{
    (void)poll(NULL, 0, -1);
}

static void lock_file(void)
{
    char name[] = "/tmp/tutti-faulty-XXXXXX";
    const int first = mkstemp(name);
    const int second = open(name, O_RDWR | O_CLOEXEC);

    (void)unlink(name);
    (void)flock(first, LOCK_EX);
    (void)flock(second, LOCK_EX);
}

static void wait_for_child(void)
{
    const pid_t child = fork();

    if (child == 0) {
        sleep_long();
    }
    (void)waitpid(child, NULL, 0);
}

/* As a program that starts another one, which does not get as far as to run. */
static void wait_for_vfork(void)
{
    const pid_t child = vfork(); /* NOLINT(clang-analyzer-security.insecureAPI.vfork) */

    if (child == 0) {
        for (;;) {
            (void)sleep(PAGE); /* NOLINT(clang-analyzer-unix.Vfork): it is the fault */
        }
    }
}

static void receive(void)
{
    int rank;
    char byte;

    (void)MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    (void)MPI_Recv(&byte, 1, MPI_BYTE, rank, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void stop(void)
{
    (void)raise(SIGSTOP);
}

/* -------------------------------------------------------------------- it ends */

static void be_killed(void)
{
    (void)raise(SIGKILL);
}

static void be_terminated(void)
{
    (void)raise(SIGTERM);
}

static void read_nowhere(void)
{
    (void)*(volatile char *)(uintptr_t)PAGE; /* NOLINT(performance-no-int-to-ptr) */
}

static void read_beyond_file(void)
{
    char name[] = "/tmp/tutti-faulty-XXXXXX";
    const int file = mkstemp(name);
    volatile char *memory = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, file, 0);

    (void)unlink(name);
    (void)memory[0];
}

static void divide_by_zero(void)
{
    volatile int zero = 0;

    zero = 1 / zero; /* NOLINT(clang-analyzer-core.DivideZero): it is the fault */
    (void)raise(SIGFPE);
}

static void run_nonsense(void)
{
    (void)raise(SIGILL); /* as on a processor that lacks an instruction */
}

static void assert_wrongly(void)
{
    (void)signal(SIGABRT, SIG_DFL);
    (void)fprintf(stderr, "Assertion `loss >= 0' failed.\n");
    abort();
}

static void write_to_nobody(void)
{
    int ends[2];

    if (pipe(ends) == 0) {
        (void)signal(SIGPIPE, SIG_DFL); /* which tutti has ignored */
        (void)close(ends[0]);
        (void)!write(ends[1], "", 1);
    }
}

static void limit(int what, rlim_t most)
{
    (void)setrlimit((__rlimit_resource_t)what,
            &(struct rlimit){ .rlim_cur = most, .rlim_max = most });
}

static void run_out_of_time(void)
{
    struct rusage used;

    (void)getrusage(RUSAGE_SELF, &used);
    limit(RLIMIT_CPU, (rlim_t)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) + 1);
    compute();
}

static void write_too_much(void)
{
    char name[] = "/tmp/tutti-faulty-XXXXXX";
    const int file = mkstemp(name);

    (void)unlink(name);
    limit(RLIMIT_FSIZE, 0);
    (void)!write(file, name, sizeof name);
}

static void fill_disk(void)
{
    FILE *file = fopen("/dev/full", "w");

    if (file == NULL || fputs("state", file) < 0 || fclose(file) != 0) {
        say_and_exit("checkpoint 17");
    }
}

static void run_out_of_files(void)
{
    limit(RLIMIT_NOFILE, 3);
    if (open("/dev/null", O_RDONLY | O_CLOEXEC) < 0) {
        say_and_exit("shard 3");
    }
}

static void run_out_of_addresses(void)
{
    void *block;

    limit(RLIMIT_AS, BLOCK);
    block = malloc((size_t)BLOCK * 2);
    if (block == NULL) {
        say_and_exit("activations");
    }
    free(block);
}

static void use_all_memory(void)
{
    char *block;

    do {
        block = malloc(BLOCK);
        memset(block, 1, BLOCK); /* never NULL: it is killed first */
    } while (block != NULL); /* NOLINT(clang-analyzer-unix.Malloc) */
}

static void exit_3(void)
{
    exit(3); /* NOLINT(concurrency-mt-unsafe) */
}

static void exit_0(void)
{
    exit(0); /* NOLINT(concurrency-mt-unsafe) */
}

static void abort_mpi(void)
{
    (void)MPI_Abort(MPI_COMM_WORLD, 9);
}

static const struct {
    const char *name;
    void (*run)(void);
} faults[] = {
    { "stopped", stop },
    { "locked", lock_up },
    { "joined", lock_up },
    { "waits", wait_for_a_signal_of_none },
    { "computes", compute },
    { "sleeps", sleep_long },
    { "reads", read_pipe },
    { "writes", fill_pipe },
    { "socket", read_socket },
    { "polls", poll_for_ever },
    { "flock", lock_file },
    { "child", wait_for_child },
    { "vfork", wait_for_vfork },
    { "receives", receive },
    { "frozen", compute },
    { "killed", be_killed },
    { "terminated", be_terminated },
    { "segv", read_nowhere },
    { "bus", read_beyond_file },
    { "fpe", divide_by_zero },
    { "ill", run_nonsense },
    { "assert", assert_wrongly },
    { "pipe", write_to_nobody },
    { "time", run_out_of_time },
    { "size", write_too_much },
    { "full", fill_disk },
    { "files", run_out_of_files },
    { "addresses", run_out_of_addresses },
    { "memory", use_all_memory },
    { "exit3", exit_3 },
    { "exit0", exit_0 },
    { "mpi_abort", abort_mpi },
};

void misbehave(const char *fault)
{
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        if (strcmp(faults[i].name, fault) == 0) {
            faults[i].run();
        }
    }
}
