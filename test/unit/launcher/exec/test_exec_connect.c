/*
 * Connecting to the first of several addresses that answers.
 */

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "launcher/exec/connect.h"
#include "test/unit/unit.h"

static const int64_t second = 1000000000;

/* A socket on this host with its port; with `queue` 0 it does not listen. */
static int make_listener(int queue, int *port)
{
    struct sockaddr_in own = { .sin_family = AF_INET,
        .sin_addr = { .s_addr = htonl(INADDR_LOOPBACK) } };
    socklen_t len = sizeof own;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (const struct sockaddr *)&own, sizeof own), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&own, &len), 0);
    if (queue > 0) {
        assert_int_equal(listen(fd, queue), 0);
    }
    *port = ntohs(own.sin_port);
    return fd;
}

static void test_an_address_that_refuses_is_passed_over(void **state)
{
    struct link_address address = { .count = 3,
        .addresses = { "127.0.0.2", "not-numeric", "127.0.0.1" } };
    int listener = make_listener(1, &address.port);
    int fd = -1;

    (void)state;
    assert_int_equal(connect_any(&address, clock_ns() + 60 * second, &fd), TUTTI_OK);
    assert_true(fd >= 0);
    (void)close(fd);
    (void)close(listener);
}

/* Of the documentation's network nothing ever answers: nor does it refuse, mostly. */
static void test_an_address_that_is_silent_holds_up_nobody(void **state)
{
    struct link_address address = { .count = 3,
        .addresses = { "192.0.2.1", "198.51.100.1", "127.0.0.1" } };
    int listener = make_listener(1, &address.port);
    int fd = -1;

    (void)state;
    assert_int_equal(connect_any(&address, clock_ns() + 60 * second, &fd), TUTTI_OK);
    (void)close(fd);
    (void)close(listener);
}

static void test_when_none_answers_all_are_named(void **state)
{
    struct link_address address = { .count = 2,
        .addresses = { "127.0.0.2", "127.0.0.1" } };
    int listener = make_listener(0, &address.port);
    int fd = -1;

    (void)state;
    assert_int_equal(
            connect_any(&address, clock_ns() + 60 * second, &fd), TUTTI_ERR_SYSTEM);
    assert_int_equal(fd, -1);
    assert_non_null(strstr(tutti_last_error(), "127.0.0.2, 127.0.0.1, port "));
    assert_non_null(strstr(tutti_last_error(), "--nic"));
    assert_non_null(strstr(tutti_last_error(), "refused"));
    (void)close(listener);
}

static void test_the_deadline_ends_it(void **state)
{
    struct link_address address = {
        .count = 1, .addresses = { "127.0.0.1" }, .port = 9
    };
    int fd = -1;

    (void)state;
    assert_int_equal(connect_any(&address, clock_ns() - 1, &fd), TUTTI_ERR_SYSTEM);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_address_that_refuses_is_passed_over),
        cmocka_unit_test(test_an_address_that_is_silent_holds_up_nobody),
        cmocka_unit_test(test_when_none_answers_all_are_named),
        cmocka_unit_test(test_the_deadline_ends_it),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
