/*
 * What p2p_backend.c and p2p_wire.c, of one program, do for each other.
 */
#ifndef TUTTI_TEST_MULTI_P2P_WIRE_H
#define TUTTI_TEST_MULTI_P2P_WIRE_H

#include "ranks.h"

/** Tests of sums of float32 that travel in 16 bits. */
void test_a_narrow_wire(void);
/** Cancels an operation with messages under way: must return, and leave the input alone. */
void check_cancel(const struct setup *setup, const struct operation *operation);

#endif
