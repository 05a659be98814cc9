/*
 * What the ranks decide about their GPUs from what all have told: a table of jobs.
 */
#include "api/gpu_facts.h"
#include "base/error.h"
#include "test/gpu/rig.h"

#define RANKS 3

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
static struct gpu_view view_all(const struct gpu_facts told[RANKS], bool last_first)
{
    static const int ranks[RANKS] = { 0, 1, 2 };
    struct gpu_facts facts[RANKS];
    struct gpu_view views[RANKS];

    for (int r = 0; r < RANKS; r++) {
        facts[r] = cross_the_wire(&told[r]);
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

/* A rank with a GPU at an address of its node, in a process. */
#define GPU(bus, number, version, kernels) \
    { \
        .has_gpu = true, .has_kernels = (kernels), .nccl_version = (version), \
        .process = (number), .pci = "0000:" bus ":00.0" \
    }
#define V28 22809

/* Ranks 0 and 1 are on one node, rank 2 on another. */
static const struct {
    struct gpu_facts facts[RANKS];
    bool may_share;
    enum gpu_verdict verdict;
    const char *says;
} rows[] = {
    { { GPU("1b", 1, V28, true), GPU("2b", 2, V28, true), GPU("1b", 3, V28, true) },
            false, GPU_NCCL, "" },
    { { { .reason = "no driver" }, { .reason = "no driver" },
              { .reason = "no driver" } },
            false, GPU_NOBODY, "" },
    { { GPU("1b", 1, V28, true), GPU("2b", 2, V28, true), { .reason = "no driver" } },
            false, GPU_STAGED, "rank 0 has a GPU, but rank 2 has none: no driver" },
    { { GPU("1b", 1, V28, true),
              { .has_gpu = true, .pci = "0000:2b:00.0", .reason = "no libnccl" },
              GPU("1b", 3, V28, true) },
            false, GPU_STAGED, "rank 1 has no NCCL: no libnccl" },
    { { GPU("1b", 1, V28, true), GPU("2b", 2, V28, true), GPU("1b", 3, V28, false) },
            false, GPU_NCCL, "" },
    { { GPU("1b", 1, V28, true), GPU("2b", 2, V28, true), GPU("1b", 3, 21805, true) },
            false, GPU_STAGED, "rank 0 has 2.28.9, rank 2 has 2.18.5" },
    { { GPU("1b", 1, V28, true), GPU("1b", 2, V28, true), GPU("1b", 3, V28, true) },
            false, GPU_STAGED, "rank 0 and rank 1 share the GPU 0000:1b:00.0" },
    { { GPU("1b", 1, V28, true), GPU("1b", 2, V28, true), GPU("1b", 3, V28, true) },
            true, GPU_NCCL, "" },
    /* NCCL 2.28 cannot be told so of two threads of a process, and 2.30 can. */
    { { GPU("1b", 1, V28, true), GPU("1b", 1, V28, true), GPU("1b", 3, V28, true) },
            true, GPU_STAGED, "need NCCL 2.30" },
    { { GPU("1b", 1, GPU_NCCL_SHARES, true), GPU("1b", 1, GPU_NCCL_SHARES, true),
              GPU("1b", 3, GPU_NCCL_SHARES, true) },
            true, GPU_NCCL, "" },
    { { GPU("1b", 1, V28, true),
              { .trouble = TUTTI_ERR_CONFIG, .reason = "no device 9" },
              GPU("1b", 3, V28, true) },
            false, GPU_NOBODY, "no device 9" },
};

UNIT_TEST(test_what_all_decide)
{
    for (size_t i = 0; i < 2 * sizeof rows / sizeof *rows; i++) {
        const struct gpu_facts *facts = rows[i / 2].facts;
        const struct gpu_view view = view_all(facts, i % 2 != 0);
        struct gpu_decision decision;

        assert_int_equal(gpu_decide(&view, rows[i / 2].may_share, &decision),
                facts[1].trouble); /* is everybody's */
        assert_int_equal(decision.verdict, rows[i / 2].verdict);
        assert_has(facts[1].trouble == TUTTI_OK ? decision.reason : tutti_last_error(),
                rows[i / 2].says);
        assert_true(decision.verdict != GPU_NCCL ||
                (decision.has_kernels == facts[2].has_kernels &&
                        decision.is_shared == rows[i / 2].may_share &&
                        decision.reason[0] == '\0'));
    }
}
