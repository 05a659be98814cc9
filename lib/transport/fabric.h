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

#endif
