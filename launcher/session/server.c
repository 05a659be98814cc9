/*
 * Connections of supervisors.
 */
#include "launcher/session/server.h"

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
#include "launcher/session/listen.h"
#include "launcher/session/meet.h"

enum {
    HANGUPS_MAX = 64 /* that are noted at once */
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

tutti_status server_init(struct server *server, struct loop *loop, bool only_local)
{
    tutti_status status = make_token(server->token);

    server->hangups = -1;
    return status == TUTTI_OK ? server_open(server, loop, only_local) : status;
}

tutti_status server_open(struct server *server, struct loop *loop, bool only_local)
{
    server->loop = loop;
    server->is_local = only_local;
    server->hangups = epoll_create1(EPOLL_CLOEXEC);
    if (server->hangups < 0) {
        return error_set_errno(TUTTI_ERR_SYSTEM, "cannot wait for supervisors");
    }
    server->listener =
            only_local ? listen_here(&server->port) : listen_anywhere(&server->port);
    return server->listener >= 0
            ? TUTTI_OK
            : error_set_errno(TUTTI_ERR_SYSTEM, "cannot listen for supervisors");
}

static void free_link(struct server_link *link)
{
    session_fini(&link->session);
    wire_writer_fini(&link->below);
    mem_free(link);
}

void server_stop_listening(struct server *server)
{
    loop_close(server->loop, &server->watch, &server->listener);
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
        if (session_is_lost(&server->links[i]->session) && server->links[i]->rank < 0) {
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
    int on = 1;

    if (link == NULL) {
        (void)close(fd);
        return;
    }
    *link = (struct server_link){
        .session = session_of(fd, server->token, LINK_TOKEN_BYTES),
        .server = server,
        .rank = -1,
        .opened = now,
        .heard = now,
        .offset.is_ours = server->is_local,
    };
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (!place_link(server, link, limit)) {
        free_link(link);
        return;
    }
    if (!session_attach(&link->session, server->loop, server->call, link) ||
            !server_watch_end(server, link) || !meet_challenge(&link->session) ||
            !server_flush(link)) {
        session_lose(&link->session);
    }
}

bool server_watch_end(const struct server *server, const struct server_link *link)
{
    /* Told once: what was read until then may still be looked at for long. */
    struct epoll_event event = { .events = EPOLLRDHUP | EPOLLONESHOT,
        .data.u64 = link->index };

    return epoll_ctl(server->hangups, EPOLL_CTL_ADD, link->session.fd, &event) == 0;
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

bool server_move(struct server_link *link, struct server_link *from)
{
    const struct server *server = link->server;
    struct epoll_event event = { .events = EPOLLRDHUP | EPOLLONESHOT,
        .data.u64 = link->index };

    session_detach(&from->session);
    session_fini(&link->session);
    link->session = from->session;
    from->session = (struct session){ .fd = -1 };
    link->heard = from->heard;
    link->hung_up = 0;
    link->last_sent = 0;
    return session_attach(&link->session, server->loop, server->call, link) &&
            epoll_ctl(server->hangups, EPOLL_CTL_MOD, link->session.fd, &event) == 0;
}

bool server_flush(struct server_link *link)
{
    return session_send(&link->session) &&
            session_waiting(&link->session) < SESSION_FULL;
}
