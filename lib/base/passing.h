/*
 * Descriptors that are passed to other processes over Unix sockets, one with each message.
 */
#ifndef TUTTI_BASE_PASSING_H
#define TUTTI_BASE_PASSING_H

#include <stddef.h>
#include <sys/socket.h>
#include <sys/types.h>

/**
 * Sends bytes with a descriptor, without waiting. Nothing that `to` and `bytes` point to is changed.
 * @param to  address; NULL: where the socket is connected
 * @return as sendmsg()
 */
ssize_t passing_send(int socket, struct sockaddr *to, socklen_t to_len, void *bytes,
        size_t len, int fd);
/**
 * Takes a message. Any number of descriptors may come with it, for strangers may send as well.
 * @param flags  of recvmsg()
 * @param[out] fd      the first, which the caller closes, and exec does; -1: none. Others are closed
 * @param[out] sender  where the socket says it (SO_PASSCRED), else pid 0 and uid -1; may be NULL
 * @return as recvmsg()
 */
ssize_t passing_receive(
        int socket, void *bytes, size_t len, int flags, int *fd, struct ucred *sender);

#endif
