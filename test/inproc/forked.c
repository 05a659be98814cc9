/*
 * An application that forks while work is in flight: the child is refused, at once and
 * without harm, and the parent goes on.
 */
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <tutti/tutti.h>

#include "test/unit/unit.h"

enum {
    RANKS = 2
};

static bool is_refused(tutti_status status)
{
    return status == TUTTI_ERR_INVALID && strstr(tutti_last_error(), "forked") != NULL;
}

/* In the child; the number of what went wrong, or 0. */
static int use_context(tutti *t, tutti_request request)
{
    float value = 1;
    void *memory;

    if (!is_refused(tutti_allreduce(
                t, "child", &value, &value, 1, TUTTI_FLOAT32, TUTTI_SUM, NULL))) {
        return 1;
    }
    if (!is_refused(tutti_wait(t, &request, TUTTI_FOREVER))) {
        return 2;
    }
    if (!is_refused(tutti_alloc(t, 8, TUTTI_HOST, &memory))) {
        return 3;
    }
    return is_refused(tutti_finalize(t)) ? 0 : 4;
}

static void fork_and_use(tutti *t, tutti_request request)
{
    const pid_t child = fork();
    int status = -1;

    assert_true(child >= 0);
    if (child == 0) {
        _exit(use_context(t, request));
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

UNIT_TEST(test_child_is_refused_and_parent_goes_on)
{
    tutti *contexts[RANKS];
    tutti_request requests[RANKS];
    float values[RANKS];

    ASSERT_OK(tutti_init_local(RANKS, contexts, NULL));
    for (int round = 0; round < 3; round++) {
        for (int r = 0; r < RANKS; r++) {
            values[r] = (float)(r + 1);
            ASSERT_OK(tutti_allreduce_async(contexts[r], "x", &values[r], &values[r], 1,
                    TUTTI_FLOAT32, TUTTI_SUM, NULL, &requests[r]));
            fork_and_use(contexts[r], requests[r]);
        }
        for (int r = 0; r < RANKS; r++) {
            ASSERT_OK(tutti_wait(contexts[r], &requests[r], TUTTI_FOREVER));
            assert_true(values[r] > 2.9f && values[r] < 3.1f);
        }
    }
    /* One thread cannot finalize two ranks that are well: it would wait in the first. */
    ASSERT_OK(tutti_abort(contexts[0], "end of the test"));
    for (int r = 0; r < RANKS; r++) {
        assert_int_equal(tutti_finalize(contexts[r]), TUTTI_ERR_CONTEXT_FAILED);
    }
}
