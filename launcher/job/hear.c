/*
 * What supervisors say.
 */
#include <stdio.h>
#include <string.h>

#include "launcher/job/flow.h"
#include "launcher/job/rank_list.h"

static void welcome(struct job *job, struct server_link *link)
{
    const struct job_options *options = job->options;
    struct link_welcome welcome = {
        .job = link_text_of(job->name),
        .log_folder = link_text_of(job->log_folder),
        .beat_ms = (uint32_t)options->beat_ms,
        .silent_ms = (uint32_t)options->silent_ms,
        .kill_ms = (uint32_t)options->kill_ms,
        .output_rate = options->output_rate,
        .forward = rank_list_has(options->only_ranks, link->rank),
    };
    struct link_beat beat = { .sent = (uint64_t)job->now };

    link_put_welcome(&link->out, &welcome);
    link_put_beat(&link->out, &beat);
    flow_send(job, link);
}

/* Why a supervisor that knows the secret cannot be one of the job; "": it can. */
static void refuse(const struct job *job, const struct link_hello *hello, char *text,
        size_t capacity)
{
    int host_len = (int)hello->host.len;

    text[0] = '\0';
    if (hello->version != LINK_VERSION) {
        (void)snprintf(text, capacity,
                "tuttirun on host %.*s is %.*s, which speaks version %u to the %s "
                "here, "
                "which speaks %d; install the same on all hosts",
                host_len, hello->host.text, (int)hello->release.len,
                hello->release.text, hello->version, tutti_version(), LINK_VERSION);
    } else if (hello->rank < 0) {
        (void)snprintf(text, capacity,
                "%s told its process on host %.*s no rank; is it another launcher's?",
                job->engine_name, host_len, hello->host.text);
    } else if ((hello->size >= 0 && hello->size != job->ranks.count) ||
            hello->rank >= job->ranks.count ||
            job->ranks.items[hello->rank].state != RANK_ABSENT) {
        (void)snprintf(text, capacity,
                "%s started rank %d of %d on host %.*s in a job of %d; was each rank "
                "started alone, or one twice?",
                job->engine_name, hello->rank, hello->size, host_len, hello->host.text,
                job->ranks.count);
    }
}

static void hear_hello(
        struct job *job, struct server_link *link, const struct link_hello *hello)
{
    char text[CAUSE_TEXT_MAX];

    if (!server_token_is(&job->server, hello->token.text, hello->token.len) ||
            link->rank >= 0 || job->state != JOB_SPAWNING) {
        server_close(link);
        return;
    }
    refuse(job, hello, text, sizeof text);
    if (text[0] != '\0') {
        server_close(link);
        flow_fail(job, CAUSE_LAUNCHER, JOB_EXIT_LAUNCHER, "%s", text);
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
    if (link->rank < 0 && message->type != LINK_HELLO) {
        server_close(link);
        return;
    }
    switch (message->type) {
    case LINK_HELLO:
        hear_hello(job, link, &message->hello);
        break;
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
    case LINK_WELCOME:
    case LINK_SIGNAL:
    case LINK_FAILURE:
    case LINK_STOP:
    case LINK_RELEASE:
        hear_nonsense(job, link);
        break;
    }
}

/* True when a message has to wait until the console has room. */
static bool must_wait(const struct job *job, const struct link_message *message)
{
    return message->type == LINK_OUTPUT && job->state != JOB_STOPPING &&
            console_is_full(&job->console);
}

/* Takes the whole messages that have come; `force`: even if the console is full. */
static void hear_messages(struct job *job, struct server_link *link, bool force)
{
    size_t taken = 0;

    link->is_parked = false;
    while (link->fd >= 0) {
        struct link_message message;
        size_t used;

        if (link_take(link->in + taken, link->in_len - taken, &message, &used) !=
                TUTTI_OK) {
            flow_lose(job, link, RANK_END_LOST, tutti_last_error());
            break;
        }
        if (used == 0) {
            break;
        }
        if (!force && must_wait(job, &message)) {
            link->is_parked = true;
            break;
        }
        hear_message(job, link, &message);
        taken += used;
    }
    server_drop(link, taken);
}

void hear_link(struct job *job, size_t index, bool is_broken)
{
    struct server_link *link = job->server.links[index];
    bool lives;

    if (link->fd < 0) {
        return;
    }
    lives = server_read(link, job->now);
    hear_messages(job, link, is_broken || !lives);
    if (!lives) {
        flow_lose(job, link, RANK_END_LOST,
                "the connection to its supervisor ended; it was killed, or its host "
                "went down");
    } else {
        server_watch(&job->server, link);
    }
}

void hear_parked(struct job *job)
{
    for (size_t i = 0; i < job->server.count; i++) {
        struct server_link *link = job->server.links[i];

        if (link->is_parked &&
                (job->state == JOB_STOPPING || !console_is_full(&job->console))) {
            hear_messages(job, link, false);
            server_watch(&job->server, link);
        }
    }
}
