/*
 * Ranks that are threads of one process, for tests of the trainer's layer.
 */
#ifndef TUTTI_TEST_TRAINER_RANKS_H
#define TUTTI_TEST_TRAINER_RANKS_H

#include <tutti/tutti.h>

/**
 * Runs a function on n ranks, each in a thread with a context of its own, which is finalized
 * afterwards. Returns the number of CHECK()s that failed: assert that it is 0 (cmocka's own
 * asserts work on the main thread alone).
 */
int ranks_run(int n, void (*rank)(tutti *t, void *user), void *user);

/** Counts a failure, says where and what tutti_last_error() is, and lets the ranks go on. */
void ranks_fail(const char *file, int line, const char *condition);

/** In a rank: true, or a failure is counted. */
#define CHECK(condition) \
    ((condition) ? true : (ranks_fail(__FILE__, __LINE__, #condition), false))

#endif
