/*
 * Running a case by several ranks.
 */
#include "test/gpusim/nccl/test/ranks.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"

enum {
    NS_PER_MS = 1000000,
    RUN_LIMIT_S = 100, /* then the ranks are killed, and the test fails */
    SAID_MAX = 1 << 16,
    FAILED_STATUS = 1,
    FOUND_STATUS = 97, /* a rule was broken: as reports.c ends a process */
    STREAM_NON_BLOCKING = 1
};

_Noreturn void rank_failed(const char *file, int line, const char *what)
{
    (void)fprintf(stderr, "%s:%d: not so: %s (NCCL: %s)\n", file, line, what,
            ncclGetLastError(NULL));
    _exit(FAILED_STATUS);
}

/* Polls a condition of another rank; the run's limit ends it. */
static void await(_Atomic uint32_t *word, uint32_t value)
{
    while (atomic_load(word) < value) {
        clock_sleep_ns(NS_PER_MS / 4);
    }
}

void rank_meet(struct rank *rank)
{
    rank->meetings++;
    (void)atomic_fetch_add(&rank->shared->arrived, 1);
    await(&rank->shared->arrived, rank->meetings * (uint32_t)rank->ranks);
}

void rank_tell(const struct rank *rank, int flag)
{
    (void)atomic_fetch_add(&rank->shared->flags[flag], 1);
}

void rank_await(const struct rank *rank, int flag, uint32_t value)
{
    await(&rank->shared->flags[flag], value);
}

void rank_join(struct rank *rank, int id, nccl_comm *comm)
{
    CHECK(ncclCommInitRank(comm, rank->ranks, rank->shared->ids[id], rank->rank) ==
            NCCL_SUCCESS);
}

void rank_sync(const struct rank *rank)
{
    CHECK(cuStreamSynchronize(rank->stream) == CU_SUCCESS);
}

uint64_t rank_alloc(size_t bytes)
{
    cu_pointer memory;

    CHECK(cuMemAlloc_v2(&memory, bytes) == CU_SUCCESS);
    return memory;
}

void rank_free(uint64_t memory)
{
    CHECK(cuMemFree_v2(memory) == CU_SUCCESS);
}

void *rank_pointer(uint64_t memory)
{
    void *pointer;

    memcpy(&pointer, &memory, sizeof pointer);
    return pointer;
}

nccl_result rank_poll(nccl_comm comm)
{
    nccl_result result;

    for (;;) {
        CHECK(ncclCommGetAsyncError(comm, &result) == NCCL_SUCCESS);
        if (result != NCCL_IN_PROGRESS) {
            return result;
        }
        clock_sleep_ns(NS_PER_MS / 4);
    }
}

/* ---- a rank's life ---- */

struct run {
    void (*body)(struct rank *rank);
    struct rank rank;
};

static void *live(void *argument)
{
    struct run *run = argument;
    struct rank *rank = &run->rank;
    size_t i;

    CHECK(cuInit(0) == CU_SUCCESS);
    CHECK(cuDevicePrimaryCtxRetain(&rank->context, rank->rank) == CU_SUCCESS);
    CHECK(cuCtxSetCurrent(rank->context) == CU_SUCCESS);
    CHECK(cuStreamCreateWithPriority(&rank->stream, STREAM_NON_BLOCKING, 0) ==
            CU_SUCCESS);
    if (rank->rank == 0) {
        for (i = 0; i < sizeof rank->shared->ids / sizeof rank->shared->ids[0]; i++) {
            CHECK(ncclGetUniqueId(&rank->shared->ids[i]) == NCCL_SUCCESS);
        }
    }
    rank_meet(rank);
    run->body(rank);
    return NULL;
}

static void start_threads(const struct run *runs, int ranks)
{
    struct run mine[RANKS_MAX];
    pthread_t threads[RANKS_MAX];
    int rank;

    for (rank = 0; rank < ranks; rank++) {
        mine[rank] = runs[rank];
        CHECK(pthread_create(&threads[rank], NULL, live, &mine[rank]) == 0);
    }
    for (rank = 0; rank < ranks; rank++) {
        CHECK(pthread_join(threads[rank], NULL) == 0);
    }
}

/* ---- the program that starts them ---- */

static pid_t children[RANKS_MAX];

static void kill_all(int count)
{
    int i;

    for (i = 0; i < count; i++) {
        if (children[i] > 0) {
            (void)kill(children[i], SIGKILL);
        }
    }
}

static void start_child(const struct run *runs, int index, int ranks, int said)
{
    struct run run = runs[index];

    children[index] = fork();
    CHECK(children[index] >= 0);
    if (children[index] != 0) {
        return;
    }
    CHECK(dup2(said, STDERR_FILENO) >= 0);
    if (run.rank.is_thread) {
        start_threads(runs, ranks);
    } else {
        (void)live(&run);
    }
    exit(0);
}

/* What a child's end means: 0, its status, or 128 and the signal. */
static int status_of(int raw)
{
    return WIFSIGNALED(raw) ? 128 + WTERMSIG(raw) : WEXITSTATUS(raw);
}

/* Waits for all; a rank that fails ends all, as a launcher would. The first status. */
static int reap(int count, bool may_die)
{
    int64_t end = clock_ns() + (int64_t)RUN_LIMIT_S * 1000 * NS_PER_MS;
    int first = 0;
    int left = count;
    int status;
    int raw;
    int i;
    pid_t pid;

    while (left > 0) {
        pid = waitpid(-1, &raw, WNOHANG);
        if (pid <= 0) {
            if (clock_ns() > end) {
                (void)fprintf(stderr, "the ranks do not end\n");
                kill_all(count);
                return FAILED_STATUS;
            }
            clock_sleep_ns(NS_PER_MS);
            continue;
        }
        for (i = 0; children[i] != pid; i++) {
        }
        children[i] = 0;
        left--;
        status = status_of(raw);
        if (status == 0 || (may_die && i != 0 && status == 128 + SIGKILL)) {
            continue;
        }
        if (first == 0) {
            first = status;
            kill_all(count);
        }
    }
    return first;
}

static bool says(int said, const char *text)
{
    static char all[SAID_MAX + 1];
    ssize_t bytes = pread(said, all, SAID_MAX, 0);

    CHECK(bytes >= 0);
    all[bytes] = '\0';
    (void)fputs(all, stderr);
    return text == NULL || strstr(all, text) != NULL;
}

int ranks_run(const struct rank_case *what, int ranks, bool threads)
{
    const int expected = what->found == NULL ? 0 : FOUND_STATUS;
    struct run runs[RANKS_MAX];
    int said = memfd_create("said", MFD_CLOEXEC);
    struct ranks_shared *shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE,
            MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int count = threads ? 1 : ranks;
    int status;
    int i;

    CHECK(said >= 0 && shared != MAP_FAILED && ranks <= RANKS_MAX);
    for (i = 0; i < ranks; i++) {
        runs[i] = (struct run){ .body = what->body,
            .rank = { .rank = i,
                    .ranks = ranks,
                    .is_thread = threads,
                    .shared = shared } };
    }
    for (i = 0; i < count; i++) {
        start_child(runs, i, ranks, said);
    }
    status = reap(count, what->may_die);
    if (!says(said, what->found)) {
        (void)fprintf(stderr, "nobody said: %s\n", what->found);
        return 1;
    }
    if (status != expected) {
        (void)fprintf(
                stderr, "the first status is %d, expected %d\n", status, expected);
        return 1;
    }
    return 0;
}
