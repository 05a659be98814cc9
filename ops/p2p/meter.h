/*
 * How fast what a rank awaits of each other rank comes, for whoever asks which link is slow
 * (tools/recordings/links.c). Operands of large reductions alone: they come straight from their
 * owner, which has them, so that nobody else's link delays them.
 */
#ifndef TUTTI_OPS_P2P_METER_H
#define TUTTI_OPS_P2P_METER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ops/op.h"

struct meter_peer;

/** Zeroed: nothing is measured. */
struct meter {
    const struct op_link *link; /* borrowed */
    struct recorder_link *links; /* borrowed; where the result is written */
    struct meter_peer *peers; /* [world_size] owned; NULL: nothing is measured */
};

/** Between nodes, where it is recorded. Without memory nothing is measured. */
void meter_init(struct meter *meter, const struct op_env *env);
void meter_fini(struct meter *meter);

/** True when the others need be called. */
static inline bool meter_is_on(const struct meter *meter)
{
    return meter->peers != NULL;
}
/** A message of a rank is awaited from now on (clock_ns()). */
void meter_await(struct meter *meter, int world_rank, int64_t now);
/** One that was awaited has come. */
void meter_arrived(struct meter *meter, int world_rank, size_t bytes, int64_t now);

#endif
