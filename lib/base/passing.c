/*
 * Descriptors over Unix sockets.
 */
#include "base/passing.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

/* Room for a descriptor and who sent it; alignment makes room for a second descriptor. */
union attachment {
    struct cmsghdr align;
    char bytes[CMSG_SPACE(sizeof(int)) + CMSG_SPACE(sizeof(struct ucred))];
};

ssize_t passing_send(int socket, struct sockaddr *to, socklen_t to_len, void *bytes,
        size_t len, int fd)
{
    union attachment attachment = { .bytes = { 0 } };
    struct iovec data = { .iov_base = bytes, .iov_len = len };
    struct msghdr message = { .msg_name = to,
        .msg_namelen = to_len,
        .msg_iov = &data,
        .msg_iovlen = 1,
        .msg_control = &attachment,
        .msg_controllen = CMSG_SPACE(sizeof fd) };
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);

    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof fd);
    memcpy(CMSG_DATA(header), &fd, sizeof fd);
    return sendmsg(socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* Keeps the first of what came. */
static void take_descriptors(const struct cmsghdr *header, int *fd)
{
    const size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof *fd;

    for (size_t i = 0; i < count; i++) {
        int one;

        memcpy(&one, CMSG_DATA(header) + i * sizeof one, sizeof one);
        if (*fd < 0) {
            *fd = one;
        } else {
            (void)close(one);
        }
    }
}

ssize_t passing_receive(
        int socket, void *bytes, size_t len, int flags, int *fd, struct ucred *sender)
{
    union attachment attachment = { .bytes = { 0 } };
    struct iovec data = { .iov_base = bytes, .iov_len = len };
    struct msghdr message = { .msg_iov = &data,
        .msg_iovlen = 1,
        .msg_control = &attachment,
        .msg_controllen = sizeof attachment };
    struct cmsghdr *header;
    struct ucred said = { .uid = (uid_t)-1 };
    ssize_t got;

    do { /* with SO_RCVTIMEO even a stop (SIGSTOP, a debugger) interrupts it */
        got = recvmsg(socket, &message, flags | MSG_CMSG_CLOEXEC);
    } while (got < 0 && errno == EINTR);
    header = got < 0 ? NULL : CMSG_FIRSTHDR(&message);
    *fd = -1;
    for (; header != NULL; header = CMSG_NXTHDR(&message, header)) {
        if (header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS) {
            take_descriptors(header, fd);
        } else if (header->cmsg_level == SOL_SOCKET &&
                header->cmsg_type == SCM_CREDENTIALS) {
            memcpy(&said, CMSG_DATA(header), sizeof said);
        }
    }
    if (sender != NULL) {
        *sender = said;
    }
    return got;
}
