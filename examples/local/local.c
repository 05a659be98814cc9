/*
 * Four ranks in one process, a thread each: no launcher and no MPI needed.
 *
 *   local
 */
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>

#include <tutti/tutti.h>

enum {
    RANKS = 4,
    COUNT = 1000
};

/** One rank's thread. */
struct rank {
    tutti *t;
    pthread_t thread;
    double first; /* of the averaged vector */
    bool failed;
};

/** Averages a vector over the ranks; each thread owns one context. */
static void *rank_main(void *argument)
{
    struct rank *self = argument;
    double vector[COUNT];

    for (int i = 0; i < COUNT; i++) {
        vector[i] = tutti_rank(self->t) + i;
    }
    if (tutti_allreduce(self->t, "vector", vector, vector, COUNT, TUTTI_FLOAT64,
                TUTTI_AVERAGE, NULL) != TUTTI_OK) {
        (void)fprintf(stderr, "local: rank %d: %s\n", tutti_rank(self->t),
                tutti_last_error());
        self->failed = true;
    }
    self->first = vector[0];
    /* collective: every thread finalizes its own context */
    self->failed = tutti_finalize(self->t) != TUTTI_OK || self->failed;
    return NULL;
}

int main(void)
{
    struct rank ranks[RANKS] = { { .t = NULL } };
    tutti *contexts[RANKS];
    bool failed = false;

    if (tutti_init_local(RANKS, contexts, NULL) != TUTTI_OK) {
        (void)fprintf(stderr, "local: %s\n", tutti_last_error());
        return 1;
    }
    for (int i = 0; i < RANKS; i++) {
        ranks[i].t = contexts[i];
        if (pthread_create(&ranks[i].thread, NULL, rank_main, &ranks[i]) != 0) {
            (void)fprintf(stderr, "local: cannot start thread %d\n", i);
            return 1;
        }
    }
    for (int i = 0; i < RANKS; i++) {
        (void)pthread_join(ranks[i].thread, NULL);
        printf("rank %d: the average starts with %g\n", i, ranks[i].first);
        failed = failed || ranks[i].failed;
    }
    return failed ? 1 : 0;
}
