/*
 * Random programs (test/suite/program.h) whose results are compared with what MPI brings:
 * the raw inputs of all ranks are gathered by plain MPI and reduced by the slow reference.
 *
 *   random_programs [--gpu] [--nccl file] [--seed FIRST] [--programs COUNT]   (under mpirun)
 *
 * With --gpu two of three tensors lie in simulated device memory. A failure prints the seed; --seed alone runs that program only. Where MPI allows it the
 * inputs of the next program are gathered by another thread while one runs, so that the
 * application's MPI and tutti's are in use at the same time.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "lib/transport/mpi_end.h"
#include "process_job.h"
#include "test/suite/gpu.h"
#include "test/suite/program.h"
#include "test/suite/suite.h"

enum {
    PROGRAMS = 1000,
    CONTEXTS = 3,
    SEED_STEP = 1000000 /* between the seeds of different numbers of ranks */
};

/** A program and the inputs of all ranks. */
struct prepared {
    MPI_Comm comm; /* of the application */
    int rank, size;
    uint64_t seed;
    struct program program;
    char *mine;
    char *all;
    const char *arenas[PROGRAM_RANKS_MAX];
};

/** The command line. */
struct selection {
    uint64_t first;
    uint64_t count;
    bool gpu; /* device memory, too */
    const char *nccl; /* as in struct suite_selection */
};

/* Without spinning: there may be more ranks than cores. */
static void finish(MPI_Request *request)
{
    const struct timespec nap = { .tv_nsec = 100000 };
    int done = 0;

    (void)MPI_Test(request, &done, MPI_STATUS_IGNORE);
    while (done == 0) {
        (void)nanosleep(&nap, NULL);
        (void)MPI_Test(request, &done, MPI_STATUS_IGNORE);
    }
}

/* Every rank makes its own inputs; MPI brings those of the others. */
static void *prepare(void *argument)
{
    struct prepared *p = argument;
    int counts[PROGRAM_RANKS_MAX];
    int offsets[PROGRAM_RANKS_MAX];
    MPI_Request request;
    int total = 0;

    program_make(&p->program, p->seed, p->size);
    for (int r = 0; r < p->size; r++) {
        counts[r] = (int)program_fill(&p->program, r, NULL);
        offsets[r] = total;
        total += counts[r];
    }
    p->mine = must_alloc((size_t)counts[p->rank], 1);
    p->all = must_alloc((size_t)total, 1);
    (void)program_fill(&p->program, p->rank, p->mine);
    (void)MPI_Iallgatherv(p->mine, counts[p->rank], MPI_BYTE, p->all, counts, offsets,
            MPI_BYTE, p->comm, &request);
    finish(&request);
    for (int r = 0; r < p->size; r++) {
        p->arenas[r] = p->all + offsets[r];
    }
    return NULL;
}

static void release(struct prepared *p)
{
    free(p->mine);
    free(p->all);
}

static void run_one(
        tutti *t, struct checks *c, const struct prepared *p, const char *program)
{
    const int failed = c->failed;
    static char step[64];

    (void)snprintf(step, sizeof step, "seed %llu", (unsigned long long)p->seed);
    checks_step(c, step);
    program_run(t, c, &p->program, p->arenas);
    if (c->failed > failed) {
        (void)fprintf(stderr, "rank %d of %d failed; repeat with: %s --seed %llu\n",
                c->rank, c->size, program, (unsigned long long)p->seed);
    }
}

/* While a program runs the inputs of the next one are on their way. */
static void run_all(tutti *const *contexts, struct checks *c,
        const struct selection *selection, MPI_Comm comm, const char *program)
{
    struct prepared *two = must_alloc(2, sizeof *two);

    for (int i = 0; i < 2; i++) {
        two[i].comm = comm;
        two[i].rank = c->rank;
        two[i].size = c->size;
    }
    two[0].seed = selection->first;
    (void)prepare(&two[0]);
    for (uint64_t i = 0; i < selection->count; i++) {
        struct prepared *now = &two[i % 2];
        struct prepared *then = &two[(i + 1) % 2];
        pthread_t thread;

        then->seed = now->seed + 1;
        EXPECT(c, pthread_create(&thread, NULL, prepare, then) == 0);
        run_one(contexts[now->seed % CONTEXTS], c, now, program);
        (void)pthread_join(thread, NULL);
        release(now);
    }
    release(&two[selection->count % 2]);
    free(two);
}

/* Number of arguments that say on what it runs, which come first. */
static int take_gpu(int argc, char **argv, struct selection *selection)
{
    int at = 1;

    if (at < argc && strcmp(argv[at], "--gpu") == 0) {
        selection->gpu = true;
        at++;
    }
    if (at + 1 < argc && strcmp(argv[at], "--nccl") == 0) {
        selection->nccl = argv[at + 1];
        at += 2;
    }
    return at - 1;
}

static bool parse(int argc, char **argv, int size, struct selection *selection)
{
    bool counted = false;
    int at = 1;

    *selection = (struct selection){ .first = (uint64_t)SEED_STEP * (uint64_t)size,
        .count = PROGRAMS };
    at += take_gpu(argc, argv, selection);
    for (int i = at; i < argc; i += 2) {
        char *end = NULL;
        const uint64_t number = i + 1 < argc ? strtoull(argv[i + 1], &end, 10) : 0;

        if (end == NULL || *end != '\0') {
            return false;
        }
        if (strcmp(argv[i], "--seed") == 0) {
            selection->first = number;
            selection->count = counted ? selection->count : 1;
        } else if (strcmp(argv[i], "--programs") == 0) {
            selection->count = number;
            counted = true;
        } else {
            return false;
        }
    }
    return true;
}

static void run(
        struct checks *c, const struct selection *selection, const char *program)
{
    static const struct setting tight[] = { { "fusion_bytes", "600" },
        { "inflight", "2" }, { "cache_capacity", "8" }, { "tree_fanout", "2" }, { 0 } };
    static const struct setting quiet[] = { { "background_thread", "false" }, { 0 } };
    tutti *contexts[CONTEXTS];
    MPI_Comm comm;

    if (selection->gpu) {
        suite_begin_gpu(selection->nccl, c->size);
    }
    contexts[0] = job_open(c, NULL);
    contexts[1] = job_open(c, tight);
    contexts[2] = job_open(c, quiet);
    if (selection->gpu) {
        buffer_mix(contexts[0]);
    }

    (void)MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    run_all(contexts, c, selection, comm, program);
    (void)MPI_Comm_free(&comm);
    if (selection->gpu) {
        suite_check_paths(contexts[0], c);
    }
    buffer_mix(NULL);
    for (int i = 0; i < CONTEXTS; i++) {
        EXPECT_OK(c, tutti_finalize(contexts[i]));
    }
}

int main(int argc, char **argv)
{
    MPI_Comm world = MPI_COMM_WORLD;
    struct selection selection;
    struct checks checks;
    struct job job;
    int level = 0;
    int status = 2;

    if (MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level) != MPI_SUCCESS) {
        return 2;
    }
    process_job_init(&job, &checks, &world);
    atomic_store(&checks.topic, "random programs");
    if (job.size > PROGRAM_RANKS_MAX || !parse(argc, argv, job.size, &selection)) {
        (void)fprintf(stderr,
                "usage: random_programs [--gpu] [--nccl file] [--seed FIRST] "
                "[--programs COUNT], on at most %d ranks\n",
                PROGRAM_RANKS_MAX);
    } else if (EXPECT(&checks, level == MPI_THREAD_MULTIPLE)) {
        run(&checks, &selection, argv[0]);
        status = process_job_end(&job, &checks);
    }
    transport_mpi_end(getenv("PMI_FD"));
    return status;
}
