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

/** What the ranks of a run have told, as far as it matters. */
struct gpu_view {
    int first; /* the lowest rank                                              */
    int nccl_version; /* its                                                     */
    bool has_kernels; /* all have them                                          */
    bool in_process; /* ranks of one process share a GPU                         */
    int with, without; /* the lowest rank that has a GPU, and that has none; -1   */
    int odd, odd_version; /* the lowest that has no NCCL, or another than `first`; -1 */
    int sharer, sharee; /* the lowest rank that shares a GPU with a lower one; -1  */
    char pci[GPU_PCI_TEXT_MAX]; /* of that GPU                                   */
    tutti_status trouble; /* of the lowest rank that has any                     */
    char trouble_reason[GPU_REASON_MAX];
    char without_reason[GPU_REASON_MAX];
    char odd_reason[GPU_REASON_MAX];
};

/**
 * The view of one rank.
 * @param facts  [place + 1] of the ranks of its node up to it
 * @param ranks  [place + 1] those ranks
 */
void gpu_view_of(struct gpu_view *view, const struct gpu_facts *facts, const int *ranks,
        int place);
/** Adds the view of ranks that all come after. */
void gpu_view_merge(struct gpu_view *view, const struct gpu_view *after);
void gpu_view_put(struct wire_writer *out, const struct gpu_view *view);
/** @return TUTTI_OK, TUTTI_ERR_PROTOCOL */
TUTTI_MUST_USE tutti_status gpu_view_get(struct wire_reader *in, struct gpu_view *view);

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
 * @param view       of all ranks
 * @param may_share  the parameter gpu_share
 * @return TUTTI_OK, or the first trouble that a rank has told of, which is named
 */
TUTTI_MUST_USE tutti_status gpu_decide(
        const struct gpu_view *view, bool may_share, struct gpu_decision *decision);

#endif
