/*
 * A collective of one or several tensors in device memory, through the public API: memory,
 * contents, submission, and the comparison of every bit.
 */
#ifndef TUTTI_TEST_GPU_ROUTE_H
#define TUTTI_TEST_GPU_ROUTE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tutti/tutti.h>

#include "test/suite/operation.h"

enum {
    ROUTE_TENSORS = 3,
    ROUTE_RANKS_MAX = 4
};

/** Where tensors lie. */
enum route_placing {
    ROUTE_SINGLE, /* one tensor, input and output apart                     */
    ROUTE_FUSED, /* several, anywhere; in place where that can be            */
    ROUTE_ARENA, /* several, neighbours of tutti_alloc(); likewise           */
    ROUTE_PLACINGS
};

/** What is done, of any type. */
struct route_kind {
    const char *name; /* "uneven allgather" */
    tutti_collective collective;
    enum operation_form form;
    bool is_uneven; /* a FORM_EQUAL whose parts are not quite equal            */
};

/** A rank's memory for a kind and a placing; parts have the same bytes for all types. */
struct route_place {
    const struct route_kind *kind; /* borrowed */
    enum route_placing placing;
    int tensors; /* of those below */
    unsigned char *inputs[ROUTE_TENSORS]; /* of the context, up to its end      */
    unsigned char *outputs[ROUTE_TENSORS]; /* likewise; NULL: none, or the request's */
};

/** A rank. */
struct route_rank {
    tutti *t; /* borrowed */
    int rank, size;
    int world[ROUTE_RANKS_MAX]; /* 0, 1, 2 ... */
};

/** A collective on its way. */
struct route {
    const struct route_place *place; /* borrowed */
    struct operation operations[ROUTE_TENSORS];
    char names[ROUTE_TENSORS][96];
    tutti_request requests[ROUTE_TENSORS];
    uint32_t salt; /* of the contents: another one in each iteration */
};

/** Allocates; ends the program when it cannot. */
void route_place(const struct route_rank *r, const struct route_kind *kind,
        enum route_placing placing, struct route_place *place);

/** Makes a route of a type and a reduction. */
void route_make(const struct route_rank *r, const struct route_place *place,
        tutti_dtype dtype, tutti_reduce_op op, struct route *route);

/** True when this rank is the root, or there is none. */
bool route_has_output(const struct route_rank *r, const struct route_kind *kind);

/** Writes the inputs. */
void route_fill(const struct route_rank *r, struct route *route, uint32_t salt);

/** Submits, several tensors in a group. */
tutti_status route_submit(const struct route_rank *r, struct route *route);

/** Waits. */
tutti_status route_wait(const struct route_rank *r, struct route *route);

/** True when every bit of the outputs is right. */
bool route_is_right(const struct route_rank *r, struct route *route);

#endif
