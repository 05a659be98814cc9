/*
 * What the ranks tell each other about their GPUs, and what follows from it.
 */
#include "api/gpu_facts.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"

enum {
    FACT_GPU = 1,
    FACT_KERNELS = 2
};

void gpu_facts_put(struct wire_writer *out, const struct gpu_facts *facts)
{
    wire_put_u8(out,
            (uint8_t)((facts->has_gpu ? FACT_GPU : 0) |
                    (facts->has_kernels ? FACT_KERNELS : 0)));
    wire_put_u32(out, (uint32_t)facts->nccl_version);
    wire_put_u64(out, facts->process);
    wire_put_svarint(out, facts->trouble);
    wire_put_str(out, facts->pci, strlen(facts->pci));
    wire_put_str(out, facts->reason, strlen(facts->reason));
}

tutti_status gpu_facts_get(
        const uint8_t *bytes, size_t len, int rank, struct gpu_facts *facts)
{
    struct gpu_facts read = { .has_gpu = false };
    struct wire_reader in;
    uint8_t flags;

    wire_reader_init(&in, bytes, len);
    flags = wire_get_u8(&in);
    read.has_gpu = (flags & FACT_GPU) != 0;
    read.has_kernels = (flags & FACT_KERNELS) != 0;
    read.nccl_version = (int)wire_get_u32(&in);
    read.process = wire_get_u64(&in);
    read.trouble = (tutti_status)wire_get_svarint(&in);
    wire_get_text(&in, read.pci, sizeof read.pci);
    wire_get_text(&in, read.reason, sizeof read.reason);
    if (!wire_ok(&in)) {
        return error_set(TUTTI_ERR_PROTOCOL,
                "what rank %d says about its GPU is malformed", rank);
    }
    *facts = read;
    return TUTTI_OK;
}

/* -------------------------------------------------------------------- deciding */

struct version {
    int major, minor, patch;
};

static struct version version_of(int coded)
{
    return (struct version){
        .major = coded / 10000, .minor = coded % 10000 / 100, .patch = coded % 100
    };
}

/* The lowest rank that has a GPU, or that has none; -1: no rank. */
static int first_with(const struct gpu_facts *facts, int size, bool has_gpu)
{
    for (int r = 0; r < size; r++) {
        if (facts[r].has_gpu == has_gpu) {
            return r;
        }
    }
    return -1;
}

/* The lowest rank before `rank` with the same GPU, of the same process if asked for; -1. */
static int find_sharer(const struct gpu_facts *facts, const struct nodes *nodes,
        int rank, bool in_process)
{
    for (int r = 0; r < rank; r++) {
        if (nodes->node_of[r] == nodes->node_of[rank] &&
                strcmp(facts[r].pci, facts[rank].pci) == 0 &&
                (!in_process || facts[r].process == facts[rank].process)) {
            return r;
        }
    }
    return -1;
}

/* Two ranks with one GPU; false: none. */
static bool find_pair(const struct gpu_facts *facts, const struct nodes *nodes,
        int *first, int *second)
{
    for (int r = 1; r < nodes->size; r++) {
        *first = find_sharer(facts, nodes, r, false);
        *second = r;
        if (*first >= 0) {
            return true;
        }
    }
    return false;
}

/* True when NCCL could be told of processes only, and two ranks of one share a GPU. */
static bool needs_processes(const struct gpu_facts *facts, const struct nodes *nodes)
{
    for (int r = 1; r < nodes->size && facts[0].nccl_version < GPU_NCCL_SHARES; r++) {
        if (find_sharer(facts, nodes, r, true) >= 0) {
            return true;
        }
    }
    return false;
}

/* All have a GPU. False: they have no NCCL in common. */
static bool have_nccl(
        const struct gpu_facts *facts, int size, struct gpu_decision *decision)
{
    const struct version first = version_of(facts[0].nccl_version);

    for (int r = 0; r < size; r++) {
        const struct version other = version_of(facts[r].nccl_version);

        if (facts[r].nccl_version == 0) {
            (void)snprintf(decision->reason, sizeof decision->reason,
                    "rank %d has no NCCL: %s", r, facts[r].reason);
            return false;
        }
        if (facts[r].nccl_version != facts[0].nccl_version) {
            (void)snprintf(decision->reason, sizeof decision->reason,
                    "NCCL must be the same on all ranks: rank 0 has %d.%d.%d, rank %d "
                    "has %d.%d.%d (the parameter nccl_library chooses)",
                    first.major, first.minor, first.patch, r, other.major, other.minor,
                    other.patch);
            return false;
        }
    }
    return true;
}

/* All have a GPU and NCCL. False: some share a GPU and may not. */
static bool may_use(const struct gpu_facts *facts, const struct nodes *nodes,
        bool may_share, struct gpu_decision *decision)
{
    int a = 0;
    int b = 0;

    decision->is_shared = find_pair(facts, nodes, &a, &b);
    if (!decision->is_shared || (may_share && !needs_processes(facts, nodes))) {
        return true;
    }
    decision->is_shared = false;
    (void)snprintf(decision->reason, sizeof decision->reason,
            "rank %d and rank %d share the GPU %s, which NCCL refuses; %s", a, b,
            facts[a].pci,
            may_share ? "with gpu_share, ranks of one process need NCCL 2.30 for it"
                      : "give each rank a GPU of its own (the parameter gpu, "
                        "CUDA_VISIBLE_DEVICES), or try gpu_share=true, which is slow");
    return false;
}

static enum gpu_verdict judge(const struct gpu_facts *facts, const struct nodes *nodes,
        bool may_share, struct gpu_decision *decision)
{
    const int with = first_with(facts, nodes->size, true);
    const int without = first_with(facts, nodes->size, false);

    if (with < 0) {
        return GPU_NOBODY;
    }
    if (without >= 0) {
        (void)snprintf(decision->reason, sizeof decision->reason,
                "rank %d has a GPU, but rank %d has none: %s", with, without,
                facts[without].reason);
        return GPU_STAGED;
    }
    return have_nccl(facts, nodes->size, decision) &&
                    may_use(facts, nodes, may_share, decision)
            ? GPU_NCCL
            : GPU_STAGED;
}

tutti_status gpu_decide(const struct gpu_facts *facts, const struct nodes *nodes,
        bool may_share, struct gpu_decision *decision)
{
    *decision = (struct gpu_decision){ .has_kernels = true };
    for (int r = 0; r < nodes->size; r++) {
        if (facts[r].trouble != TUTTI_OK) {
            return error_set(facts[r].trouble, "%s", facts[r].reason);
        }
        decision->has_kernels = decision->has_kernels && facts[r].has_kernels;
    }
    decision->verdict = judge(facts, nodes, may_share, decision);
    return TUTTI_OK;
}
