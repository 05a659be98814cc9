/*
 * A context that failed: everything pending on all ranks ends with the first cause, and so
 * does everything later; nothing hangs.
 */
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test/suite/buffer.h"
#include "test/suite/suite.h"

/** What a callback of a failed operation was told. */
struct verdict {
    tutti_status status;
    char message[1024];
    _Atomic int told;
};

static void take_verdict(void *user, tutti_status status, const char *message)
{
    struct verdict *verdict = user;

    verdict->status = status;
    strncpy(verdict->message, message, sizeof verdict->message - 1);
    atomic_store(&verdict->told, 1);
}

static void check_cause(struct checks *c, const char *message, int rank)
{
    char expected[24];

    (void)snprintf(expected, sizeof expected, "rank %d:", rank);
    EXPECT(c, strstr(message, "the disk is full") != NULL);
    EXPECT(c, strstr(message, expected) != NULL);
}

static void later_calls(tutti *t, struct checks *c, int culprit)
{
    const int first = 0;
    tutti_process_set set = 0;
    tutti_request request = TUTTI_REQUEST_NULL;
    int32_t value = 1;

    EXPECT_STATUS(c, TUTTI_ERR_CONTEXT_FAILED,
            tutti_allreduce(
                    t, "later", &value, &value, 1, TUTTI_INT32, TUTTI_SUM, NULL));
    check_cause(c, tutti_last_error(), culprit);
    checks_list(c, culprit == 0 ? 0 : -1, "after tutti_abort()",
            TUTTI_ERR_CONTEXT_FAILED, tutti_last_error());
    EXPECT_STATUS(c, TUTTI_ERR_CONTEXT_FAILED,
            tutti_barrier_async(t, "later", NULL, &request));
    EXPECT(c, request == TUTTI_REQUEST_NULL);
    EXPECT_STATUS(
            c, TUTTI_ERR_CONTEXT_FAILED, tutti_process_set_create(t, &first, 1, &set));
    EXPECT_OK(c, tutti_group_begin(t));
    EXPECT_STATUS(c, TUTTI_ERR_CONTEXT_FAILED,
            tutti_barrier_async(t, "later", NULL, &request));
    EXPECT_STATUS(c, TUTTI_ERR_CONTEXT_FAILED, tutti_group_end(t));
}

/* All ranks wait for what the culprit never submits. */
static void pending_operations(struct checks *c, int culprit)
{
    tutti *t = job_open(c, NULL);
    struct verdict verdict = { .status = TUTTI_OK };
    tutti_options options;
    tutti_request requests[2] = { 0 };
    BUFFER_ARRAY(int32_t, values, 3);

    checks_step(c, "pending operations");
    tutti_options_default(&options);
    options.callback = take_verdict;
    options.user = &verdict;
    EXPECT_OK(c, tutti_barrier(t, "before", NULL));
    job_meet(c); /* a barrier that a rank has not read yet would fail as well */
    if (c->rank == culprit) {
        EXPECT_OK(c, tutti_abort(t, "the disk is full"));
        EXPECT_OK(c, tutti_abort(t, "a second cause"));
    } else {
        /* The abort may be here already: then the submission itself is refused. */
        tutti_status status = tutti_allreduce_async(t, "a", &values[0], &values[0], 1,
                TUTTI_INT32, TUTTI_SUM, NULL, &requests[0]);

        EXPECT(c, status == TUTTI_OK || status == TUTTI_ERR_CONTEXT_FAILED);
        status = tutti_broadcast_async(
                t, "b", &values[1], 1, TUTTI_INT32, 0, NULL, &requests[1]);
        EXPECT(c, status == TUTTI_OK || status == TUTTI_ERR_CONTEXT_FAILED);
        status = tutti_allreduce_async(t, "c", &values[2], &values[2], 1, TUTTI_INT32,
                TUTTI_SUM, &options, NULL);
        EXPECT(c, status == TUTTI_OK || status == TUTTI_ERR_CONTEXT_FAILED);
        for (int i = 0; i < 2; i++) {
            if (requests[i] != TUTTI_REQUEST_NULL) {
                EXPECT_STATUS(c, TUTTI_ERR_CONTEXT_FAILED,
                        tutti_wait(t, &requests[i], TUTTI_FOREVER));
                check_cause(c, tutti_last_error(), culprit);
                EXPECT(c, requests[i] == TUTTI_REQUEST_NULL);
            }
        }
        while (status == TUTTI_OK && atomic_load(&verdict.told) == 0) {
            (void)sched_yield();
        }
        if (status == TUTTI_OK) {
            EXPECT_STATUS(c, TUTTI_ERR_CONTEXT_FAILED, verdict.status);
            check_cause(c, verdict.message, culprit);
        }
    }
    checks_step(c, "hearing of the failure");
    while (tutti_barrier(t, "after", NULL) == TUTTI_OK) {
        (void)sched_yield();
    }
    later_calls(t, c, culprit);
    checks_step(c, "finalize a failed context");
    EXPECT_STATUS(c, TUTTI_ERR_CONTEXT_FAILED, tutti_finalize(t));
    check_cause(c, tutti_last_error(), culprit);
}

/*
 * In the middle of large transfers. Once an operation has ended, its buffer is the
 * caller's again, who frees it at once: nobody may still write to it.
 */
static void running_operations(struct checks *c)
{
    enum {
        TENSORS = 4
    };
    const int64_t count = 1 << 21;
    tutti *t = job_open(c, NULL);
    static const char *const names[] = { "w", "x", "y", "z" };
    float *data[TENSORS];
    tutti_request requests[TENSORS];

    checks_step(c, "running operations");
    for (int i = 0; i < TENSORS; i++) {
        data[i] = array_new((size_t)count * sizeof(float));
        requests[i] = TUTTI_REQUEST_NULL;
        (void)!tutti_allreduce_async(t, names[i], data[i], data[i], count,
                TUTTI_FLOAT32, TUTTI_SUM, NULL, &requests[i]);
    }
    if (c->rank == c->size - 1) {
        (void)!tutti_wait(t, &requests[0], 2000000);
        EXPECT_OK(c, tutti_abort(t, "the disk is full"));
    }
    for (int i = 0; i < TENSORS; i++) {
        const tutti_status status = tutti_wait(t, &requests[i], TUTTI_FOREVER);

        EXPECT(c, status == TUTTI_OK || status == TUTTI_ERR_CONTEXT_FAILED);
        array_free(data[i]);
    }
    while (tutti_barrier(t, "after", NULL) == TUTTI_OK) {
        (void)sched_yield();
    }
    EXPECT_STATUS(c, TUTTI_ERR_CONTEXT_FAILED, tutti_finalize(t));
}

void suite_failure(tutti *t, struct checks *c)
{
    (void)t;
    /* Again and again: what one context leaves under way must not reach the next. */
    for (int i = 0; i < 8; i++) {
        pending_operations(c, i % 2 == 0 ? i / 2 % c->size : c->size - 1);
    }
}

void suite_abort(tutti *t, struct checks *c)
{
    (void)t;
    running_operations(c);
}
