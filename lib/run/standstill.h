/*
 * Batches that stand still: all ranks have agreed on them and this one has begun, but a rank
 * that does not move, or a network that carries nothing, holds them up. What some rank has
 * not submitted is the negotiator's to tell (agree/stall.c). Engine only.
 */
#ifndef TUTTI_RUN_STANDSTILL_H
#define TUTTI_RUN_STANDSTILL_H

#include <tutti/tutti.h>

struct tutti;

/**
 * Looks at the batches under way, logs and records those of which nothing has moved for
 * stall_warning_s, and again after as long.
 * @return TUTTI_OK, or TUTTI_ERR_TIMEOUT: nothing has moved for stall_fail_s
 */
tutti_status standstill_look(struct tutti *t);

#endif
