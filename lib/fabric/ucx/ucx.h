/*
 * The fabric over UCX (libucp): shared memory, TCP, and RDMA where there is some.
 */
#ifndef TUTTI_FABRIC_UCX_UCX_H
#define TUTTI_FABRIC_UCX_UCX_H

#include <stdbool.h>

#include "boot/boot.h"
#include "fabric/fabric.h"

/**
 * Opens this rank's end of the fabric. Collective in the boot, which is needed no more
 * afterwards. A rank that fails here says so to the others, which fail as well.
 * @param[out] fabric  closed by fabric_ucx_close(); any one thread at a time may call it
 * @return TUTTI_OK, TUTTI_ERR_MPI (UCX's text, or who has failed), TUTTI_ERR_NO_MEMORY,
 *         TUTTI_ERR_SYSTEM, errors of boot->allgather
 */
TUTTI_MUST_USE tutti_status fabric_ucx_open(
        const struct boot *boot, struct fabric *fabric);
/**
 * Says goodbye, so that no rank takes this one's end for a death; waits a moment for the
 * others to say it where `failed` is false. No request is in use any more.
 */
void fabric_ucx_close(struct fabric *fabric, bool failed);

#endif
