#include "launcher/session/server.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "launcher/session/loop.h"

enum {
    NS_PER_MS = 1000000,
    OTHER_DESCRIPTORS = 64, /* that tuttirun needs beside one for each rank */
    HANGUPS_MAX = 64 /* that are noted at once */
};

tutti_status server_raise_limit(int ranks)
{
    const uint64_t need = (uint64_t)ranks + OTHER_DESCRIPTORS;
    const uint64_t limit = loop_raise_limit(need + 2 * (uint64_t)SERVER_STRANGERS);

    return limit >= need
            ? TUTTI_OK
            : error_set(TUTTI_ERR_INVALID,
                      "%d ranks need %llu open files in tuttirun, and the limit is "
                      "%llu; raise it (ulimit -Hn), or give --supervise off",
                      ranks, (unsigned long long)need, (unsigned long long)limit);
}

tutti_status server_make_token(struct server *server)
{
    unsigned char bytes[LINK_TOKEN_BYTES / 2];

    if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes) {
        return error_set_errno(TUTTI_ERR_SYSTEM, "random bytes for the job's secret");
    }
    for (size_t i = 0; i < sizeof bytes; i++) {
        (void)snprintf(server->token + 2 * i, 3, "%02x", bytes[i]);
    }
    return TUTTI_OK;
}

tutti_status server_open(struct server *server, bool only_local)
{
    server->is_local = only_local;
    server->listener.fd = -1;
    server->hangups = epoll_create1(EPOLL_CLOEXEC);
    if (server->hangups >= 0) {
        server->listener.fd = only_local ? listen_here(&server->port)
                                         : listen_anywhere(&server->port);
    }
    return server->listener.fd >= 0
            ? TUTTI_OK
            : error_set_errno(TUTTI_ERR_SYSTEM, "cannot listen for supervisors");
}

static void free_link(struct server_link *link)
{
    session_fini(&link->session);
    mem_free(link);
}

void server_stop_listening(struct server *server)
{
    listener_close(&server->listener);
}

void server_fini(struct server *server)
{
    server_stop_listening(server);
    fd_close(&server->hangups);
    for (size_t i = 0; i < server->count; i++) {
        free_link(server->links[i]);
    }
    mem_free(server->links);
    server->links = NULL;
    server->count = 0;
}

/*
 * The place of a stranger that has gone, or, where there are too many, of the one that has been here
 * longest, unless that has only just come; then no more are taken for a moment. Else a new one.
 */
static size_t find_place(struct server *server, const struct server_link *link)
{
    struct server_link **links = server->links;
    size_t place = server->count;
    size_t oldest = server->count;
    size_t gone = 0;

    server->strangers = 0;
    for (size_t i = 0; i < server->count; i++) {
        if (links[i]->rank >= 0) {
            continue;
        }
        if (session_is_lost(&links[i]->session)) {
            place = i;
            gone++;
        } else if (server->strangers++ == 0 ||
                links[i]->opened < links[oldest]->opened) {
            oldest = i;
        }
    }
    server->has_gone = gone > 1;
    if (server->strangers >= SERVER_STRANGERS + server->awaited) {
        listener_pause(&server->listener, SERVER_PAUSE_MS);
        if (link->opened - links[oldest]->opened >
                SERVER_GRACE_MS * (int64_t)NS_PER_MS) {
            place = oldest;
            server->strangers--;
        }
    }
    return place;
}

/* Thousands may come at once: links are looked through only where that can find a place. */
static bool place_link(struct server *server, struct server_link *link)
{
    size_t place = server->count;

    if (server->has_gone || server->strangers >= SERVER_STRANGERS + server->awaited) {
        place = find_place(server, link);
    }
    if (place < server->count) {
        free_link(server->links[place]);
    } else if (mem_grow(&server->links, &server->capacity, server->count + 1,
                       sizeof(struct server_link *))) {
        server->count++;
    } else {
        return false;
    }
    server->links[place] = link;
    server->strangers++;
    link->index = place;
    return true;
}

bool server_watch_end(const struct server *server, const struct server_link *link)
{
    /* Told once: what was read until then may still be looked at for long. */
    struct epoll_event event = { .events = EPOLLRDHUP | EPOLLONESHOT,
        .data.u64 = link->index };

    return epoll_ctl(server->hangups, EPOLL_CTL_ADD, link->session.fd, &event) == 0;
}

/* Its place is free. */
static void lose_stranger(struct server_link *link)
{
    session_lose(&link->session);
    link->server->strangers--;
    link->server->has_gone = true;
}

/* It has proven that it knows the secret. What came behind its HELLO is read, too. */
static void admit(struct server_link *link)
{
    struct session *session = &link->session;

    loop_set_due(session->loop, &session->watch, 0);
    session->watch.call = link->server->call;
    session->watch.call(link, EPOLLIN);
}

/* Also when its time is up: what has come by then counts. */
static void read_stranger(void *context, unsigned ready)
{
    struct server_link *link = context;
    const struct server *server = link->server;
    struct session *session = &link->session;
    struct meet_hello said;
    struct frame frame;
    const bool lives = session_receive(session) && session_send(session);
    const int got = session_next(session, &frame);

    if (got == 0 && lives && ready != 0) {
        return;
    }
    if (got > 0 && frame.type == FRAME_HELLO) {
        server->hello(link,
                meet_take_hello(session, server->protocol, &frame, &said) ? &said
                                                                          : NULL);
    }
    if (link->rank < 0) {
        lose_stranger(link);
        return;
    }
    link->server->strangers--;
    link->server->awaited -= link->server->awaited > 0 ? 1 : 0;
    if (!session_is_lost(session)) {
        admit(link);
    }
}

static void add_link(void *owner, int fd)
{
    struct server *server = owner;
    struct server_link *link = mem_calloc(1, sizeof *link);
    const int64_t now = clock_ns();
    int on = 1;

    if (link == NULL) {
        (void)close(fd);
        return;
    }
    *link = (struct server_link){
        .session = server->secret == NULL
                ? session_of(fd, server->token, LINK_TOKEN_BYTES)
                : session_of(fd, server->secret, server->secret_len),
        .server = server,
        .rank = -1,
        .opened = now,
        .heard = now,
        .offset.is_ours = server->is_local,
    };
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (!place_link(server, link)) {
        free_link(link);
        return;
    }
    if (!session_attach(&link->session, server->listener.loop, read_stranger, link) ||
            !server_watch_end(server, link) || !meet_challenge(&link->session) ||
            !server_flush(link)) {
        lose_stranger(link);
        return;
    }
    loop_set_due(server->listener.loop, &link->session.watch,
            now + (int64_t)SERVER_STRANGER_MS * NS_PER_MS);
}

bool server_begin(struct server *server, struct loop *loop)
{
    return server->listener.loop == loop ||
            listener_begin(&server->listener, loop, add_link, server);
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

bool server_flush(struct server_link *link)
{
    return session_send(&link->session) &&
            session_waiting(&link->session) < SESSION_FULL;
}
