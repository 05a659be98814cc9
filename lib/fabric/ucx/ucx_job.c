#include "fabric/ucx/ucx_job.h"

#include "base/error.h"
#include "base/mem.h"
#include "fabric/ucx/ucx.h"

static tutti_status leave(struct job *job, enum job_end end)
{
    fabric_ucx_close(&job->fabric, end != JOB_ENDED);
    mem_free(job);
    return TUTTI_OK;
}

tutti_status ucx_job_join(void *user, bool refuses, struct job **job)
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
