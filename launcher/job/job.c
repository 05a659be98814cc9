/*
 * tuttirun while a job runs: one loop over the links of supervisors, the MPI launcher, signals
 * and the terminal. What is decided is in flow.c.
 */
#include "launcher/job/job.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "launcher/exec/logs.h"
#include "launcher/exit_status.h"
#include "launcher/here/here.h"
#include "launcher/job/flow.h"
#include "launcher/job/recordings.h"
#include "launcher/job/report.h"
#include "launcher/job/root_cause.h"
#include "launcher/mpi_launcher/job_network.h"
#include "launcher/session/link.h"
#include "launcher/session/loop.h"
#include "launcher/signals.h"

enum {
    READ_MAX = 4096,
    LIST_MAX = 128 /* bytes of a list of ranks with its zero */
};

static bool watch(struct job *job, int fd, unsigned events, enum job_watch what)
{
    return loop_set(&job->loop, &job->watches[what], fd, events);
}

static tutti_status open_signals(struct job *job)
{
    job->signals.fd = signals_open(0);
    if (job->signals.fd < 0 || !watch(job, job->signals.fd, EPOLLIN, JOB_SIGNALS)) {
        return error_set_errno(TUTTI_ERR_SYSTEM, "cannot receive signals");
    }
    return TUTTI_OK;
}

/* Outside of an allocation, srun asks for one: its hosts are not known before. */
static bool finds_hosts(const struct job *job)
{
    return job->plan->placement->hosts.count == 0 &&
            strcmp(job->launcher.name, "srun") == 0;
}

static bool is_local(const struct job *job)
{
    return !finds_hosts(job) && network_is_here(&job->plan->placement->hosts);
}

/* The addresses at which supervisors find us. */
static tutti_status find_addresses(const struct job *job, struct link_address *address)
{
    char addresses[LINK_ADDRESSES_MAX][NETWORK_ADDRESS_MAX];
    tutti_status status = network_addresses(
            finds_hosts(job) ? NULL : &job->plan->placement->hosts,
            job->plan->options->nic, addresses, LINK_ADDRESSES_MAX, &address->count);

    for (size_t i = 0; status == TUTTI_OK && i < address->count; i++) {
        (void)snprintf(address->addresses[i], LINK_ADDRESS_MAX, "%s", addresses[i]);
    }
    return status;
}

/* The token, and where we listen; where each host starts its own ranks, both are known to all. */
static tutti_status begin_server(struct job *job, bool only_local)
{
    const struct join_place *place = &job->plan->placement->join;
    tutti_status status = TUTTI_OK;

    job->server.awaited = (size_t)job->ranks.count;
    if (place->nodes > 1) {
        here_token(place, job->server.token);
        job->server.port = (uint16_t)place->port;
    } else {
        status = server_make_token(&job->server);
    }
    if (status == TUTTI_OK && server_open(&job->server, only_local) != TUTTI_OK) {
        status = place->nodes > 1
                ? error_set_errno(TUTTI_ERR_SYSTEM,
                          "listen on port %d for the other hosts (--join-port)",
                          place->port)
                : TUTTI_ERR_SYSTEM;
    }
    return status;
}

static tutti_status open_server(struct job *job, char join[LINK_JOIN_MAX])
{
    /* Where we listen for this machine alone, whichever networks --nic names; and for our own
       ranks, where each host starts its own. */
    struct link_address address = { .count = 1, .addresses = { "127.0.0.1" } };
    const bool is_here = job->plan->placement->join.nodes > 1;
    const bool only_local = !is_here && is_local(job);
    tutti_status status = begin_server(job, only_local);

    if (status == TUTTI_OK && !only_local && !is_here) {
        status = find_addresses(job, &address);
    }
    if (status != TUTTI_OK) {
        return status;
    }
    (void)snprintf(address.token, sizeof address.token, "%s", job->server.token);
    address.port = job->server.port;
    link_address_format(&address, join);
    return server_begin(&job->server, &job->loop)
            ? TUTTI_OK
            : error_set_errno(TUTTI_ERR_SYSTEM, "cannot wait for supervisors");
}

void job_make_name(char name[JOB_NAME_MAX])
{
    unsigned number;

    if (getrandom(&number, sizeof number, 0) != (ssize_t)sizeof number) {
        number = (unsigned)clock_ns();
    }
    (void)snprintf(name, JOB_NAME_MAX, "%d-%08x", (int)getpid(), number);
}

static void name_job(struct job *job)
{
    if (job->hooks != NULL) {
        (void)snprintf(job->name, sizeof job->name, "%s", job->hooks->job);
    } else {
        job_make_name(job->name);
    }
}

/* Supervisors may run in another folder. */
static tutti_status make_absolute(
        const char *flag, const char *path, char absolute[JOB_PATH_MAX])
{
    char here[PATH_MAX];
    int len;

    if (path == NULL) {
        return TUTTI_OK;
    }
    if (path[0] == '/') {
        len = snprintf(absolute, JOB_PATH_MAX, "%s", path);
    } else if (getcwd(here, sizeof here) != NULL) {
        len = snprintf(absolute, JOB_PATH_MAX, "%s/%s", here, path);
    } else {
        return error_set_errno(TUTTI_ERR_SYSTEM, "%s %s", flag, path);
    }
    if (len < 0 || len >= LINK_TEXT_MAX - 64) {
        return error_set(TUTTI_ERR_INVALID, "%s %s: too long", flag, path);
    }
    return TUTTI_OK;
}

/* "mpirun" of /usr/bin/mpirun.openmpi */
static void name_launcher(struct job *job)
{
    const char *path = job->plan->command[0];
    const char *slash = strrchr(path, '/');

    (void)snprintf(job->launcher.name, sizeof job->launcher.name, "%s",
            slash == NULL ? path : slash + 1);
    job->launcher.name[strcspn(job->launcher.name, ".")] = '\0';
    if (strcmp(job->plan->command[1], "--start") == 0) {
        (void)snprintf(job->launcher.name, sizeof job->launcher.name, "the starter");
    }
}

static tutti_status start_launcher(struct job *job, const char *join)
{
    struct arguments environment = { .items = NULL };
    tutti_status status;

    arguments_add_all(&environment, job->plan->environment);
    arguments_set(&environment, LINK_VARIABLE, join);
    status = arguments_status(&environment);
    if (status == TUTTI_OK) {
        job_advance(&job->state, JOB_SPAWNING);
        status = launcher_process_start(
                &job->launcher.process, job->plan->command, environment.items);
    }
    arguments_fini(&environment);
    if (status == TUTTI_OK &&
            (!watch(job, job->launcher.process.pidfd, EPOLLIN, JOB_LAUNCHER_END) ||
                    !watch(job, job->launcher.process.output, EPOLLIN,
                            JOB_LAUNCHER_OUTPUT) ||
                    !watch(job, job->launcher.process.errors, EPOLLIN,
                            JOB_LAUNCHER_ERRORS))) {
        status = error_set_errno(TUTTI_ERR_SYSTEM, "cannot wait for the engine");
    }
    return status;
}

static tutti_status job_start(struct job *job)
{
    char join[LINK_JOIN_MAX];
    char logs[JOB_PATH_MAX];
    tutti_status status = ranks_init(&job->ranks, job->plan->options->np);

    if (status == TUTTI_OK) {
        status = server_raise_limit(job->plan->options->np);
    }
    if (status == TUTTI_OK) {
        generation_path(logs, sizeof logs,
                job->options->log_dir == NULL ? "" : job->options->log_dir,
                job_generation(job));
        status = make_absolute(
                "--log-dir", logs[0] == '\0' ? NULL : logs, job->paths.log_folder);
    }
    if (status == TUTTI_OK) {
        status = make_absolute(
                "--metrics-file", job->options->metrics_file, job->paths.metrics_file);
    }
    if (status == TUTTI_OK) {
        status = loop_init(&job->loop);
    }
    /* It looks up names, which may take long: signals are still to end us at once. */
    if (status == TUTTI_OK) {
        status = open_server(job, join);
    }
    if (status == TUTTI_OK) {
        status = open_signals(job);
    }
    if (status == TUTTI_OK) {
        name_job(job);
        dashboard_begin(job);
        status = start_launcher(job, join);
    }
    if (status == TUTTI_OK && job->hooks != NULL &&
            !job->hooks->begin(job->hooks->owner, job)) {
        status = error_set_errno(TUTTI_ERR_SYSTEM, "cannot wait for keepers");
    }
    return status;
}

/* The ranks that left without tutti_finalize(). */
static int list_left(const struct job *job, char text[LIST_MAX])
{
    return ranks_list(&job->ranks, root_cause_has_left, text, LIST_MAX);
}

/*
 * Once something has failed, what the MPI launcher prints is about supervisors, not about the
 * cause: it is kept.
 */
static void show_launcher_line(void *context, const char *line)
{
    struct job *job = context;
    char list[LIST_MAX];

    abort_words_take(&job->launcher.aborted, line, strlen(line));
    if (job->cause.kind == CAUSE_NONE && job->due.settle_at == 0 &&
            list_left(job, list) == 0) {
        flow_show_launcher(job);
    }
}

static void read_stream(struct job *job, enum job_watch what, int *fd)
{
    char bytes[READ_MAX];
    ssize_t done;

    if (*fd < 0) {
        return;
    }
    done = read(*fd, bytes, sizeof bytes);
    if (done > 0) {
        launcher_output_add(
                &job->launcher.output, bytes, (size_t)done, show_launcher_line, job);
    } else if (done == 0 || (errno != EAGAIN && errno != EINTR)) {
        launcher_output_end(&job->launcher.output, show_launcher_line, job);
        loop_close(&job->loop, &job->watches[what], fd);
    }
}

static void read_launcher(struct job *job)
{
    read_stream(job, JOB_LAUNCHER_OUTPUT, &job->launcher.process.output);
    read_stream(job, JOB_LAUNCHER_ERRORS, &job->launcher.process.errors);
}

static void close_input(struct job *job)
{
    (void)watch(job, STDIN_FILENO, 0, JOB_INPUT);
    loop_close(&job->loop, &job->watches[JOB_LAUNCHER_INPUT],
            &job->launcher.process.input);
}

/*
 * A group in the background does not read the terminal. No signal reports that it is in the foreground
 * again, so that is looked for whenever we wake, at the latest for a heartbeat.
 */
static bool may_read(const struct job *job)
{
    return job->launcher.process.input >= 0 && job->input.len == 0 &&
            tcgetpgrp(STDIN_FILENO) == getpgrp();
}

/* What is typed goes to the MPI launcher. */
static void pump_input(void *context, unsigned ready)
{
    struct job *job = context;
    ssize_t done;

    (void)ready;
    if (!may_read(job)) {
        return;
    }
    done = read(STDIN_FILENO, job->input.bytes, sizeof job->input.bytes);
    if (done <= 0) {
        close_input(job);
        return;
    }
    job->input.len = (size_t)done;
}

static void push_input(void *context, unsigned ready)
{
    struct job *job = context;
    ssize_t done;

    (void)ready;
    if (job->launcher.process.input < 0 || job->input.len == 0) {
        return;
    }
    done = write(job->launcher.process.input, job->input.bytes, job->input.len);
    if (done < 0 && errno != EAGAIN) {
        close_input(job);
        return;
    }
    if (done > 0) {
        job->input.len -= (size_t)done;
        memmove(job->input.bytes, job->input.bytes + done, job->input.len);
    }
}

static void on_signals(void *context, unsigned ready)
{
    struct job *job = context;
    struct signalfd_siginfo info;

    (void)ready;
    while (read(job->signals.fd, &info, sizeof info) == (ssize_t)sizeof info) {
        const bool wants_stacks = signals_wants_stacks(info.ssi_code, info.ssi_int);

        if (info.ssi_signo == SIGUSR2 && timelines_toggle(job)) {
            continue;
        }
        if (info.ssi_signo == SIGUSR1 && (wants_stacks || job->hooks == NULL)) {
            recordings_ask(job, wants_stacks);
        }
        if (info.ssi_signo != SIGUSR1 || !wants_stacks) {
            flow_signal(job, (int)info.ssi_signo);
        }
    }
}

static void on_launcher_end(void *context, unsigned ready)
{
    struct job *job = context;

    (void)ready;
    if (launcher_process_reap(&job->launcher.process)) {
        (void)watch(job, job->launcher.process.pidfd, 0, JOB_LAUNCHER_END);
        /* Its last words come before our line about its end. */
        read_launcher(job);
        flow_suspect(job);
    }
}

static void on_link(void *context, unsigned ready)
{
    struct server_link *link = context;
    struct job *job = link->server->owner;

    if ((ready & (unsigned)EPOLLOUT) != 0) {
        flow_flush(job, link);
    }
    if ((ready & (unsigned)(EPOLLIN | EPOLLHUP | EPOLLERR)) != 0) {
        supervisor_events_read(
                job, link, (ready & (unsigned)(EPOLLHUP | EPOLLERR)) != 0);
    }
}

static void on_launcher(void *context, unsigned ready)
{
    (void)ready;
    read_launcher(context);
}

static void on_console(void *context, unsigned ready)
{
    struct job *job = context;

    (void)ready;
    console_flush(&job->console);
}

static void set_calls(struct job *job)
{
    static void (*const calls[JOB_WATCHES])(void *context, unsigned ready) = {
        [JOB_SIGNALS] = on_signals,
        [JOB_LAUNCHER_END] = on_launcher_end,
        [JOB_LAUNCHER_OUTPUT] = on_launcher,
        [JOB_LAUNCHER_ERRORS] = on_launcher,
        [JOB_INPUT] = pump_input,
        [JOB_LAUNCHER_INPUT] = push_input,
        [JOB_STDOUT] = on_console,
        [JOB_STDERR] = on_console,
    };

    for (int i = 0; i < JOB_WATCHES; i++) {
        job->watches[i] = (struct loop_watch){ .call = calls[i], .context = job };
    }
    job->server.protocol = &link_protocol;
    job->server.hello = supervisor_events_hello;
    job->server.call = on_link;
    job->server.owner = job;
}

static void watch_terminal(struct job *job)
{
    (void)watch(job, STDIN_FILENO, may_read(job) ? EPOLLIN : 0, JOB_INPUT);
    (void)watch(job, job->launcher.process.input, job->input.len > 0 ? EPOLLOUT : 0,
            JOB_LAUNCHER_INPUT);
    for (int i = 0; i < 2; i++) {
        (void)watch(job, job->console.streams[i].fd,
                console_waits(&job->console, i) ? EPOLLOUT : 0,
                i == 0 ? JOB_STDOUT : JOB_STDERR);
    }
}

static int64_t next_turn(const struct job *job)
{
    const struct job_hooks *hooks = job->hooks;
    const int64_t next = flow_next(job);
    const int64_t other = hooks == NULL ? INT64_MAX : hooks->next(hooks->owner, job);

    return next < other ? next : other;
}

static void job_loop(struct job *job)
{
    watch_terminal(job);
    while (!flow_is_over(job)) {
        struct loop_watch *ready;

        if (loop_wait(&job->loop, next_turn(job)) > 0) {
            server_note_hangups(&job->server, clock_ns());
        }
        while ((ready = loop_next(&job->loop)) != NULL) {
            /* In the order of their arrival, so that the first of two has the earlier time. */
            job->now = clock_ns();
            ready->call(ready->context, ready->ready);
        }
        job->now = clock_ns();
        if (job->launcher.process.pidfd < 0) { /* no descriptor was left for it */
            on_launcher_end(job, 0);
        }
        beats_step(job);
        supervisor_events_resume(job);
        exchange_step(job);
        recordings_step(job);
        top_step(job);
        flow_step(job);
        if (job->hooks != NULL) {
            job->hooks->turn(job->hooks->owner, job);
        }
        watch_terminal(job);
    }
}

static void print_line(void *context, const char *line)
{
    struct job *job = context;

    console_print(&job->console, "tuttirun", "%s", line);
}

/* Who left without tutti_finalize(), when all is over: MPI launchers use twenty lines for it. */
static bool report_left(struct job *job)
{
    char list[LIST_MAX];
    int left = list_left(job, list);

    if (left > 0) {
        console_print(&job->console, "tuttirun",
                "rank%s %s exited with status 0 without calling tutti_finalize()",
                left == 1 ? "" : "s", list);
    }
    return left > 0;
}

/* Of a generation that another one follows: a line. */
static void report_end(struct job *job)
{
    if (job->cause.kind != CAUSE_NONE) {
        console_print(&job->console, "tuttirun", "%s", job->cause.text);
    }
    timelines_end(job);
    recordings_drop(job);
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

    timelines_end(job);
    if (job->options->report != NULL &&
            report_write(&facts, job->options->report) != TUTTI_OK) {
        console_print(&job->console, "tuttirun", "%s", tutti_last_error());
    }
    if ((job->cause.kind == CAUSE_NONE && !report_left(job)) ||
            job->plan->options->verbose) {
        flow_show_launcher(job);
    }
    if (job->cause.kind == CAUSE_NONE || job->cause.kind == CAUSE_OUTPUT) {
        recordings_end(job);
        return;
    }
    if (failure[0] != '\0' && report_failure(&facts, failure) != TUTTI_OK) {
        console_print(&job->console, "tuttirun", "%s", tutti_last_error());
    }
    recordings_end(job);
    report_text(&facts, print_line, job);
}

/*
 * Where tuttirun knows no cause, an MPI launcher that ended by itself may: ranks that did not
 * finalize MPI, for one.
 */
static int exit_status_of(const struct job *job)
{
    const int status = job->launcher.process.status;

    return job->cause.kind == CAUSE_NONE && job->launcher.term_at != 0 &&
                    WIFEXITED(status)
            ? WEXITSTATUS(status)
            : job->cause.exit_status;
}

static int job_end(struct job *job)
{
    const struct job_hooks *hooks = job->hooks;
    int exit_status = exit_status_of(job);

    top_end(job);
    if (hooks != NULL && hooks->end(hooks->owner, job)) {
        report_end(job);
    } else {
        report(job, exit_status);
        console_flush(&job->console);
        dashboard_show_end(job);
    }
    dashboard_end(job);
    launcher_process_fini(&job->launcher.process);
    if (job->cause.kind != CAUSE_NONE) {
        launcher_process_end_rest(
                flow_launcher_patience_ms(job), job->options->ssh_share);
    }
    server_fini(&job->server);
    exchange_fini(&job->exchange);
    ranks_fini(&job->ranks);
    if (console_waits(&job->console, 0) || console_waits(&job->console, 1)) {
        signals_let_all(); /* a reader may never come, and nothing else is left to end */
    }
    console_close(&job->console);
    fd_close(&job->signals.fd);
    loop_fini(&job->loop);
    mem_free(job);
    return exit_status;
}

int job_run(const struct job_plan *plan)
{
    struct job *job = mem_calloc(1, sizeof *job);

    if (job == NULL) {
        (void)fprintf(stderr, "tuttirun: out of memory\n");
        return EXIT_LAUNCHER;
    }
    *job = (struct job){
        .plan = plan,
        .options = plan->options,
        .hooks = plan->hooks,
        .launcher.process = launcher_process_none,
        .cause.rank = -1,
        .server = { .listener.fd = -1, .hangups = -1 },
        .dashboard.http.listener.fd = -1,
        .loop.epoll = -1,
        .signals.fd = -1,
        .now = clock_ns(),
    };
    job->start = job->now;
    job->beats.interval_ms = beats_interval_ms(plan->options);
    set_calls(job);
    name_launcher(job);
    console_open(&job->console, job->options, plan->options->np);
    job->console.has_hosts = plan->placement->hosts.count > 1;
    if (job_start(job) == TUTTI_OK) {
        job_loop(job);
    } else {
        job->cause = (struct cause){
            .kind = CAUSE_LAUNCHER,
            .rank = -1,
            .exit_status = EXIT_LAUNCHER,
            .when = job->now,
        };
        (void)snprintf(
                job->cause.text, sizeof job->cause.text, "%s", tutti_last_error());
    }
    return job_end(job);
}
