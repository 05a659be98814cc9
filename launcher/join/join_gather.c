#include "launcher/join/join_gather.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/text.h"
#include "launcher/bind/pci.h"
#include "launcher/join/join.h"
#include "launcher/join/join_message.h"
#include "launcher/mpi_launcher/job_network.h"
#include "launcher/session/server.h"

enum {
    MISSING_SHOWN = 8
};

struct gathering {
    const struct join_place *place;
    struct placement *placement;
    struct loop loop;
    struct server server; /* that they call; none of its links stays */
    int64_t deadline_ns;
    struct members members;
    size_t joined; /* members that are there, our own not counted */
    bool has_refused; /* a stranger, which was said */
};

static tutti_status listen_on(int port, struct server *server)
{
    server->port = (uint16_t)port;
    return server_open(server, false) == TUTTI_OK
            ? TUTTI_OK
            : error_set_errno(TUTTI_ERR_SYSTEM,
                      "listen on port %d for hosts that join (--join-port)", port);
}

static const char unknown[] =
        "it does not know our secret (--join-secret-file, " JOIN_SECRET_VARIABLE ")";

/* That of strangers is said once: they may call as often as they like. */
static void refuse(struct gathering *all, struct session *session, const char *why)
{
    session_put(session, FRAME_REFUSAL, why, strlen(why));
    (void)session_send(session);
    if (why != unknown || !all->has_refused) {
        (void)fprintf(
                stderr, "tuttirun: a host that wanted to join was refused: %s\n", why);
    }
    all->has_refused = all->has_refused || why == unknown;
}

/* Why one that says this cannot join; NULL: it can. */
static const char *check_hello(const struct gathering *all,
        const struct meet_hello *said, const struct join_hello *hello)
{
    size_t number = (size_t)hello->index;

    if (strcmp(hello->key, all->place->key) != 0) {
        return "it is of another job";
    }
    if (said->release_len != strlen(tutti_version()) ||
            memcmp(said->release, tutti_version(), said->release_len) != 0) {
        return "its tuttirun is of another version";
    }
    if (number >= all->members.count || hello->index == all->place->index) {
        return "its number is not that of another node of the job";
    }
    if (!session_is_lost(&all->members.list[number].session)) {
        return "a host with its number has joined already";
    }
    return NULL;
}

/* Our own address is the one under which the first of the others found us. */
static void name_ourselves(struct gathering *all, int fd)
{
    struct member *own = &all->members.list[all->place->index];
    struct sockaddr_storage address = { 0 };
    socklen_t len = sizeof address;

    if (own->name[0] == '\0' && getsockname(fd, (void *)&address, &len) == 0) {
        (void)network_address_of((const struct sockaddr *)&address, own->name);
    }
}

static void admit(
        struct gathering *all, struct session *session, const struct join_hello *hello)
{
    struct member *member = &all->members.list[hello->index];
    struct sockaddr_storage address = { 0 };
    socklen_t len = sizeof address;
    int one = 1;

    if (member->name[0] == '\0' &&
            getpeername(session->fd, (void *)&address, &len) == 0) {
        (void)network_address_of((const struct sockaddr *)&address, member->name);
    }
    name_ourselves(all, session->fd);
    (void)setsockopt(session->fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof one);
    meet_welcome(session, &join_protocol, NULL, 0);
    if (!session_send_all(session)) {
        return;
    }
    session_detach(session);
    member->session = *session;
    member->slots = hello->slots;
    *session = (struct session){ .fd = -1 };
    all->joined++;
}

/* It stays a stranger of the server: as a member it is the hub's. */
static void take_guest(struct server_link *link, struct meet_hello *said)
{
    struct gathering *all = link->server->owner;
    char texts[JOIN_HELLO_TEXTS_MAX];
    struct join_hello hello;
    const char *why = unknown;

    if (said != NULL) {
        if (!join_get_hello(&said->in, &hello, texts)) {
            return;
        }
        why = check_hello(all, said, &hello);
    }
    if (why != NULL) {
        refuse(all, &link->session, why);
    } else {
        admit(all, &link->session, &hello);
    }
}

/* Numbers of the nodes that have not joined, or their names. */
static tutti_status refuse_late(const struct gathering *all, int timeout_s)
{
    char text[512] = "";
    size_t missing = 0;

    for (size_t i = 0; i < all->members.count; i++) {
        const struct member *member = &all->members.list[i];

        if (!session_is_lost(&member->session) || i == (size_t)all->place->index) {
            continue;
        }
        if (missing++ < MISSING_SHOWN) {
            text_append(text, sizeof text, " %zu%s%.40s%s", i,
                    member->name[0] == '\0' ? "" : " (", member->name,
                    member->name[0] == '\0' ? "" : ")");
        }
    }
    return error_set(TUTTI_ERR_TIMEOUT,
            "%zu of %zu hosts have not joined within %d s (--join-timeout): node%s%s; "
            "is tuttirun started there, and does the network let port %d through?",
            missing, all->members.count - 1, timeout_s, text,
            missing > MISSING_SHOWN ? " ..." : "", all->place->port);
}

/* Room for all, with the names that the source has for them. */
static tutti_status make_members(struct gathering *all)
{
    const struct host_list *hosts = &all->placement->hosts;
    size_t count = (size_t)all->place->nodes;

    all->members.list = mem_calloc(count, sizeof *all->members.list);
    if (all->members.list == NULL) {
        return error_set(TUTTI_ERR_NO_MEMORY, "out of memory for %zu hosts", count);
    }
    all->members.count = count;
    all->members.own = (size_t)all->place->index;
    for (size_t i = 0; i < count; i++) {
        struct member *member = &all->members.list[i];

        member->session.fd = -1;
        if (i < hosts->count) {
            (void)snprintf(
                    member->name, sizeof member->name, "%s", hosts->hosts[i].name);
        }
    }
    return TUTTI_OK;
}

static tutti_status wait_for_all(struct gathering *all, int timeout_s)
{
    tutti_status status = loop_init(&all->loop);

    if (status == TUTTI_OK) {
        status = listen_on(all->place->port, &all->server);
    }
    if (status == TUTTI_OK && !server_begin(&all->server, &all->loop)) {
        status = error_set_errno(TUTTI_ERR_SYSTEM, "wait for hosts that join");
    }
    if (status != TUTTI_OK) {
        return status;
    }
    all->deadline_ns = clock_ns() + (int64_t)timeout_s * 1000000000;
    while (all->joined + 1 < all->members.count && clock_ns() < all->deadline_ns) {
        (void)loop_turn(&all->loop, all->deadline_ns);
    }
    server_fini(&all->server);
    return all->joined + 1 < all->members.count ? refuse_late(all, timeout_s)
                                                : TUTTI_OK;
}

/* The hosts that the source did not name. */
static tutti_status add_hosts(struct gathering *all, int slots_per_host)
{
    if (all->placement->hosts.count > 0) {
        return TUTTI_OK;
    }
    for (size_t i = 0; i < all->members.count; i++) {
        const struct member *member = &all->members.list[i];
        char name[HOST_NAME_LIMIT + 2];
        bool is_six = strchr(member->name, ':') != NULL;
        int slots = i == (size_t)all->place->index ? pci_slots_here() : member->slots;
        const char *reason;

        (void)snprintf(name, sizeof name, "%s%s%s", is_six ? "[" : "", member->name,
                is_six ? "]" : "");
        reason = host_list_add(&all->placement->hosts, name,
                slots_per_host > 0 ? slots_per_host : slots);
        if (reason != NULL || all->placement->hosts.count != i + 1) {
            return error_set(TUTTI_ERR_INVALID, "host %s that joined: %s", member->name,
                    reason == NULL ? "another one has the same address" : reason);
        }
    }
    return TUTTI_OK;
}

static void fini(struct gathering *all)
{
    for (size_t i = 0; i < all->members.count; i++) {
        session_fini(&all->members.list[i].session);
    }
    server_fini(&all->server);
    loop_fini(&all->loop);
    mem_free(all->members.list);
    mem_free(all);
}

tutti_status join_gather(struct placement *placement, int timeout_s, int slots_per_host)
{
    struct gathering *all = mem_calloc(1, sizeof *all);
    struct hub_place place = { .folder = "" };
    tutti_status status;

    if (all == NULL) {
        return error_set(TUTTI_ERR_NO_MEMORY, "out of memory");
    }
    all->place = &placement->join;
    all->placement = placement;
    all->loop.epoll = -1;
    all->server = (struct server){ .protocol = &join_protocol,
        .hello = take_guest,
        .owner = all,
        .awaited = (size_t)placement->join.nodes,
        .secret = placement->join.secret,
        .secret_len = placement->join.secret_len,
        .listener.fd = -1,
        .hangups = -1 };
    status = make_members(all);
    if (status == TUTTI_OK) {
        status = wait_for_all(all, timeout_s);
    }
    if (status == TUTTI_OK) {
        status = add_hosts(all, slots_per_host);
    }
    if (status == TUTTI_OK) {
        status = hub_make_place(&place);
    }
    if (status == TUTTI_OK) {
        status = hub_start(&all->members, &place);
    }
    if (status == TUTTI_OK) {
        (void)snprintf(placement->agent, sizeof placement->agent, "%s", place.agent);
    }
    fini(all);
    return status;
}
