#include "launcher/session/link.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/failure_page.h"
#include "base/mem.h"
#include "base/text.h"

enum {
    SIGNAL_MAX = 64, /* largest number of a signal      */
    MILLISECONDS_MAX = 86400000, /* a day: nobody waits longer      */
    EXIT_MAX = 255, /* largest exit status             */
    RANK_MAX = 1 << 24 /* more ranks are a mistake        */
};

const struct meet_protocol link_protocol = { .name = "supervisor" };

enum field_kind {
    FIELD_BOOL,
    FIELD_U8,
    FIELD_U32,
    FIELD_U64, /* without a range */
    FIELD_INT,
    FIELD_TEXT /* max: bytes; longer ones are cut when they are sent */
};

struct field {
    enum link_type type; /* of the message       */
    enum field_kind kind;
    size_t offset; /* in struct link_message */
    int64_t min, max; /* a number outside makes the message malformed */
};

#define FIELD(message, kind_, member, min_, max_) \
    { \
        .type = LINK_##message, .kind = FIELD_##kind_, \
        .offset = offsetof(struct link_message, member), .min = (min_), .max = (max_) \
    }

/* In the order in which they are sent. */
static const struct field fields[] = {
    FIELD(HELLO, TEXT, hello.host, 0, LINK_TEXT_MAX),
    FIELD(HELLO, INT, hello.rank, -1, RANK_MAX),
    FIELD(HELLO, INT, hello.size, -1, RANK_MAX),
    FIELD(HELLO, INT, hello.local_rank, -1, RANK_MAX),
    FIELD(HELLO, INT, hello.local_size, -1, RANK_MAX),
    FIELD(HELLO, U64, hello.pid, 0, 0),
    FIELD(WELCOME, TEXT, welcome.job, 0, LINK_TEXT_MAX),
    FIELD(WELCOME, TEXT, welcome.log_folder, 0, LINK_TEXT_MAX),
    FIELD(WELCOME, U32, welcome.beat_ms, 1, LINK_BEAT_MS_MAX),
    FIELD(WELCOME, U32, welcome.silent_ms, 1, MILLISECONDS_MAX),
    FIELD(WELCOME, U32, welcome.kill_ms, 0, MILLISECONDS_MAX),
    FIELD(WELCOME, U64, welcome.output_rate, 0, 0),
    FIELD(WELCOME, U8, welcome.forward[0], LINK_FORWARD_NOTHING, LINK_FORWARD_BYTES),
    FIELD(WELCOME, U8, welcome.forward[1], LINK_FORWARD_NOTHING, LINK_FORWARD_BYTES),
    FIELD(WELCOME, U32, welcome.generation, 0, UINT32_MAX),
    FIELD(WELCOME, U32, welcome.keeper_port, 0, UINT16_MAX),
    FIELD(WELCOME, U32, welcome.metrics_port, 0, UINT16_MAX),
    FIELD(WELCOME, TEXT, welcome.metrics_address, 0, LINK_TEXT_MAX),
    FIELD(WELCOME, TEXT, welcome.metrics_file, 0, LINK_TEXT_MAX),
    FIELD(WELCOME, U32, welcome.metrics_ms, 0, MILLISECONDS_MAX),
    FIELD(WELCOME, BOOL, welcome.tells, 0, 1),
    FIELD(WELCOME, BOOL, welcome.waits, 0, 1),
    FIELD(STARTED, U64, started.pid, 0, 0),
    FIELD(STARTED, TEXT, started.binding, 0, LINK_TEXT_MAX),
    FIELD(STARTED, TEXT, started.log, 0, LINK_TEXT_MAX),
    FIELD(BEAT, U64, beat.sent, 0, 0),
    FIELD(BEAT, U64, beat.echo, 0, 0),
    FIELD(BEAT, U64, beat.held, 0, 0),
    FIELD(BEAT, U8, beat.state, 0, UINT8_MAX),
    FIELD(OUTPUT, U8, output.stream, 1, 2),
    FIELD(OUTPUT, U64, output.time, 0, 0),
    FIELD(OUTPUT, TEXT, output.lines, 0, LINK_LINES_MAX),
    FIELD(NOTE, TEXT, note, 0, LINK_TEXT_MAX),
    FIELD(SIGNAL, INT, signal, 1, SIGNAL_MAX),
    FIELD(EXITED, U8, exited.ending, LINK_ENDED_EXIT, LINK_ENDED_SETUP),
    FIELD(EXITED, U32, exited.value, 0, INT32_MAX),
    FIELD(EXITED, U64, exited.time, 0, 0),
    FIELD(EXITED, U8, exited.stage, LIBRARY_STAGE_NONE, LIBRARY_STAGE_STARTING),
    FIELD(EXITED, BOOL, exited.dumped_core, 0, 1),
    FIELD(EXITED, BOOL, exited.is_oom, 0, 1),
    FIELD(EXITED, BOOL, exited.was_stopped, 0, 1),
    FIELD(EXITED, TEXT, exited.detail, 0, LINK_TEXT_MAX),
    FIELD(EXITED, TEXT, exited.tail, 0, LINK_TAIL_MAX),
    FIELD(EXITED, U8, exited.failure, CONTEXT_FAILURE_NONE, CONTEXT_FAILURE_TOLD),
    FIELD(EXITED, TEXT, exited.awaited, 0, LINK_TEXT_MAX),
    FIELD(EXITED, U64, exited.committed, 0, 0),
    FIELD(FAILURE, INT, failure.rank, -1, RANK_MAX),
    FIELD(FAILURE, TEXT, failure.text, 0, LINK_TEXT_MAX),
    FIELD(STOP, U32, stop_ms, 0, MILLISECONDS_MAX),
    FIELD(RELEASE, U8, release.status, 0, UINT8_MAX),
    FIELD(RELEASE, TEXT, release.text, 0, LINK_TEXT_MAX),
    FIELD(SUSPICION, TEXT, suspicion, 0, LINK_TEXT_MAX),
    FIELD(NOTICE, U32, notice, 1, UINT8_MAX),
    FIELD(LOOK, BOOL, look, 0, 1),
    FIELD(RECORDING, U64, recording.offset, 0, 0),
    FIELD(RECORDING, U64, recording.total, 0, 0),
    FIELD(RECORDING, TEXT, recording.bytes, 0, LINK_LINES_MAX),
    FIELD(TIMELINE, U32, timeline, 1, UINT32_MAX),
    FIELD(METRICS, U64, metrics.time, 0, 0),
    FIELD(METRICS, U64, metrics.steps, 0, 0),
    FIELD(METRICS, U64, metrics.bytes, 0, 0),
    FIELD(METRICS, U64, metrics.wait_ns, 0, 0),
    FIELD(METRICS, U64, metrics.lead_ns, 0, 0),
    FIELD(GIVE, BOOL, give.is_withdrawn, 0, 1),
    FIELD(GIVE, TEXT, give.bytes, 0, LINK_LINES_MAX),
    FIELD(MORE, U64, more, 0, 0),
    FIELD(PART, U64, part.total, 0, 0),
    FIELD(PART, U64, part.offset, 0, 0),
    FIELD(PART, TEXT, part.bytes, 0, LINK_LINES_MAX),
    FIELD(UNMET, TEXT, unmet, 0, LINK_TEXT_MAX),
};

enum {
    FIELD_COUNT = sizeof fields / sizeof fields[0]
};

static void put_field(
        struct wire_writer *out, const struct field *field, const void *value)
{
    switch (field->kind) {
    case FIELD_BOOL:
        wire_put_u8(out, *(const bool *)value ? 1 : 0);
        break;
    case FIELD_U8:
        wire_put_u8(out, *(const uint8_t *)value);
        break;
    case FIELD_U32:
        wire_put_u32(out, *(const uint32_t *)value);
        break;
    case FIELD_U64:
        wire_put_u64(out, *(const uint64_t *)value);
        break;
    case FIELD_INT:
        wire_put_svarint(out, *(const int *)value);
        break;
    case FIELD_TEXT: {
        const struct link_text *text = value;

        wire_put_str(out, text->text == NULL ? "" : text->text,
                size_min(text->len, (size_t)field->max));
        break;
    }
    }
}

/* A number outside of its range is as wrong as one that is cut off. */
static int64_t check_range(
        struct wire_reader *in, const struct field *field, int64_t value)
{
    if (value < field->min || value > field->max) {
        in->failed = true;
        return field->min;
    }
    return value;
}

static void get_text(
        struct wire_reader *in, const struct field *field, struct link_text *text)
{
    text->text = wire_get_str(in, (size_t)field->max, &text->len);
    if (text->text == NULL) {
        *text = link_text_of("");
    }
}

static void get_field(struct wire_reader *in, const struct field *field, void *value)
{
    switch (field->kind) {
    case FIELD_BOOL:
        *(bool *)value = check_range(in, field, wire_get_u8(in)) == 1;
        break;
    case FIELD_U8:
        *(uint8_t *)value = (uint8_t)check_range(in, field, wire_get_u8(in));
        break;
    case FIELD_U32:
        *(uint32_t *)value = (uint32_t)check_range(in, field, wire_get_u32(in));
        break;
    case FIELD_U64:
        *(uint64_t *)value = wire_get_u64(in);
        break;
    case FIELD_INT:
        *(int *)value = (int)check_range(in, field, wire_get_svarint(in));
        break;
    case FIELD_TEXT:
        get_text(in, field, value);
        break;
    }
}

void link_put_body(struct wire_writer *out, const struct link_message *message)
{
    for (size_t i = 0; i < FIELD_COUNT; i++) {
        if (fields[i].type == message->type) {
            put_field(out, &fields[i], (const char *)message + fields[i].offset);
        }
    }
}

void link_put(struct wire_writer *out, const struct link_message *message)
{
    size_t start = frame_begin(out, (uint8_t)message->type);

    link_put_body(out, message);
    frame_end(out, start);
}

void link_put_note(struct wire_writer *out, const char *format, ...)
{
    char text[LINK_TEXT_MAX];
    va_list values;

    va_start(values, format);
    (void)vsnprintf(text, sizeof text, format, values);
    va_end(values);
    link_put(out,
            &(struct link_message){ .type = LINK_NOTE, .note = link_text_of(text) });
}

bool link_get_body(
        struct wire_reader *in, enum link_type type, struct link_message *message)
{
    *message = (struct link_message){ .type = type };
    for (size_t i = 0; i < FIELD_COUNT; i++) {
        if (fields[i].type == type) {
            get_field(in, &fields[i], (char *)message + fields[i].offset);
        }
    }
    return wire_ok(in) &&
            !(type == LINK_EXITED && message->exited.ending == LINK_ENDED_EXIT &&
                    message->exited.value > EXIT_MAX);
}

tutti_status link_read(const struct frame *frame, struct link_message *message)
{
    struct wire_reader in;

    if (frame->type < FRAME_OWN || frame->type > LINK_GO) {
        return error_set(TUTTI_ERR_PROTOCOL,
                "a message of unknown type %u over the link", frame->type);
    }
    wire_reader_init(&in, frame->body, frame->len);
    if (!link_get_body(&in, (enum link_type)frame->type, message)) {
        return error_set(TUTTI_ERR_PROTOCOL,
                "a malformed message of type %u over the link", frame->type);
    }
    return TUTTI_OK;
}

enum {
    OFFSET_GOOD_S =
            60 /* seconds after which a longer round trip replaces the shortest */
};

void offset_learn(struct offset *offset, const struct link_beat *beat, int64_t now)
{
    int64_t echo = (int64_t)beat->echo;
    int64_t held = (int64_t)beat->held;
    int64_t sent = (int64_t)beat->sent;
    bool is_old = now - offset->measured > (int64_t)OFFSET_GOOD_S * 1000000000;
    int64_t trip;

    /* What no honest supervisor sends: an echo of the future, or held for too long. */
    if (echo <= 0 || echo > now || held < 0 || held > now - echo || sent < 0) {
        return;
    }
    trip = now - echo - held;
    if (offset->is_ours || (offset->is_known && trip > offset->trip_ns && !is_old)) {
        return;
    }
    *offset = (struct offset){
        .is_known = true,
        .ahead_ns = sent - now + trip / 2,
        .trip_ns = trip,
        .measured = now,
    };
}

int64_t offset_ours(
        const struct offset *offset, uint64_t theirs, int64_t now, int64_t *doubt)
{
    int64_t ours;

    if (!offset->is_known && !offset->is_ours) {
        *doubt = 0;
        return now;
    }
    *doubt = offset->trip_ns / 2;
    /* What is not between 0 and now no honest supervisor sends. */
    if (theirs > INT64_MAX ||
            __builtin_sub_overflow((int64_t)theirs, offset->ahead_ns, &ours) ||
            ours > now) {
        return now;
    }
    return ours < 0 ? 0 : ours;
}

enum {
    PORT_MAX = 65535
};

void link_address_format(const struct link_address *address, char text[LINK_JOIN_MAX])
{
    (void)snprintf(text, LINK_JOIN_MAX, "%s ", address->token);
    for (size_t i = 0; i < address->count; i++) {
        text_append(
                text, LINK_JOIN_MAX, "%s%s", i == 0 ? "" : ",", address->addresses[i]);
    }
    text_append(text, LINK_JOIN_MAX, " %d", address->port);
}

/* Copies up to the next of `ends` and moves behind it; false: empty or too long. */
static bool take_word(const char **text, const char *ends, char *word, size_t capacity)
{
    size_t len = strcspn(*text, ends);

    if (len == 0 || len >= capacity) {
        return false;
    }
    memcpy(word, *text, len);
    word[len] = '\0';
    *text += len;
    return true;
}

static bool take_addresses(const char **text, struct link_address *address)
{
    do {
        if (address->count == LINK_ADDRESSES_MAX ||
                !take_word(text, ", ", address->addresses[address->count],
                        LINK_ADDRESS_MAX)) {
            return false;
        }
        address->count++;
    } while (*(*text)++ == ',');
    return (*text)[-1] == ' ';
}

static bool take_port(const char *text, int *port)
{
    int64_t value;

    if (!text_to_int64(text, &value) || value < 1 || value > PORT_MAX) {
        return false;
    }
    *port = (int)value;
    return true;
}

static bool parse(struct link_address *address, const char *text)
{
    if (!take_word(&text, " ", address->token, sizeof address->token) ||
            strlen(address->token) != LINK_TOKEN_BYTES || *text != ' ') {
        return false;
    }
    text++;
    return take_addresses(&text, address) && take_port(text, &address->port);
}

tutti_status link_address_parse(struct link_address *address, const char *text)
{
    struct link_address found = { .count = 0 };

    if (!parse(&found, text)) {
        return error_set(TUTTI_ERR_INVALID,
                "%s is malformed; it is set by tuttirun for the ranks it starts, and "
                "means nothing elsewhere",
                LINK_VARIABLE);
    }
    *address = found;
    return TUTTI_OK;
}
