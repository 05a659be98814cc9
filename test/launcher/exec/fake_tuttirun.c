/*
 * A tuttirun for tests of supervisors: listens, starts a starter of one rank, says what it hears, one
 * line each, and does what it was told to do when a rank writes a certain text.
 *
 *   fake_tuttirun [--folder F] [--rate BYTES] [--beat-ms T] [--kill-ms T] [--silent-ms T]
 *                 [--release STATUS] [--lie HOW] [--when TEXT ACTION]... COMMAND...
 *
 * Actions: stop, kill (a stop with no time left), silence (no more beats), close, die (kill -9 of
 * itself), failure, deaf (reads nothing until the program has ended), or the number of a signal for
 * the program.
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
#include "launcher/session/session.h"
#include "launcher/session/sockets.h"

enum {
    ACTIONS_MAX = 8,
    DECIMAL = 10
};

static const int64_t beat_ns = 50000000;

/* What to do when a rank has written a text. */
struct action {
    const char *text;
    const char *name;
};

struct fake {
    const char *folder;
    uint64_t rate;
    uint32_t beat_ms, kill_ms, silent_ms; /* beat_ms: of the supervisor */
    uint8_t release;
    struct action actions[ACTIONS_MAX];
    size_t action_count;
    char **command;
    int listener;
    struct session session; /* with the supervisor */
    int rank; /* -1: no HELLO yet */
    bool has_come, has_exited;
    const char *lie;
    bool is_silent;
    bool is_deaf;
    pid_t program;
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

        if (strcmp(name, "folder") == 0) {
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

static void put(struct fake *fake, const struct link_message *message)
{
    link_put(&fake->session.out, message);
    (void)session_send_all(&fake->session);
}

/* Its proof, unless it lies: `wrong` does not know the token, `reflect` sends theirs back. */
static void welcome(
        struct fake *fake, const void *proof, const struct wire_writer *body)
{
    if (fake->lie != NULL && strcmp(fake->lie, "reflect") == 0) {
        size_t start = session_begin(&fake->session, FRAME_WELCOME);

        wire_put_bytes(&fake->session.out, body->data, body->len);
        wire_put_bytes(&fake->session.out, proof, PROOF_BYTES);
        session_end(&fake->session, start);
    } else {
        fake->session.exchange.secret_len -= fake->lie != NULL ? 1 : 0;
        meet_welcome(&fake->session, &link_protocol, body->data, body->len);
    }
}

static void hear_hello(struct fake *fake, const struct frame *frame)
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

    if (!meet_take_hello(&fake->session, &link_protocol, frame, &said) ||
            !link_get_body(&said.in, LINK_HELLO, &message)) {
        printf("NOT PROVEN\n");
        return;
    }
    (void)snprintf(job, sizeof job, "fake-%d", (int)getpid());
    wanted.welcome.job = link_text_of(job);
    fake->rank = hello->rank;
    printf("HELLO rank %d of %d, local %d of %d, pid %llu\n", hello->rank, hello->size,
            hello->local_rank, hello->local_size, (unsigned long long)hello->pid);
    link_put_body(&body, &wanted);
    welcome(fake, frame->body + frame->len - PROOF_BYTES, &body);
    (void)session_send_all(&fake->session);
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
        fake->is_deaf = true;
        return;
    }
    if (strcmp(name, "stop") == 0 || strcmp(name, "kill") == 0) {
        put(fake,
                &(struct link_message){ .type = LINK_STOP,
                        .stop_ms = *name == 's' ? fake->kill_ms : 0 });
    } else if (strcmp(name, "failure") == 0) {
        put(fake,
                &(struct link_message){ .type = LINK_FAILURE,
                        .failure = { .rank = 7, .text = link_text_of("it broke") } });
    } else if (strcmp(name, "close") == 0) {
        session_lose(&fake->session);
    } else {
        put(fake,
                &(struct link_message){ .type = LINK_SIGNAL,
                        .signal = (int)strtol(name, NULL, DECIMAL) });
    }
}

static void hear_output(struct fake *fake, const struct link_output *output)
{
    const char *line = output->lines.text;
    size_t left = output->lines.len;

    while (left > 0) {
        const char *end = memchr(line, '\n', left);
        size_t len = end == NULL ? left : (size_t)(end - line) + 1;

        printf("OUTPUT %d.%d %.*s%s", fake->rank, output->stream, (int)len, line,
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

static void hear_exited(struct fake *fake, const struct link_exited *exited)
{
    static const char *const endings[] = { "exit", "signal", "exec", "setup" };

    printf("EXITED rank %d: %s %u%s%s%s detail <%.*s> tail <%.*s>\n", fake->rank,
            endings[exited->ending], exited->value,
            exited->was_stopped ? " stopped" : "", exited->is_oom ? " oom" : "",
            exited->dumped_core ? " core" : "", (int)exited->detail.len,
            exited->detail.text, (int)exited->tail.len, exited->tail.text);
    fake->has_exited = true;
    put(fake,
            &(struct link_message){
                    .type = LINK_RELEASE, .release = { .status = fake->release } });
}

static void hear(struct fake *fake, const struct link_message *message)
{
    if (message->type == LINK_STARTED) {
        printf("STARTED rank %d pid %llu: %.*s\n", fake->rank,
                (unsigned long long)message->started.pid,
                (int)message->started.binding.len, message->started.binding.text);
        fake->program = (pid_t)message->started.pid;
    } else if (message->type == LINK_BEAT) {
        if (message->beat.state == 'T') {
            printf("STOPPED rank %d\n", fake->rank);
        }
    } else if (message->type == LINK_OUTPUT) {
        hear_output(fake, &message->output);
    } else if (message->type == LINK_NOTE) {
        printf("NOTE %.*s\n", (int)message->note.len, message->note.text);
    } else if (message->type == LINK_EXITED) {
        hear_exited(fake, &message->exited);
    }
    (void)fflush(stdout);
}

static void lose(struct fake *fake, const char *why)
{
    printf("LOST rank %d%s\n", fake->rank, why);
    (void)fflush(stdout);
    session_lose(&fake->session);
}

/* What has come is whole frames, but for the last. */
static bool has_token(const struct session *session)
{
    return session->in_len > 0 &&
            memmem(session->in, session->in_len, token, LINK_TOKEN_BYTES) != NULL;
}

static void read_session(struct fake *fake)
{
    bool lives = session_receive(&fake->session);
    struct link_message message;
    struct frame frame;
    int got;

    if (fake->rank < 0 && has_token(&fake->session)) {
        lose(fake, ": it sends the token");
        return;
    }
    while ((got = session_next(&fake->session, &frame)) > 0) {
        if (fake->rank < 0) {
            hear_hello(fake, &frame);
        } else if (link_read(&frame, &message) == TUTTI_OK) {
            hear(fake, &message);
        } else {
            got = -1;
            break;
        }
        (void)fflush(stdout);
    }
    if (got < 0 || !lives) {
        lose(fake, got < 0 ? ": malformed" : "");
    }
}

static void beat(struct fake *fake)
{
    if (fake->has_come && fake->rank >= 0 && !fake->is_silent) {
        put(fake,
                &(struct link_message){
                        .type = LINK_BEAT, .beat.sent = (uint64_t)clock_ns() });
    }
}

/* The starter runs, or its supervisor has not left. */
static bool is_going_on(const struct fake *fake, int *status, bool *has_ended)
{
    if (!*has_ended && waitpid(-1, status, WNOHANG) > 0) {
        *has_ended = true;
    }
    return !*has_ended || (fake->has_come && !session_is_lost(&fake->session));
}

static void poll_all(struct fake *fake)
{
    bool is_deaf = !fake->has_come || (fake->is_deaf && kill(fake->program, 0) == 0);
    struct pollfd polled[] = { { .fd = fake->listener, .events = POLLIN },
        { .fd = is_deaf ? -1 : fake->session.fd, .events = POLLIN } };

    (void)poll(polled, 2, (int)(beat_ns / 1000000));
    if (polled[1].revents != 0) {
        read_session(fake);
    }
    if (polled[0].revents != 0 && !fake->has_come) {
        int one = 1;
        int fd = accept(fake->listener, NULL, NULL);

        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        fake->session = session_of(fd, token, LINK_TOKEN_BYTES);
        fake->has_come = meet_challenge(&fake->session);
        (void)session_send_all(&fake->session);
    }
}

int main(int argc, char **argv)
{
    static struct fake fake = {
        .rank = -1, .folder = "", .beat_ms = 100, .kill_ms = 2000, .silent_ms = 300000
    };
    bool has_ended = false;
    int status = 0;

    (void)argc;
    parse(&fake, argv);
    start(&fake);
    while (is_going_on(&fake, &status, &has_ended)) {
        poll_all(&fake);
        beat(&fake);
    }
    printf("STARTER %s %d\n", WIFSIGNALED(status) ? "signal" : "exit",
            WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    return EXIT_SUCCESS;
}
