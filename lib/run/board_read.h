/*
 * Reading the board: what members of this node show of a set (docs/design/negotiation.md).
 */
#ifndef TUTTI_RUN_BOARD_READ_H
#define TUTTI_RUN_BOARD_READ_H

#include <tutti/tutti.h>

struct process_set;
struct tutti;

/**
 * Gives what is new to the negotiator of the set, which is dirty then. Nothing without a board.
 * Engine.
 * @return TUTTI_OK, or what the negotiator returns
 */
tutti_status board_read(struct tutti *t, struct process_set *set);

#endif
