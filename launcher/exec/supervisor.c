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

#include <signal.h>
#include <stdio.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "launcher/exec/guardian.h"
#include "launcher/exec/procs.h"
#include "launcher/exec/shm_cleanup.h"
#include "launcher/exit_status.h"

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

/* tuttirun takes less than the program writes. */
static bool is_full(const struct supervisor *supervisor)
{
    return uplink_is_full(&supervisor->uplink);
}

/* When something has to be done by time. */
static int64_t next_due(const struct supervisor *supervisor)
{
    int64_t due = earlier(supervisor->uplink.beat_due, supervisor->stop.kill_due);

    due = earlier(due, earlier(supervisor->launcher.term_due, supervisor->stop.due));
    due = earlier(due, output_due(&supervisor->streams.out));
    due = earlier(due, output_due(&supervisor->streams.err));
    if (supervisor->phase == PHASE_DRAINING && !is_full(supervisor) &&
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
    const bool must_wait = is_full(supervisor);
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
    bool must_wait = is_full(supervisor);
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

static bool is_over(const struct supervisor *supervisor)
{
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

static void run_loop(struct supervisor *supervisor)
{
    while (!is_over(supervisor)) {
        int64_t now;

        wait_and_read(supervisor);
        now = clock_ns();
        supervisor_watch_tuttirun(supervisor, now);
        supervisor_watch_launcher(supervisor, now);
        supervisor_watch_stalls(supervisor);
        supervisor_ask_timeline(supervisor);
        note_metrics(supervisor, host_metrics_step(&supervisor->metrics, now));
        supervisor_send_metrics(supervisor, now);
        supervisor_end_when_due(supervisor, now);
        supervisor_kill_when_due(supervisor, now);
        output_tick(&supervisor->streams.out, now);
        output_tick(&supervisor->streams.err, now);
        supervisor_report_end(supervisor, now);
        uplink_step(&supervisor->uplink, now, supervisor_program_state);
    }
}

static void supervise(struct supervisor *supervisor)
{
    int64_t now;

    supervisor_start(supervisor);
    begin_metrics(supervisor);
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
    keep_fini(&supervisor->keep);
    if (supervisor->recording.fd >= 0) {
        (void)close(supervisor->recording.fd);
    }
    guardian_dismiss(supervisor->leftovers.guardian_fd);
    if (supervisor->signal_fd >= 0) {
        (void)close(supervisor->signal_fd);
    }
    if (supervisor->launcher.pidfd >= 0) {
        (void)close(supervisor->launcher.pidfd);
    }
    if (supervisor->launcher.wrapper_fd >= 0) {
        (void)close(supervisor->launcher.wrapper_fd);
    }
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
