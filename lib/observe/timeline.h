/*
 * A timeline: a second recording of this rank (observe/recorder.h), in a file, larger than that of
 * the flight recorder, and with events that are too many to be kept always. It is on from
 * when it is asked for, by a parameter, a call or tuttirun, during the steps that were asked for.
 *
 * A step is what the program calls one (options.step). Where it does not say, a step begins when a
 * tensor is submitted that was submitted in this one.
 */
#ifndef TUTTI_OBSERVE_TIMELINE_H
#define TUTTI_OBSERVE_TIMELINE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <tutti/tutti.h>

#include "observe/recorder.h"
#include "ops/op.h"

struct batch;
struct operation;
struct tutti;

/** In which steps there is a timeline. */
enum timeline_mode {
    TIMELINE_OFF,
    TIMELINE_WINDOW, /* those of timeline_steps */
    TIMELINE_ALL /* all */
};

/** Zeroed: none. */
struct timeline {
    struct recorder file; /* context's lock; mapped until the context ends          */
    char *folder; /* of it; owned; context's lock                                 */
    _Atomic uint32_t
            mode; /* enum timeline_mode; written under the context's lock      */
    uint64_t first,
            last; /* timeline_steps; fixed                                     */

    /* engine */
    uint32_t heard; /* of what the supervisor has asked                             */
    uint64_t step; /* that this rank is in                                        */
    bool has_steps; /* the program says which step it is in                          */
    uint32_t ordinal; /* of the step; 0: none has begun                               */
    uint32_t *
            used; /* [RECORDER_TENSORS] owned; ordinal of the last use; NULL: no timeline yet */
    int64_t since_ns; /* what takes time has begun then; 0: nothing has         */
    struct op_spent spent; /* by backends, for the batch that they move               */
};

/** True while steps are followed. Engine. */
static inline bool timeline_is_on(const struct timeline *timeline)
{
    /* Acquire: pairs with timeline_start(). */
    return atomic_load_explicit(&timeline->mode, memory_order_acquire) != TIMELINE_OFF;
}

/** Reads the parameters, and begins. @return TUTTI_OK, TUTTI_ERR_CONFIG (timeline_steps) */
TUTTI_MUST_USE tutti_status timeline_open(struct tutti *t);
/** The recorder is closed later. */
void timeline_fini(struct tutti *t);

/** Begins, or goes on, in all steps; NULL: the directory of the parameter. Any thread. */
TUTTI_MUST_USE tutti_status timeline_start(struct tutti *t, const char *folder);
/** Any thread. */
void timeline_stop(struct tutti *t);

/* Engine: */

/** Does what the supervisor has asked since. */
void timeline_look(struct tutti *t);
/** An operation was taken in. */
void timeline_take_in(struct tutti *t, const struct operation *operation);
/** Adds what a batch that is launched consists of. @return the bytes of its tensors */
size_t timeline_members(const struct tutti *t, const struct batch *batch);

#endif
