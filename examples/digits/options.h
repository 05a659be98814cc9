/*
 * What the command line asks for.
 */
#ifndef DIGITS_OPTIONS_H
#define DIGITS_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "network.h"

/** Most hidden layers: two convolutions and the classes are layers too. */
enum {
    HIDDEN_MAX = NETWORK_LAYERS_MAX - 3,
    HIDDEN_WIDTH_MAX = 4096
};

/** Values with their defaults filled in. */
struct options {
    int epochs;
    int batch; /* images per step over all ranks, or 0 and */
    int batch_per_rank; /* images per step and rank; 0: see batch */
    double rate; /* peak learning rate */
    bool scale_rate; /* multiply the rate by the number of ranks, with warm-up */
    uint64_t seed; /* of shuffling, and of the first parameters on rank 0 */
    int hidden[HIDDEN_MAX]; /* widths of the hidden layers */
    int hidden_count;
    const char *data; /* path of the CSV file; NULL: look for it */
    const char *log; /* path of the file of losses; NULL: none */
    bool quiet; /* only the summary */
    bool help;
};

/** The text of --help. */
extern const char options_usage[];

/**
 * Reads the command line.
 * @param[out] error  the reason in words when false is returned
 */
bool options_parse(struct options *options, int argc, char **argv, char *error,
        size_t error_bytes);

#endif
