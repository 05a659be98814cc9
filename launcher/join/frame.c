/*
 * What hub, hosts and agents say to each other.
 */
#include "launcher/join/frame.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/error.h"
#include "base/mem.h"
#include "launcher/hosts/host_list.h"

enum {
    HEADER_BYTES = 9, /* type, channel and value           */
    SEND_MS = 10000 /* without room for so long: gone    */
};

void frame_end_fini(struct frame_end *end)
{
    if (end->fd >= 0) {
        (void)close(end->fd);
    }
    mem_free(end->data);
    *end = (struct frame_end){ .fd = -1 };
}

/* Moves what was not read to the front. */
static void compact(struct frame_end *end)
{
    if (end->read > 0) {
        memmove(end->data, end->data + end->read, end->len - end->read);
        end->len -= end->read;
        end->read = 0;
    }
}

tutti_status frame_receive(struct frame_end *end)
{
    ssize_t got;

    compact(end);
    if (!mem_grow(&end->data, &end->capacity, end->len + FRAME_READ_MAX, 1)) {
        return error_set(TUTTI_ERR_NO_MEMORY, "out of memory for a message");
    }
    do {
        got = recv(end->fd, end->data + end->len, FRAME_READ_MAX, MSG_DONTWAIT);
    } while (got < 0 && errno == EINTR);
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
        return TUTTI_OK;
    }
    if (got < 0) {
        return error_set_errno(TUTTI_ERR_SYSTEM, "the connection is lost");
    }
    if (got == 0) {
        end->closed = true;
        return error_set(TUTTI_ERR_SYSTEM, "the connection was closed");
    }
    end->len += (size_t)got;
    return TUTTI_OK;
}

int frame_next(struct frame_end *end, struct frame *frame)
{
    struct wire_reader in;
    uint32_t len;
    uint8_t type;

    wire_reader_init(&in, end->data + end->read, end->len - end->read);
    if (wire_left(&in) < sizeof len) {
        return 0;
    }
    len = wire_get_u32(&in);
    if (len < HEADER_BYTES || len > FRAME_BYTES_MAX) {
        return -1;
    }
    if (wire_left(&in) < len) {
        return 0;
    }
    type = wire_get_u8(&in);
    *frame = (struct frame){
        .type = (enum frame_type)type,
        .channel = wire_get_u32(&in),
        .value = wire_get_u32(&in),
        .len = len - HEADER_BYTES,
    };
    frame->bytes = (const char *)wire_get_bytes(&in, frame->len);
    end->read += sizeof len + len;
    return wire_ok(&in) && type >= FRAME_HELLO && type <= FRAME_BYE ? 1 : -1;
}

/* Sends what there is room for; -1 when the other side is gone. */
static ssize_t send_some(int fd, const uint8_t *data, size_t len)
{
    struct pollfd room = { .fd = fd, .events = POLLOUT };
    ssize_t sent = send(fd, data, len, MSG_NOSIGNAL | MSG_DONTWAIT);

    if (sent >= 0 || errno == EINTR) {
        return sent >= 0 ? sent : 0;
    }
    if (errno != EAGAIN && errno != EWOULDBLOCK) {
        return -1;
    }
    return poll(&room, 1, SEND_MS) == 0 ? -1 : 0;
}

static bool send_bytes(int fd, const uint8_t *data, size_t len)
{
    while (len > 0) {
        ssize_t sent = send_some(fd, data, len);

        if (sent < 0) {
            return false;
        }
        data += sent;
        len -= (size_t)sent;
    }
    return true;
}

bool frame_send(int fd, const struct frame *frame)
{
    struct wire_writer out = { .data = NULL };
    bool sent;

    wire_put_u32(&out, (uint32_t)(HEADER_BYTES + frame->len));
    wire_put_u8(&out, (uint8_t)frame->type);
    wire_put_u32(&out, frame->channel);
    wire_put_u32(&out, frame->value);
    if (frame->len > 0) {
        wire_put_bytes(&out, frame->bytes, frame->len);
    }
    sent = !out.failed && frame->len <= FRAME_BYTES_MAX - HEADER_BYTES &&
            send_bytes(fd, out.data, out.len);
    wire_writer_fini(&out);
    return sent;
}

bool frame_send_hello(int fd, const struct frame_hello *hello)
{
    struct wire_writer out = { .data = NULL };
    struct frame frame = { .type = FRAME_HELLO, .value = FRAME_VERSION };
    bool sent;

    wire_put_str(&out, hello->key, strlen(hello->key));
    wire_put_str(&out, hello->release, strlen(hello->release));
    wire_put_str(&out, hello->name, strlen(hello->name));
    wire_put_u32(&out, (uint32_t)hello->index);
    wire_put_u32(&out, (uint32_t)hello->slots);
    frame.bytes = (const char *)out.data;
    frame.len = out.len;
    sent = !out.failed && frame_send(fd, &frame);
    wire_writer_fini(&out);
    return sent;
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

bool frame_read_hello(const struct frame *frame, struct frame_hello *hello,
        char texts[HELLO_TEXTS_MAX])
{
    struct wire_reader in;
    char *room = texts;
    size_t left = HELLO_TEXTS_MAX;
    uint32_t index;
    uint32_t slots;

    wire_reader_init(&in, frame->bytes, frame->len);
    hello->key = take_text(&in, &room, &left);
    hello->release = take_text(&in, &room, &left);
    hello->name = take_text(&in, &room, &left);
    index = wire_get_u32(&in);
    slots = wire_get_u32(&in);
    hello->index = (int)(index & INT32_MAX);
    hello->slots = (int)(slots & INT32_MAX);
    return wire_ok(&in) && frame->type == FRAME_HELLO &&
            frame->value == FRAME_VERSION && slots >= 1 && slots <= HOST_SLOTS_LIMIT &&
            index <= INT32_MAX;
}

bool frame_same_key(const char *a, const char *b)
{
    size_t len = strlen(a);
    unsigned different = len != strlen(b);

    if (different != 0) {
        return false;
    }
    for (size_t i = 0; i < len; i++) {
        different |= (unsigned char)a[i] ^ (unsigned char)b[i];
    }
    return different == 0;
}
