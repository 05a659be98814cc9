/*
 * The supervisor of a rank.
 *
 * All processes that the program has started stay below the supervisor, even those whose
 * parents are gone, for it is a subreaper: so what is left is known, and none escapes by
 * a session of its own. When the supervisor itself is killed, its guardian finds them by
 * an entry of their environment.
 *
 * Signals. Engines signal the process group, which has reached the program as well, so
 * the supervisor forwards none; what tuttirun sends over the link, it gives to the
 * program alone.
 */
#include "launcher/exec/supervisor.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/notice.h"
#include "launcher/arguments.h"
#include "launcher/bind/bind.h"
#include "launcher/engine/network.h"
#include "launcher/exec/channel.h"
#include "launcher/exec/child.h"
#include "launcher/exec/ending.h"
#include "launcher/exec/guardian.h"
#include "launcher/exec/handshake.h"
#include "launcher/exec/oom.h"
#include "launcher/exec/output.h"
#include "launcher/exec/procs.h"
#include "launcher/exec/sweep.h"

enum {
    EXIT_LAUNCHER = 125,
    MARK_BYTES = 320,
    DETAIL_BYTES = 256,
    POLLED = 5 /* link, signals, result of exec, two streams */
};

static const int64_t millisecond = 1000000;
/* Grandchildren may hold the pipes; the report does not wait for them longer. */
static const int64_t drain_ns = 200000000;
/* Between two rounds of SIGKILL: what was being forked escapes the first. */
static const int64_t kill_again_ns = 50000000;

enum phase {
    PHASE_STARTING, /* the result of exec is not known                */
    PHASE_RUNNING, /* the program runs                               */
    PHASE_DRAINING, /* it has ended; its last output is being read    */
    PHASE_REPORTED /* tuttirun has been told                         */
};

struct supervisor {
    const struct exec_plan *plan;
    struct orders orders;
    struct channel channel;
    pid_t engine; /* the parent                                     */
    int guardian_fd; /* -1: there is none                              */
    int signal_fd;
    int64_t since; /* when the rank was started, by sweep_clock()    */
    char mark[MARK_BYTES]; /* entry of the program's environment             */
    char folder[PATH_MAX]; /* of its logs; "": none                          */
    char binding[BIND_TEXT_MAX]; /* in words                              */
    struct notice notice;
    struct oom oom;
    struct tail tail; /* of stderr                                      */
    struct output out, err;
    struct child child;
    struct ending ending;
    char detail[DETAIL_BYTES]; /* of a failed start                      */
    enum phase phase;
    bool has_children; /* processes are left below the supervisor          */
    int64_t ended; /* when the program ended                         */
    int64_t beat_due; /* the next one                                   */
    int64_t heard; /* when tuttirun's last beat arrived              */
    uint64_t echo; /* its time                                       */
    int64_t kill_due; /* SIGKILL to all that is left; INT64_MAX: never  */
    bool is_stopping; /* SIGTERM was sent to all                        */
    bool is_killing; /* SIGKILL was                                    */
    bool is_engine_gone; /* the parent has died                            */
    bool was_cut_off; /* tuttirun fell silent                                */
    bool is_released;
    int exit_status; /* of the supervisor                              */
};

static struct link_text text_of(const char *text)
{
    return (struct link_text){ .text = text, .len = strlen(text) };
}

/* ------------------------------------------------------------------ the start */

static void block_signals(struct child_plan *plan, sigset_t *mask)
{
    static const int faults[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP,
        SIGSYS };

    (void)sigfillset(mask);
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        (void)sigdelset(mask, faults[i]);
    }
    (void)pthread_sigmask(SIG_SETMASK, mask, &plan->signals);
    (void)sigaction(
            SIGPIPE, &(struct sigaction){ .sa_handler = SIG_IGN }, &plan->pipe_action);
    (void)sigdelset(mask, SIGPIPE);
}

static void raise_descriptor_limit(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &limit);
    }
}

/* The program's environment: without the secret, with the mark. */
static void build_environment(
        const struct supervisor *supervisor, struct arguments *environment)
{
    static const char secret[] = LINK_VARIABLE "=";
    char *const *entries = supervisor->plan->environment;

    for (; *entries != NULL; entries++) {
        if (strncmp(*entries, secret, sizeof secret - 1) != 0) {
            arguments_add(environment, *entries);
        }
    }
    arguments_set(environment, PROCS_VARIABLE, strchr(supervisor->mark, '=') + 1);
    network_tell_program(environment);
}

static void add_notice(struct supervisor *supervisor, struct arguments *environment)
{
    char number[16];

    if (notice_create(&supervisor->notice) == TUTTI_OK) {
        (void)snprintf(number, sizeof number, "%d", supervisor->notice.fd);
        arguments_set(environment, NOTICE_VARIABLE, number);
    }
}

/* A rank that cannot be bound runs unbound; one whose devices are not there does not. */
static tutti_status bind_program(
        struct supervisor *supervisor, struct arguments *environment)
{
    const struct rank *rank = &supervisor->plan->rank;
    const struct bind_request request = {
        .index = rank->local_rank,
        .count = rank->local_size,
        .how = supervisor->plan->how,
        .one_gpu = supervisor->plan->one_gpu,
    };

    if (rank->local_rank < 0) {
        (void)snprintf(supervisor->binding, sizeof supervisor->binding,
                "unbound: the engine does not tell the place of the rank on its host");
        return TUTTI_OK;
    }
    return bind_rank(&request, environment, supervisor->binding);
}

static tutti_status open_outputs(struct supervisor *supervisor)
{
    struct output_plan plan = {
        .stream = 1,
        .rank = supervisor->plan->rank.rank,
        .forward = supervisor->orders.forward,
        .bytes_per_second = supervisor->orders.output_rate,
        .folder = supervisor->folder,
        .channel = &supervisor->channel,
    };
    tutti_status status = output_init(&supervisor->out, &plan);

    plan.stream = 2;
    plan.tail = &supervisor->tail;
    return status == TUTTI_OK ? output_init(&supervisor->err, &plan) : status;
}

static void open_log_folder(struct supervisor *supervisor)
{
    char note[LINK_TEXT_MAX];

    if (supervisor->orders.log_folder[0] != '\0' &&
            logs_make_folder(supervisor->orders.log_folder, supervisor->plan->rank.rank,
                    supervisor->folder) != TUTTI_OK) {
        supervisor->folder[0] = '\0';
        (void)snprintf(note, sizeof note, "rank %d has no log: %s",
                supervisor->plan->rank.rank, tutti_last_error());
        link_put_note(&supervisor->channel.out, note);
    }
}

static tutti_status start_program(
        struct supervisor *supervisor, struct child_plan *child_plan)
{
    struct arguments environment = { .items = NULL };
    tutti_status status;

    open_log_folder(supervisor);
    status = open_outputs(supervisor);
    if (status == TUTTI_OK) {
        build_environment(supervisor, &environment);
        status = bind_program(supervisor, &environment);
    }
    if (status == TUTTI_OK) {
        add_notice(supervisor, &environment);
        raise_descriptor_limit();
        oom_open(&supervisor->oom, "");
        (void)prctl(PR_SET_CHILD_SUBREAPER, 1);
        status = arguments_status(&environment);
    }
    if (status == TUTTI_OK) {
        child_plan->argv = supervisor->plan->argv;
        child_plan->environment = environment.items;
        status = child_start(child_plan, &supervisor->child);
    }
    if (status == TUTTI_OK) {
        supervisor->out.fd = supervisor->child.out;
        supervisor->err.fd = supervisor->child.err;
        supervisor->has_children = true;
    }
    arguments_fini(&environment);
    return status;
}

/* Standard input is the program's: the engine is to see when the program closes it. */
static void leave_input(void)
{
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC);

    if (null >= 0) {
        (void)dup2(null, STDIN_FILENO);
        (void)close(null);
    }
}

/* ------------------------------------------------------------------ stopping */

static void send_to_all(struct supervisor *supervisor, int signal)
{
    if (supervisor->has_children) {
        (void)procs_signal_descendants(signal);
    }
}

/* SIGTERM now, SIGKILL later. A stopped process hears SIGTERM when it goes on. */
static void stop_all(struct supervisor *supervisor, uint32_t kill_ms, int64_t now)
{
    int64_t due = clock_deadline(now, (int64_t)kill_ms * millisecond);

    if (supervisor->phase < PHASE_DRAINING) {
        supervisor->ending.was_stopped = true;
    }
    if (!supervisor->is_stopping && kill_ms > 0) {
        send_to_all(supervisor, SIGTERM);
        send_to_all(supervisor, SIGCONT);
    }
    supervisor->is_stopping = true;
    supervisor->kill_due = due < supervisor->kill_due ? due : supervisor->kill_due;
}

static void kill_when_due(struct supervisor *supervisor, int64_t now)
{
    if (now >= supervisor->kill_due) {
        send_to_all(supervisor, SIGKILL);
        supervisor->is_killing = true;
        supervisor->kill_due = now + kill_again_ns;
    }
}

/* ------------------------------------------------------------------ the program */

static void tell_started(struct supervisor *supervisor)
{
    const struct link_started started = {
        .pid = (uint64_t)supervisor->child.pid,
        .binding = text_of(supervisor->binding),
        .log = text_of(supervisor->folder),
    };

    link_put_started(&supervisor->channel.out, &started);
}

static void hear_exec(struct supervisor *supervisor)
{
    int result = child_exec_result(&supervisor->child);

    if (result > 0) {
        supervisor->ending.exec_errno = result;
    } else if (result == 0 && supervisor->phase == PHASE_STARTING) {
        supervisor->phase = PHASE_RUNNING;
        tell_started(supervisor);
    }
}

static void note_end(struct supervisor *supervisor, int status, int64_t now)
{
    if (supervisor->child.exec_fd >= 0) {
        hear_exec(supervisor);
    }
    supervisor->ending.wait_status = status;
    supervisor->phase = PHASE_DRAINING;
    supervisor->ended = now;
}

/* Takes what has ended, of the program and of what it left behind. */
static void reap(struct supervisor *supervisor, int64_t now)
{
    int status;
    pid_t pid;

    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        if (pid == supervisor->child.pid) {
            note_end(supervisor, status, now);
        }
    }
    supervisor->has_children = pid == 0;
}

/* Why the program could not be run, or that memory was short. */
static void describe_detail(struct supervisor *supervisor, struct link_exited *exited)
{
    char *detail = supervisor->detail;

    if (exited->ending == LINK_ENDED_EXEC) {
        errno = supervisor->ending.exec_errno;
        (void)error_set_errno(
                TUTTI_ERR_SYSTEM, "cannot run %s", supervisor->plan->argv[0]);
        (void)snprintf(detail, DETAIL_BYTES, "%s", tutti_last_error());
    } else if (exited->ending == LINK_ENDED_SIGNAL && exited->value == SIGKILL &&
            !supervisor->is_killing) {
        exited->is_oom = oom_has_killed(&supervisor->oom, detail, DETAIL_BYTES);
    }
    exited->detail = text_of(detail);
}

static void tell_exited(struct supervisor *supervisor)
{
    struct link_exited exited = {
        .time = (uint64_t)supervisor->ended,
        .stage = (uint8_t)notice_stage(&supervisor->notice),
        .tail = { .text = supervisor->tail.text, .len = supervisor->tail.len },
    };

    ending_describe(&supervisor->ending, &exited);
    describe_detail(supervisor, &exited);
    link_put_exited(&supervisor->channel.out, &exited);
    supervisor->phase = PHASE_REPORTED;
}

/* The end of the program: its last output, the report, and the end of what it left. */
static void report_end(struct supervisor *supervisor, int64_t now)
{
    bool is_drained = supervisor->out.fd < 0 && supervisor->err.fd < 0;

    if (supervisor->phase != PHASE_DRAINING ||
            (!is_drained && now < supervisor->ended + drain_ns)) {
        return;
    }
    output_flush(&supervisor->out, now);
    output_flush(&supervisor->err, now);
    tell_exited(supervisor);
    if (supervisor->has_children) {
        stop_all(supervisor, supervisor->orders.kill_ms, now);
    }
}

/* ------------------------------------------------------------------ tuttirun */

static void pass_signal(struct supervisor *supervisor, int number)
{
    if (supervisor->phase < PHASE_DRAINING && supervisor->child.pid > 0) {
        supervisor->ending.last_signal = number;
        (void)kill(supervisor->child.pid, number);
    }
}

static void post_failure(
        struct supervisor *supervisor, const struct link_failure *failure)
{
    char text[NOTICE_TEXT_MAX];

    (void)snprintf(
            text, sizeof text, "%.*s", (int)failure->text.len, failure->text.text);
    notice_post(&supervisor->notice, failure->rank, text);
}

static void obey(
        struct supervisor *supervisor, const struct link_message *message, int64_t now)
{
    switch (message->type) {
    case LINK_BEAT:
        supervisor->heard = now;
        supervisor->echo = message->beat.sent;
        break;
    case LINK_SIGNAL:
        pass_signal(supervisor, message->signal);
        break;
    case LINK_FAILURE:
        post_failure(supervisor, &message->failure);
        break;
    case LINK_STOP:
        stop_all(supervisor, message->stop_ms, now);
        break;
    case LINK_RELEASE:
        supervisor->is_released = true;
        supervisor->exit_status = message->release;
        break;
    case LINK_HELLO:
    case LINK_WELCOME:
    case LINK_STARTED:
    case LINK_OUTPUT:
    case LINK_NOTE:
    case LINK_EXITED:
        break; /* not for a supervisor that has begun */
    }
}

static void hear_tuttirun(struct supervisor *supervisor, int64_t now)
{
    struct link_message message;

    channel_receive(&supervisor->channel);
    while (channel_next(&supervisor->channel, &message)) {
        obey(supervisor, &message, now);
    }
}

static void beat(struct supervisor *supervisor, int64_t now)
{
    struct link_beat message = { .sent = (uint64_t)now, .echo = supervisor->echo };

    if (now < supervisor->beat_due) {
        return;
    }
    if (supervisor->echo != 0) {
        message.held = (uint64_t)(now - supervisor->heard);
    }
    if (supervisor->phase < PHASE_DRAINING && supervisor->child.pid > 0) {
        message.state = (uint8_t)process_state(supervisor->child.pid);
    }
    link_put_beat(&supervisor->channel.out, &message);
    supervisor->beat_due = now + supervisor->orders.beat_ns;
}

/* tuttirun is lost by its silence, or with its connection. */
static void watch_tuttirun(struct supervisor *supervisor, int64_t now)
{
    if (!channel_is_lost(&supervisor->channel) &&
            now - supervisor->heard > supervisor->orders.silent_ns) {
        channel_lose(&supervisor->channel);
        supervisor->was_cut_off = true;
    }
    if (channel_is_lost(&supervisor->channel) && !supervisor->is_released &&
            !supervisor->is_stopping) {
        stop_all(supervisor, supervisor->orders.kill_ms, now);
    }
}

/* Without its parent, the engine's daemon, the program has no engine either. */
static void watch_engine(struct supervisor *supervisor, int64_t now)
{
    char note[DETAIL_BYTES];

    if (supervisor->is_engine_gone || getppid() == supervisor->engine) {
        return;
    }
    supervisor->is_engine_gone = true;
    (void)snprintf(note, sizeof note,
            "rank %d: " LINK_NOTE_ORPHANED "; ending the program",
            supervisor->plan->rank.rank);
    link_put_note(&supervisor->channel.out, note);
    stop_all(supervisor, supervisor->orders.kill_ms, now);
}

/* ------------------------------------------------------------------ the loop */

static void hear_signals(struct supervisor *supervisor, int64_t now)
{
    struct signalfd_siginfo info;

    while (read(supervisor->signal_fd, &info, sizeof info) == (ssize_t)sizeof info) {
        if (info.ssi_signo == SIGCHLD) {
            reap(supervisor, now);
        } else if (supervisor->phase < PHASE_DRAINING) {
            supervisor->ending.last_signal = (int)info.ssi_signo;
        }
    }
}

static int64_t earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Milliseconds that nothing has to be done for. */
static int idle_ms(const struct supervisor *supervisor, int64_t now)
{
    int64_t due = earlier(supervisor->beat_due, supervisor->kill_due);

    due = earlier(due, output_due(&supervisor->out));
    due = earlier(due, output_due(&supervisor->err));
    if (supervisor->phase == PHASE_DRAINING) {
        due = earlier(due, supervisor->ended + drain_ns);
    }
    return due <= now ? 0 : (int)((due - now + millisecond - 1) / millisecond);
}

/* Waits, and takes what came. A full channel makes the program wait, as any pipe does. */
static void wait_and_read(struct supervisor *supervisor)
{
    struct channel *channel = &supervisor->channel;
    bool is_full = channel_waiting(channel) > CHANNEL_FULL;
    struct pollfd polled[POLLED] = {
        { .fd = channel->fd, .events = POLLIN },
        { .fd = supervisor->signal_fd, .events = POLLIN },
        { .fd = supervisor->child.exec_fd, .events = POLLIN },
        { .fd = is_full ? -1 : supervisor->out.fd, .events = POLLIN },
        { .fd = is_full ? -1 : supervisor->err.fd, .events = POLLIN },
    };
    int64_t now;

    if (channel_waiting(channel) > 0) {
        polled[0].events |= POLLOUT;
    }
    (void)poll(polled, POLLED, idle_ms(supervisor, clock_ns()));
    now = clock_ns();
    if (polled[2].revents != 0) {
        hear_exec(supervisor);
    }
    if (polled[3].revents != 0) {
        output_read(&supervisor->out, now);
    }
    if (polled[4].revents != 0) {
        output_read(&supervisor->err, now);
    }
    if (polled[1].revents != 0) {
        hear_signals(supervisor, now);
    }
    if ((polled[0].revents & ~POLLOUT) != 0) {
        hear_tuttirun(supervisor, now);
    }
}

static bool is_over(const struct supervisor *supervisor)
{
    return supervisor->phase == PHASE_REPORTED && !supervisor->has_children &&
            (supervisor->is_released || channel_is_lost(&supervisor->channel));
}

static void run_loop(struct supervisor *supervisor)
{
    while (!is_over(supervisor)) {
        int64_t now;

        wait_and_read(supervisor);
        now = clock_ns();
        watch_tuttirun(supervisor, now);
        watch_engine(supervisor, now);
        kill_when_due(supervisor, now);
        output_tick(&supervisor->out, now);
        output_tick(&supervisor->err, now);
        report_end(supervisor, now);
        beat(supervisor, now);
        channel_send(&supervisor->channel);
    }
}

/* ------------------------------------------------------------------ the whole */

static void supervise(struct supervisor *supervisor)
{
    struct child_plan child_plan = { .argv = NULL };
    sigset_t mask;
    int64_t now;

    block_signals(&child_plan, &mask);
    supervisor->signal_fd = signalfd(-1, &mask, SFD_NONBLOCK | SFD_CLOEXEC);
    supervisor->since = sweep_clock();
    if (supervisor->signal_fd < 0 ||
            guardian_start(supervisor->mark, supervisor->since,
                    &supervisor->guardian_fd) != TUTTI_OK ||
            start_program(supervisor, &child_plan) != TUTTI_OK) {
        supervisor->ending.setup_errno = errno != 0 ? errno : EIO;
        (void)snprintf(supervisor->detail, DETAIL_BYTES, "%s", tutti_last_error());
        supervisor->phase = PHASE_DRAINING;
    }
    leave_input();
    now = clock_ns();
    supervisor->heard = now;
    supervisor->ended = now;
    supervisor->beat_due = now;
    run_loop(supervisor);
}

static void finish(struct supervisor *supervisor)
{
    const struct sweep sweep = {
        .folder = "/dev/shm",
        .user = geteuid(),
        .since = supervisor->since,
    };

    (void)sweep_run(&sweep);
    output_fini(&supervisor->out);
    output_fini(&supervisor->err);
    notice_destroy(&supervisor->notice);
    if (supervisor->guardian_fd >= 0) {
        guardian_dismiss(supervisor->guardian_fd);
    }
    if (supervisor->signal_fd >= 0) {
        (void)close(supervisor->signal_fd);
    }
}

/*
 * The engine's daemon does not notice a cut network for many minutes when it has something
 * to say. It is there for this job only; that of Slurm, which ends its steps, is not.
 */
static void end_daemon(const struct supervisor *supervisor)
{
    static const char *const daemons[] = { "orted", "prted", "hydra_pmi_proxy" };
    const pid_t engine = supervisor->engine;

    for (size_t i = 0; i < sizeof daemons / sizeof daemons[0]; i++) {
        if (supervisor->was_cut_off && getppid() == engine &&
                process_is_named(engine, daemons[i])) {
            (void)kill(engine, SIGTERM);
        }
    }
}

int supervisor_run(const struct exec_plan *plan, const char *join)
{
    struct supervisor *supervisor = mem_calloc(1, sizeof *supervisor);
    int result = EXIT_LAUNCHER;

    if (supervisor == NULL) {
        (void)fprintf(stderr, "tuttirun: out of memory\n");
        return EXIT_LAUNCHER;
    }
    supervisor->plan = plan;
    supervisor->engine = getppid();
    supervisor->guardian_fd = -1;
    supervisor->signal_fd = -1;
    supervisor->out.fd = -1;
    supervisor->err.fd = -1;
    supervisor->child.exec_fd = -1;
    supervisor->kill_due = INT64_MAX;
    supervisor->exit_status = EXIT_LAUNCHER;
    if (handshake(join, &plan->rank, &supervisor->channel, &supervisor->orders) !=
            TUTTI_OK) {
        (void)fprintf(stderr, "tuttirun --exec: rank %d: %s\n", plan->rank.rank,
                tutti_last_error());
    } else {
        /* With the pid no two ranks of a host have the same, whatever jobs are called. */
        (void)snprintf(supervisor->mark, sizeof supervisor->mark, "%s=%s.%d.%d",
                PROCS_VARIABLE, supervisor->orders.job, plan->rank.rank, (int)getpid());
        supervise(supervisor);
        finish(supervisor);
        end_daemon(supervisor);
        result = supervisor->exit_status;
    }
    channel_fini(&supervisor->channel);
    mem_free(supervisor);
    return result;
}
