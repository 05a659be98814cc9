/*
 * Sleeping on the process's TCP connections. Sleeps are long: what is not heard shows as a
 * test that takes minutes.
 */
#include <arpa/inet.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/sockets.h"
#include "test/unit/unit.h"

#define LONG_NS INT64_C(600000000000)
#define SHORT_NS INT64_C(2000000)

/* Two ends of a connection of this process with itself. */
struct connection {
    int ends[2];
};

static struct connection connect_to_myself(void)
{
    struct sockaddr_in address = { .sin_family = AF_INET,
        .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t len = sizeof address;
    struct connection made;
    const int listener = socket(AF_INET, SOCK_STREAM, 0);

    assert_int_equal(bind(listener, (struct sockaddr *)&address, len), 0);
    assert_int_equal(listen(listener, 1), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&address, &len), 0);
    made.ends[0] = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(connect(made.ends[0], (struct sockaddr *)&address, len), 0);
    made.ends[1] = accept(listener, NULL, NULL);
    assert_true(made.ends[1] >= 0);
    (void)close(listener);
    return made;
}

static void disconnect(struct connection *connection)
{
    (void)close(connection->ends[0]);
    (void)close(connection->ends[1]);
}

struct later {
    struct doorbell *bell; /* rung, or */
    int to; /* a byte is sent there */
};

static void *do_later(void *arg)
{
    const struct later *later = arg;

    clock_sleep_ns(SHORT_NS);
    if (later->bell != NULL) {
        doorbell_ring(later->bell);
    } else {
        assert_int_equal(write(later->to, "x", 1), 1);
    }
    return NULL;
}

UNIT_TEST(test_bytes_and_rings_end_a_sleep_and_time_alone_is_not_heard)
{
    struct connection connection = connect_to_myself();
    struct sockets sockets = { .is_open = false };
    struct doorbell bell = { .rings = 0 };
    struct later send = { .to = connection.ends[0] };
    struct later ring = { .bell = &bell };
    pthread_t thread;

    /* What was before the first sleep counts: connections that can be written to. */
    assert_true(sockets_sleep(&sockets, &bell, 0, LONG_NS));
    assert_false(sockets_sleep(&sockets, &bell, 0, SHORT_NS));

    assert_int_equal(pthread_create(&thread, NULL, do_later, &send), 0);
    assert_true(sockets_sleep(&sockets, &bell, 0, LONG_NS));
    (void)pthread_join(thread, NULL);
    assert_false(sockets_sleep(&sockets, &bell, 0, SHORT_NS)); /* the byte is unread */

    assert_int_equal(pthread_create(&thread, NULL, do_later, &ring), 0);
    assert_true(sockets_sleep(&sockets, &bell, 0, LONG_NS));
    (void)pthread_join(thread, NULL);
    assert_true(sockets_sleep(&sockets, &bell, 0, LONG_NS)); /* rung since 0 */
    assert_false(sockets_sleep(&sockets, &bell, doorbell_listen(&bell), SHORT_NS));
    assert_int_equal(atomic_load(&bell.sleepers), 0);

    sockets_close(&sockets);
    disconnect(&connection);
}

UNIT_TEST(test_room_on_a_full_connection_ends_a_sleep)
{
    struct connection connection = connect_to_myself();
    struct sockets sockets = { .is_open = false };
    struct doorbell bell = { .rings = 0 };
    static char bytes[1 << 20];

    while (send(connection.ends[0], bytes, sizeof bytes, MSG_DONTWAIT) > 0) {
    }
    while (sockets_sleep(&sockets, &bell, 0, SHORT_NS)) {
    }
    while (recv(connection.ends[1], bytes, sizeof bytes, MSG_DONTWAIT) > 0) {
    }
    assert_true(sockets_sleep(&sockets, &bell, 0, LONG_NS));

    sockets_close(&sockets);
    disconnect(&connection);
}

struct sleeper {
    struct sockets *sockets;
    struct doorbell *bell;
    _Atomic bool is_over;
};

static void *sleep_long(void *arg)
{
    struct sleeper *sleeper = arg;

    (void)sockets_sleep(sleeper->sockets, sleeper->bell, 0, LONG_NS);
    atomic_store(&sleeper->is_over, true);
    return NULL;
}

UNIT_TEST(test_a_second_sleeper_is_deaf_but_for_the_bell_and_does_not_wake_the_first)
{
    struct sockets sockets = { .is_open = false };
    struct doorbell bell = { .rings = 0 };
    struct sleeper sleeper = { .sockets = &sockets, .bell = &bell };
    pthread_t thread;

    assert_int_equal(pthread_create(&thread, NULL, sleep_long, &sleeper), 0);
    while (!atomic_load(&sockets.is_taken) || atomic_load(&bell.sleepers) == 0) {
        clock_sleep_ns(SHORT_NS);
    }
    assert_false(sockets_sleep(&sockets, &bell, 0, LONG_NS));
    assert_false(atomic_load(&sleeper.is_over));
    doorbell_ring(&bell);
    (void)pthread_join(thread, NULL);
    sockets_close(&sockets);
}
