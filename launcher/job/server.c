/*
 * Connections of supervisors.
 */
#include "launcher/job/server.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/error.h"
#include "base/mem.h"

enum {
    READ_BYTES = 65536,
    HANGUPS_MAX = 64, /* that are noted at once */
    BACKLOG = 4096
};

static tutti_status make_token(char token[LINK_TOKEN_BYTES + 1])
{
    unsigned char bytes[LINK_TOKEN_BYTES / 2];

    if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes) {
        return error_set_errno(TUTTI_ERR_SYSTEM, "random bytes for the job's secret");
    }
    for (size_t i = 0; i < sizeof bytes; i++) {
        (void)snprintf(token + 2 * i, 3, "%02x", bytes[i]);
    }
    return TUTTI_OK;
}

/* A socket for IPv6 and IPv4 together, or for IPv4 where there is no IPv6. */
static int make_socket(bool only_local)
{
    struct sockaddr_in6 six = { .sin6_family = AF_INET6 };
    struct sockaddr_in four = {
        .sin_family = AF_INET,
        .sin_addr.s_addr = htonl(only_local ? INADDR_LOOPBACK : INADDR_ANY),
    };
    int off = 0;
    int fd = -1;

    if (!only_local) {
        fd = socket(AF_INET6, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    }
    if (fd >= 0 && setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off) == 0 &&
            bind(fd, (const struct sockaddr *)&six, sizeof six) == 0) {
        return fd;
    }
    if (fd >= 0) {
        (void)close(fd);
    }
    fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd >= 0 && bind(fd, (const struct sockaddr *)&four, sizeof four) != 0) {
        (void)close(fd);
        return -1;
    }
    return fd;
}

static int port_of(int fd)
{
    union {
        struct sockaddr any;
        struct sockaddr_in four;
        struct sockaddr_in6 six;
    } address = { .any.sa_family = AF_UNSPEC };
    socklen_t len = sizeof address;

    if (getsockname(fd, &address.any, &len) != 0) {
        return -1;
    }
    return ntohs(address.any.sa_family == AF_INET6 ? address.six.sin6_port
                                                   : address.four.sin_port);
}

tutti_status server_init(
        struct server *server, int epoll, uint64_t base, bool only_local)
{
    tutti_status status;

    *server = (struct server){
        .epoll = epoll,
        .hangups = epoll_create1(EPOLL_CLOEXEC),
        .base = base,
        .listener = -1,
        .is_local = only_local,
    };
    status = make_token(server->token);
    if (status != TUTTI_OK) {
        return status;
    }
    if (server->hangups < 0) {
        return error_set_errno(TUTTI_ERR_SYSTEM, "cannot wait for supervisors");
    }
    server->listener = make_socket(only_local);
    if (server->listener < 0 || listen(server->listener, BACKLOG) != 0) {
        return error_set_errno(TUTTI_ERR_SYSTEM, "cannot listen for supervisors");
    }
    server->port = port_of(server->listener);
    return server->port > 0
            ? TUTTI_OK
            : error_set_errno(TUTTI_ERR_SYSTEM, "cannot read the port of a socket");
}

void server_close(struct server_link *link)
{
    if (link->fd >= 0) {
        (void)close(link->fd);
        link->fd = -1;
    }
}

static void free_link(struct server_link *link)
{
    server_close(link);
    mem_free(link->in);
    wire_writer_fini(&link->out);
    mem_free(link);
}

void server_stop_listening(struct server *server)
{
    if (server->listener >= 0) {
        (void)close(server->listener);
        server->listener = -1;
    }
}

void server_fini(struct server *server)
{
    server_stop_listening(server);
    if (server->hangups >= 0) {
        (void)close(server->hangups);
        server->hangups = -1;
    }
    for (size_t i = 0; i < server->count; i++) {
        free_link(server->links[i]);
    }
    mem_free(server->links);
    server->links = NULL;
    server->count = 0;
}

/* An index for a link: of a stranger that has gone, or a new one below the limit. */
static bool place_link(struct server *server, struct server_link *link, size_t limit)
{
    for (size_t i = 0; i < server->count; i++) {
        if (server->links[i]->fd < 0 && server->links[i]->rank < 0) {
            free_link(server->links[i]);
            server->links[i] = link;
            link->index = i;
            return true;
        }
    }
    if (server->count >= limit ||
            !mem_grow(&server->links, &server->capacity, server->count + 1,
                    sizeof(struct server_link *))) {
        return false;
    }
    server->links[server->count] = link;
    link->index = server->count++;
    return true;
}

static void add_link(struct server *server, int fd, size_t limit, int64_t now)
{
    struct server_link *link = mem_calloc(1, sizeof *link);
    struct epoll_event event = { .events = EPOLLIN };
    int on = 1;

    if (link == NULL) {
        (void)close(fd);
        return;
    }
    *link = (struct server_link){
        .fd = fd,
        .rank = -1,
        .opened = now,
        .heard = now,
        .events = EPOLLIN,
        .offset.is_ours = server->is_local,
    };
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (!place_link(server, link, limit)) {
        free_link(link);
        return;
    }
    event.data.u64 = server->base + link->index;
    if (epoll_ctl(server->epoll, EPOLL_CTL_ADD, fd, &event) != 0 ||
            !server_watch_end(server, link)) {
        server_close(link);
    }
}

bool server_watch_end(const struct server *server, const struct server_link *link)
{
    /* Told once: what was read until then may still be looked at for long. */
    struct epoll_event event = { .events = EPOLLRDHUP | EPOLLONESHOT,
        .data.u64 = link->index };

    return epoll_ctl(server->hangups, EPOLL_CTL_ADD, link->fd, &event) == 0;
}

void server_note_hangups(struct server *server, int64_t now)
{
    struct epoll_event events[HANGUPS_MAX];
    int count;

    do {
        count = epoll_wait(server->hangups, events, HANGUPS_MAX, 0);
        for (int i = 0; i < count; i++) {
            server->links[events[i].data.u64]->hung_up = now++;
        }
    } while (count == HANGUPS_MAX);
}

void server_accept(struct server *server, size_t limit, int64_t now)
{
    while (server->listener >= 0) {
        int fd = accept4(server->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

        if (fd < 0) {
            return;
        }
        add_link(server, fd, limit, now);
    }
}

bool server_token_is(const struct server *server, const char *text, size_t len)
{
    unsigned difference = 0;

    if (len != LINK_TOKEN_BYTES) {
        return false;
    }
    for (size_t i = 0; i < len; i++) {
        difference |=
                (unsigned)(unsigned char)text[i] ^ (unsigned char)server->token[i];
    }
    return difference == 0;
}

bool server_read(struct server_link *link, int64_t now)
{
    ssize_t done;

    if (!mem_grow(&link->in, &link->in_capacity, link->in_len + READ_BYTES, 1)) {
        return false;
    }
    done = recv(link->fd, link->in + link->in_len, READ_BYTES, MSG_DONTWAIT);
    if (done < 0) {
        return errno == EAGAIN || errno == EINTR;
    }
    link->in_len += (size_t)done;
    link->heard = now;
    return done > 0;
}

void server_drop(struct server_link *link, size_t used)
{
    link->in_len -= used;
    memmove(link->in, link->in + used, link->in_len);
}

bool server_flush(const struct server *server, struct server_link *link)
{
    while (link->out_sent < link->out.len) {
        ssize_t done = send(link->fd, link->out.data + link->out_sent,
                link->out.len - link->out_sent, MSG_DONTWAIT | MSG_NOSIGNAL);

        if (done < 0 && errno == EAGAIN) {
            server_watch(server, link);
            return link->out.len - link->out_sent < SERVER_OUT_MAX;
        }
        if (done < 0 && errno != EINTR) {
            return false;
        }
        link->out_sent += done > 0 ? (size_t)done : 0;
    }
    if (link->out_sent > 0) {
        wire_writer_reset(&link->out);
        link->out_sent = 0;
        server_watch(server, link);
    }
    return true;
}

void server_watch(const struct server *server, struct server_link *link)
{
    struct epoll_event event = {
        .events = (link->is_parked ? 0U : (unsigned)EPOLLIN) |
                (link->out_sent < link->out.len ? (unsigned)EPOLLOUT : 0U),
        .data.u64 = server->base + link->index,
    };

    if (link->fd >= 0 && event.events != link->events) {
        link->events = event.events;
        (void)epoll_ctl(server->epoll, EPOLL_CTL_MOD, link->fd, &event);
    }
}
