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

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "launcher/exec/guardian.h"
#include "launcher/exec/procs.h"
#include "launcher/exec/supervisor_parts.h"
#include "launcher/exec/sweep.h"

enum {
    EXIT_LAUNCHER = 125,
    POLLED = 6 /* link, signals, result of exec, two streams, the engine */
};

static void hear_signals(struct supervisor *supervisor, int64_t now)
{
    struct signalfd_siginfo info;

    while (read(supervisor->signal_fd, &info, sizeof info) == (ssize_t)sizeof info) {
        if (info.ssi_signo == SIGCHLD) {
            supervisor_reap(supervisor, now);
        } else if (supervisor->phase < PHASE_DRAINING) {
            supervisor->ending.signals |= ending_signal((int)info.ssi_signo);
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
    return channel_waiting(&supervisor->channel) > CHANNEL_FULL;
}

/* Milliseconds that nothing has to be done for. */
static int idle_ms(const struct supervisor *supervisor, int64_t now)
{
    int64_t due = earlier(supervisor->beat_due, supervisor->kill_due);

    due = earlier(due, output_due(&supervisor->out));
    due = earlier(due, output_due(&supervisor->err));
    if (supervisor->phase == PHASE_DRAINING && !is_full(supervisor)) {
        due = earlier(due, supervisor->ended + SUPERVISOR_DRAIN_NS);
    }
    return due <= now
            ? 0
            : (int)((due - now + SUPERVISOR_MILLISECOND - 1) / SUPERVISOR_MILLISECOND);
}

/* Reads the streams that have something. */
static void read_streams(struct supervisor *supervisor, bool out, bool err, int64_t now)
{
    if (supervisor->phase == PHASE_DRAINING) {
        supervisor->is_quiet = !out && !err;
        supervisor->looks++;
    }
    if (out) {
        output_read(&supervisor->out, now);
    }
    if (err) {
        output_read(&supervisor->err, now);
    }
}

/* Waits, and takes what came. A full channel makes the program wait, as any pipe does. */
static void wait_and_read(struct supervisor *supervisor)
{
    struct channel *channel = &supervisor->channel;
    bool must_wait = is_full(supervisor);
    struct pollfd polled[POLLED] = {
        { .fd = channel->fd, .events = POLLIN },
        { .fd = supervisor->signal_fd, .events = POLLIN },
        { .fd = supervisor->child.exec_fd, .events = POLLIN },
        { .fd = must_wait ? -1 : supervisor->out.fd, .events = POLLIN },
        { .fd = must_wait ? -1 : supervisor->err.fd, .events = POLLIN },
        { .fd = supervisor->is_engine_gone ? -1 : supervisor->engine_fd,
                .events = POLLIN },
    };
    int64_t now;

    if (channel_waiting(channel) > 0) {
        polled[0].events |= POLLOUT;
    }
    supervisor->looked = clock_ns();
    (void)poll(polled, POLLED, idle_ms(supervisor, supervisor->looked));
    now = clock_ns();
    if (polled[2].revents != 0) {
        supervisor_hear_exec(supervisor);
    }
    if (!must_wait) {
        read_streams(supervisor, polled[3].revents != 0, polled[4].revents != 0, now);
    }
    if (polled[1].revents != 0) {
        hear_signals(supervisor, now);
    }
    if ((polled[0].revents & ~POLLOUT) != 0) {
        supervisor_hear_tuttirun(supervisor, now);
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
        supervisor_watch_tuttirun(supervisor, now);
        supervisor_watch_engine(supervisor, now);
        supervisor_kill_when_due(supervisor, now);
        output_tick(&supervisor->out, now);
        output_tick(&supervisor->err, now);
        supervisor_report_end(supervisor, now);
        supervisor_beat(supervisor, now);
        channel_send(&supervisor->channel);
    }
}

static void supervise(struct supervisor *supervisor)
{
    int64_t now;

    supervisor_start(supervisor);
    now = clock_ns();
    supervisor->heard = now;
    supervisor->ended = now;
    supervisor->looked = now;
    supervisor->beat_due = now;
    /* What came right after the welcome has been received with it. */
    supervisor_hear_tuttirun(supervisor, now);
    run_loop(supervisor);
}

static void finish(struct supervisor *supervisor)
{
    sweep_shared_memory(supervisor->since);
    output_fini(&supervisor->out);
    output_fini(&supervisor->err);
    notice_destroy(&supervisor->notice);
    if (supervisor->guardian_fd >= 0) {
        guardian_dismiss(supervisor->guardian_fd);
    }
    if (supervisor->signal_fd >= 0) {
        (void)close(supervisor->signal_fd);
    }
    if (supervisor->engine_fd >= 0) {
        (void)close(supervisor->engine_fd);
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
    supervisor->engine_fd = -1;
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
