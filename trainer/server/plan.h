/*
 * Which server keeps which part of which parameter. Pure.
 */
#ifndef TUTTI_TRAINER_SERVER_PLAN_H
#define TUTTI_TRAINER_SERVER_PLAN_H

#include <stddef.h>
#include <stdint.h>

#include <tutti/trainer/reducer.h>

/** A part of a parameter on one server. */
struct server_slice {
    size_t param;
    int64_t first; /* element of the parameter                       */
    int64_t count; /* elements, more than 0                          */
    size_t offset; /* bytes in the server's memory, a multiple of 64 */
    size_t bytes; /* of the elements                                */
};

enum {
    SERVER_ALIGN = 64 /* bytes: a cache line, and the widest vector */
};

/**
 * What one of several servers keeps of n parameters: all have equal bytes, but a cut moves to the
 * nearer end of a parameter if it would leave a part below split_bytes.
 * @param[out] slices  room for n; all servers together have at most n + servers - 1
 * @param[out] bytes   bytes that the server needs, with alignment
 * @return slices
 */
size_t server_plan(const tutti_param *params, size_t n, int server, int servers,
        int64_t split_bytes, struct server_slice *slices, size_t *bytes);

#endif
