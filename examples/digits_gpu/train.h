/*
 * Data-parallel training on GPUs: every rank has the whole network and a part of every batch.
 */
#ifndef DIGITS_GPU_TRAIN_H
#define DIGITS_GPU_TRAIN_H

#include <stdbool.h>
#include <stdint.h>

#include <tutti/tutti.h>

#include "../digits/batches.h"
#include "../digits/data.h"
#include "gpu.h"
#include "network.h"

/** What the command line asks for, with defaults filled in. */
struct options {
    int epochs;
    int batch; /* images per step, over all ranks */
    double rate; /* peak learning rate */
    uint64_t seed; /* of shuffling, and of the first parameters on rank 0 */
    const char *data; /* path of the CSV file; NULL: look for it */
    const char *library; /* the CUDA driver */
    const char *kernels; /* file of the kernels; NULL: beside the program */
    bool quiet; /* only the summary */
    bool help;
};

/** Everything one rank trains with; zeroed is valid for trainer_fini(). */
struct trainer {
    tutti *job; /* borrowed */
    struct gpu *gpu; /* borrowed */
    const struct options *options; /* borrowed */
    const struct dataset *data; /* borrowed */
    int rank;
    int size;
    struct network net;
    struct batches batches; /* the images of each step */
    double *pixels; /* of one part of a batch, before they go to the GPU; owned */
    int *numbers; /* labels of it; owned */
    float *host_images; /* this rank's images of an epoch, pinned; owned */
    int32_t *host_labels; /* likewise */
    float *images; /* the same in device memory, then those of the evaluation; owned */
    int32_t *labels; /* likewise */
    int32_t *host_correct; /* of the evaluation; pinned; owned */
    float *host_total; /* of the losses; pinned; owned */
    int64_t step; /* steps done */
};

/** What an epoch came to. */
struct progress {
    double loss; /* mean over the epoch's training images */
    double accuracy; /* share of the held-out images recognised */
    double seconds; /* of the epoch, evaluation included */
};

/** Builds the trainer and gives every rank the parameters of rank 0. */
tutti_status trainer_init(struct trainer *trainer, tutti *job, struct gpu *gpu,
        const struct options *options, const struct dataset *data);
void trainer_fini(struct trainer *trainer);

/** One pass over the training images, and an evaluation. */
tutti_status trainer_epoch(
        struct trainer *trainer, int epoch, struct progress *progress);

#endif
