/*
 * Which step a tensor is expected to come with next. All members have seen the same uses of
 * a number, so they expect the same; a number in an announcement, or its bit, stands for
 * that step, which so takes no byte. Any other step is said. Pure.
 *
 * Expected is that steps grow by what they grew by before, and come as many times in a row:
 * 3 4 5, 40 50 60, and 7 7 8 8.
 */
#ifndef TUTTI_AGREE_STEPS_H
#define TUTTI_AGREE_STEPS_H

#include <stdint.h>

/** The uses of a number so far. Steps as in struct meta; zeroed: none. */
struct steps {
    uint64_t last; /* step of the last use */
    int32_t stride; /* by which they grow; 0: not known, which is 1 */
    int32_t jump; /* what the last change was; 0: none, or too far to be kept */
    uint32_t run; /* uses with the last step */
    uint32_t length; /* uses expected with it */
};

/** The step that is expected. */
static inline uint64_t steps_next(const struct steps *steps)
{
    if (steps->last == 0 || steps->run < steps->length) {
        return steps->last;
    }
    return steps->last + (uint64_t)(steps->stride != 0 ? steps->stride : 1);
}

/** The step changed. A single jump, as from a checkpoint, does not change the stride. */
static inline void steps_jump(struct steps *steps, int64_t far)
{
    const int32_t jump = far == (int32_t)far ? (int32_t)far : 0;

    steps->stride = steps->stride == 0 || jump == steps->jump ? jump : steps->stride;
    steps->jump = jump;
    steps->length = steps->run;
    steps->run = 1;
}

/** The tensor was used. */
static inline void steps_take(struct steps *steps, uint64_t step)
{
    if (step == 0 || steps->last == 0) {
        steps->run = 1;
        steps->length = 1;
    } else if (step == steps->last) {
        steps->run++;
        steps->length = steps->run > steps->length ? UINT32_MAX : steps->length;
    } else {
        steps_jump(steps, (int64_t)(step - steps->last));
    }
    steps->last = step;
}

#endif
