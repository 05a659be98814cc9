/*
 * The batches of an epoch. Which images a batch takes and how they are distorted depends on
 * the seed alone: any number of ranks walks through the same batches.
 */
#ifndef DIGITS_BATCHES_H
#define DIGITS_BATCHES_H

#include <stdbool.h>
#include <stdint.h>

#include "data.h"

/** Where the batches of a rank come from; zeroed is valid for batches_fini(). */
struct batches {
    const struct dataset *data; /* borrowed */
    uint64_t seed; /* of shuffling and distorting */
    int rank;
    int size;
    int *order; /* images of an epoch, shuffled; owned */
};

/** First item of a rank's part of `count` items. */
int batches_part(int count, int rank, int size);

/** @return false when out of memory */
bool batches_init(struct batches *batches, const struct dataset *data, uint64_t seed,
        int rank, int size);
void batches_fini(struct batches *batches);

/** Puts the training images into an order that depends on seed and epoch alone. */
void batches_shuffle(struct batches *batches, int epoch);

/**
 * Fills in this rank's part of the batch of order[first] to order[first + batch - 1]. Every
 * image is distorted a little, because 1500 are few and other people write differently.
 * @return images filled in
 */
int batches_load(const struct batches *batches, int epoch, int first, int batch,
        double *images, int *labels);

#endif
