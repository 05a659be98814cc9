/*
 * Ranks that are threads of one process.
 */
#include "ranks.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

struct rank {
    tutti *t;
    void (*body)(tutti *t, void *user);
    void *user;
};

static atomic_int failures;

void ranks_fail(const char *file, int line, const char *condition)
{
    (void)fprintf(stderr, "%s:%d: failed: %s (last error: %s)\n", file, line, condition,
            tutti_last_error());
    (void)atomic_fetch_add(&failures, 1);
}

static void *rank_main(void *argument)
{
    struct rank *rank = argument;

    rank->body(rank->t, rank->user);
    (void)tutti_finalize(rank->t);
    return NULL;
}

int ranks_run(int n, void (*body)(tutti *t, void *user), void *user)
{
    tutti **contexts = calloc((size_t)n, sizeof *contexts);
    struct rank *ranks = calloc((size_t)n, sizeof *ranks);
    pthread_t *threads = calloc((size_t)n, sizeof *threads);

    atomic_store(&failures, 0);
    if (contexts == NULL || ranks == NULL || threads == NULL ||
            tutti_init_local(n, contexts, NULL) != TUTTI_OK) {
        ranks_fail(__FILE__, __LINE__, "the ranks start");
        n = 0;
    }
    for (int i = 0; i < n; i++) {
        ranks[i] = (struct rank){ .t = contexts[i], .body = body, .user = user };
        if (pthread_create(&threads[i], NULL, rank_main, &ranks[i]) != 0) {
            abort(); /* the others would wait for it */
        }
    }
    for (int i = 0; i < n; i++) {
        (void)pthread_join(threads[i], NULL);
    }
    free(threads);
    free(ranks);
    free(contexts);
    return atomic_load(&failures);
}
