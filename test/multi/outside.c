/*
 * Ranks that are outside tutti, while others tell them of thousands of tensors: a wait of
 * these ends when its operation does, or at its deadline, whatever has not left yet.
 *
 *   outside [FIRST_SEED]
 *
 * A tensor with a number needs no message within a node, so all ranks reduce it while the control messages of
 * some are stuck with a rank that reads none. That rank goes on only when the others say so
 * over memory that tutti knows nothing of. A failure prints the seed.
 */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "lib/fabric/mpi/mpi_end.h"
#include "process_job.h"
#include "test/sim/rng.h"

enum {
    PROGRAMS = 6,
    KNOWN_STEPS = 5,
    TENSORS_MIN = 2000,
    TENSORS_MAX = 6000,
    NAME_BYTES = 200
};

/** What ranks tell each other outside of tutti. */
struct notes {
    atomic_int pushed; /* ranks that have submitted all their tensors */
    atomic_int returned; /* ranks whose wait has returned */
};

/** How a rank outside learns that the known tensor is over. */
enum manner {
    BY_WAIT,
    BY_TEST,
    BY_CALLBACK,
    NOT_AT_ALL, /* it does not submit it; the others run into their deadline */
    MANNERS
};

/** Equal on all ranks. */
struct program {
    uint64_t seed;
    uint32_t outside; /* a bit for each rank that is */
    int pushers; /* the others */
    int tensors;
    enum manner manner;
};

/** The tensors of a rank. */
struct batch {
    tutti_request *requests;
    int64_t *values;
};

static struct program program_of(uint64_t seed, int size)
{
    struct rng rng = rng_seeded(seed);
    struct program p = { .seed = seed, .manner = (enum manner)(seed % MANNERS) };

    p.outside = (uint32_t)rng_range(&rng, 1, (1 << size) - 2);
    p.pushers = size - __builtin_popcount(p.outside);
    p.tensors = rng_range(&rng, TENSORS_MIN, TENSORS_MAX);
    return p;
}

static void sleep_until(const atomic_int *count, int wanted)
{
    const struct timespec nap = { .tv_nsec = 200000 };

    while (atomic_load(count) < wanted) {
        (void)nanosleep(&nap, NULL);
    }
}

static void submit_all(
        tutti *t, struct checks *c, const struct program *p, struct batch *batch)
{
    char name[NAME_BYTES + 1];

    for (int i = 0; i < p->tensors; i++) {
        const int length =
                snprintf(name, sizeof name, "%llu.%d.", (unsigned long long)p->seed, i);

        memset(name + length, 'n', (size_t)(NAME_BYTES - length));
        name[NAME_BYTES] = '\0';
        batch->values[i] = (int64_t)(i + 1) * (c->rank + 1);
        EXPECT_OK(c,
                tutti_allreduce_async(t, name, &batch->values[i], &batch->values[i], 1,
                        TUTTI_INT64, TUTTI_SUM, NULL, &batch->requests[i]));
    }
}

static void check_all(
        tutti *t, struct checks *c, const struct program *p, struct batch *batch)
{
    const int64_t ranks = (int64_t)c->size * (c->size + 1) / 2;

    EXPECT_OK(c,
            tutti_wait_all(
                    t, (size_t)p->tensors, batch->requests, TUTTI_FOREVER, NULL));
    for (int i = 0; i < p->tensors; i++) {
        EXPECT(c, batch->values[i] == (i + 1) * ranks);
    }
}

static void note_end(void *user, tutti_status status, const char *message)
{
    atomic_int *ended = user;

    (void)message;
    atomic_store(ended, status == TUTTI_OK ? 1 : 2);
}

/* What the known tensor is to become on all ranks. */
static int64_t known_sum(const struct checks *c)
{
    return (int64_t)c->size * (c->size - 1) / 2;
}

static void be_outside(
        tutti *t, struct checks *c, const struct program *p, struct notes *notes)
{
    int64_t value = c->rank;
    tutti_request request = TUTTI_REQUEST_NULL;
    tutti_options options;
    atomic_int ended = 0;

    sleep_until(&notes->pushed, p->pushers);
    tutti_options_default(&options);
    if (p->manner == BY_CALLBACK) {
        options.callback = note_end;
        options.user = &ended;
    }
    if (p->manner != NOT_AT_ALL) {
        EXPECT_OK(c,
                tutti_allreduce_async(t, "known", &value, &value, 1, TUTTI_INT64,
                        TUTTI_SUM, &options, &request));
    }
    if (p->manner == BY_WAIT) {
        EXPECT_OK(c, tutti_wait(t, &request, TUTTI_FOREVER));
    } else if (p->manner == BY_TEST) {
        while (tutti_test(t, &request) == TUTTI_AGAIN) {
        }
    } else if (p->manner == BY_CALLBACK) {
        sleep_until(&ended, 1);
        EXPECT(c, atomic_load(&ended) == 1);
    }
    EXPECT(c, p->manner == NOT_AT_ALL || value == known_sum(c));
    sleep_until(&notes->returned, p->pushers);
    if (p->manner == NOT_AT_ALL) {
        EXPECT_OK(c,
                tutti_allreduce(
                        t, "known", &value, &value, 1, TUTTI_INT64, TUTTI_SUM, NULL));
        EXPECT(c, value == known_sum(c));
    }
}

static void push(tutti *t, struct checks *c, const struct program *p,
        struct notes *notes, struct batch *batch)
{
    int64_t value = c->rank;
    tutti_request request = TUTTI_REQUEST_NULL;

    submit_all(t, c, p, batch);
    atomic_fetch_add(&notes->pushed, 1);
    EXPECT_OK(c,
            tutti_allreduce_async(t, "known", &value, &value, 1, TUTTI_INT64, TUTTI_SUM,
                    NULL, &request));
    if (p->manner == NOT_AT_ALL) {
        EXPECT_STATUS(c, TUTTI_ERR_TIMEOUT, tutti_wait(t, &request, 20000000));
        atomic_fetch_add(&notes->returned, 1);
        EXPECT_OK(c, tutti_wait(t, &request, TUTTI_FOREVER));
    } else {
        EXPECT_OK(c, tutti_wait(t, &request, TUTTI_FOREVER));
        atomic_fetch_add(&notes->returned, 1);
    }
    EXPECT(c, value == known_sum(c));
}

/* Until it has a number everywhere. */
static void learn(tutti *t, struct checks *c)
{
    for (int i = 0; i < KNOWN_STEPS; i++) {
        int64_t value = c->rank;

        EXPECT_OK(c,
                tutti_allreduce(
                        t, "known", &value, &value, 1, TUTTI_INT64, TUTTI_SUM, NULL));
        EXPECT(c, value == known_sum(c));
    }
}

static void run(tutti *t, struct checks *c, uint64_t seed, struct notes *notes)
{
    const struct program p = program_of(seed, c->size);
    static char step[64];
    struct batch batch = {
        .requests = calloc((size_t)p.tensors, sizeof *batch.requests),
        .values = calloc((size_t)p.tensors, sizeof *batch.values),
    };

    (void)snprintf(step, sizeof step, "seed %llu", (unsigned long long)seed);
    checks_step(c, step);
    learn(t, c);
    job_meet(c);
    if ((p.outside >> c->rank & 1) != 0) {
        be_outside(t, c, &p, notes);
        submit_all(t, c, &p, &batch);
    } else {
        push(t, c, &p, notes, &batch);
    }
    check_all(t, c, &p, &batch);
    job_meet(c);
    free(batch.requests);
    free(batch.values);
}

int main(int argc, char **argv)
{
    const uint64_t first = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
    MPI_Comm world = MPI_COMM_WORLD;
    struct notes *notes = NULL;
    struct checks checks;
    struct job job;
    MPI_Aint bytes;
    MPI_Win window;
    tutti *t;
    int level = 0;
    int unit = 0;
    int status;

    if (MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level) != MPI_SUCCESS) {
        return 2;
    }
    process_job_init(&job, &checks, &world);
    (void)MPI_Win_allocate_shared(checks.rank == 0 ? PROGRAMS * (int)sizeof *notes : 0,
            1, MPI_INFO_NULL, world, &notes, &window);
    (void)MPI_Win_shared_query(window, 0, &bytes, &unit, &notes);
    if (checks.rank == 0) {
        memset(notes, 0, PROGRAMS * sizeof *notes);
    }
    atomic_store(&checks.topic, "outside");
    t = job_open(&checks, NULL);
    for (uint64_t i = 0; t != NULL && i < PROGRAMS; i++) {
        run(t, &checks, first + i, &notes[i]);
    }
    checks_step(&checks, "finalize");
    EXPECT_OK(&checks, tutti_finalize(t));
    (void)MPI_Win_free(&window);
    status = process_job_end(&job, &checks);
    mpi_end(getenv("PMI_FD"));
    return status;
}
