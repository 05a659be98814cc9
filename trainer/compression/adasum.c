/*
 * Adasum: pairs of gradients are added less what they have in common, along a tree over the
 * ranks. Each rank does it for its slice of the gradients of all ranks:
 *
 *   stage 0          alltoall: slice j of all ranks comes to rank j
 *   each level       dot products of each pair within the slice, summed over the slices by a
 *                    small allreduce in double; then each pair becomes one
 *   at the end       allgather of the slices
 *
 * At the level of `step` = 1, 2, 4, ... the ranks from i to i + step are joined with those from
 * i + step, for each multiple i of 2 step: the tree in which a range of ranks is split at the
 * largest power of two below its length.
 */
#include "compression/compressed.h"

/** The state of a parameter. */
struct adasum {
    struct compressed common;
    int64_t *slices; /* [ranks], elements of each rank's slice */
    int64_t *received; /* [ranks], this rank's slice from each rank */
    float *vectors; /* [ranks][slice], become one */
    double *dots; /* [ranks / 2][3]: a.a, b.b, a.b of each pair */
};

static void prepare(void *state, const tutti_compressor_info *info)
{
    struct adasum *adasum = state;
    struct compressed *c = &adasum->common;
    int64_t slice = tutti_part(c->count, c->ranks, c->rank, NULL);
    int64_t ranks = c->ranks;

    c->plain = info->ranks == 1;
    c->settings.feedback = false;
    adasum->slices = compressed_alloc(c, ranks * (int64_t)sizeof *adasum->slices);
    adasum->received = compressed_alloc(c, ranks * (int64_t)sizeof *adasum->received);
    adasum->vectors =
            compressed_alloc(c, ranks * slice * (int64_t)sizeof *adasum->vectors);
    adasum->dots = compressed_alloc(c, ranks / 2 * 3 * (int64_t)sizeof *adasum->dots);
    for (int r = 0; adasum->received != NULL && r < c->ranks; r++) {
        adasum->slices[r] = tutti_part(c->count, c->ranks, r, NULL);
        adasum->received[r] = slice;
    }
}

/** This rank's slice of the gradient of rank r, or of what it has been joined to. */
static float *vector_of(const struct adasum *adasum, int r)
{
    return adasum->vectors + r * adasum->received[0];
}

/** The dot products of all pairs of a level, to be summed over the slices. */
static tutti_status multiply(
        const struct adasum *adasum, int step, tutti_exchange *next)
{
    int64_t slice = adasum->received[0];
    int64_t at = 0;

    for (int i = 0; i + step < adasum->common.ranks; i += 2 * step) {
        const float *a = vector_of(adasum, i);
        const float *b = vector_of(adasum, i + step);

        adasum->dots[at++] = elements_dot(a, a, slice);
        adasum->dots[at++] = elements_dot(b, b, slice);
        adasum->dots[at++] = elements_dot(a, b, slice);
    }
    (void)compressed_ask(
            next, TUTTI_ALLREDUCE, adasum->dots, adasum->dots, at, TUTTI_FLOAT64);
    next->op = TUTTI_SUM;
    return TUTTI_AGAIN;
}

/** Joins all pairs of a level. */
static void join(const struct adasum *adasum, int step)
{
    int64_t slice = adasum->received[0];
    const double *dots = adasum->dots;

    for (int i = 0; i + step < adasum->common.ranks; i += 2 * step) {
        float *restrict a = vector_of(adasum, i);
        const float *restrict b = vector_of(adasum, i + step);
        /* a zero vector has nothing in common with the other */
        double of_a = dots[0] != 0.0 ? 1.0 - 0.5 * dots[2] / dots[0] : 1.0;
        double of_b = dots[1] != 0.0 ? 1.0 - 0.5 * dots[2] / dots[1] : 1.0;

        for (int64_t j = 0; j < slice; j++) {
            a[j] = (float)(of_a * (double)a[j] + of_b * (double)b[j]);
        }
        dots += 3;
    }
}

static tutti_status adasum_stage(
        void *state, int stage, float *gradient, tutti_exchange *next)
{
    struct adasum *adasum = state;
    int ranks = adasum->common.ranks;
    int step = stage > 0 ? 1 << (stage - 1) : 0; /* of this level */

    if (stage == 0) {
        next->rows_of = adasum->slices;
        next->recv_rows = adasum->received;
        return compressed_ask(next, TUTTI_ALLTOALL, gradient, adasum->vectors,
                adasum->common.count, TUTTI_FLOAT32);
    }
    if (step / 2 >= ranks) {
        return TUTTI_OK;
    }
    if (stage > 1) {
        join(adasum, step / 2);
    }
    if (step < ranks) {
        return multiply(adasum, step, next);
    }
    next->rows_of = adasum->slices;
    return compressed_ask(next, TUTTI_ALLGATHER, adasum->vectors, gradient,
            adasum->received[0], TUTTI_FLOAT32);
}

static tutti_status adasum_open(const tutti_compressor_info *info, void **state)
{
    static const struct codec codec = {
        .bytes = sizeof(struct adasum), .prepare = prepare, .stage = adasum_stage
    };

    return compressed_open(info, &codec, state);
}

const tutti_compressor *tutti_compress_adasum(void)
{
    static const tutti_compressor compressor = COMPRESSED_HOOK("adasum", adasum_open);

    return &compressor;
}
