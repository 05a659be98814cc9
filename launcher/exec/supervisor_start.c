/*
 * A supervisor starts its program: with its signals, its environment, its share of the
 * host, and pipes for its output.
 */
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
#include "launcher/arguments.h"
#include "launcher/bind/bind.h"
#include "launcher/exec/guardian.h"
#include "launcher/exec/logs.h"
#include "launcher/exec/procs.h"
#include "launcher/exec/shm_cleanup.h"
#include "launcher/exec/supervisor.h"
#include "launcher/mpi_launcher/job_network.h"
#include "launcher/mpi_launcher/mpi_collectives.h"

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
    char *const *entries = supervisor->plan->environment;

    for (; *entries != NULL; entries++) {
        if (strncmp(*entries, secret, sizeof secret - 1) != 0) {
            arguments_add(environment, *entries);
        }
    }
    arguments_set(
            environment, PROCS_VARIABLE, strchr(supervisor->leftovers.mark, '=') + 1);
    if (!environment->failed) {
        set_timeline(environment, supervisor->uplink.orders.generation);
    }
    network_tell_program(environment);
    mpi_collectives_tell_program(environment);
    rank_tell_horovod(&supervisor->plan->rank, environment);
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
        child_plan->takes_terminals = true;
        status = child_start(child_plan, &supervisor->child);
    }
    if (status == TUTTI_OK) {
        supervisor->streams.out.fd = supervisor->child.out;
        supervisor->streams.err.fd = supervisor->child.err;
        supervisor->has_children = true;
    }
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

void supervisor_start(struct supervisor *supervisor)
{
    struct child_plan child_plan = { .argv = NULL };
    sigset_t mask;

    block_signals(&mask);
    supervisor->signal_fd = signalfd(-1, &mask, SFD_NONBLOCK | SFD_CLOEXEC);
    supervisor->launcher.pidfd =
            (int)syscall(SYS_pidfd_open, supervisor->launcher.pid, 0);
    supervisor->leftovers.since = shm_cleanup_clock();
    if (supervisor->signal_fd < 0 || start_guardian(supervisor) != TUTTI_OK ||
            start_program(supervisor, &child_plan) != TUTTI_OK) {
        supervisor->end.how.setup_errno = errno != 0 ? errno : EIO;
        (void)snprintf(supervisor->end.detail, SUPERVISOR_DETAIL_BYTES, "%s",
                tutti_last_error());
        supervisor->phase = PHASE_DRAINING;
    }
    take_whole_host();
    leave_streams();
}
