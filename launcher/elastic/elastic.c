#include "launcher/elastic/elastic.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <tutti/trainer/elastic.h>

#include "base/clock.h"
#include "base/error.h"
#include "launcher/arguments.h"
#include "launcher/elastic/members.h"
#include "launcher/elastic/ssh_share.h"
#include "launcher/exec/keeper.h"
#include "launcher/exit_status.h"
#include "launcher/hosts/script_hosts.h"
#include "launcher/job/flow.h"
#include "launcher/mpi_launcher/job_network.h"
#include "launcher/process.h"
#include "launcher/program.h"
#include "launcher/session/loop.h"
#include "launcher/session/server.h"
#include "launcher/signals.h"

/* The discovery script, asked again and again while a job runs. */
struct discovery {
    char path[PATH_MAX]; /* of the script; "": there is none                */
    int slots; /* of a host without a number                            */
    char *const *environment; /* borrowed                               */
    struct loop *loop; /* that it is waited with; NULL: none            */
    struct process process;
    bool is_asked; /* the process runs                                  */
    bool has_failed; /* the last time, which was said                     */
    int64_t due; /* when it is asked, or killed where it runs         */
};

static const int64_t pause_ns = 1000000000; /* as horovodrun has it */
static const int64_t limit_ns = 60000000000;

static void discovery_begin(struct discovery *discovery, struct loop *loop)
{
    discovery->loop = loop;
    discovery->due = clock_ns() + pause_ns;
}

static void discovery_end(struct discovery *discovery)
{
    if (discovery->is_asked) {
        process_fini(&discovery->process);
        discovery->is_asked = false;
    }
    discovery->loop = NULL;
}

/* The hosts stay as they were. */
static void send_failure(struct discovery *discovery)
{
    if (!discovery->has_failed) {
        (void)fprintf(stderr, "tuttirun: the hosts stay as they are: %s\n",
                tutti_last_error());
    }
    discovery->has_failed = true;
}

static void ask(struct discovery *discovery, int64_t now)
{
    char *const argv[] = { discovery->path, NULL };

    if (process_start_group(&discovery->process, argv, discovery->environment) !=
            TUTTI_OK) {
        send_failure(discovery);
        discovery->due = now + pause_ns;
        return;
    }
    process_close_input(&discovery->process);
    process_watch(&discovery->process, discovery->loop);
    discovery->is_asked = true;
    discovery->due = now + limit_ns;
}

static bool take(struct discovery *discovery, struct host_list *list)
{
    tutti_status status = script_hosts_take(&discovery->process, discovery->path, list);

    if (status == TUTTI_OK) {
        status = host_list_imply(list, discovery->slots);
    }
    if (status != TUTTI_OK) {
        send_failure(discovery);
        return false;
    }
    discovery->has_failed = false;
    return true;
}

/* Does what is due. True when it has answered; the hosts are then in the list, which was empty. */
static bool discovery_turn(
        struct discovery *discovery, int64_t now, struct host_list *list)
{
    bool has_answered = false;

    if (discovery->path[0] == '\0' || discovery->loop == NULL) {
        return false;
    }
    if (!discovery->is_asked && now >= discovery->due) {
        ask(discovery, now);
    } else if (discovery->is_asked &&
            (discovery->process.has_ended || now >= discovery->due)) {
        has_answered = discovery->process.has_ended && take(discovery, list);
        process_fini(&discovery->process); /* kills one that takes too long */
        discovery->is_asked = false;
        discovery->due = now + pause_ns;
    }
    return has_answered;
}

/* When something is due; INT64_MAX: not by time. */
static int64_t discovery_next(const struct discovery *discovery)
{
    return discovery->path[0] == '\0' || discovery->loop == NULL ? INT64_MAX
                                                                 : discovery->due;
}

enum {
    KEEPERS_END_MS = 1000, /* that keepers have to end in */
    NAP_MS = 100, /* between looks for signals while hosts are waited for */
    MS = 1000000 /* ns */
};

struct elastic {
    const struct options *options; /* of the job                               */
    const struct placement *placement; /* where the first generation may run   */
    char *const *environment;
    elastic_generation generation;
    struct job_hooks hooks; /* for launcher/job                                  */
    char job[JOB_NAME_MAX]; /* identity of all generations                       */
    struct members members;
    struct discovery discovery;
    int most; /* ranks of a generation at most                                   */
    int64_t start; /* of the job, our clock                                      */
    int64_t look_at; /* when a host comes back; INT64_MAX: none does              */
    bool has_changed; /* the list of hosts, which was not looked at yet           */

    struct server keepers; /* connections, which are only held                   */
    struct loop loop; /* of them: that of a generation goes before they do       */
    struct loop_watch watch; /* of it, in the one of the generation              */

    struct options now; /* of a generation: ranks, hosts and time left           */
    enum judge_verdict verdict; /* of the last one                               */
    bool was_told_to_leave; /* its ranks, by a signal to tuttirun                */
    bool must_leave; /* the ranks of the next one, for the signal came too late    */
    int resets; /* starts after the first                                        */
    char ssh_share[SSH_SHARE_MAX]; /* "": there is none                          */
};

static int64_t nearer(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static void say(const char *text)
{
    (void)fprintf(stderr, "tuttirun: %s\n", text);
}

/* ---------------------------------------------------------------- keepers */

static void take_keeper(struct server_link *link, struct meet_hello *said)
{
    if (said != NULL) {
        link->rank = 0;
        meet_welcome(&link->session, &keeper_protocol, NULL, 0);
        (void)server_flush(link);
    }
}

/* It says nothing: it has ended. */
static void lose_keeper(void *context, unsigned ready)
{
    struct server_link *link = context;

    (void)ready;
    if (!session_receive(&link->session)) {
        session_lose(&link->session);
        link->rank = -1;
        link->server->has_gone = true;
    }
}

static void on_keepers(void *context, unsigned ready)
{
    struct elastic *elastic = context;

    (void)ready;
    (void)loop_turn(&elastic->loop, 0);
}

/* They end when their connections do. Waits for that, so that nothing is left when we end. */
static void end_keepers(struct elastic *elastic)
{
    const int64_t deadline = clock_ns() + (int64_t)KEEPERS_END_MS * MS;
    struct server *keepers = &elastic->keepers;

    for (size_t i = 0; i < keepers->count; i++) {
        (void)shutdown(keepers->links[i]->session.fd, SHUT_WR);
    }
    for (size_t i = 0; i < keepers->count; i++) {
        const struct server_link *link = keepers->links[i];
        struct pollfd polled = { .fd = link->session.fd, .events = POLLIN };

        if (link->rank >= 0) { /* else a stranger's, which may stay */
            (void)poll(&polled, 1, loop_ms_until(deadline));
        }
    }
    server_fini(keepers);
    loop_fini(&elastic->loop);
}

/* --------------------------------------------------- while a generation runs */

/* Of the hosts that it runs on. */
static bool lost_a_host(const struct elastic *elastic)
{
    for (size_t i = 0; i < elastic->now.hosts.count; i++) {
        const int index =
                members_find(&elastic->members, elastic->now.hosts.hosts[i].name);

        if (index < 0 || !elastic->members.items[index].is_listed) {
            return true;
        }
    }
    return false;
}

/* The ranks leave when a host of theirs was taken away, or when there can be more of them. */
static void reshape(struct elastic *elastic, struct job *job)
{
    const int64_t now = job->now;
    const int ranks = members_choose(&elastic->members, elastic->most, now, NULL);
    const bool lost = lost_a_host(elastic);

    elastic->look_at = members_next_return(&elastic->members, now);
    elastic->has_changed = false;
    if ((lost && ranks >= elastic->options->min_np) || ranks > elastic->now.np) {
        console_print(&job->console, "tuttirun",
                "hosts have %s: the ranks are told to leave and be started anew, %d of "
                "them",
                lost ? "changed" : "come", ranks);
        flow_notice(job, TUTTI_NOTICE_HOSTS);
    }
}

static bool begin(void *owner, struct job *job)
{
    struct elastic *elastic = owner;
    const int dashboard = http_port(&job->dashboard.http);

    if (dashboard != 0) {
        elastic->hooks.dashboard_port = (uint16_t)dashboard;
    }
    elastic->look_at = members_next_return(&elastic->members, clock_ns());
    discovery_begin(&elastic->discovery, &job->loop);
    /* A keeper has the secret of the generation that starts it. */
    memcpy(elastic->keepers.token, job->server.token, sizeof job->server.token);
    elastic->watch = (struct loop_watch){ .call = on_keepers, .context = elastic };
    return server_begin(&elastic->keepers, &elastic->loop) &&
            loop_set(&job->loop, &elastic->watch, elastic->loop.epoll, EPOLLIN);
}

/* Takes a new list, if there is one. */
static void discover(struct elastic *elastic, int64_t now)
{
    struct host_list list = { .hosts = NULL };

    if (discovery_turn(&elastic->discovery, now, &list) &&
            members_update(&elastic->members, &list) == TUTTI_OK) {
        elastic->has_changed = true;
    }
    host_list_fini(&list);
}

static void turn(void *owner, struct job *job)
{
    struct elastic *elastic = owner;

    on_keepers(elastic, 0); /* a stranger's time may be up */
    discover(elastic, job->now);
    if (job->state != JOB_RUNNING) {
        return;
    }
    if (job->signals.must_leave || elastic->must_leave) {
        flow_notice(job, TUTTI_NOTICE_LEAVE);
    } else if (elastic->has_changed || job->now >= elastic->look_at) {
        reshape(elastic, job);
    }
}

static int64_t next(void *owner, const struct job *job)
{
    const struct elastic *elastic = owner;
    const int64_t due = discovery_next(&elastic->discovery);

    if (job->state != JOB_RUNNING) {
        return due;
    }
    return elastic->has_changed ? 0 : nearer(due, elastic->look_at);
}

/* ------------------------------------------------------- between generations */

static bool launcher_names(const void *context, const char *host)
{
    const struct job *job = context;
    const size_t kept = launcher_output_kept(&job->launcher.output);

    for (size_t i = 0; i < kept; i++) {
        if (judge_names(launcher_output_line(&job->launcher.output, i), host)) {
            return true;
        }
    }
    return false;
}

/* Slots that there are, or that will be when hosts come back. */
static bool may_go_on(const struct elastic *elastic)
{
    const int64_t never = INT64_MAX - 1;

    return elastic->discovery.path[0] != '\0' ||
            members_choose(&elastic->members, elastic->most, never, NULL) >=
            elastic->options->min_np;
}

static bool end(void *owner, const struct job *job)
{
    struct elastic *elastic = owner;
    const int limit = elastic->options->reset_limit;
    const struct judge_facts facts = {
        .generation = elastic->hooks.generation,
        .ranks = &job->ranks,
        .cause = &job->cause,
        .hosts = &elastic->now.hosts,
        .orphan = job->launcher.has_orphan ? job->launcher.orphan : -1,
        .names = launcher_names,
        .context = job,
    };

    discovery_end(&elastic->discovery);
    elastic->was_told_to_leave = job->notice == TUTTI_NOTICE_LEAVE;
    elastic->must_leave |= job->signals.must_leave;
    elastic->verdict = job->signals.was_interrupted ? JUDGE_FATAL : judge_end(&facts);
    if (elastic->verdict == JUDGE_FAILED) {
        judge_hosts(&facts, &elastic->members, job->now);
    }
    if (elastic->was_told_to_leave || elastic->verdict == JUDGE_FINISHED ||
            elastic->verdict == JUDGE_FATAL) {
        return false;
    }
    if (limit > 0 && elastic->resets >= limit) {
        say("the job was started anew as often as --reset-limit allows");
        elastic->verdict = JUDGE_FATAL;
    } else if (!may_go_on(elastic)) {
        say("the hosts that are left have too few slots for --min-np");
        elastic->verdict = JUDGE_FATAL;
    }
    return elastic->verdict != JUDGE_FATAL;
}

/* A signal that ends us while no generation runs; 0: none. */
static int take_signal(int signals)
{
    struct signalfd_siginfo info;
    const bool came = read(signals, &info, sizeof info) == (ssize_t)sizeof info;
    const int number = came ? (int)info.ssi_signo : 0;

    return number == SIGTSTP || number == SIGUSR2 ||
                    (came && signals_wants_stacks(info.ssi_code, info.ssi_int))
            ? 0
            : number;
}

/* Waits until there are `need` slots. @return 0, or an exit status */
static int wait_for_slots(
        struct elastic *elastic, int need, struct loop *loop, int signals)
{
    const int64_t begun = clock_ns();
    const int64_t deadline = begun + (int64_t)elastic->options->elastic_timeout_ms * MS;
    int64_t now = begun;
    /* a signal that came too late for the last ranks, and there are none to be told now */
    int number = elastic->must_leave ? SIGTERM : 0;
    int ranks;

    while ((ranks = members_choose(&elastic->members, elastic->most, now, NULL)) <
                    need &&
            now < deadline && number == 0 && (number = take_signal(signals)) == 0) {
        if (now == begun) {
            (void)fprintf(stderr,
                    "tuttirun: waiting for hosts: there are %d slots, and %d are "
                    "needed\n",
                    ranks, need);
        }
        (void)loop_turn(loop, nearer(now + (int64_t)NAP_MS * MS, deadline));
        now = clock_ns();
        discover(elastic, now);
    }
    if (ranks < need && number != 0) {
        (void)fprintf(stderr,
                "tuttirun: ended while there were %d of the %d slots that are needed; "
                "what was not saved as a checkpoint is lost\n",
                ranks, need);
        return number == SIGTERM || number == SIGUSR1 ? TUTTI_EXIT_AGAIN : 128 + number;
    }
    if (ranks < need) {
        (void)fprintf(stderr,
                "tuttirun: within the %g s of --elastic-timeout there were not %d "
                "slots, but %d\n",
                elastic->options->elastic_timeout_ms / 1000.0, need, ranks);
        return EXIT_LAUNCHER;
    }
    return 0;
}

static int wait_for_hosts(struct elastic *elastic)
{
    /* horovodrun, too, begins with as many ranks as were asked for */
    const int first =
            elastic->options->np < elastic->most ? elastic->options->np : elastic->most;
    const int need = elastic->hooks.generation == 1 && first > elastic->options->min_np
            ? first
            : elastic->options->min_np;
    struct loop loop = { .epoll = -1 };
    int signals = signals_open(0);
    int result = EXIT_LAUNCHER;

    if (signals >= 0 && loop_init(&loop) == TUTTI_OK) {
        discovery_begin(&elastic->discovery, &loop);
        result = wait_for_slots(elastic, need, &loop, signals);
        discovery_end(&elastic->discovery);
    } else {
        (void)fprintf(stderr, "tuttirun: cannot wait for hosts\n");
    }
    loop_fini(&loop);
    fd_close(&signals);
    signals_let_all(); /* until ranks run there is nothing that we have to end */
    return result;
}

/* Ranks, hosts and time of the next generation. */
static tutti_status plan(struct elastic *elastic)
{
    const int64_t now = clock_ns();
    const int64_t left_ms = elastic->options->timeout_ms - (now - elastic->start) / MS;

    elastic->now = *elastic->options;
    elastic->now.hosts = (struct host_list){ .hosts = NULL };
    elastic->now.ssh_share = elastic->ssh_share[0] != '\0' ? elastic->ssh_share : NULL;
    elastic->now.np =
            members_choose(&elastic->members, elastic->most, now, &elastic->now.hosts);
    if (elastic->options->timeout_ms > 0) {
        elastic->now.timeout_ms = left_ms > 1 ? (int)left_ms : 1;
    }
    return elastic->now.np < 0 ? error_set(TUTTI_ERR_NO_MEMORY, "out of memory")
                               : TUTTI_OK;
}

static int run_next(struct elastic *elastic)
{
    struct placement placement = *elastic->placement;
    int result = wait_for_hosts(elastic);

    elastic->verdict = JUDGE_FATAL;
    if (result != 0) {
        return result;
    }
    if (plan(elastic) != TUTTI_OK) {
        say(tutti_last_error());
        result = EXIT_LAUNCHER;
    } else {
        if (elastic->hooks.generation > 1) {
            (void)fprintf(stderr, "tuttirun: generation %u: %d rank%s\n",
                    elastic->hooks.generation, elastic->now.np,
                    elastic->now.np == 1 ? "" : "s");
        }
        placement.hosts = elastic->now.hosts;
        result = elastic->generation(
                &elastic->now, &placement, &elastic->hooks, elastic->environment);
    }
    host_list_fini(&elastic->now.hosts);
    /* What MPI launchers left behind has become ours. */
    while (waitpid(-1, NULL, WNOHANG) > 0) {
    }
    return result;
}

static int run_all(struct elastic *elastic)
{
    for (;;) {
        const int result = run_next(elastic);

        if (elastic->verdict == JUDGE_LEFT && elastic->was_told_to_leave) {
            say("the ranks have left as they were told to; start the job again to go "
                "on");
            return TUTTI_EXIT_AGAIN;
        }
        if (elastic->was_told_to_leave || elastic->verdict == JUDGE_FINISHED ||
                elastic->verdict == JUDGE_FATAL) {
            return result;
        }
        elastic->hooks.generation++;
        elastic->resets++;
    }
}

static tutti_status find_members(struct elastic *elastic)
{
    struct host here = { .slots = elastic->most };
    const struct host_list alone = { .hosts = &here, .count = 1 };
    const struct host_list *hosts = &elastic->placement->hosts;

    return members_update(&elastic->members, hosts->count > 0 ? hosts : &alone);
}

/* All hosts are this one, now and later. */
static bool stays_here(const struct elastic *elastic)
{
    return elastic->discovery.path[0] == '\0' &&
            network_is_here(&elastic->placement->hosts);
}

static tutti_status prepare(struct elastic *elastic)
{
    const struct options *options = elastic->options;
    tutti_status status = TUTTI_OK;

    if (!options->supervise) {
        return error_set(TUTTI_ERR_INVALID, "--min-np needs --supervise on");
    }
    if (elastic->most < options->min_np) {
        return error_set(TUTTI_ERR_INVALID,
                "--min-np %d is more than the %d ranks that there may be; see --max-np",
                options->min_np, elastic->most);
    }
    if (options->host_discovery_script != NULL) {
        status = program_find(options->host_discovery_script,
                environment_get(elastic->environment, "PATH"), elastic->discovery.path,
                sizeof elastic->discovery.path);
    }
    if (status == TUTTI_OK) {
        status = find_members(elastic);
    }
    if (status == TUTTI_OK && !may_go_on(elastic)) {
        status = error_set(TUTTI_ERR_INVALID, "--min-np %d: the hosts have %d slots",
                options->min_np, host_list_slots(&elastic->placement->hosts));
    }
    if (status == TUTTI_OK) {
        status = loop_init(&elastic->loop);
    }
    if (status == TUTTI_OK) {
        status = server_open(&elastic->keepers, stays_here(elastic));
        elastic->hooks.keeper_port = elastic->keepers.port;
    }
    return status;
}

int elastic_run(const struct options *options, const struct placement *placement,
        elastic_generation generation, char *const *environment)
{
    struct elastic elastic = {
        .options = options,
        .placement = placement,
        .environment = environment,
        .generation = generation,
        .most = options->max_np > 0 ? options->max_np : options->np,
        .start = clock_ns(),
        .keepers = { .protocol = &keeper_protocol,
                .hello = take_keeper,
                .call = lose_keeper,
                .listener.fd = -1,
                .hangups = -1 },
        .loop.epoll = -1,
        .discovery = { .environment = environment,
                .slots = options->slots_per_host > 0 ? options->slots_per_host : 1 },
        .hooks = { .generation = 1,
                .begin = begin,
                .turn = turn,
                .next = next,
                .end = end },
    };
    int result = EXIT_LAUNCHER;

    job_make_name(elastic.job);
    elastic.hooks.owner = &elastic;
    elastic.hooks.job = elastic.job;
    if (options->blacklist_cooldown != NULL) {
        (void)members_read_cooldown(
                options->blacklist_cooldown, elastic.members.cooldown);
    }
    if (prepare(&elastic) == TUTTI_OK) {
        if (!stays_here(&elastic)) {
            ssh_share_open(elastic.ssh_share);
        }
        result = run_all(&elastic);
        ssh_share_close(elastic.ssh_share);
    } else {
        say(tutti_last_error());
    }
    end_keepers(&elastic);
    members_fini(&elastic.members);
    return result;
}
