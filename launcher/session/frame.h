/*
 * What is said over a session: frames. A frame is its length (4 bytes, little-endian, of
 * what follows), its type (1 byte) and its body. Between sides that have agreed on keys it
 * ends in a seal, HMAC-SHA256 of its number and of what it says: nobody between them
 * changes, leaves out, repeats or adds a frame unseen. Pure: bytes in, bytes out.
 */
#ifndef TUTTI_LAUNCHER_SESSION_FRAME_H
#define TUTTI_LAUNCHER_SESSION_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tutti/tutti.h>

#include "base/wire.h"
#include "launcher/session/proof.h"

enum {
    FRAME_MAX = 1 << 17, /* bytes of type and body       */
    FRAME_LENGTH_BYTES = 4 /* before them, their number    */
};

struct frame {
    uint8_t type;
    const uint8_t *body; /* borrowed */
    size_t len;
};

/** What the frames of a session are sealed with. Zeroed: they are not. */
struct frame_seal {
    bool is_on;
    uint8_t out_key[PROOF_BYTES], in_key[PROOF_BYTES];
    uint64_t sent, received; /* frames, since it is on */
};

/** Begins a frame behind what is in `out`; returns where it starts, for frame_end(). */
size_t frame_begin(struct wire_writer *out, uint8_t type);
/** What was put since then is its body. @param seal  of the session; NULL: none */
void frame_end(struct wire_writer *out, size_t start, struct frame_seal *seal);

/**
 * Takes the first frame of a stream of bytes.
 * @param seal       of the session; NULL: none
 * @param[out] used  bytes it took; 0: it is not whole yet
 * @return TUTTI_OK, TUTTI_ERR_PROTOCOL (its length, or its seal, is wrong)
 */
TUTTI_MUST_USE tutti_status frame_take(const uint8_t *bytes, size_t len,
        struct frame_seal *seal, struct frame *frame, size_t *used);

#endif
