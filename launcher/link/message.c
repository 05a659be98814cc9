/*
 * Encoding and decoding of the messages of the link.
 */
#include "launcher/link/message.h"

#include <string.h>

#include "base/error.h"
#include "base/failure_page.h"

enum {
    SIGNAL_MAX = 64, /* largest number of a signal      */
    MILLISECONDS_MAX = 86400000, /* a day: nobody waits longer      */
    EXIT_MAX = 255, /* largest exit status             */
    RANK_MAX = 1 << 24 /* more ranks are a mistake        */
};

const struct meet_protocol link_protocol = { .name = "supervisor" };

/* ------------------------------------------------------------------ writing */

/* At most `max` bytes of a text: what is longer is cut, not refused. */
static void put_text(struct wire_writer *out, struct link_text text, size_t max)
{
    wire_put_str(out, text.text, text.len < max ? text.len : max);
}

static void put_name(struct wire_writer *out, struct link_text text)
{
    put_text(out, text, LINK_TEXT_MAX);
}

void link_put_hello(struct wire_writer *out, const struct link_hello *hello)
{
    put_name(out, hello->host);
    wire_put_svarint(out, hello->rank);
    wire_put_svarint(out, hello->size);
    wire_put_svarint(out, hello->local_rank);
    wire_put_svarint(out, hello->local_size);
    wire_put_varint(out, hello->pid);
}

void link_put_welcome(struct wire_writer *out, const struct link_welcome *welcome)
{
    put_name(out, welcome->job);
    put_name(out, welcome->log_folder);
    wire_put_u32(out, welcome->beat_ms);
    wire_put_u32(out, welcome->silent_ms);
    wire_put_u32(out, welcome->kill_ms);
    wire_put_u64(out, welcome->output_rate);
    wire_put_u8(out, welcome->forward ? 1 : 0);
}

void link_put_started(struct wire_writer *out, const struct link_started *started)
{
    size_t start = frame_begin(out, LINK_STARTED);

    wire_put_varint(out, started->pid);
    put_name(out, started->binding);
    put_name(out, started->log);
    frame_end(out, start, NULL);
}

void link_put_beat(struct wire_writer *out, const struct link_beat *beat)
{
    size_t start = frame_begin(out, LINK_BEAT);

    wire_put_u64(out, beat->sent);
    wire_put_u64(out, beat->echo);
    wire_put_u64(out, beat->held);
    wire_put_u8(out, beat->state);
    frame_end(out, start, NULL);
}

void link_put_output(struct wire_writer *out, const struct link_output *output)
{
    size_t start = frame_begin(out, LINK_OUTPUT);

    wire_put_u8(out, output->stream);
    wire_put_u64(out, output->time);
    put_text(out, output->lines, LINK_LINES_MAX);
    frame_end(out, start, NULL);
}

void link_put_note(struct wire_writer *out, const char *text)
{
    size_t start = frame_begin(out, LINK_NOTE);

    put_name(out, link_text_of(text));
    frame_end(out, start, NULL);
}

void link_put_signal(struct wire_writer *out, int number)
{
    size_t start = frame_begin(out, LINK_SIGNAL);

    wire_put_svarint(out, number);
    frame_end(out, start, NULL);
}

enum {
    EXITED_DUMPED_CORE = 1, /* bits of the flags of EXITED */
    EXITED_OOM = 2,
    EXITED_WAS_STOPPED = 4
};

void link_put_exited(struct wire_writer *out, const struct link_exited *exited)
{
    size_t start = frame_begin(out, LINK_EXITED);

    wire_put_u8(out, exited->ending);
    wire_put_u32(out, exited->value);
    wire_put_u64(out, exited->time);
    wire_put_u8(out, exited->stage);
    wire_put_u8(out,
            (uint8_t)((exited->dumped_core ? EXITED_DUMPED_CORE : 0) |
                    (exited->is_oom ? EXITED_OOM : 0) |
                    (exited->was_stopped ? EXITED_WAS_STOPPED : 0)));
    put_name(out, exited->detail);
    put_text(out, exited->tail, LINK_TAIL_MAX);
    wire_put_u8(out, exited->failure);
    put_name(out, exited->awaited);
    frame_end(out, start, NULL);
}

void link_put_failure(struct wire_writer *out, const struct link_failure *failure)
{
    size_t start = frame_begin(out, LINK_FAILURE);

    wire_put_svarint(out, failure->rank);
    put_name(out, failure->text);
    frame_end(out, start, NULL);
}

void link_put_suspicion(struct wire_writer *out, const char *text)
{
    size_t start = frame_begin(out, LINK_SUSPICION);

    put_name(out, link_text_of(text));
    frame_end(out, start, NULL);
}

void link_put_stop(struct wire_writer *out, uint32_t kill_ms)
{
    size_t start = frame_begin(out, LINK_STOP);

    wire_put_u32(out, kill_ms);
    frame_end(out, start, NULL);
}

void link_put_release(struct wire_writer *out, uint8_t exit_status)
{
    size_t start = frame_begin(out, LINK_RELEASE);

    wire_put_u8(out, exit_status);
    frame_end(out, start, NULL);
}

/* ------------------------------------------------------------------ reading */

/* A number outside of its range is as wrong as one that is cut off. */
static int64_t get_in(struct wire_reader *in, int64_t min, int64_t max)
{
    int64_t value = wire_get_svarint(in);

    if (value < min || value > max) {
        in->failed = true;
        return 0;
    }
    return value;
}

static uint32_t get_u32_in(struct wire_reader *in, uint32_t min, uint32_t max)
{
    uint32_t value = wire_get_u32(in);

    if (value < min || value > max) {
        in->failed = true;
        return 0;
    }
    return value;
}

static uint8_t get_u8_in(struct wire_reader *in, uint8_t min, uint8_t max)
{
    uint8_t value = wire_get_u8(in);

    if (value < min || value > max) {
        in->failed = true;
        return 0;
    }
    return value;
}

static struct link_text get_text(struct wire_reader *in, size_t max)
{
    struct link_text text = { .text = "" };
    const char *found = wire_get_str(in, max, &text.len);

    text.text = found == NULL ? "" : found;
    text.len = found == NULL ? 0 : text.len;
    return text;
}

static struct link_text get_name(struct wire_reader *in)
{
    return get_text(in, LINK_TEXT_MAX);
}

bool link_get_hello(struct wire_reader *in, struct link_hello *hello)
{
    hello->host = get_name(in);
    hello->rank = (int)get_in(in, -1, RANK_MAX);
    hello->size = (int)get_in(in, -1, RANK_MAX);
    hello->local_rank = (int)get_in(in, -1, RANK_MAX);
    hello->local_size = (int)get_in(in, -1, RANK_MAX);
    hello->pid = wire_get_varint(in);
    return wire_ok(in);
}

bool link_get_welcome(struct wire_reader *in, struct link_welcome *welcome)
{
    welcome->job = get_name(in);
    welcome->log_folder = get_name(in);
    welcome->beat_ms = get_u32_in(in, 1, LINK_BEAT_MS_MAX);
    welcome->silent_ms = get_u32_in(in, 1, MILLISECONDS_MAX);
    welcome->kill_ms = get_u32_in(in, 0, MILLISECONDS_MAX);
    welcome->output_rate = wire_get_u64(in);
    welcome->forward = get_u8_in(in, 0, 1) == 1;
    return wire_ok(in);
}

static void get_started(struct wire_reader *in, struct link_started *started)
{
    started->pid = wire_get_varint(in);
    started->binding = get_name(in);
    started->log = get_name(in);
}

static void get_beat(struct wire_reader *in, struct link_beat *beat)
{
    beat->sent = wire_get_u64(in);
    beat->echo = wire_get_u64(in);
    beat->held = wire_get_u64(in);
    beat->state = wire_get_u8(in);
}

static void get_output(struct wire_reader *in, struct link_output *output)
{
    output->stream = get_u8_in(in, 1, 2);
    output->time = wire_get_u64(in);
    output->lines = get_text(in, LINK_LINES_MAX);
}

static void get_exited(struct wire_reader *in, struct link_exited *exited)
{
    uint8_t flags;

    exited->ending = get_u8_in(in, LINK_ENDED_EXIT, LINK_ENDED_SETUP);
    exited->value =
            get_u32_in(in, 0, exited->ending == LINK_ENDED_EXIT ? EXIT_MAX : INT32_MAX);
    exited->time = wire_get_u64(in);
    exited->stage = get_u8_in(in, LIBRARY_STAGE_NONE, LIBRARY_STAGE_FINALIZED);
    flags = wire_get_u8(in);
    exited->dumped_core = (flags & EXITED_DUMPED_CORE) != 0;
    exited->is_oom = (flags & EXITED_OOM) != 0;
    exited->was_stopped = (flags & EXITED_WAS_STOPPED) != 0;
    exited->detail = get_name(in);
    exited->tail = get_text(in, LINK_TAIL_MAX);
    exited->failure = get_u8_in(in, CONTEXT_FAILURE_NONE, CONTEXT_FAILURE_TOLD);
    exited->awaited = get_name(in);
}

static void get_failure(struct wire_reader *in, struct link_failure *failure)
{
    failure->rank = (int)get_in(in, -1, RANK_MAX);
    failure->text = get_name(in);
}

/* Reads the fields of a type; false when there is no such type. */
static bool get_fields(
        struct wire_reader *in, uint8_t type, struct link_message *message)
{
    switch (type) {
    case LINK_STARTED:
        get_started(in, &message->started);
        return true;
    case LINK_BEAT:
        get_beat(in, &message->beat);
        return true;
    case LINK_OUTPUT:
        get_output(in, &message->output);
        return true;
    case LINK_NOTE:
        message->note = get_name(in);
        return true;
    case LINK_SIGNAL:
        message->signal = (int)get_in(in, 1, SIGNAL_MAX);
        return true;
    case LINK_EXITED:
        get_exited(in, &message->exited);
        return true;
    case LINK_FAILURE:
        get_failure(in, &message->failure);
        return true;
    case LINK_STOP:
        message->stop_ms = get_u32_in(in, 0, MILLISECONDS_MAX);
        return true;
    case LINK_RELEASE:
        message->release = wire_get_u8(in);
        return true;
    case LINK_SUSPICION:
        message->suspicion = get_name(in);
        return true;
    default:
        return false;
    }
}

tutti_status link_read(const struct frame *frame, struct link_message *message)
{
    struct link_message found = { .type = (enum link_type)frame->type };
    struct wire_reader in;

    wire_reader_init(&in, frame->body, frame->len);
    if (!get_fields(&in, frame->type, &found)) {
        return error_set(TUTTI_ERR_PROTOCOL,
                "a message of unknown type %u over the link", frame->type);
    }
    if (!wire_ok(&in)) {
        return error_set(TUTTI_ERR_PROTOCOL,
                "a malformed message of type %u over the link", frame->type);
    }
    *message = found;
    return TUTTI_OK;
}
