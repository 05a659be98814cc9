#include "boot/session.h"

#include <errno.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/config.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/passing.h"
#include "base/text.h"
#include "base/wire.h"

enum {
    HEADER_BYTES = 5, /* length and type                                         */
    PATIENCE_MS = 300000, /* until all ranks have come                           */
    ANSWER_MS = 10000 /* a supervisor that says nothing for so long is stopped   */
};

struct session {
    int fd; /* the connection to the supervisor */
    int size;
    int timeout_ms;
    uint8_t *body; /* of the last message; BOOT_SESSION_MESSAGE_MAX bytes */
};

static tutti_status fail_gone(void)
{
    return error_set(TUTTI_ERR_SYSTEM,
            "the supervisor of this rank (tuttirun --exec) has ended");
}

/* Waits until a message can be read. TUTTI_AGAIN: nothing came until then. */
static tutti_status await(const struct session *session, int64_t deadline)
{
    struct pollfd polled = { .fd = session->fd, .events = POLLIN };

    for (;;) {
        const int64_t left = deadline - clock_ns();

        if (left <= 0) {
            return TUTTI_AGAIN;
        }
        if (poll(&polled, 1, (int)(left / 1000000 + 1)) > 0) {
            return TUTTI_OK;
        }
    }
}

static tutti_status read_all(const struct session *session, void *bytes, size_t len)
{
    uint8_t *at = bytes;

    while (len > 0) {
        const ssize_t got = recv(session->fd, at, len, MSG_WAITALL);

        if (got == 0 || (got < 0 && errno != EINTR)) {
            return fail_gone();
        }
        at += got > 0 ? got : 0;
        len -= got > 0 ? (size_t)got : 0;
    }
    return TUTTI_OK;
}

static tutti_status fail_protocol(void)
{
    return error_set(TUTTI_ERR_PROTOCOL,
            "what the supervisor of this rank says is malformed; is tuttirun of "
            "another version than the library?");
}

/* Takes the next message, which is there. FAILED is an error; its text is the error's. */
static tutti_status take(
        const struct session *session, enum boot_message wanted, struct wire_reader *in)
{
    uint8_t header[HEADER_BYTES];
    uint32_t len;
    tutti_status status = read_all(session, header, sizeof header);

    if (status != TUTTI_OK) {
        return status;
    }
    wire_reader_init(in, header, sizeof header);
    len = wire_get_u32(in) - 1;
    if (len > BOOT_SESSION_MESSAGE_MAX) {
        return fail_protocol();
    }
    status = read_all(session, session->body, len);
    wire_reader_init(in, session->body, len);
    if (status == TUTTI_OK && header[HEADER_BYTES - 1] == BOOT_FAILED) {
        size_t text_len;
        const char *text = wire_get_str(in, BOOT_SESSION_MESSAGE_MAX, &text_len);

        return error_set(TUTTI_ERR_CONTEXT_FAILED, "%.*s",
                wire_ok(in) ? (int)text_len : 0, text);
    }
    return status != TUTTI_OK || header[HEADER_BYTES - 1] == wanted ? status
                                                                    : fail_protocol();
}

/* Sends a message whose fields were put behind HEADER_BYTES of room, and frees it. */
static tutti_status put(
        const struct session *session, enum boot_message type, struct wire_writer *out)
{
    const size_t len = out->len - (HEADER_BYTES - 1);
    tutti_status status = TUTTI_OK;
    size_t sent = 0;

    if (out->failed) {
        wire_writer_fini(out);
        return error_set(TUTTI_ERR_NO_MEMORY, "out of memory");
    }
    for (size_t i = 0; i < sizeof(uint32_t); i++) {
        out->data[i] = (uint8_t)(len >> (8 * i));
    }
    out->data[HEADER_BYTES - 1] = (uint8_t)type;
    while (status == TUTTI_OK && sent < out->len) {
        const ssize_t done =
                send(session->fd, out->data + sent, out->len - sent, MSG_NOSIGNAL);

        sent += done > 0 ? (size_t)done : 0;
        status = done < 0 && errno != EINTR ? fail_gone() : TUTTI_OK;
    }
    wire_writer_fini(out);
    return status;
}

static struct wire_writer begin(void)
{
    static const uint8_t header[HEADER_BYTES];
    struct wire_writer out = { .data = NULL };

    wire_put_bytes(&out, header, sizeof header);
    return out;
}

static tutti_status ask(const struct session *session, size_t got)
{
    struct wire_writer out = begin();

    wire_put_u64(&out, got);
    return put(session, BOOT_MORE, &out);
}

/* Takes the part that is there; *got is how much of all there is then. */
static tutti_status take_part(
        const struct session *session, uint8_t *all, size_t total, size_t *got)
{
    struct wire_reader in;
    tutti_status status = take(session, BOOT_PART, &in);
    const char *bytes;
    size_t len = 0;
    uint64_t whole;
    uint64_t offset;

    if (status != TUTTI_OK) {
        return status;
    }
    whole = wire_get_u64(&in);
    offset = wire_get_u64(&in);
    bytes = wire_get_str(&in, BOOT_SESSION_BYTES_MAX, &len);
    if (!wire_ok(&in) || whole != total || offset != *got || len == 0 ||
            len > total - *got) {
        return fail_protocol();
    }
    memcpy(all + *got, bytes, len);
    *got += len;
    return *got < total ? ask(session, *got) : TUTTI_OK;
}

static tutti_status fail_late(const struct session *session, const char *why)
{
    return error_set(
            TUTTI_ERR_TIMEOUT, "after %g s: %s", session->timeout_ms / 1000.0, why);
}

/* Time is up: tuttirun says who is missing, unless the last has come just now. */
static tutti_status ask_who(
        const struct session *session, uint8_t *all, size_t total, size_t *got)
{
    tutti_status status = ask(session, SIZE_MAX); /* of which there is no more */

    if (status == TUTTI_OK) {
        status = await(session, clock_ns() + (int64_t)ANSWER_MS * 1000000);
    }
    if (status == TUTTI_AGAIN) {
        return fail_late(session, "not all ranks have come");
    }
    if (status == TUTTI_OK) {
        status = take_part(session, all, total, got);
    }
    return status == TUTTI_ERR_CONTEXT_FAILED ? fail_late(session, tutti_last_error())
                                              : status;
}

/* The parts of what all ranks gave, `total` bytes. */
static tutti_status take_parts(
        const struct session *session, uint8_t *all, size_t total)
{
    const int64_t deadline = clock_ns() + (int64_t)session->timeout_ms * 1000000;
    tutti_status status = TUTTI_OK;
    size_t got = 0;

    while (status == TUTTI_OK && got < total) {
        status = await(session, deadline);
        if (status == TUTTI_AGAIN) {
            status = ask_who(session, all, total, &got);
        } else if (status == TUTTI_OK) {
            status = take_part(session, all, total, &got);
        }
    }
    return status;
}

static tutti_status allgather(void *user, const void *mine, void *all, size_t bytes)
{
    const struct session *session = user;
    struct wire_writer out = begin();
    tutti_status status;

    if (bytes == 0 || bytes > BOOT_SESSION_BYTES_MAX) {
        wire_writer_fini(&out);
        return error_set(TUTTI_ERR_INVALID,
                "%zu bytes of a rank over tuttirun's session, which takes 1 to %d",
                bytes, BOOT_SESSION_BYTES_MAX);
    }
    wire_put_str(&out, mine, bytes);
    status = put(session, BOOT_GIVE, &out);
    return status == TUTTI_OK ? take_parts(session, all, bytes * (size_t)session->size)
                              : status;
}

static void close_session(void *user)
{
    struct session *session = user;

    (void)close(session->fd);
    mem_free(session->body);
    mem_free(session);
}

/* The door, if the descriptor is still the one that was inherited; -1: it is not. */
static int find_door(const char *text)
{
    const char *space = text == NULL ? NULL : strchr(text, ' ');
    struct stat about;
    int64_t inode;
    int64_t fd;
    char number[16];

    if (space == NULL || (size_t)(space - text) >= sizeof number) {
        return -1;
    }
    (void)snprintf(number, sizeof number, "%.*s", (int)(space - text), text);
    return text_to_int64(number, &fd) && fd >= 0 && fd <= INT32_MAX &&
                    text_to_int64(space + 1, &inode) && fstat((int)fd, &about) == 0 &&
                    S_ISSOCK(about.st_mode) && about.st_ino == (ino_t)inode
            ? (int)fd
            : -1;
}

static tutti_status knock(struct session *session, int door)
{
    char byte = 'b';
    int ends[2];
    ssize_t sent;

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
        return error_set_errno(TUTTI_ERR_SYSTEM, "make a socket to the supervisor");
    }
    session->fd = ends[0];
    sent = passing_send(door, NULL, 0, &byte, sizeof byte, ends[1]);
    (void)close(ends[1]);
    return sent == (ssize_t)sizeof byte ? TUTTI_OK : fail_gone();
}

static tutti_status take_place(struct session *session, struct boot *boot)
{
    struct wire_reader in;
    tutti_status status = await(session, clock_ns() + (int64_t)ANSWER_MS * 1000000);

    if (status == TUTTI_AGAIN) {
        return error_set(
                TUTTI_ERR_SYSTEM, "the supervisor of this rank does not answer");
    }
    status = take(session, BOOT_PLACE, &in);
    if (status != TUTTI_OK) {
        return status;
    }
    *boot = (struct boot){
        .name = "session",
        .allgather = allgather,
        .close = close_session,
        .user = session,
    };
    boot->rank = (int)wire_get_svarint(&in);
    boot->size = (int)wire_get_svarint(&in);
    session->size = boot->size;
    return wire_ok(&in) && boot->rank >= 0 && boot->rank < boot->size ? TUTTI_OK
                                                                      : fail_protocol();
}

tutti_status boot_session_open(struct boot *boot)
{
    return boot_session_open_within(boot, PATIENCE_MS);
}

tutti_status boot_session_open_within(struct boot *boot, int timeout_ms)
{
    const int door = find_door(config_internal(BOOT_SESSION_VARIABLE));
    struct session *session;
    tutti_status status;

    if (door < 0) {
        return TUTTI_AGAIN;
    }
    session = mem_calloc(1, sizeof *session);
    if (session == NULL) {
        return error_set(TUTTI_ERR_NO_MEMORY, "out of memory");
    }
    *session = (struct session){
        .fd = -1, .timeout_ms = timeout_ms, .body = mem_alloc(BOOT_SESSION_MESSAGE_MAX)
    };
    status = session->body == NULL ? error_set(TUTTI_ERR_NO_MEMORY, "out of memory")
                                   : knock(session, door);
    if (status == TUTTI_OK) {
        status = take_place(session, boot);
    }
    if (status != TUTTI_OK) {
        close_session(session);
    }
    return status;
}
