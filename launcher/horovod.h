/*
 * --horovod: programs in Python that import Horovod get tutti's package in its place.
 */
#ifndef TUTTI_LAUNCHER_HOROVOD_H
#define TUTTI_LAUNCHER_HOROVOD_H

#include <stdbool.h>

#include <tutti/tutti.h>

#include "launcher/options.h"

/** True if tuttirun was called by the name horovodrun, which implies --horovod. */
bool horovod_is_name(const char *program);
/**
 * Puts the folder of the package `horovod` in front of the ranks' PYTHONPATH, and sets
 * HOROVOD_CONTROLLER for rank_export_horovod().
 * @return TUTTI_OK, TUTTI_ERR_INVALID (tutti is not installed whole), TUTTI_ERR_NO_MEMORY,
 *         TUTTI_ERR_SYSTEM
 */
TUTTI_MUST_USE tutti_status horovod_serve(
        struct options *options, char *const *environment);

#endif
