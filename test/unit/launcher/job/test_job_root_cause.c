/*
 * Which rank failed first, and the states that a job may take.
 */
#include <string.h>

#include "launcher/job/flow.h"
#include "launcher/job/rank_list.h"
#include "launcher/job/root_cause.h"
#include "test/unit/unit.h"

#define MS INT64_C(1000000)

enum {
    RANKS_MAX = 4
};

/* Ranks of a job: those after the last that is not zero are still running. */
struct root_cause_case {
    const char *name;
    struct rank ranks[RANKS_MAX];
    int first;
};

#define EXIT_AT(ms, status) \
    { \
        .state = RANK_ENDED, .end = RANK_END_EXIT, .value = (status), .when = (ms)*MS \
    }
#define KILLED_AT(ms, signal) \
    { \
        .state = RANK_ENDED, .end = RANK_END_SIGNAL, .value = (signal), \
        .when = (ms)*MS \
    }
#define LOST_AT(ms, how) \
    { \
        .state = RANK_ENDED, .end = (how), .when = (ms)*MS \
    }
#define RUNNING \
    { \
        .state = RANK_RUNNING \
    }
#define LEFT_AT(ms) \
    { \
        .state = RANK_ENDED, .end = RANK_END_EXIT, .stage = LIBRARY_STAGE_RUNNING, \
        .when = (ms)*MS \
    }

#define FOUND_AT(ms, list) \
    { \
        .state = RANK_ENDED, .end = RANK_END_EXIT, .value = 3, .when = (ms)*MS, \
        .stage = LIBRARY_STAGE_RUNNING, .failure = CONTEXT_FAILURE_FOUND, \
        .awaited = (list) \
    }
#define TOLD_AT(ms) \
    { \
        .state = RANK_ENDED, .end = RANK_END_EXIT, .value = 3, .when = (ms)*MS, \
        .stage = LIBRARY_STAGE_RUNNING, .failure = CONTEXT_FAILURE_TOLD \
    }
#define OUTSIDE_AT(ms) \
    { \
        .state = RANK_ENDED, .end = RANK_END_SIGNAL, .value = 15, .when = (ms)*MS, \
        .stage = LIBRARY_STAGE_RUNNING, .was_stopped = true \
    }

static const struct root_cause_case root_cause_cases[] = {
    { "all run", { RUNNING, RUNNING, RUNNING, RUNNING }, -1 },
    { "all well", { EXIT_AT(1, 0), EXIT_AT(2, 0), EXIT_AT(3, 0), EXIT_AT(4, 0) }, -1 },
    { "well so far", { EXIT_AT(1, 0), RUNNING, RUNNING, RUNNING }, -1 },
    { "one status", { EXIT_AT(1, 0), EXIT_AT(2, 3), RUNNING, RUNNING }, 1 },
    { "the earlier of two", { EXIT_AT(9, 1), KILLED_AT(5, 11), RUNNING, RUNNING }, 1 },
    { "whatever the rank", { KILLED_AT(5, 11), EXIT_AT(9, 1), RUNNING, RUNNING }, 0 },
    { "an exit before a signal", { KILLED_AT(9, 9), EXIT_AT(5, 1), RUNNING, RUNNING },
            1 },
    { "of equals, not the lost connection",
            { LOST_AT(10, RANK_END_LOST), EXIT_AT(11, 1), RUNNING, RUNNING }, 1 },
    { "a connection lost long before",
            { LOST_AT(10, RANK_END_LOST), EXIT_AT(15, 1), RUNNING, RUNNING }, 0 },
    { "silent since before",
            { EXIT_AT(2500, 1), LOST_AT(1000, RANK_END_SILENT), RUNNING, RUNNING }, 1 },
    { "stopped alone", { RUNNING, LOST_AT(1, RANK_END_STUCK), RUNNING, RUNNING }, 1 },
    { "clocks may be wrong",
            { LOST_AT(10, RANK_END_LOST),
                    { .state = RANK_ENDED,
                            .end = RANK_END_SIGNAL,
                            .value = 11,
                            .when = 15 * MS,
                            .doubt = 4 * MS },
                    RUNNING, RUNNING },
            1 },
    { "what we ended is no cause",
            { { .state = RANK_ENDED,
                      .end = RANK_END_SIGNAL,
                      .value = 15,
                      .when = 1,
                      .was_stopped = true },
                    EXIT_AT(9, 1), RUNNING, RUNNING },
            1 },
    { "unless there is no other",
            { RUNNING,
                    { .state = RANK_ENDED,
                            .end = RANK_END_SIGNAL,
                            .value = 15,
                            .was_stopped = true },
                    RUNNING, RUNNING },
            1 },
    { "left while others ran", { RUNNING, LEFT_AT(5), RUNNING, RUNNING }, 1 },
    { "left before another failed",
            { EXIT_AT(9, 1), LEFT_AT(5), EXIT_AT(9, 1), EXIT_AT(9, 1) }, 1 },
    { "nobody finalized, and all is well",
            { LEFT_AT(5), LEFT_AT(6), LEFT_AT(7), LEFT_AT(8) }, -1 },
    { "could not be run",
            { EXIT_AT(5, 0), { .state = RANK_ENDED, .end = RANK_END_EXEC, .value = 2 },
                    RUNNING, RUNNING },
            1 },
    { "whoever was told is no cause of who told it",
            { TOLD_AT(5), FOUND_AT(9, NULL), RUNNING, RUNNING }, 1 },
    { "unless that one has not ended by itself",
            { TOLD_AT(5), OUTSIDE_AT(3), RUNNING, RUNNING }, 0 },
};

UNIT_TEST(test_first_failure)
{
    for (size_t i = 0; i < sizeof root_cause_cases / sizeof root_cause_cases[0]; i++) {
        struct rank items[RANKS_MAX];
        const struct ranks ranks = { .items = items, .count = RANKS_MAX };
        int first;

        for (int k = 0; k < RANKS_MAX; k++) {
            items[k] = root_cause_cases[i].ranks[k];
        }
        first = root_cause_first(&ranks);
        if (first != root_cause_cases[i].first) {
            print_error("%s: rank %d\n", root_cause_cases[i].name, first);
        }
        assert_int_equal(first, root_cause_cases[i].first);
    }
}

static char all[] = "0-3";
static char two[] = "1, 3";
static char odd[] = "x, 0";

/* Whom rank 1, which failed first, waited for in vain. */
static const struct root_cause_case absentee_cases[] = {
    { "the first of the awaited that did not come",
            { OUTSIDE_AT(9), FOUND_AT(5, two), OUTSIDE_AT(9), OUTSIDE_AT(9) }, 3 },
    { "in no stall, nobody",
            { OUTSIDE_AT(9), FOUND_AT(5, NULL), OUTSIDE_AT(9), OUTSIDE_AT(9) }, -1 },
    { "of one that crashed, nobody",
            { OUTSIDE_AT(9), KILLED_AT(5, 11), OUTSIDE_AT(9), OUTSIDE_AT(9) }, -1 },
    { "all came, and were ended in tutti",
            { TOLD_AT(6), FOUND_AT(5, all), FOUND_AT(5, all),
                    { .state = RANK_ENDED,
                            .end = RANK_END_SIGNAL,
                            .value = 15,
                            .stage = LIBRARY_STAGE_RUNNING,
                            .failure = CONTEXT_FAILURE_TOLD,
                            .was_stopped = true } },
            -1 },
    { "a list that makes no sense",
            { OUTSIDE_AT(9), FOUND_AT(5, odd), OUTSIDE_AT(9), OUTSIDE_AT(9) }, -1 },
};

UNIT_TEST(test_whom_a_stall_is_due_to)
{
    for (size_t i = 0; i < sizeof absentee_cases / sizeof absentee_cases[0]; i++) {
        struct rank items[RANKS_MAX];
        const struct ranks ranks = { .items = items, .count = RANKS_MAX };

        memcpy(items, absentee_cases[i].ranks, sizeof items);
        if (root_cause_absentee(&ranks, 1) != absentee_cases[i].first) {
            fail_msg("%s: rank %d", absentee_cases[i].name,
                    root_cause_absentee(&ranks, 1));
        }
    }
}

UNIT_TEST(test_states)
{
    enum job_state job = JOB_PLANNED;

    job_advance(&job, JOB_SPAWNING);
    job_advance(&job, JOB_RUNNING);
    assert_true(job_may_advance(job, JOB_STOPPING));
    assert_true(job_may_advance(job, JOB_DONE));
    assert_false(job_may_advance(job, JOB_FAILED));
    assert_false(job_may_advance(job, JOB_SPAWNING));
    assert_false(job_may_advance(JOB_SPAWNING, JOB_DONE));
    assert_false(job_may_advance(JOB_DONE, JOB_STOPPING));
    assert_false(job_may_advance(JOB_STOPPING, JOB_DONE));
}

UNIT_TEST(test_lists_of_ranks)
{
    static const char *const bad[] = { "", ",", "1,", "a", "3-1", "-2", "1-", "1 2",
        "99999999999" };

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_false(rank_list_is_valid(bad[i]));
    }
    assert_true(rank_list_is_valid("0,3-5"));
    assert_true(rank_list_has("0,3-5", 0));
    assert_true(rank_list_has("0,3-5", 4));
    assert_true(rank_list_has("0,3-5", 5));
    assert_false(rank_list_has("0,3-5", 1));
    assert_false(rank_list_has("0,3-5", 6));
    assert_true(rank_list_has("0, 3-5", 4));
    assert_true(rank_list_has(NULL, 7));
}
