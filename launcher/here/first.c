#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/text.h"
#include "launcher/bind/pci.h"
#include "launcher/here/here.h"
#include "launcher/here/message.h"
#include "launcher/mpi_launcher/job_network.h"
#include "launcher/mpi_launcher/mpi_launcher.h"
#include "launcher/session/server.h"

enum {
    MISSING_SHOWN = 8
};

/* A host of the job. */
struct node {
    struct session session; /* with it; none: not there yet, lost, or our own */
    char name[HOST_NAME_LIMIT]; /* in the list of hosts */
    uint32_t slots; /* that it reported     */
};

struct here {
    struct join_place place;
    struct node *nodes; /* [place.nodes], owned; by number */
    struct loop loop; /* these are of the time until all are there */
    struct server server; /* that they call; none of its links stays   */
    int joined; /* nodes that are there, our own not counted */
    bool has_refused; /* a stranger, which was said                */
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
static void refuse(struct here *here, struct session *session, const char *why)
{
    session_put(session, FRAME_REFUSAL, why, strlen(why));
    (void)session_send(session);
    if (why != unknown || !here->has_refused) {
        (void)fprintf(
                stderr, "tuttirun: a host that wanted to join was refused: %s\n", why);
    }
    here->has_refused = here->has_refused || why == unknown;
}

/* Why one that says this cannot join; NULL: it can. */
static const char *check_hello(const struct here *here, const struct meet_hello *said,
        const struct here_hello *hello)
{
    if (strcmp(hello->key, here->place.key) != 0) {
        return "it is of another job";
    }
    if (said->release_len != strlen(tutti_version()) ||
            memcmp(said->release, tutti_version(), said->release_len) != 0) {
        return "its tuttirun is of another version";
    }
    if (hello->index >= (uint32_t)here->place.nodes ||
            hello->index == (uint32_t)here->place.index) {
        return "its number is not that of another node of the job";
    }
    if (!session_is_lost(&here->nodes[hello->index].session)) {
        return "a host with its number has joined already";
    }
    return NULL;
}

/* Without a name a host is called by its address; ours is where the first of the others found us. */
static void name_by_address(
        struct node *node, int (*get)(int, struct sockaddr *, socklen_t *), int fd)
{
    struct sockaddr_storage address = { 0 };
    socklen_t len = sizeof address;

    if (node->name[0] == '\0' && get(fd, (struct sockaddr *)&address, &len) == 0) {
        (void)network_address_of((const struct sockaddr *)&address, node->name);
    }
}

static int own_address(int fd, struct sockaddr *address, socklen_t *len)
{
    return getsockname(fd, address, len);
}

static int peer_address(int fd, struct sockaddr *address, socklen_t *len)
{
    return getpeername(fd, address, len);
}

static void admit(
        struct here *here, struct session *session, const struct here_hello *hello)
{
    struct node *node = &here->nodes[hello->index];
    int one = 1;

    name_by_address(node, peer_address, session->fd);
    name_by_address(&here->nodes[here->place.index], own_address, session->fd);
    (void)setsockopt(session->fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof one);
    meet_welcome(session, &here_protocol, NULL, 0);
    if (!session_send_all(session)) {
        return;
    }
    session_detach(session);
    node->session = *session;
    node->slots = hello->slots;
    *session = (struct session){ .fd = -1 };
    here->joined++;
}

/* It stays a stranger of the server: as a node it is ours. */
static void take_guest(struct server_link *link, struct meet_hello *said)
{
    struct here *here = link->server->owner;
    struct here_hello hello;
    const char *why = unknown;

    if (said != NULL) {
        if (!here_get_hello(&said->in, &hello)) {
            return;
        }
        why = check_hello(here, said, &hello);
    }
    if (why != NULL) {
        refuse(here, &link->session, why);
    } else {
        admit(here, &link->session, &hello);
    }
}

/* Numbers of the nodes that have not joined, or their names. */
static tutti_status refuse_late(const struct here *here, int timeout_s)
{
    char text[512] = "";
    int missing = 0;

    for (int i = 0; i < here->place.nodes; i++) {
        const struct node *node = &here->nodes[i];

        if (!session_is_lost(&node->session) || i == here->place.index) {
            continue;
        }
        if (missing++ < MISSING_SHOWN) {
            text_append(text, sizeof text, " %d%s%.40s%s", i,
                    node->name[0] == '\0' ? "" : " (", node->name,
                    node->name[0] == '\0' ? "" : ")");
        }
    }
    return error_set(TUTTI_ERR_TIMEOUT,
            "%d of %d hosts have not joined within %d s (--join-timeout): node%s%s; "
            "is tuttirun started there, and does the network let port %d through?",
            missing, here->place.nodes - 1, timeout_s, text,
            missing > MISSING_SHOWN ? " ..." : "", here->place.port);
}

static tutti_status wait_for_all(struct here *here, int timeout_s)
{
    const int64_t deadline = clock_ns() + (int64_t)timeout_s * 1000000000;
    tutti_status status = loop_init(&here->loop);

    if (status == TUTTI_OK) {
        status = listen_on(here->place.port, &here->server);
    }
    if (status == TUTTI_OK && !server_begin(&here->server, &here->loop)) {
        status = error_set_errno(TUTTI_ERR_SYSTEM, "wait for hosts that join");
    }
    if (status != TUTTI_OK) {
        return status;
    }
    while (here->joined + 1 < here->place.nodes && clock_ns() < deadline) {
        (void)loop_turn(&here->loop, deadline);
    }
    server_fini(&here->server);
    return here->joined + 1 < here->place.nodes ? refuse_late(here, timeout_s)
                                                : TUTTI_OK;
}

/* The hosts that the source did not name. */
static tutti_status add_hosts(
        const struct here *here, int slots_per_host, struct host_list *hosts)
{
    for (int i = 0; i < here->place.nodes; i++) {
        const struct node *node = &here->nodes[i];
        const bool is_six = strchr(node->name, ':') != NULL;
        const int slots = i == here->place.index ? pci_slots_here() : (int)node->slots;
        char name[HOST_NAME_LIMIT + 2];
        const char *reason;

        (void)snprintf(name, sizeof name, "%s%s%s", is_six ? "[" : "", node->name,
                is_six ? "]" : "");
        reason =
                host_list_add(hosts, name, slots_per_host > 0 ? slots_per_host : slots);
        if (reason != NULL || hosts->count != (size_t)i + 1) {
            return error_set(TUTTI_ERR_INVALID, "host %s that joined: %s", node->name,
                    reason == NULL ? "another one has the same address" : reason);
        }
    }
    return TUTTI_OK;
}

static void close_all(struct here *here)
{
    for (int i = 0; i < here->place.nodes; i++) {
        session_fini(&here->nodes[i].session);
    }
}

void here_free(struct here *here)
{
    if (here != NULL) {
        close_all(here);
        server_fini(&here->server);
        loop_fini(&here->loop);
        mem_free(here->nodes);
        mem_free(here);
    }
}

/* Room for all, with the names that the source has for them. */
static struct here *make(const struct placement *placement)
{
    const struct host_list *hosts = &placement->hosts;
    const int count = placement->join.nodes;
    struct node *nodes = mem_calloc((size_t)count, sizeof *nodes);
    struct here *here = mem_calloc(1, sizeof *here);

    if (here == NULL || nodes == NULL) {
        mem_free(nodes);
        mem_free(here);
        return NULL;
    }
    for (int i = 0; i < count; i++) {
        nodes[i].session.fd = -1;
        if ((size_t)i < hosts->count) {
            (void)snprintf(
                    nodes[i].name, sizeof nodes[i].name, "%s", hosts->hosts[i].name);
        }
    }
    *here = (struct here){ .place = placement->join, .nodes = nodes, .loop.epoll = -1 };
    here->server = (struct server){ .protocol = &here_protocol,
        .hello = take_guest,
        .owner = here,
        .awaited = (size_t)count,
        .secret = here->place.secret,
        .secret_len = here->place.secret_len,
        .listener.fd = -1,
        .hangups = -1 };
    return here;
}

tutti_status here_gather(const struct options *options, struct placement *placement)
{
    struct here *here = make(placement);
    tutti_status status = here == NULL
            ? error_set(TUTTI_ERR_NO_MEMORY, "out of memory for %d hosts",
                      placement->join.nodes)
            : wait_for_all(here, options->join_timeout);

    if (status == TUTTI_OK && placement->hosts.count == 0) {
        status = add_hosts(here, options->slots_per_host, &placement->hosts);
    }
    if (status != TUTTI_OK) {
        here_free(here);
        return status;
    }
    placement->here = here;
    return TUTTI_OK;
}

/* ---------------------------------------------------------------- the job */

/* The share of a node; none where it is not among the hosts. */
static struct share share_of(
        const struct node *node, const struct host_list *hosts, const int *counts)
{
    struct share share = { .is_set = true };

    for (size_t i = 0; i < hosts->count; i++) {
        if (strcmp(hosts->hosts[i].name, node->name) == 0) {
            share.count = counts[i];
            return share;
        }
        share.first += counts[i];
    }
    return share;
}

struct share here_share(
        const struct here *here, const struct host_list *hosts, int ranks)
{
    int *counts = mem_calloc(hosts->count + 1, sizeof *counts);
    struct share share = { .is_set = true };

    if (counts != NULL) {
        launch_spread(hosts, ranks, counts);
        share = share_of(&here->nodes[here->place.index], hosts, counts);
    }
    mem_free(counts);
    return share;
}

void here_token(const struct here *here, const uint8_t nonce[PROOF_NONCE_BYTES],
        char token[LINK_TOKEN_BYTES + 1])
{
    here_make_token(&here->place, nonce, token);
}

static tutti_status send_start(struct node *node, const struct here_start *start)
{
    here_put_start(&node->session, start);
    return session_send_all(&node->session)
            ? TUTTI_OK
            : error_set(TUTTI_ERR_SYSTEM,
                      "host %s, which had joined, is lost: its tuttirun has ended, or "
                      "the network was cut",
                      node->name);
}

tutti_status here_start(struct here *here, const struct host_list *hosts, int ranks,
        int port, const uint8_t nonce[PROOF_NONCE_BYTES])
{
    int *counts = mem_calloc(hosts->count + 1, sizeof *counts);
    struct here_start start = { .size = (uint32_t)ranks, .port = (uint32_t)port };
    tutti_status status = counts == NULL
            ? error_set(
                      TUTTI_ERR_NO_MEMORY, "out of memory for %zu hosts", hosts->count)
            : TUTTI_OK;

    memcpy(start.nonce, nonce, sizeof start.nonce);
    if (counts != NULL) {
        launch_spread(hosts, ranks, counts);
    }
    for (int i = 0; status == TUTTI_OK && i < here->place.nodes; i++) {
        const struct share share = share_of(&here->nodes[i], hosts, counts);

        start.first = (uint32_t)share.first;
        start.count = (uint32_t)share.count;
        if (i != here->place.index && share.count > 0) {
            status = send_start(&here->nodes[i], &start);
        }
    }
    mem_free(counts);
    return status;
}

void here_finish(struct here *here, int exit_status, const char *text)
{
    struct here_end end = { .status = (uint32_t)exit_status };

    (void)snprintf(end.text, sizeof end.text, "%s", text);
    for (int i = 0; i < here->place.nodes; i++) {
        struct session *session = &here->nodes[i].session;

        if (!session_is_lost(session)) {
            here_put_end(session, &end);
            (void)session_send_all(session);
        }
    }
    close_all(here);
}
