#include "launcher/session/session.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "launcher/session/loop.h"

size_t frame_begin(struct wire_writer *out, uint8_t type)
{
    size_t start = out->len;

    wire_put_u32(out, 0);
    wire_put_u8(out, type);
    return start;
}

void frame_end(struct wire_writer *out, size_t start)
{
    size_t len;

    if (out->failed) {
        return;
    }
    len = out->len - start - FRAME_LENGTH_BYTES;
    for (size_t i = 0; i < FRAME_LENGTH_BYTES; i++) {
        out->data[start + i] = (uint8_t)(len >> (8 * i));
    }
}

tutti_status frame_take(
        const uint8_t *bytes, size_t len, struct frame *frame, size_t *used)
{
    struct wire_reader in;
    uint32_t body;

    *used = 0;
    if (len < FRAME_LENGTH_BYTES) {
        return TUTTI_OK;
    }
    wire_reader_init(&in, bytes, len);
    body = wire_get_u32(&in);
    if (body < 1 || body > FRAME_MAX) {
        return error_set(TUTTI_ERR_PROTOCOL,
                "a message of %u bytes over the link; it has 1 to %d", body, FRAME_MAX);
    }
    if (len - FRAME_LENGTH_BYTES < body) {
        return TUTTI_OK;
    }
    bytes += FRAME_LENGTH_BYTES;
    *frame = (struct frame){ .type = bytes[0], .body = bytes + 1, .len = body - 1 };
    *used = FRAME_LENGTH_BYTES + body;
    return TUTTI_OK;
}

enum {
    READ_BYTES = 1 << 16, /* at once                          */
    STUCK_MS = 10000 /* without room for so long: gone     */
};

struct session session_of(int fd, const void *secret, size_t secret_len)
{
    return (struct session){ .fd = fd,
        .exchange = { .secret = secret, .secret_len = secret_len } };
}

void session_lose(struct session *session)
{
    session_detach(session);
    fd_close(&session->fd);
    session->fd = -1;
    session->is_paused = false;
    session->sent = 0;
    wire_writer_reset(&session->out);
}

void session_fini(struct session *session)
{
    session_lose(session);
    wire_writer_fini(&session->out);
    mem_free(session->in);
    *session = (struct session){ .fd = -1 };
}

/* What the loop has to look for. */
static bool set_events(struct session *session)
{
    const unsigned in = session->is_paused ? 0U : (unsigned)EPOLLIN;
    const unsigned out = session_waiting(session) > 0 ? (unsigned)EPOLLOUT : 0U;

    return session->loop == NULL || session->fd < 0 ||
            loop_set(session->loop, &session->watch, session->fd, in | out);
}

bool session_attach(struct session *session, struct loop *loop,
        void (*call)(void *context, unsigned ready), void *context)
{
    session->loop = loop;
    session->watch = (struct loop_watch){ .call = call, .context = context };
    return set_events(session);
}

void session_detach(struct session *session)
{
    (void)loop_set(session->loop, &session->watch, session->fd, 0);
    session->loop = NULL;
}

void session_pause(struct session *session, bool is_paused)
{
    session->is_paused = is_paused;
    (void)set_events(session);
}

bool session_receive(struct session *session)
{
    ssize_t got;

    session->in_len -= session->taken;
    if (session->taken > 0 && session->in_len > 0) {
        memmove(session->in, session->in + session->taken, session->in_len);
    }
    session->taken = 0;
    session->last = 0;
    if (session->fd < 0 ||
            !mem_grow(&session->in, &session->in_capacity, session->in_len + READ_BYTES,
                    1)) {
        return false;
    }
    got = recv(session->fd, session->in + session->in_len, READ_BYTES, MSG_DONTWAIT);
    session->was_closed = got == 0;
    session->in_len += got > 0 ? (size_t)got : 0;
    return got > 0 || (got < 0 && (errno == EAGAIN || errno == EINTR));
}

int session_next(struct session *session, struct frame *frame)
{
    if (session->in_len == session->taken) {
        return 0;
    }
    if (frame_take(session->in + session->taken, session->in_len - session->taken,
                frame, &session->last) != TUTTI_OK) {
        return -1;
    }
    session->taken += session->last;
    return session->last > 0 ? 1 : 0;
}

void session_put_back(struct session *session)
{
    session->taken -= session->last;
    session->last = 0;
}

int session_wait(struct session *session, int64_t deadline, struct frame *frame)
{
    int got = session_next(session, frame);

    while (got == 0 && session->fd >= 0 && clock_ns() < deadline) {
        struct pollfd polled = { .fd = session->fd, .events = POLLIN };

        if (session_waiting(session) > 0) {
            polled.events |= POLLOUT;
        }
        (void)poll(&polled, 1, loop_ms_until(deadline));
        if (((polled.revents & POLLOUT) != 0 && !session_send(session)) ||
                !session_receive(session)) {
            session_lose(session);
        }
        got = session_next(session, frame);
    }
    return got;
}

size_t session_begin(struct session *session, uint8_t type)
{
    return frame_begin(&session->out, type);
}

void session_end(struct session *session, size_t start)
{
    frame_end(&session->out, start);
}

void session_put(struct session *session, uint8_t type, const void *body, size_t len)
{
    size_t start = session_begin(session, type);

    if (len > 0) {
        wire_put_bytes(&session->out, body, len);
    }
    session_end(session, start);
}

/* What was sent goes, when it is all, or much. */
static void forget_sent(struct session *session)
{
    struct wire_writer *out = &session->out;

    if (session->sent == out->len || session->sent >= SESSION_FULL / 2) {
        memmove(out->data, out->data + session->sent, out->len - session->sent);
        out->len -= session->sent;
        session->sent = 0;
    }
}

bool session_send(struct session *session)
{
    bool is_broken = session->out.failed || session->fd < 0;

    while (!is_broken && session_waiting(session) > 0) {
        ssize_t count = send(session->fd, session->out.data + session->sent,
                session_waiting(session), MSG_NOSIGNAL | MSG_DONTWAIT);

        if (count < 0 && errno == EAGAIN) {
            break;
        }
        is_broken = count < 0 && errno != EINTR;
        session->sent += count > 0 ? (size_t)count : 0;
    }
    if (session->sent > 0) {
        forget_sent(session);
    }
    (void)set_events(session);
    return !is_broken;
}

bool session_send_all(struct session *session)
{
    bool lives = session_send(session);

    while (lives && session_waiting(session) > 0) {
        struct pollfd room = { .fd = session->fd, .events = POLLOUT };

        lives = poll(&room, 1, STUCK_MS) != 0 && session_send(session);
    }
    return lives;
}
