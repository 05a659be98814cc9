/*
 * Messages of tuttirun and signals of the MPI launcher, and what a supervisor does when one is gone.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "launcher/exec/look.h"
#include "launcher/exec/procs.h"
#include "launcher/exec/supervisor.h"

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

/* A text of the wire, terminated and cut. */
static void copy_text(char *to, size_t capacity, struct link_text text)
{
    (void)snprintf(to, capacity, "%.*s", (int)text.len, text.text);
}

static void pass_suspicion(struct supervisor *supervisor, struct link_text suspicion)
{
    char text[FAILURE_PAGE_SUSPICION_MAX];

    copy_text(text, sizeof text, suspicion);
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

    copy_text(text, sizeof text, failure->text);
    supervisor_record_end(supervisor); /* as long as it does not know */
    failure_page_post(&supervisor->failure_page, failure->rank, text);
    /* From here tuttirun decides when the program ends. */
    supervisor->stop.is_told = true;
    supervisor->stop.due = INT64_MAX;
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
        supervisor_stop(supervisor, message->stop_ms, now);
        break;
    case LINK_RELEASE:
        supervisor->is_released = true;
        supervisor->exit_status = message->release;
        break;
    case LINK_HELLO:
    case LINK_WELCOME:
    case LINK_STARTED:
    case LINK_OUTPUT:
    case LINK_NOTE:
    case LINK_EXITED:
    case LINK_RECORDING:
    case LINK_METRICS:
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
void supervisor_watch_tuttirun(struct supervisor *supervisor, int64_t now)
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
        supervisor_stop(supervisor, supervisor->uplink.orders.kill_ms, now);
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
void supervisor_watch_launcher(struct supervisor *supervisor, int64_t now)
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
    if (!supervisor->stop.is_told) {
        supervisor->stop.due = now + SUPERVISOR_ORPHAN_NS;
    }
}

void supervisor_end_when_due(struct supervisor *supervisor, int64_t now)
{
    if (now >= supervisor->launcher.term_due) {
        supervisor->launcher.term_due = INT64_MAX;
        if (!supervisor->stop.is_told) { /* else tuttirun ends it, after its grace */
            pass_signal(supervisor, SIGTERM);
        }
    }
    if (now >= supervisor->stop.due) {
        supervisor->stop.due = INT64_MAX;
        supervisor_stop(supervisor, supervisor->uplink.orders.kill_ms, now);
    }
}
