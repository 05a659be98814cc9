/*
 * What a supervisor hears of tuttirun and of the starter, and what it does when one is gone.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "launcher/exec/procs.h"
#include "launcher/exec/supervisor_parts.h"

static const int64_t suspect_ns = LINK_SUSPECT_MS * SUPERVISOR_MILLISECOND;
static const double second = 1e9;

static void pass_signal(struct supervisor *supervisor, int number)
{
    if (supervisor->phase < PHASE_DRAINING && supervisor->child.pid > 0) {
        supervisor->ending.signals |= ending_signal(number);
        (void)kill(supervisor->child.pid, number);
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

/* What the supervisor itself suspects: tuttirun, which can say nothing then. */
static void suspect_tuttirun(struct supervisor *supervisor)
{
    char text[FAILURE_PAGE_SUSPICION_MAX];

    (void)snprintf(text, sizeof text,
            "tuttirun was not heard for %.1f s: the network was cut, or tuttirun or "
            "its "
            "host was stopped; the job ends after %g s of that (--heartbeat-timeout)",
            (double)(supervisor->looked - supervisor->heard) / second,
            (double)supervisor->orders.silent_ns / second);
    failure_page_suspect(&supervisor->failure_page, text);
    supervisor->suspects_tuttirun = true;
}

static void hear_beat(
        struct supervisor *supervisor, const struct link_beat *beat, int64_t now)
{
    supervisor->heard = now;
    supervisor->echo = beat->sent;
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
    failure_page_post(&supervisor->failure_page, failure->rank, text);
    /* From here tuttirun says when the program ends. */
    supervisor->is_told = true;
    supervisor->stop_due = INT64_MAX;
}

static void obey(
        struct supervisor *supervisor, const struct link_message *message, int64_t now)
{
    switch (message->type) {
    case LINK_BEAT:
        hear_beat(supervisor, &message->beat, now);
        break;
    case LINK_SIGNAL:
        pass_signal(supervisor, message->signal);
        break;
    case LINK_FAILURE:
        post_failure(supervisor, &message->failure);
        break;
    case LINK_SUSPICION:
        pass_suspicion(supervisor, message->suspicion);
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
        break; /* not for a supervisor that has begun */
    }
}

void supervisor_hear_tuttirun(struct supervisor *supervisor, int64_t now)
{
    struct session *session = &supervisor->session;
    struct link_message message;
    struct frame frame;
    int got;

    if (!session_receive(session)) {
        session_lose(session);
    }
    while ((got = session_next(session, &frame)) > 0 &&
            link_read(&frame, &message) == TUTTI_OK) {
        obey(supervisor, &message, now);
    }
    if (got != 0) {
        session_lose(session);
    }
}

void supervisor_send(struct supervisor *supervisor)
{
    if (!session_send(&supervisor->session)) {
        session_lose(&supervisor->session);
    }
}

void supervisor_beat(struct supervisor *supervisor, int64_t now)
{
    struct link_message message = {
        .type = LINK_BEAT,
        .beat = { .sent = (uint64_t)now, .echo = supervisor->echo },
    };

    if (now < supervisor->beat_due) {
        return;
    }
    if (supervisor->echo != 0) {
        message.beat.held = (uint64_t)(now - supervisor->heard);
    }
    if (supervisor->phase < PHASE_DRAINING && supervisor->child.pid > 0) {
        message.beat.state = (uint8_t)process_state(supervisor->child.pid);
    }
    link_put(&supervisor->session.out, &message);
    supervisor->beat_due = now + supervisor->orders.beat_ns;
}

/*
 * tuttirun is lost by its silence, or with its connection. Silence lasts until the last
 * look and not until now: between them this process may have stood still for long.
 */
void supervisor_watch_tuttirun(struct supervisor *supervisor, int64_t now)
{
    const int64_t silence = supervisor->looked - supervisor->heard;

    if (!session_is_lost(&supervisor->session)) {
        if (silence > supervisor->orders.silent_ns) {
            session_lose(&supervisor->session);
            supervisor->was_cut_off = true;
        } else if (silence > suspect_ns + 2 * supervisor->orders.beat_ns &&
                !supervisor->suspects_tuttirun) {
            suspect_tuttirun(supervisor);
        }
    }
    if (session_is_lost(&supervisor->session) && !supervisor->is_released &&
            !supervisor->is_stopping) {
        supervisor_stop(supervisor, supervisor->orders.kill_ms, now);
    }
}

void supervisor_hear_front(struct supervisor *supervisor, int64_t now)
{
    unsigned char number;
    ssize_t len;

    while ((len = read(supervisor->front_fd, &number, 1)) == 1) {
        if (number != SIGTERM) {
            pass_signal(supervisor, number);
        } else if (supervisor->term_due == INT64_MAX) {
            supervisor->term_due = now + SUPERVISOR_TERM_NS;
        }
    }
    if (len == 0) {
        (void)close(supervisor->front_fd);
        supervisor->front_fd = -1;
    }
}

static bool starter_has_died(const struct supervisor *supervisor)
{
    struct pollfd polled = { .fd = supervisor->starter_fd, .events = POLLIN };

    if (polled.fd >= 0) {
        return poll(&polled, 1, 0) > 0;
    }
    return kill(supervisor->starter, 0) != 0 && errno == ESRCH;
}

/*
 * A starter that kills the front kills those of all ranks: why, tuttirun knows. A starter
 * that has died is itself a cause. In both cases tuttirun has time to tell the program.
 */
void supervisor_watch_starter(struct supervisor *supervisor, int64_t now)
{
    char note[SUPERVISOR_DETAIL_BYTES];

    if (supervisor->is_starter_gone ||
            (supervisor->front_fd >= 0 && !starter_has_died(supervisor))) {
        return;
    }
    supervisor->is_starter_gone = true;
    if (supervisor->front_fd >= 0) {
        (void)snprintf(note, sizeof note,
                "rank %d: " LINK_NOTE_ORPHANED "; ending the program",
                supervisor->plan->rank.rank);
        link_put_note(&supervisor->session.out, note);
    }
    supervisor->term_due = INT64_MAX;
    if (!supervisor->is_told) {
        supervisor->stop_due = now + SUPERVISOR_ORPHAN_NS;
    }
}

void supervisor_end_when_due(struct supervisor *supervisor, int64_t now)
{
    if (now >= supervisor->term_due) {
        supervisor->term_due = INT64_MAX;
        pass_signal(supervisor, SIGTERM);
    }
    if (now >= supervisor->stop_due) {
        supervisor->stop_due = INT64_MAX;
        supervisor_stop(supervisor, supervisor->orders.kill_ms, now);
    }
}
