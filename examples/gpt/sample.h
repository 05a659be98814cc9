/*
 * Text written by a model.
 */
#ifndef GPT_SAMPLE_H
#define GPT_SAMPLE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "model.h"
#include "text.h"

/**
 * Writes `bytes` bytes, each drawn by its probability after those before it.
 * @return false when out of memory
 */
bool sample_write(struct model *model, const struct text *text, int bytes,
        uint64_t seed, FILE *out);

#endif
