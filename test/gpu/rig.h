/*
 * What tests of a rank's GPU share: one that is opened over the simulator, the caller's side
 * of it, and counts of what exists.
 */
#ifndef TUTTI_TEST_GPU_RIG_H
#define TUTTI_TEST_GPU_RIG_H

#include "base/error.h"
#include "ops/gpu/gpu.h"
#include "test/gpusim/cuda.h"
#include "test/gpusim/gpusim_test.h"
#include "test/unit/unit.h"

/** A configuration for the simulator, and the lines that were logged. */
struct rig {
    struct config config;
    struct log log;
    struct gpu_seat seat;
    char lines[4096]; /* all that was logged */
};

void rig_init(struct rig *rig);
void rig_fini(struct rig *rig);
/** Sets a parameter, which must be valid. */
void rig_set(struct rig *rig, const char *name, const char *value);

/** Opens it; must go well. */
struct gpu *rig_open(struct rig *rig);

/** Contains, of the last error: fails with both when not. */
void assert_error_has(const char *part);
void assert_has(const char *text, const char *part);

/** What the simulator has now, and that it is the same as before. */
void assert_nothing_leaked(const struct gpusim_live *before);

/** The caller's context on this thread: the primary one of a device, as CUDA's runtime does. */
void *caller_enter(int device);
void caller_leave(int device);
/** A non-blocking stream of the current context. */
void *caller_stream(void);

/** What most tests begin with: GPU 1, and its caller, with a stream. */
struct fixture {
    struct gpusim_live before;
    struct rig rig;
    struct gpu *gpu;
    void *context; /* the caller's: the same one */
    void *stream;
};

/** A test between fixture_begin() and fixture_end(), which sees whether anything is left. */
#define GPU_TEST(name) UNIT_TEST_ON(name, struct fixture *f, fixture_begin, fixture_end)
int fixture_begin(void **state);
int fixture_end(void **state);

#endif
