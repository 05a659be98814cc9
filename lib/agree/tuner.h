/*
 * The search for the settings of a plan that are fastest. Pure: it is told how long steps
 * took, and says with which settings the next ones are to be done.
 *
 *     knob     a parameter and a few values that it may take, with the default among them
 *     block    some steps with the same settings; its level is their median, and how far
 *              that may be off
 *     trial    the best settings so far, but for one knob
 *
 * One knob after the other: the next larger value is tried, and as long as it wins the one
 * after that; if it did not win, the next smaller ones. Of a knob without an order each
 * value is tried. A trial wins when its level is below that of the best by 2 %, and by more
 * than both are off; then the best and the trial are measured again, and it must win once
 * more. So a machine that others slow down meanwhile makes trials lose, not win. When all
 * knobs were tried the best is measured against the defaults, which stay unless it wins. That
 * is the gain. After a number of steps the search ends wherever it is.
 */
#ifndef TUTTI_AGREE_TUNER_H
#define TUTTI_AGREE_TUNER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/tuning.h"

/** Values of a knob at most. */
#define TUNER_VALUES_MAX 10
/** Steps of a block at most. */
#define TUNER_BLOCK_MAX 100
/** Steps after a change that do not count. */
#define TUNER_SKIPPED 2

struct tuner_knob {
    uint64_t values[TUNER_VALUES_MAX]; /* as in struct tuning; 0: the default */
    int count; /* up to 1: not to be tuned */
    int start; /* of the default */
    bool ordered; /* values that are near each other are alike */
};

enum tuner_state {
    TUNER_BEST, /* how fast the best settings are, before a knob is tried */
    TUNER_TRIAL,
    TUNER_BEST_AGAIN, /* a trial has won */
    TUNER_TRIAL_AGAIN,
    TUNER_DEFAULT, /* all knobs were tried */
    TUNER_BEST_LAST,
    TUNER_DONE
};

/** What a block says. */
struct tuner_level {
    int64_t ns; /* median */
    int64_t noise_ns; /* by how much that may be off */
};

struct tuner {
    struct tuner_knob knobs[TUNING_COUNT];
    int block; /* steps of one */
    int steps_max;

    enum tuner_state state;
    int best[TUNING_COUNT]; /* indices of values */
    int knob, at; /* TRIAL: which value is tried of which knob */
    int direction; /* 1: larger values, -1: smaller ones */
    bool won; /* some value of this knob has */
    bool changed; /* some knob has won since the first was tried */
    int steps; /* so far */
    int skip; /* steps that do not count any more */
    int count; /* of samples */
    int64_t samples[TUNER_BLOCK_MAX];
    struct tuner_level level; /* of what the running block is compared with */
    double gain; /* DONE: the share of the time that is saved, or 0 */
};

/** Begins; the knobs are set. @param block  steps, 3 to TUNER_BLOCK_MAX */
void tuner_begin(struct tuner *tuner, int block, int steps_max);
/** A step has taken so long. @return true when the settings are others from now on */
bool tuner_step(struct tuner *tuner, int64_t ns);
/** Ends the search where it is, with the best settings that have won twice. */
void tuner_stop(struct tuner *tuner);
/** What the next steps are to be done with. */
struct tuning tuner_settings(const struct tuner *tuner);

/** Adds a value; the default, whose value is `is`, is put among them as 0. */
void tuner_knob_fill(struct tuner_knob *knob, const uint64_t *values, int count,
        uint64_t is, uint64_t most);

#endif
