/*
 * A tuttirun for tests of supervisors: listens, starts a starter, says what it hears, one
 * line each, and does what it was told to do when a rank writes a certain text.
 *
 *   fake_tuttirun [--ranks N] [--folder F] [--rate BYTES] [--beat-ms T] [--kill-ms T]
 *                 [--silent-ms T] [--release STATUS] [--when TEXT ACTION]... COMMAND...
 *
 * Actions: stop, silence (no more beats), close, die (kill -9 of itself), failure,
 * deaf (reads nothing for a second), or the number of a signal for the program.
 */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "launcher/session/link.h"
#include "launcher/session/link_address.h"
#include "launcher/session/listen.h"
#include "launcher/session/session.h"

enum {
    RANKS_MAX = 16,
    ACTIONS_MAX = 8,
    EXIT_TIMEOUT = 124,
    DECIMAL = 10
};

static const int64_t second = 1000000000;
static const int64_t beat_ns = 50000000;

/* What to do when a rank has written a text. */
struct action {
    const char *text;
    const char *name;
};

/* A connection. */
struct peer {
    struct session session;
    int rank; /* -1: no HELLO yet */
    bool has_exited;
};

struct fake {
    int ranks;
    const char *folder;
    uint64_t rate;
    uint32_t beat_ms, kill_ms, silent_ms; /* beat_ms: of supervisors */
    uint8_t release;
    struct action actions[ACTIONS_MAX];
    size_t action_count;
    char **command;
    int listener;
    struct peer peers[RANKS_MAX];
    int peer_count, exited;
    const char *lie;
    bool is_silent;
    int64_t deaf_until;
};

static const char token[] = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";

static _Noreturn void die(const char *what)
{
    perror(what);
    _exit(EXIT_FAILURE);
}

static void parse(struct fake *fake, char **argv)
{
    for (argv++; *argv != NULL && strncmp(*argv, "--", 2) == 0; argv += 2) {
        const char *name = *argv + 2;
        const char *value = argv[1];
        unsigned long number = strtoul(value, NULL, DECIMAL);

        if (strcmp(name, "ranks") == 0) {
            fake->ranks = (int)number;
        } else if (strcmp(name, "folder") == 0) {
            fake->folder = value;
        } else if (strcmp(name, "rate") == 0) {
            fake->rate = number;
        } else if (strcmp(name, "beat-ms") == 0) {
            fake->beat_ms = (uint32_t)number;
        } else if (strcmp(name, "kill-ms") == 0) {
            fake->kill_ms = (uint32_t)number;
        } else if (strcmp(name, "silent-ms") == 0) {
            fake->silent_ms = (uint32_t)number;
        } else if (strcmp(name, "lie") == 0) {
            fake->lie = value;
        } else if (strcmp(name, "release") == 0) {
            fake->release = (uint8_t)number;
        } else if (strcmp(name, "when") == 0) {
            fake->actions[fake->action_count++] =
                    (struct action){ .text = value, .name = argv[2] };
            argv++;
        } else {
            errno = EINVAL;
            die(name);
        }
    }
    fake->command = argv;
}

static void start(struct fake *fake)
{
    struct link_address address = { .count = 1, .addresses = { "127.0.0.1" } };
    char text[LINK_JOIN_MAX];
    uint16_t port = 0;

    memcpy(address.token, token, LINK_TOKEN_BYTES);
    fake->listener = listen_here(&port);
    if (fake->listener < 0) {
        die("listen");
    }
    address.port = port;
    link_address_format(&address, text);
    (void)setenv(LINK_VARIABLE, text, 1);
    if (fork() == 0) {
        (void)setpgid(0, 0);
        (void)execvp(fake->command[0], fake->command);
        die(fake->command[0]);
    }
}

static void send_to(struct peer *peer)
{
    (void)session_send_all(&peer->session);
}

/* Its proof, unless it lies: `wrong` does not know the token, `reflect` sends theirs back. */
static void welcome(const struct fake *fake, struct peer *peer, const void *proof,
        const struct wire_writer *body)
{
    if (fake->lie != NULL && strcmp(fake->lie, "reflect") == 0) {
        size_t start = session_begin(&peer->session, FRAME_WELCOME);

        wire_put_bytes(&peer->session.out, body->data, body->len);
        wire_put_bytes(&peer->session.out, proof, PROOF_BYTES);
        session_end(&peer->session, start);
    } else {
        peer->session.exchange.secret_len -= fake->lie != NULL ? 1 : 0;
        meet_welcome(&peer->session, &link_protocol, body->data, body->len);
    }
}

static void hear_hello(struct fake *fake, struct peer *peer, const struct frame *frame)
{
    char job[64];
    struct wire_writer body = { .data = NULL };
    struct meet_hello said;
    struct link_message message;
    const struct link_hello *hello = &message.hello;
    struct link_message wanted = {
        .type = LINK_WELCOME,
        .welcome = { .log_folder = link_text_of(fake->folder),
                .beat_ms = fake->beat_ms,
                .silent_ms = fake->silent_ms,
                .kill_ms = fake->kill_ms,
                .output_rate = fake->rate,
                .forward = { LINK_FORWARD_LINES, LINK_FORWARD_LINES } },
    };

    if (!meet_take_hello(&peer->session, &link_protocol, frame, &said) ||
            !link_get_body(&said.in, LINK_HELLO, &message)) {
        printf("NOT PROVEN\n");
        return;
    }
    (void)snprintf(job, sizeof job, "fake-%d", (int)getpid());
    wanted.welcome.job = link_text_of(job);
    peer->rank = hello->rank;
    printf("HELLO rank %d of %d, local %d of %d, pid %llu\n", hello->rank, hello->size,
            hello->local_rank, hello->local_size, (unsigned long long)hello->pid);
    link_put_body(&body, &wanted);
    welcome(fake, peer, frame->body + frame->len - PROOF_BYTES, &body);
    send_to(peer);
    wire_writer_fini(&body);
}

static void act(struct fake *fake, const char *name)
{
    printf("ACTION %s\n", name);
    if (strcmp(name, "silence") == 0) {
        fake->is_silent = true;
        return;
    }
    if (strcmp(name, "die") == 0) {
        (void)fflush(stdout);
        (void)kill(getpid(), SIGKILL);
    }
    if (strcmp(name, "deaf") == 0) {
        fake->deaf_until = clock_ns() + second;
        return;
    }
    for (int i = 0; i < fake->peer_count; i++) {
        struct session *session = &fake->peers[i].session;

        if (strcmp(name, "stop") == 0) {
            link_put(&session->out,
                    &(struct link_message){
                            .type = LINK_STOP, .stop_ms = fake->kill_ms });
        } else if (strcmp(name, "failure") == 0) {
            link_put(&session->out,
                    &(struct link_message){ .type = LINK_FAILURE,
                            .failure = {
                                    .rank = 7, .text = link_text_of("it broke") } });
        } else if (strcmp(name, "close") == 0) {
            session_lose(session);
        } else {
            link_put(&session->out,
                    &(struct link_message){ .type = LINK_SIGNAL,
                            .signal = (int)strtol(name, NULL, DECIMAL) });
        }
        send_to(&fake->peers[i]);
    }
}

static void hear_output(
        struct fake *fake, const struct peer *peer, const struct link_output *output)
{
    const char *line = output->lines.text;
    size_t left = output->lines.len;

    while (left > 0) {
        const char *end = memchr(line, '\n', left);
        size_t len = end == NULL ? left : (size_t)(end - line) + 1;

        printf("OUTPUT %d.%d %.*s%s", peer->rank, output->stream, (int)len, line,
                end == NULL ? "<no newline>\n" : "");
        for (size_t i = 0; i < fake->action_count; i++) {
            struct action *action = &fake->actions[i];

            if (action->text != NULL &&
                    memmem(line, len, action->text, strlen(action->text)) != NULL) {
                action->text = NULL;
                act(fake, action->name);
            }
        }
        line += len;
        left -= len;
    }
}

static void hear_exited(
        struct fake *fake, struct peer *peer, const struct link_exited *exited)
{
    static const char *const endings[] = { "exit", "signal", "exec", "setup" };

    printf("EXITED rank %d: %s %u%s%s%s detail <%.*s> tail <%.*s>\n", peer->rank,
            endings[exited->ending], exited->value,
            exited->was_stopped ? " stopped" : "", exited->is_oom ? " oom" : "",
            exited->dumped_core ? " core" : "", (int)exited->detail.len,
            exited->detail.text, (int)exited->tail.len, exited->tail.text);
    peer->has_exited = true;
    fake->exited++;
}

static void hear(
        struct fake *fake, struct peer *peer, const struct link_message *message)
{
    if (message->type == LINK_STARTED) {
        printf("STARTED rank %d pid %llu: %.*s\n", peer->rank,
                (unsigned long long)message->started.pid,
                (int)message->started.binding.len, message->started.binding.text);
    } else if (message->type == LINK_BEAT) {
        if (message->beat.state == 'T') {
            printf("STOPPED rank %d\n", peer->rank);
        }
    } else if (message->type == LINK_OUTPUT) {
        hear_output(fake, peer, &message->output);
    } else if (message->type == LINK_NOTE) {
        printf("NOTE %.*s\n", (int)message->note.len, message->note.text);
    } else if (message->type == LINK_EXITED) {
        hear_exited(fake, peer, &message->exited);
    }
    (void)fflush(stdout);
}

static void lose(struct peer *peer, const char *why)
{
    printf("LOST rank %d%s\n", peer->rank, why);
    (void)fflush(stdout);
    session_lose(&peer->session);
}

/* What has come is whole frames, but for the last. */
static bool has_token(const struct session *session)
{
    return session->in_len > 0 &&
            memmem(session->in, session->in_len, token, LINK_TOKEN_BYTES) != NULL;
}

static void read_peer(struct fake *fake, struct peer *peer)
{
    bool lives = session_receive(&peer->session);
    struct link_message message;
    struct frame frame;
    int got;

    if (peer->rank < 0 && has_token(&peer->session)) {
        lose(peer, ": it sends the token");
        return;
    }
    while ((got = session_next(&peer->session, &frame)) > 0) {
        if (peer->rank < 0) {
            hear_hello(fake, peer, &frame);
        } else if (link_read(&frame, &message) == TUTTI_OK) {
            hear(fake, peer, &message);
        } else {
            got = -1;
            break;
        }
        (void)fflush(stdout);
    }
    if (got < 0 || !lives) {
        lose(peer, got < 0 ? ": malformed" : "");
    }
}

static void beat_all(struct fake *fake)
{
    for (int i = 0; i < fake->peer_count && !fake->is_silent; i++) {
        struct session *session = &fake->peers[i].session;

        if (fake->peers[i].rank >= 0) {
            link_put(&session->out,
                    &(struct link_message){
                            .type = LINK_BEAT, .beat.sent = (uint64_t)clock_ns() });
        }
        send_to(&fake->peers[i]);
    }
}

static void release_all(struct fake *fake)
{
    for (int i = 0; i < fake->peer_count; i++) {
        link_put(&fake->peers[i].session.out,
                &(struct link_message){
                        .type = LINK_RELEASE, .release = fake->release });
        send_to(&fake->peers[i]);
    }
}

/* The starter runs, or a supervisor has not left. */
static bool is_going_on(const struct fake *fake, int *status, bool *has_ended)
{
    bool is_connected = false;

    for (int i = 0; i < fake->peer_count; i++) {
        is_connected = is_connected || !session_is_lost(&fake->peers[i].session);
    }
    if (!*has_ended && waitpid(-1, status, WNOHANG) > 0) {
        *has_ended = true;
    }
    return !*has_ended || is_connected;
}

static void poll_all(struct fake *fake)
{
    struct pollfd polled[RANKS_MAX + 1] = { { .fd = fake->listener,
            .events = POLLIN } };
    bool is_deaf = clock_ns() < fake->deaf_until;

    for (int i = 0; i < fake->peer_count; i++) {
        polled[i + 1] = (struct pollfd){ .fd = is_deaf ? -1 : fake->peers[i].session.fd,
            .events = POLLIN };
    }
    (void)poll(polled, (nfds_t)fake->peer_count + 1, (int)(beat_ns / 1000000));
    for (int i = 0; i < fake->peer_count; i++) {
        if (polled[i + 1].revents != 0) {
            read_peer(fake, &fake->peers[i]);
        }
    }
    if (polled[0].revents != 0 && fake->peer_count < RANKS_MAX) {
        int one = 1;
        int fd = accept(fake->listener, NULL, NULL);

        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        fake->peers[fake->peer_count] =
                (struct peer){ .session = session_of(fd, token, LINK_TOKEN_BYTES),
                    .rank = -1 };
        if (meet_challenge(&fake->peers[fake->peer_count].session)) {
            send_to(&fake->peers[fake->peer_count++]);
        }
    }
}

int main(int argc, char **argv)
{
    static struct fake fake = {
        .ranks = 1, .folder = "", .beat_ms = 100, .kill_ms = 2000, .silent_ms = 30000
    };
    int64_t deadline = clock_ns() + 150 * second;
    bool has_ended = false;
    bool has_released = false;
    int status = 0;

    (void)argc;
    parse(&fake, argv);
    start(&fake);
    while (is_going_on(&fake, &status, &has_ended) && clock_ns() < deadline) {
        poll_all(&fake);
        beat_all(&fake);
        if (fake.exited == fake.ranks && !has_released) {
            has_released = true;
            release_all(&fake);
        }
    }
    printf("STARTER %s %d\n", WIFSIGNALED(status) ? "signal" : "exit",
            WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    return has_ended ? EXIT_SUCCESS : EXIT_TIMEOUT;
}
