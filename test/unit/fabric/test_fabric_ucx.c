/*
 * The fabric over UCX between processes, which meet in shared memory: test_fabric_ucx TOPIC.
 */
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "fabric/ucx/ucx.h"
#include "fabric/ucx/watch.h"

enum {
    RANKS = 3,
    BOOT_BYTES = 4096,
    REQUESTS = 64,
    LONG_BYTES = 3 << 20
};

#define CHECK(what) check((what), #what, __LINE__)

/* All that the ranks share but UCX. */
static struct shared {
    pthread_barrier_t barrier;
    pid_t processes[RANKS]; /* of test_leave() */
    uint8_t bytes[RANKS][BOOT_BYTES];
} * shared;

static int me;
static struct fabric fabric;
static _Alignas(8) uint8_t requests[REQUESTS * 64];

static void check(bool is_true, const char *what, int line)
{
    if (!is_true) {
        (void)fprintf(stderr, "rank %d, line %d: not so: %s (%s)\n", me, line, what,
                tutti_last_error());
        _Exit(1);
    }
}

static tutti_status allgather(void *user, const void *mine, void *all, size_t bytes)
{
    (void)user;
    CHECK(bytes <= BOOT_BYTES);
    memcpy(shared->bytes[me], mine, bytes);
    (void)pthread_barrier_wait(&shared->barrier);
    for (int r = 0; r < RANKS; r++) {
        memcpy((uint8_t *)all + (size_t)r * bytes, shared->bytes[r], bytes);
    }
    (void)pthread_barrier_wait(&shared->barrier);
    return TUTTI_OK;
}

static void open_fabric(void)
{
    const struct boot boot = {
        .name = "test", .rank = me, .size = RANKS, .allgather = allgather
    };

    CHECK(fabric_ucx_open(&boot, &fabric) == TUTTI_OK);
    CHECK(fabric.ops->request_bytes * REQUESTS <= sizeof requests);
    fabric.ops->clear(requests, REQUESTS);
}

static bool is_free(int index)
{
    return fabric.ops->are_free(fabric_request(&fabric, requests, index), 1);
}

static void send_to(int to, int tag, const void *bytes, size_t len, int index)
{
    CHECK(is_free(index));
    CHECK(fabric.ops->send(fabric.state, FABRIC_DATA, to, tag, bytes, len, requests,
                  index) == TUTTI_OK);
}

static void receive_from(int from, int tag, void *bytes, size_t len, int index)
{
    CHECK(fabric.ops->receive(fabric.state,
                  from == FABRIC_ANY ? FABRIC_CONTROL : FABRIC_DATA, from, tag, bytes,
                  len, requests, index) == TUTTI_OK);
}

static tutti_status poll_all(int *count)
{
    int done[REQUESTS];

    return fabric.ops->poll(fabric.state, requests, REQUESTS, REQUESTS, done, count);
}

/* Until all requests are complete. */
static void wait_for_all(void)
{
    while (!fabric.ops->are_free(requests, REQUESTS)) {
        int count = 0;

        CHECK(poll_all(&count) == TUTTI_OK);
    }
}

/* What one of them, a receive, has brought. */
static struct fabric_arrival wait_for(int index)
{
    struct fabric_arrival arrival = { .from = -1 };
    tutti_status status;

    do {
        status = fabric.ops->test(fabric.state, requests, index, &arrival);
    } while (status == TUTTI_AGAIN);
    CHECK(status == TUTTI_OK);
    return arrival;
}

static void meet(void)
{
    (void)pthread_barrier_wait(&shared->barrier);
}

/* Whoever this rank sends to is at the other end of an endpoint, as in a tree. */
static void greet_all(void)
{
    const uint8_t own = (uint8_t)me;
    uint8_t in[RANKS];

    for (int r = 0; r < RANKS; r++) {
        if (r != me) {
            receive_from(r, 1, &in[r], 1, r);
            send_to(r, 1, &own, 1, RANKS + r);
        }
    }
    wait_for_all();
}

/* ---------------------------------------------------------------------- topics */

/* Every length goes around; ranks give bytes of their own, tags and channels differ. */
static void test_messages(void)
{
    static const size_t lengths[] = { 0, 1, 4032, 65536, LONG_BYTES };
    uint8_t *out = malloc(LONG_BYTES);
    uint8_t *in = malloc(LONG_BYTES);
    const int to = (me + 1) % RANKS;
    const int from = (me + RANKS - 1) % RANKS;

    CHECK(out != NULL && in != NULL);
    memset(out, 7 * me + 1, LONG_BYTES);
    for (int i = 0; i < 5; i++) {
        struct fabric_arrival arrival;

        memset(in, 0, LONG_BYTES);
        send_to(to, FABRIC_TAG_MAX - i, out, lengths[i], 0);
        receive_from(from, FABRIC_TAG_MAX - i, in, LONG_BYTES, 1);
        arrival = wait_for(1);
        wait_for_all();
        for (size_t b = 0; b < LONG_BYTES; b++) {
            CHECK(in[b] == (b < lengths[i] ? 7 * from + 1 : 0));
        }
        CHECK(arrival.from == from && arrival.bytes == lengths[i]);
    }
    /* No message has met these, and none is taken for theirs. */
    receive_from(from, 3, in, 8, 2);
    receive_from(from, 4, in, 8, 3);
    fabric.ops->cancel(fabric.state, fabric_request(&fabric, requests, 2), 1);
    send_to(to, 4, out, 8, 4);
    wait_for_all();
    CHECK(in[0] == 7 * from + 1 &&
            fabric.ops->let_go(fabric.state, requests, REQUESTS));
    meet();
    free(out);
    free(in);
}

/* One rank's messages of a tag keep their order, also when received from any. */
static void test_order_any(void)
{
    uint32_t next[RANKS] = { 0 };
    uint32_t value = 0;

    for (uint32_t i = 0; i < 500; i++) {
        if (me == 0) {
            struct fabric_arrival done;

            for (int twice = 0; twice < RANKS - 1; twice++) {
                receive_from(FABRIC_ANY, 5, &value, sizeof value, 0);
                done = wait_for(0);
                CHECK(done.bytes == sizeof value && done.from > 0);
                CHECK(value == next[done.from]++ * 10 + (uint32_t)done.from);
            }
        } else {
            value = i * 10 + (uint32_t)me;
            CHECK(fabric.ops->send(fabric.state, FABRIC_CONTROL, 0, 5, &value,
                          sizeof value, requests, 0) == TUTTI_OK);
            wait_for_all();
        }
    }
    meet();
}

/* Sleeps until what is awaited is here; a message that is lost hangs. */
static void sleep_until(struct doorbell *bell, int index)
{
    while (!is_free(index)) {
        const uint32_t seen = doorbell_listen(bell);
        int count = 0;

        CHECK(poll_all(&count) == TUTTI_OK);
        if (count == 0 && fabric.ops->arm(fabric.state)) {
            doorbell_sleep(bell, seen, INT64_MAX);
        }
    }
}

static void test_sleep(void)
{
    static struct doorbell bell;
    uint32_t value = 0;

    fabric.ops->listen(fabric.state, &bell);
    for (uint32_t i = 0; i < 300; i++) {
        if (me == 0) {
            send_to(1, 2, &i, sizeof i, 0);
            sleep_until(&bell, 0);
        }
        if (me < 2) {
            receive_from(1 - me, 2, &value, sizeof value, 1);
            sleep_until(&bell, 1);
            CHECK(value == i);
        }
        if (me == 1) {
            send_to(0, 2, &value, sizeof value, 0);
            sleep_until(&bell, 0);
        }
    }
    meet();
}

/*
 * What one request's poll completes of another is told: rank 1 has looked for data in vain,
 * and takes it in while it looks for a control message. UCX has nothing to report any more.
 */
static void test_taken(void)
{
    static struct doorbell bell;
    uint32_t value = 0;
    uint32_t seen;
    int count = 0;

    greet_all();
    fabric.ops->listen(fabric.state, &bell);
    if (me == 1) {
        receive_from(0, 2, &value, sizeof value, 0);
        receive_from(FABRIC_ANY, 5, &value, sizeof value, 1);
    }
    seen = doorbell_listen(&bell);
    CHECK(poll_all(&count) == TUTTI_OK && count == 0);
    meet();
    if (me == 0) {
        send_to(1, 2, &me, sizeof me, 0);
        wait_for_all();
    }
    meet();
    if (me == 1) {
        do {
            CHECK(fabric.ops->test(fabric.state, requests, 1, NULL) == TUTTI_AGAIN);
        } while (!fabric.ops->arm(fabric.state));
        CHECK(doorbell_listen(&bell) != seen);
        CHECK(poll_all(&count) == TUTTI_OK && count == 1 && is_free(0));
        fabric.ops->cancel(fabric.state, fabric_request(&fabric, requests, 1), 1);
        wait_for_all();
    }
    meet();
}

/* What is readable although nothing is to be had, as a worker of UCX that connects, rings no
 * sleep away at once: there is none. */
static void test_readable(void)
{
    const uint64_t one = 1;
    uint64_t value;
    const int messages = eventfd(0, EFD_CLOEXEC);
    struct watch watch;

    CHECK(messages >= 0 && watch_init(&watch, messages) == TUTTI_OK);
    CHECK(write(messages, &one, sizeof one) == sizeof one && !watch_arm(&watch));
    CHECK(read(messages, &value, sizeof value) == sizeof value && watch_arm(&watch));
    watch_fini(&watch);
    (void)close(messages);
    meet();
}

/* Rank 1 dies while the others sleep: both are told who. Without a parent it is a zombie. */
static void test_death(void)
{
    static struct doorbell bell;
    tutti_status status = TUTTI_OK;
    int count = 0;

    greet_all();
    fabric.ops->listen(fabric.state, &bell);
    meet();
    if (me == 1) {
        (void)raise(SIGKILL);
    }
    while (status == TUTTI_OK) {
        const uint32_t seen = doorbell_listen(&bell);

        status = poll_all(&count);
        if (status == TUTTI_OK && fabric.ops->arm(fabric.state)) {
            doorbell_sleep(&bell, seen, INT64_MAX);
        }
    }
    CHECK(status == TUTTI_ERR_MPI && strstr(tutti_last_error(), "rank 1 ") != NULL);
    CHECK(fabric.ops->send(fabric.state, FABRIC_DATA, 1, 9, "x", 1, requests, 0) !=
                    TUTTI_OK &&
            strstr(tutti_last_error(), "rank 1 ") != NULL);
    /* Those who live still reach each other. */
    send_to(2 - me, 6, &me, sizeof me, 0);
    receive_from(2 - me, 6, &count, sizeof count, 1);
    for (int i = 0; i < 2; i++) {
        while (fabric.ops->test(fabric.state, requests, i, NULL) != TUTTI_OK) {
        }
    }
    fabric_ucx_close(&fabric, true);
    _Exit(0);
}

/* Who says goodbye has not died, not even for those who look when it is long gone. */
static void test_leave(void)
{
    int count = 0;

    greet_all();
    if (me != 2) {
        shared->processes[me] = getpid();
        meet();
        fabric_ucx_close(&fabric, true); /* waits for nobody */
        _Exit(0);
    }
    meet();
    while (kill(shared->processes[0], 0) == 0 || kill(shared->processes[1], 0) == 0) {
        clock_sleep_ns(1000000);
    }
    for (int i = 0; i < 1000; i++) {
        CHECK(poll_all(&count) == TUTTI_OK);
    }
    send_to(0, 1, "x", 1, 0); /* nobody hears it, and that is no error */
    wait_for_all();
    fabric_ucx_close(&fabric, false);
    _Exit(0);
}

/* One rank cannot start: all others hear which. */
static void test_refused(void)
{
    const struct boot boot = {
        .name = "test", .rank = me, .size = RANKS, .allgather = allgather
    };

    if (me == 1) {
        (void)setenv("UCX_TLS", "nonsense", 1);
    }
    CHECK(fabric_ucx_open(&boot, &fabric) == TUTTI_ERR_MPI);
    CHECK(strstr(tutti_last_error(), me == 1 ? "UCX cannot start" : "rank 1 ") != NULL);
    _Exit(0);
}

/* -------------------------------------------------------------------- processes */

static const struct topic {
    const char *name;
    void (*run)(void);
} topics[] = {
    { .name = "messages", .run = test_messages },
    { .name = "order_any", .run = test_order_any },
    { .name = "sleep", .run = test_sleep },
    { .name = "taken", .run = test_taken },
    { .name = "readable", .run = test_readable },
    { .name = "death_host", .run = test_death },
    { .name = "death_tcp", .run = test_death },
    { .name = "leave", .run = test_leave },
    { .name = "refused", .run = test_refused },
};

static _Noreturn void be_rank(const struct topic *topic)
{
    if (topic->run != test_refused) {
        open_fabric();
    }
    topic->run();
    fabric_ucx_close(&fabric, false);
    _Exit(0);
}

int main(int argc, char **argv)
{
    const struct topic *topic = NULL;
    pthread_barrierattr_t attributes;
    int failed = 0;

    for (size_t i = 0; i < sizeof topics / sizeof topics[0] && argc == 2; i++) {
        topic = strcmp(argv[1], topics[i].name) == 0 ? &topics[i] : topic;
    }
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE,
            MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (topic == NULL || shared == MAP_FAILED) {
        return 2;
    }
    (void)pthread_barrierattr_init(&attributes);
    (void)pthread_barrierattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    (void)pthread_barrier_init(&shared->barrier, &attributes, RANKS);
    for (me = 0; me < RANKS; me++) {
        if (fork() == 0) {
            (void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* one that fails ends all */
            be_rank(topic);
        }
    }
    for (int r = 0; r < RANKS && failed == 0; r++) {
        int how = 0;

        (void)wait(&how);
        failed = WIFEXITED(how) ? WEXITSTATUS(how) : 0;
    }
    return failed;
}
