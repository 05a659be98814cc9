/*
 * Threads that wait share the reductions of ranks that are threads themselves.
 *
 *   helpers RANKS
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "test/helped.h"

enum {
    RANKS_MAX = 8
};

struct rank {
    tutti *t;
    bool right;
    pthread_t thread;
};

static void *rank_main(void *argument)
{
    struct rank *rank = argument;

    rank->right = helped_run(rank->t);
    rank->right = tutti_finalize(rank->t) == TUTTI_OK && rank->right;
    return NULL;
}

int main(int argc, char **argv)
{
    const int n = argc > 1 ? (int)strtol(argv[1], NULL, 10) : 0;
    tutti_config *config = helped_config();
    tutti *contexts[RANKS_MAX];
    struct rank ranks[RANKS_MAX];
    bool right = true;

    if (n < 1 || n > RANKS_MAX || config == NULL ||
            tutti_init_local(n, contexts, config) != TUTTI_OK) {
        (void)fprintf(stderr, "%s\n", tutti_last_error());
        return 2;
    }
    tutti_config_destroy(config);
    for (int r = 0; r < n; r++) {
        ranks[r] = (struct rank){ .t = contexts[r] };
        if (pthread_create(&ranks[r].thread, NULL, rank_main, &ranks[r]) != 0) {
            (void)fprintf(stderr, "cannot start rank %d\n", r);
            abort();
        }
    }
    for (int r = 0; r < n; r++) {
        (void)pthread_join(ranks[r].thread, NULL);
        right = right && ranks[r].right;
    }
    return right ? 0 : 1;
}
