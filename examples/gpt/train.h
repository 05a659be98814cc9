/*
 * Data-parallel training: every rank has the whole model and a part of every batch.
 */
#ifndef GPT_TRAIN_H
#define GPT_TRAIN_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include <tutti/trainer.h>

#include "model.h"
#include "options.h"
#include "text.h"

/** Everything one rank trains with. */
struct trainer {
    const struct options *options; /* borrowed */
    const struct text *text; /* borrowed */
    tutti *job; /* borrowed */
    tutti_state *state; /* of an elastic job; NULL: it is none; owned */
    tutti_reducer *reducer; /* of the loop, which owns it */
    int rank;
    int ranks;
    int first; /* of this rank's shards */
    int shards; /* of this rank; without --shards it has one, its part of the batch */
    int sequences; /* of a shard */
    int64_t steps; /* done in this run */
    int64_t shown; /* of these, up to the last line */
    double shown_at; /* when it was printed */
    double loss; /* of the last report, in nats per byte; on rank 0 */
    FILE *log; /* of losses; borrowed; NULL: none */
    tutti_trainer_summary summary;
    struct model model;
    int *tokens; /* [sequences][context]; owned */
    int *targets; /* likewise; owned */
};

/** Builds the trainer; what fails is said, and ends the job. */
void trainer_init(struct trainer *trainer, tutti *job, const struct options *options,
        const struct text *text);
void trainer_fini(struct trainer *trainer);

/**
 * All steps, from the newest commit or checkpoint on if that is asked for; rank 0 prints.
 * @return false: the program is to be started anew, by tuttirun
 */
bool trainer_run(struct trainer *trainer);

#endif
