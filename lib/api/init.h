/*
 * The start of a context over a job.
 */
#ifndef TUTTI_API_INIT_H
#define TUTTI_API_INIT_H

#include <tutti/tutti.h>

#include "base/shared.h"
#include "transport/job.h"

/**
 * Joins a job and makes a context of it, on all its ranks or on none. Collective, also for a
 * rank that cannot: the others learn why, where the source can tell them.
 * @return as tutti_init()
 */
tutti_status init_join(tutti **t, const struct job_source *source,
        const tutti_config *config) TUTTI_SHARED(init_join);

#endif
