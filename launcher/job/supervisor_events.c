/*
 * What supervisors say.
 */
#include <stdio.h>
#include <string.h>

#include "launcher/exit_status.h"
#include "launcher/job/flow.h"
#include "launcher/job/job_tree.h"
#include "launcher/job/rank_list.h"
#include "launcher/job/timelines.h"
#include "launcher/job/tree_events.h"

static uint8_t forward_of(const struct job *job, int rank, int stream)
{
    if (!rank_list_has(job->options->only_ranks, rank)) {
        return LINK_FORWARD_NOTHING;
    }
    return console_takes_bytes(&job->console, stream) && job->options->output_rate == 0
            ? LINK_FORWARD_BYTES
            : LINK_FORWARD_LINES;
}

static void welcome(struct job *job, struct server_link *link, const char *relay)
{
    const struct options *options = job->options;
    const struct job_hooks *hooks = job->hooks;
    struct wire_writer body = { .data = NULL };
    const struct link_message welcome = {
        .type = LINK_WELCOME,
        .welcome = { .job = link_text_of(job->name),
                .log_folder = link_text_of(job->log_folder),
                .beat_ms = (uint32_t)options->heartbeat_ms,
                .silent_ms = (uint32_t)options->heartbeat_timeout_ms,
                .kill_ms = (uint32_t)options->kill_ms,
                .output_rate = options->output_rate,
                .forward = { forward_of(job, link->rank, 0),
                        forward_of(job, link->rank, 1) },
                .relay = link_text_of(relay),
                .generation = job_generation(job),
                .keeper_port = hooks == NULL ? 0 : hooks->keeper_port,
                .metrics_port = (uint32_t)options->metrics_port,
                .metrics_address = link_text_of(options->metrics_address),
                .metrics_file = link_text_of(job->metrics_file),
                .metrics_ms = (uint32_t)options->metrics_interval_ms,
                .tells = options->top || options->dashboard != NULL },
    };

    link_put_body(&body, &welcome);
    link->session.out.failed = body.failed;
    meet_welcome(&link->session, &link_protocol, body.data, body.len);
    wire_writer_fini(&body);
    if (link->is_below) {
        flow_flush(job, link);
    } else {
        flow_send_beat(job, link);
    }
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

/* With a tree, who loses a relay calls again at any time. */
static bool is_awaited(const struct job *job)
{
    return job->state == JOB_SPAWNING || job->tree.fan_out > 0;
}

static bool calls_again(const struct job *job, const struct link_hello *hello)
{
    return job->tree.fan_out > 0 && hello->rank >= 0 &&
            hello->rank < job->ranks.count && job->of_rank[hello->rank] != NULL &&
            job->of_rank[hello->rank]->pid == hello->pid;
}

static void say_place(struct job *job, const struct server_link *link)
{
    const char *again = link->has_returned ? " again" : "";
    const char *host = ranks_host(&job->ranks, link->rank);

    if (job->options->verbose && link->is_below) {
        console_say(&job->console, "tuttirun",
                "rank %d on host %s is connected%s over rank %d on host %s", link->rank,
                host, again, link->above->rank,
                ranks_host(&job->ranks, link->above->rank));
    } else if (job->options->verbose && job->tree.fan_out > 0) {
        console_say(&job->console, "tuttirun",
                "rank %d on host %s is connected%s, over no other", link->rank, host,
                again);
    }
}

static void give_place(
        struct job *job, struct server_link *link, const struct link_hello *hello)
{
    char relay[JOB_TREE_RELAY_MAX] = "";
    struct server_link *placed = link;

    if (job->tree.fan_out > 0) {
        placed = job_tree_join(job, link, hello, relay);
    }
    if (placed == NULL) {
        return;
    }
    placed->rank = hello->rank;
    say_place(job, placed);
    welcome(job, placed, relay);
    timelines_tell(job, placed);
    if (placed->has_returned && !placed->is_below) {
        tree_events_welcome_back(job, placed);
    }
}

void supervisor_events_hello(struct server_link *link, struct meet_hello *said)
{
    struct job *job = link->server->owner;
    char text[CAUSE_TEXT_MAX];
    struct link_message message;
    const struct link_hello *hello = &message.hello;

    if (said == NULL || !is_awaited(job) ||
            !link_get_body(&said->in, LINK_HELLO, &message)) {
        return;
    }
    if (calls_again(job, hello)) {
        give_place(job, link, hello);
        return;
    }
    refuse(job, hello, text, sizeof text);
    if (text[0] != '\0' || job->state != JOB_SPAWNING) {
        flow_fail(job, CAUSE_LAUNCHER, EXIT_LAUNCHER, "%s", text);
        return;
    }
    ranks_join(&job->ranks, hello);
    if (ranks_have_hosts(&job->ranks)) {
        job->console.has_hosts = true;
    }
    give_place(job, link, hello);
}

static void hear_beat(
        struct job *job, struct server_link *link, const struct link_beat *beat)
{
    int64_t doubt;

    offset_learn(&link->offset, beat, job->now);
    if (beat->state == LINK_STATE_STARTING &&
            ranks_note_awaited(&job->ranks,
                    offset_ours(&link->offset, beat->sent, job->now, &doubt))) {
        flow_suspect(job);
    }
    link->last_sent = beat->sent;
    link->last_came = job->now;
    flow_note_state(job, link, beat->state);
    tree_events_absences(job, link, beat->below);
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
    if (job->notice != 0) {
        ranks_note_leaving(&job->ranks, link->rank);
    }
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
    case LINK_RECORDING:
        recordings_hear(job, link->rank, &message->recording);
        break;
    case LINK_METRICS:
        top_hear(job, link->rank, &message->metrics);
        break;
    case LINK_CHILD:
        tree_events_child(job, link, &message->child);
        break;
    case LINK_HELLO:
    case LINK_WELCOME:
    case LINK_SIGNAL:
    case LINK_FAILURE:
    case LINK_STOP:
    case LINK_RELEASE:
    case LINK_SUSPICION:
    case LINK_RELAYED:
    case LINK_RESUME:
    case LINK_NOTICE:
    case LINK_LOOK:
    case LINK_TIMELINE:
        hear_nonsense(job, link);
        break;
    }
}

/* What a rank said, which came over this connection. */
static void hear_relayed(struct job *job, const struct link_relayed *relayed)
{
    const struct frame frame = link_relayed_frame(relayed);
    struct server_link *link = tree_events_open(job, relayed);
    struct link_message message;

    if (link == NULL) {
        return;
    }
    if (link_read(&frame, &message) != TUTTI_OK) {
        flow_lose(job, link, RANK_END_LOST, tutti_last_error());
    } else {
        hear_message(job, link, &message);
    }
}

static void hear_frame(
        struct job *job, struct server_link *link, const struct frame *frame)
{
    struct link_message message;

    if (job->tree.fan_out > 0 && frame->type == LINK_RELAYED &&
            link_read(frame, &message) == TUTTI_OK) {
        hear_relayed(job, &message.relayed);
    } else if (link_read(frame, &message) != TUTTI_OK) {
        flow_lose(job, link, RANK_END_LOST, tutti_last_error());
    } else {
        hear_message(job, link, &message);
    }
}

/* True when a message has to wait until the console has room. */
static bool must_wait(const struct job *job, const struct frame *frame)
{
    struct link_message message;

    if (job->state == JOB_STOPPING || !console_is_full(&job->console)) {
        return false;
    }
    return frame->type == LINK_OUTPUT ||
            (frame->type == LINK_RELAYED && link_read(frame, &message) == TUTTI_OK &&
                    link_relayed_frame(&message.relayed).type == LINK_OUTPUT);
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
    if (!lives && link->is_below) {
        session_lose(&link->session); /* it goes to its relay */
        link->hung_up = 0;
        return;
    }
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
