/*
 * Runs one case of the simulated NCCL: test_gpusim_nccl CASE processes|threads RANKS
 */
#include <stdlib.h>
#include <string.h>

#include "test/gpusim/nccl/test/ranks.h"

static const struct rank_case *find_case(const char *name)
{
    static const struct rank_case *const tables[] = { cases_values, cases_order,
        cases_life, cases_faults, cases_memory };

    for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++) {
        for (const struct rank_case *c = tables[i]; c->name != NULL; c++) {
            if (strcmp(c->name, name) == 0) {
                return c;
            }
        }
    }
    return NULL;
}

int main(int count, char **arguments)
{
    const struct rank_case *found = count == 4 ? find_case(arguments[1]) : NULL;

    if (found == NULL) {
        (void)fprintf(stderr, "usage: %s CASE processes|threads RANKS\n", arguments[0]);
        return 2;
    }
    if (found->hangs) {
        (void)setenv("GPUSIM_HANG_S", "1", 1);
    }
    if (found->has_room) {
        (void)setenv("GPUSIM_RESIDENT", "2", 1);
    }
    if (found->fault != NULL) {
        (void)setenv("GPUSIM_NCCL_FAIL", found->fault, 1);
    }
    return ranks_run(found, (int)strtol(arguments[3], NULL, 10),
            strcmp(arguments[2], "threads") == 0);
}
