/*
 * A rank whose own operations are over goes on moving its messages: others may wait for them.
 * The context has one rank, over a transport that says when messages have left.
 */
#include <pthread.h>
#include <stdatomic.h>

#include <tutti/tutti.h>

#include "api/setup.h"
#include "base/clock.h"
#include "ops/self/self.h"
#include "run/start.h"
#include "test/unit/unit.h"
#include "transport/inproc.h"

enum {
    POLLS = 20 /* more than turns that end an operation */
};

#define NAP_NS INT64_C(1000000)

/* A transport that must be polled, as MPI must, around the one of threads. */
struct post {
    struct transport inner;
    atomic_bool holds; /* messages have not left */
    atomic_int polls;
};

static tutti_status post_send(void *state, int to, const void *bytes, size_t len)
{
    struct post *post = state;

    return post->inner.ops->send(post->inner.state, to, bytes, len);
}

static tutti_status post_poll(void *state, transport_deliver deliver, void *user)
{
    struct post *post = state;

    (void)atomic_fetch_add(&post->polls, 1);
    return post->inner.ops->poll(post->inner.state, deliver, user);
}

static bool post_flushed(void *state)
{
    struct post *post = state;

    return !atomic_load(&post->holds);
}

static void post_wake(void *state, int rank)
{
    (void)state;
    (void)rank;
}

static void post_close(void *state)
{
    struct post *post = state;

    post->inner.ops->close(post->inner.state);
}

static const struct transport_ops post_ops = {
    .name = "post",
    .wakes = false,
    .send = post_send,
    .poll = post_poll,
    .flushed = post_flushed,
    .wake = post_wake,
    .close = post_close,
};

struct stage {
    struct post post;
    struct doorbell bell;
    tutti *t;
    atomic_int called;
    float value;
    tutti_status end; /* of finalize */
};

static int set_up(void **state)
{
    struct stage *stage = mem_calloc(1, sizeof *stage);
    struct context_spec spec = { 0 };

    assert_non_null(stage);
    ASSERT_OK(setup_begin(&spec, NULL, 0));
    ASSERT_OK(transport_inproc_open(1, &stage->bell, &stage->post.inner));
    spec.size = 1;
    spec.transport = stage->post.inner;
    spec.transport.ops = &post_ops;
    spec.transport.state = &stage->post;
    spec.bell = &stage->bell;
    spec.any_thread = true;
    spec.backends[0] = &op_self;
    spec.backend_count = 1;
    assert_true(nodes_add(&spec.nodes, 0, 1));
    ASSERT_OK(context_create(&stage->t, &spec));
    *state = stage;
    return 0;
}

static int tear_down(void **state)
{
    struct stage *stage = *state;

    atomic_store(&stage->post.holds, false);
    assert_int_equal(tutti_finalize(stage->t), stage->end);
    mem_free(stage);
    return 0;
}

#define TEST(name) UNIT_TEST_ON(name, struct stage *stage, set_up, tear_down)

static void on_done(void *user, tutti_status status, const char *message)
{
    (void)message;
    ASSERT_OK(status);
    (void)atomic_fetch_add((atomic_int *)user, 1);
}

static void await(atomic_int *number, int least)
{
    while (atomic_load(number) < least) {
        clock_sleep_ns(NAP_NS);
    }
}

/* Nobody calls tutti, and nothing of this rank is in flight. */
static void expect_polls(struct stage *stage)
{
    await(&stage->post.polls, atomic_load(&stage->post.polls) + POLLS);
}

static void submit(struct stage *stage, tutti_request *request)
{
    tutti_options options;

    tutti_options_default(&options);
    if (request == NULL) {
        options.callback = on_done;
        options.user = &stage->called;
    }
    ASSERT_OK(tutti_allreduce_async(stage->t, "x", &stage->value, &stage->value, 1,
            TUTTI_FLOAT32, TUTTI_SUM, &options, request));
}

TEST(test_after_a_callback)
{
    atomic_store(&stage->post.holds, true);
    submit(stage, NULL);
    await(&stage->called, 1);
    expect_polls(stage);
}

TEST(test_after_a_test)
{
    tutti_request request;
    tutti_status status = TUTTI_AGAIN;

    atomic_store(&stage->post.holds, true);
    submit(stage, &request);
    while (status == TUTTI_AGAIN) {
        status = tutti_test(stage->t, &request);
    }
    ASSERT_OK(status);
    expect_polls(stage);
}

static void *let_go(void *user)
{
    struct stage *stage = user;

    expect_polls(stage);
    atomic_store(&stage->post.holds, false);
    return NULL;
}

/* The waiting thread itself stays until they have left. */
TEST(test_before_a_wait_returns)
{
    tutti_request request;
    pthread_t thread;

    atomic_store(&stage->post.holds, true);
    submit(stage, &request);
    assert_int_equal(pthread_create(&thread, NULL, let_go, stage), 0);
    ASSERT_OK(tutti_wait(stage->t, &request, TUTTI_FOREVER));
    assert_int_equal(pthread_join(thread, NULL), 0);
}

/* A context that has failed does not: it could be for ever. */
TEST(test_not_after_a_failure)
{
    tutti_request request;

    atomic_store(&stage->post.holds, true);
    submit(stage, &request);
    ASSERT_OK(tutti_abort(stage->t, "enough"));
    stage->end = TUTTI_ERR_CONTEXT_FAILED;
    (void)!tutti_wait(stage->t, &request, TUTTI_FOREVER); /* done, or failed */
}
