/*
 * The order of sums: data whose sums are inexact in float32, float64, float16 and bfloat16,
 * against the tree that docs/numerics.md describes, element by element. Whatever carries
 * and cuts the data, the bits are the same: backends, kernels, chunks, fusion, batches in
 * flight, memory that peers address and memory that they do not, sets whose order of ranks
 * is another. Says which combinations it has run.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test/batch/pattern.h"
#include "test/batch/reference.h"
#include "test/suite/buffer.h"
#include "test/suite/suite.h"

enum {
    KINDS = 8,
    COUNTS = 3,
    TENSORS = KINDS * COUNTS,
    GROUPS = 2
};

/** How sums are submitted: fused or not as it happens, each alone, or fused for sure. */
enum manner {
    TOGETHER,
    ONE_BY_ONE,
    GROUPED,
    MANNERS
};

/* Published in one step; fused; cut in chunks. */
static const size_t counts[COUNTS] = { 37, 1500, 40009 };

static const struct pattern patterns[KINDS] = {
    { TUTTI_FLOAT32, TUTTI_SUM, 1 },
    { TUTTI_FLOAT64, TUTTI_SUM, 2 },
    { TUTTI_FLOAT16, TUTTI_SUM, 3 },
    { TUTTI_BFLOAT16, TUTTI_SUM, 4 },
    { TUTTI_FLOAT32, TUTTI_AVERAGE, 5 },
    { TUTTI_FLOAT64, TUTTI_AVERAGE, 6 },
    { TUTTI_FLOAT16, TUTTI_AVERAGE, 7 },
    { TUTTI_BFLOAT16, TUTTI_AVERAGE, 8 },
};

/** Ranks that reduce together: the leaves of a tree, in this order. */
struct group {
    int *ranks; /* owned */
    int size;
    bool has_me;
    tutti_process_set set; /* in the context in use */
    char *want[KINDS]; /* one period of the results, by the definition; owned */
};

/** What all combinations have in common. */
struct orders {
    char *mine[KINDS]; /* one period of this rank's operands; owned */
    struct group groups[GROUPS];
};

/** The parameters of a context. */
struct combination {
    const char *backend, *kernels, *chunk_bytes, *fusion_bytes, *inflight;
};

struct tensor {
    int kind;
    size_t count;
    void *data; /* reduced in place */
    tutti_request request;
};

/* ------------------------------------------------- operands and results */

static size_t element_bytes(int kind)
{
    return tutti_dtype_size(patterns[kind].dtype);
}

/* All ranks; or from the last to the first, without the second when there are enough. */
static void choose_ranks(struct group *group, int size, bool all)
{
    group->ranks = must_alloc((size_t)size, sizeof *group->ranks);
    group->size = 0;
    for (int i = 0; i < size; i++) {
        const int rank = all ? i : size - 1 - i;

        if (all || rank != 1 || size <= 3) {
            group->ranks[group->size++] = rank;
        }
    }
}

static void orders_init(struct orders *orders, const struct checks *c)
{
    for (int kind = 0; kind < KINDS; kind++) {
        orders->mine[kind] = must_alloc(PATTERN_PERIOD, element_bytes(kind));
        pattern_fill(&patterns[kind], c->rank, orders->mine[kind], PATTERN_PERIOD);
    }
    for (int g = 0; g < GROUPS; g++) {
        struct group *group = &orders->groups[g];

        choose_ranks(group, c->size, g == 0);
        group->has_me = g == 0 || c->rank != 1 || c->size <= 3;
        for (int kind = 0; kind < KINDS; kind++) {
            group->want[kind] = must_alloc(PATTERN_PERIOD, element_bytes(kind));
            pattern_expect_of(&patterns[kind], group->ranks, group->size,
                    (struct scales){ 1, 1 }, group->want[kind], PATTERN_PERIOD);
        }
    }
}

static void orders_fini(struct orders *orders)
{
    for (int kind = 0; kind < KINDS; kind++) {
        free(orders->mine[kind]);
        for (int g = 0; g < GROUPS; g++) {
            free(orders->groups[g].want[kind]);
        }
    }
    for (int g = 0; g < GROUPS; g++) {
        free(orders->groups[g].ranks);
    }
}

static size_t period_at(const struct tensor *tensor, size_t done)
{
    return tensor->count - done < PATTERN_PERIOD ? tensor->count - done
                                                 : PATTERN_PERIOD;
}

static void fill(const struct orders *orders, const struct tensor *tensor)
{
    const size_t bytes = element_bytes(tensor->kind);

    for (size_t done = 0; done < tensor->count; done += PATTERN_PERIOD) {
        memcpy((char *)tensor->data + done * bytes, orders->mine[tensor->kind],
                period_at(tensor, done) * bytes);
    }
}

static bool is_right(const struct group *group, const struct tensor *tensor)
{
    const size_t bytes = element_bytes(tensor->kind);
    bool right = true;

    for (size_t done = 0; done < tensor->count; done += PATTERN_PERIOD) {
        right = right &&
                memcmp((const char *)tensor->data + done * bytes,
                        group->want[tensor->kind],
                        period_at(tensor, done) * bytes) == 0;
    }
    return right;
}

/* ------------------------------------------------------------- one context */

static void tensors_init(
        tutti *t, struct checks *c, struct tensor *tensors, bool is_shared)
{
    for (int i = 0; i < TENSORS; i++) {
        struct tensor *tensor = &tensors[i];
        size_t bytes;

        *tensor = (struct tensor){ .kind = i % KINDS, .count = counts[i / KINDS] };
        bytes = tensor->count * element_bytes(tensor->kind);
        if (is_shared) {
            EXPECT_OK(c, tutti_alloc(t, bytes, TUTTI_HOST, &tensor->data));
        } else {
            tensor->data = must_alloc(bytes, 1);
        }
    }
}

static void tensors_fini(
        tutti *t, struct checks *c, struct tensor *tensors, bool is_shared)
{
    for (int i = 0; i < TENSORS; i++) {
        if (is_shared) {
            EXPECT_OK(c, tutti_free(t, tensors[i].data));
        } else {
            free(tensors[i].data);
        }
    }
}

static void submit(tutti *t, struct checks *c, const struct group *group, int i,
        struct tensor *tensor)
{
    const struct pattern *pattern = &patterns[tensor->kind];
    tutti_options options;
    char name[32];

    tutti_options_default(&options);
    options.process_set = group->set;
    (void)snprintf(name, sizeof name, "sum %d", i);
    EXPECT_OK(c,
            tutti_allreduce_async(t, name, tensor->data, tensor->data,
                    (int64_t)tensor->count, pattern->dtype, pattern->op, &options,
                    &tensor->request));
}

static void reduce_all(tutti *t, struct checks *c, const struct orders *orders,
        const struct group *group, struct tensor *tensors, enum manner manner)
{
    if (manner == GROUPED) {
        EXPECT_OK(c, tutti_group_begin(t));
    }
    for (int i = 0; i < TENSORS; i++) {
        fill(orders, &tensors[i]);
        submit(t, c, group, i, &tensors[i]);
        if (manner == ONE_BY_ONE) {
            EXPECT_OK(c, tutti_wait(t, &tensors[i].request, TUTTI_FOREVER));
        }
    }
    if (manner == GROUPED) {
        EXPECT_OK(c, tutti_group_end(t));
    }
    for (int i = 0; i < TENSORS && manner != ONE_BY_ONE; i++) {
        EXPECT_OK(c, tutti_wait(t, &tensors[i].request, TUTTI_FOREVER));
    }
}

static void verify(struct checks *c, const struct combination *how,
        const struct group *group, const struct tensor *tensors, const char *when)
{
    for (int i = 0; i < TENSORS; i++) {
        const struct tensor *tensor = &tensors[i];

        if (!EXPECT(c, is_right(group, tensor))) {
            (void)fprintf(stderr,
                    "%s of %zu %s over %d ranks, %s: backend %s, kernels %s, "
                    "chunk_bytes %s, fusion_bytes %s, inflight %s\n",
                    tutti_reduce_name(patterns[tensor->kind].op), tensor->count,
                    tutti_dtype_name(patterns[tensor->kind].dtype), group->size, when,
                    how->backend, how->kernels, how->chunk_bytes, how->fusion_bytes,
                    how->inflight);
        }
    }
}

static bool fuses(const struct combination *how)
{
    return strcmp(how->fusion_bytes, "1") != 0;
}

/* A group is one batch whatever the fusion buffer holds, so none where none is fused. */
static int manners_of(const struct combination *how)
{
    return fuses(how) ? MANNERS : GROUPED;
}

static int sums_of(const struct combination *how)
{
    return 2 * manners_of(how) * TENSORS;
}

static void run_group(tutti *t, struct checks *c, const struct combination *how,
        const struct orders *orders, const struct group *group)
{
    static const char *const when[MANNERS][2] = {
        { "together, private memory", "together, memory of tutti_alloc" },
        { "one by one, private memory", "one by one, memory of tutti_alloc" },
        { "in a group, private memory", "in a group, memory of tutti_alloc" }
    };
    struct tensor tensors[TENSORS];

    for (int is_shared = 0; is_shared < 2; is_shared++) {
        tensors_init(t, c, tensors, is_shared != 0);
        for (int manner = 0; manner < manners_of(how); manner++) {
            reduce_all(t, c, orders, group, tensors, (enum manner)manner);
            verify(c, how, group, tensors, when[manner][is_shared]);
        }
        tensors_fini(t, c, tensors, is_shared != 0);
    }
}

/* That the sums were fused, or not, as the combination says. */
static void check_fusion(tutti *t, struct checks *c, const struct combination *how,
        const struct orders *orders)
{
    tutti_stats stats = { .size = sizeof stats };
    uint64_t sums = 0;

    for (int g = 0; g < GROUPS; g++) {
        sums += orders->groups[g].has_me ? (uint64_t)sums_of(how) : 0;
    }
    EXPECT_OK(c, tutti_stats_get(t, &stats));
    EXPECT(c, fuses(how) ? stats.batches < sums : stats.batches >= sums);
}

static void run_combination(
        struct checks *c, struct orders *orders, const struct combination *how)
{
    /* Ranks in one process have but one data plane. */
    const struct setting settings[] = { { "kernels", how->kernels },
        { "chunk_bytes", how->chunk_bytes }, { "fusion_bytes", how->fusion_bytes },
        { "inflight", how->inflight },
        { c->job->processes ? "backend" : NULL, how->backend }, { 0 } };
    tutti *t = job_open(c, settings);

    if (t == NULL) {
        return;
    }
    orders->groups[0].set = TUTTI_WORLD;
    EXPECT_OK(c,
            tutti_process_set_create(t, orders->groups[1].ranks, orders->groups[1].size,
                    &orders->groups[1].set));
    for (int g = 0; g < GROUPS; g++) {
        if (orders->groups[g].has_me) {
            run_group(t, c, how, orders, &orders->groups[g]);
        }
    }
    check_fusion(t, c, how, orders);
    EXPECT_OK(c, tutti_finalize(t));
    if (c->rank == 0 && !c->list) {
        printf("    backend %s, kernels %s, chunk_bytes %s, fusion_bytes %s, inflight "
               "%s: %d sums\n",
                how->backend, how->kernels, how->chunk_bytes, how->fusion_bytes,
                how->inflight, GROUPS * sums_of(how));
    }
}

/* ------------------------------------------------------------ combinations */

static bool has_kernels(const char *kernels)
{
    return strcmp(kernels, "scalar") == 0 || tutti_has_feature(kernels);
}

/* All of them with each other; with more ranks, which take long, some, others by kernels. */
static void run_backend(struct checks *c, struct orders *orders, const char *backend)
{
    static const char *const kernels[] = { "scalar", "avx2", "avx512", "neon" };
    static const char *const chunks[] = { "4k", "64k", "0" };
    static const char *const fusions[] = { "0", "1" };
    static const char *const flights[] = { "1", "4" };

    for (int k = 0; k < 4; k++) {
        const int step = c->size > 5 ? 5 : c->size > 2 ? 3 : 1;
        const int first = step > 1 ? k % 3 : 0;

        checks_step(c, kernels[k]);
        for (int i = first; i < 3 * 2 * 2 && has_kernels(kernels[k]); i += step) {
            const struct combination how = { .backend = backend,
                .kernels = kernels[k],
                .chunk_bytes = chunks[i / 4],
                .fusion_bytes = fusions[i / 2 % 2],
                .inflight = flights[i % 2] };

            run_combination(c, orders, &how);
        }
    }
}

/* The choice of kernels is the process's: it goes back to what it was. */
static void choose_best_kernels(struct checks *c)
{
    static const struct setting settings[] = { { "kernels", "auto" }, { 0 } };
    tutti *t = job_open(c, settings);

    EXPECT_OK(c, tutti_finalize(t));
}

void suite_trees(tutti *t, struct checks *c)
{
    struct orders orders = { 0 };

    orders_init(&orders, c);
    if (!c->job->processes) {
        run_backend(c, &orders, "in-process");
    } else {
        run_backend(c, &orders, "mpi");
        if (tutti_node_count(t) == 1) {
            run_backend(c, &orders, "shm");
        }
    }
    choose_best_kernels(c);
    orders_fini(&orders);
}
