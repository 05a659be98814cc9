/*
 * Finds out at start-up what the link between nodes carries.
 */
#ifndef TUTTI_API_LINK_H
#define TUTTI_API_LINK_H

#include <tutti/tutti.h>

#include "fabric/fabric.h"
#include "run/start.h"

/**
 * Fills spec->link where the ranks are on several nodes: rank 0 and the first rank of another
 * node measure, and all ranks get the same. Collective over spec->transport, whose nodes are
 * known. With the parameter chunk_bytes that is the length of messages.
 * @return TUTTI_OK, TUTTI_ERR_MPI, TUTTI_ERR_NO_MEMORY, errors of the transport
 */
tutti_status link_meet(struct context_spec *spec, const struct fabric *fabric);

#endif
