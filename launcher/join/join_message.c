#include "launcher/join/join_message.h"

#include <string.h>

#include "launcher/hosts/host_list.h"

enum {
    HEADER_BYTES = 8 /* channel and value */
};

const struct meet_protocol join_protocol = { .name = "join", .is_sealed = true };

bool join_send(struct session *session, const struct join_message *message)
{
    size_t start;

    if (session_is_lost(session) || message->len > FRAME_MAX - HEADER_BYTES - 1) {
        return false;
    }
    start = session_begin(session, (uint8_t)message->type);
    wire_put_u32(&session->out, message->channel);
    wire_put_u32(&session->out, message->value);
    if (message->len > 0) {
        wire_put_bytes(&session->out, message->bytes, message->len);
    }
    session_end(session, start);
    return session_send_all(session);
}

int join_next(struct session *session, struct join_message *message)
{
    struct wire_reader in;
    struct frame frame;
    int got = session_next(session, &frame);

    if (got <= 0) {
        return got;
    }
    wire_reader_init(&in, frame.body, frame.len);
    *message = (struct join_message){ .type = (enum join_type)frame.type };
    message->channel = wire_get_u32(&in);
    message->value = wire_get_u32(&in);
    message->len = wire_left(&in);
    message->bytes = (const char *)wire_get_bytes(&in, message->len);
    return wire_ok(&in) && frame.type >= JOIN_RUN && frame.type <= JOIN_BYE ? 1 : -1;
}

void join_put_hello(struct wire_writer *out, const struct join_hello *hello)
{
    wire_put_str(out, hello->key, strlen(hello->key));
    wire_put_str(out, hello->name, strlen(hello->name));
    wire_put_u32(out, (uint32_t)hello->index);
    wire_put_u32(out, (uint32_t)hello->slots);
}

/* A text of a message, to which a zero is added; "" when the room is too small. */
static const char *take_text(struct wire_reader *in, char **room, size_t *left)
{
    size_t len = 0;
    const char *text = wire_get_str(in, *left - 1, &len);
    char *copy = *room;

    if (!wire_ok(in)) {
        return "";
    }
    memcpy(copy, text, len);
    copy[len] = '\0';
    *room += len + 1;
    *left -= len + 1;
    if (strlen(copy) != len || *left == 0) {
        in->failed = true;
    }
    return copy;
}

bool join_get_hello(struct wire_reader *in, struct join_hello *hello,
        char texts[JOIN_HELLO_TEXTS_MAX])
{
    char *room = texts;
    size_t left = JOIN_HELLO_TEXTS_MAX;
    uint32_t index;
    uint32_t slots;

    hello->key = take_text(in, &room, &left);
    hello->name = take_text(in, &room, &left);
    index = wire_get_u32(in);
    slots = wire_get_u32(in);
    hello->index = (int)(index & INT32_MAX);
    hello->slots = (int)(slots & INT32_MAX);
    return wire_ok(in) && slots >= 1 && slots <= HOST_SLOTS_LIMIT && index <= INT32_MAX;
}
