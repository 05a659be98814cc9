/*
 * Messages of supervisors.
 */
#include <stdio.h>
#include <string.h>

#include "launcher/exit_status.h"
#include "launcher/here/here.h"
#include "launcher/job/exchange.h"
#include "launcher/job/flow.h"
#include "launcher/job/ranks.h"
#include "launcher/job/recordings.h"

static uint8_t forward_of(const struct job *job, int rank, int stream)
{
    if (!rank_list_has(job->options->only_ranks, rank)) {
        return LINK_FORWARD_NOTHING;
    }
    return console_takes_bytes(&job->console, stream) && job->options->output_rate == 0
            ? LINK_FORWARD_BYTES
            : LINK_FORWARD_LINES;
}

static void welcome(struct job *job, struct server_link *link)
{
    const struct options *options = job->options;
    const struct job_hooks *hooks = job->hooks;
    struct wire_writer body = { .data = NULL };
    const struct link_message welcome = {
        .type = LINK_WELCOME,
        .welcome = { .job = link_text_of(job->name),
                .log_folder = link_text_of(job->paths.log_folder),
                .beat_ms = (uint32_t)job->beats.interval_ms,
                .silent_ms = (uint32_t)options->heartbeat_timeout_ms,
                .kill_ms = (uint32_t)options->kill_ms,
                .output_rate = options->output_rate,
                .forward = { forward_of(job, link->rank, 0),
                        forward_of(job, link->rank, 1) },
                .generation = job_generation(job),
                .keeper_port = hooks == NULL ? 0 : hooks->keeper_port,
                .metrics_port = (uint32_t)options->metrics_port,
                .metrics_address = link_text_of(options->metrics_address),
                .metrics_file = link_text_of(job->paths.metrics_file),
                .metrics_ms = (uint32_t)options->metrics_interval_ms,
                .tells = options->top || options->dashboard != NULL,
                .waits = job->plan->placement->join.nodes > 1 },
    };

    link_put_body(&body, &welcome);
    link->session.out.failed = body.failed;
    meet_welcome(&link->session, &link_protocol, body.data, body.len);
    wire_writer_fini(&body);
    flow_send_beat(job, link);
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
                job->launcher.name, host_len, hello->host.text);
    } else if (hello->size != job->ranks.count &&
            job->plan->placement->join.nodes > 1) {
        (void)snprintf(text, capacity,
                "host %.*s starts rank %d of %d in a job of %d; is the command line "
                "the "
                "same on all hosts?",
                host_len, hello->host.text, hello->rank, hello->size, job->ranks.count);
    } else if ((hello->size >= 0 && hello->size != job->ranks.count) ||
            hello->rank >= job->ranks.count ||
            job->ranks.items[hello->rank].state != RANK_ABSENT) {
        (void)snprintf(text, capacity,
                "%s started rank %d of %d on host %.*s in a job of %d; was each rank "
                "started alone, or one twice?",
                job->launcher.name, hello->rank, hello->size, host_len,
                hello->host.text, job->ranks.count);
    }
}

/* Of a host that has another secret. That is shown once: strangers may call as often as they like. */
static void refuse_stranger(struct job *job, struct server_link *link)
{
    static const char why[] =
            "it does not know our secret (--join-secret-file, " JOIN_SECRET_VARIABLE
            ")";

    session_put(&link->session, FRAME_REFUSAL, why, sizeof why - 1);
    (void)session_send(&link->session);
    if (!job->has_refused) {
        console_print(&job->console, "tuttirun",
                "a host that wanted to join was refused: %s", why);
    }
    job->has_refused = true;
}

void supervisor_events_hello(struct server_link *link, struct meet_hello *said)
{
    struct job *job = link->server->owner;
    char text[CAUSE_TEXT_MAX];
    struct link_message message;
    const struct link_hello *hello = &message.hello;

    if (said == NULL && job->plan->placement->join.nodes > 1) {
        refuse_stranger(job, link);
    }
    if (said == NULL || job->state != JOB_SPAWNING ||
            !link_get_body(&said->in, LINK_HELLO, &message)) {
        return;
    }
    refuse(job, hello, text, sizeof text);
    if (text[0] != '\0') {
        flow_fail(job, CAUSE_LAUNCHER, EXIT_LAUNCHER, "%s", text);
        return;
    }
    ranks_join(&job->ranks, hello);
    job->console.has_hosts = job->console.has_hosts || ranks_have_hosts(&job->ranks);
    link->rank = hello->rank;
    welcome(job, link);
    timelines_send(job, link);
}

static void take_beat(
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
}

static void take_output(struct job *job, const struct server_link *link,
        const struct link_output *output)
{
    int64_t doubt;
    struct console_origin origin = {
        .rank = link->rank,
        .host = ranks_host(&job->ranks, link->rank),
        .time = offset_ours(&link->offset, output->time, job->now, &doubt),
    };

    abort_words_take(&job->launcher.aborted, output->lines.text, output->lines.len);
    console_lines(&job->console, output->stream, &origin, output->lines.text,
            output->lines.len);
}

static void take_note(
        struct job *job, const struct server_link *link, const struct link_text *note)
{
    if (!job->launcher.has_orphan &&
            memmem(note->text, note->len, LINK_NOTE_ORPHANED,
                    strlen(LINK_NOTE_ORPHANED)) != NULL) {
        job->launcher.has_orphan = true;
        job->launcher.orphan = link->rank;
        flow_suspect(job);
    }
    console_print(&job->console, "tuttirun", "%.*s", (int)note->len, note->text);
}

static void take_exited(
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
static void refuse_message(struct job *job, struct server_link *link)
{
    flow_lose(job, link, RANK_END_LOST, "its supervisor does not speak our language");
}

static void take_message(
        struct job *job, struct server_link *link, const struct link_message *message)
{
    switch (message->type) {
    case LINK_STARTED:
        ranks_start(&job->ranks, link->rank, &message->started);
        break;
    case LINK_BEAT:
        take_beat(job, link, &message->beat);
        break;
    case LINK_OUTPUT:
        take_output(job, link, &message->output);
        break;
    case LINK_NOTE:
        take_note(job, link, &message->note);
        break;
    case LINK_EXITED:
        take_exited(job, link, &message->exited);
        break;
    case LINK_RECORDING:
        recordings_take(job, link->rank, &message->recording);
        break;
    case LINK_METRICS:
        top_take(job, link->rank, &message->metrics);
        break;
    case LINK_GIVE:
        exchange_give(job, link, &message->give);
        break;
    case LINK_MORE:
        exchange_more(job, link, message->more);
        break;
    case LINK_HELLO:
    case LINK_WELCOME:
    case LINK_SIGNAL:
    case LINK_FAILURE:
    case LINK_STOP:
    case LINK_RELEASE:
    case LINK_SUSPICION:
    case LINK_NOTICE:
    case LINK_LOOK:
    case LINK_TIMELINE:
    case LINK_PART:
    case LINK_UNMET:
    case LINK_GO:
        refuse_message(job, link);
        break;
    }
}

static void take_frame(
        struct job *job, struct server_link *link, const struct frame *frame)
{
    struct link_message message;

    if (link_read(frame, &message) != TUTTI_OK) {
        flow_lose(job, link, RANK_END_LOST, tutti_last_error());
    } else {
        take_message(job, link, &message);
    }
}

/* True when a message has to wait until the console has room. */
static bool must_wait(const struct job *job, const struct frame *frame)
{
    return frame->type == LINK_OUTPUT && job->state != JOB_STOPPING &&
            console_is_full(&job->console);
}

/* Takes the whole messages that have come; `force`: even if the console is full. */
static void take_messages(struct job *job, struct server_link *link, bool force)
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
            take_frame(job, link, &frame);
        }
    }
    if (got < 0) {
        flow_lose(job, link, RANK_END_LOST, tutti_last_error());
    }
    session_pause(session, waits);
    job->has_paused |= waits;
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
    take_messages(job, link, is_broken || !lives);
    if (!lives) {
        flow_lose(job, link, RANK_END_LOST,
                "the connection to its supervisor ended; it was killed, or its host "
                "went down");
    }
}

void supervisor_events_resume(struct job *job)
{
    if (!job->has_paused ||
            (job->state != JOB_STOPPING && console_is_full(&job->console))) {
        return;
    }
    job->has_paused = false;
    for (size_t i = 0; i < job->server.count; i++) {
        if (job->server.links[i]->session.is_paused) {
            take_messages(job, job->server.links[i], false);
        }
    }
}
