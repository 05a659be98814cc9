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

enum {
    VIEW_IN_PROCESS = 1,
    VIEW_KERNELS = 2
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

/* ---------------------------------------------------------------------- the view */

static void note(char *text, const char *reason)
{
    (void)snprintf(text, GPU_REASON_MAX, "%s", reason);
}

void gpu_view_of(struct gpu_view *view, const struct gpu_facts *facts, const int *ranks,
        int place)
{
    const struct gpu_facts *mine = &facts[place];
    const int rank = ranks[place];

    *view = (struct gpu_view){ .first = rank,
        .nccl_version = mine->nccl_version,
        .has_kernels = mine->has_kernels,
        .with = mine->has_gpu ? rank : -1,
        .without = mine->has_gpu ? -1 : rank,
        .odd = mine->nccl_version == 0 ? rank : -1,
        .sharer = -1,
        .sharee = -1,
        .trouble = mine->trouble };
    memcpy(view->pci, mine->pci, sizeof view->pci);
    note(view->trouble_reason, mine->reason);
    note(view->without_reason, mine->reason);
    note(view->odd_reason, mine->reason);
    for (int p = place - 1; p >= 0; p--) {
        if (strcmp(facts[p].pci, mine->pci) == 0) {
            view->sharer = rank;
            view->sharee = ranks[p];
            view->in_process |= facts[p].process == mine->process;
        }
    }
}

static void merge_nccl(struct gpu_view *view, const struct gpu_view *after)
{
    if (view->odd >= 0) {
        return;
    }
    if (after->nccl_version != 0 && after->nccl_version != view->nccl_version) {
        view->odd = after->first;
        view->odd_version = after->nccl_version;
        return;
    }
    view->odd = after->odd;
    view->odd_version = after->odd_version;
    note(view->odd_reason, after->odd_reason);
}

void gpu_view_merge(struct gpu_view *view, const struct gpu_view *after)
{
    merge_nccl(view, after);
    view->has_kernels = view->has_kernels && after->has_kernels;
    view->in_process = view->in_process || after->in_process;
    view->with = view->with < 0 ? after->with : view->with;
    if (view->without < 0) {
        view->without = after->without;
        note(view->without_reason, after->without_reason);
    }
    if (view->sharer < 0) {
        view->sharer = after->sharer;
        view->sharee = after->sharee;
        memcpy(view->pci, after->pci, sizeof view->pci);
    }
    if (view->trouble == TUTTI_OK) {
        view->trouble = after->trouble;
        note(view->trouble_reason, after->trouble_reason);
    }
}

/* What a text says of nobody is not sent. */
static void put_reason(struct wire_writer *out, bool is_said, const char *reason)
{
    wire_put_str(out, reason, is_said ? strlen(reason) : 0);
}

void gpu_view_put(struct wire_writer *out, const struct gpu_view *view)
{
    wire_put_u8(out,
            (uint8_t)((view->in_process ? VIEW_IN_PROCESS : 0) |
                    (view->has_kernels ? VIEW_KERNELS : 0)));
    wire_put_svarint(out, view->first);
    wire_put_svarint(out, view->nccl_version);
    wire_put_svarint(out, view->with);
    wire_put_svarint(out, view->without);
    wire_put_svarint(out, view->odd);
    wire_put_svarint(out, view->odd_version);
    wire_put_svarint(out, view->sharer);
    wire_put_svarint(out, view->sharee);
    wire_put_svarint(out, view->trouble);
    wire_put_str(out, view->pci, strlen(view->pci));
    put_reason(out, view->trouble != TUTTI_OK, view->trouble_reason);
    put_reason(out, view->without >= 0, view->without_reason);
    put_reason(out, view->odd >= 0, view->odd_reason);
}

tutti_status gpu_view_get(struct wire_reader *in, struct gpu_view *view)
{
    const uint8_t flags = wire_get_u8(in);

    view->in_process = (flags & VIEW_IN_PROCESS) != 0;
    view->has_kernels = (flags & VIEW_KERNELS) != 0;
    view->first = (int)wire_get_svarint(in);
    view->nccl_version = (int)wire_get_svarint(in);
    view->with = (int)wire_get_svarint(in);
    view->without = (int)wire_get_svarint(in);
    view->odd = (int)wire_get_svarint(in);
    view->odd_version = (int)wire_get_svarint(in);
    view->sharer = (int)wire_get_svarint(in);
    view->sharee = (int)wire_get_svarint(in);
    view->trouble = (tutti_status)wire_get_svarint(in);
    wire_get_text(in, view->pci, sizeof view->pci);
    wire_get_text(in, view->trouble_reason, sizeof view->trouble_reason);
    wire_get_text(in, view->without_reason, sizeof view->without_reason);
    wire_get_text(in, view->odd_reason, sizeof view->odd_reason);
    return wire_ok(in) ? TUTTI_OK
                       : error_set(TUTTI_ERR_PROTOCOL,
                                 "what ranks say about their GPUs is malformed");
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

/* All have a GPU. False: they have no NCCL in common. */
static bool have_nccl(const struct gpu_view *view, struct gpu_decision *decision)
{
    const struct version first = version_of(view->nccl_version);
    const struct version other = version_of(view->odd_version);

    if (view->odd < 0) {
        return true;
    }
    if (view->odd_version == 0) {
        (void)snprintf(decision->reason, sizeof decision->reason,
                "rank %d has no NCCL: %s", view->odd, view->odd_reason);
        return false;
    }
    (void)snprintf(decision->reason, sizeof decision->reason,
            "NCCL must be the same on all ranks: rank %d has %d.%d.%d, rank %d has "
            "%d.%d.%d (the parameter nccl_library chooses)",
            view->first, first.major, first.minor, first.patch, view->odd, other.major,
            other.minor, other.patch);
    return false;
}

/* All have a GPU and NCCL. False: some share a GPU and may not. */
static bool may_use(
        const struct gpu_view *view, bool may_share, struct gpu_decision *decision)
{
    const bool needs_processes =
            view->nccl_version < GPU_NCCL_SHARES && view->in_process;

    decision->is_shared = view->sharer >= 0;
    if (!decision->is_shared || (may_share && !needs_processes)) {
        return true;
    }
    decision->is_shared = false;
    (void)snprintf(decision->reason, sizeof decision->reason,
            "rank %d and rank %d share the GPU %s, which NCCL refuses; %s",
            view->sharee, view->sharer, view->pci,
            may_share ? "with gpu_share, ranks of one process need NCCL 2.30 for it"
                      : "give each rank a GPU of its own (the parameter gpu, "
                        "CUDA_VISIBLE_DEVICES), or try gpu_share=true, which is slow");
    return false;
}

static enum gpu_verdict judge(
        const struct gpu_view *view, bool may_share, struct gpu_decision *decision)
{
    if (view->with < 0) {
        return GPU_NOBODY;
    }
    if (view->without >= 0) {
        (void)snprintf(decision->reason, sizeof decision->reason,
                "rank %d has a GPU, but rank %d has none: %s", view->with,
                view->without, view->without_reason);
        return GPU_STAGED;
    }
    return have_nccl(view, decision) && may_use(view, may_share, decision) ? GPU_NCCL
                                                                           : GPU_STAGED;
}

tutti_status gpu_decide(
        const struct gpu_view *view, bool may_share, struct gpu_decision *decision)
{
    *decision = (struct gpu_decision){ .has_kernels = view->has_kernels };
    if (view->trouble != TUTTI_OK) {
        return error_set(view->trouble, "%s", view->trouble_reason);
    }
    decision->verdict = judge(view, may_share, decision);
    return TUTTI_OK;
}
