/*
 * A host that joined: runs the commands that the first host sends. What they leave behind as
 * daemons becomes ours (we are its subreaper), so that all can be ended with the job.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "launcher/bind/pci.h"
#include "launcher/exec/keeper.h"
#include "launcher/exec/procs.h"
#include "launcher/join/command.h"
#include "launcher/join/join.h"
#include "launcher/join/join_message.h"
#include "launcher/session/loop.h"
#include "launcher/session/sockets.h"
#include "launcher/signals.h"

enum {
    RETRY_MS = 200,
    CONNECT_S = 5, /* that a connection may take; the kernel would take minutes */
    REFUSAL_MAX = 200, /* bytes of what a stranger says that are shown */
    MEET_S = 10, /* until who answers has to have said what is next */
    COMMANDS_MAX = 64 /* at once; an MPI launcher needs one or two */
};

struct server {
    struct session session; /* with the first host                   */
    struct loop loop;
    struct loop_watch watch; /* of `signals`                          */
    int signals; /* signalfd                              */
    struct command commands[COMMANDS_MAX];
    bool is_over; /* BYE came                              */
};

static int64_t seconds_from_now(int seconds)
{
    return clock_ns() + (int64_t)seconds * 1000000000;
}

/* Connected to one who begins as a first host does; he has proven nothing yet. */
static bool find_first(
        const struct join_place *place, int64_t deadline, struct session *session)
{
    const int64_t patience = seconds_from_now(MEET_S);
    struct connect_addresses addresses = { .count = 0 };
    char port[16];
    int one = 1;

    (void)snprintf(port, sizeof port, "%d", place->port);
    if (connect_add(&addresses, place->first, port, 0) != 0) {
        return false;
    }
    *session = session_of(connect_any(&addresses, seconds_from_now(CONNECT_S)),
            place->secret, place->secret_len);
    if (session_is_lost(session)) {
        return false;
    }
    (void)setsockopt(session->fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof one);
    if (meet_wait(session, patience < deadline ? patience : deadline) == MEET_OK) {
        return true;
    }
    session_fini(session);
    return false;
}

/* Nobody knows yet who says so: only what does a terminal no harm is shown. */
static tutti_status take_refusal(const struct frame *refusal)
{
    char why[REFUSAL_MAX];

    (void)snprintf(
            why, sizeof why, "%.*s", (int)refusal->len, (const char *)refusal->body);
    for (char *c = why; *c != '\0'; c++) {
        if (*c < ' ' || *c > '~') {
            *c = '?';
        }
    }
    return error_set(TUTTI_ERR_INVALID, "this host is refused: %s", why);
}

static tutti_status meet_first(struct session *session, const struct join_hello *hello)
{
    struct wire_writer body = { .data = NULL };
    struct frame frame = { .len = 0 };
    enum meet_outcome outcome = MEET_CLOSED;

    join_put_hello(&body, hello);
    if (!body.failed) {
        outcome = meet_join(session, &join_protocol, body.data, body.len,
                seconds_from_now(MEET_S), &frame);
    }
    wire_writer_fini(&body);
    switch (outcome) {
    case MEET_OK:
        return TUTTI_OK;
    case MEET_CLOSED:
        (void)error_set(TUTTI_ERR_SYSTEM, "it closes the connection at a hello");
        return TUTTI_AGAIN;
    case MEET_SILENT:
        return error_set(TUTTI_ERR_SYSTEM, "it does not answer a hello");
    case MEET_REFUSED:
        return take_refusal(&frame);
    case MEET_FAILED:
        return TUTTI_ERR_SYSTEM;
    case MEET_OTHER:
    case MEET_UNPROVEN:
        break;
    }
    return error_set(TUTTI_ERR_INVALID,
            "it does not know the secret of the job, so nothing of what it says is "
            "run");
}

/*
 * The first host may start later than we, and its name be known later still; what had its
 * port before may still answer, and it closes connections that are too many at once.
 */
static tutti_status join_first(const struct join_place *place, int timeout_s,
        const struct join_hello *hello, struct session *session)
{
    int64_t deadline = seconds_from_now(timeout_s);

    for (;;) {
        const bool found = find_first(place, deadline, session);
        const tutti_status status = found ? meet_first(session, hello) : TUTTI_AGAIN;

        if (status != TUTTI_AGAIN) {
            return status;
        }
        session_fini(session);
        if (clock_ns() >= deadline) {
            return found
                    ? TUTTI_ERR_SYSTEM
                    : error_set(TUTTI_ERR_TIMEOUT,
                              "no tuttirun of this version on the first host, %s port "
                              "%d, has been reached within %d s (--join-timeout)",
                              place->first, place->port, timeout_s);
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

static void send_ended(struct session *session, uint32_t channel, int status)
{
    const struct join_message message = {
        .type = JOIN_ENDED, .channel = channel, .value = (uint32_t)status
    };

    /* A connection that is gone is noticed when it is read. */
    (void)join_send(session, &message);
}

static void start_command(struct server *server, const struct join_message *message)
{
    size_t place = 0;

    while (place < COMMANDS_MAX && server->commands[place].pid > 0) {
        place++;
    }
    if (place == COMMANDS_MAX ||
            !command_start(&server->commands[place], &server->loop, message->channel,
                    message->bytes, message->len)) {
        send_ended(&server->session, message->channel, 255);
    }
}

static void obey(struct server *server, const struct join_message *message)
{
    struct command *command = find_command(server, message->channel);

    switch (message->type) {
    case JOIN_RUN:
        start_command(server, message);
        return;
    case JOIN_INPUT:
        if (command != NULL) {
            command_give(command, message->bytes, message->len);
        }
        return;
    case JOIN_CANCEL:
        if (command != NULL) {
            command_kill(command, SIGTERM);
        }
        return;
    case JOIN_BYE:
        server->is_over = true;
        return;
    case JOIN_OUTPUT:
    case JOIN_ENDED:
        return;
    }
}

static tutti_status read_first(struct server *server)
{
    struct session *session = &server->session;
    bool lives = session_receive(session);
    struct join_message message;
    int got = lives ? 1 : 0;

    while (got > 0 && !server->is_over) {
        got = join_next(session, &message);
        if (got > 0) {
            obey(server, &message);
        }
    }
    if (!lives) {
        return error_set(TUTTI_ERR_SYSTEM, "the connection %s",
                session->was_closed ? "was closed" : "is lost");
    }
    return got < 0
            ? error_set(TUTTI_ERR_SYSTEM, "a message is malformed or not sealed by it")
            : TUTTI_OK;
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

/*
 * Relays input and output; a command is over when it has ended and its output, too. Comes after
 * all else of a turn: nothing wakes us for a command that is over.
 */
static void relay_commands(struct server *server)
{
    for (size_t i = 0; i < COMMANDS_MAX; i++) {
        struct command *command = &server->commands[i];

        if (command->pid > 0) {
            command_relay(command, &server->session);
        }
        if (command->pid > 0 && command_is_over(command)) {
            send_ended(&server->session, command->channel, command->status);
            command_fini(command);
        }
    }
}

/* One of the signals that ask us to end; 0: none came. Others are for the first host. */
static int take_signals(struct server *server)
{
    struct signalfd_siginfo info;
    int asked = 0;

    while (read(server->signals, &info, sizeof info) == (ssize_t)sizeof info) {
        const int number = (int)info.ssi_signo;

        if (number == SIGINT || number == SIGTERM || number == SIGHUP ||
                number == SIGQUIT) {
            asked = number;
        }
    }
    reap(server);
    return asked;
}

/* Hears signals and commands, whatever woke us. */
static tutti_status turn(struct server *server)
{
    tutti_status status = TUTTI_OK;
    int asked;

    (void)loop_wait(&server->loop, INT64_MAX);
    asked = take_signals(server);
    if (server->session.watch.ready != 0) {
        status = read_first(server);
    }
    relay_commands(server);
    return asked == 0 ? status
                      : error_set(TUTTI_ERR_SYSTEM, "ended by signal %d", asked);
}

static tutti_status open_signals(struct server *server)
{
    (void)prctl(PR_SET_CHILD_SUBREAPER, 1);
    server->signals = signals_open(SIGCHLD);
    return server->signals >= 0 && loop_init(&server->loop) == TUTTI_OK &&
                    loop_set(&server->loop, &server->watch, server->signals, EPOLLIN) &&
                    session_attach(&server->session, &server->loop, NULL, NULL)
            ? TUTTI_OK
            : error_set_errno(TUTTI_ERR_SYSTEM, "wait for the first host");
}

/* Says whom it is about. */
static tutti_status name_first(tutti_status status, const struct placement *placement)
{
    char why[ERROR_TEXT_MAX];

    (void)snprintf(why, sizeof why, "%s", tutti_last_error());
    return error_set(status, "the first host, %s port %d: %s", placement->join.first,
            placement->join.port, why);
}

static tutti_status join(
        struct server *server, const struct placement *placement, int timeout_s)
{
    const struct join_hello hello = {
        .key = placement->join.key,
        .name = placement->own,
        .index = placement->join.index,
        .slots = pci_slots_here(),
    };
    tutti_status status =
            join_first(&placement->join, timeout_s, &hello, &server->session);

    return status == TUTTI_OK || status == TUTTI_ERR_TIMEOUT
            ? status
            : name_first(status, placement);
}

static tutti_status serve(struct server *server, const struct placement *placement)
{
    tutti_status status = open_signals(server);

    /* What came with the WELCOME is here already; the loop would not tell. */
    if (status == TUTTI_OK) {
        status = read_first(server);
        relay_commands(server);
    }
    while (status == TUTTI_OK && !server->is_over) {
        status = turn(server);
    }
    if (server->session.was_closed && !server->is_over) {
        /* In a container whose first process it was, tuttirun's end leaves no time for BYE. */
        (void)fprintf(stderr, "tuttirun: the first host, %s, has ended\n",
                placement->join.first);
        return TUTTI_OK;
    }
    return status == TUTTI_OK ? status : name_first(status, placement);
}

enum {
    GRACE_MS = 2000, /* daemons end themselves when their master is gone */
    TERM_MS = 2000, /* between SIGTERM and SIGKILL                      */
    NAP_MS = 5,
    KILL_ROUNDS = 50 /* of 100 ms; what survives that hangs in the kernel */
};

/* Reaps until there is no child (true), or for so long. */
static bool reap_for(int ms)
{
    int64_t end = clock_ns() + (int64_t)ms * 1000000;

    do {
        pid_t pid = waitpid(-1, NULL, WNOHANG);

        if (pid < 0 && errno == ECHILD) {
            return true;
        }
        if (pid == 0) {
            clock_sleep_ns((int64_t)NAP_MS * 1000000);
        }
    } while (clock_ns() < end);
    return false;
}

/*
 * Waits shortly for our descendants, those that daemons leave to us among them, and ends them then.
 */
static void end_leftovers(void)
{
    if (reap_for(GRACE_MS)) {
        return;
    }
    (void)procs_signal_descendants(SIGTERM, KEEPER_NAME);
    if (reap_for(TERM_MS)) {
        return;
    }
    /* Killed ones may have left children to us. */
    for (int i = 0; i < KILL_ROUNDS; i++) {
        (void)procs_signal_descendants(SIGKILL, KEEPER_NAME);
        if (reap_for(100)) {
            return;
        }
    }
}

tutti_status join_serve(const struct placement *placement, int timeout_s)
{
    struct server *server = mem_calloc(1, sizeof *server);
    tutti_status status;

    if (server == NULL) {
        return error_set(TUTTI_ERR_NO_MEMORY, "out of memory");
    }
    server->session.fd = -1;
    server->loop.epoll = -1;
    server->signals = -1;
    status = join(server, placement, timeout_s);
    if (status == TUTTI_OK) {
        status = serve(server, placement);
        end_leftovers();
    }
    for (size_t i = 0; i < COMMANDS_MAX; i++) {
        command_fini(&server->commands[i]);
    }
    fd_close(&server->signals);
    session_fini(&server->session);
    loop_fini(&server->loop);
    mem_free(server);
    return status;
}
