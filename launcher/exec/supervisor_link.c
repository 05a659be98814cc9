/*
 * A supervisor, tuttirun and the engine: what they say, and whether they are there.
 */
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "launcher/exec/procs.h"
#include "launcher/exec/supervisor_parts.h"

static void pass_signal(struct supervisor *supervisor, int number)
{
    if (supervisor->phase < PHASE_DRAINING && supervisor->child.pid > 0) {
        supervisor->ending.signals |= ending_signal(number);
        (void)kill(supervisor->child.pid, number);
    }
}

static void post_failure(
        struct supervisor *supervisor, const struct link_failure *failure)
{
    char text[NOTICE_TEXT_MAX];

    (void)snprintf(
            text, sizeof text, "%.*s", (int)failure->text.len, failure->text.text);
    notice_post(&supervisor->notice, failure->rank, text);
}

static void obey(
        struct supervisor *supervisor, const struct link_message *message, int64_t now)
{
    switch (message->type) {
    case LINK_BEAT:
        supervisor->heard = now;
        supervisor->echo = message->beat.sent;
        break;
    case LINK_SIGNAL:
        pass_signal(supervisor, message->signal);
        break;
    case LINK_FAILURE:
        post_failure(supervisor, &message->failure);
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
    struct link_message message;

    channel_receive(&supervisor->channel);
    while (channel_next(&supervisor->channel, &message)) {
        obey(supervisor, &message, now);
    }
}

void supervisor_beat(struct supervisor *supervisor, int64_t now)
{
    struct link_beat message = { .sent = (uint64_t)now, .echo = supervisor->echo };

    if (now < supervisor->beat_due) {
        return;
    }
    if (supervisor->echo != 0) {
        message.held = (uint64_t)(now - supervisor->heard);
    }
    if (supervisor->phase < PHASE_DRAINING && supervisor->child.pid > 0) {
        message.state = (uint8_t)process_state(supervisor->child.pid);
    }
    link_put_beat(&supervisor->channel.out, &message);
    supervisor->beat_due = now + supervisor->orders.beat_ns;
}

/*
 * tuttirun is lost by its silence, or with its connection. Silence lasts until the last
 * look and not until now: between them this process may have stood still for long.
 */
void supervisor_watch_tuttirun(struct supervisor *supervisor, int64_t now)
{
    if (!channel_is_lost(&supervisor->channel) &&
            supervisor->looked - supervisor->heard > supervisor->orders.silent_ns) {
        channel_lose(&supervisor->channel);
        supervisor->was_cut_off = true;
    }
    if (channel_is_lost(&supervisor->channel) && !supervisor->is_released &&
            !supervisor->is_stopping) {
        supervisor_stop(supervisor, supervisor->orders.kill_ms, now);
    }
}

/* Without its parent, the engine's daemon, the program has no engine either. */
void supervisor_watch_engine(struct supervisor *supervisor, int64_t now)
{
    char note[SUPERVISOR_DETAIL_BYTES];

    if (supervisor->is_engine_gone || getppid() == supervisor->engine) {
        return;
    }
    supervisor->is_engine_gone = true;
    (void)snprintf(note, sizeof note,
            "rank %d: " LINK_NOTE_ORPHANED "; ending the program",
            supervisor->plan->rank.rank);
    link_put_note(&supervisor->channel.out, note);
    supervisor_stop(supervisor, supervisor->orders.kill_ms, now);
}
