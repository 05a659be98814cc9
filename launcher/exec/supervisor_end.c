/*
 * The end of a program, asked for or not, and of what it left behind; and what asks for it: messages of
 * tuttirun, signals of the MPI launcher, and the end of either.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "launcher/exec/look.h"
#include "launcher/exec/procs.h"
#include "launcher/exec/supervisor.h"
#include "launcher/program.h"
#include "launcher/session/loop.h"

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
        (void)procs_signal_descendants(signal, NULL, NULL);
    }
}

/* SIGTERM now, SIGKILL later. A stopped process gets SIGTERM when it goes on. */
static void stop_all(struct supervisor *supervisor, uint32_t kill_ms, int64_t now)
{
    int64_t due = clock_deadline(now, (int64_t)kill_ms * SUPERVISOR_MILLISECOND);

    if (supervisor->phase < PHASE_DRAINING && !supervisor->end.how.was_stopped) {
        supervisor->end.how.was_stopped = true;
        supervisor->end.failure =
                failure_page_context_failure(&supervisor->failure_page);
        supervisor->end.stage = failure_page_stage(&supervisor->failure_page);
    }
    if (!supervisor->stop.has_begun && kill_ms > 0) {
        send_to_all(supervisor, SIGTERM);
        send_to_all(supervisor, SIGCONT);
    }
    supervisor->stop.has_begun = true;
    supervisor->stop.kill_due =
            due < supervisor->stop.kill_due ? due : supervisor->stop.kill_due;
}

static void kill_when_due(struct supervisor *supervisor, int64_t now)
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
    if (!supervisor->stop.is_awaited && !supervisor->stop.is_informed &&
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

/*
 * A program that came to its library only when it was told to end, and heard there that the context had failed,
 * had not finalized it before.
 */
static enum library_stage stage_of(const struct supervisor *supervisor)
{
    const struct failure_page *page = &supervisor->failure_page;
    const bool came_late = supervisor->end.how.was_stopped &&
            supervisor->end.failure == CONTEXT_FAILURE_NONE &&
            failure_page_context_failure(page) != CONTEXT_FAILURE_NONE;

    return came_late ? supervisor->end.stage : failure_page_stage(page);
}

static void send_exited(struct supervisor *supervisor)
{
    char awaited[FAILURE_PAGE_AWAITED_MAX];
    struct link_message message = {
        .type = LINK_EXITED,
        .exited = { .time = (uint64_t)supervisor->end.time,
                .stage = (uint8_t)stage_of(supervisor),
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
        stop_all(supervisor, supervisor->uplink.orders.kill_ms, now);
    }
}

static const int64_t suspect_ns = LINK_SUSPECT_MS * SUPERVISOR_MILLISECOND;
static const double second = 1e9;

/*
 * To the program and what it has started, as a terminal and mpirun send it: a script in front of
 * the program dies of it, and the program below has something to save. SIGUSR1 asks what the job
 * does, too: it goes to the program alone, and does not end one that does not know it.
 */
static void pass_signal(struct supervisor *supervisor, int number)
{
    const pid_t pid = supervisor->child.pid;

    if (supervisor->phase < PHASE_DRAINING && pid > 0 &&
            !(number == SIGUSR1 && look_dies_of(pid, number))) {
        supervisor->end.how.signals |= ending_signal(number);
        (void)kill(number == SIGUSR1 || supervisor->leftovers.group == 0
                        ? pid
                        : -supervisor->leftovers.group,
                number);
    }
}

static void pass_suspicion(struct supervisor *supervisor, struct link_text suspicion)
{
    char text[FAILURE_PAGE_SUSPICION_MAX];

    (void)snprintf(text, sizeof text, "%.*s", (int)suspicion.len, suspicion.text);
    failure_page_suspect(&supervisor->failure_page, text);
    supervisor->suspects_tuttirun = false;
}

/* The supervisor itself suspects tuttirun, which cannot send it. */
static void suspect_tuttirun(struct supervisor *supervisor)
{
    char text[FAILURE_PAGE_SUSPICION_MAX];

    (void)snprintf(text, sizeof text,
            "tuttirun was not heard for %.1f s: the network was cut, or tuttirun or "
            "its host was stopped; the job ends after %g s of that "
            "(--heartbeat-timeout)",
            (double)(supervisor->looked - supervisor->uplink.heard) / second,
            (double)supervisor->uplink.orders.silent_ns / second);
    failure_page_suspect(&supervisor->failure_page, text);
    supervisor->suspects_tuttirun = true;
}

static void withdraw_suspicion(struct supervisor *supervisor)
{
    if (supervisor->suspects_tuttirun) {
        supervisor->suspects_tuttirun = false;
        failure_page_suspect(&supervisor->failure_page, "");
    }
}

static void post_failure(
        struct supervisor *supervisor, const struct link_failure *failure)
{
    char text[FAILURE_PAGE_TEXT_MAX];

    (void)snprintf(
            text, sizeof text, "%.*s", (int)failure->text.len, failure->text.text);
    supervisor_record_end(supervisor); /* as long as it does not know */
    failure_page_post(&supervisor->failure_page, failure->rank, text);
    /* From here tuttirun decides when the program ends. */
    supervisor->stop.is_informed = true;
    supervisor->stop.due = INT64_MAX;
    door_fail(&supervisor->door, failure->text);
}

void supervisor_tell(struct supervisor *supervisor, struct link_text text)
{
    if (supervisor->console >= 0 && text.len > 0) {
        (void)dprintf(
                supervisor->console, "tuttirun: %.*s\n", (int)text.len, text.text);
    }
    fd_close(&supervisor->console);
}

void supervisor_obey(void *owner, const struct link_message *message, int64_t now)
{
    struct supervisor *supervisor = owner;

    switch (message->type) {
    case LINK_BEAT:
        withdraw_suspicion(supervisor);
        break;
    case LINK_SIGNAL:
        if (message->signal != SIGUSR1 && message->signal != SIGUSR2) {
            supervisor_record_end(supervisor);
        }
        supervisor->stop.is_awaited = ending_was_asked(ending_signal(message->signal));
        pass_signal(supervisor, message->signal);
        break;
    case LINK_FAILURE:
        post_failure(supervisor, &message->failure);
        break;
    case LINK_SUSPICION:
        pass_suspicion(supervisor, message->suspicion);
        break;
    case LINK_NOTICE:
        keep_notice(&supervisor->keep, message->notice);
        break;
    case LINK_LOOK:
        supervisor_look(supervisor, message->look);
        break;
    case LINK_TIMELINE:
        supervisor->recording.timeline_asked = message->timeline;
        supervisor_ask_timeline(supervisor);
        break;
    case LINK_STOP:
        stop_all(supervisor, message->stop_ms, now);
        break;
    case LINK_GO:
        supervisor->uplink.orders.waits = false;
        break;
    case LINK_PART:
    case LINK_UNMET:
        door_answer(&supervisor->door, message);
        break;
    case LINK_RELEASE:
        supervisor->is_released = true;
        supervisor->exit_status = message->release.status;
        supervisor_tell(supervisor, message->release.text);
        break;
    case LINK_HELLO:
    case LINK_WELCOME:
    case LINK_STARTED:
    case LINK_OUTPUT:
    case LINK_NOTE:
    case LINK_EXITED:
    case LINK_RECORDING:
    case LINK_METRICS:
    case LINK_GIVE:
    case LINK_MORE:
        break; /* not for a supervisor that has begun */
    }
}

uint8_t supervisor_program_state(const void *owner)
{
    const struct supervisor *supervisor = owner;
    uint8_t state;

    if (supervisor->phase >= PHASE_DRAINING || supervisor->child.pid <= 0) {
        return 0;
    }
    state = (uint8_t)process_state(supervisor->child.pid);
    return state != 'T' &&
                    failure_page_stage(&supervisor->failure_page) ==
                            LIBRARY_STAGE_STARTING
            ? LINK_STATE_STARTING
            : state;
}

/*
 * tuttirun is lost by its silence, or with its connection. Silence lasts until the last
 * look and not until now: between them this process may have stood still for long.
 */
static void watch_tuttirun(struct supervisor *supervisor, int64_t now)
{
    const int64_t silence = supervisor->looked - supervisor->uplink.heard;

    if (!uplink_is_lost(&supervisor->uplink)) {
        if (silence > supervisor->uplink.orders.silent_ns) {
            uplink_lose(&supervisor->uplink);
            supervisor->was_cut_off = true;
        } else if (silence > suspect_ns + 2 * supervisor->uplink.orders.beat_ns &&
                !supervisor->suspects_tuttirun) {
            suspect_tuttirun(supervisor);
        }
    }
    if (uplink_is_lost(&supervisor->uplink) && !supervisor->is_released &&
            !supervisor->stop.has_begun) {
        stop_all(supervisor, supervisor->uplink.orders.kill_ms, now);
    }
}

void supervisor_read_wrapper(struct supervisor *supervisor, int64_t now)
{
    unsigned char number;
    ssize_t len;

    while ((len = read(supervisor->launcher.wrapper_fd, &number, 1)) == 1) {
        if (number != SIGTERM) {
            pass_signal(supervisor, number);
        } else if (supervisor->launcher.term_due == INT64_MAX) {
            supervisor->launcher.term_due = now + SUPERVISOR_TERM_NS;
        }
    }
    if (len == 0) {
        (void)close(supervisor->launcher.wrapper_fd);
        supervisor->launcher.wrapper_fd = -1;
    }
}

static bool launcher_has_died(const struct supervisor *supervisor)
{
    struct pollfd polled = { .fd = supervisor->launcher.pidfd, .events = POLLIN };

    if (polled.fd >= 0) {
        return poll(&polled, 1, 0) > 0;
    }
    return kill(supervisor->launcher.pid, 0) != 0 && errno == ESRCH;
}

/*
 * An MPI launcher that kills the wrapper kills those of all ranks: why, tuttirun knows. Hydra's proxy
 * ends right after that, before the wrapper has. An MPI launcher that has died is itself a cause. In
 * all cases tuttirun has time to send the cause.
 */
static void watch_launcher(struct supervisor *supervisor, int64_t now)
{
    if (supervisor->launcher.is_gone ||
            (supervisor->launcher.wrapper_fd >= 0 && !launcher_has_died(supervisor))) {
        return;
    }
    supervisor->launcher.is_gone = true;
    if (supervisor->launcher.wrapper_fd >= 0 &&
            !process_is_ending(supervisor->launcher.wrapper)) {
        link_put_note(uplink_out(&supervisor->uplink),
                "rank %d: " LINK_NOTE_ORPHANED "; ending the program",
                supervisor->plan->rank.rank);
    }
    supervisor->launcher.term_due = INT64_MAX;
    if (!supervisor->stop.is_informed) {
        supervisor->stop.due = now + SUPERVISOR_ORPHAN_NS;
    }
}

static void end_when_due(struct supervisor *supervisor, int64_t now)
{
    if (now >= supervisor->launcher.term_due) {
        supervisor->launcher.term_due = INT64_MAX;
        if (!supervisor->stop
                        .is_informed) { /* else tuttirun ends it, after its grace */
            pass_signal(supervisor, SIGTERM);
        }
    }
    if (now >= supervisor->stop.due) {
        supervisor->stop.due = INT64_MAX;
        stop_all(supervisor, supervisor->uplink.orders.kill_ms, now);
    }
}

void supervisor_step_end(struct supervisor *supervisor, int64_t now)
{
    watch_tuttirun(supervisor, now);
    watch_launcher(supervisor, now);
    end_when_due(supervisor, now);
    kill_when_due(supervisor, now);
}
