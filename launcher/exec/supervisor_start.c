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

#include "base/error.h"
#include "launcher/arguments.h"
#include "launcher/engine/network.h"
#include "launcher/exec/guardian.h"
#include "launcher/exec/logs.h"
#include "launcher/exec/procs.h"
#include "launcher/exec/supervisor_parts.h"
#include "launcher/exec/sweep.h"

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
    /* Where it is ignored, nobody hears how a program has ended. */
    (void)sigaction(SIGCHLD, &(struct sigaction){ .sa_handler = SIG_DFL }, NULL);
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

void supervisor_start(struct supervisor *supervisor)
{
    struct child_plan child_plan = { .argv = NULL };
    sigset_t mask;

    block_signals(&child_plan, &mask);
    supervisor->signal_fd = signalfd(-1, &mask, SFD_NONBLOCK | SFD_CLOEXEC);
    supervisor->engine_fd = (int)syscall(SYS_pidfd_open, supervisor->engine, 0);
    supervisor->since = sweep_clock();
    if (supervisor->signal_fd < 0 ||
            guardian_start(supervisor->mark, supervisor->since,
                    &supervisor->guardian_fd) != TUTTI_OK ||
            start_program(supervisor, &child_plan) != TUTTI_OK) {
        supervisor->ending.setup_errno = errno != 0 ? errno : EIO;
        (void)snprintf(
                supervisor->detail, SUPERVISOR_DETAIL_BYTES, "%s", tutti_last_error());
        supervisor->phase = PHASE_DRAINING;
    }
    leave_input();
}
