/*
 * The plug-in of UCX: jobs of ranks that meet by a boot.
 */
#include "api/plugin.h"
#include "base/error.h"
#include "base/mem.h"
#include "boot/boot.h"
#include "fabric/ucx/ucx.h"

static tutti_status leave(struct job *job, enum job_end end)
{
    fabric_ucx_close(&job->fabric, end != JOB_ENDED);
    mem_free(job);
    return TUTTI_OK;
}

static tutti_status join(void *user, bool refuses, struct job **job)
{
    struct job *made = mem_calloc(1, sizeof *made);
    tutti_status status;

    (void)refuses; /* UCX can begin any number of times */
    if (made == NULL) {
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory to join a job");
    }
    made->name = "ucx";
    made->any_thread = true;
    made->leave = leave;
    status = fabric_ucx_open(user, &made->fabric);
    if (status != TUTTI_OK) {
        mem_free(made);
        return status;
    }
    *job = made;
    return TUTTI_OK;
}

const struct ucx_plugin ucx_plugin = { .version = TUTTI_VERSION_STRING, .join = join };
