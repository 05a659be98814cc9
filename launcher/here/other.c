/*
 * A host that joined: starts the ranks of this host when the first host says which, and tells how
 * the job has ended. What they leave behind becomes ours (we are its subreaper), so that all
 * can be ended with the job.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "launcher/arguments.h"
#include "launcher/bind/pci.h"
#include "launcher/exec/keeper.h"
#include "launcher/exec/procs.h"
#include "launcher/exit_status.h"
#include "launcher/here/here.h"
#include "launcher/here/message.h"
#include "launcher/job/launcher_process.h"
#include "launcher/mpi_launcher/job_network.h"
#include "launcher/mpi_launcher/prepare.h"
#include "launcher/session/loop.h"
#include "launcher/session/sockets.h"
#include "launcher/signals.h"

enum {
    RETRY_MS = 200,
    CONNECT_S = 5, /* that a connection may take; the kernel would take minutes */
    REFUSAL_MAX = 200, /* bytes of what a stranger says that are shown */
    MEET_S = 10 /* until who answers has to have said what is next */
};

struct host_job {
    const struct options *options;
    const struct placement *placement;
    char *const *environment;
    struct session session; /* with the first host                   */
    struct loop loop;
    struct loop_watch watch, watches[3]; /* of `signals`; of the starter           */
    int signals; /* signalfd                              */
    struct launcher_process starter; /* of our ranks, as launcher/job has it     */
    bool is_over; /* END came                              */
    struct here_end end; /* that came                             */
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

static tutti_status meet_first(struct session *session, const struct here_hello *hello)
{
    struct wire_writer body = { .data = NULL };
    struct frame frame = { .len = 0 };
    enum meet_outcome outcome = MEET_CLOSED;

    here_put_hello(&body, hello);
    if (!body.failed) {
        outcome = meet_join(session, &here_protocol, body.data, body.len,
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
            "it does not know the secret of the job, so nothing is started for it");
}

/*
 * The first host may start later than we, and its name be known later still; what had its
 * port before may still answer, and it closes connections that are too many at once.
 */
static tutti_status join_first(const struct join_place *place, int timeout_s,
        const struct here_hello *hello, struct session *session)
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

/* ------------------------------------------------------------ the ranks here */

/* What the starter and supervisors say, which is of this host alone. */
static void copy_out(struct host_job *job, size_t which, int *fd)
{
    char bytes[4096];
    ssize_t got = -1;

    while (*fd >= 0 && (got = read(*fd, bytes, sizeof bytes)) > 0) {
        (void)!write(STDERR_FILENO, bytes, (size_t)got);
    }
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) {
        loop_close(&job->loop, &job->watches[which], fd);
    }
}

static void hear_starter(void *context, unsigned ready)
{
    struct host_job *job = context;

    (void)ready;
    copy_out(job, 0, &job->starter.output);
    copy_out(job, 1, &job->starter.errors);
    if (launcher_process_reap(&job->starter)) {
        (void)loop_set(&job->loop, &job->watches[2], job->starter.pidfd, 0);
    }
}

static void end_starter(struct host_job *job)
{
    const int fds[] = { job->starter.output, job->starter.errors, job->starter.pidfd };

    for (size_t i = 0; i < 3; i++) {
        (void)loop_set(&job->loop, &job->watches[i], fds[i], 0);
    }
    launcher_process_fini(&job->starter);
}

/* Where our supervisors call: the address at which we found the first host. */
static tutti_status make_join(const struct host_job *job,
        const struct here_start *start, char join[LINK_JOIN_MAX])
{
    struct link_address address = { .count = 1, .port = (int)start->port };
    struct sockaddr_storage peer = { 0 };
    socklen_t len = sizeof peer;

    here_make_token(&job->placement->join, start->nonce, address.token);
    if (getpeername(job->session.fd, (struct sockaddr *)&peer, &len) != 0 ||
            !network_address_of((const struct sockaddr *)&peer, address.addresses[0])) {
        return error_set_errno(TUTTI_ERR_SYSTEM, "find the address of the first host");
    }
    link_address_format(&address, join);
    return TUTTI_OK;
}

static tutti_status start_ranks(struct host_job *job, const struct here_start *start)
{
    struct launch_command command = { .words = { .items = NULL } };
    struct arguments variables = { .items = NULL };
    struct options options = *job->options;
    struct placement placement = *job->placement;
    char join[LINK_JOIN_MAX];
    tutti_status status = make_join(job, start, join);

    options.np = (int)start->size;
    placement.share = (struct share){
        .is_set = true, .first = (int)start->first, .count = (int)start->count
    };
    if (status == TUTTI_OK) {
        status = launch_prepare(&options, &placement, job->environment, &command);
    }
    if (status == TUTTI_OK) {
        launch_environment(&command, job->environment, &variables);
        arguments_set(&variables, LINK_VARIABLE, join);
        status = arguments_status(&variables);
    }
    if (status == TUTTI_OK) {
        end_starter(job); /* of the generation before */
        status = launcher_process_start(
                &job->starter, command.words.items, variables.items);
    }
    arguments_fini(&variables);
    launch_command_fini(&command);
    for (size_t i = 0; status == TUTTI_OK && i < 3; i++) {
        const int fds[] = { job->starter.output, job->starter.errors,
            job->starter.pidfd };

        job->watches[i] = (struct loop_watch){ .call = hear_starter, .context = job };
        (void)loop_set(&job->loop, &job->watches[i], fds[i], EPOLLIN);
    }
    return status;
}

/* ---------------------------------------------------------- the first host */

static tutti_status obey(struct host_job *job, const struct frame *frame)
{
    struct here_start start;

    if (frame->type == HERE_START && here_get_start(frame, &start)) {
        return start_ranks(job, &start);
    }
    if (frame->type == HERE_END && here_get_end(frame, &job->end)) {
        job->is_over = true;
        return TUTTI_OK;
    }
    return error_set(TUTTI_ERR_PROTOCOL, "a message is malformed");
}

static tutti_status read_first(struct host_job *job)
{
    const bool lives = session_receive(&job->session);
    tutti_status status = TUTTI_OK;
    struct frame frame;
    int got = 1;

    while (status == TUTTI_OK && !job->is_over && got > 0) {
        got = session_next(&job->session, &frame);
        if (got > 0) {
            status = obey(job, &frame);
        }
    }
    if (status != TUTTI_OK || job->is_over) {
        return status;
    }
    if (got < 0) {
        return TUTTI_ERR_PROTOCOL;
    }
    return lives ? TUTTI_OK
                 : error_set(TUTTI_ERR_SYSTEM, "the connection %s",
                           job->session.was_closed ? "was closed" : "is lost");
}

/* One of the signals that ask us to end; 0: none came. Others are for the first host. */
static int take_signals(const struct host_job *job)
{
    struct signalfd_siginfo info;
    int asked = 0;

    while (read(job->signals, &info, sizeof info) == (ssize_t)sizeof info) {
        const int number = (int)info.ssi_signo;

        if (number == SIGINT || number == SIGTERM || number == SIGHUP ||
                number == SIGQUIT) {
            asked = number;
        }
    }
    return asked;
}

static tutti_status open_all(struct host_job *job)
{
    job->signals = signals_open(0);
    return job->signals >= 0 && loop_init(&job->loop) == TUTTI_OK &&
                    loop_set(&job->loop, &job->watch, job->signals, EPOLLIN) &&
                    session_attach(&job->session, &job->loop, NULL, NULL)
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

static tutti_status join(struct host_job *job)
{
    const struct placement *placement = job->placement;
    struct here_hello hello = { .index = (uint32_t)placement->join.index,
        .slots = (uint32_t)pci_slots_here() };
    tutti_status status;

    (void)snprintf(hello.key, sizeof hello.key, "%s", placement->join.key);
    (void)snprintf(hello.name, sizeof hello.name, "%s", placement->own);
    status = join_first(
            &placement->join, job->options->join_timeout, &hello, &job->session);
    return status == TUTTI_OK || status == TUTTI_ERR_TIMEOUT
            ? status
            : name_first(status, placement);
}

/* Until the job is over. */
static tutti_status serve(struct host_job *job)
{
    tutti_status status = open_all(job);

    /* What came with the WELCOME is here already; the loop would not tell. */
    if (status == TUTTI_OK) {
        status = read_first(job);
    }
    while (status == TUTTI_OK && !job->is_over) {
        struct loop_watch *ready;
        int asked;

        (void)loop_wait(&job->loop, INT64_MAX);
        asked = take_signals(job);
        if (asked != 0) {
            return error_set(TUTTI_ERR_SYSTEM, "ended by signal %d", asked);
        }
        if (job->session.watch.ready != 0) {
            status = read_first(job);
        }
        while ((ready = loop_next(&job->loop)) != NULL) {
            if (ready->call != NULL) {
                ready->call(ready->context, ready->ready);
            }
        }
    }
    return status == TUTTI_OK ? status : name_first(status, job->placement);
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

int here_serve(const struct options *options, const struct placement *placement,
        char *const *environment)
{
    struct host_job job = { .options = options,
        .placement = placement,
        .environment = environment,
        .session.fd = -1,
        .loop.epoll = -1,
        .signals = -1,
        .starter = launcher_process_none };
    tutti_status status = join(&job);
    int result = EXIT_LAUNCHER;

    if (status == TUTTI_OK) {
        status = serve(&job);
        session_lose(&job.session); /* the first host sees that we are gone */
        end_leftovers();
        hear_starter(&job, 0);
    }
    if (status == TUTTI_OK) {
        result = (int)job.end.status;
    }
    if (status != TUTTI_OK || job.end.text[0] != '\0') {
        (void)fprintf(stderr, "tuttirun: %s\n",
                status != TUTTI_OK ? tutti_last_error() : job.end.text);
    }
    end_starter(&job);
    fd_close(&job.signals);
    session_fini(&job.session);
    loop_fini(&job.loop);
    return result;
}
