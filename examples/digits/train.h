/*
 * Data-parallel training: every rank has the whole network and a part of every batch.
 */
#ifndef DIGITS_TRAIN_H
#define DIGITS_TRAIN_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include <tutti/trainer.h>

#include "batches.h"
#include "data.h"
#include "network.h"
#include "options.h"

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
    tutti_reducer *reducer; /* owns the gradients */
    tutti_optimizer *optimizer; /* updates the network */
    double *images; /* this rank's part of a batch; owned */
    int *labels; /* likewise; owned */
    struct batches batches; /* the images of each step */
    int64_t step; /* steps done */
    double communication; /* seconds in reducer and optimizer since it was zeroed */
};

/** What an epoch came to. */
struct progress {
    double loss; /* mean over the epoch's training images */
    double accuracy; /* share of the held-out images recognised */
    double seconds; /* of the epoch, evaluation included */
    double communication; /* seconds of it inside tutti, updates too; mean over the ranks */
};

/** Builds the trainer and gives every rank the parameters of rank 0. What fails ends the job. */
void trainer_init(struct trainer *trainer, tutti *job, const struct options *options,
        const struct dataset *data, FILE *log);
void trainer_fini(struct trainer *trainer);

/** One pass over the training images, and an evaluation. */
void trainer_epoch(struct trainer *trainer, int epoch, struct progress *progress);

#endif
