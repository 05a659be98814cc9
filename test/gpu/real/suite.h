/*
 * What the topics of device_suite share.
 */
#ifndef TUTTI_TEST_GPU_REAL_SUITE_H
#define TUTTI_TEST_GPU_REAL_SUITE_H

#include <stdbool.h>

#include <tutti/tutti.h>

#include "test/gpu/real/device.h"

/** One rank. */
struct suite {
    struct device_rig rig;
    tutti *t;
    int rank, size;
    bool staged; /* there is no NCCL: all goes through host memory               */
    bool bare; /* some rank has no kernels: what needs some does                */
    bool is_broken; /* the context has failed, as it should                      */
    const char *what; /* runs now, for messages                                  */
    int made, failed; /* checks                                                  */
};

/** Counts a check and says which did not hold. Returns it. */
bool suite_expect(
        struct suite *s, bool holds, const char *file, int line, const char *condition);
#define SUITE_EXPECT(s, condition) \
    suite_expect((s), (condition), __FILE__, __LINE__, #condition)

/** Every operation, type and placing, with a host reference and the path's counters. */
void suite_operations(struct suite *s);
/** Results in stream order, with the device busy. */
void suite_order(struct suite *s);
/** How long issuing and a step take, on stdout. */
void suite_times(struct suite *s);
/** A stream that is captured in a graph is refused, and its capture lives on; with issue=caller
 *  a sum becomes part of it. */
void suite_capture(struct suite *s);
/** A rank gives up while kernels of others wait: all get the error, and memory can be freed. */
void suite_abort(struct suite *s);

#endif
