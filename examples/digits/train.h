/*
 * Data-parallel training: every rank has the whole network and a part of every batch.
 */
#ifndef DIGITS_TRAIN_H
#define DIGITS_TRAIN_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include <tutti/tutti.h>

#include "batches.h"
#include "data.h"
#include "network.h"
#include "options.h"

/** Longest name of a tensor, with its terminating zero. */
enum {
    TENSOR_NAME_BYTES = 32
};

/** Everything one rank trains with; zeroed is valid for trainer_fini(). */
struct trainer {
    tutti *job; /* borrowed */
    const struct options *options; /* borrowed */
    const struct dataset *data; /* borrowed */
    FILE *log; /* borrowed; NULL: none */
    int rank;
    int size;
    int batch; /* images per step over all ranks */
    double rate; /* peak learning rate */
    int warm_up_steps; /* over which the rate grows to its peak */
    int part_max; /* most images of this rank in a step */
    struct network net;
    double *gradients; /* of tutti_alloc(): reduced with few copies */
    double *images; /* this rank's part of a batch; owned */
    int *labels; /* likewise; owned */
    struct batches batches; /* the images of each step */
    char weights_name[NETWORK_LAYERS_MAX][TENSOR_NAME_BYTES];
    char bias_name[NETWORK_LAYERS_MAX][TENSOR_NAME_BYTES];
    int64_t step; /* steps done */
    int64_t communication_ns; /* spent in tutti's calls since it was zeroed */
};

/** What an epoch came to. */
struct progress {
    double loss; /* mean over the epoch's training images */
    double accuracy; /* share of the held-out images recognised */
    double seconds; /* of the epoch, evaluation included */
    double communication; /* seconds of it inside tutti, mean over the ranks */
};

/** Builds the trainer and gives every rank the parameters of rank 0. */
tutti_status trainer_init(struct trainer *trainer, tutti *job,
        const struct options *options, const struct dataset *data, FILE *log);
void trainer_fini(struct trainer *trainer);

/** One pass over the training images, and an evaluation. */
tutti_status trainer_epoch(
        struct trainer *trainer, int epoch, struct progress *progress);

/** Monotonic time in nanoseconds. */
int64_t now_ns(void);

#endif
