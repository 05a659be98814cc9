/*
 * How the two sides of a session meet, before anything else is said:
 *
 *   who accepted                                  who connected
 *      CHALLENGE: version, nonce ----------------->
 *         <---------------------------------------- HELLO: who it is, nonce, proof of that
 *      WELCOME: what it has to know, proof of that ->
 *
 * as proof.h has it. What HELLO and WELCOME carry differs by protocol; there is one version
 * for all of them.
 */
#ifndef TUTTI_LAUNCHER_SESSION_MEET_H
#define TUTTI_LAUNCHER_SESSION_MEET_H

#include <stdbool.h>
#include <stdint.h>

#include <tutti/tutti.h>

#include "base/wire.h"
#include "launcher/session/session.h"

enum {
    MEET_VERSION = 8 /* of all that is said over sessions */
};

/** Types of frames; those of a protocol begin with FRAME_OWN. */
enum meet_frame {
    FRAME_CHALLENGE = 1,
    FRAME_HELLO,
    FRAME_WELCOME,
    FRAME_REFUSAL, /* in place of WELCOME; body: why */
    FRAME_OWN
};

struct meet_protocol {
    const char *name; /* part of what is proven: no proof is good for another */
};

/** What a HELLO says before the part that is the protocol's own. */
struct meet_hello {
    const char *release; /* tutti_version() of it, not terminated; borrowed */
    size_t release_len;
    struct wire_reader in; /* at the protocol's own part                   */
};

/** Why a meeting ended. */
enum meet_outcome {
    MEET_OK,
    MEET_CLOSED, /* by the other side, or it says what no tuttirun says   */
    MEET_SILENT, /* it says nothing in time                               */
    MEET_OTHER, /* it says something else, or is of another version        */
    MEET_REFUSED, /* it says why; who that is, nobody knows                */
    MEET_UNPROVEN, /* it does not know the secret                           */
    MEET_FAILED /* no random bytes, or what else the error says          */
};

/** Who accepted: CHALLENGE. @return false when there are no random bytes */
TUTTI_MUST_USE bool meet_challenge(struct session *session);
/** Who accepted: true when a frame is a HELLO of our version with its proof. */
TUTTI_MUST_USE bool meet_take_hello(struct session *session,
        const struct meet_protocol *protocol, const struct frame *frame,
        struct meet_hello *hello);
/** Who accepted: WELCOME. */
void meet_welcome(struct session *session, const struct meet_protocol *protocol,
        const void *body, size_t len);

/** Who connected: waits for the CHALLENGE. */
TUTTI_MUST_USE enum meet_outcome meet_wait(struct session *session, int64_t deadline);
/**
 * Who connected: HELLO, and waits for the WELCOME.
 * @param[out] frame  what came: the WELCOME without its proof, or what else was said
 */
TUTTI_MUST_USE enum meet_outcome meet_join(struct session *session,
        const struct meet_protocol *protocol, const void *body, size_t len,
        int64_t deadline, struct frame *frame);

#endif
