/*
 * The GPUs of a job at start-up: each rank opens its own, and all decide, with equal
 * outcome, whether NCCL reduces device memory or host memory has to.
 */
#ifndef TUTTI_API_GPUS_H
#define TUTTI_API_GPUS_H

#include <stdbool.h>

#include <tutti/tutti.h>

#include "api/gpu_facts.h"
#include "run/start.h"

struct gpu;

/** A rank's part of it; outlives the context. Zeroed: no GPU. */
struct gpus {
    struct gpu *gpu; /* owned; NULL: none                                     */
};

/**
 * True when this rank has to speak of GPUs: there may be one, or one is asked for by name.
 * Ranks that have nothing to say say nothing, unless another one speaks.
 */
bool gpus_expected(const struct config *config);

/** Opens a rank's GPU and fills in what it tells; what fails is told as trouble. */
void gpus_open(struct gpus *gpus, const struct context_spec *spec, bool is_alone,
        int local_rank, struct gpu_facts *facts);
/**
 * Takes the facts of all ranks in: fills spec->device, and adds the backend to the spec when
 * all can use it; before others are added, so that it is the best. The first rank of a job
 * says what cannot be.
 * @return TUTTI_OK, or trouble of some rank, equal on all of them
 */
TUTTI_MUST_USE tutti_status gpus_decide(
        struct gpus *gpus, struct context_spec *spec, const struct gpu_facts *facts);
/** Both, with an exchange between them. Collective over spec->control, whose nodes are known. */
TUTTI_MUST_USE tutti_status gpus_meet(struct gpus *gpus, struct context_spec *spec);
/** After the context. */
void gpus_close(struct gpus *gpus);

#endif
