/*
 * Control transport within one process: a mailbox per rank.
 */
#ifndef TUTTI_TRANSPORT_INPROC_H
#define TUTTI_TRANSPORT_INPROC_H

#include "transport/transport.h"

/**
 * Opens n connected ends at once.
 * @param bells         [n] of the ranks, each borrowed until its rank's close
 * @param[out] controls n ends
 * @return TUTTI_OK, TUTTI_ERR_NO_MEMORY
 */
tutti_status transport_inproc_open(
        int n, struct doorbell *bells, struct transport *controls);

#endif
