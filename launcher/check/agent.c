/*
 * tuttirun --check-host: one loop over its input, its listening socket and the connections
 * that it makes.
 */
#include "launcher/check/agent.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"
#include "launcher/check/gather.h"
#include "launcher/check/route.h"
#include "launcher/listen.h"

enum {
    NONCE_BYTES = 16, /* digits that an accepted connection is told */
    LINE_BYTES = 512,
    IDLE_MS = 120000, /* without a word from tuttirun, it has been forgotten */
    NS_PER_MS = 1000000
};

/* A host to connect to. */
struct peer {
    int id; /* by which tuttirun knows it              */
    uint64_t nonce; /* that it should tell                     */
    uint64_t port;
    char address[FACTS_ADDRESS_MAX];
    int fd; /* -1: not connecting, or over             */
    char told[NONCE_BYTES + 1]; /* what it told so far         */
    size_t told_len;
};

struct agent {
    uint64_t nonce; /* ours                                             */
    int listener; /* -1: none                                         */
    char input[LINE_BYTES]; /* a line of stdin that is not whole yet  */
    size_t input_len;
    struct peer *peers; /* [AGENT_PEERS_MAX], owned                        */
    size_t peer_count;
    size_t open; /* peers whose fd is open                           */
    int64_t started_ns; /* when it was told to go                           */
    bool is_over; /* stdin is at its end                              */
};

static void accept_all(const struct agent *agent)
{
    char text[NONCE_BYTES + 1];
    int fd = accept4(agent->listener, NULL, NULL, SOCK_CLOEXEC);

    (void)snprintf(text, sizeof text, "%016" PRIx64, agent->nonce);
    while (fd >= 0) {
        (void)send(fd, text, NONCE_BYTES, MSG_NOSIGNAL);
        (void)close(fd);
        fd = accept4(agent->listener, NULL, NULL, SOCK_CLOEXEC);
    }
}

static void end_peer(
        struct agent *agent, struct peer *peer, enum agent_pair what, int error)
{
    int64_t number = error;
    char word[16] = "";

    if (peer->fd >= 0) {
        (void)close(peer->fd);
        peer->fd = -1;
        agent->open--;
    }
    if (what == AGENT_PAIR_OK) {
        number = (clock_ns() - agent->started_ns) / 1000;
    }
    (void)text_from_choice(AGENT_PAIRS, (int)what, word, sizeof word);
    (void)printf("pair %d %s %" PRId64 "\n", peer->id, word, number);
}

static void start_peer(struct agent *agent, struct peer *peer)
{
    struct sockaddr_storage address;
    socklen_t len = route_address(&address, peer->address, (uint16_t)peer->port);

    if (len == 0) {
        end_peer(agent, peer, AGENT_PAIR_FAILED, EAFNOSUPPORT);
        return;
    }
    peer->fd = socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (peer->fd < 0) {
        end_peer(agent, peer, AGENT_PAIR_FAILED, errno);
        return;
    }
    agent->open++;
    if (connect(peer->fd, (const struct sockaddr *)&address, len) != 0 &&
            errno != EINPROGRESS) {
        end_peer(agent, peer, AGENT_PAIR_FAILED, errno);
    }
}

/* What it is told; the connection's failure appears as an error of the read. */
static void hear_peer(struct agent *agent, struct peer *peer)
{
    char expected[NONCE_BYTES + 1];
    ssize_t got = recv(
            peer->fd, peer->told + peer->told_len, NONCE_BYTES - peer->told_len, 0);

    if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
        return;
    }
    if (got < 0) {
        end_peer(agent, peer, AGENT_PAIR_FAILED, errno);
        return;
    }
    peer->told_len += (size_t)got;
    if (got > 0 && peer->told_len < NONCE_BYTES) {
        return;
    }
    (void)snprintf(expected, sizeof expected, "%016" PRIx64, peer->nonce);
    end_peer(agent, peer,
            strcmp(peer->told, expected) == 0 ? AGENT_PAIR_OK : AGENT_PAIR_STRANGER, 0);
}

static void go(struct agent *agent)
{
    agent->started_ns = clock_ns();
    for (size_t i = 0; i < agent->peer_count; i++) {
        start_peer(agent, &agent->peers[i]);
    }
    if (agent->open == 0) {
        agent->peer_count = 0;
        (void)printf("done\n");
    }
}

/* "to ID NONCE PORT ADDRESS"; what is malformed is no peer. */
static void take_peer(struct agent *agent, char *line)
{
    struct peer peer = { .fd = -1 };
    char *words[6];
    int64_t id;

    if (agent->peer_count == AGENT_PEERS_MAX || facts_words(line, words, 6) != 5 ||
            strcmp(words[0], "to") != 0 || !text_to_int64(words[1], &id) || id < 0 ||
            id > INT_MAX || !facts_number(words[2], &peer.nonce) ||
            !facts_number(words[3], &peer.port) || peer.port > UINT16_MAX) {
        return;
    }
    peer.id = (int)id;
    (void)snprintf(peer.address, sizeof peer.address, "%s", words[4]);
    agent->peers[agent->peer_count++] = peer;
}

static void say_clock(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_REALTIME, &now);
    (void)printf("clock %" PRId64 "\n",
            (int64_t)now.tv_sec * INT64_C(1000000000) + now.tv_nsec);
}

static void obey(struct agent *agent, char *line)
{
    if (strcmp(line, "clock") == 0) {
        say_clock();
    } else if (strcmp(line, "go") == 0 && agent->open == 0) {
        go(agent);
    } else if (agent->open == 0) {
        take_peer(agent, line);
    }
}

static void read_input(struct agent *agent)
{
    ssize_t got = read(STDIN_FILENO, agent->input + agent->input_len,
            sizeof agent->input - 1 - agent->input_len);
    char *newline;

    if (got <= 0) {
        agent->is_over = got == 0 || errno != EINTR;
        return;
    }
    agent->input_len += (size_t)got;
    agent->input[agent->input_len] = '\0';
    for (newline = strchr(agent->input, '\n'); newline != NULL;
            newline = strchr(agent->input, '\n')) {
        *newline = '\0';
        obey(agent, agent->input);
        agent->input_len -= (size_t)(newline + 1 - agent->input);
        memmove(agent->input, newline + 1, agent->input_len + 1);
    }
    /* No line of ours is that long: somebody else is talking. */
    agent->is_over = agent->input_len == sizeof agent->input - 1;
}

static void look_at_peers(struct agent *agent, const struct pollfd *fds)
{
    bool is_late =
            clock_ns() - agent->started_ns >= (int64_t)AGENT_CONNECT_MS * NS_PER_MS;

    if (agent->open == 0) {
        return;
    }
    for (size_t i = 0; i < agent->peer_count; i++) {
        struct peer *peer = &agent->peers[i];

        if (peer->fd >= 0 && fds[i].revents != 0) {
            hear_peer(agent, peer);
        }
        if (peer->fd >= 0 && is_late) {
            end_peer(agent, peer, AGENT_PAIR_FAILED, ETIMEDOUT);
        }
    }
    if (agent->open == 0) {
        agent->peer_count = 0;
        (void)printf("done\n");
    }
}

static int time_left_ms(const struct agent *agent)
{
    int64_t left = IDLE_MS;

    if (agent->open > 0) {
        left = AGENT_CONNECT_MS - (clock_ns() - agent->started_ns) / NS_PER_MS;
    }
    return left < 0 ? 0 : (int)left;
}

static void serve(struct agent *agent)
{
    struct pollfd fds[2 + AGENT_PEERS_MAX];

    while (!agent->is_over) {
        int ready;

        fds[0] = (struct pollfd){ .fd = STDIN_FILENO, .events = POLLIN };
        fds[1] = (struct pollfd){ .fd = agent->listener, .events = POLLIN };
        for (size_t i = 0; i < agent->peer_count; i++) {
            fds[2 + i] = (struct pollfd){ .fd = agent->peers[i].fd, .events = POLLIN };
        }
        ready = poll(fds, (nfds_t)(2 + agent->peer_count), time_left_ms(agent));
        if (ready == 0 && agent->open == 0) {
            return;
        }
        if (ready > 0 && fds[1].revents != 0) {
            accept_all(agent);
        }
        if (ready >= 0) {
            look_at_peers(agent, fds + 2);
        }
        if (ready > 0 && fds[0].revents != 0) {
            read_input(agent);
        }
        (void)fflush(stdout);
        /* Nobody hears us: our answer could not be written. */
        agent->is_over = agent->is_over || ferror(stdout) != 0;
    }
}

int agent_main(char *const *argv, char *const *environment)
{
    struct agent agent = { .listener = -1 };
    struct facts facts;
    uint16_t port = 0;

    if (argv[0] != NULL && strcmp(argv[0], "page") == 0) {
        return gather_cma_page();
    }
    if (argv[0] != NULL && strcmp(argv[0], "read") == 0 && argv[1] != NULL &&
            argv[2] != NULL) {
        return gather_cma_read(argv[1], argv[2]);
    }
    (void)signal(SIGPIPE, SIG_IGN);
    agent.peers = mem_calloc(AGENT_PEERS_MAX, sizeof *agent.peers);
    if (agent.peers == NULL) {
        (void)fprintf(stderr, "tuttirun --check-host: out of memory\n");
        return 1;
    }
    gather_facts(&facts, argv[0] == NULL ? "" : argv[0], environment);
    if (getrandom(&agent.nonce, sizeof agent.nonce, 0) != sizeof agent.nonce) {
        /* It only has to differ between hosts. */
        agent.nonce = (uint64_t)clock_ns() ^ ((uint64_t)getpid() << 40);
    }
    facts.nonce = agent.nonce;
    agent.listener = listen_anywhere(&port);
    facts.port = port;
    facts_write(&facts, stdout);
    (void)fflush(stdout);
    serve(&agent);
    if (agent.listener >= 0) {
        (void)close(agent.listener);
    }
    mem_free(agent.peers);
    return 0;
}
