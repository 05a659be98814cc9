/*
 * A session: one connection between two processes of tuttirun, with what was received and not yet taken, and what is not sent yet. The
 * socket never blocks. Who accepted or made the connection owns the session.
 *
 *   sockets.h               how a connection is made
 *   meet.h, proof.h         how its sides prove that they know the secret
 *   loop.h                  what the process waits with
 */
#ifndef TUTTI_LAUNCHER_SESSION_SESSION_H
#define TUTTI_LAUNCHER_SESSION_SESSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tutti/tutti.h>

#include "base/wire.h"
#include "launcher/session/loop.h"
#include "launcher/session/proof.h"

/*
 * Frames are what is sent over a session. A frame is its length (4 bytes, little-endian, of what
 * follows), its type (1 byte) and its body. Pure.
 */

enum {
    FRAME_MAX = 1 << 17, /* bytes of type and body       */
    FRAME_LENGTH_BYTES = 4 /* before them, their number    */
};

struct frame {
    uint8_t type;
    const uint8_t *body; /* borrowed */
    size_t len;
};

/** Begins a frame behind what is in `out`; returns where it starts, for frame_end(). */
size_t frame_begin(struct wire_writer *out, uint8_t type);
/** What was put since then is its body. */
void frame_end(struct wire_writer *out, size_t start);

/**
 * Takes the first frame of a stream of bytes.
 * @param[out] used  bytes it took; 0: it is not whole yet
 * @return TUTTI_OK, TUTTI_ERR_PROTOCOL (its length is wrong)
 */
TUTTI_MUST_USE tutti_status frame_take(
        const uint8_t *bytes, size_t len, struct frame *frame, size_t *used);

enum {
    SESSION_FULL = 1 << 20 /* bytes that wait to go: the other side does not read */
};

/** With fd -1, and else zeroed, there is none. */
struct session {
    int fd; /* owned; -1: there is none, or it is lost              */
    bool was_closed; /* by the other side, in order                   */
    struct loop *loop; /* that watches it; NULL: none                  */
    struct loop_watch watch; /* by it                                          */
    bool is_paused; /* nothing is read of it                        */
    uint8_t *in; /* received; owned                                */
    size_t in_len, in_capacity; /* bytes there; bytes allocated           */
    size_t taken; /* bytes at the front that frames were taken of   */
    size_t last; /* of them, by the last one                     */
    struct wire_writer out; /* frames; frame_end() ends each              */
    size_t sent; /* bytes of `out` that are gone                  */
    struct proof_exchange exchange; /* by which the sides prove themselves */
};

/** A session over a socket, which it owns from now on. The secret is borrowed. */
struct session session_of(int fd, const void *secret, size_t secret_len);
void session_fini(struct session *session);
/** Gives it up: closes the socket and forgets what waits. What came can still be taken. */
void session_lose(struct session *session);
static inline bool session_is_lost(const struct session *session)
{
    return session->fd < 0;
}

/** The loop calls when something has come; and sends what waits. False: it cannot. */
TUTTI_MUST_USE bool session_attach(struct session *session, struct loop *loop,
        void (*call)(void *context, unsigned ready), void *context);
/** The loop forgets it. */
void session_detach(struct session *session);
/** Nothing is read of it until it goes on. */
void session_pause(struct session *session, bool is_paused);

/** Reads what there is. @return false when the connection is at its end; loses nothing */
bool session_receive(struct session *session);
/**
 * Takes the next frame; it is valid until the next session_receive().
 * @return 1, 0 (there is none yet), -1 (malformed; the error says how)
 */
int session_next(struct session *session, struct frame *frame);
/** The last frame is taken again by the next session_next(). */
void session_put_back(struct session *session);
/** Waits for the next frame. @return as session_next(); 0: none came until then, or lost */
int session_wait(struct session *session, int64_t deadline, struct frame *frame);

/** Begins a frame; its body is put into session->out. @return for session_end() */
size_t session_begin(struct session *session, uint8_t type);
void session_end(struct session *session, size_t start);
/** A frame with a body that is there. */
void session_put(struct session *session, uint8_t type, const void *body, size_t len);

/** Bytes that wait to be sent. */
static inline size_t session_waiting(const struct session *session)
{
    return session->out.len - session->sent;
}
/** Sends what the socket takes. @return false when the connection is broken */
bool session_send(struct session *session);
/** Sends all, waiting for room for some seconds. @return false when it is broken or stuck */
bool session_send_all(struct session *session);

#endif
