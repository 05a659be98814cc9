/*
 * A board: what the members of a set show each other by words in shared memory.
 *
 * A reader sees each word late, but never an older value after a newer one. What explains
 * a word is written before it, and read behind it: it may be newer.
 */
#ifndef TUTTI_SIM_SIM_BOARD_H
#define TUTTI_SIM_SIM_BOARD_H

#include <stdbool.h>
#include <stdint.h>

#include "rng.h"

struct sim_board;

struct sim_board *sim_board_create(int members);
void sim_board_destroy(struct sim_board *board);
void sim_board_write(struct sim_board *board, int writer, uint32_t cell, uint64_t word,
        uint64_t detail);
/** What a reader sees now: anything from what it saw last to the present. */
uint64_t sim_board_read(struct sim_board *board, struct rng *rng, int reader,
        int writer, uint32_t cell, uint64_t *detail);
/** From now on the reader sees the present. */
void sim_board_catch_up(struct sim_board *board, int reader, int writer, uint32_t cell);

#endif
