/*
 * Ranks that are threads and meet over UCX, as processes do.
 */
#ifndef TUTTI_TEST_TORTURE_OOB_H
#define TUTTI_TEST_TORTURE_OOB_H

#include <tutti/tutti.h>

/**
 * As tutti_init_local(), by tutti_init_oob() on a thread for each.
 * @return what the first rank got that could not start; then none has a context
 */
tutti_status oob_start(int ranks, tutti **contexts, const tutti_config *config);

#endif
