/*
 * Operations on device memory, in a context of one rank over a device that does what the test
 * says: when batches are issued, when events pass, what fails. Linked with the rooms.
 */
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include <tutti/tutti.h>

#include "api/setup.h"
#include "base/clock.h"
#include "base/faults.h"
#include "ops/self/self.h"
#include "run/driver.h"
#include "run/start.h"
#include "test/inproc/fake_device.h"
#include "test/unit/unit.h"
#include "transport/inproc.h"

enum {
    COUNT = 256,
    POLLS = 100000,
    RACES = 300
};

struct stage {
    struct fake_device fake;
    struct doorbell bell;
    tutti *t;
    float *tensor; /* of the device, COUNT elements */
    int stream, other; /* their addresses are streams */
    bool is_failed; /* finalize says so */
};

static tutti *start(struct stage *stage, bool has_device)
{
    struct transport transport;
    struct context_spec spec = { 0 };
    tutti *t = NULL;

    ASSERT_OK(setup_begin(&spec, NULL, 0));
    ASSERT_OK(transport_inproc_open(1, &stage->bell, &transport));
    spec.size = 1;
    spec.transport = transport;
    spec.bell = &stage->bell;
    spec.any_thread = true;
    spec.backends[0] = &op_fake;
    spec.natives[0] = &stage->fake;
    spec.backends[1] = &op_self;
    spec.backend_count = 2;
    if (has_device) {
        spec.device = fake_device(&stage->fake);
    }
    assert_true(nodes_add(&spec.nodes, 0, 1));
    ASSERT_OK(context_create(&t, &spec));
    return t;
}

static int set_up(void **state)
{
    struct stage *stage = mem_calloc(1, sizeof *stage);

    assert_non_null(stage);
    fake_device_init(&stage->fake);
    stage->t = start(stage, true);
    stage->tensor = fake_memory(&stage->fake, COUNT * sizeof(float));
    assert_non_null(stage->tensor);
    *state = stage;
    return 0;
}

/* Whatever happened, nothing is left. */
static int tear_down(void **state)
{
    struct stage *stage = *state;
    tutti_status status;

    fake_gate(&stage->fake, false);
    if (fake_get(&stage->fake, &stage->fake.quits_needed) == INT_MAX) {
        fake_need_quits(&stage->fake, 0); /* a check has failed */
    }
    if (!stage->is_failed) {
        fake_hold(&stage->fake, false);
    }
    status = tutti_finalize(stage->t);
    assert_int_equal(status, stage->is_failed ? TUTTI_ERR_CONTEXT_FAILED : TUTTI_OK);
    assert_int_equal(stage->fake.references, 0);
    assert_int_equal(stage->fake.given, 0);
    fake_device_fini(&stage->fake);
    mem_free(stage);
    return 0;
}

#define TEST(name) UNIT_TEST_ON(name, struct stage *stage, set_up, tear_down)

static tutti_options on_stream(void *stream)
{
    tutti_options options;

    tutti_options_default(&options);
    options.stream = stream;
    return options;
}

static tutti_status sum(struct stage *stage, const char *name, tutti_request *request)
{
    const tutti_options options = on_stream(&stage->stream);

    return tutti_allreduce_async(stage->t, name, stage->tensor, stage->tensor, COUNT,
            TUTTI_FLOAT32, TUTTI_SUM, &options, request);
}

static void submit(struct stage *stage, const char *name, tutti_request *request)
{
    ASSERT_OK(sum(stage, name, request));
}

/* Issued, and held there. */
static void submit_issued(struct stage *stage, const char *name, tutti_request *request)
{
    const int before = fake_get(&stage->fake, &stage->fake.issued);

    fake_hold(&stage->fake, true);
    submit(stage, name, request);
    fake_await_issued(&stage->fake, before + 1);
}

static void expect_wait(
        struct stage *stage, tutti_request *request, int64_t timeout, int status)
{
    assert_int_equal(tutti_wait(stage->t, request, timeout), status);
}

/* ---------------------------------------------------------------- transitions */

TEST(test_pending_issued_done)
{
    tutti_request first;
    tutti_request second = TUTTI_REQUEST_NULL;

    fake_gate(&stage->fake, true);
    fake_hold(&stage->fake, true);
    submit(stage, "a", &first);
    expect_wait(stage, &first, 1000, TUTTI_ERR_TIMEOUT);
    assert_non_null(strstr(tutti_last_error(), "\"a\" is not finished"));
    assert_int_equal(sum(stage, "a", &second), TUTTI_ERR_DUPLICATE);

    fake_gate(&stage->fake, false);
    fake_await_issued(&stage->fake, 1);
    /* The name is free a moment after the batch was issued. */
    while (sum(stage, "a", &second) == TUTTI_ERR_DUPLICATE) {
        assert_int_equal(tutti_test(stage->t, &first), TUTTI_AGAIN);
    }
    expect_wait(stage, &first, 1000, TUTTI_ERR_TIMEOUT);
    assert_non_null(strstr(tutti_last_error(), "is issued"));
    assert_int_equal(tutti_test(stage->t, &second), TUTTI_AGAIN);

    fake_hold(&stage->fake, false);
    expect_wait(stage, &first, TUTTI_FOREVER, TUTTI_OK);
    expect_wait(stage, &second, TUTTI_FOREVER, TUTTI_OK);
    assert_true(first == TUTTI_REQUEST_NULL && second == TUTTI_REQUEST_NULL);
    assert_int_equal(stage->fake.follow_count, 0);
}

TEST(test_stream_waits)
{
    tutti_stats stats = { .size = sizeof stats };
    tutti_request request;

    fake_gate(&stage->fake, true);
    fake_hold(&stage->fake, true);
    submit(stage, "a", &request);
    assert_int_equal(tutti_wait_stream(stage->t, &request, &stage->other, 1000),
            TUTTI_ERR_TIMEOUT);
    assert_int_equal(fake_get(&stage->fake, &stage->fake.follow_count), 0);
    assert_true(request != TUTTI_REQUEST_NULL);
    fake_gate(&stage->fake, false);
    ASSERT_OK(tutti_wait_stream(stage->t, &request, &stage->other, TUTTI_FOREVER));
    assert_true(request == TUTTI_REQUEST_NULL);
    assert_int_equal(fake_get(&stage->fake, &stage->fake.follow_count), 1);
    assert_ptr_equal(stage->fake.follows[0].stream, &stage->other);
    /* The event has not passed, and the context goes on looking. */
    assert_true(context_has_work(stage->t));
    ASSERT_OK(tutti_stats_get(stage->t, &stats));
    assert_int_equal(stats.submitted, 1);
    assert_int_equal(stats.completed, 1);
    assert_int_equal(stats.bytes, COUNT * sizeof(float));
    assert_int_equal(stats.device_batches, 1);
    ASSERT_OK(tutti_wait_stream(stage->t, &request, &stage->other, 0));
}

/* Finalize waits for the device, also when all requests have gone to streams. */
TEST(test_finalize_waits)
{
    tutti_request requests[2];

    submit_issued(stage, "a", &requests[0]);
    ASSERT_OK(tutti_wait_stream(stage->t, &requests[0], NULL, TUTTI_FOREVER));
    submit(stage, "b", &requests[1]);
    /* The rest is for tear_down(): it lets the events pass. */
}

/* What is batched together, and in a group, has one event: one wait of the stream. */
TEST(test_group)
{
    tutti_request requests[4] = { 0 };
    tutti_status statuses[4];
    const char *const names[] = { "a", "b", "c" };

    fake_hold(&stage->fake, true);
    ASSERT_OK(tutti_group_begin(stage->t));
    for (int i = 0; i < 3; i++) {
        const tutti_options options = on_stream(&stage->stream);

        ASSERT_OK(tutti_allreduce_async(stage->t, names[i], stage->tensor + 8 * i,
                stage->tensor + 8 * i, 8, TUTTI_FLOAT32, TUTTI_SUM, &options,
                &requests[i]));
    }
    assert_int_equal(fake_made(&stage->fake), 0);
    ASSERT_OK(tutti_group_end(stage->t));
    ASSERT_OK(tutti_wait_stream_all(
            stage->t, 4, requests, &stage->other, TUTTI_FOREVER, statuses));
    assert_int_equal(fake_get(&stage->fake, &stage->fake.follow_count), 1);
    assert_int_equal(stage->fake.events_of_last, 1);
    assert_int_equal(stage->fake.runs_of_last, 3);
    /* What was on the stream, and the result. */
    assert_int_equal(fake_made(&stage->fake), 2);
    for (int i = 0; i < 4; i++) {
        assert_true(requests[i] == TUTTI_REQUEST_NULL && statuses[i] == TUTTI_OK);
    }
}

TEST(test_stream_is_refused)
{
    tutti_request requests[2] = { TUTTI_REQUEST_NULL, TUTTI_REQUEST_NULL };
    tutti_status statuses[2];
    float here[2] = { 1, 2 };

    submit_issued(stage, "a", &requests[0]);
    ASSERT_OK(tutti_allreduce_async(stage->t, "host", here, here, 2, TUTTI_FLOAT32,
            TUTTI_SUM, NULL, &requests[1]));
    stage->fake.foreign = &stage->other;
    assert_int_equal(tutti_wait_stream_all(stage->t, 2, requests, &stage->other,
                             TUTTI_FOREVER, statuses),
            TUTTI_ERR_INVALID);
    assert_int_equal(statuses[0], TUTTI_ERR_INVALID);
    ASSERT_OK(statuses[1]);
    assert_true(requests[0] != TUTTI_REQUEST_NULL);
    assert_true(requests[1] == TUTTI_REQUEST_NULL);
    fake_hold(&stage->fake, false);
    expect_wait(stage, &requests[0], TUTTI_FOREVER, TUTTI_OK);
}

TEST(test_host_memory)
{
    tutti_request request;
    float here[2] = { 1, 2 };

    ASSERT_OK(tutti_allreduce_async(
            stage->t, "host", here, here, 2, TUTTI_FLOAT32, TUTTI_SUM, NULL, &request));
    ASSERT_OK(tutti_wait_stream(stage->t, &request, &stage->stream, TUTTI_FOREVER));
    assert_int_equal(stage->fake.follow_count, 0);
    assert_int_equal(fake_made(&stage->fake), 0);
    request = 12345;
    assert_int_equal(tutti_wait_stream(stage->t, &request, NULL, 0), TUTTI_ERR_INVALID);
}

struct calls {
    pthread_mutex_t lock;
    int count;
    int order[4];
    tutti_status status;
};

struct call {
    struct calls *calls;
    int number;
};

static void note_call(void *user, tutti_status status, const char *message)
{
    const struct call *call = user;

    (void)message;
    (void)pthread_mutex_lock(&call->calls->lock);
    call->calls->order[call->calls->count++] = call->number;
    call->calls->status = status;
    (void)pthread_mutex_unlock(&call->calls->lock);
}

static int calls_of(struct calls *calls)
{
    int count;

    (void)pthread_mutex_lock(&calls->lock);
    count = calls->count;
    (void)pthread_mutex_unlock(&calls->lock);
    return count;
}

static void await_calls(struct calls *calls, int count)
{
    while (calls_of(calls) < count) {
        clock_sleep_ns(100000); /* they run a moment after others see the end */
    }
    assert_int_equal(calls_of(calls), count);
}

static void submit_called(struct stage *stage, const char *name, struct call *call)
{
    tutti_options options = on_stream(&stage->stream);

    options.callback = note_call;
    options.user = call;
    ASSERT_OK(tutti_allreduce_async(stage->t, name, stage->tensor, stage->tensor, COUNT,
            TUTTI_FLOAT32, TUTTI_SUM, &options, NULL));
}

/* Callbacks come when the event has passed, in order. */
TEST(test_callbacks)
{
    struct calls calls = { .lock = PTHREAD_MUTEX_INITIALIZER };
    struct call first = { .calls = &calls, .number = 1 };
    struct call second = { .calls = &calls, .number = 2 };
    tutti_request request;

    fake_hold(&stage->fake, true);
    ASSERT_OK(tutti_group_begin(stage->t));
    submit_called(stage, "a", &first);
    submit_called(stage, "b", &second);
    ASSERT_OK(tutti_group_end(stage->t));
    fake_await_issued(&stage->fake, 1);
    submit(stage, "c", &request);
    ASSERT_OK(tutti_wait_stream(stage->t, &request, NULL, TUTTI_FOREVER));
    assert_int_equal(calls_of(&calls), 0);
    fake_hold(&stage->fake, false);
    submit(stage, "c", &request);
    expect_wait(stage, &request, TUTTI_FOREVER, TUTTI_OK);
    await_calls(&calls, 2);
    assert_true(calls.order[0] == 1 && calls.order[1] == 2);
    ASSERT_OK(calls.status);
}

TEST(test_cancel)
{
    tutti_request request;

    submit_issued(stage, "a", &request);
    ASSERT_OK(tutti_cancel(stage->t, request));
    ASSERT_OK(tutti_wait_stream(stage->t, &request, NULL, TUTTI_FOREVER));
    assert_int_equal(tutti_cancel(stage->t, request), TUTTI_ERR_INVALID);
}

/* The planted bug: the stream does not wait, and the request is gone. */
TEST(test_planted_bug)
{
    tutti_request request;

    fake_gate(&stage->fake, true);
    submit(stage, "a", &request);
    assert_int_equal(tutti_fault_set("no such bug"), TUTTI_ERR_INVALID);
    ASSERT_OK(tutti_fault_set("wait_stream_before_issue"));
    ASSERT_OK(tutti_wait_stream(stage->t, &request, NULL, TUTTI_FOREVER));
    ASSERT_OK(tutti_fault_set(NULL));
    assert_true(request == TUTTI_REQUEST_NULL);
    assert_int_equal(fake_get(&stage->fake, &stage->fake.follow_count), 0);
    assert_int_equal(fake_get(&stage->fake, &stage->fake.issued), 0);
}

/* ---------------------------------------------------------------- registered */

TEST(test_registered)
{
    const tutti_options options = on_stream(&stage->stream);
    const tutti_tensor_desc desc = { .size = sizeof desc,
        .name = "r",
        .collective = TUTTI_ALLREDUCE,
        .count = COUNT,
        .dtype = TUTTI_FLOAT32,
        .op = TUTTI_SUM,
        .options = &options };
    tutti_tensor tensor;
    tutti_request requests[3] = { 0 };

    ASSERT_OK(tutti_tensor_register(stage->t, &desc, &tensor));
    fake_hold(&stage->fake, true);
    for (int step = 0; step < 3; step++) {
        /* Those before are issued, and their requests are still there. */
        while (tutti_submit(stage->t, tensor, stage->tensor, stage->tensor,
                       TUTTI_NO_STEP, NULL, NULL,
                       &requests[step]) == TUTTI_ERR_DUPLICATE) {
            assert_int_equal(tutti_test(stage->t, &requests[step - 1]), TUTTI_AGAIN);
        }
        assert_true(requests[step] != TUTTI_REQUEST_NULL);
    }
    ASSERT_OK(tutti_wait_stream_all(stage->t, 3, requests, NULL, TUTTI_FOREVER, NULL));
    assert_int_equal(fake_get(&stage->fake, &stage->fake.follow_count), 3);
    stage->fake.foreign = &stage->stream;
    assert_int_equal(tutti_submit(stage->t, tensor, stage->tensor, stage->tensor,
                             TUTTI_NO_STEP, NULL, NULL, &requests[0]),
            TUTTI_ERR_INVALID);
    stage->fake.foreign = NULL;
    ASSERT_OK(tutti_tensor_unregister(stage->t, tensor));
}

/* --------------------------------------------------------------------- places */

TEST(test_two_spaces)
{
    float here[COUNT] = { 0 };
    tutti_request request;

    assert_int_equal(tutti_allreduce_async(stage->t, "a", stage->tensor, here, COUNT,
                             TUTTI_FLOAT32, TUTTI_SUM, NULL, &request),
            TUTTI_ERR_INVALID);
    assert_non_null(strstr(tutti_last_error(),
            "is device memory, and its output is "
            "host memory"));
    assert_int_equal(tutti_allreduce_async(stage->t, "a", stage->tensor, stage->tensor,
                             COUNT + 1, TUTTI_FLOAT32, TUTTI_SUM, NULL, &request),
            TUTTI_ERR_INVALID);
    assert_non_null(strstr(tutti_last_error(), "\"a\": the memory ends before"));
    assert_int_equal(fake_made(&stage->fake), 0);
}

/* A refused submission gives its event back; tear_down() counts. */
TEST(test_refusals)
{
    tutti_request request;
    tutti_request other;
    tutti_options options = on_stream(&stage->stream);

    stage->fake.full = true;
    assert_int_equal(sum(stage, "a", &request), TUTTI_ERR_NO_MEMORY);
    stage->fake.full = false;
    options.process_set = 77;
    assert_int_equal(tutti_allreduce_async(stage->t, "a", stage->tensor, stage->tensor,
                             COUNT, TUTTI_FLOAT32, TUTTI_SUM, &options, &request),
            TUTTI_ERR_INVALID);
    fake_gate(&stage->fake, true);
    submit(stage, "a", &request);
    assert_int_equal(sum(stage, "a", &other), TUTTI_ERR_DUPLICATE);
    ASSERT_OK(tutti_group_begin(stage->t));
    submit(stage, "b", &other);
    stage->fake.full = true;
    assert_int_equal(tutti_group_end(stage->t), TUTTI_ERR_NO_MEMORY);
    stage->fake.full = false;
    ASSERT_OK(tutti_group_begin(stage->t));
    submit(stage, "b", &other);
    assert_int_equal(sum(stage, "a", &other), TUTTI_ERR_DUPLICATE);
    assert_int_equal(tutti_group_end(stage->t), TUTTI_ERR_DUPLICATE);
    fake_gate(&stage->fake, false);
    expect_wait(stage, &request, TUTTI_FOREVER, TUTTI_OK);
}

TEST(test_memory)
{
    void *memory = NULL;
    void *kept = NULL;
    tutti_request request;

    ASSERT_OK(tutti_alloc(stage->t, 100, TUTTI_DEVICE, &memory));
    ASSERT_OK(tutti_alloc(stage->t, 0, TUTTI_DEVICE, &kept));
    assert_int_equal(fake_get(&stage->fake, &stage->fake.given), 2);
    fake_hold(&stage->fake, true);
    ASSERT_OK(tutti_broadcast_async(
            stage->t, "a", memory, 100, TUTTI_UINT8, 0, NULL, &request));
    ASSERT_OK(tutti_wait_stream(stage->t, &request, NULL, TUTTI_FOREVER));
    assert_int_equal(stage->fake.follow_count, 1);
    ASSERT_OK(tutti_free(stage->t, memory));
    assert_int_equal(tutti_free(stage->t, memory), TUTTI_ERR_INVALID);
    assert_int_equal(fake_get(&stage->fake, &stage->fake.given), 1);
}

TEST(test_no_device)
{
    struct stage bare = { .t = NULL };
    tutti_request request;
    float here[2] = { 1, 2 };
    void *memory;

    fake_device_init(&bare.fake);
    bare.t = start(&bare, false);
    assert_int_equal(
            tutti_alloc(bare.t, 1, TUTTI_DEVICE, &memory), TUTTI_ERR_UNSUPPORTED);
    assert_non_null(strstr(tutti_last_error(), "rank 0 has no GPU"));
    ASSERT_OK(tutti_allreduce_async(
            bare.t, "a", here, here, 2, TUTTI_FLOAT32, TUTTI_SUM, NULL, &request));
    ASSERT_OK(tutti_wait_stream(bare.t, &request, &bare.stream, TUTTI_FOREVER));
    ASSERT_OK(tutti_finalize(bare.t));
    fake_device_fini(&bare.fake);
}

/* The output of a request is where its input is, and can be taken once it is issued. */
TEST(test_owned_output)
{
    const int64_t rows[] = { 8 };
    int64_t rows_of = 0;
    void *output = NULL;
    tutti_request request;

    fake_hold(&stage->fake, true);
    stage->tensor[3] = 4;
    ASSERT_OK(tutti_allgather_async(stage->t, "g", stage->tensor, NULL, 8, 1, rows,
            TUTTI_FLOAT32, NULL, &request));
    ASSERT_OK(tutti_wait_stream(stage->t, &request, NULL, TUTTI_FOREVER));
    assert_true(request != TUTTI_REQUEST_NULL);
    ASSERT_OK(tutti_request_take_output(
            stage->t, &request, &output, &rows_of, TUTTI_FOREVER));
    assert_true(request == TUTTI_REQUEST_NULL && rows_of == 8);
    assert_int_equal(fake_get(&stage->fake, &stage->fake.given), 1);
    assert_true(((float *)output)[3] > 3);
    ASSERT_OK(tutti_free(stage->t, output));
}

/* Nobody knows the sizes: no backend of the device takes it, and the host's do. */
TEST(test_staged)
{
    tutti_stats stats = { .size = sizeof stats };
    float *output = fake_memory(&stage->fake, 8 * sizeof(float));
    tutti_request request;

    stage->tensor[3] = 4;
    ASSERT_OK(tutti_gather_async(stage->t, "g", stage->tensor, output, 8, 1, NULL,
            TUTTI_FLOAT32, 0, NULL, &request));
    expect_wait(stage, &request, TUTTI_FOREVER, TUTTI_OK);
    assert_true(output[3] > 3);
    ASSERT_OK(tutti_stats_get(stage->t, &stats));
    assert_int_equal(stats.device_staged, 1);
}

/* What is empty here may not be so elsewhere: addresses and streams are signs. */
TEST(test_empty)
{
    const int64_t none[] = { 0 };
    const tutti_options options = on_stream(&stage->stream);
    tutti_request request;

    fake_gate(&stage->fake, true); /* no events of batches, only of what is submitted */
    ASSERT_OK(tutti_allgather_async(stage->t, "g", stage->tensor, NULL, 0, 1, none,
            TUTTI_FLOAT32, NULL, &request));
    assert_int_equal(fake_made(&stage->fake), 1);
    ASSERT_OK(tutti_allgather_async(
            stage->t, "h", NULL, NULL, 0, 1, none, TUTTI_FLOAT32, &options, &request));
    assert_int_equal(fake_made(&stage->fake), 2);
    ASSERT_OK(tutti_allgather_async(
            stage->t, "i", NULL, NULL, 0, 1, none, TUTTI_FLOAT32, NULL, &request));
    ASSERT_OK(tutti_allreduce_async(stage->t, "j", NULL, NULL, 0, TUTTI_FLOAT32,
            TUTTI_SUM, &options, &request));
    ASSERT_OK(tutti_barrier_async(stage->t, "k", &options, &request));
    assert_int_equal(fake_made(&stage->fake), 2);
    fake_gate(&stage->fake, false);
}

TEST(test_removed_set)
{
    tutti_options options = on_stream(&stage->stream);
    const int ranks[] = { 0 };
    tutti_process_set set;
    tutti_request request;

    ASSERT_OK(tutti_process_set_create(stage->t, ranks, 1, &set));
    options.process_set = set;
    fake_hold(&stage->fake, true);
    ASSERT_OK(tutti_allreduce_async(stage->t, "a", stage->tensor, stage->tensor, COUNT,
            TUTTI_FLOAT32, TUTTI_SUM, &options, &request));
    while (tutti_process_set_destroy(stage->t, set) != TUTTI_OK) {
        assert_int_equal(tutti_test(stage->t, &request), TUTTI_AGAIN);
    }
    ASSERT_OK(tutti_wait_stream(stage->t, &request, NULL, TUTTI_FOREVER));
}

/* -------------------------------------------------------------------- failure */

TEST(test_abort)
{
    struct calls calls = { .lock = PTHREAD_MUTEX_INITIALIZER };
    struct call call = { .calls = &calls, .number = 1 };
    tutti_request gone;
    tutti_request waited;

    stage->is_failed = true;
    stage->fake.quits_needed = 3;
    submit_issued(stage, "a", &gone);
    ASSERT_OK(tutti_wait_stream(stage->t, &gone, NULL, TUTTI_FOREVER));
    submit_issued(stage, "b", &waited);
    submit_called(stage, "c", &call);
    fake_await_issued(&stage->fake, 3);
    ASSERT_OK(tutti_abort(stage->t, "enough"));
    /* Ended only when the backend has given up: three times it had not. */
    expect_wait(stage, &waited, TUTTI_FOREVER, TUTTI_ERR_CONTEXT_FAILED);
    assert_non_null(strstr(tutti_last_error(), "enough"));
    assert_true(fake_get(&stage->fake, &stage->fake.quits) > 3);
    expect_wait(stage, &waited, 0, TUTTI_OK);
    await_calls(&calls, 1);
    assert_int_equal(calls.status, TUTTI_ERR_CONTEXT_FAILED);
    assert_int_equal(sum(stage, "d", &gone), TUTTI_ERR_CONTEXT_FAILED);
}

/* One that is issued, and one that the backend still puts on the device, which keeps both. */
static void submit_kept(struct stage *stage, tutti_request requests[2])
{
    stage->is_failed = true;
    fake_need_quits(&stage->fake, INT_MAX);
    submit_issued(stage, "a", &requests[0]);
    fake_gate(&stage->fake, true);
    submit(stage, "b", &requests[1]);
    while (fake_get(&stage->fake, &stage->fake.started) < 2) {
        assert_int_equal(tutti_test(stage->t, &requests[1]), TUTTI_AGAIN);
    }
}

static void expect_kept(struct stage *stage, tutti_request *request)
{
    assert_int_equal(tutti_wait_stream(stage->t, request, &stage->other, TUTTI_FOREVER),
            TUTTI_ERR_CONTEXT_FAILED);
    assert_non_null(strstr(tutti_last_error(), "enough"));
    assert_true(*request != TUTTI_REQUEST_NULL);
}

static void expect_ended(struct stage *stage, tutti_request *request)
{
    expect_wait(stage, request, TUTTI_FOREVER, TUTTI_ERR_CONTEXT_FAILED);
    assert_non_null(strstr(tutti_last_error(), "enough"));
    assert_true(*request == TUTTI_REQUEST_NULL);
}

/* A stream waits for nothing after a failure, the host for its memory. */
TEST(test_abort_keeps)
{
    tutti_request requests[4] = { TUTTI_REQUEST_NULL };
    tutti_status statuses[4];

    submit_kept(stage, requests + 1);
    requests[3] = requests[2];
    requests[2] = requests[1] + ((uint64_t)1 << 60); /* nobody's */
    ASSERT_OK(tutti_abort(stage->t, "enough"));
    assert_int_equal(tutti_wait_stream_all(stage->t, 4, requests, &stage->other,
                             TUTTI_FOREVER, statuses),
            TUTTI_ERR_CONTEXT_FAILED);
    ASSERT_OK(statuses[0]);
    assert_int_equal(statuses[1], TUTTI_ERR_CONTEXT_FAILED);
    assert_int_equal(statuses[2], TUTTI_ERR_INVALID);
    assert_int_equal(statuses[3], TUTTI_ERR_CONTEXT_FAILED);
    expect_kept(stage, &requests[1]);
    expect_kept(stage, &requests[3]);
    assert_int_equal(fake_get(&stage->fake, &stage->fake.follow_count), 0);
    assert_int_equal(tutti_test(stage->t, &requests[1]), TUTTI_AGAIN);
    expect_wait(stage, &requests[3], 1000, TUTTI_ERR_TIMEOUT);

    fake_need_quits(&stage->fake, 0);
    expect_ended(stage, &requests[1]);
    expect_ended(stage, &requests[3]);
}

/* Their requests are left to tutti_finalize(), which waits for them. */
TEST(test_abort_and_finalize)
{
    tutti_request requests[2];

    submit_kept(stage, requests);
    ASSERT_OK(tutti_abort(stage->t, "enough"));
    expect_kept(stage, &requests[0]);
    expect_kept(stage, &requests[1]);
    fake_need_quits(&stage->fake, fake_get(&stage->fake, &stage->fake.quits) + 100);
}

/* Nobody has a request any more, and the device is lost: the next call says so. */
TEST(test_lost)
{
    tutti_request request;
    tutti_status status = TUTTI_OK;

    stage->is_failed = true;
    submit_issued(stage, "a", &request);
    ASSERT_OK(tutti_wait_stream(stage->t, &request, NULL, TUTTI_FOREVER));
    (void)pthread_mutex_lock(&stage->fake.lock);
    stage->fake.lost = true;
    (void)pthread_mutex_unlock(&stage->fake.lock);
    for (int i = 0; i < POLLS && status == TUTTI_OK; i++) {
        driver_poke(stage->t);
        status = sum(stage, "b", &request);
        if (status == TUTTI_OK) {
            status = tutti_wait_stream(stage->t, &request, NULL, TUTTI_FOREVER);
        }
    }
    assert_int_equal(status, TUTTI_ERR_CONTEXT_FAILED);
    assert_non_null(strstr(tutti_last_error(), "the fake device is lost"));
}

/* ---------------------------------------------------------------------- races */

struct racer {
    struct stage *stage;
    tutti_request request;
    tutti_status status;
    bool on_stream;
};

static void *race(void *argument)
{
    struct racer *racer = argument;

    racer->status = racer->on_stream
            ? tutti_wait_stream(racer->stage->t, &racer->request, NULL, TUTTI_FOREVER)
            : tutti_wait(racer->stage->t, &racer->request, TUTTI_FOREVER);
    return NULL;
}

struct waiter {
    pthread_t thread;
    struct racer racer;
    _Atomic bool ended;
};

static void *wait_for_ever(void *argument)
{
    struct waiter *waiter = argument;
    struct racer *racer = &waiter->racer;

    racer->status = racer->on_stream
            ? tutti_wait_stream(racer->stage->t, &racer->request, NULL, TUTTI_FOREVER)
            : tutti_wait(racer->stage->t, &racer->request, TUTTI_FOREVER);
    atomic_store(&waiter->ended, true);
    return NULL;
}

static bool is_driven(const struct stage *stage)
{
    return atomic_load(&stage->t->driver.driving) != 0 &&
            atomic_load(&stage->t->driver.waiters) == 1;
}

static bool has_sleeper(const struct stage *stage)
{
    return atomic_load(&stage->t->driver.waiters) == 2 &&
            doorbell_has_sleepers(&stage->t->driver.done_bell);
}

/* Starts one that waits, and waits for it. */
static void start_waiter(struct stage *stage, struct waiter *waiter,
        bool (*is_there)(const struct stage *stage))
{
    waiter->racer.stage = stage;
    assert_int_equal(pthread_create(&waiter->thread, NULL, wait_for_ever, waiter), 0);
    while (!is_there(stage)) {
        clock_sleep_ns(100000);
    }
}

/* The one that drives goes on for the host; the other one wakes up. */
TEST(test_abort_wakes)
{
    struct waiter host = { .racer.on_stream = false };
    struct waiter stream = { .racer.on_stream = true };
    tutti_request requests[2];

    submit_kept(stage, requests);
    host.racer.request = requests[0];
    stream.racer.request = requests[1];
    start_waiter(stage, &host, is_driven);
    start_waiter(stage, &stream, has_sleeper);
    ASSERT_OK(tutti_abort(stage->t, "enough"));
    while (!atomic_load(&stream.ended)) {
        clock_sleep_ns(100000);
    }
    assert_false(atomic_load(&host.ended));
    assert_int_equal(pthread_join(stream.thread, NULL), 0);
    assert_int_equal(stream.racer.status, TUTTI_ERR_CONTEXT_FAILED);
    assert_true(stream.racer.request != TUTTI_REQUEST_NULL);

    fake_need_quits(&stage->fake, 0);
    assert_int_equal(pthread_join(host.thread, NULL), 0);
    assert_int_equal(host.racer.status, TUTTI_ERR_CONTEXT_FAILED);
    assert_true(host.racer.request == TUTTI_REQUEST_NULL);
    expect_ended(stage, &stream.racer.request);
}

/* Two threads wait for one request while the engine ends it: one has it. */
TEST(test_same_request)
{
    for (int i = 0; i < RACES; i++) {
        struct racer racers[2] = { { .stage = stage, .on_stream = true },
            { .stage = stage, .on_stream = i % 2 == 0 } };
        pthread_t threads[2];
        tutti_request request;

        fake_gate(&stage->fake, i % 3 == 0);
        fake_hold(&stage->fake, i % 5 == 0);
        submit(stage, "a", &request);
        for (int k = 0; k < 2; k++) {
            racers[k].request = request;
            assert_int_equal(pthread_create(&threads[k], NULL, race, &racers[k]), 0);
        }
        fake_gate(&stage->fake, false);
        fake_hold(&stage->fake, false);
        for (int k = 0; k < 2; k++) {
            assert_int_equal(pthread_join(threads[k], NULL), 0);
        }
        assert_int_equal(
                (racers[0].status == TUTTI_OK) + (racers[1].status == TUTTI_OK), 1);
        assert_int_equal((racers[0].status == TUTTI_ERR_INVALID) +
                        (racers[1].status == TUTTI_ERR_INVALID),
                1);
    }
}

/* The application hands over while the engine finds that the event has passed. */
TEST(test_steps)
{
    const char *const names[] = { "a", "b", "c", "d" };
    tutti_stats stats = { .size = sizeof stats };

    for (int step = 0; step < RACES; step++) {
        tutti_request requests[4];

        for (int i = 0; i < 4; i++) {
            submit(stage, names[i], &requests[i]);
        }
        if (step % 2 == 0) {
            ASSERT_OK(tutti_wait_stream_all(
                    stage->t, 4, requests, NULL, TUTTI_FOREVER, NULL));
        } else {
            ASSERT_OK(tutti_wait_stream_all(
                    stage->t, 3, requests, NULL, TUTTI_FOREVER, NULL));
            expect_wait(stage, &requests[3], TUTTI_FOREVER, TUTTI_OK);
        }
    }
    ASSERT_OK(tutti_stats_get(stage->t, &stats));
    assert_int_equal(stats.completed, 4 * RACES);
    assert_int_equal(stats.bytes, 4 * RACES * COUNT * sizeof(float));
}
