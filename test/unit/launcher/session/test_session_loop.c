/*
 * The loop: who is ready is called, in order, unless it has gone meanwhile.
 */
#include <fcntl.h>
#include <unistd.h>

#include "base/clock.h"
#include "launcher/session/loop.h"
#include "test/unit/unit.h"

/* A pipe that is watched, and what closes another when it is called. */
struct one {
    struct loop *loop;
    struct loop_watch watch;
    int fds[2];
    struct one *closes; /* NULL: none */
    int calls;
};

static void on_ready(void *context, unsigned ready)
{
    struct one *one = context;

    assert_int_not_equal(ready & (unsigned)EPOLLIN, 0);
    one->calls++;
    if (one->closes != NULL) {
        loop_close(one->loop, &one->closes->watch, &one->closes->fds[0]);
    }
}

static void open_one(struct one *one, struct loop *loop)
{
    *one = (struct one){ .loop = loop };
    one->watch = (struct loop_watch){ .call = on_ready, .context = one };
    assert_int_equal(pipe2(one->fds, O_CLOEXEC), 0);
    assert_true(loop_set(loop, &one->watch, one->fds[0], EPOLLIN));
}

static void close_one(struct one *one)
{
    loop_close(one->loop, &one->watch, &one->fds[0]);
    (void)close(one->fds[1]);
}

UNIT_TEST(test_who_is_ready_is_called)
{
    struct loop loop;
    struct one a;
    struct one b;

    assert_int_equal(loop_init(&loop), TUTTI_OK);
    open_one(&a, &loop);
    open_one(&b, &loop);
    loop_turn(&loop, clock_ns());
    assert_int_equal(a.calls + b.calls, 0);
    assert_int_equal(write(b.fds[1], "x", 1), 1);
    loop_turn(&loop, INT64_MAX);
    assert_int_equal(a.calls, 0);
    assert_int_equal(b.calls, 1);
    assert_true(loop_set(&loop, &b.watch, b.fds[0], 0));
    loop_turn(&loop, clock_ns());
    assert_int_equal(b.calls, 1);
    assert_int_equal(b.watch.ready, 0);
    close_one(&a);
    close_one(&b);
    loop_fini(&loop);
}

/* Both are ready at once, and the first that is called closes the other. */
UNIT_TEST(test_who_has_gone_is_not_called)
{
    struct loop loop;
    struct one a;
    struct one b;

    assert_int_equal(loop_init(&loop), TUTTI_OK);
    open_one(&a, &loop);
    open_one(&b, &loop);
    a.closes = &b;
    b.closes = &a;
    assert_int_equal(write(a.fds[1], "x", 1), 1);
    assert_int_equal(write(b.fds[1], "x", 1), 1);
    loop_turn(&loop, INT64_MAX);
    assert_int_equal(a.calls + b.calls, 1);
    close_one(&a);
    close_one(&b);
    loop_fini(&loop);
}

/* epoll refuses files, and what is read may be one. */
/* By time, after all that is ready, once. */
UNIT_TEST(test_who_is_due_is_called)
{
    struct loop loop;
    struct one one, other;
    struct loop_watch *watch;

    assert_int_equal(loop_init(&loop), TUTTI_OK);
    open_one(&one, &loop);
    open_one(&other, &loop);
    loop_set_due(&loop, &one.watch, 2);
    loop_set_due(&loop, &other.watch, INT64_MAX - 1);
    assert_int_equal(write(other.fds[1], "x", 1), 1);
    (void)loop_wait(&loop, INT64_MAX);
    assert_ptr_equal(loop_next(&loop), &other.watch);
    watch = loop_next(&loop);
    assert_ptr_equal(watch, &one.watch);
    assert_int_equal(watch->ready, 0);
    assert_null(loop_next(&loop));
    loop_set_due(&loop, &one.watch, 1);
    assert_true(loop_set(&loop, &one.watch, one.fds[0], 0)); /* it is about to go */
    assert_null(loop_next(&loop));
    close_one(&one);
    close_one(&other);
    loop_fini(&loop);
}

UNIT_TEST(test_a_file_is_always_ready)
{
    struct loop loop;
    struct one a;

    assert_int_equal(loop_init(&loop), TUTTI_OK);
    open_one(&a, &loop);
    close_one(&a);
    a.fds[0] = open("/dev/null", O_RDONLY | O_CLOEXEC);
    assert_true(loop_set(&loop, &a.watch, a.fds[0], EPOLLIN));
    loop_turn(&loop, INT64_MAX);
    loop_turn(&loop, INT64_MAX);
    assert_int_equal(a.calls, 2);
    loop_close(&loop, &a.watch, &a.fds[0]);
    loop_turn(&loop, clock_ns());
    assert_int_equal(a.calls, 2);
    loop_fini(&loop);
}

UNIT_TEST(test_it_waits_until_then)
{
    const int64_t until = clock_ns() + 20000000;
    struct loop loop;

    assert_int_equal(loop_init(&loop), TUTTI_OK);
    loop_turn(&loop, until);
    assert_true(clock_ns() >= until);
    loop_fini(&loop);
}
