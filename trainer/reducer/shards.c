/*
 * The sum of V virtual shards along one binary tree.
 *
 *     V = 6, 3 ranks of 2 shards      ((0 + 1) + (2 + 3)) + (4 + 5)
 *     V = 6, 4 ranks: 2, 2, 1, 1      the same; ranks 2 and 3 have the halves of (4 + 5)
 *
 * Shards are pushed on a stack in ascending order. After each, as many sums are made of the two
 * numbers on top as there are subtrees that end with this shard.
 */
#include "reducer/shards.h"

#include <stdlib.h>
#include <string.h>

#include "error.h"

enum {
    BLOCK = 1024, /* elements that go through the tree together */
    DEPTH_MAX = 18, /* of the stack: levels of a tree of SHARDS_MAX */
    PARTIALS_MAX = 2 * DEPTH_MAX /* of a rank */
};

/** A partial sum, and how many sums follow it when those of all ranks are added up. */
struct partial {
    bool mine;
    int merges;
};

struct shards_sum {
    tutti *t;
    int shards, ranks, rank;
    bool allreduce; /* an allreduce over the ranks completes the tree     */
    int64_t count;
    int first, mine; /* shards of this rank                                */
    int sent_slots; /* the first ones; 0 with an allreduce                */
    int filled; /* slots in use                                       */
    float *slots; /* partial sums of this rank; see slot_part()         */
    float *arrived; /* this rank's slice of the others' partial sums; behind `slots` */
    int64_t *parts; /* [ranks] elements of each rank's slice; owned       */
    int64_t *sent, *received; /* [ranks] elements for and from each rank; in `parts` */
    struct partial *partials; /* of all ranks, in the order of shards               */
    int partial_count;
};

bool shards_fit_ranks(int shards, int ranks)
{
    const int each = shards / ranks;

    return shards % ranks == 0 && (each & (each - 1)) == 0;
}

/* How many subtrees of two or more shards end with a shard, of those that begin at `from` or later. */
static int count_merges(int shards, int shard, int from)
{
    int first = 0;
    int length = shards;
    int merges = 0;

    while (length > 1) {
        int split = 1;

        merges += first >= from && first + length - 1 == shard ? 1 : 0;
        while (split * 2 < length) {
            split *= 2;
        }
        if (shard < first + split) {
            length = split;
        } else {
            first += split;
            length -= split;
        }
    }
    return merges;
}

static int64_t part(const struct shards_sum *sum, int rank, int64_t *first)
{
    return tutti_part(sum->count, sum->ranks, rank, first);
}

/*
 * Slots that are sent lie slice by slice, as an alltoall sends them: all partial sums of the slice
 * of rank 0, then those of rank 1. This rank's own slice is not sent and comes last. Other slots
 * are used on the way only.
 */
static float *slot_part(const struct shards_sum *sum, int slot, int rank)
{
    int64_t first;
    const int64_t length = part(sum, rank, &first);

    if (slot >= sum->sent_slots) {
        return sum->slots + slot * sum->count + first;
    }
    if (rank == sum->rank) {
        first = sum->count - length;
    } else if (rank > sum->rank) {
        first -= part(sum, sum->rank, NULL);
    }
    return sum->slots + sum->sent_slots * first + slot * length;
}

/* ------------------------------------------------------------------- create */

/* The most slots that are in use at once; what an allreduce completes stays in the gradient. */
static int count_slots(const struct shards_sum *sum)
{
    const int kept = sum->allreduce ? sum->mine - 1 : sum->mine;
    int most = 0;
    int filled = 0;

    for (int i = 0; i < kept; i++) {
        filled += 1 - count_merges(sum->shards, sum->first + i, sum->first);
        most = filled > most ? filled : most;
    }
    return most;
}

/* Lists the partial sums of a rank behind those before; returns how many it has. */
static int list_partials(struct shards_sum *sum, int rank)
{
    struct partial *partials = sum->partials + sum->partial_count;
    int64_t first;
    const int64_t count = tutti_part(sum->shards, sum->ranks, rank, &first);
    int filled = 0;

    for (int s = (int)first; s < (int)(first + count); s++) {
        const int inside = count_merges(sum->shards, s, (int)first);

        filled += 1 - inside;
        partials[filled - 1] = (struct partial){
            .mine = rank == sum->rank,
            .merges = count_merges(sum->shards, s, 0) - inside,
        };
    }
    sum->partial_count += filled;
    return filled;
}

/* What is sent to and received from each other rank, and how it is added up. */
static tutti_status prepare_exchange(struct shards_sum *sum)
{
    const size_t ranks = (size_t)sum->ranks;
    const int64_t own = part(sum, sum->rank, NULL);

    sum->parts = calloc(3 * ranks, sizeof *sum->parts);
    sum->partials = calloc(PARTIALS_MAX * ranks, sizeof *sum->partials);
    if (sum->parts == NULL || sum->partials == NULL) {
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory for a sum of shards");
    }
    sum->sent = sum->parts + ranks;
    sum->received = sum->sent + ranks;
    for (int r = 0; r < sum->ranks; r++) {
        sum->parts[r] = part(sum, r, NULL);
        sum->received[r] = list_partials(sum, r) * own;
    }
    for (int i = 0; i < sum->partial_count; i++) {
        sum->sent_slots += sum->partials[i].mine ? 1 : 0;
    }
    for (int r = 0; r < sum->ranks; r++) {
        sum->sent[r] = sum->sent_slots * sum->parts[r];
    }
    sum->sent[sum->rank] = 0;
    sum->received[sum->rank] = 0;
    return TUTTI_OK;
}

/* Slots, and behind them what arrives. */
static tutti_status allocate_floats(struct shards_sum *sum)
{
    const int64_t slots = count_slots(sum) * sum->count;
    const int64_t others =
            (sum->partial_count - sum->sent_slots) * part(sum, sum->rank, NULL);
    void *memory = NULL;
    const tutti_status status = tutti_alloc(
            sum->t, (size_t)(slots + others) * sizeof *sum->slots, TUTTI_HOST, &memory);

    sum->slots = memory;
    sum->arrived = memory == NULL ? NULL : sum->slots + slots;
    return status;
}

tutti_status shards_sum_create(const tutti_compressor_info *info, int shards,
        bool exact_tree, struct shards_sum **out)
{
    struct shards_sum *sum = calloc(1, sizeof *sum);
    int64_t first;
    tutti_status status;

    if (sum == NULL) {
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory for a sum of shards");
    }
    *sum = (struct shards_sum){
        .t = info->t,
        .shards = shards,
        .ranks = info->ranks,
        .rank = info->rank,
        .allreduce = info->ranks == 1 ||
                (exact_tree && shards_fit_ranks(shards, info->ranks)),
        .count = info->count,
        .mine = (int)tutti_part(shards, info->ranks, info->rank, &first),
    };
    sum->first = (int)first;
    status = sum->allreduce ? TUTTI_OK : prepare_exchange(sum);
    if (status == TUTTI_OK) {
        status = allocate_floats(sum);
    }
    if (status != TUTTI_OK) {
        shards_sum_destroy(sum);
        return status;
    }
    *out = sum;
    return TUTTI_OK;
}

void shards_sum_destroy(struct shards_sum *sum)
{
    if (sum == NULL) {
        return;
    }
    (void)tutti_free(sum->t, sum->slots);
    free(sum->parts);
    free(sum->partials);
    free(sum);
}

/* ------------------------------------------------------------------- adding */

static void add_below(const float *left, float *right, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): two numbers come before a sum */
        right[i] = left[i] + right[i];
    }
}

/* Adds the last slots to a rank's slice of a gradient, and keeps it in a slot if it has to wait. */
static void add_slice(struct shards_sum *sum, int merges, bool keep, bool clear,
        int rank, float *slice)
{
    const int64_t length = part(sum, rank, NULL);

    for (int64_t at = 0; at < length; at += BLOCK) {
        const int64_t n = length - at < BLOCK ? length - at : BLOCK;

        for (int m = 1; m <= merges; m++) {
            add_below(slot_part(sum, sum->filled - m, rank) + at, slice + at, n);
        }
        if (keep) {
            memcpy(slot_part(sum, sum->filled - merges, rank) + at, slice + at,
                    (size_t)n * sizeof *slice);
        }
        if (clear) {
            memset(slice + at, 0, (size_t)n * sizeof *slice);
        }
    }
}

void shards_sum_add(struct shards_sum *sum, int index, float *gradient)
{
    const int merges = count_merges(sum->shards, sum->first + index, sum->first);
    const bool is_last = index + 1 == sum->mine;
    const bool keep = !(sum->allreduce && is_last);

    if (index == 0) {
        sum->filled = 0;
    }
    for (int r = 0; r < sum->ranks; r++) {
        int64_t first;

        (void)part(sum, r, &first);
        add_slice(sum, merges, keep, !is_last, r, gradient + first);
    }
    sum->filled += (keep ? 1 : 0) - merges;
}

/* Adds up a block of this rank's slice of all partial sums, and divides by the shards. */
static void complete_block(
        const struct shards_sum *sum, int64_t at, int64_t n, float *result)
{
    const int64_t own = part(sum, sum->rank, NULL);
    const float factor = (float)(1.0 / sum->shards);
    float *stack[DEPTH_MAX] = { NULL };
    float *arrived = sum->arrived + at;
    int depth = 0;
    int slot = 0;

    for (int i = 0; i < sum->partial_count; i++) {
        float *top = arrived;

        if (sum->partials[i].mine) {
            top = slot_part(sum, slot++, sum->rank) + at;
        } else {
            arrived += own;
        }
        for (int m = 0; m < sum->partials[i].merges; m++) {
            add_below(stack[--depth], top, n);
        }
        stack[depth++] = top;
    }
    for (int64_t k = 0; k < n; k++) {
        /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): there is a partial sum */
        result[k] = stack[0][k] * factor;
    }
}

/* The stages: this rank's slice of all partial sums; then the slices of the result. */
static tutti_status shards_stage(
        void *state, int stage, float *gradient, tutti_exchange *next)
{
    const struct shards_sum *sum = state;
    int64_t first;
    const int64_t own = part(sum, sum->rank, &first);

    next->row_count = 1;
    next->dtype = TUTTI_FLOAT32;
    if (stage == 0) {
        next->collective = TUTTI_ALLTOALL;
        next->input = sum->slots;
        next->output = sum->arrived;
        next->count = sum->sent_slots * (sum->count - own);
        next->rows_of = sum->sent;
        next->recv_rows = sum->received;
        return TUTTI_AGAIN;
    }
    if (stage == 1) {
        for (int64_t at = 0; at < own; at += BLOCK) {
            complete_block(sum, at, own - at < BLOCK ? own - at : BLOCK,
                    gradient + first + at);
        }
        next->collective = TUTTI_ALLGATHER;
        next->input = gradient + first;
        next->output = gradient;
        next->count = own;
        next->rows_of = sum->parts;
        return TUTTI_AGAIN;
    }
    return TUTTI_OK;
}

const tutti_compressor *shards_sum_stages(const struct shards_sum *sum)
{
    static const tutti_compressor stages = {
        .size = sizeof stages,
        .name = "shards",
        .stage = shards_stage,
    };

    return sum->allreduce ? NULL : &stages;
}
