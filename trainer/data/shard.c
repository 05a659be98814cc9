/*
 * Which rank reads which sample: an order of each epoch that is computed, and its division
 * among the ranks.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tutti/trainer/data.h>

#include "error.h"
#include "options.h"
#include "state/agree.h"

enum {
    ROUNDS = 8, /* even, so that the halves have their widths again at the end */
};

struct tutti_shard {
    tutti_shard_options options; /* ranks and rank are set */
    unsigned high_bits; /* with low_bits: of the least power of two >= samples    */
    unsigned low_bits;
    uint64_t keys[ROUNDS]; /* of the epoch */
    tutti_shard_state state;
};

/** A step: places in the order of the epoch. */
struct shard_step {
    int64_t first; /* of this rank                      */
    int64_t count; /* of this rank                      */
    int64_t taken; /* by all ranks, without what is padded */
};

void tutti_shard_options_default_sized(tutti_shard_options *options, size_t size)
{
    const tutti_shard_options defaults = {
        .size = size,
        .shuffle = true,
        .tail = TUTTI_TAIL_PADDED,
        .process_set = TUTTI_WORLD,
    };

    options_give(options, size, &defaults, sizeof defaults);
}

/* ---------------------------------------------------------------- the order */

/** The finalizer of splitmix64 (Steele, Lea, Flood, OOPSLA 2014, figure 15, variant 13). */
static uint64_t mix(uint64_t x)
{
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9U;
    x = (x ^ x >> 27) * 0x94d049bb133111ebU;
    return x ^ x >> 31;
}

static uint64_t feistel(const tutti_shard *shard, uint64_t x)
{
    uint64_t left_mask = (UINT64_C(1) << shard->high_bits) - 1;
    uint64_t right_mask = (UINT64_C(1) << shard->low_bits) - 1;
    uint64_t left = x >> shard->low_bits;
    uint64_t right = x & right_mask;

    for (int round = 0; round < ROUNDS; round++) {
        uint64_t next = left ^ (mix(right + shard->keys[round]) & left_mask);
        uint64_t mask = left_mask;

        left = right;
        right = next;
        left_mask = right_mask;
        right_mask = mask;
    }
    return left << shard->low_bits | right;
}

/** The sample at a place of the order. Places beyond the end begin it again. */
static int64_t sample_at(const tutti_shard *shard, int64_t place)
{
    uint64_t x = (uint64_t)(place % shard->options.samples);

    if (shard->options.shuffle) {
        do {
            x = feistel(shard, x);
        } while (x >= (uint64_t)shard->options.samples);
    }
    return (int64_t)x;
}

static void begin_epoch(tutti_shard *shard, tutti_shard_state state)
{
    uint64_t key = mix(shard->options.seed) + (uint64_t)state.epoch;

    shard->state = state;
    for (int round = 0; round < ROUNDS; round++) {
        key = mix(key + 0x9e3779b97f4a7c15U);
        shard->keys[round] = key;
    }
}

/* ----------------------------------------------------------------- a shard */

static tutti_status check_options(const tutti_shard_options *options)
{
    if (options->samples < 1) {
        return error_set(TUTTI_ERR_INVALID,
                "a shard of %lld samples: options.samples is the number of samples of "
                "the whole data set, 1 or more",
                (long long)options->samples);
    }
    if (options->tail != TUTTI_TAIL_EVEN && options->tail != TUTTI_TAIL_PADDED &&
            options->tail != TUTTI_TAIL_UNEVEN) {
        return error_set(TUTTI_ERR_INVALID,
                "options.tail of a shard is %d; it is one of TUTTI_TAIL_EVEN, "
                "TUTTI_TAIL_PADDED and TUTTI_TAIL_UNEVEN",
                (int)options->tail);
    }
    return TUTTI_OK;
}

static tutti_status check_rank(int rank, int ranks)
{
    if (ranks < 1 || rank < 0 || rank >= ranks) {
        return error_set(TUTTI_ERR_INVALID,
                "a shard of rank %d of %d ranks; rank is 0 to ranks - 1", rank, ranks);
    }
    return TUTTI_OK;
}

/**
 * Takes this rank's place from the process set; all ranks have the same options, or fail.
 * @param status  of this rank so far
 */
static tutti_status join_set(
        tutti *t, tutti_shard_options *options, tutti_status status)
{
    char seed[32];
    const struct setting settings[] = {
        number_setting("options.samples", (double)options->samples),
        text_setting("options.seed", seed),
        number_setting("options.shuffle", options->shuffle),
        number_setting("options.tail", options->tail),
    };
    struct state_group group;
    tutti_status found = group_init(&group, t, options->process_set);

    if (found != TUTTI_OK) {
        return found;
    }
    options->ranks = group.ranks;
    options->rank = group.rank;
    (void)snprintf(seed, sizeof seed, "%llu", (unsigned long long)options->seed);
    return group_same(&group, status == TUTTI_OK ? check_options(options) : status,
            settings, sizeof settings / sizeof settings[0], NULL);
}

tutti_status tutti_shard_create(
        tutti *t, const tutti_shard_options *options, tutti_shard **shard)
{
    tutti_shard_options settings;
    tutti_shard *made;
    tutti_status status;
    unsigned bits = 0;

    if (options == NULL || options->size == 0 || shard == NULL) {
        return error_set(TUTTI_ERR_INVALID,
                "a shard needs options with a size, and where to put it");
    }
    tutti_shard_options_default(&settings);
    options_take(&settings, sizeof settings, options);
    made = calloc(1, sizeof *made);
    status = made != NULL ? TUTTI_OK
                          : error_set(TUTTI_ERR_NO_MEMORY, "no memory for a shard");
    if (settings.ranks == 0) {
        status = join_set(t, &settings, status);
    } else if (status == TUTTI_OK) {
        status = check_options(&settings);
    }
    if (status == TUTTI_OK) {
        status = check_rank(settings.rank, settings.ranks);
    }
    if (status != TUTTI_OK || made == NULL) {
        free(made);
        return status;
    }
    while (UINT64_C(1) << bits < (uint64_t)settings.samples) {
        bits++;
    }
    made->options = settings;
    made->high_bits = bits - bits / 2;
    made->low_bits = bits / 2;
    tutti_shard_epoch(made, 0);
    *shard = made;
    return TUTTI_OK;
}

void tutti_shard_destroy(tutti_shard *shard)
{
    free(shard);
}

void tutti_shard_epoch(tutti_shard *shard, int64_t epoch)
{
    begin_epoch(shard, (tutti_shard_state){ .epoch = epoch < 0 ? 0 : epoch });
}

tutti_status tutti_shard_resume(
        tutti_shard *shard, tutti_shard_state state, int rank, int ranks)
{
    tutti_shard_options *options = &shard->options;
    tutti_status status = ranks == 0 ? TUTTI_OK : check_rank(rank, ranks);

    if (state.epoch < 0 || state.position < 0 || state.position > options->samples) {
        status = error_set(TUTTI_ERR_INVALID,
                "epoch %lld cannot go on at position %lld: the shard has %lld samples; "
                "the state is that of another data set",
                (long long)state.epoch, (long long)state.position,
                (long long)options->samples);
    }
    if (status != TUTTI_OK) {
        return status;
    }
    if (ranks != 0) {
        options->rank = rank;
        options->ranks = ranks;
    }
    begin_epoch(shard, state);
    return TUTTI_OK;
}

tutti_shard_state tutti_shard_get_state(const tutti_shard *shard)
{
    return shard->state;
}

/* ------------------------------------------------------------------- steps */

/** Samples of a whole step of all ranks; a number beyond all samples if there are so many. */
static int64_t whole_step(const tutti_shard *shard, int64_t batch)
{
    int64_t samples;

    return __builtin_mul_overflow(batch, (int64_t)shard->options.ranks, &samples)
            ? INT64_MAX
            : samples;
}

/** The step that is so many whole steps after the next one; beyond the end it is empty. */
static struct shard_step step_at(const tutti_shard *shard, int64_t batch, int64_t ahead)
{
    const tutti_shard_options *options = &shard->options;
    int64_t left = options->samples - shard->state.position;
    int64_t whole = batch > 0 ? whole_step(shard, batch) : 1;
    struct shard_step step = { .count = 0 };

    if (batch <= 0 || ahead < 0 || left / whole < ahead) {
        return step;
    }
    step.first = shard->state.position + ahead * whole;
    step.taken = left - ahead * whole;
    if (step.taken >= whole) {
        step.taken = whole;
        step.count = batch;
        step.first += batch * options->rank;
    } else if (options->tail == TUTTI_TAIL_EVEN) {
        step.taken = 0;
    } else if (options->tail == TUTTI_TAIL_PADDED) {
        step.count = step.taken / options->ranks + (step.taken % options->ranks != 0);
        step.first += step.count * options->rank;
    } else {
        int64_t part;

        step.count = tutti_part(step.taken, options->ranks, options->rank, &part);
        step.first += part;
    }
    return step;
}

int64_t tutti_shard_peek(
        const tutti_shard *shard, int64_t *indices, int64_t batch, int64_t ahead)
{
    struct shard_step step = step_at(shard, batch, ahead);

    for (int64_t i = 0; i < step.count; i++) {
        indices[i] = sample_at(shard, step.first + i);
    }
    return step.count;
}

int64_t tutti_shard_next(tutti_shard *shard, int64_t *indices, int64_t batch)
{
    int64_t count = tutti_shard_peek(shard, indices, batch, 0);

    shard->state.position += step_at(shard, batch, 0).taken;
    return count;
}

int64_t tutti_shard_steps(const tutti_shard *shard, int64_t batch)
{
    int64_t left = shard->options.samples - shard->state.position;
    int64_t whole = batch > 0 ? left / whole_step(shard, batch) : 0;

    return whole + (step_at(shard, batch, whole).count > 0);
}
