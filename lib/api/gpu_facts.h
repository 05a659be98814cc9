/*
 * What the ranks tell each other about their GPUs at start-up, and what follows from it,
 * equally on all of them. Pure.
 */
#ifndef TUTTI_API_GPU_FACTS_H
#define TUTTI_API_GPU_FACTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tutti/tutti.h>

#include "base/wire.h"
#include "topo/nodes.h"

/** Longest sentence that a rank tells. */
#define GPU_REASON_MAX 400
#define GPU_PCI_TEXT_MAX 16
/** From here on NCCL can be told that ranks share a GPU, also those of one process. */
#define GPU_NCCL_SHARES 23000

/** What a rank tells. */
struct gpu_facts {
    bool has_gpu; /* it has opened one                                    */
    bool has_kernels; /* and tutti's kernels are on it                     */
    int nccl_version; /* coded, 22809 is 2.28.9; 0: there is none          */
    uint64_t process; /* tells the processes of a node apart               */
    tutti_status trouble; /* other than TUTTI_OK: the job cannot start      */
    char pci[GPU_PCI_TEXT_MAX]; /* of its GPU; with the node it is that GPU        */
    char reason[GPU_REASON_MAX]; /* why there is no GPU, or no NCCL, or the trouble */
};

void gpu_facts_put(struct wire_writer *out, const struct gpu_facts *facts);
/** @return TUTTI_OK, or TUTTI_ERR_PROTOCOL, which names the rank */
TUTTI_MUST_USE tutti_status gpu_facts_get(
        const uint8_t *bytes, size_t len, int rank, struct gpu_facts *facts);

/** How device memory is reduced. */
enum gpu_verdict {
    GPU_NOBODY, /* no rank has a GPU                                         */
    GPU_STAGED, /* through host memory, where there are GPUs                 */
    GPU_NCCL /* by the GPUs                                               */
};

struct gpu_decision {
    enum gpu_verdict verdict;
    bool has_kernels; /* all ranks have them                                  */
    bool is_shared; /* ranks share a GPU, and may: NCCL has to be told         */
    char reason[2 * GPU_REASON_MAX]; /* why GPU_STAGED, in one sentence             */
};

/**
 * Decides.
 * @param facts      [nodes->size] of the ranks
 * @param may_share  the parameter gpu_share
 * @return TUTTI_OK, or the first trouble that a rank has told of, which is named
 */
TUTTI_MUST_USE tutti_status gpu_decide(const struct gpu_facts *facts,
        const struct nodes *nodes, bool may_share, struct gpu_decision *decision);

#endif
