/*
 * Parameters of awkward sizes, and gradients that every rank can compute for all ranks.
 */
#ifndef TUTTI_TEST_TRAINER_COMPRESSION_GRADIENTS_H
#define TUTTI_TEST_TRAINER_COMPRESSION_GRADIENTS_H

#include <stdint.h>

#include <tutti/trainer.h>

enum {
    PARAMS = 5,
    ELEMENTS_MAX = 4099
};

static const int64_t counts[PARAMS] = { 1, 2, 31, 48 * 41, ELEMENTS_MAX };
static const int64_t matrix[2] = { 48, 41 };
static const char *const names[PARAMS] = { "one", "two", "row", "matrix", "prime" };

static inline void fill_params(tutti_param *params, const tutti_compressor *compressor)
{
    for (int p = 0; p < PARAMS; p++) {
        params[p] = (tutti_param){ .name = names[p],
            .count = counts[p],
            .dtype = TUTTI_FLOAT32,
            .ndim = p == 3 ? 2 : 0,
            .dims = p == 3 ? matrix : NULL,
            .compressor = compressor };
    }
}

/** From -1 to 1, without a pattern. */
static inline float gradient_of(int rank, int64_t step, int param, int64_t i)
{
    uint64_t bits = (uint64_t)i * 0x9e3779b97f4a7c15U +
            (uint64_t)rank * 0x94d049bb133111ebU +
            (uint64_t)step * 0xbf58476d1ce4e5b9U + (uint64_t)param;

    bits = (bits ^ bits >> 31) * 0xd6e8feb86659fd93U;
    bits = (bits ^ bits >> 29) * 0xd6e8feb86659fd93U;
    return (float)((double)(bits >> 40) * 0x1p-23 - 1.0);
}

#endif
