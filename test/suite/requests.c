/*
 * Requests: timeouts, consuming, unknown handles, and arrays of them.
 */
#include <stdint.h>
#include <string.h>

#include "test/suite/buffer.h"
#include "test/suite/suite.h"

static tutti_status begin_sum(
        tutti *t, const char *name, int32_t *value, tutti_request *request)
{
    return tutti_allreduce_async(
            t, name, value, value, 1, TUTTI_INT32, TUTTI_SUM, NULL, request);
}

static void consumed_is_unknown(tutti *t, struct checks *c)
{
    tutti_request request = TUTTI_REQUEST_NULL;
    tutti_request copy;
    BUFFER_ARRAY(int32_t, value, 1);

    *value = 1;
    EXPECT_OK(c, begin_sum(t, "once", value, &request));
    EXPECT(c, request != TUTTI_REQUEST_NULL);
    copy = request;
    EXPECT_OK(c, tutti_wait(t, &request, TUTTI_FOREVER));
    EXPECT(c, request == TUTTI_REQUEST_NULL && *value == c->size);
    EXPECT_OK(c, tutti_wait(t, &request, 0));
    EXPECT_OK(c, tutti_test(t, &request));
    EXPECT_STATUS(c, TUTTI_ERR_INVALID, tutti_wait(t, &copy, TUTTI_FOREVER));
    EXPECT_STATUS(c, TUTTI_ERR_INVALID, tutti_test(t, &copy));
    EXPECT_STATUS(c, TUTTI_ERR_INVALID, tutti_cancel(t, copy));
    EXPECT_STATUS(c, TUTTI_ERR_INVALID, tutti_cancel(t, TUTTI_REQUEST_NULL));
    EXPECT(c, copy != TUTTI_REQUEST_NULL);
}

static void unknown_handles(tutti *t, struct checks *c)
{
    const tutti_request made_up[] = { 1, 12345, UINT64_MAX, UINT64_C(1) << 32,
        UINT64_C(1) << 32 | 1, UINT64_C(7) << 32 | UINT32_MAX };

    for (size_t i = 0; i < sizeof made_up / sizeof *made_up; i++) {
        tutti_request request = made_up[i];

        /* Nothing is in flight, so that no number can be a request. */
        EXPECT_STATUS(c, TUTTI_ERR_INVALID, tutti_wait(t, &request, TUTTI_FOREVER));
        EXPECT_STATUS(c, TUTTI_ERR_INVALID, tutti_test(t, &request));
        EXPECT_STATUS(c, TUTTI_ERR_INVALID, tutti_cancel(t, request));
        checks_list(c, i == 1 ? 0 : -1, "cancelling an unknown request",
                TUTTI_ERR_INVALID, tutti_last_error());
        EXPECT(c, request == made_up[i]);
    }
    checks_refused(c, "waiting for NULL", TUTTI_ERR_INVALID, tutti_wait(t, NULL, 0));
    EXPECT_STATUS(c, TUTTI_ERR_INVALID, tutti_test(t, NULL));
    EXPECT_STATUS(c, TUTTI_ERR_INVALID, tutti_wait_all(t, 1, NULL, 0, NULL));
    EXPECT_OK(c, tutti_wait_all(t, 0, NULL, 0, NULL));
}

/* An error counts before time-outs, wherever it stands; the text is of the status. */
static void first_error_counts(tutti *t, struct checks *c, tutti_request late)
{
    tutti_request requests[4] = { late, 99, 98, late };

    EXPECT_STATUS(c, TUTTI_ERR_INVALID, tutti_wait_all(t, 4, requests, 0, NULL));
    EXPECT(c, strncmp(tutti_last_error(), "99 ", 3) == 0);
    EXPECT_STATUS(
            c, TUTTI_ERR_INVALID, tutti_wait_stream_all(t, 4, requests, NULL, 0, NULL));
    EXPECT(c, strncmp(tutti_last_error(), "99 ", 3) == 0);
}

/* Of three operations one is late: the others are consumed. */
static void late_one_of_three(tutti *t, struct checks *c)
{
    const bool late = c->rank == c->size - 1;
    tutti_request requests[4] = { 0 };
    tutti_status statuses[4];
    BUFFER_ARRAY(int32_t, values, 3);

    for (int i = 0; i < 3; i++) {
        values[i] = i + 1;
    }
    checks_step(c, "wait_all, time-outs");
    EXPECT_OK(c, begin_sum(t, "first", &values[0], &requests[0]));
    EXPECT_OK(c, begin_sum(t, "third", &values[2], &requests[3]));
    EXPECT_OK(c, tutti_wait(t, &requests[0], TUTTI_FOREVER));
    EXPECT_OK(c, tutti_wait(t, &requests[3], TUTTI_FOREVER));
    EXPECT_OK(c, begin_sum(t, "first", &values[0], &requests[0]));
    if (!late) {
        EXPECT_OK(c, begin_sum(t, "second", &values[1], &requests[1]));
    }
    EXPECT_OK(c, begin_sum(t, "third", &values[2], &requests[3]));
    if (!late) {
        const tutti_request second = requests[1];

        /* Long enough for the other two on any machine. */
        while (requests[0] != TUTTI_REQUEST_NULL || requests[3] != TUTTI_REQUEST_NULL) {
            EXPECT_STATUS(c, TUTTI_ERR_TIMEOUT,
                    tutti_wait_all(t, 4, requests, 2000000, statuses));
        }
        EXPECT_STATUS(
                c, TUTTI_ERR_TIMEOUT, tutti_wait_all(t, 4, requests, 0, statuses));
        EXPECT(c, strstr(tutti_last_error(), "\"second\"") != NULL);
        EXPECT(c, statuses[0] == TUTTI_OK && statuses[1] == TUTTI_ERR_TIMEOUT);
        EXPECT(c, statuses[2] == TUTTI_OK && statuses[3] == TUTTI_OK);
        EXPECT(c, requests[1] == second);
        first_error_counts(t, c, second);
    }
    job_meet(c);
    if (late) {
        EXPECT_OK(c, begin_sum(t, "second", &values[1], &requests[1]));
    }
    EXPECT_OK(c, tutti_wait_all(t, 4, requests, TUTTI_FOREVER, NULL));
    EXPECT(c, values[0] == c->size * c->size && values[1] == 2 * c->size);
    EXPECT(c, values[2] == 3 * c->size * c->size);
}

/* A failure and an unknown request in the middle do not keep the others. */
static void failures_in_an_array(tutti *t, struct checks *c)
{
    const bool odd = c->rank == c->size - 1;
    enum {
        N = 150
    };
    tutti_request requests[N] = { 0 };
    tutti_status statuses[N];
    BUFFER_ARRAY(int32_t, values, N);
    char name[] = "array 000";

    checks_step(c, "wait_all, failures");
    for (int i = 0; i < N; i++) {
        name[6] = (char)('0' + i / 100);
        name[7] = (char)('0' + i / 10 % 10);
        name[8] = (char)('0' + i % 10);
        values[i] = i;
        if (i == 70) {
            continue; /* stays TUTTI_REQUEST_NULL */
        }
        EXPECT_OK(c,
                tutti_allreduce_async(t, name, &values[i], &values[i], 1, TUTTI_INT32,
                        i == 90 && odd ? TUTTI_MAX : TUTTI_SUM, NULL, &requests[i]));
    }
    requests[130] = tutti_wait(t, &requests[130], TUTTI_FOREVER) == TUTTI_OK ? 99 : 0;
    EXPECT_STATUS(c, c->size > 1 ? TUTTI_ERR_MISMATCH : TUTTI_ERR_INVALID,
            tutti_wait_all(t, N, requests, TUTTI_FOREVER, statuses));
    EXPECT(c,
            strstr(tutti_last_error(), c->size > 1 ? "array 090" : "99 is no") != NULL);
    for (int i = 0; i < N; i++) {
        const tutti_status want = i == 90 && c->size > 1 ? TUTTI_ERR_MISMATCH
                : i == 130                               ? TUTTI_ERR_INVALID
                                                         : TUTTI_OK;

        EXPECT_STATUS(c, want, statuses[i]);
        EXPECT(c, requests[i] == (i == 130 ? 99 : TUTTI_REQUEST_NULL));
        EXPECT(c, want != TUTTI_OK || i == 70 || values[i] == i * c->size);
    }
}

void suite_requests(tutti *t, struct checks *c)
{
    checks_step(c, "consuming");
    consumed_is_unknown(t, c);
    unknown_handles(t, c);
    if (c->size > 1) {
        late_one_of_three(t, c);
    }
    failures_in_an_array(t, c);
}
