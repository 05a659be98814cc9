/*
 * Connections of those who meet at an address: whole messages or an error, never longer than
 * BOOT_PATIENCE_S.
 */
#ifndef TUTTI_BOOT_STREAM_H
#define TUTTI_BOOT_STREAM_H

#include <stdbool.h>
#include <stddef.h>

/** How long a start waits for what other ranks do. */
#define BOOT_PATIENCE_S 300

/** So long may the name of a host be unknown: those of new pods are, for some seconds. */
#define BOOT_NAME_PATIENCE_S 60
/** How long who calls may take for its first word, and who listens for the answer to it. */
#define BOOT_CALLER_PATIENCE_S 10
#define BOOT_HELLO_PATIENCE_S 60

/**
 * Connects, trying again until somebody listens there; -1: nobody does, and errno says why; it is
 * 0 if the host has no address.
 */
int stream_connect(const char *host, const char *port);
/** Listens on all addresses of this host; -1: errno says why. */
int stream_listen(const char *port, int backlog);
/** The next connection; -1: none came. */
int stream_accept(int listening);
/** False: the other end is gone, or not all has come in so many seconds: errno is 0, or EAGAIN. */
bool stream_read(int fd, void *bytes, size_t len, int seconds);
bool stream_write(int fd, const void *bytes, size_t len);

#endif
