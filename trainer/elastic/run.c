/*
 * A program's training between two starts.
 */
#include <stdlib.h>

#include "elastic/elastic.h"
#include "error.h"

tutti_status tutti_elastic_run(
        tutti_state *state, tutti_elastic_function function, void *user)
{
    tutti_status status;

    if (state == NULL || function == NULL) {
        return error_set(TUTTI_ERR_INVALID,
                "tutti_elastic_run: the state or the function is NULL");
    }
    status = tutti_state_sync(state);
    return status == TUTTI_OK ? function(state, user) : status;
}

int tutti_elastic_exit_status(tutti_status status)
{
    if (status == TUTTI_OK) {
        return EXIT_SUCCESS;
    }
    return status == TUTTI_AGAIN ? TUTTI_EXIT_AGAIN : EXIT_FAILURE;
}
