/*
 * What the ranks decide about their GPUs from what all have told: a table of jobs.
 */
#include <stdio.h>
#include <string.h>

#include "api/gpu_facts.h"
#include "base/error.h"
#include "base/mem.h"
#include "test/gpu/rig.h"

#define RANKS 3

/* Ranks 0 and 1 on one node, rank 2 on another; all have what it takes. */
struct job {
    struct gpu_facts facts[RANKS];
};

static void job_init(struct job *job)
{
    memset(job, 0, sizeof *job);
    for (int r = 0; r < RANKS; r++) {
        job->facts[r] = (struct gpu_facts){ .has_gpu = true,
            .has_kernels = true,
            .nccl_version = 22809,
            .process = (uint64_t)(100 + r) };
        (void)snprintf(job->facts[r].pci, sizeof job->facts[r].pci, "0000:%02x:00.0",
                r == 1 ? 0x2b : 0x1b);
    }
}

/* What a rank tells the ranks that know what those before it have told. */
static void add_view(struct gpu_view *all, const struct gpu_view *one)
{
    struct wire_writer out = { 0 };
    struct wire_reader in;
    struct gpu_view read;

    gpu_view_put(&out, one);
    for (size_t len = 0; len < out.len; len++) {
        wire_reader_init(&in, out.data, len);
        assert_int_equal(gpu_view_get(&in, &read), TUTTI_ERR_PROTOCOL);
    }
    wire_reader_init(&in, out.data, out.len);
    ASSERT_OK(gpu_view_get(&in, &read));
    gpu_view_merge(all, &read);
    wire_writer_fini(&out);
}

/* What a rank tells those of its process or node. */
static struct gpu_facts cross_the_wire(const struct gpu_facts *facts)
{
    struct wire_writer out = { 0 };
    struct gpu_facts read;

    gpu_facts_put(&out, facts);
    for (size_t len = 0; len < out.len; len++) {
        assert_int_equal(gpu_facts_get(out.data, len, 1, &read), TUTTI_ERR_PROTOCOL);
    }
    ASSERT_OK(gpu_facts_get(out.data, out.len, 1, &read));
    wire_writer_fini(&out);
    return read;
}

/* What all have told: ranks 1 and 2 are merged first, as in a tree, or 0 and 1. */
static struct gpu_view view_all(const struct job *job, bool last_first)
{
    static const int ranks[RANKS] = { 0, 1, 2 };
    struct gpu_facts facts[RANKS];
    struct gpu_view views[RANKS];

    for (int r = 0; r < RANKS; r++) {
        facts[r] = cross_the_wire(&job->facts[r]);
    }
    gpu_view_of(&views[0], facts, ranks, 0);
    gpu_view_of(&views[1], facts, ranks, 1);
    gpu_view_of(&views[2], facts + 2, ranks + 2, 0);
    if (last_first) {
        add_view(&views[1], &views[2]);
        add_view(&views[0], &views[1]);
    } else {
        add_view(&views[0], &views[1]);
        add_view(&views[0], &views[2]);
    }
    return views[0];
}

/* What a rank lacks, or has otherwise. */
enum lack {
    NOTHING,
    ALL_GPUS, /* all ranks */
    A_GPU,
    NCCL,
    KERNELS,
    VERSION, /* has another one */
    DEVICE, /* has that of rank 0, and is another process */
    PROCESS /* has that of rank 0, and is another thread */
};

static void take_away(struct job *job, enum lack lack, int rank)
{
    struct gpu_facts *facts = &job->facts[rank];
    const struct gpu_facts none = { .reason = "no driver" };

    for (int r = 0; r < RANKS && lack == ALL_GPUS; r++) {
        job->facts[r] = none;
    }
    if (lack == A_GPU) {
        *facts = none;
    } else if (lack == NCCL) {
        facts->nccl_version = 0;
        (void)snprintf(facts->reason, sizeof facts->reason, "no libnccl");
    } else if (lack == KERNELS) {
        facts->has_kernels = false;
    } else if (lack == VERSION) {
        facts->nccl_version = 21805;
    } else if (lack == DEVICE || lack == PROCESS) {
        *facts = job->facts[0];
        facts->process += lack == DEVICE ? 9 : 0;
    }
}

UNIT_TEST(test_what_all_decide)
{
    static const struct {
        enum lack lack;
        int rank;
        bool may_share;
        int version; /* of all; 0: 2.28.9 */
        enum gpu_verdict verdict;
        const char *says;
    } rows[] = {
        { NOTHING, 0, false, 0, GPU_NCCL, "" },
        { ALL_GPUS, 0, false, 0, GPU_NOBODY, "" },
        { A_GPU, 2, false, 0, GPU_STAGED,
                "rank 0 has a GPU, but rank 2 has none: no driver" },
        { NCCL, 1, false, 0, GPU_STAGED, "rank 1 has no NCCL: no libnccl" },
        { KERNELS, 2, false, 0, GPU_NCCL, "" },
        { VERSION, 2, false, 0, GPU_STAGED, "rank 0 has 2.28.9, rank 2 has 2.18.5" },
        { DEVICE, 1, false, 0, GPU_STAGED,
                "rank 0 and rank 1 share the GPU 0000:1b:00.0" },
        { DEVICE, 1, true, 0, GPU_NCCL, "" },
        /* NCCL 2.28 cannot be told so of two threads of a process, and 2.30 can. */
        { PROCESS, 1, true, 0, GPU_STAGED, "need NCCL 2.30" },
        { PROCESS, 1, true, GPU_NCCL_SHARES, GPU_NCCL, "" },
    };

    for (size_t i = 0; i < 2 * sizeof rows / sizeof *rows; i++) {
        struct gpu_decision decision;
        struct gpu_view view;
        struct job job;

        job_init(&job);
        for (int r = 0; r < RANKS && rows[i / 2].version != 0; r++) {
            job.facts[r].nccl_version = rows[i / 2].version;
        }
        take_away(&job, rows[i / 2].lack, rows[i / 2].rank);
        view = view_all(&job, i % 2 != 0);
        ASSERT_OK(gpu_decide(&view, rows[i / 2].may_share, &decision));
        assert_int_equal(decision.verdict, rows[i / 2].verdict);
        assert_has(decision.reason, rows[i / 2].says);
        assert_true(decision.verdict != GPU_NCCL ||
                (decision.has_kernels == (rows[i / 2].lack != KERNELS) &&
                        decision.is_shared == rows[i / 2].may_share &&
                        decision.reason[0] == '\0'));
    }
}

UNIT_TEST(test_trouble_of_a_rank_is_everybodys)
{
    struct job job;
    struct gpu_decision decision;
    struct gpu_view view;

    job_init(&job);
    job.facts[1].trouble = TUTTI_ERR_CONFIG;
    (void)snprintf(job.facts[1].reason, sizeof job.facts[1].reason, "no device 9");
    view = view_all(&job, false);
    assert_int_equal(gpu_decide(&view, false, &decision), TUTTI_ERR_CONFIG);
    assert_string_equal(tutti_last_error(), "no device 9");
}
