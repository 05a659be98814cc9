/*
 * The rules of the simulated NCCL that tests of the product rely on: each is broken once, by two
 * ranks that are threads of a child, and the child must end with status 97 and say why.
 *
 *     test_gpusim_nccl
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test/gpusim/gpusim_test.h"
#include "test/gpusim/nccl/comm.h"
#include "test/unit/unit.h"

enum {
    RANKS = 2,
    COUNT = 64,
    BYTES = 4096,
    STATUS_FOUND = 97,
    STATUS_WRONG = 3,
    SAID_MAX = 1 << 14
};

/* A rank of the child, after a first allreduce. */
struct rank {
    int rank;
    nccl_comm comm;
    cu_context context;
    cu_stream stream;
    void *memory; /* of the device: BYTES */
    pthread_t thread;
};

static struct {
    void (*body)(struct rank *r);
    const void *argument;
    bool hangs; /* that is reported after a second */
    struct nccl_id ids[2];
    pthread_barrier_t barrier;
} child;

/* In a child, where assertions of cmocka cannot be used. */
static void need(bool is_so, int line)
{
    if (!is_so) {
        (void)fprintf(stderr, "line %d: %s\n", line, ncclGetLastError(NULL));
        _exit(STATUS_WRONG);
    }
}
#define NEED(condition) need((condition), __LINE__)

static void meet(void)
{
    (void)pthread_barrier_wait(&child.barrier);
}

static void *memory_of(size_t bytes)
{
    cu_pointer address = 0;

    NEED(cuMemAlloc_v2(&address, bytes) == CU_SUCCESS);
    return (void *)(uintptr_t)address; // NOLINT(performance-no-int-to-ptr)
}

static nccl_result sum(const struct rank *r, void *input, void *output)
{
    return ncclAllReduce(
            input, output, COUNT, NCCL_FLOAT32, NCCL_SUM, r->comm, r->stream);
}

static void synchronize(const struct rank *r)
{
    NEED(cuStreamSynchronize(r->stream) == CU_SUCCESS);
}

static void *live(void *argument)
{
    struct rank *r = argument;

    NEED(cuDevicePrimaryCtxRetain(&r->context, r->rank) == CU_SUCCESS);
    NEED(cuCtxSetCurrent(r->context) == CU_SUCCESS);
    NEED(cuStreamCreateWithPriority(&r->stream, 1, 0) == CU_SUCCESS);
    NEED(ncclCommInitRank(&r->comm, RANKS, child.ids[0], r->rank) == NCCL_SUCCESS);
    r->memory = memory_of(BYTES);
    NEED(sum(r, r->memory, r->memory) == NCCL_SUCCESS);
    synchronize(r);
    meet();
    if (r->rank == 0 && child.hangs) { /* from here on, and only there */
        (void)setenv("GPUSIM_HANG_S", "1", 1);
    }
    meet();
    child.body(r);
    return NULL;
}

static void run_child(int said)
{
    static struct rank ranks[RANKS];

    NEED(dup2(said, STDERR_FILENO) >= 0);
    (void)unsetenv("CUDA_VISIBLE_DEVICES");
    NEED(cuInit(0) == CU_SUCCESS);
    NEED(pthread_barrier_init(&child.barrier, NULL, RANKS) == 0);
    for (int i = 0; i < RANKS; i++) {
        NEED(ncclGetUniqueId(&child.ids[i]) == NCCL_SUCCESS);
    }
    for (int i = 0; i < RANKS; i++) {
        ranks[i].rank = i;
        NEED(pthread_create(&ranks[i].thread, NULL, live, &ranks[i]) == 0);
    }
    for (int i = 0; i < RANKS; i++) {
        NEED(pthread_join(ranks[i].thread, NULL) == 0);
    }
    exit(0); /* 97, if anything was found */
}

static void expect(void (*body)(struct rank *r), const void *argument, const char *says)
{
    static char text[SAID_MAX];
    const int said = memfd_create("said", MFD_CLOEXEC);
    ssize_t bytes;
    int status = 0;
    pid_t pid;

    child.body = body;
    child.argument = argument;
    child.hangs = strstr(says, "HANG") != NULL || strstr(says, "wait") != NULL;
    (void)fflush(NULL);
    pid = fork();
    if (pid == 0) {
        run_child(said);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    bytes = pread(said, text, sizeof text - 1, 0);
    text[bytes > 0 ? bytes : 0] = '\0';
    (void)close(said);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != STATUS_FOUND ||
            strstr(text, says) == NULL) {
        fail_msg("status %#x, and not \"%s\" but:\n%s", (unsigned)status, says, text);
    }
}

/* -------------------------------------------------------------- calls that must agree */

/* What rank 1 calls, in one group, while rank 0 calls the first of the table. */
static const struct called {
    int times;
    bool broadcasts; /* from rank 0, instead of a sum */
    size_t count;
    nccl_dtype type;
    nccl_op op;
} called[] = {
    { 1, false, COUNT, NCCL_FLOAT32, NCCL_SUM },
    { 1, true, COUNT, NCCL_FLOAT32, NCCL_SUM },
    { 1, false, COUNT - 1, NCCL_FLOAT32, NCCL_SUM },
    { 1, false, COUNT, NCCL_INT32, NCCL_SUM },
    { 1, false, COUNT, NCCL_FLOAT32, NCCL_MAX },
    { 2, false, COUNT, NCCL_FLOAT32, NCCL_SUM },
};

static void call(struct rank *r)
{
    const struct called *c = r->rank == 0 ? called : child.argument;
    void *m = r->memory;

    NEED(ncclGroupStart() == NCCL_SUCCESS);
    for (int i = 0; i < c->times; i++) {
        (void)(c->broadcasts
                        ? ncclBroadcast(m, m, c->count, c->type, 0, r->comm, r->stream)
                        : ncclAllReduce(
                                  m, m, c->count, c->type, c->op, r->comm, r->stream));
    }
    NEED(ncclGroupEnd() == NCCL_SUCCESS);
    synchronize(r);
}

/* Each is the root. */
static void broadcast(struct rank *r)
{
    (void)ncclBroadcast(
            r->memory, r->memory, COUNT, NCCL_FLOAT32, r->rank, r->comm, r->stream);
    synchronize(r);
}

UNIT_TEST(test_ranks_that_call_differently_are_told)
{
    for (size_t i = 1; i < sizeof called / sizeof *called; i++) {
        expect(call, &called[i], "MISMATCH in communicator");
    }
    expect(broadcast, NULL, "MISMATCH in communicator");
}

/* The receiver wants less. */
static void send_more(struct rank *r)
{
    (void)(r->rank == 0
                    ? ncclSend(r->memory, COUNT, NCCL_FLOAT32, 1, r->comm, r->stream)
                    : ncclRecv(r->memory, COUNT - 1, NCCL_FLOAT32, 0, r->comm,
                              r->stream));
    synchronize(r);
}

/* Both send first. */
static void send_ungrouped(struct rank *r)
{
    const int peer = 1 - r->rank;

    (void)ncclSend(r->memory, COUNT, NCCL_FLOAT32, peer, r->comm, r->stream);
    (void)ncclRecv(r->memory, COUNT, NCCL_FLOAT32, peer, r->comm, r->stream);
    synchronize(r);
}

/* ------------------------------------------------------------------ rules of one rank */

/* Two communicators' collectives in different orders: a device runs one at a time. */
static void cross(struct rank *r)
{
    void *other = memory_of(BYTES);
    cu_stream streams[] = { r->stream, NULL };
    nccl_comm comms[] = { r->comm, NULL };

    NEED(cuStreamCreateWithPriority(&streams[1], 1, 0) == CU_SUCCESS);
    NEED(ncclCommInitRank(&comms[1], RANKS, child.ids[1], r->rank) == NCCL_SUCCESS);
    for (int i = 0; i < 2; i++) {
        const int which = r->rank == 0 ? i : 1 - i;

        NEED(ncclAllReduce(which == 0 ? r->memory : other,
                     which == 0 ? r->memory : other, COUNT, NCCL_FLOAT32, NCCL_SUM,
                     comms[which], streams[which]) == NCCL_SUCCESS);
        while (i == 0 && gpusim_nccl_live().resident < RANKS) {
            (void)usleep(200);
        }
        meet();
    }
    NEED(cuStreamSynchronize(streams[0]) == CU_SUCCESS);
}

static void use_destroyed(struct rank *r)
{
    NEED(ncclCommDestroy(r->comm) == NCCL_SUCCESS);
    NEED(sum(r, r->memory, r->memory) == NCCL_INVALID_ARGUMENT);
    meet();
}

static void *call_sum(void *argument)
{
    struct rank *r = argument;

    NEED(cuCtxSetCurrent(r->context) == CU_SUCCESS);
    (void)sum(r, r->memory, r->memory);
    return NULL;
}

/* A blocking call that has not returned does not make an abort wait. */
static void abort_under(struct rank *r)
{
    pthread_t caller;

    if (r->rank == 0) {
        gpusim_fail("late of rank 0", 1, 1);
        NEED(pthread_create(&caller, NULL, call_sum, r) == 0);
        while (gpusim_nccl_live().resident == 0) {
            (void)usleep(200);
        }
        NEED(ncclCommAbort(r->comm) == NCCL_SUCCESS);
        NEED(pthread_join(caller, NULL) == 0);
    }
    meet();
}

static void *registered(struct rank *r, size_t bytes)
{
    void *memory;
    void *handle;

    NEED(ncclMemAlloc(&memory, bytes) == NCCL_SUCCESS);
    NEED(ncclCommRegister(r->comm, memory, bytes, &handle) == NCCL_SUCCESS);
    return memory;
}

/* One rank gives memory that is registered, the other does not. */
static void register_apart(struct rank *r)
{
    void *memory = r->rank == 0 ? registered(r, BYTES) : r->memory;

    NEED(sum(r, memory, memory) == NCCL_SUCCESS);
    synchronize(r);
}

/* Each rank gives memory that is registered, but not what the other has registered with it. */
static void register_crossed(struct rank *r)
{
    void *first = registered(r, BYTES);
    void *second = registered(r, BYTES);
    void *memory = r->rank == 0 ? first : second;

    NEED(sum(r, memory, memory) == NCCL_SUCCESS);
    synchronize(r);
}

static void leave_registered(struct rank *r)
{
    (void)registered(r, BYTES);
    NEED(ncclCommDestroy(r->comm) == NCCL_SUCCESS);
}

static void free_registered(struct rank *r)
{
    NEED(ncclMemFree(registered(r, BYTES)) == NCCL_SUCCESS);
    meet();
}

/* All ranks give the same ids; the second is here one that each has made. */
static void differ_in_ids(struct rank *r)
{
    struct nccl_id ids[2] = { child.ids[1] };
    struct nccl_config config;
    nccl_comm comm;

    NEED(ncclGetUniqueId(&ids[1]) == NCCL_SUCCESS);
    nccl_config_init(&config, "ids");
    config.blocking = 1;
    NEED(ncclCommInitRankScalable(&comm, RANKS, r->rank, 2, ids, &config) !=
            NCCL_SUCCESS);
}

static void overlap(struct rank *r)
{
    NEED(sum(r, r->memory, (float *)r->memory + 1) != NCCL_SUCCESS);
}

/* A collective is seen by the happens-before check as what it reads and writes. */
static void race(struct rank *r)
{
    cu_stream second;

    NEED(cuStreamCreateWithPriority(&second, 1, 0) == CU_SUCCESS);
    NEED(cuMemsetD8Async((uint64_t)(uintptr_t)r->memory, 0, BYTES, second) == 0);
    NEED(sum(r, r->memory, r->memory) == NCCL_SUCCESS);
    synchronize(r);
}

UNIT_TEST(test_rules_that_are_broken_are_told)
{
    static const struct {
        void (*body)(struct rank *r);
        const char *says;
    } rows[] = {
        { send_more, "does ncclSend of 63 x " },
        { send_ungrouped, "waits in ncclSend" },
        { cross, "HANG: rank" },
        { use_destroyed, "use after its end" },
        { abort_under, "another thread is in a call on it" },
        { register_apart, "registered at 0 and 0" },
        { register_crossed, "registered at 10000000001 and 10000000001" },
        { differ_in_ids, "does ncclCommInitRank of " },
        { leave_registered, "memory is still registered with it" },
        { free_registered, "which is registered with a communicator" },
        { overlap, "input and output overlap" },
        { race, "RACE" },
    };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        expect(rows[i].body, NULL, rows[i].says);
    }
}
