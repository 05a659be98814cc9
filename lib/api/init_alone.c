/*
 * Built without MPI: only tutti_init_local() makes ranks.
 */
#include <tutti/tutti.h>

#include "base/error.h"

static tutti_status refuse_alone(tutti **t)
{
    return error_set(TUTTI_ERR_UNSUPPORTED,
            "%sthis tutti was built without MPI; use tutti_init_local(), or build with "
            "libopenmpi-dev or libmpich-dev installed",
            t == NULL ? "t is NULL; " : "");
}

tutti_status tutti_init(tutti **t, const tutti_config *config)
{
    (void)config;
    return refuse_alone(t);
}

tutti_status tutti_init_ranks(
        tutti **t, const int *ranks, int n, const tutti_config *config)
{
    (void)ranks;
    (void)n;
    (void)config;
    return refuse_alone(t);
}

tutti_status tutti_mpi_hold(void)
{
    return TUTTI_OK;
}

tutti_status tutti_mpi_release(void)
{
    return TUTTI_OK;
}
