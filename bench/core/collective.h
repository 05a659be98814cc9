/*
 * What the benchmark has to know about a collective: whether it reduces, has a root, and
 * whether ranks have parts of its tensor. A tensor is the whole: the input of all ranks
 * together, or the output. Its parts are equal, one for each rank, in order of rank.
 */
#ifndef TUTTI_BENCH_CORE_COLLECTIVE_H
#define TUTTI_BENCH_CORE_COLLECTIVE_H

#include <stdbool.h>
#include <stdint.h>

#include <tutti/tutti.h>

bool bench_reduces(tutti_collective collective);
bool bench_has_root(tutti_collective collective);
/** True when the tensor is divided into a part for each rank. */
bool bench_has_parts(tutti_collective collective);
/** True when a rank's input, or its output, is its part of the tensor. */
bool bench_input_is_part(tutti_collective collective);
bool bench_output_is_part(tutti_collective collective);

/** The elements rounded up to equal parts, as trainers pad what they divide. */
uint64_t bench_padded_count(tutti_collective collective, uint64_t count, int ranks);

#endif
