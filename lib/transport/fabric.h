/*
 * Control transport over a fabric.
 */
#ifndef TUTTI_TRANSPORT_FABRIC_H
#define TUTTI_TRANSPORT_FABRIC_H

#include "fabric/fabric.h"
#include "transport/transport.h"

/**
 * Opens the transport; the fabric stays until it is closed.
 * @return TUTTI_OK, TUTTI_ERR_NO_MEMORY, TUTTI_ERR_MPI
 */
tutti_status transport_fabric_open(
        const struct fabric *fabric, struct transport *transport);

/** The doorbell of a rank that shares memory with this one; NULL: it does not. */
typedef struct doorbell *(*transport_bell_of)(const void *user, int rank);

/** Where the transport `wakes`, it rings these. */
void transport_fabric_bells(
        struct transport *transport, transport_bell_of bell_of, const void *user);

#endif
