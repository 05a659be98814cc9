/*
 * Descriptors over Unix sockets: the one that is expected is taken, and no other stays.
 */
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/passing.h"
#include "test/unit/unit.h"

static int open_descriptors(void)
{
    DIR *folder = opendir("/proc/self/fd");
    int count = 0;

    assert_non_null(folder);
    while (readdir(folder) != NULL) {
        count++;
    }
    (void)closedir(folder);
    return count;
}

/* As strangers may: so many descriptors with one byte. */
static void send_some(int socket, int fd, int count)
{
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(8 * sizeof(int))];
    } control = { .bytes = { 0 } };
    struct iovec data = { .iov_base = (char[]){ 'x' }, .iov_len = 1 };
    struct msghdr message = { .msg_iov = &data,
        .msg_iovlen = 1,
        .msg_control = &control,
        .msg_controllen = CMSG_SPACE((size_t)count * sizeof fd) };

    control.header.cmsg_level = SOL_SOCKET;
    control.header.cmsg_type = SCM_RIGHTS;
    control.header.cmsg_len = CMSG_LEN((size_t)count * sizeof fd);
    for (int i = 0; i < count; i++) {
        memcpy(CMSG_DATA(&control.header) + (size_t)i * sizeof fd, &fd, sizeof fd);
    }
    assert_int_equal(sendmsg(socket, &message, 0), 1);
}

UNIT_TEST(test_one_descriptor_is_taken)
{
    const int on = 1;
    struct ucred sender;
    int ends[2];
    char sent = 'y';
    char byte;
    int fd;
    int before;

    assert_int_equal(socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, ends), 0);
    assert_int_equal(setsockopt(ends[1], SOL_SOCKET, SO_PASSCRED, &on, sizeof on), 0);
    before = open_descriptors();
    for (int count = 1; count <= 8; count++) {
        send_some(ends[0], ends[0], count);
        assert_int_equal(passing_receive(ends[1], &byte, 1, 0, &fd, &sender), 1);
        assert_true(fd >= 0);
        assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
        assert_int_equal(sender.uid, geteuid());
        assert_int_equal(sender.pid, getpid());
        (void)close(fd);
        assert_int_equal(open_descriptors(), before);
    }
    assert_int_equal(passing_send(ends[0], NULL, 0, &sent, 1, ends[1]), 1);
    assert_int_equal(passing_receive(ends[1], &byte, 1, 0, &fd, NULL), 1);
    assert_true(byte == 'y' && fd >= 0);
    (void)close(fd);
    assert_int_equal(send(ends[0], "z", 1, 0), 1);
    assert_int_equal(passing_receive(ends[1], &byte, 1, 0, &fd, NULL), 1);
    assert_int_equal(fd, -1);
    assert_int_equal(
            passing_receive(ends[1], &byte, 1, MSG_DONTWAIT, &fd, &sender), -1);
    assert_int_equal(fd, -1);
    (void)close(ends[0]);
    (void)close(ends[1]);
}

static int alarmed[2]; /* ends of the socket on which send_late() sends */

/* Interrupts who waits for it. */
static void send_late(int number)
{
    char byte = 'l';

    (void)number;
    (void)passing_send(alarmed[0], NULL, 0, &byte, 1, alarmed[0]);
}

/* As a stop does where the socket has a time limit. */
UNIT_TEST(test_interrupted_receive_goes_on)
{
    const struct itimerval soon = { .it_value.tv_usec = 20000 };
    const struct sigaction action = { .sa_handler = send_late };
    char byte;
    int fd;

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, alarmed), 0);
    assert_int_equal(sigaction(SIGALRM, &action, NULL), 0);
    assert_int_equal(setitimer(ITIMER_REAL, &soon, NULL), 0);
    assert_int_equal(passing_receive(alarmed[1], &byte, 1, 0, &fd, NULL), 1);
    assert_true(byte == 'l' && fd >= 0);
    (void)close(fd);
    (void)close(alarmed[0]);
    (void)close(alarmed[1]);
}
