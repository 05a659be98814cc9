/*
 * The end of a program, asked for or not, and of what it left behind.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/error.h"
#include "launcher/exec/procs.h"
#include "launcher/exec/supervisor.h"
#include "launcher/program.h"

/* Each look reads 64 KiB of a stream, 4 KiB of a terminal: no pipe holds more. */
static const unsigned looks_max = 64;
/* Between two rounds of SIGKILL: what was being forked escapes the first. */
static const int64_t kill_again_ns = 50000000;

bool ending_was_asked(uint64_t signals)
{
    return (signals &
                   (ending_signal(SIGTERM) | ending_signal(SIGINT) |
                           ending_signal(SIGHUP) | ending_signal(SIGQUIT))) != 0;
}

void ending_describe(const struct ending *ending, struct link_exited *exited)
{
    int status = ending->wait_status;
    bool by_signal = WIFSIGNALED(status);

    exited->was_stopped = ending->was_stopped || ending_was_asked(ending->signals);
    if (ending->setup_errno != 0) {
        exited->ending = LINK_ENDED_SETUP;
        exited->value = (uint32_t)ending->setup_errno;
    } else if (ending->exec_errno != 0) {
        exited->ending = LINK_ENDED_EXEC;
        exited->value = (uint32_t)ending->exec_errno;
    } else if (by_signal) {
        exited->ending = LINK_ENDED_SIGNAL;
        exited->value = (uint32_t)WTERMSIG(status);
        exited->dumped_core = WCOREDUMP(status);
        exited->was_stopped = exited->was_stopped ||
                (ending->signals & ending_signal(WTERMSIG(status))) != 0;
    } else {
        exited->ending = LINK_ENDED_EXIT;
        exited->value = (uint32_t)WEXITSTATUS(status);
    }
}

static void send_to_all(struct supervisor *supervisor, int signal)
{
    if (supervisor->has_children) {
        (void)procs_signal_descendants(signal, NULL);
    }
}

/* SIGTERM now, SIGKILL later. A stopped process gets SIGTERM when it goes on. */
void supervisor_stop(struct supervisor *supervisor, uint32_t kill_ms, int64_t now)
{
    int64_t due = clock_deadline(now, (int64_t)kill_ms * SUPERVISOR_MILLISECOND);

    if (supervisor->phase < PHASE_DRAINING && !supervisor->end.how.was_stopped) {
        supervisor->end.how.was_stopped = true;
        supervisor->end.failure =
                failure_page_context_failure(&supervisor->failure_page);
    }
    if (!supervisor->stop.has_begun && kill_ms > 0) {
        send_to_all(supervisor, SIGTERM);
        send_to_all(supervisor, SIGCONT);
    }
    supervisor->stop.has_begun = true;
    supervisor->stop.kill_due =
            due < supervisor->stop.kill_due ? due : supervisor->stop.kill_due;
}

void supervisor_kill_when_due(struct supervisor *supervisor, int64_t now)
{
    if (now >= supervisor->stop.kill_due) {
        send_to_all(supervisor, SIGKILL);
        supervisor->stop.is_killing = true;
        supervisor->stop.kill_due = now + kill_again_ns;
    }
}

static void send_started(struct supervisor *supervisor)
{
    const struct link_message message = {
        .type = LINK_STARTED,
        .started = { .pid = (uint64_t)supervisor->child.pid,
                .binding = link_text_of(supervisor->binding),
                .log = link_text_of(supervisor->streams.folder) },
    };

    link_put(uplink_out(&supervisor->uplink), &message);
}

void supervisor_read_exec(struct supervisor *supervisor)
{
    int result = child_exec_result(&supervisor->child);

    if (result > 0) {
        supervisor->end.how.exec_errno = result;
    } else if (result == 0 && supervisor->phase == PHASE_STARTING) {
        supervisor->phase = PHASE_RUNNING;
        send_started(supervisor);
    }
}

static void note_end(struct supervisor *supervisor, int status, int64_t now)
{
    if (supervisor->child.exec_fd >= 0) {
        supervisor_read_exec(supervisor);
    }
    supervisor->end.how.wait_status = status;
    supervisor->phase = PHASE_DRAINING;
    supervisor->end.time = now;
    if (!supervisor->stop.is_awaited && !supervisor->stop.is_told &&
            supervisor->stop.due == INT64_MAX) {
        supervisor->stop.due = now + SUPERVISOR_ORPHAN_NS;
    }
}

/* Takes what has ended, of the program and of what it left behind. */
void supervisor_reap(struct supervisor *supervisor, int64_t now)
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
    char *detail = supervisor->end.detail;

    if (exited->ending == LINK_ENDED_EXEC) {
        errno = supervisor->end.how.exec_errno;
        (void)program_refused(supervisor->plan->argv[0]);
        (void)snprintf(detail, SUPERVISOR_DETAIL_BYTES, "%s", tutti_last_error());
    } else if (exited->ending == LINK_ENDED_SIGNAL && exited->value == SIGKILL &&
            !supervisor->stop.is_killing) {
        exited->is_oom =
                oom_has_killed(&supervisor->end.oom, detail, SUPERVISOR_DETAIL_BYTES);
    }
    exited->detail = link_text_of(detail);
}

static void send_exited(struct supervisor *supervisor)
{
    char awaited[FAILURE_PAGE_AWAITED_MAX];
    struct link_message message = {
        .type = LINK_EXITED,
        .exited = { .time = (uint64_t)supervisor->end.time,
                .stage = (uint8_t)failure_page_stage(&supervisor->failure_page),
                .tail = { .text = supervisor->streams.tail.text,
                        .len = supervisor->streams.tail.len },
                .failure = (uint8_t)(supervisor->end.how.was_stopped
                                ? supervisor->end.failure
                                : failure_page_context_failure(
                                          &supervisor->failure_page)),
                .committed = keep_committed(&supervisor->keep) },
    };

    failure_page_awaited(&supervisor->failure_page, awaited);
    message.exited.awaited = link_text_of(awaited);
    ending_describe(&supervisor->end.how, &message.exited);
    describe_detail(supervisor, &message.exited);
    link_put(uplink_out(&supervisor->uplink), &message);
    if (message.exited.ending != LINK_ENDED_EXIT || message.exited.value != 0 ||
            message.exited.stage == LIBRARY_STAGE_RUNNING) {
        supervisor_record_end(supervisor);
    }
    supervisor->phase = PHASE_REPORTED;
}

/*
 * What the program wrote before its end has been read. Grandchildren may hold the pipes,
 * and write for ever.
 */
static bool is_drained(const struct supervisor *supervisor, int64_t now)
{
    if (supervisor->streams.out.fd < 0 && supervisor->streams.err.fd < 0) {
        return true;
    }
    return now >= supervisor->end.time + SUPERVISOR_DRAIN_NS &&
            (supervisor->streams.is_quiet || supervisor->streams.looks >= looks_max);
}

bool supervisor_is_saving(const struct supervisor *supervisor)
{
    return supervisor->phase == PHASE_DRAINING && supervisor->has_children &&
            !supervisor->stop.has_begun &&
            ending_was_asked(supervisor->end.how.signals);
}

/* The end of the program: its last output, the report, and the end of what it left. */
void supervisor_report_end(struct supervisor *supervisor, int64_t now)
{
    if (supervisor->phase != PHASE_DRAINING || supervisor_is_saving(supervisor) ||
            !is_drained(supervisor, now)) {
        return;
    }
    supervisor->stop.due = INT64_MAX;
    output_flush(&supervisor->streams.out, now);
    output_flush(&supervisor->streams.err, now);
    send_exited(supervisor);
    if (supervisor->has_children) {
        supervisor_stop(supervisor, supervisor->uplink.orders.kill_ms, now);
    }
}
