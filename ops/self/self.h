/*
 * The data plane of process sets of one rank: inputs are copied and scaled.
 */
#ifndef TUTTI_OPS_SELF_SELF_H
#define TUTTI_OPS_SELF_SELF_H

#include "ops/op.h"

/** Accepts sets of one rank only. Uses neither op_env.native nor op_env.wake. */
extern const struct op_backend op_self;

#endif
