/*
 * What a rank gets of its host: cores, memory, GPU; found with hwloc.
 */
#ifndef TUTTI_LAUNCHER_BIND_BIND_H
#define TUTTI_LAUNCHER_BIND_BIND_H

#include <stdbool.h>

#include <tutti/tutti.h>

#include "launcher/arguments.h"
#include "launcher/options.h"

/** What a supervisor knows of its rank. */
struct bind_request {
    int index; /* rank among the ranks of this host, from 0 */
    int count; /* ranks on this host, at least 1             */
    enum options_bind how; /* BIND_AUTO or BIND_NONE                        */
    bool one_gpu; /* --gpus-visible one: the rank sees only its own */
};

/**
 * The variable that tells a rank its GPU: an index among those that it sees, as
 * cudaSetDevice() takes it. Not set where no GPU is known.
 */
#define BIND_DEVICE_VARIABLE "TUTTI_LOCAL_DEVICE"

enum {
    BIND_TEXT_MAX = 512 /* bytes of a binding in words with its zero */
};

/**
 * Binds the calling process (threads and children inherit it) to the rank's share,
 * never to more than it may use already, and adds to `environment` the variables that
 * tell the program: TUTTI_LOCAL_DEVICE, and where they are not set CUDA_DEVICE_ORDER and
 * OMP_NUM_THREADS. Tasks that Slurm bound one by one keep what they have.
 * A host that cannot be read is no error: the rank runs unbound and `text` says why.
 * Call it before the process has threads that should not be bound.
 * @param[in,out] environment  the program's, NAME=VALUE each
 * @param[out] text  what was done in words: "12 cores (cpus 0-11,96-107), memory of node
 *                   0, GPU 0 (0000:59:00.0)"
 * @return TUTTI_OK, TUTTI_ERR_INVALID (bad request, or variables that contradict each
 *         other, such as CUDA_VISIBLE_DEVICES with a device that is not there),
 *         TUTTI_ERR_NO_MEMORY
 */
TUTTI_MUST_USE tutti_status bind_rank(const struct bind_request *request,
        struct arguments *environment, char text[BIND_TEXT_MAX]);

/**
 * Lets the calling process run on every core of the host that its cgroup allows, and takes
 * memory from where it runs; what it has started stays bound.
 */
void bind_release(void);

#endif
