/*
 * Checks for suites that several ranks run together. A check that fails is printed and
 * counted and the rank goes on: it may owe the others the rest of a collective.
 */
#ifndef TUTTI_TEST_SUITE_CHECKS_H
#define TUTTI_TEST_SUITE_CHECKS_H

#include <stdatomic.h>
#include <stdbool.h>

#include <tutti/tutti.h>

struct job;

/** One rank's record. Any thread of the rank may check. */
struct checks {
    struct job *job; /* borrowed; see job.h                          */
    int rank; /* in the job                                   */
    int size; /* of the job                                   */
    bool list; /* print the messages that are provoked         */
    const char *_Atomic topic; /* what runs, for the watchdog                  */
    const char *_Atomic step; /* the step of the topic, likewise; may be NULL */
    _Atomic int made; /* checks                                       */
    _Atomic int failed; /* of them                                      */
};

/** Says what this rank does now; a string that stays. */
void checks_step(struct checks *c, const char *step);

/** Counts a check; prints where and what when it failed. Returns ok. */
bool checks_expect(
        struct checks *c, bool ok, const char *file, int line, const char *text);

/** Counts a check of a status; prints both and the last error when they differ. */
bool checks_expect_status(struct checks *c, tutti_status want, tutti_status got,
        const char *file, int line, const char *text);

/** The condition holds. */
#define EXPECT(c, condition) \
    checks_expect((c), (condition), __FILE__, __LINE__, #condition)

/** The call, an expression evaluated once, gives this status. */
#define EXPECT_STATUS(c, want, call) \
    checks_expect_status((c), (want), (call), __FILE__, __LINE__, #call)

/** The call succeeds. */
#define EXPECT_OK(c, call) EXPECT_STATUS(c, TUTTI_OK, call)

/**
 * With --list: rank `by` prints a row of the list of messages (docs/reference/errors.md).
 * @param input  what provoked it
 */
void checks_list(const struct checks *c, int by, const char *input, tutti_status status,
        const char *message);

/** Checks that a call of all ranks was refused with words, and lists these. */
void checks_refused(
        struct checks *c, const char *input, tutti_status want, tutti_status got);

/** Prints what each of n ranks does; async-signal-safe. */
void checks_report_hang(struct checks *const *ranks, int n);

#endif
