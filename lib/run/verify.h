/*
 * Looks at what goes into batches and comes out of them (parameter verify_results): results
 * that must be equal on all ranks are compared, and values that are not finite are counted.
 * Engine only; host memory only.
 *
 * A rank sends digests of its results, one for each tensor, to its parent in the tree of the
 * set, and has them compared with those of its children (run/compare.h).
 */
#ifndef TUTTI_RUN_VERIFY_H
#define TUTTI_RUN_VERIFY_H

#include <tutti/tutti.h>

#include "base/wire.h"

struct batch;
struct tutti;

/** Of a context; zeroed is valid. */
struct verify {
    struct wire_writer
            digests; /* of the batch that is looked at: 8 bytes for each tensor */
};

/** Counts what is not finite in the inputs of a batch that begins. */
void verify_inputs(struct tutti *t, const struct batch *batch);
/**
 * A batch has its results, which nobody has seen yet.
 * @return TUTTI_OK, TUTTI_ERR_NO_MEMORY, errors of the transport, or TUTTI_ERR_PROTOCOL:
 *         ranks have got different results, the text says which, of what
 */
tutti_status verify_results(struct tutti *t, const struct batch *batch);

#endif
