/*
 * What the topics of device_suite share.
 */
#ifndef TUTTI_TEST_GPU_REAL_SUITE_H
#define TUTTI_TEST_GPU_REAL_SUITE_H

#include <stdbool.h>

#include <tutti/tutti.h>

#include "test/gpu/real/device.h"
#include "test/suite/checks.h"

/** One rank. */
struct suite {
    struct device_rig rig;
    struct checks c;
    tutti *t;
    bool staged; /* there is no NCCL: all goes through host memory               */
    bool bare; /* some rank has no kernels: what needs some does                */
    bool is_broken; /* the context has failed, as it should                      */
};

/** Submits a sum of floats in place. */
tutti_status suite_sum(struct suite *s, const char *name, void *memory, size_t count,
        cu_stream stream, tutti_request *request);

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
