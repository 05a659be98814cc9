/*
 * The supervisor of a rank.
 *
 * All processes that the program has started stay below the supervisor, even those whose
 * parents are gone, for it is a subreaper: so what is left is known, and none escapes by
 * a session of its own. When the supervisor itself is killed, its guardian finds them by
 * an entry of their environment.
 *
 * Signals. What the MPI launcher sends reaches the wrapper, which is what the MPI launcher has started,
 * and what tuttirun sends comes over the link; both are given to the group of the program.
 * Supervisor and program are a session of their own: what is sent to its group by others
 * has reached the program as well, and is not passed on.
 */
#include "launcher/exec/supervisor.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "launcher/arguments.h"
#include "launcher/bind/bind.h"
#include "launcher/exec/guardian.h"
#include "launcher/exec/logs.h"
#include "launcher/exec/procs.h"
#include "launcher/exec/shm_cleanup.h"
#include "launcher/exit_status.h"
#include "launcher/here/here.h"
#include "launcher/mpi_launcher/job_network.h"
#include "launcher/mpi_launcher/mpi_collectives.h"
#include "launcher/session/loop.h"

enum {
    NICE_WANTED = -10, /* a supervisor's, which sleeps but for its heartbeats   */
    QUIET_SCANS = 2, /* without a process, until it is believed that none is left */
    SCANS_MAX = 1000,
    SCAN_PAUSE_NS = 10000000
};

static void block_signals(sigset_t *mask)
{
    static const int faults[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP,
        SIGSYS };

    (void)sigfillset(mask);
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        (void)sigdelset(mask, faults[i]);
    }
    (void)pthread_sigmask(SIG_SETMASK, mask, NULL);
    (void)signal(SIGPIPE, SIG_IGN);
    (void)sigdelset(mask, SIGPIPE);
}

/*
 * Here and not before the program was started, which keeps its share of the host and its
 * priority. A supervisor that starves with its rank would be taken for dead. More than
 * this user may have is refused, step by step.
 */
static void take_whole_host(void)
{
    bind_release();
    for (int nice = NICE_WANTED; nice < 0 && setpriority(PRIO_PROCESS, 0, nice) != 0;
            nice++) {
        /* the next best */
    }
}

static void set_timeline(struct arguments *environment, uint32_t generation)
{
    const char *place = environment_get(environment->items, "TUTTI_TIMELINE");
    char own[PATH_MAX];

    if (place == NULL || place[0] == '\0') {
        place = environment_get(environment->items, "HOROVOD_TIMELINE");
    }
    if (place != NULL && generation > 1) {
        generation_path(own, sizeof own, place, generation);
        arguments_set(environment, "TUTTI_TIMELINE", own);
    }
}

/* The program's environment: without the secret, with the mark. */
static void build_environment(
        const struct supervisor *supervisor, struct arguments *environment)
{
    static const char secret[] = LINK_VARIABLE "=";
    static const char place[] = RANK_VARIABLE "=";
    static const char here[] = HERE_VARIABLE "=";
    char *const *entries = supervisor->plan->environment;

    for (; *entries != NULL; entries++) {
        if (strncmp(*entries, secret, sizeof secret - 1) != 0 &&
                strncmp(*entries, place, sizeof place - 1) != 0 &&
                strncmp(*entries, here, sizeof here - 1) != 0) {
            arguments_add(environment, *entries);
        }
    }
    arguments_set(
            environment, PROCS_VARIABLE, strchr(supervisor->leftovers.mark, '=') + 1);
    if (!environment->failed) {
        set_timeline(environment, supervisor->uplink.orders.generation);
    }
    network_export(environment);
    mpi_collectives_export(environment);
    rank_export(&supervisor->plan->rank, environment);
}

static void add_failure_page(
        struct supervisor *supervisor, struct arguments *environment)
{
    char number[16];

    if (failure_page_create(&supervisor->failure_page) == TUTTI_OK) {
        (void)snprintf(number, sizeof number, "%d", supervisor->failure_page.fd);
        arguments_set(environment, FAILURE_PAGE_VARIABLE, number);
    }
}

/* Without it the rank runs, but what it commits is lost with it. */
static void add_keep(struct supervisor *supervisor, struct arguments *environment)
{
    struct uplink *uplink = &supervisor->uplink;

    if (uplink->orders.generation != 0 &&
            keep_open(&supervisor->keep, uplink, environment) != TUTTI_OK) {
        link_put_note(uplink_out(uplink),
                "rank %d: what it commits is lost when it ends: %s",
                supervisor->plan->rank.rank, tutti_last_error());
    }
}

/* A rank that cannot be bound runs unbound; one whose devices are not there does not. */
static tutti_status bind_program(
        struct supervisor *supervisor, struct arguments *environment)
{
    const struct rank_place *rank = &supervisor->plan->rank;
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
        .forward = supervisor->uplink.orders.forward[0],
        .is_alone = supervisor->plan->rank.size == 1,
        .bytes_per_second = supervisor->uplink.orders.output_rate,
        .folder = supervisor->streams.folder,
        .out = uplink_out(&supervisor->uplink),
    };
    tutti_status status = output_init(&supervisor->streams.out, &plan);

    plan.stream = 2;
    plan.forward = supervisor->uplink.orders.forward[1];
    plan.tail = &supervisor->streams.tail;
    return status == TUTTI_OK ? output_init(&supervisor->streams.err, &plan) : status;
}

static void open_log_folder(struct supervisor *supervisor)
{
    if (supervisor->uplink.orders.log_folder[0] != '\0' &&
            logs_make_folder(supervisor->uplink.orders.log_folder,
                    supervisor->plan->rank.rank,
                    supervisor->streams.folder) != TUTTI_OK) {
        supervisor->streams.folder[0] = '\0';
        link_put_note(uplink_out(&supervisor->uplink), "rank %d has no log: %s",
                supervisor->plan->rank.rank, tutti_last_error());
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
        add_failure_page(supervisor, &environment);
        add_keep(supervisor, &environment);
        door_open(&supervisor->door, &environment);
        supervisor_add_recorder(supervisor, &environment);
        oom_open(&supervisor->end.oom, "");
        (void)prctl(PR_SET_CHILD_SUBREAPER, 1);
        status = arguments_status(&environment);
    }
    if (status == TUTTI_OK) {
        child_plan->argv = supervisor->plan->argv;
        child_plan->environment = environment.items;
        child_plan->death_signal = SIGKILL;
        child_plan->input = -1;
        child_plan->output = -1;
        child_plan->takes_terminals = true;
        status = child_start(child_plan, &supervisor->child);
    }
    if (status == TUTTI_OK) {
        supervisor->streams.out.fd = supervisor->child.out;
        supervisor->streams.err.fd = supervisor->child.err;
        supervisor->has_children = true;
    }
    fd_close(&supervisor->door.inherited);
    arguments_fini(&environment);
    return status;
}

/* In the guardian: ends what is left of the rank of a supervisor that has died. */
static void end_rank(const void *context)
{
    const struct supervisor *supervisor = context;
    int quiet = 0;

    if (supervisor->leftovers.group > 0) {
        (void)kill(-supervisor->leftovers.group, SIGKILL);
    }
    for (int scan = 0; scan < SCANS_MAX && quiet < QUIET_SCANS; scan++) {
        quiet = procs_kill_marked(supervisor->leftovers.mark) == 0 ? quiet + 1 : 0;
        if (quiet < QUIET_SCANS) {
            clock_sleep_ns(SCAN_PAUSE_NS);
        }
    }
    shm_cleanup(supervisor->leftovers.since);
}

static tutti_status start_guardian(struct supervisor *supervisor)
{
    const struct guardian_plan plan = {
        .clean_up = end_rank,
        .context = supervisor,
        .wrapper_fd = supervisor->launcher.wrapper_fd,
    };

    /* The group is only the rank's when the supervisor is its leader. */
    supervisor->leftovers.group = getpgrp() == getpid() ? getpid() : 0;
    return guardian_start(&plan, &supervisor->leftovers.guardian_fd);
}

/*
 * Standard input is the program's: the MPI launcher is to see when the program closes it. The
 * other streams are the wrapper's, whose end the MPI launcher is to see.
 */
static void leave_streams(void)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);

    if (null >= 0) {
        (void)dup2(null, STDIN_FILENO);
        (void)dup2(null, STDOUT_FILENO);
        (void)dup2(null, STDERR_FILENO);
        (void)close(null);
    }
}

static void fail_to_start(struct supervisor *supervisor)
{
    supervisor->end.how.setup_errno = errno != 0 ? errno : EIO;
    (void)snprintf(
            supervisor->end.detail, SUPERVISOR_DETAIL_BYTES, "%s", tutti_last_error());
    supervisor->end.time = clock_ns();
    supervisor->phase = PHASE_DRAINING;
}

static void start(struct supervisor *supervisor)
{
    struct child_plan child_plan = { .argv = NULL };

    supervisor->has_started = true;
    if (supervisor->phase == PHASE_STARTING &&
            start_program(supervisor, &child_plan) != TUTTI_OK) {
        fail_to_start(supervisor);
    }
    take_whole_host();
    leave_streams();
}

static void prepare(struct supervisor *supervisor)
{
    sigset_t mask;

    if (supervisor->plan->rank.local_rank == 0 &&
            environment_get(supervisor->plan->environment, HERE_VARIABLE) != NULL) {
        supervisor->console = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 0);
    }
    block_signals(&mask);
    supervisor->signal_fd = signalfd(-1, &mask, SFD_NONBLOCK | SFD_CLOEXEC);
    supervisor->launcher.pidfd =
            (int)syscall(SYS_pidfd_open, supervisor->launcher.pid, 0);
    supervisor->leftovers.since = shm_cleanup_clock();
    if (supervisor->signal_fd < 0 || start_guardian(supervisor) != TUTTI_OK) {
        fail_to_start(supervisor);
    }
}

static void read_signals(struct supervisor *supervisor, int64_t now)
{
    struct signalfd_siginfo info;

    while (read(supervisor->signal_fd, &info, sizeof info) == (ssize_t)sizeof info) {
        if (info.ssi_signo == SIGCHLD) {
            supervisor_reap(supervisor, now);
        } else if (supervisor->phase < PHASE_DRAINING) {
            supervisor->end.how.signals |= ending_signal((int)info.ssi_signo);
        }
    }
}

static int64_t earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* When something has to be done by time. */
static int64_t next_due(const struct supervisor *supervisor)
{
    int64_t due = earlier(supervisor->uplink.beat_due, supervisor->stop.kill_due);

    due = earlier(due, earlier(supervisor->launcher.term_due, supervisor->stop.due));
    due = earlier(due, output_due(&supervisor->streams.out));
    due = earlier(due, output_due(&supervisor->streams.err));
    if (supervisor->phase == PHASE_DRAINING && !uplink_is_full(&supervisor->uplink) &&
            !supervisor_is_saving(supervisor)) {
        due = earlier(due, supervisor->end.time + SUPERVISOR_DRAIN_NS);
    }
    return due;
}

/* Reads the streams that have something. */
static void read_streams(struct supervisor *supervisor, bool out, bool err, int64_t now)
{
    if (supervisor->phase == PHASE_DRAINING) {
        supervisor->streams.is_quiet = !out && !err;
        supervisor->streams.looks++;
    }
    if (out) {
        output_read(&supervisor->streams.out, now);
    }
    if (err) {
        output_read(&supervisor->streams.err, now);
    }
}

/*
 * Also takes back what has been closed, before a server of metrics accepts descriptors that
 * may have the same numbers.
 */
static void watch_all(struct supervisor *supervisor)
{
    /* tuttirun takes less than the program writes. */
    const bool must_wait = uplink_is_full(&supervisor->uplink);
    const int fds[WATCHES] = {
        [WATCH_SIGNALS] = supervisor->signal_fd,
        [WATCH_EXEC] = supervisor->child.exec_fd,
        [WATCH_OUT] = must_wait ? -1 : supervisor->streams.out.fd,
        [WATCH_ERR] = must_wait ? -1 : supervisor->streams.err.fd,
        [WATCH_LAUNCHER] =
                supervisor->launcher.is_gone ? -1 : supervisor->launcher.pidfd,
        [WATCH_WRAPPER] = supervisor->launcher.wrapper_fd,
    };

    for (int i = 0; i < WATCHES; i++) {
        (void)loop_set(&supervisor->loop, &supervisor->watches[i], fds[i], EPOLLIN);
    }
}

/*
 * Waits, and takes what came. tuttirun that takes nothing makes the program wait, as any
 * pipe does.
 */
static void wait_and_read(struct supervisor *supervisor)
{
    const struct loop_watch *watches = supervisor->watches;
    bool must_wait = uplink_is_full(&supervisor->uplink);
    struct loop_watch *ready;
    int64_t now;

    watch_all(supervisor);
    supervisor->looked = clock_ns();
    (void)loop_wait(&supervisor->loop, next_due(supervisor));
    now = clock_ns();
    if (watches[WATCH_EXEC].ready != 0) {
        supervisor_read_exec(supervisor);
    }
    if (!must_wait) {
        read_streams(supervisor, watches[WATCH_OUT].ready != 0,
                watches[WATCH_ERR].ready != 0, now);
    }
    if (watches[WATCH_SIGNALS].ready != 0) {
        read_signals(supervisor, now);
    }
    if (watches[WATCH_WRAPPER].ready != 0) {
        supervisor_read_wrapper(supervisor, now);
    }
    watch_all(supervisor);
    while ((ready = loop_next(&supervisor->loop)) != NULL) {
        if (ready->call != NULL) { /* of the uplink */
            ready->call(ready->context, ready->ready);
        }
    }
}

/* One whose program was not started has nothing to report. */
static bool is_over(const struct supervisor *supervisor)
{
    if (!supervisor->has_started) {
        return supervisor->stop.has_begun || supervisor->is_released;
    }
    return supervisor->phase == PHASE_REPORTED && !supervisor->has_children &&
            (uplink_is_lost(&supervisor->uplink) || supervisor->is_released);
}

/* An error of the metrics is reported, and changes nothing. */
static void note_metrics(struct supervisor *supervisor, tutti_status status)
{
    if (status != TUTTI_OK) {
        link_put_note(uplink_out(&supervisor->uplink), "rank %d has no metrics: %s",
                supervisor->plan->rank.rank, tutti_last_error());
    }
}

static void begin_metrics(struct supervisor *supervisor)
{
    const struct uplink *uplink = &supervisor->uplink;

    supervisor->metrics.orders = uplink->orders.metrics;
    note_metrics(supervisor,
            host_metrics_begin(&supervisor->metrics, &supervisor->loop,
                    &supervisor->plan->rank, uplink->address.token,
                    supervisor->recording.fd));
}

static void start_with_metrics(struct supervisor *supervisor)
{
    start(supervisor);
    door_begin(&supervisor->door, &supervisor->loop, &supervisor->uplink);
    begin_metrics(supervisor);
}

static void run_loop(struct supervisor *supervisor)
{
    while (!is_over(supervisor)) {
        int64_t now;

        if (!supervisor->has_started && !supervisor->uplink.orders.waits) {
            start_with_metrics(supervisor);
        }
        wait_and_read(supervisor);
        now = clock_ns();
        supervisor_step_recording(supervisor, now);
        note_metrics(supervisor, host_metrics_step(&supervisor->metrics, now));
        supervisor_step_end(supervisor, now);
        output_tick(&supervisor->streams.out, now);
        output_tick(&supervisor->streams.err, now);
        supervisor_report_end(supervisor, now);
        uplink_step(&supervisor->uplink, now, supervisor_program_state);
    }
}

static void supervise(struct supervisor *supervisor)
{
    int64_t now;

    prepare(supervisor);
    if (!supervisor->uplink.orders.waits) {
        start_with_metrics(supervisor);
    }
    now = clock_ns();
    supervisor->end.time = now;
    supervisor->looked = now;
    supervisor->uplink.obey = supervisor_obey;
    supervisor->uplink.owner = supervisor;
    uplink_begin(&supervisor->uplink, &supervisor->loop, now);
    run_loop(supervisor);
}

static void finish(struct supervisor *supervisor)
{
    shm_cleanup(supervisor->leftovers.since);
    output_fini(&supervisor->streams.out);
    output_fini(&supervisor->streams.err);
    host_metrics_fini(&supervisor->metrics);
    failure_page_destroy(&supervisor->failure_page);
    if (!supervisor->is_released) {
        supervisor_tell(supervisor,
                link_text_of("the first host is lost: its tuttirun has ended, or the "
                             "network was cut"));
    }
    fd_close(&supervisor->console);
    door_fini(&supervisor->door);
    keep_fini(&supervisor->keep);
    fd_close(&supervisor->recording.fd);
    guardian_dismiss(supervisor->leftovers.guardian_fd);
    fd_close(&supervisor->signal_fd);
    fd_close(&supervisor->launcher.pidfd);
    fd_close(&supervisor->launcher.wrapper_fd);
}

/*
 * The MPI launcher's daemon does not notice a cut network for many minutes when it has something
 * to send. It is there for this job only; that of Slurm, which ends its steps, is not.
 */
static void end_daemon(const struct supervisor *supervisor)
{
    static const char *const daemons[] = { "orted", "prted", "hydra_pmi_proxy" };
    const pid_t launcher = supervisor->launcher.pid;

    for (size_t i = 0; i < sizeof daemons / sizeof daemons[0]; i++) {
        if (supervisor->was_cut_off && !supervisor->launcher.is_gone &&
                process_is_named(launcher, daemons[i])) {
            (void)kill(launcher, SIGTERM);
        }
    }
}

/* Behind its wrapper, whose parent was the MPI launcher; returns the exit status. */
static int run(
        const struct exec_plan *plan, const char *join, pid_t launcher, int wrapper_fd)
{
    struct supervisor *supervisor = mem_calloc(1, sizeof *supervisor);
    int result = EXIT_LAUNCHER;

    if (supervisor == NULL) {
        (void)fprintf(stderr, "tuttirun: out of memory\n");
        return EXIT_LAUNCHER;
    }
    supervisor->plan = plan;
    supervisor->launcher.pid = launcher;
    supervisor->launcher.wrapper = getppid();
    supervisor->launcher.pidfd = -1;
    supervisor->leftovers.guardian_fd = -1;
    supervisor->keep.fd = -1;
    supervisor->door = door_none;
    supervisor->console = -1;
    supervisor->signal_fd = -1;
    supervisor->streams.out.fd = -1;
    supervisor->streams.err.fd = -1;
    supervisor->child.exec_fd = -1;
    supervisor->launcher.wrapper_fd = wrapper_fd;
    supervisor->recording.fd = -1;
    supervisor->stop.kill_due = INT64_MAX;
    supervisor->launcher.term_due = INT64_MAX;
    supervisor->stop.due = INT64_MAX;
    supervisor->exit_status = EXIT_LAUNCHER;
    supervisor->uplink = uplink_none;
    if (loop_init(&supervisor->loop) != TUTTI_OK ||
            uplink_join(&supervisor->uplink, join, &plan->rank) != TUTTI_OK) {
        (void)fprintf(stderr, "tuttirun --exec: rank %d: %s\n", plan->rank.rank,
                tutti_last_error());
    } else {
        /* With the pid no two ranks of a host have the same, whatever jobs are called. */
        (void)snprintf(supervisor->leftovers.mark, sizeof supervisor->leftovers.mark,
                "%s=%s.%d.%d", PROCS_VARIABLE, supervisor->uplink.orders.job,
                plan->rank.rank, (int)getpid());
        supervise(supervisor);
        finish(supervisor);
        end_daemon(supervisor);
        result = supervisor->exit_status;
    }
    uplink_fini(&supervisor->uplink);
    loop_fini(&supervisor->loop);
    mem_free(supervisor);
    return result;
}

int supervisor_run(const struct exec_plan *plan, const char *join)
{
    const pid_t launcher = getppid();
    int exit_status = EXIT_LAUNCHER;
    int wrapper_fd;

    if (wrapper_start(&wrapper_fd, &exit_status) != TUTTI_OK) {
        (void)fprintf(stderr, "tuttirun --exec: rank %d: %s\n", plan->rank.rank,
                tutti_last_error());
        return EXIT_LAUNCHER;
    }
    return wrapper_fd < 0 ? exit_status : run(plan, join, launcher, wrapper_fd);
}
