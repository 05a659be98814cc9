/*
 * Random numbers that are the same everywhere.
 */
#ifndef DIGITS_RANDOM_H
#define DIGITS_RANDOM_H

#include <stdint.h>

/** A generator of 64 random bits (splitmix64); the state is any number. */
uint64_t random_bits(uint64_t *state);
/** A number from [-1, 1). */
double random_signed(uint64_t *state);

#endif
