/*
 * Operations (test/batch/operation.h) through the public API: memory, calls, and the comparison
 * of every bit.
 */
#ifndef TUTTI_TEST_SUITE_FLIGHT_H
#define TUTTI_TEST_SUITE_FLIGHT_H

#include "test/batch/operation.h"
#include "test/suite/buffer.h"
#include "test/suite/checks.h"

/** An operation on its way, with its memory. */
struct flight {
    const struct operation *operation; /* borrowed, as is the crew */
    const struct crew *crew;
    struct buffer input; /* empty when it is in place */
    struct buffer output; /* empty when the request owns it */
    size_t at; /* in place: where the smaller of the two lies in the other */
    void *stream; /* with what the input is written, and submitted; NULL: none */
    tutti_request request;
};

/** Allocates and fills the memory. */
void flight_prepare(
        struct flight *f, const struct operation *o, const struct crew *crew);
/** Submits by name. Lists and options are overwritten at once: they were copied. */
tutti_status flight_submit(tutti *t, struct flight *f, const char *name);
/** Registers the operation under a name. */
tutti_status flight_register(
        tutti *t, const struct flight *f, const char *name, tutti_tensor *tensor);
/** Submits what was registered. */
tutti_status flight_submit_registered(tutti *t, struct flight *f, tutti_tensor tensor);
/** Prepares, submits and checks that this went well. */
void flight_begin(tutti *t, struct checks *c, struct flight *f,
        const struct operation *o, const struct crew *crew, const char *name);
/** Waits, checks status and every bit, and frees the memory. */
void flight_end(tutti *t, struct checks *c, struct flight *f);
/** Waits for an operation that fails: that is checked, and that its output is as before. */
void flight_fail(tutti *t, struct checks *c, struct flight *f, tutti_status want);
/** Frees the memory of what was not submitted. */
void flight_fini(struct flight *f);

/** Runs operations of the world, all in flight together; their descriptions are names. */
void operations_run(
        tutti *t, struct checks *c, const struct operation *operations, size_t count);

/** The world as a crew; `ranks` is [size] of storage. */
struct crew crew_of_world(const struct checks *c, int *ranks);

#endif
