/*
 * Messages that arrived before the engine that they are for: kept in front of a
 * transport, so that the next poll delivers them first.
 */
#ifndef TUTTI_TRANSPORT_EARLY_H
#define TUTTI_TRANSPORT_EARLY_H

#include "base/wire.h"
#include "transport/transport.h"

/**
 * Puts mail in front of a transport, by exchanging its ops and state; does nothing when
 * there is none.
 * @param mail  taken on success, and left empty
 * @return TUTTI_OK, TUTTI_ERR_NO_MEMORY
 */
tutti_status transport_early_put(struct transport *transport, struct wire_writer *mail);

#endif
