/*
 * What the ranks decide about their GPUs from what all have told: a table of jobs.
 */
#include <stdio.h>
#include <string.h>

#include "api/gpu_facts.h"
#include "base/error.h"
#include "base/mem.h"
#include "test/unit/unit.h"

#define RANKS 3

/* Ranks 0 and 1 on one node, rank 2 on another; all have what it takes. */
struct job {
    struct gpu_facts facts[RANKS];
    bool may_share;
};

static void job_init(struct job *job)
{
    *job = (struct job){ .may_share = false };
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

/* What all have told: ranks 1 and 2 are merged first, as in a tree, or 0 and 1. */
static struct gpu_view view_all(const struct job *job, bool last_first)
{
    static const int ranks[RANKS] = { 0, 1, 2 };
    struct gpu_view views[RANKS];

    gpu_view_of(&views[0], job->facts, ranks, 0);
    gpu_view_of(&views[1], job->facts, ranks, 1);
    gpu_view_of(&views[2], job->facts + 2, ranks + 2, 0);
    if (last_first) {
        add_view(&views[1], &views[2]);
        add_view(&views[0], &views[1]);
    } else {
        add_view(&views[0], &views[1]);
        add_view(&views[0], &views[2]);
    }
    return views[0];
}

/* Decides, and expects a verdict and words. */
static struct gpu_decision decide(
        struct job *job, enum gpu_verdict verdict, const char *says)
{
    struct gpu_decision decision;

    for (int last_first = 0; last_first < 2; last_first++) {
        const struct gpu_view view = view_all(job, last_first != 0);

        ASSERT_OK(gpu_decide(&view, job->may_share, &decision));
        assert_int_equal(decision.verdict, verdict);
        if (strstr(decision.reason, says) == NULL) {
            fail_msg("\"%s\" is not in \"%s\"", says, decision.reason);
        }
    }
    return decision;
}

UNIT_TEST(test_all_have_all)
{
    struct job job;
    struct gpu_decision decision;

    job_init(&job);
    decision = decide(&job, GPU_NCCL, "");
    assert_true(decision.has_kernels);
    assert_false(decision.is_shared);
    assert_string_equal(decision.reason, "");
}

UNIT_TEST(test_some_have_none)
{
    struct job job;

    job_init(&job);
    for (int r = 0; r < RANKS; r++) {
        job.facts[r] = (struct gpu_facts){ .reason = "no driver" };
    }
    (void)decide(&job, GPU_NOBODY, "");
    job_init(&job);
    job.facts[2] = (struct gpu_facts){ .reason = "no driver" };
    (void)decide(&job, GPU_STAGED, "rank 0 has a GPU, but rank 2 has none: no driver");
    job_init(&job);
    job.facts[1].nccl_version = 0;
    (void)snprintf(job.facts[1].reason, sizeof job.facts[1].reason, "no libnccl");
    (void)decide(&job, GPU_STAGED, "rank 1 has no NCCL: no libnccl");
    job_init(&job);
    job.facts[2].has_kernels = false;
    assert_false(decide(&job, GPU_NCCL, "").has_kernels);
}

UNIT_TEST(test_versions_differ)
{
    struct job job;

    job_init(&job);
    job.facts[2].nccl_version = 21805;
    (void)decide(&job, GPU_STAGED, "rank 0 has 2.28.9, rank 2 has 2.18.5");
}

UNIT_TEST(test_ranks_share_a_gpu)
{
    struct job job;

    job_init(&job);
    job.facts[1] = job.facts[0];
    job.facts[1].process = 9;
    (void)decide(&job, GPU_STAGED, "rank 0 and rank 1 share the GPU 0000:1b:00.0");
    job_init(&job);
    job.facts[1] = job.facts[0];
    job.facts[1].process = 9;
    job.may_share = true;
    assert_true(decide(&job, GPU_NCCL, "").is_shared);
    /* NCCL 2.28 cannot be told so of two threads of a process, and 2.30 can. */
    job_init(&job);
    job.facts[1] = job.facts[0];
    job.may_share = true;
    (void)decide(&job, GPU_STAGED, "need NCCL 2.30");
    job_init(&job);
    job.facts[1] = job.facts[0];
    job.may_share = true;
    for (int r = 0; r < RANKS; r++) {
        job.facts[r].nccl_version = GPU_NCCL_SHARES;
    }
    assert_true(decide(&job, GPU_NCCL, "").is_shared);
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

UNIT_TEST(test_facts_cross_the_wire_and_pieces_of_them_do_not)
{
    struct job job;
    struct gpu_facts read;
    struct wire_writer out = { 0 };

    job_init(&job);
    job.facts[1].trouble = TUTTI_ERR_NO_MEMORY;
    (void)snprintf(job.facts[1].reason, sizeof job.facts[1].reason, "why");
    gpu_facts_put(&out, &job.facts[1]);
    assert_false(out.failed);
    ASSERT_OK(gpu_facts_get(out.data, out.len, 1, &read));
    assert_true(read.has_gpu && read.has_kernels);
    assert_int_equal(read.nccl_version, 22809);
    assert_int_equal(read.process, 101);
    assert_int_equal(read.trouble, TUTTI_ERR_NO_MEMORY);
    assert_string_equal(read.pci, job.facts[1].pci);
    assert_string_equal(read.reason, "why");
    for (size_t len = 0; len < out.len; len++) {
        assert_int_equal(gpu_facts_get(out.data, len, 1, &read), TUTTI_ERR_PROTOCOL);
    }
    wire_writer_fini(&out);
}
