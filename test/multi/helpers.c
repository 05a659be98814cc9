/*
 * Threads that wait share the reductions of ranks that are processes: over shared memory,
 * private memory and messages, as TUTTI_BACKEND says.
 */
#include <stdio.h>

#include "test/helped.h"

int main(void)
{
    tutti_config *config = helped_config();
    tutti *t = NULL;
    bool right;

    if (config == NULL || tutti_init(&t, config) != TUTTI_OK) {
        (void)fprintf(stderr, "%s\n", tutti_last_error());
        return 2;
    }
    tutti_config_destroy(config);
    right = helped_run(t);
    right = tutti_finalize(t) == TUTTI_OK && right;
    return right ? 0 : 1;
}
