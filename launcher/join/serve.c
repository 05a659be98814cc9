/*
 * A host that joined: runs the commands that the first host sends. What they leave behind as
 * daemons becomes ours (we are its subreaper), so that all can be ended with the job.
 */
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "launcher/join/command.h"
#include "launcher/join/frame.h"
#include "launcher/join/join.h"
#include "launcher/join/leftovers.h"
#include "launcher/join/slots.h"

enum {
    RETRY_MS = 200,
    CONNECT_S = 5, /* that one address may take; the kernel would take minutes */
    COMMANDS_MAX = 64 /* at once; an engine needs one or two */
};

struct server {
    struct frame_end end; /* to the first host                     */
    int signals; /* signalfd                              */
    struct command commands[COMMANDS_MAX];
    bool is_over; /* BYE came                              */
    bool is_refused; /* with a reason, which is the last error */
};

static int connect_once(const char *host, const char *port)
{
    const struct addrinfo hints = { .ai_socktype = SOCK_STREAM };
    const struct timeval limit = { .tv_sec = CONNECT_S };
    struct addrinfo *list = NULL;
    int fd = -1;

    if (getaddrinfo(host, port, &hints, &list) != 0) {
        return -1;
    }
    for (const struct addrinfo *one = list; fd < 0 && one != NULL; one = one->ai_next) {
        fd = socket(one->ai_family, one->ai_socktype | SOCK_CLOEXEC, 0);
        if (fd >= 0) {
            (void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
        }
        if (fd >= 0 && connect(fd, one->ai_addr, one->ai_addrlen) != 0) {
            (void)close(fd);
            fd = -1;
        }
    }
    freeaddrinfo(list);
    return fd;
}

/* The first host may start later than we, and its name be known later still. */
static tutti_status connect_first(
        const struct join_place *place, int timeout_s, struct frame_end *end)
{
    int64_t deadline = clock_ns() + (int64_t)timeout_s * 1000000000;
    char port[16];

    (void)snprintf(port, sizeof port, "%d", place->port);
    for (;;) {
        int fd = connect_once(place->first, port);
        int one = 1;

        if (fd >= 0) {
            (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof one);
            *end = (struct frame_end){ .fd = fd };
            return TUTTI_OK;
        }
        if (clock_ns() >= deadline) {
            return error_set(TUTTI_ERR_TIMEOUT,
                    "tuttirun on the first host, %s port %s, has not been reached "
                    "within "
                    "%d s (--join-timeout)",
                    place->first, port, timeout_s);
        }
        clock_sleep_ns((int64_t)RETRY_MS * 1000000);
    }
}

static struct command *find_command(struct server *server, uint32_t channel)
{
    for (size_t i = 0; i < COMMANDS_MAX; i++) {
        if (server->commands[i].pid > 0 && server->commands[i].channel == channel) {
            return &server->commands[i];
        }
    }
    return NULL;
}

static void send_ended(int fd, uint32_t channel, int status)
{
    const struct frame frame = {
        .type = FRAME_ENDED, .channel = channel, .value = (uint32_t)status
    };

    /* A connection that is gone is noticed when it is read. */
    (void)frame_send(fd, &frame);
}

static void start_command(struct server *server, const struct frame *frame)
{
    size_t place = 0;

    while (place < COMMANDS_MAX && server->commands[place].pid > 0) {
        place++;
    }
    if (place == COMMANDS_MAX ||
            !command_start(&server->commands[place], frame->channel, frame->bytes,
                    frame->len)) {
        send_ended(server->end.fd, frame->channel, 255);
    }
}

static void take_frame(struct server *server, const struct frame *frame)
{
    struct command *command = find_command(server, frame->channel);

    switch (frame->type) {
    case FRAME_RUN:
        start_command(server, frame);
        return;
    case FRAME_INPUT:
        if (command != NULL) {
            command_give(command, frame->bytes, frame->len);
            command_relay(command, server->end.fd);
        }
        return;
    case FRAME_CANCEL:
        if (command != NULL) {
            command_kill(command, SIGTERM);
        }
        return;
    case FRAME_BYE:
        server->is_over = true;
        server->is_refused = frame->len > 0;
        if (server->is_refused) {
            (void)error_set(TUTTI_ERR_INVALID, "the first host: %.*s", (int)frame->len,
                    frame->bytes);
        }
        return;
    case FRAME_HELLO:
    case FRAME_OUTPUT:
    case FRAME_ENDED:
        return;
    }
}

static tutti_status take_frames(struct server *server)
{
    struct frame frame;
    tutti_status status = frame_receive(&server->end);
    int got = status == TUTTI_OK ? frame_next(&server->end, &frame) : 0;

    for (; got > 0 && !server->is_over; got = frame_next(&server->end, &frame)) {
        take_frame(server, &frame);
    }
    return got < 0 ? error_set(TUTTI_ERR_SYSTEM, "a message is malformed") : status;
}

static void note_end(struct server *server, pid_t pid, int end)
{
    for (size_t i = 0; i < COMMANDS_MAX; i++) {
        if (server->commands[i].pid == pid) {
            command_note_end(&server->commands[i], end);
        }
    }
}

/* Children that have ended: commands, and daemons that were left to us. */
static void reap(struct server *server)
{
    int end;
    pid_t pid = waitpid(-1, &end, WNOHANG);

    for (; pid > 0; pid = waitpid(-1, &end, WNOHANG)) {
        note_end(server, pid, end);
    }
}

/* Relays output; a command is over when it has ended and its output, too. */
static void relay_commands(struct server *server)
{
    for (size_t i = 0; i < COMMANDS_MAX; i++) {
        struct command *command = &server->commands[i];

        if (command->pid > 0) {
            command_relay(command, server->end.fd);
        }
        if (command->pid > 0 && command_is_over(command)) {
            send_ended(server->end.fd, command->channel, command->status);
            command_fini(command);
        }
    }
}

/* One of the signals that ask us to end; 0: none came. */
static int take_signals(struct server *server)
{
    struct signalfd_siginfo info;
    int asked = 0;

    while (read(server->signals, &info, sizeof info) == (ssize_t)sizeof info) {
        if (info.ssi_signo != SIGCHLD) {
            asked = (int)info.ssi_signo;
        }
    }
    reap(server);
    return asked;
}

static tutti_status turn(struct server *server)
{
    struct pollfd polls[2 + COMMANDS_MAX * COMMAND_STREAMS];
    nfds_t count = 2;
    int asked;

    polls[0] = (struct pollfd){ .fd = server->end.fd, .events = POLLIN };
    polls[1] = (struct pollfd){ .fd = server->signals, .events = POLLIN };
    for (size_t i = 0; i < COMMANDS_MAX; i++) {
        if (server->commands[i].pid > 0) {
            count += command_list(&server->commands[i], polls + count);
        }
    }
    if (poll(polls, count, -1) < 0 && errno != EINTR) {
        return error_set_errno(TUTTI_ERR_SYSTEM, "wait for the first host");
    }
    asked = take_signals(server);
    relay_commands(server);
    if (asked != 0) {
        return error_set(TUTTI_ERR_SYSTEM, "ended by signal %d", asked);
    }
    return polls[0].revents != 0 ? take_frames(server) : TUTTI_OK;
}

static tutti_status open_signals(struct server *server)
{
    sigset_t set;

    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGCHLD);
    (void)sigaddset(&set, SIGINT);
    (void)sigaddset(&set, SIGTERM);
    (void)sigaddset(&set, SIGHUP);
    (void)pthread_sigmask(SIG_BLOCK, &set, NULL);
    (void)signal(SIGPIPE, SIG_IGN);
    (void)prctl(PR_SET_CHILD_SUBREAPER, 1);
    server->signals = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
    return server->signals >= 0 ? TUTTI_OK
                                : error_set_errno(TUTTI_ERR_SYSTEM, "signalfd");
}

static tutti_status serve(struct server *server, const struct placement *placement)
{
    const struct frame_hello hello = {
        .key = placement->join.key,
        .release = tutti_version(),
        .name = placement->own,
        .index = placement->join.index,
        .slots = slots_here(),
    };
    tutti_status status = open_signals(server);

    if (status == TUTTI_OK && !frame_send_hello(server->end.fd, &hello)) {
        status = error_set(TUTTI_ERR_SYSTEM, "the connection is lost");
    }
    while (status == TUTTI_OK && !server->is_over) {
        status = turn(server);
    }
    if (server->end.closed && !server->is_over) {
        /* In a container whose first process it was, tuttirun's end leaves no time for BYE. */
        (void)fprintf(stderr, "tuttirun: the first host, %s, has ended\n",
                placement->join.first);
        return TUTTI_OK;
    }
    if (status != TUTTI_OK) {
        char why[ERROR_TEXT_MAX];

        (void)snprintf(why, sizeof why, "%s", tutti_last_error());
        return error_set(
                status, "serving the first host, %s: %s", placement->join.first, why);
    }
    return server->is_refused ? TUTTI_ERR_INVALID : TUTTI_OK;
}

tutti_status join_serve(const struct placement *placement, int timeout_s)
{
    struct server *server = mem_calloc(1, sizeof *server);
    tutti_status status;

    if (server == NULL) {
        return error_set(TUTTI_ERR_NO_MEMORY, "out of memory");
    }
    server->end.fd = -1;
    server->signals = -1;
    status = connect_first(&placement->join, timeout_s, &server->end);
    if (status == TUTTI_OK) {
        status = serve(server, placement);
        leftovers_end();
    }
    for (size_t i = 0; i < COMMANDS_MAX; i++) {
        command_fini(&server->commands[i]);
    }
    if (server->signals >= 0) {
        (void)close(server->signals);
    }
    frame_end_fini(&server->end);
    mem_free(server);
    return status;
}
