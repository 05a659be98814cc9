/*
 * A job of ranks that meet by a boot, over UCX.
 */
#ifndef TUTTI_FABRIC_UCX_UCX_JOB_H
#define TUTTI_FABRIC_UCX_UCX_JOB_H

#include <stdbool.h>

#include "boot/boot.h"
#include "transport/job.h"

/**
 * job_source.join.
 * @param user  struct boot, whose close() is left to the caller
 * @return TUTTI_OK, TUTTI_ERR_NO_MEMORY, as fabric_ucx_open()
 */
TUTTI_MUST_USE tutti_status ucx_job_join(void *user, bool refuses, struct job **job);

#endif
