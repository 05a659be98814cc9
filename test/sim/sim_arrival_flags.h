/*
 * The simulated arrival flags: words by which the members of a set show how far they have come.
 *
 * A reader sees each word late, but never an older value after a newer one. What explains
 * a word is written before it, and read behind it: it may be newer.
 */
#ifndef TUTTI_SIM_SIM_ARRIVAL_FLAGS_H
#define TUTTI_SIM_SIM_ARRIVAL_FLAGS_H

#include <stdbool.h>
#include <stdint.h>

#include "rng.h"

struct sim_arrival_flags;

struct sim_arrival_flags *sim_arrival_flags_create(int members);
void sim_arrival_flags_destroy(struct sim_arrival_flags *flags);
void sim_arrival_flags_write(struct sim_arrival_flags *flags, int writer, uint32_t cell,
        uint64_t word, uint64_t detail);
/** What a reader sees now: anything from what it saw last to the present. */
uint64_t sim_arrival_flags_read(struct sim_arrival_flags *flags, struct rng *rng,
        int reader, int writer, uint32_t cell, uint64_t *detail);
/** From now on the reader sees the present. */
void sim_arrival_flags_catch_up(
        struct sim_arrival_flags *flags, int reader, int writer, uint32_t cell);

#endif
