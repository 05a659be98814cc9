/*
 * tuttirun --check-host: one loop over its input, its listening socket and the connections
 * that it makes.
 */
#include "tools/check/check_agent.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <netdb.h>
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
#include "launcher/session/loop.h"
#include "launcher/session/sockets.h"
#include "tools/check/local_facts.h"

enum {
    NONCE_BYTES = 16, /* digits that are sent on an accepted connection */
    LINE_BYTES = 512,
    IDLE_MS = 120000, /* it ends after that time without a command */
    NS_PER_MS = 1000000
};

/* A host to connect to. */
struct peer {
    struct agent *agent;
    struct loop_watch watch; /* of fd                                  */
    int id; /* by which tuttirun knows it              */
    uint64_t nonce; /* that is expected from it                */
    char address[FACTS_ADDRESS_MAX]; /* numeric                             */
    char port[8];
    int fd; /* -1: not connecting, or over             */
    char received[NONCE_BYTES + 1]; /* what has come so far        */
    size_t received_len;
};

struct agent {
    uint64_t nonce; /* ours                                             */
    struct loop loop;
    struct loop_watch
            input_watch; /* of stdin                                         */
    struct listener listener;
    char input[LINE_BYTES]; /* a line of stdin that is not whole yet  */
    size_t input_len;
    struct peer *peers; /* [AGENT_PEERS_MAX], owned                        */
    size_t peer_count;
    size_t open; /* peers whose fd is open                           */
    int64_t started_ns; /* when "go" came                                  */
    bool is_connecting; /* since then, until the results are written        */
    bool is_over; /* stdin is at its end                              */
};

static void send_nonce(void *owner, int fd)
{
    const struct agent *agent = owner;
    char text[NONCE_BYTES + 1];

    (void)snprintf(text, sizeof text, "%016" PRIx64, agent->nonce);
    (void)send(fd, text, NONCE_BYTES, MSG_NOSIGNAL);
    (void)close(fd);
}

static void end_peer(struct peer *peer, enum agent_pair what, int error)
{
    struct agent *agent = peer->agent;
    int64_t number = error;
    char word[16] = "";

    if (peer->fd >= 0) {
        loop_close(&agent->loop, &peer->watch, &peer->fd);
        agent->open--;
    }
    if (what == AGENT_PAIR_OK) {
        number = (clock_ns() - agent->started_ns) / 1000;
    }
    (void)text_from_choice(AGENT_PAIRS, (int)what, word, sizeof word);
    (void)printf("pair %d %s %" PRId64 "\n", peer->id, word, number);
}

/* Receives its nonce; a connection that failed shows as an error of the read. */
static void receive_nonce(void *context, unsigned ready)
{
    struct peer *peer = context;
    char expected[NONCE_BYTES + 1];
    ssize_t got = recv(peer->fd, peer->received + peer->received_len,
            NONCE_BYTES - peer->received_len, 0);

    (void)ready;
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
        return;
    }
    if (got < 0) {
        end_peer(peer, AGENT_PAIR_FAILED, errno);
        return;
    }
    peer->received_len += (size_t)got;
    if (got > 0 && peer->received_len < NONCE_BYTES) {
        return;
    }
    (void)snprintf(expected, sizeof expected, "%016" PRIx64, peer->nonce);
    end_peer(peer,
            strcmp(peer->received, expected) == 0 ? AGENT_PAIR_OK : AGENT_PAIR_STRANGER,
            0);
}

static void start_peer(struct peer *peer)
{
    struct connect_addresses place = { .count = 0 };

    if (connect_add(&place, peer->address, peer->port, AI_NUMERICHOST) != 0) {
        end_peer(peer, AGENT_PAIR_FAILED, EAFNOSUPPORT);
        return;
    }
    peer->fd = connect_begin(&place.list[0], place.len[0]);
    if (peer->fd < 0) {
        end_peer(peer, AGENT_PAIR_FAILED, errno);
        return;
    }
    peer->agent->open++;
    peer->watch = (struct loop_watch){ .call = receive_nonce, .context = peer };
    if (!loop_set(&peer->agent->loop, &peer->watch, peer->fd, EPOLLIN)) {
        end_peer(peer, AGENT_PAIR_FAILED, errno);
    }
}

static void go(struct agent *agent)
{
    agent->started_ns = clock_ns();
    for (size_t i = 0; i < agent->peer_count; i++) {
        start_peer(&agent->peers[i]);
    }
    agent->is_connecting = true;
}

/* "to ID NONCE PORT ADDRESS"; what is malformed is no peer. */
static void take_peer(struct agent *agent, char *line)
{
    struct peer peer = { .agent = agent, .fd = -1 };
    char *words[6];
    uint64_t port;
    int64_t id;

    if (agent->peer_count == AGENT_PEERS_MAX || facts_words(line, words, 6) != 5 ||
            strcmp(words[0], "to") != 0 || !text_to_int64(words[1], &id) || id < 0 ||
            id > INT_MAX || !facts_number(words[2], &peer.nonce) ||
            !facts_number(words[3], &port) || port > UINT16_MAX) {
        return;
    }
    peer.id = (int)id;
    (void)snprintf(peer.port, sizeof peer.port, "%u", (unsigned)port);
    (void)snprintf(peer.address, sizeof peer.address, "%s", words[4]);
    agent->peers[agent->peer_count++] = peer;
}

static void send_clock(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_REALTIME, &now);
    (void)printf("clock %" PRId64 "\n",
            (int64_t)now.tv_sec * INT64_C(1000000000) + now.tv_nsec);
}

static void execute(struct agent *agent, char *line)
{
    if (strcmp(line, "clock") == 0) {
        send_clock();
    } else if (strcmp(line, "go") == 0 && !agent->is_connecting) {
        go(agent);
    } else if (!agent->is_connecting) {
        take_peer(agent, line);
    }
}

static void read_input(void *context, unsigned ready)
{
    struct agent *agent = context;
    ssize_t got = read(STDIN_FILENO, agent->input + agent->input_len,
            sizeof agent->input - 1 - agent->input_len);
    char *newline;

    (void)ready;
    if (got <= 0) {
        agent->is_over = got == 0 || errno != EINTR;
        return;
    }
    agent->input_len += (size_t)got;
    agent->input[agent->input_len] = '\0';
    for (newline = strchr(agent->input, '\n'); newline != NULL;
            newline = strchr(agent->input, '\n')) {
        *newline = '\0';
        execute(agent, agent->input);
        agent->input_len -= (size_t)(newline + 1 - agent->input);
        memmove(agent->input, newline + 1, agent->input_len + 1);
    }
    /* No command is that long. */
    agent->is_over = agent->input_len == sizeof agent->input - 1;
}

static void look_at_peers(struct agent *agent)
{
    bool is_late =
            clock_ns() - agent->started_ns >= (int64_t)AGENT_CONNECT_MS * NS_PER_MS;

    if (!agent->is_connecting) {
        return;
    }
    for (size_t i = 0; i < agent->peer_count; i++) {
        struct peer *peer = &agent->peers[i];

        if (peer->fd >= 0 && is_late) {
            end_peer(peer, AGENT_PAIR_FAILED, ETIMEDOUT);
        }
    }
    if (agent->open == 0) {
        agent->peer_count = 0;
        agent->is_connecting = false;
        (void)printf("done\n");
    }
}

static int64_t time_left_ms(const struct agent *agent)
{
    return agent->open > 0
            ? AGENT_CONNECT_MS - (clock_ns() - agent->started_ns) / NS_PER_MS
            : IDLE_MS;
}

static void serve(struct agent *agent)
{
    while (!agent->is_over) {
        const int64_t until = clock_ns() + time_left_ms(agent) * NS_PER_MS;

        if (loop_turn(&agent->loop, until) == 0 && agent->open == 0 &&
                clock_ns() >= until) {
            return;
        }
        look_at_peers(agent);
        (void)fflush(stdout);
        /* The answer could not be written: there is no reader. */
        agent->is_over = agent->is_over || ferror(stdout) != 0;
    }
}

static bool watch_all(struct agent *agent)
{
    agent->input_watch = (struct loop_watch){ .call = read_input, .context = agent };
    return loop_init(&agent->loop) == TUTTI_OK &&
            listener_begin(&agent->listener, &agent->loop, send_nonce, agent) &&
            loop_set(&agent->loop, &agent->input_watch, STDIN_FILENO, EPOLLIN);
}

int agent_main(char *const *argv, char *const *environment)
{
    struct agent agent = { .listener.fd = -1 };
    struct facts facts;
    uint16_t port = 0;

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
    agent.listener.fd = listen_anywhere(&port);
    facts.port = port;
    facts_write(&facts, stdout);
    (void)fflush(stdout);
    if (watch_all(&agent)) {
        serve(&agent);
    }
    listener_close(&agent.listener);
    loop_fini(&agent.loop);
    mem_free(agent.peers);
    return 0;
}
