/*
 * The order of sums: data whose sums are inexact in float32, float64, float16 and bfloat16,
 * against the tree that docs/numerics.md describes, element by element. Whatever carries
 * and cuts the data, the bits are the same: backends, kernels, chunks, fusion, batches in
 * flight, memory that peers address and memory that they do not (buffer.h), sets whose order of
 * ranks is another. Says which combinations it has run.
 */
#include <stdio.h>
#include <string.h>

#include "test/suite/flight.h"
#include "test/suite/suite.h"

enum {
    RANKS_MAX = 64,
    KINDS = 8,
    COUNTS = 3,
    TENSORS = KINDS * COUNTS,
    ROUNDS = 2 /* with other memory */
};

/** How sums are submitted: fused or not as it happens, each alone, or fused for sure. */
enum manner {
    TOGETHER,
    ONE_BY_ONE,
    GROUPED,
    MANNERS
};

/** The parameters of a context. */
struct combination {
    const char *backend, *kernels, *chunk_bytes, *fusion_bytes, *inflight;
};

/* Published in one step; fused; cut in chunks. */
static struct operation sum_of(int i)
{
    static const int64_t counts[COUNTS] = { 37, 1500, 40009 };
    static const tutti_dtype dtypes[] = { TUTTI_FLOAT32, TUTTI_FLOAT64, TUTTI_FLOAT16,
        TUTTI_BFLOAT16 };

    return (struct operation){ .collective = TUTTI_ALLREDUCE,
        .pattern = { dtypes[i % 4], i / 4 % 2 == 0 ? TUTTI_SUM : TUTTI_AVERAGE,
                (uint32_t)(1 + i % KINDS) },
        .scales = { 1, 1 },
        .count = counts[i / KINDS],
        .row_count = 1,
        .in_place = true };
}

static void reduce_all(
        tutti *t, struct checks *c, const struct crew *crew, enum manner manner)
{
    struct operation operations[TENSORS];
    struct flight flights[TENSORS];
    char name[32];

    if (manner == GROUPED) {
        EXPECT_OK(c, tutti_group_begin(t));
    }
    for (int i = 0; i < TENSORS; i++) {
        operations[i] = sum_of(i);
        (void)snprintf(name, sizeof name, "sum %d", i);
        flight_begin(t, c, &flights[i], &operations[i], crew, name);
        if (manner == ONE_BY_ONE) {
            flight_end(t, c, &flights[i]);
        }
    }
    if (manner == GROUPED) {
        EXPECT_OK(c, tutti_group_end(t));
    }
    for (int i = 0; i < TENSORS && manner != ONE_BY_ONE; i++) {
        flight_end(t, c, &flights[i]);
    }
}

static bool fuses(const struct combination *how)
{
    return strcmp(how->fusion_bytes, "1") != 0;
}

/* A group is one batch whatever the fusion buffer holds, so none where none is fused. */
static int sums_of(const struct combination *how)
{
    return ROUNDS * (fuses(how) ? MANNERS : GROUPED) * TENSORS;
}

/* Returns the sums that this rank has taken part in. */
static uint64_t run_crew(tutti *t, struct checks *c, const struct combination *how,
        const struct crew *crew)
{
    if (crew->index < 0) {
        return 0;
    }
    for (int i = 0; i < sums_of(how) / TENSORS; i++) {
        reduce_all(t, c, crew, (enum manner)(i / ROUNDS));
    }
    return (uint64_t)sums_of(how);
}

/* From the last to the first, without the second when there are enough. */
static struct crew backwards(const struct checks *c, int *ranks)
{
    struct crew crew = { .world = ranks, .index = -1 };

    for (int rank = c->size - 1; rank >= 0; rank--) {
        if (rank != 1 || c->size <= 3) {
            crew.index = rank == c->rank ? crew.size : crew.index;
            ranks[crew.size++] = rank;
        }
    }
    return crew;
}

static void run_combination(
        tutti *shared, struct checks *c, const struct combination *how)
{
    /* Ranks in one process have but one data plane. */
    const struct setting settings[] = { { "kernels", how->kernels },
        { "chunk_bytes", how->chunk_bytes }, { "fusion_bytes", how->fusion_bytes },
        { "inflight", how->inflight },
        { c->job->processes ? "backend" : NULL, how->backend }, { 0 } };
    tutti *t = job_open(c, settings);
    tutti_stats stats = { .size = sizeof stats };
    int ranks[2][RANKS_MAX];
    const struct crew world = crew_of_world(c, ranks[0]);
    struct crew other = backwards(c, ranks[1]);
    const int failed = atomic_load(&c->failed);
    uint64_t sums;

    buffer_mix(t);
    EXPECT_OK(c, tutti_process_set_create(t, other.world, other.size, &other.set));
    sums = run_crew(t, c, how, &world) + run_crew(t, c, how, &other);
    EXPECT_OK(c, tutti_stats_get(t, &stats));
    EXPECT(c, fuses(how) ? stats.batches < sums : stats.batches >= sums);
    buffer_mix(shared);
    EXPECT_OK(c, tutti_finalize(t));
    if ((c->rank == 0 && !c->list) || atomic_load(&c->failed) != failed) {
        printf("    backend %s, kernels %s, chunk_bytes %s, fusion_bytes %s, inflight "
               "%s: %d sums\n",
                how->backend, how->kernels, how->chunk_bytes, how->fusion_bytes,
                how->inflight, 2 * sums_of(how));
    }
}

static bool has_kernels(const char *kernels)
{
    return strcmp(kernels, "scalar") == 0 || tutti_has_feature(kernels);
}

/* All of them with each other; with more ranks, which take long, some, others by kernels. */
static void run_backend(tutti *shared, struct checks *c, const char *backend)
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

            run_combination(shared, c, &how);
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
    if (!c->job->processes) {
        run_backend(t, c, "in-process");
    } else {
        run_backend(t, c, "messages");
        if (tutti_node_count(t) == 1) {
            run_backend(t, c, "shm");
        }
    }
    choose_best_kernels(c);
}
