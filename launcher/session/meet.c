#include "launcher/session/meet.h"

#include <stdio.h>
#include <string.h>

enum {
    RELEASE_MAX = 64, /* bytes of a version */
    LABEL_BYTES = 80
};

/* What a proof or a key is for. */
static const char of_connected[] = "who connected";
static const char of_accepted[] = "who accepted";

static void make(const struct session *session, const struct meet_protocol *protocol,
        const char *purpose, const void *text, size_t len, uint8_t proof[PROOF_BYTES])
{
    char label[LABEL_BYTES];

    (void)snprintf(label, sizeof label, "tutti %s %d, %s", protocol->name, MEET_VERSION,
            purpose);
    proof_make(&session->exchange, label, text, len, proof);
}

bool meet_challenge(struct session *session)
{
    size_t start = session_begin(session, FRAME_CHALLENGE);

    if (proof_nonce(session->exchange.challenge) != TUTTI_OK) {
        return false;
    }
    wire_put_u32(&session->out, MEET_VERSION);
    wire_put_bytes(&session->out, session->exchange.challenge, PROOF_NONCE_BYTES);
    session_end(session, start);
    return true;
}

bool meet_take_hello(struct session *session, const struct meet_protocol *protocol,
        const struct frame *frame, struct meet_hello *hello)
{
    uint8_t proof[PROOF_BYTES];
    size_t len;
    bool is_ours;

    if (frame->type != FRAME_HELLO || frame->len < PROOF_NONCE_BYTES + PROOF_BYTES) {
        return false;
    }
    len = frame->len - PROOF_NONCE_BYTES - PROOF_BYTES;
    memcpy(session->exchange.answer, frame->body + len, PROOF_NONCE_BYTES);
    make(session, protocol, of_connected, frame->body, len, proof);
    if (!proof_is(frame->body + len + PROOF_NONCE_BYTES, PROOF_BYTES, proof)) {
        return false;
    }
    wire_reader_init(&hello->in, frame->body, len);
    is_ours = wire_get_u32(&hello->in) == MEET_VERSION;
    hello->release = wire_get_str(&hello->in, RELEASE_MAX, &hello->release_len);
    return is_ours && wire_ok(&hello->in);
}

void meet_welcome(struct session *session, const struct meet_protocol *protocol,
        const void *body, size_t len)
{
    uint8_t proof[PROOF_BYTES];
    size_t start = session_begin(session, FRAME_WELCOME);

    make(session, protocol, of_accepted, body, len, proof);
    if (len > 0) {
        wire_put_bytes(&session->out, body, len);
    }
    wire_put_bytes(&session->out, proof, sizeof proof);
    session_end(session, start);
}

/* Waits for a frame of that type. */
static enum meet_outcome wait_for(struct session *session, int64_t deadline,
        enum meet_frame type, struct frame *frame)
{
    int got = session_wait(session, deadline, frame);

    if (got <= 0) {
        return got < 0 || session_is_lost(session) ? MEET_CLOSED : MEET_SILENT;
    }
    return frame->type == type             ? MEET_OK
            : frame->type == FRAME_REFUSAL ? MEET_REFUSED
                                           : MEET_OTHER;
}

enum meet_outcome meet_wait(struct session *session, int64_t deadline)
{
    struct frame frame;
    struct wire_reader in;
    enum meet_outcome outcome = wait_for(session, deadline, FRAME_CHALLENGE, &frame);

    if (outcome != MEET_OK) {
        return outcome;
    }
    wire_reader_init(&in, frame.body, frame.len);
    if (wire_get_u32(&in) != MEET_VERSION || wire_left(&in) != PROOF_NONCE_BYTES) {
        return MEET_OTHER;
    }
    memcpy(session->exchange.challenge, wire_get_bytes(&in, PROOF_NONCE_BYTES),
            PROOF_NONCE_BYTES);
    return MEET_OK;
}

static void put_hello(struct session *session, const struct meet_protocol *protocol,
        const void *body, size_t len)
{
    struct wire_writer *out = &session->out;
    uint8_t proof[PROOF_BYTES] = { 0 };
    size_t start = session_begin(session, FRAME_HELLO);
    size_t said = out->len;

    wire_put_u32(out, MEET_VERSION);
    wire_put_str(out, tutti_version(), strlen(tutti_version()));
    wire_put_bytes(out, body, len);
    if (!out->failed) {
        make(session, protocol, of_connected, out->data + said, out->len - said, proof);
    }
    wire_put_bytes(out, session->exchange.answer, PROOF_NONCE_BYTES);
    wire_put_bytes(out, proof, sizeof proof);
    session_end(session, start);
}

enum meet_outcome meet_join(struct session *session,
        const struct meet_protocol *protocol, const void *body, size_t len,
        int64_t deadline, struct frame *frame)
{
    uint8_t proof[PROOF_BYTES];
    enum meet_outcome outcome;

    if (proof_nonce(session->exchange.answer) != TUTTI_OK) {
        return MEET_FAILED;
    }
    put_hello(session, protocol, body, len);
    if (!session_send_all(session)) {
        return MEET_CLOSED;
    }
    outcome = wait_for(session, deadline, FRAME_WELCOME, frame);
    if (outcome != MEET_OK) {
        return outcome;
    }
    if (frame->len < PROOF_BYTES) {
        return MEET_UNPROVEN;
    }
    frame->len -= PROOF_BYTES;
    make(session, protocol, of_accepted, frame->body, frame->len, proof);
    if (!proof_is(frame->body + frame->len, PROOF_BYTES, proof)) {
        return MEET_UNPROVEN;
    }
    return MEET_OK;
}
