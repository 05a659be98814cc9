/*
 * What the command line asks for.
 */
#ifndef GPT_OPTIONS_H
#define GPT_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model.h"

/** Values with their defaults filled in. */
struct options {
    struct model_shape shape; /* without the vocabulary */
    int batch; /* sequences per step over all ranks */
    int steps; /* to be done in all, also those before a resume */
    int shards; /* virtual ones; 0: off */
    int sample; /* bytes to write at the end */
    int every; /* steps between two lines of progress */
    int commit; /* steps between two commits of an elastic job; 0: it is none */
    double rate; /* peak learning rate */
    uint64_t seed; /* of the first parameters, the batches and the sample */
    const char *text; /* path; NULL: look for it */
    const char *log; /* path of the file of losses; NULL: none */
    const char *checkpoint; /* directory; NULL: none */
    bool resume; /* from the newest checkpoint there */
    const struct kernels *kernels;
    bool shuffle_ready; /* gradients become ready in a random order */
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
