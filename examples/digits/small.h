/*
 * The network of the small examples, and how well one recognises the held-out images.
 */
#ifndef DIGITS_SMALL_H
#define DIGITS_SMALL_H

#include "data.h"
#include "network.h"

enum {
    SMALL_LAYERS = 2
};

/** A hidden layer that sees all of an image, and the classes. */
extern const struct layer_shape small_shapes[SMALL_LAYERS];

/** Share of the held-out images that are recognised, 0 to 1. */
double held_out_accuracy(struct network *net, const struct dataset *data);

#endif
