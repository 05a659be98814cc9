/*
 * What supervisors say.
 */
#include <stdio.h>
#include <string.h>

#include "launcher/exit_status.h"
#include "launcher/job/flow.h"
#include "launcher/job/rank_list.h"

static void welcome(struct job *job, struct server_link *link)
{
    const struct options *options = job->options;
    struct wire_writer body = { .data = NULL };
    const struct link_message welcome = {
        .type = LINK_WELCOME,
        .welcome = { .job = link_text_of(job->name),
                .log_folder = link_text_of(job->log_folder),
                .beat_ms = (uint32_t)options->heartbeat_ms,
                .silent_ms = (uint32_t)options->heartbeat_timeout_ms,
                .kill_ms = (uint32_t)options->kill_ms,
                .output_rate = options->output_rate,
                .forward = rank_list_has(options->only_ranks, link->rank) },
    };
    const struct link_message beat = { .type = LINK_BEAT,
        .beat.sent = (uint64_t)job->now };

    link_put_body(&body, &welcome);
    link->session.out.failed = body.failed;
    meet_welcome(&link->session, &link_protocol, body.data, body.len);
    wire_writer_fini(&body);
    flow_send(job, link, &beat);
}

/* Why a supervisor that knows the secret cannot be one of the job; "": it can. */
static void refuse(const struct job *job, const struct link_hello *hello, char *text,
        size_t capacity)
{
    int host_len = (int)hello->host.len;

    text[0] = '\0';
    if (hello->rank < 0) {
        (void)snprintf(text, capacity,
                "%s told its process on host %.*s no rank; is it another launcher's?",
                job->starter_name, host_len, hello->host.text);
    } else if ((hello->size >= 0 && hello->size != job->ranks.count) ||
            hello->rank >= job->ranks.count ||
            job->ranks.items[hello->rank].state != RANK_ABSENT) {
        (void)snprintf(text, capacity,
                "%s started rank %d of %d on host %.*s in a job of %d; was each rank "
                "started alone, or one twice?",
                job->starter_name, hello->rank, hello->size, host_len, hello->host.text,
                job->ranks.count);
    }
}

/* One who has not shown who it is says that first, or is dropped. */
static void hear_hello(
        struct job *job, struct server_link *link, const struct frame *frame)
{
    char text[CAUSE_TEXT_MAX];
    struct meet_hello said;
    struct link_message message;
    const struct link_hello *hello = &message.hello;

    if (job->state != JOB_SPAWNING ||
            !meet_take_hello(&link->session, &link_protocol, frame, &said) ||
            !link_get_body(&said.in, LINK_HELLO, &message)) {
        session_lose(&link->session);
        return;
    }
    refuse(job, hello, text, sizeof text);
    if (text[0] != '\0') {
        session_lose(&link->session);
        flow_fail(job, CAUSE_LAUNCHER, EXIT_LAUNCHER, "%s", text);
        return;
    }
    link->rank = hello->rank;
    ranks_join(&job->ranks, hello);
    if (ranks_have_hosts(&job->ranks)) {
        job->console.has_hosts = true;
    }
    welcome(job, link);
}

static void hear_beat(
        struct job *job, struct server_link *link, const struct link_beat *beat)
{
    offset_learn(&link->offset, beat, job->now);
    link->last_sent = beat->sent;
    link->last_came = job->now;
    if (beat->state != 'T') {
        link->stopped = 0;
    } else if (link->stopped == 0) {
        link->stopped = job->now;
    }
}

static void hear_output(struct job *job, const struct server_link *link,
        const struct link_output *output)
{
    int64_t doubt;
    struct console_origin origin = {
        .rank = link->rank,
        .host = ranks_host(&job->ranks, link->rank),
        .time = offset_ours(&link->offset, output->time, job->now, &doubt),
    };

    abort_words_take(&job->aborted, output->lines.text, output->lines.len);
    console_lines(&job->console, output->stream, &origin, output->lines.text,
            output->lines.len);
}

static void hear_note(
        struct job *job, const struct server_link *link, const struct link_text *note)
{
    if (!job->has_orphan &&
            memmem(note->text, note->len, LINK_NOTE_ORPHANED,
                    strlen(LINK_NOTE_ORPHANED)) != NULL) {
        job->has_orphan = true;
        job->orphan = link->rank;
        flow_suspect(job);
    }
    console_say(&job->console, "tuttirun", "%.*s", (int)note->len, note->text);
}

static void hear_exited(
        struct job *job, struct server_link *link, const struct link_exited *exited)
{
    int64_t doubt;
    int64_t when = offset_ours(&link->offset, exited->time, job->now, &doubt);

    link->has_exited = true;
    ranks_exit(&job->ranks, link->rank, exited, when, doubt);
    flow_suspect(job);
}

/* Messages that only tuttirun sends end the connection. */
static void hear_nonsense(struct job *job, struct server_link *link)
{
    flow_lose(job, link, RANK_END_LOST, "its supervisor does not speak our language");
}

static void hear_message(
        struct job *job, struct server_link *link, const struct link_message *message)
{
    switch (message->type) {
    case LINK_STARTED:
        ranks_start(&job->ranks, link->rank, &message->started);
        break;
    case LINK_BEAT:
        hear_beat(job, link, &message->beat);
        break;
    case LINK_OUTPUT:
        hear_output(job, link, &message->output);
        break;
    case LINK_NOTE:
        hear_note(job, link, &message->note);
        break;
    case LINK_EXITED:
        hear_exited(job, link, &message->exited);
        break;
    case LINK_HELLO:
    case LINK_WELCOME:
    case LINK_SIGNAL:
    case LINK_FAILURE:
    case LINK_STOP:
    case LINK_RELEASE:
    case LINK_SUSPICION:
        hear_nonsense(job, link);
        break;
    }
}

static void hear_frame(
        struct job *job, struct server_link *link, const struct frame *frame)
{
    struct link_message message;

    if (link->rank < 0) {
        hear_hello(job, link, frame);
    } else if (link_read(frame, &message) != TUTTI_OK) {
        flow_lose(job, link, RANK_END_LOST, tutti_last_error());
    } else {
        hear_message(job, link, &message);
    }
}

/* True when a message has to wait until the console has room. */
static bool must_wait(const struct job *job, const struct frame *frame)
{
    return frame->type == LINK_OUTPUT && job->state != JOB_STOPPING &&
            console_is_full(&job->console);
}

/* Takes the whole messages that have come; `force`: even if the console is full. */
static void hear_messages(struct job *job, struct server_link *link, bool force)
{
    struct session *session = &link->session;
    struct frame frame;
    bool waits = false;
    int got = 0;

    while (!waits && !session_is_lost(session) &&
            (got = session_next(session, &frame)) > 0) {
        waits = !force && must_wait(job, &frame);
        if (waits) {
            session_put_back(session);
        } else {
            hear_frame(job, link, &frame);
        }
    }
    if (got < 0) {
        flow_lose(job, link, RANK_END_LOST, tutti_last_error());
    }
    session_pause(session, waits);
}

void supervisor_events_read(struct job *job, struct server_link *link, bool is_broken)
{
    bool lives;

    if (session_is_lost(&link->session)) {
        return;
    }
    lives = session_receive(&link->session);
    if (lives) {
        link->heard = job->now;
    }
    hear_messages(job, link, is_broken || !lives);
    if (!lives) {
        flow_lose(job, link, RANK_END_LOST,
                "the connection to its supervisor ended; it was killed, or its host "
                "went down");
    }
}

void supervisor_events_resume(struct job *job)
{
    for (size_t i = 0; i < job->server.count; i++) {
        struct server_link *link = job->server.links[i];

        if (link->session.is_paused &&
                (job->state == JOB_STOPPING || !console_is_full(&job->console))) {
            hear_messages(job, link, false);
        }
    }
}
