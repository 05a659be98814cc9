/*
 * Coordinate descent over the values of knobs.
 */
#include "agree/tuner.h"

#include <math.h>
#include <stdlib.h>

/* Less is no gain. */
#define GAIN_MIN 0.02
/* The error of a median is about this, times the deviation, over the root of their number. */
#define MEDIAN_ERROR 1.85
/* A difference of so many errors is no chance. */
#define ERRORS 2.5

static int by_size(const void *a, const void *b)
{
    const int64_t left = *(const int64_t *)a;
    const int64_t right = *(const int64_t *)b;

    return (left > right) - (left < right);
}

static int64_t median_of(int64_t *samples, int count)
{
    qsort(samples, (size_t)count, sizeof *samples, by_size);
    return samples[count / 2];
}

/* The deviation is the median of the distances from the median. */
static struct tuner_level level_of(struct tuner *tuner)
{
    const int64_t median = median_of(tuner->samples, tuner->count);

    for (int i = 0; i < tuner->count; i++) {
        tuner->samples[i] = llabs(tuner->samples[i] - median);
    }
    return (struct tuner_level){ .ns = median,
        .noise_ns = (int64_t)(MEDIAN_ERROR *
                (double)median_of(tuner->samples, tuner->count) / sqrt(tuner->count)) };
}

static bool is_faster(const struct tuner_level *a, const struct tuner_level *b)
{
    const double saved = (double)(b->ns - a->ns);

    return saved > GAIN_MIN * (double)b->ns &&
            saved > ERRORS * (double)(a->noise_ns + b->noise_ns);
}

/* ------------------------------------------------------------------ what to try */

/* Begins with a knob, or the next one that can be tuned; TUNING_COUNT: there is none. */
static void begin_knob(struct tuner *tuner, int knob)
{
    while (knob < TUNING_COUNT && tuner->knobs[knob].count < 2) {
        knob++;
    }
    tuner->knob = knob;
    tuner->direction = 1;
    tuner->won = false;
    tuner->at = -1;
    if (knob < TUNING_COUNT && tuner->knobs[knob].ordered) {
        tuner->at = tuner->best[knob];
    }
}

static bool is_default(const struct tuner *tuner)
{
    for (int k = 0; k < TUNING_COUNT; k++) {
        if (tuner->best[k] != tuner->knobs[k].start) {
            return false;
        }
    }
    return true;
}

/* The next value of this knob to try; false: there is none. */
static bool next_value(struct tuner *tuner, bool has_won)
{
    const struct tuner_knob *knob = &tuner->knobs[tuner->knob];

    if (!knob->ordered) {
        do {
            tuner->at++;
        } while (tuner->at == tuner->best[tuner->knob]);
        return tuner->at < knob->count;
    }
    if (has_won || tuner->at == tuner->best[tuner->knob]) {
        tuner->at = tuner->best[tuner->knob] + tuner->direction;
    } else {
        tuner->at = -1;
    }
    if ((tuner->at < 0 || tuner->at >= knob->count) && tuner->direction > 0 &&
            !tuner->won) {
        tuner->direction = -1;
        tuner->at = tuner->best[tuner->knob] - 1;
    }
    return tuner->at >= 0 && tuner->at < knob->count;
}

static void end(struct tuner *tuner)
{
    tuner->state = is_default(tuner) ? TUNER_DONE : TUNER_DEFAULT;
}

/* After a trial: another one of the knob; else the next knob, once the best was measured. */
static void go_on(struct tuner *tuner, bool has_won)
{
    if (next_value(tuner, has_won)) {
        tuner->state = TUNER_TRIAL;
        return;
    }
    begin_knob(tuner, tuner->knob + 1);
    tuner->state = TUNER_BEST;
    if (tuner->knob == TUNING_COUNT && tuner->changed) {
        tuner->changed = false;
        begin_knob(tuner, 0);
    } else if (tuner->knob == TUNING_COUNT) {
        end(tuner);
    }
}

static void take_trial(struct tuner *tuner)
{
    tuner->best[tuner->knob] = tuner->at;
    tuner->won = true;
    tuner->changed = true;
}

static void take_defaults(struct tuner *tuner)
{
    for (int k = 0; k < TUNING_COUNT; k++) {
        tuner->best[k] = tuner->knobs[k].start;
    }
}

/* The best was measured after the defaults. */
static void conclude(struct tuner *tuner, const struct tuner_level *level, bool wins)
{
    tuner->state = TUNER_DONE;
    tuner->gain = wins ? 1 - (double)level->ns / (double)tuner->level.ns : 0;
    if (!wins) {
        take_defaults(tuner);
    }
}

static void end_block(struct tuner *tuner)
{
    const struct tuner_level level = level_of(tuner);
    const bool wins = is_faster(&level, &tuner->level);

    switch (tuner->state) {
    case TUNER_BEST:
        tuner->level = level;
        go_on(tuner, false);
        break;
    case TUNER_TRIAL:
        if (wins) {
            tuner->state = TUNER_BEST_AGAIN;
        } else {
            go_on(tuner, false);
        }
        break;
    case TUNER_BEST_AGAIN:
        tuner->level = level;
        tuner->state = TUNER_TRIAL_AGAIN;
        break;
    case TUNER_TRIAL_AGAIN:
        if (wins) {
            take_trial(tuner);
            tuner->level = level;
        }
        go_on(tuner, wins);
        break;
    case TUNER_DEFAULT:
        tuner->level = level;
        tuner->state = TUNER_BEST_LAST;
        break;
    case TUNER_BEST_LAST:
        conclude(tuner, &level, wins);
        break;
    case TUNER_DONE:
        break;
    }
}

/* ------------------------------------------------------------------------- calls */

void tuner_begin(struct tuner *tuner, int block, int steps_max)
{
    tuner->block = block;
    tuner->steps_max = steps_max;
    tuner->state = TUNER_BEST;
    tuner->changed = false;
    tuner->steps = 0;
    tuner->count = 0;
    tuner->skip = TUNER_SKIPPED;
    tuner->gain = 0;
    take_defaults(tuner);
    begin_knob(tuner, 0);
    if (tuner->knob == TUNING_COUNT) {
        tuner->state = TUNER_DONE;
    }
}

/* Steps that must be left to measure the best against the defaults. */
static int last_steps(const struct tuner *tuner)
{
    return 2 * (tuner->block + TUNER_SKIPPED);
}

bool tuner_step(struct tuner *tuner, int64_t ns)
{
    const struct tuning before = tuner_settings(tuner);
    struct tuning after;
    bool differs = false;

    if (tuner->state == TUNER_DONE) {
        return false;
    }
    tuner->steps++;
    if (tuner->state < TUNER_DEFAULT &&
            tuner->steps >= tuner->steps_max - last_steps(tuner)) {
        end(tuner);
        tuner->count = 0;
    } else if (tuner->steps >= tuner->steps_max) {
        tuner_stop(tuner);
    } else if (tuner->skip > 0) {
        tuner->skip--;
        return false;
    } else {
        tuner->samples[tuner->count++] = ns;
        if (tuner->count < tuner->block) {
            return false;
        }
        end_block(tuner);
        tuner->count = 0;
    }
    after = tuner_settings(tuner);
    for (int k = 0; k < TUNING_COUNT; k++) {
        differs = differs || after.values[k] != before.values[k];
    }
    tuner->skip = differs ? TUNER_SKIPPED : 0;
    return differs;
}

void tuner_stop(struct tuner *tuner)
{
    tuner->state = TUNER_DONE;
}

struct tuning tuner_settings(const struct tuner *tuner)
{
    const bool is_trial =
            tuner->state == TUNER_TRIAL || tuner->state == TUNER_TRIAL_AGAIN;
    struct tuning tuning = { 0 };

    for (int k = 0; k < TUNING_COUNT; k++) {
        const struct tuner_knob *knob = &tuner->knobs[k];

        if (knob->count > 1 && tuner->state != TUNER_DEFAULT) {
            tuning.values[k] =
                    knob->values[is_trial && k == tuner->knob ? tuner->at
                                                              : tuner->best[k]];
        }
    }
    return tuning;
}

void tuner_knob_fill(struct tuner_knob *knob, const uint64_t *values, int count,
        uint64_t is, uint64_t most)
{
    bool placed = false;

    *knob = (struct tuner_knob){ .ordered = true };
    for (int i = 0; i < count; i++) {
        if (!placed && values[i] >= is) {
            knob->start = knob->count;
            knob->values[knob->count++] = 0;
            placed = true;
        }
        if (values[i] != is && values[i] <= most) {
            knob->values[knob->count++] = values[i];
        }
    }
    if (!placed) {
        knob->start = knob->count;
        knob->values[knob->count++] = 0;
    }
}
