/*
 * What a rank gets of its host: a fair share of the cores.
 */
#include "launcher/bind/bind.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "launcher/environment.h"
#include "topo/machine.h"

tutti_status bind_rank(const struct bind_request *request,
        struct arguments *environment, char text[BIND_TEXT_MAX])
{
    const char *bound = environment->items == NULL
            ? NULL
            : environment_get(environment->items, "SLURM_CPU_BIND_TYPE");
    struct machine machine;
    int cores;

    /* Tasks that Slurm has bound are left alone. */
    if (request->how != BIND_AUTO || (bound != NULL && strcmp(bound, "none") != 0)) {
        (void)snprintf(text, BIND_TEXT_MAX, "unbound");
        return TUTTI_OK;
    }
    if (machine_read(&machine) != TUTTI_OK ||
            machine_bind_share(request->index, request->count, text, BIND_TEXT_MAX) !=
                    TUTTI_OK) {
        (void)snprintf(text, BIND_TEXT_MAX, "unbound: %s", tutti_last_error());
        return TUTTI_OK;
    }
    cores = machine.cores < request->count ? 1 : machine.cores / request->count;
    if (!arguments_has(environment, "OMP_NUM_THREADS")) {
        arguments_add_format(environment, "OMP_NUM_THREADS=%d", cores);
    }
    return arguments_status(environment);
}
