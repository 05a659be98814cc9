/*
 * Runs the suite with ranks that are threads of this process.
 *
 *   suite_inproc RANKS [--list] [--without topic] [--gpu] [--nccl file] [topic...]
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "test/batch/reference.h"
#include "test/suite/buffer.h"
#include "test/suite/suite.h"

enum {
    RANKS_MAX = 96,
    HANG_SECONDS = 1000
};

/** What the threads share beside the job. */
struct threads {
    pthread_barrier_t barrier;
    tutti *contexts[RANKS_MAX]; /* of the open() in progress */
    tutti_status opened;
};

/** A thread that is a rank. */
struct rank {
    struct checks checks;
    const struct suite_selection *selection;
    pthread_t thread;
};

static void meet(struct job *job, int rank)
{
    struct threads *threads = job->user;

    (void)rank;
    (void)pthread_barrier_wait(&threads->barrier);
}

static tutti_status open_context(
        struct job *job, int rank, const tutti_config *config, tutti **t)
{
    struct threads *threads = job->user;
    tutti_status status;

    meet(job, rank);
    if (rank == 0) {
        threads->opened = tutti_init_local(job->size, threads->contexts, config);
    }
    meet(job, rank);
    status = threads->opened;
    if (status == TUTTI_OK) {
        *t = threads->contexts[rank];
    }
    meet(job, rank);
    return status;
}

static void *run_rank(void *argument)
{
    struct rank *rank = argument;

    suite_run(rank->selection, &rank->checks);
    return NULL;
}

/* A signal handler has no argument: who hangs is found here. */
static struct checks *watched[RANKS_MAX];
static int watched_count;

static void hang(int number)
{
    (void)number;
    checks_report_hang(watched, watched_count);
    _Exit(3);
}

static int run(struct job *job, const struct suite_selection *selection)
{
    struct rank *ranks = must_alloc((size_t)job->size, sizeof *ranks);
    int made = 0;
    int failed = 0;

    for (int r = 0; r < job->size; r++) {
        ranks[r].selection = selection;
        ranks[r].checks.job = job;
        ranks[r].checks.rank = r;
        ranks[r].checks.size = job->size;
        watched[r] = &ranks[r].checks;
    }
    watched_count = job->size;
    (void)signal(SIGALRM, hang);
    (void)alarm(HANG_SECONDS);
    for (int r = 0; r < job->size; r++) {
        if (pthread_create(&ranks[r].thread, NULL, run_rank, &ranks[r]) != 0) {
            (void)fprintf(stderr, "cannot start thread %d\n", r);
            abort();
        }
    }
    for (int r = 0; r < job->size; r++) {
        (void)pthread_join(ranks[r].thread, NULL);
        made += ranks[r].checks.made;
        failed += ranks[r].checks.failed;
    }
    (void)alarm(0);
    free(ranks);
    printf("%d ranks: %d checks, %d failed\n", job->size, made, failed);
    return failed == 0 && made > 0 ? 0 : 1;
}

int main(int argc, char **argv)
{
    struct threads threads = { .opened = TUTTI_OK };
    struct job job = { .user = &threads, .open = open_context, .meet = meet };
    struct suite_selection selection;
    int status;

    job.size = argc > 1 ? (int)strtol(argv[1], NULL, 10) : 0;
    if (job.size < 1 || job.size > RANKS_MAX) {
        (void)fprintf(stderr,
                "usage: suite_inproc RANKS [--list] [--without topic] [--gpu] "
                "[--nccl file] [topic...]\n");
        return 2;
    }
    if (!suite_select(argc - 1, argv + 1, &selection)) {
        return 2;
    }
    if (selection.gpu) {
        suite_begin_gpu(selection.nccl, job.size);
    }
    (void)pthread_mutex_init(&job.log.lock, NULL);
    (void)pthread_barrier_init(&threads.barrier, NULL, (unsigned)job.size);
    status = run(&job, &selection);
    (void)pthread_barrier_destroy(&threads.barrier);
    (void)pthread_mutex_destroy(&job.log.lock);
    return status;
}
