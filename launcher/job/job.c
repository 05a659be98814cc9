/*
 * tuttirun while a job runs: one loop over the links of supervisors, the engine, signals
 * and the terminal. What is decided is in flow.c.
 */
#include "launcher/job/job.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "launcher/engine/network.h"
#include "launcher/job/flow.h"
#include "launcher/job/report.h"
#include "launcher/link/address.h"

/* What epoll's data says an event is about; links are EVENT_LINKS + index. */
enum event {
    EVENT_LISTENER,
    EVENT_SIGNALS,
    EVENT_ENGINE_END,
    EVENT_ENGINE_OUTPUT,
    EVENT_ENGINE_ERRORS,
    EVENT_INPUT,
    EVENT_ENGINE_INPUT,
    EVENT_STDOUT,
    EVENT_STDERR,
    EVENT_LINKS
};

enum {
    EVENTS_MAX = 64, /* that are taken at once                                */
    READ_MAX = 4096,
    OTHER_DESCRIPTORS = 64, /* that tuttirun needs beside one for each rank          */
    STRANGERS_MAX = 64 /* connections that have not said hello, beside the ranks */
};

static bool watch(const struct job *job, int fd, unsigned events, enum event what)
{
    struct epoll_event event = { .events = events, .data.u64 = (uint64_t)what };

    return epoll_ctl(job->epoll, EPOLL_CTL_ADD, fd, &event) == 0;
}

/* Each rank has a connection: its descriptor must be allowed. */
static tutti_status raise_limit(int ranks)
{
    struct rlimit limit;
    rlim_t need = (rlim_t)ranks + OTHER_DESCRIPTORS;

    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) {
        return TUTTI_OK;
    }
    if (limit.rlim_max < need) {
        return error_set(TUTTI_ERR_INVALID,
                "%d ranks need %llu open files in tuttirun, and the limit is %llu; "
                "raise it (ulimit -Hn), or give --supervise off",
                ranks, (unsigned long long)need, (unsigned long long)limit.rlim_max);
    }
    if (limit.rlim_cur < need) {
        limit.rlim_cur = limit.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &limit);
    }
    return TUTTI_OK;
}

/* Signals that come to us by a descriptor; those that we were told to ignore stay so. */
static tutti_status open_signals(struct job *job)
{
    static const int numbers[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2,
        SIGTSTP };
    sigset_t set;

    (void)sigemptyset(&set);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        struct sigaction action;

        if (sigaction(numbers[i], NULL, &action) == 0 && action.sa_handler != SIG_IGN) {
            (void)sigaddset(&set, numbers[i]);
        }
    }
    (void)signal(SIGPIPE, SIG_IGN);
    (void)pthread_sigmask(SIG_BLOCK, &set, NULL);
    job->signals = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
    if (job->signals < 0 || !watch(job, job->signals, EPOLLIN, EVENT_SIGNALS)) {
        return error_set_errno(TUTTI_ERR_SYSTEM, "cannot receive signals");
    }
    return TUTTI_OK;
}

/* Outside of an allocation, srun asks for one: its hosts are not known before. */
static bool finds_hosts(const struct job *job)
{
    return job->plan->placement->hosts.count == 0 &&
            strcmp(job->engine_name, "srun") == 0;
}

static bool is_local(const struct job *job)
{
    char own_name[HOST_NAME_LIMIT] = "";

    (void)gethostname(own_name, sizeof own_name - 1);
    return !finds_hosts(job) &&
            host_list_is_here(&job->plan->placement->hosts, own_name);
}

/* The addresses at which supervisors find us. */
static tutti_status find_addresses(const struct job *job, struct link_address *address)
{
    char addresses[LINK_ADDRESSES_MAX][NETWORK_ADDRESS_MAX];
    tutti_status status =
            network_addresses(finds_hosts(job) ? NULL : &job->plan->placement->hosts,
                    job->plan->options->engine.nic, addresses, LINK_ADDRESSES_MAX,
                    &address->count);

    for (size_t i = 0; status == TUTTI_OK && i < address->count; i++) {
        (void)snprintf(address->addresses[i], LINK_ADDRESS_MAX, "%s", addresses[i]);
    }
    return status;
}

static tutti_status open_server(struct job *job, char join[LINK_JOIN_MAX])
{
    /* Where we listen for this machine alone, whichever networks --nic names. */
    struct link_address address = { .count = 1, .addresses = { "127.0.0.1" } };
    const bool only_local = is_local(job);
    tutti_status status =
            server_init(&job->server, job->epoll, EVENT_LINKS, only_local);

    if (status == TUTTI_OK && !only_local) {
        status = find_addresses(job, &address);
    }
    if (status != TUTTI_OK) {
        return status;
    }
    (void)snprintf(address.token, sizeof address.token, "%s", job->server.token);
    address.port = job->server.port;
    link_address_format(&address, join);
    return watch(job, job->server.listener, EPOLLIN, EVENT_LISTENER)
            ? TUTTI_OK
            : error_set_errno(TUTTI_ERR_SYSTEM, "cannot wait for supervisors");
}

/* A name that no other job of this user on these hosts has. */
static void name_job(struct job *job)
{
    unsigned number;

    if (getrandom(&number, sizeof number, 0) != (ssize_t)sizeof number) {
        number = (unsigned)job->start;
    }
    (void)snprintf(job->name, sizeof job->name, "%d-%08x", (int)getpid(), number);
}

/* Supervisors may run in another folder. */
static tutti_status find_log_folder(struct job *job)
{
    const char *folder = job->options->log_folder;
    char here[PATH_MAX];
    int len;

    if (folder == NULL) {
        return TUTTI_OK;
    }
    if (folder[0] == '/') {
        len = snprintf(job->log_folder, sizeof job->log_folder, "%s", folder);
    } else if (getcwd(here, sizeof here) != NULL) {
        len = snprintf(job->log_folder, sizeof job->log_folder, "%s/%s", here, folder);
    } else {
        return error_set_errno(TUTTI_ERR_SYSTEM, "--log-dir %s", folder);
    }
    if (len < 0 || len >= LINK_TEXT_MAX - 64) {
        return error_set(TUTTI_ERR_INVALID, "--log-dir %s: too long", folder);
    }
    return TUTTI_OK;
}

/* "mpirun" of /usr/bin/mpirun.openmpi */
static void name_engine(struct job *job)
{
    const char *path = job->plan->command[0];
    const char *slash = strrchr(path, '/');

    (void)snprintf(job->engine_name, sizeof job->engine_name, "%s",
            slash == NULL ? path : slash + 1);
    job->engine_name[strcspn(job->engine_name, ".")] = '\0';
}

static tutti_status start_engine(struct job *job, const char *join)
{
    struct arguments environment = { .items = NULL };
    tutti_status status;

    arguments_add_all(&environment, job->plan->environment);
    arguments_set(&environment, LINK_VARIABLE, join);
    status = arguments_status(&environment);
    if (status == TUTTI_OK) {
        job_advance(&job->state, JOB_SPAWNING);
        status = engine_process_start(
                &job->engine, job->plan->command, environment.items);
    }
    arguments_fini(&environment);
    if (status == TUTTI_OK &&
            (!watch(job, job->engine.pidfd, EPOLLIN, EVENT_ENGINE_END) ||
                    !watch(job, job->engine.output, EPOLLIN, EVENT_ENGINE_OUTPUT) ||
                    !watch(job, job->engine.errors, EPOLLIN, EVENT_ENGINE_ERRORS))) {
        status = error_set_errno(TUTTI_ERR_SYSTEM, "cannot wait for the engine");
    }
    if (status == TUTTI_OK && job->engine.input >= 0) {
        (void)watch(job, STDIN_FILENO, EPOLLIN, EVENT_INPUT);
    }
    return status;
}

static tutti_status job_start(struct job *job)
{
    char join[LINK_JOIN_MAX];
    tutti_status status = ranks_init(&job->ranks, job->plan->options->ranks);

    if (status == TUTTI_OK) {
        status = raise_limit(job->plan->options->ranks);
    }
    if (status == TUTTI_OK) {
        status = find_log_folder(job);
    }
    if (status == TUTTI_OK) {
        job->epoll = epoll_create1(EPOLL_CLOEXEC);
        status = job->epoll >= 0 ? open_signals(job)
                                 : error_set_errno(TUTTI_ERR_SYSTEM, "epoll");
    }
    if (status == TUTTI_OK) {
        status = open_server(job, join);
    }
    if (status == TUTTI_OK) {
        name_job(job);
        status = start_engine(job, join);
    }
    return status;
}

/*
 * Once something has failed, what the engine says is about supervisors, not about the
 * cause: it is kept.
 */
static void show_engine_line(void *context, const char *line)
{
    struct job *job = context;

    abort_words_take(&job->aborted, line, strlen(line));
    if (job->cause.kind == CAUSE_NONE && job->settle_at == 0) {
        flow_show_engine(job);
    }
}

static void hear_engine(struct job *job, int *fd)
{
    char bytes[READ_MAX];
    ssize_t done;

    if (*fd < 0) {
        return;
    }
    done = read(*fd, bytes, sizeof bytes);
    if (done > 0) {
        said_add(&job->said, bytes, (size_t)done, show_engine_line, job);
    } else if (done == 0 || (errno != EAGAIN && errno != EINTR)) {
        said_end(&job->said, show_engine_line, job);
        (void)close(*fd);
        *fd = -1;
    }
}

/*
 * What nothing is wanted of is taken out: epoll tells of a reader that has gone, or a
 * terminal, for ever and even to those who asked for nothing.
 */
static void change_events(
        const struct job *job, int fd, unsigned events, enum event what)
{
    struct epoll_event event = { .events = events, .data.u64 = (uint64_t)what };

    if (events == 0) {
        (void)epoll_ctl(job->epoll, EPOLL_CTL_DEL, fd, NULL);
    } else if (epoll_ctl(job->epoll, EPOLL_CTL_MOD, fd, &event) != 0) {
        (void)epoll_ctl(job->epoll, EPOLL_CTL_ADD, fd, &event);
    }
}

static void close_input(struct job *job)
{
    (void)epoll_ctl(job->epoll, EPOLL_CTL_DEL, STDIN_FILENO, NULL);
    (void)close(job->engine.input);
    job->engine.input = -1;
}

/* What is typed goes to the engine; a group in the background does not read. */
static void pump_input(struct job *job)
{
    ssize_t done;

    if (job->engine.input < 0 || job->input_len > 0) {
        return;
    }
    if (tcgetpgrp(STDIN_FILENO) != getpgrp()) {
        change_events(job, STDIN_FILENO, 0, EVENT_INPUT);
        return;
    }
    done = read(STDIN_FILENO, job->input, sizeof job->input);
    if (done <= 0) {
        close_input(job);
        return;
    }
    job->input_len = (size_t)done;
    change_events(job, STDIN_FILENO, 0, EVENT_INPUT);
    change_events(job, job->engine.input, EPOLLOUT, EVENT_ENGINE_INPUT);
}

static void push_input(struct job *job)
{
    ssize_t done;

    if (job->engine.input < 0 || job->input_len == 0) {
        return;
    }
    done = write(job->engine.input, job->input, job->input_len);
    if (done < 0 && errno != EAGAIN) {
        close_input(job);
        return;
    }
    if (done > 0) {
        job->input_len -= (size_t)done;
        memmove(job->input, job->input + done, job->input_len);
    }
    if (job->input_len == 0) {
        change_events(job, job->engine.input, 0, EVENT_ENGINE_INPUT);
        change_events(job, STDIN_FILENO, EPOLLIN, EVENT_INPUT);
    }
}

static void hear_signals(struct job *job)
{
    struct signalfd_siginfo info;

    while (read(job->signals, &info, sizeof info) == (ssize_t)sizeof info) {
        flow_signal(job, (int)info.ssi_signo);
    }
}

static void hear_engine_end(struct job *job)
{
    if (engine_process_reap(&job->engine)) {
        (void)epoll_ctl(job->epoll, EPOLL_CTL_DEL, job->engine.pidfd, NULL);
        /* Its last words come before what we say about its end. */
        hear_engine(job, &job->engine.output);
        hear_engine(job, &job->engine.errors);
        flow_suspect(job);
    }
}

static void hear_event(struct job *job, uint64_t what, unsigned events)
{
    if (what >= EVENT_LINKS) {
        size_t index = (size_t)(what - EVENT_LINKS);

        if ((events & EPOLLOUT) != 0 && job->server.links[index]->fd >= 0) {
            flow_send(job, job->server.links[index]);
        }
        if ((events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0) {
            hear_link(job, index, (events & (EPOLLHUP | EPOLLERR)) != 0);
        }
        return;
    }
    switch ((enum event)what) {
    case EVENT_LISTENER:
        server_accept(&job->server, (size_t)job->ranks.count + STRANGERS_MAX, job->now);
        break;
    case EVENT_SIGNALS:
        hear_signals(job);
        break;
    case EVENT_ENGINE_END:
        hear_engine_end(job);
        break;
    case EVENT_ENGINE_OUTPUT:
        hear_engine(job, &job->engine.output);
        break;
    case EVENT_ENGINE_ERRORS:
        hear_engine(job, &job->engine.errors);
        break;
    case EVENT_INPUT:
        pump_input(job);
        break;
    case EVENT_ENGINE_INPUT:
        push_input(job);
        break;
    case EVENT_STDOUT:
    case EVENT_STDERR:
        console_flush(&job->console);
        break;
    case EVENT_LINKS:
        break;
    }
}

static void watch_console(struct job *job)
{
    for (int i = 0; i < 2; i++) {
        change_events(job, job->console.streams[i].fd,
                console_waits(&job->console, i) ? EPOLLOUT : 0,
                i == 0 ? EVENT_STDOUT : EVENT_STDERR);
    }
}

static int wait_ms(const struct job *job)
{
    int64_t left = flow_next(job) - clock_ns();

    if (left <= 0) {
        return 0;
    }
    return left / JOB_NS_PER_MS >= 1000 ? 1000 : (int)(left / JOB_NS_PER_MS) + 1;
}

static void job_loop(struct job *job)
{
    struct epoll_event events[EVENTS_MAX];

    while (!flow_is_over(job)) {
        int count = epoll_wait(job->epoll, events, EVENTS_MAX, wait_ms(job));

        if (count > 0) {
            server_note_hangups(&job->server, clock_ns());
        }
        for (int i = 0; i < count; i++) {
            /* In the order of their arrival, so that the first of two has the earlier time. */
            job->now = clock_ns();
            hear_event(job, events[i].data.u64, events[i].events);
        }
        job->now = clock_ns();
        beats_step(job);
        hear_parked(job);
        flow_step(job);
        watch_console(job);
    }
}

static void say_line(void *context, const char *line)
{
    struct job *job = context;

    console_say(&job->console, "tuttirun", "%s", line);
}

static void report(struct job *job, int exit_status)
{
    const struct report_facts facts = {
        .ranks = &job->ranks,
        .cause = &job->cause,
        .start = job->start,
        .end = job->now,
        .epoch = job->console.epoch,
        .exit_status = exit_status,
        .has_hosts = ranks_have_hosts(&job->ranks),
    };
    const char *failure = job->plan->placement->failure;

    if (job->options->report != NULL &&
            report_write(&facts, job->options->report) != TUTTI_OK) {
        console_say(&job->console, "tuttirun", "%s", tutti_last_error());
    }
    if (job->cause.kind == CAUSE_NONE || job->plan->options->verbose) {
        flow_show_engine(job);
    }
    if (job->cause.kind == CAUSE_NONE || job->cause.kind == CAUSE_OUTPUT) {
        return;
    }
    if (failure[0] != '\0' && report_failure(&facts, failure) != TUTTI_OK) {
        console_say(&job->console, "tuttirun", "%s", tutti_last_error());
    }
    report_text(&facts, say_line, job);
}

/* Nothing is left to end but to wait for a reader that may never come. */
static void let_signals_end_us(void)
{
    static const int numbers[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT };
    sigset_t set;

    (void)sigemptyset(&set);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        (void)sigaddset(&set, numbers[i]);
    }
    (void)pthread_sigmask(SIG_UNBLOCK, &set, NULL);
}

static int job_end(struct job *job)
{
    int exit_status = job->cause.exit_status;

    report(job, exit_status);
    engine_process_fini(&job->engine);
    if (job->cause.kind != CAUSE_NONE) {
        engine_process_end_rest(flow_engine_patience_ms(job));
    }
    server_fini(&job->server);
    ranks_fini(&job->ranks);
    if (console_waits(&job->console, 0) || console_waits(&job->console, 1)) {
        let_signals_end_us();
    }
    console_close(&job->console);
    if (job->signals >= 0) {
        (void)close(job->signals);
    }
    if (job->epoll >= 0) {
        (void)close(job->epoll);
    }
    mem_free(job);
    return exit_status;
}

int job_run(const struct job_plan *plan)
{
    struct job *job = mem_calloc(1, sizeof *job);

    if (job == NULL) {
        (void)fprintf(stderr, "tuttirun: out of memory\n");
        return JOB_EXIT_LAUNCHER;
    }
    *job = (struct job){
        .plan = plan,
        .options = &plan->options->job,
        .engine = engine_process_none,
        .cause.rank = -1,
        .server = { .listener = -1, .hangups = -1 },
        .epoll = -1,
        .signals = -1,
        .now = clock_ns(),
    };
    job->start = job->now;
    name_engine(job);
    console_open(&job->console, job->options, plan->options->ranks);
    job->console.has_hosts = plan->placement->hosts.count > 1;
    if (job_start(job) == TUTTI_OK) {
        job_loop(job);
    } else {
        job->cause = (struct cause){
            .kind = CAUSE_LAUNCHER,
            .rank = -1,
            .exit_status = JOB_EXIT_LAUNCHER,
            .when = job->now,
        };
        (void)snprintf(
                job->cause.text, sizeof job->cause.text, "%s", tutti_last_error());
    }
    return job_end(job);
}
