#include "launcher/job/flow.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <tutti/trainer/elastic.h>

#include "base/mem.h"
#include "base/text.h"
#include "launcher/exit_status.h"
#include "launcher/job/report.h"
#include "launcher/job/root_cause.h"

enum {
    SETTLE_MS = 30, /* an earlier cause may still be on its way               */
    LOST_MS = 250, /* until the cause of a lost connection is reported         */
    TOLD_MS = 2000, /* who failed a context may end, however busy the machine is */
    LEFT_MS = 300, /* others may be about to exit with 0, too                */
    LATE_MS = 20, /* so late we have stood still, and have not read it all   */
    POSTPONED_MAX = 4,
    SIGNAL_GRACE_MS = 2000, /* a program may have something to save                   */
    STOP_MORE_MS = 500, /* after SIGKILL, until its report                        */
    LAUNCHER_MS =
            400, /* that the MPI launcher has to end after a failure, twice      */
    LAUNCHER_LOST_MS =
            100, /* the same where a host is silent, which it waits for     */
    LAUNCHER_WELL_MS = 10000, /* and when all went well                              */
    DRAIN_MS = 300 /* after its end: grandchildren may hold its streams      */
};

#define NEXT(state) (1U << JOB_##state)

static const unsigned job_next[JOB_STATE_COUNT] = {
    [JOB_PLANNED] = NEXT(SPAWNING) | NEXT(FAILED),
    [JOB_SPAWNING] = NEXT(RUNNING) | NEXT(STOPPING),
    [JOB_RUNNING] = NEXT(RESHAPING) | NEXT(STOPPING) | NEXT(DONE),
    [JOB_RESHAPING] = NEXT(STOPPING) | NEXT(DONE),
    [JOB_STOPPING] = NEXT(FAILED),
    [JOB_DONE] = 0,
    [JOB_FAILED] = 0,
};

#undef NEXT

bool job_may_advance(enum job_state from, enum job_state to)
{
    return (job_next[from] & (1U << to)) != 0;
}

void job_advance(enum job_state *state, enum job_state to)
{
    assert(job_may_advance(*state, to));
    *state = to;
}

/* No cause is known, and not all has ended. */
static bool goes_on(const struct job *job)
{
    return job->state == JOB_SPAWNING || job->state == JOB_RUNNING ||
            job->state == JOB_RESHAPING;
}

static int64_t after(const struct job *job, int ms)
{
    return job->now + ms * JOB_NS_PER_MS;
}

void flow_flush(struct job *job, struct server_link *link)
{
    if (!server_flush(link)) {
        flow_lose(job, link, RANK_END_LOST, "the connection to its supervisor ended");
    }
}

static int64_t time_of_loss(
        const struct job *job, const struct server_link *link, enum rank_end end)
{
    if (end == RANK_END_SILENT) {
        return link->heard;
    }
    return link->hung_up != 0 ? link->hung_up : job->now;
}

void flow_lose(struct job *job, struct server_link *link, enum rank_end end,
        const char *detail)
{
    const int64_t when = time_of_loss(job, link, end);

    session_lose(&link->session);
    if (link->rank >= 0 && !link->has_exited) {
        ranks_lose(&job->ranks, link->rank, end, when, detail);
        flow_suspect(job);
    }
}

void flow_show_launcher(struct job *job)
{
    size_t kept = launcher_output_kept(&job->launcher.output);
    size_t first = job->launcher.output.count - kept;

    for (size_t i = size_max(job->launcher.shown, first);
            i < job->launcher.output.count; i++) {
        console_print(&job->console, job->launcher.name, "%s",
                launcher_output_line(&job->launcher.output, i - first));
    }
    job->launcher.shown = job->launcher.output.count;
}

void flow_send(
        struct job *job, struct server_link *link, const struct link_message *message)
{
    link_put(&link->session.out, message);
    flow_flush(job, link);
}

void flow_send_beat(struct job *job, struct server_link *link)
{
    const bool was_heard = link->last_sent != 0;
    const struct link_message message = {
        .type = LINK_BEAT,
        .beat = { .sent = (uint64_t)job->now,
                .echo = link->last_sent,
                .held = was_heard ? (uint64_t)(job->now - link->last_came) : 0 },
    };

    flow_send(job, link, &message);
}

void flow_note_state(const struct job *job, struct server_link *link, uint8_t state)
{
    if (state != 'T') {
        link->stopped = 0;
    } else if (link->stopped == 0) {
        link->stopped = job->now;
    }
}

static bool is_alive(const struct server_link *link)
{
    return !session_is_lost(&link->session) && link->rank >= 0;
}

void flow_send_all(struct job *job, const struct link_message *message)
{
    for (size_t i = 0; i < job->server.count; i++) {
        struct server_link *link = job->server.links[i];

        if (is_alive(link) && !link->has_exited) {
            flow_send(job, link, message);
        }
    }
}

/* True while a program runs, or its supervisor has not reported its end. */
static bool anything_runs(const struct job *job)
{
    for (size_t i = 0; i < job->server.count; i++) {
        if (is_alive(job->server.links[i]) && !job->server.links[i]->has_exited) {
            return true;
        }
    }
    return false;
}

int flow_launcher_patience_ms(const struct job *job)
{
    for (int i = 0; i < job->ranks.count; i++) {
        if (job->ranks.items[i].end == RANK_END_SILENT) {
            return LAUNCHER_LOST_MS;
        }
    }
    return LAUNCHER_MS;
}

/* Another rank may be about to report the cause. */
static bool is_consequence(const struct rank *rank)
{
    return rank->end == RANK_END_LOST || rank->failure == CONTEXT_FAILURE_TOLD;
}

void flow_suspect(struct job *job)
{
    int first = root_cause_first(&job->ranks);
    int wait_ms = SETTLE_MS;

    if (!goes_on(job)) {
        return;
    }
    if (first < 0 && !job->launcher.process.has_ended && !job->launcher.has_orphan) {
        return;
    }
    if (job->ranks.ended == job->ranks.count) {
        /* All were lost at once: the MPI launcher has ended them, and will print more. */
        wait_ms = first >= 0 && job->ranks.items[first].end == RANK_END_LOST &&
                        !job->launcher.process.has_ended
                ? LAUNCHER_MS
                : 0;
    } else if (first >= 0 && root_cause_has_left(&job->ranks.items[first])) {
        wait_ms = LEFT_MS;
    } else if (first >= 0 ? is_consequence(&job->ranks.items[first])
                          : !WIFSIGNALED(job->launcher.process.status)) {
        wait_ms = first < 0 || job->ranks.items[first].end == RANK_END_LOST ? LOST_MS
                : job->options->grace_ms < TOLD_MS                          ? TOLD_MS
                                                   : job->options->grace_ms;
    }
    if (job->due.settle_at == 0 || after(job, wait_ms) < job->due.settle_at) {
        job->due.settle_at = after(job, wait_ms);
    }
}

static void send_failure(struct job *job)
{
    const struct link_message message = {
        .type = LINK_FAILURE,
        .failure = { .rank = job->cause.rank, .text = link_text_of(job->cause.text) },
    };

    flow_send_all(job, &message);
}

static void send_signal(struct job *job, int number)
{
    flow_send_all(job, &(struct link_message){ .type = LINK_SIGNAL, .signal = number });
}

static void send_stop(struct job *job, int kill_ms)
{
    flow_send_all(job,
            &(struct link_message){ .type = LINK_STOP, .stop_ms = (uint32_t)kill_ms });
    job->due.lose_at = after(job, kill_ms + STOP_MORE_MS);
}

/* The cause is set: from here the job only ends. */
static void begin_stopping(struct job *job, int grace_ms)
{
    job_advance(&job->state, JOB_STOPPING);
    server_stop_listening(&job->server);
    job->due.settle_at = 0;
    job->due.stop_at = after(job, grace_ms);
}

void flow_fail(
        struct job *job, enum cause_kind kind, int exit_status, const char *format, ...)
{
    va_list list;

    if (!goes_on(job)) {
        return;
    }
    job->cause = (struct cause){
        .kind = kind,
        .rank = -1,
        .exit_status = exit_status,
        .when = job->now,
    };
    va_start(list, format);
    (void)vsnprintf(job->cause.text, sizeof job->cause.text, format, list);
    va_end(list);
    begin_stopping(job,
            kind == CAUSE_SIGNAL && job->options->grace_ms < SIGNAL_GRACE_MS
                    ? SIGNAL_GRACE_MS
                    : job->options->grace_ms);
    if (kind != CAUSE_SIGNAL) {
        send_failure(job);
    }
}

/* What it takes to name a rank. */
static struct report_facts facts_of(const struct job *job)
{
    return (struct report_facts){
        .ranks = &job->ranks,
        .cause = &job->cause,
        .start = job->start,
        .has_hosts = ranks_have_hosts(&job->ranks),
    };
}

static void fail_by_rank(struct job *job, int rank)
{
    const struct report_facts facts = facts_of(job);

    job->cause = (struct cause){
        .kind = CAUSE_RANK,
        .rank = rank,
        .exit_status = exit_text_status(&job->ranks.items[rank]),
        .when = job->ranks.items[rank].when,
    };
    report_rank(&facts, rank, job->cause.text);
    begin_stopping(job, job->options->grace_ms);
    send_failure(job);
}

/* The MPI launcher has ended although ranks have not, or were not there yet. */
static void fail_by_launcher(struct job *job)
{
    char words[128];
    char missing[128];
    int absent = ranks_list(&job->ranks, rank_is_absent, missing, sizeof missing);

    launcher_process_words(&job->launcher.process, words, sizeof words);
    flow_show_launcher(job);
    if (absent > 0) {
        flow_fail(job, CAUSE_MPI_LAUNCHER, EXIT_LAUNCHER,
                "%s ended with %s before rank%s %s had started; what it said is "
                "above%s",
                job->launcher.name, words, absent == 1 ? "" : "s", missing,
                job->plan->placement->hosts.count > 1
                        ? ", and tuttirun --check looks at the hosts"
                        : "");
    } else {
        flow_fail(job, CAUSE_MPI_LAUNCHER, EXIT_LAUNCHER,
                "%s ended with %s while the job ran", job->launcher.name, words);
    }
}

static int abort_status(const struct job *job)
{
    const int status = job->launcher.aborted.code & 0xff;

    return status == 0 ? 1 : status;
}

static void describe_abort(const struct job *job, char text[CAUSE_TEXT_MAX])
{
    const int rank = job->launcher.aborted.rank;
    const bool is_known = rank >= 0 && rank < job->ranks.count;

    (void)snprintf(text, CAUSE_TEXT_MAX,
            "rank %d on host %s called MPI_Abort with code %d, and %s ended the others",
            rank, is_known ? ranks_host(&job->ranks, rank) : "?",
            job->launcher.aborted.code, job->launcher.name);
}

static void fail_by_abort(struct job *job)
{
    char text[CAUSE_TEXT_MAX];

    describe_abort(job, text);
    flow_fail(job, CAUSE_MPI_LAUNCHER, abort_status(job), "%s", text);
}

/* That a rank stayed outside tutti until it was ended is known when it has been. */
static void blame_absentee(struct job *job)
{
    const struct report_facts facts = facts_of(job);
    const int absentee = job->cause.kind == CAUSE_RANK
            ? root_cause_absentee(&job->ranks, job->cause.rank)
            : -1;

    if (absentee >= 0) {
        report_absentee(&facts, absentee, job->cause.text);
        job->cause.rank = absentee;
    }
}

static bool may_be_ended_by_launcher(const struct rank *rank)
{
    return rank->end == RANK_END_LOST || rank->was_stopped;
}

/*
 * The rank that the MPI launcher's words blame has ended as MPI_Abort() ends one: by itself with that
 * code, or by the MPI launcher. A program may print such words of another job.
 */
static bool has_aborted(const struct job *job, const struct rank *rank)
{
    return abort_words_are_complete(&job->launcher.aborted) &&
            job->launcher.aborted.rank == (int)(rank - job->ranks.items) &&
            (may_be_ended_by_launcher(rank) || rank->end != RANK_END_EXIT ||
                    rank->value == (job->launcher.aborted.code & 0xff));
}

/* The MPI launcher's words of MPI_Abort() may come after the end of the rank that called it. */
static void amend_cause(struct job *job)
{
    if (job->cause.kind == CAUSE_RANK &&
            has_aborted(job, &job->ranks.items[job->cause.rank])) {
        job->cause.kind = CAUSE_MPI_LAUNCHER;
        job->cause.rank = -1;
        job->cause.exit_status = abort_status(job);
        describe_abort(job, job->cause.text);
    }
    blame_absentee(job);
}

/*
 * A part of the MPI launcher has died that is not the MPI launcher itself, which may be the parent of
 * supervisors on our host.
 */
static bool has_lost_daemon(const struct job *job)
{
    char own_name[HOST_NAME_MAX + 1] = "";

    (void)gethostname(own_name, HOST_NAME_MAX);
    return job->launcher.has_orphan &&
            !(job->launcher.process.has_ended &&
                    strcmp(own_name, ranks_host(&job->ranks, job->launcher.orphan)) ==
                            0);
}

/*
 * Lost connections, and the end of the MPI launcher, are a consequence where the MPI launcher is known
 * to have ended the ranks: because of MPI_Abort(), or because it or a part of it was
 * killed. True when that is the cause.
 */
static bool launcher_ended_ranks(struct job *job, int first)
{
    /* The rank that called it may have ended by itself before the MPI launcher ended it. */
    if (first >= 0 && !may_be_ended_by_launcher(&job->ranks.items[first]) &&
            !has_aborted(job, &job->ranks.items[first])) {
        return false;
    }
    if (abort_words_are_complete(&job->launcher.aborted)) {
        fail_by_abort(job);
        return true;
    }
    if (job->launcher.process.has_ended && WIFSIGNALED(job->launcher.process.status)) {
        fail_by_launcher(job);
        return true;
    }
    if (has_lost_daemon(job)) {
        flow_fail(job, CAUSE_MPI_LAUNCHER, EXIT_LAUNCHER,
                "the process of %s that started rank %d on host %s has died",
                job->launcher.name, job->launcher.orphan,
                ranks_host(&job->ranks, job->launcher.orphan));
        return true;
    }
    return false;
}

static void settle(struct job *job)
{
    int first = root_cause_first(&job->ranks);

    job->due.settle_at = 0;
    if (launcher_ended_ranks(job, first)) {
        return;
    }
    if (first >= 0 && job->ranks.items[first].end == RANK_END_LOST &&
            job->beats.slept_ns >= job->options->heartbeat_timeout_ms * JOB_NS_PER_MS) {
        char slept[64];

        exit_text_duration(job->beats.slept_ns, slept, sizeof slept);
        flow_fail(job, CAUSE_LAUNCHER, EXIT_LAUNCHER,
                "the launcher itself was stopped for %s, and its ranks ended because "
                "they did not hear it",
                slept);
    } else if (first >= 0 && !job->ranks.items[first].was_stopped) {
        fail_by_rank(job, first);
    } else if (job->launcher.process.has_ended &&
            (first >= 0 || job->ranks.ended < job->ranks.count)) {
        fail_by_launcher(job);
    } else if (first >= 0) {
        char words[EXIT_TEXT_MAX];

        exit_text_end(&job->ranks.items[first], words);
        flow_fail(job, CAUSE_MPI_LAUNCHER, EXIT_LAUNCHER,
                "rank %d on host %s %s, but not by tuttirun: %s or its daemon there "
                "ended",
                first, ranks_host(&job->ranks, first), words, job->launcher.name);
    }
}

void flow_notice(struct job *job, uint32_t notice)
{
    if (job->state == JOB_RUNNING) {
        job_advance(&job->state, JOB_RESHAPING);
    }
    if (job->state == JOB_RESHAPING && job->notice < notice) {
        job->notice = notice;
        flow_send_all(
                job, &(struct link_message){ .type = LINK_NOTICE, .notice = notice });
    }
}

void flow_signal(struct job *job, int number)
{
    char words[64];

    if (job->hooks != NULL && (number == SIGTERM || number == SIGUSR1) &&
            !job->signals.must_leave) {
        /* Where the notice cannot be sent yet, launcher/elastic does so later. */
        job->signals.must_leave = true;
        flow_notice(job, TUTTI_NOTICE_LEAVE);
        return;
    }
    if (number == SIGUSR1 || number == SIGUSR2) {
        send_signal(job, number);
        return;
    }
    if (number == SIGTSTP) {
        if (!job->signals.noted_suspend) {
            console_print(&job->console, "tuttirun",
                    "a job cannot be suspended: its heartbeats would stop");
        }
        job->signals.noted_suspend = true;
        return;
    }
    exit_text_signal(number, words, sizeof words);
    if (job->state == JOB_STOPPING) {
        job->signals.was_interrupted = true;
        send_stop(job, 0);
        job->due.stop_at = 0;
        return;
    }
    flow_fail(job, CAUSE_SIGNAL, 128 + number, "ended by %s to tuttirun", words);
    send_signal(job, number);
}

/* A supervisor ends with the status of its rank, for the MPI launcher's own books. */
static void release_one(struct job *job, struct server_link *link)
{
    const struct rank *rank = &job->ranks.items[link->rank];
    struct link_message message = { .type = LINK_RELEASE };

    if (job->plan->placement->join.nodes > 1) { /* that of a host */
        message.release.status = (uint8_t)job->cause.exit_status;
        message.release.text = link_text_of(job->cause.text);
    } else if (!rank->leaves && (rank->end != RANK_END_EXIT || rank->value != 0)) {
        message.release.status = (uint8_t)exit_text_status(rank);
    }
    flow_send(job, link, &message);
}

static void release(struct job *job)
{
    for (size_t i = 0; i < job->server.count; i++) {
        if (is_alive(job->server.links[i])) {
            release_one(job, job->server.links[i]);
        }
    }
    job->was_released = true;
    job->launcher.term_at = after(job,
            job->state == JOB_STOPPING ? flow_launcher_patience_ms(job)
                                       : LAUNCHER_WELL_MS);
}

/* The hosts where ranks that are missing should have started, by the order of slots. */
static void list_missing_hosts(const struct job *job, char *text, size_t capacity)
{
    const struct host_list *hosts = &job->plan->placement->hosts;
    int rank = 0;

    text[0] = '\0';
    for (size_t i = 0; i < hosts->count; i++) {
        bool is_missing = false;

        for (int k = 0; k < hosts->hosts[i].slots && rank < job->ranks.count; k++) {
            is_missing |= job->ranks.items[rank++].state == RANK_ABSENT;
        }
        if (is_missing) {
            text_append(text, capacity, "%s%s", text[0] == '\0' ? " (host " : ", ",
                    hosts->hosts[i].name);
        }
    }
    text_append(text, capacity, "%s", text[0] == '\0' ? "" : ")");
}

static void fail_start(struct job *job)
{
    char missing[128];
    char hosts[256];
    int absent = ranks_list(&job->ranks, rank_is_absent, missing, sizeof missing);

    list_missing_hosts(job, hosts, sizeof hosts);
    if (job->plan->placement->join.nodes > 1) {
        flow_fail(job, CAUSE_START, EXIT_LAUNCHER,
                "rank%s %s%s ha%s not started within %d s (--join-timeout); is "
                "tuttirun "
                "started there, and does the network let port %d through?",
                absent == 1 ? "" : "s", missing, hosts, absent == 1 ? "s" : "ve",
                job->options->join_timeout, job->plan->placement->join.port);
        return;
    }
    flow_fail(job, CAUSE_START, EXIT_LAUNCHER,
            "rank%s %s%s ha%s not started within %g s; tuttirun --check looks at the "
            "hosts, --start-timeout gives more time",
            absent == 1 ? "" : "s", missing, hosts, absent == 1 ? "s" : "ve",
            job->options->start_timeout_ms / 1000.0);
}

static void fail_timeout(struct job *job)
{
    char running[128];

    (void)ranks_list(&job->ranks, rank_is_running, running, sizeof running);
    flow_fail(job, CAUSE_TIMEOUT, EXIT_TIMEOUT,
            "ended after the %g s of --timeout; still running: rank%s %s",
            job->options->timeout_ms / 1000.0, strpbrk(running, ",-") ? "s" : "",
            running[0] == '\0' ? "none" : running);
}

/* Supervisors that have not reported the end of their rank are given up. */
static void give_up(struct job *job)
{
    for (size_t i = 0; i < job->server.count; i++) {
        struct server_link *link = job->server.links[i];

        if (is_alive(link) && !link->has_exited) {
            flow_lose(job, link, RANK_END_LOST,
                    "its supervisor did not say that it had ended");
        }
    }
    job->due.lose_at = 0;
}

static bool is_due(const struct job *job, int64_t time)
{
    return time != 0 && job->now >= time;
}

static bool links_are_closed(const struct job *job)
{
    for (size_t i = 0; i < job->server.count; i++) {
        const struct server_link *link = job->server.links[i];

        if (!session_is_lost(&link->session) && link->rank >= 0) {
            return false;
        }
    }
    return true;
}

/* After the release: the MPI launcher ends, or is ended, and what it printed is read. */
static void step_launcher(struct job *job)
{
    if (!job->launcher.process.has_ended) {
        if (is_due(job, job->launcher.kill_at)) {
            launcher_process_signal(&job->launcher.process, SIGKILL);
            job->launcher.kill_at = 0;
        } else if (is_due(job, job->launcher.term_at)) {
            launcher_process_signal(&job->launcher.process, SIGTERM);
            job->launcher.term_at = 0;
            job->launcher.kill_at = after(job, flow_launcher_patience_ms(job));
        }
        return;
    }
    if (job->due.leave_at == 0) {
        job->due.leave_at = after(job, DRAIN_MS);
    }
    if (is_due(job, job->due.leave_at) ||
            (links_are_closed(job) && job->launcher.process.output < 0 &&
                    job->launcher.process.errors < 0)) {
        amend_cause(job);
        job_advance(&job->state, job->state == JOB_STOPPING ? JOB_FAILED : JOB_DONE);
    }
}

static int64_t start_limit(const struct job *job)
{
    const int64_t ms = job->plan->placement->join.nodes > 1
            ? job->options->join_timeout * INT64_C(1000)
            : job->options->start_timeout_ms;

    return job->start + ms * JOB_NS_PER_MS;
}

static int64_t time_limit(const struct job *job)
{
    return job->start + job->options->timeout_ms * JOB_NS_PER_MS;
}

/* A reader that has seen enough needs no words; a disk that is full does. */
static void fail_output(struct job *job, int error)
{
    if (error == EPIPE) {
        flow_fail(job, CAUSE_OUTPUT, 128 + SIGPIPE, "nobody reads the output any more");
    } else {
        flow_fail(job, CAUSE_LAUNCHER, EXIT_LAUNCHER,
                "cannot write to stdout: %s; send it elsewhere",
                strerrordesc_np(error));
    }
}

/*
 * Decides on the cause, unless this comes so late that we have stood still: what came
 * meanwhile is read first, all of it.
 */
static void settle_in_time(struct job *job)
{
    if (after(job, -LATE_MS) > job->due.settle_at &&
            job->due.postponed < POSTPONED_MAX) {
        job->due.postponed++;
        job->due.settle_at = after(job, SETTLE_MS);
    } else {
        settle(job);
    }
}

static void step_running(struct job *job)
{
    if (job->state == JOB_SPAWNING && job->ranks.joined == job->ranks.count) {
        job_advance(&job->state, JOB_RUNNING);
        server_stop_listening(&job->server);
        if (job->plan->placement->join.nodes > 1) {
            flow_send_all(job, &(struct link_message){ .type = LINK_GO });
        }
    }
    if (is_due(job, job->due.settle_at)) {
        settle_in_time(job);
    } else if (job->state == JOB_SPAWNING && job->now >= start_limit(job)) {
        fail_start(job);
    } else if (job->options->timeout_ms > 0 && job->now >= time_limit(job)) {
        fail_timeout(job);
    } else if (console_error(&job->console) != 0) {
        fail_output(job, console_error(&job->console));
    }
}

void flow_step(struct job *job)
{
    if (goes_on(job)) {
        step_running(job);
    }
    if (job->state == JOB_STOPPING && is_due(job, job->due.stop_at)) {
        job->due.stop_at = 0;
        if (job->cause.kind == CAUSE_SIGNAL) {
            send_failure(job);
        }
        send_stop(job, job->options->kill_ms);
    }
    if (job->state == JOB_STOPPING && is_due(job, job->due.lose_at)) {
        give_up(job);
    }
    if (!job->was_released && !anything_runs(job) &&
            (job->state == JOB_STOPPING ||
                    (goes_on(job) && job->state != JOB_SPAWNING &&
                            job->due.settle_at == 0 &&
                            job->ranks.ended == job->ranks.count))) {
        release(job);
    }
    if (job->was_released) {
        step_launcher(job);
    }
}

static void sooner(int64_t *next, int64_t time)
{
    if (time != 0 && time < *next) {
        *next = time;
    }
}

int64_t flow_next(const struct job *job)
{
    int64_t next = job->beats.next;

    sooner(&next, job->due.settle_at);
    sooner(&next, job->due.stop_at);
    sooner(&next, job->due.lose_at);
    sooner(&next, job->launcher.term_at);
    sooner(&next, job->launcher.kill_at);
    sooner(&next, job->due.leave_at);
    /* What recordings_step() looks at; else it is none of our times. */
    if (job->recordings.is_asked && job->state == JOB_RUNNING &&
            job->due.settle_at == 0) {
        sooner(&next, job->recordings.due);
    }
    if (job->state == JOB_SPAWNING) {
        sooner(&next, start_limit(job));
    }
    if (job->options->timeout_ms > 0 && job->cause.kind == CAUSE_NONE) {
        sooner(&next, time_limit(job));
    }
    return next;
}

bool flow_is_over(const struct job *job)
{
    return job->state == JOB_DONE || job->state == JOB_FAILED;
}
