/*
 * Ranks that are threads of one process, for tests of the trainer's layer.
 */
#ifndef TUTTI_TEST_TRAINER_RANKS_H
#define TUTTI_TEST_TRAINER_RANKS_H

#include <tutti/tutti.h>

#include "test/unit/unit.h"

/**
 * Runs a function on n ranks, each in a thread with a context of its own, which is finalized
 * afterwards. Returns the number of CHECK()s that failed: assert that it is 0 (cmocka's own
 * asserts work on the main thread alone).
 */
int ranks_run(int n, void (*rank)(tutti *t, void *user), void *user);

/** Counts a failure, says where and what tutti_last_error() is, and lets the ranks go on. */
void ranks_fail(const char *file, int line, const char *condition);

/** A test whose body runs on each of a job's ranks, `t`: ON_RANKS(name, 2), or ON_RANKS(name, 1, 3) for two jobs. */
#define ON_RANKS(name, ...) \
    static void name##_on_rank(tutti *t, void *user); \
    UNIT_TEST(name) \
    { \
        const int numbers[] = { __VA_ARGS__ }; \
\
        for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) { \
            assert_int_equal(ranks_run(numbers[i], name##_on_rank, NULL), 0); \
        } \
    } \
    static void name##_on_rank(tutti *t, void *user __attribute__((unused)))

/** In a rank: true, or a failure is counted. */
#define CHECK(condition) \
    ((condition) ? true : (ranks_fail(__FILE__, __LINE__, #condition), false))

#endif
