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

/**
 * True when this rank may have a GPU, or the parameter gpu asks for one by name. Where this is
 * so on no rank, gpus_meet() is not called.
 */
bool gpus_expected(const struct config *config);

/**
 * Opens a rank's GPU, which must outlive the context, and fills in what the rank tells the
 * others. A failure is told as trouble.
 * @return the GPU, for gpu_close(); NULL: none
 */
struct gpu *gpus_open(const struct context_spec *spec, bool is_alone, int local_rank,
        struct gpu_facts *facts);
/**
 * Acts on what all ranks have told: fills spec->device, and adds the backend to the spec when
 * all ranks can use it. Call it before other backends are added: the first is the best. Rank 0
 * logs why GPUs cannot reduce.
 * @param gpu     this rank's, or NULL
 * @param view    of all ranks
 * @param reason  why this rank has no GPU, where it has none
 * @return TUTTI_OK, or trouble of some rank, equal on all of them
 */
TUTTI_MUST_USE tutti_status gpus_decide(struct gpu *gpu, struct context_spec *spec,
        const struct gpu_view *view, const char *reason);
/**
 * After gpus_decide() for all ranks: NCCL connects them, if it is to reduce and gpu_connect says
 * so. Collective.
 * @param n  ranks in this process: one, or all
 * @return as setup_meet(); TUTTI_ERR_SYSTEM, TUTTI_ERR_NO_MEMORY
 */
TUTTI_MUST_USE tutti_status gpus_connect(struct context_spec *specs, int n);
/**
 * gpus_open(), an exchange of facts, gpus_decide() and gpus_connect(). Collective over spec->transport, whose
 * nodes are known.
 * @param[out] gpu  set also on failure
 */
TUTTI_MUST_USE tutti_status gpus_meet(struct gpu **gpu, struct context_spec *spec);

#endif
