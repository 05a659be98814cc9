/*
 * A program that leaves MPI to tutti: started by tutti_init(), ended by the last
 * tutti_finalize(), and not to be had again.
 */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "test/suite/checks.h"

static void check_sum(tutti *t, struct checks *c)
{
    int32_t value = c->rank + 1;

    EXPECT_OK(c,
            tutti_allreduce(t, "sum", &value, &value, 1, TUTTI_INT32, TUTTI_SUM, NULL));
    EXPECT(c, value == c->size * (c->size + 1) / 2);
}

int main(void)
{
    struct checks checks = { .rank = -1 };
    struct checks *c = &checks;
    tutti *first = NULL;
    tutti *second = NULL;
    int initialised = 0;
    int finalized = 0;
    int level = 0;

    atomic_store(&checks.topic, "tutti owns MPI");
    if (!EXPECT_OK(c, tutti_init(&first, NULL))) {
        return 1;
    }
    checks.rank = tutti_rank(first);
    checks.size = tutti_size(first);
    (void)MPI_Initialized(&initialised);
    (void)MPI_Query_thread(&level);
    EXPECT(c, initialised != 0 && level == MPI_THREAD_MULTIPLE);
    EXPECT(c, tutti_has_background(first));
    EXPECT(c, tutti_has_feature("mpi") && !tutti_has_feature("magic"));
    check_sum(first, c);
    EXPECT_OK(c, tutti_init(&second, NULL));
    check_sum(second, c);
    check_sum(first, c);
    EXPECT_OK(c, tutti_finalize(second));
    (void)MPI_Finalized(&finalized);
    EXPECT(c, finalized == 0);
    check_sum(first, c);
    EXPECT_OK(c, tutti_finalize(first));
    (void)MPI_Finalized(&finalized);
    EXPECT(c, finalized != 0);
    EXPECT_STATUS(c, TUTTI_ERR_MPI, tutti_init(&first, NULL));
    EXPECT(c, strstr(tutti_last_error(), "finalized") != NULL);
    printf("rank %d: %d checks, %d failed\n", c->rank, c->made, c->failed);
    return c->failed == 0 ? 0 : 1;
}
