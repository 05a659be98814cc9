/*
 * What the first host and the others say to each other, once they have met (session/meet.h):
 * what a host says of itself in its HELLO, and then from the first host alone:
 *
 *     START   which ranks of how many are that host's, and where their supervisors call
 *     END     the job is over: its exit status, and why it failed
 *
 * Nothing of it says what to run: that is the command line of each host.
 */
#ifndef TUTTI_LAUNCHER_HERE_MESSAGE_H
#define TUTTI_LAUNCHER_HERE_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "launcher/hosts/host_list.h"
#include "launcher/hosts/source.h"
#include "launcher/options.h"
#include "launcher/session/link.h"
#include "launcher/session/meet.h"

enum here_type {
    HERE_START = FRAME_OWN,
    HERE_END
};

struct here_hello {
    char key[SOURCE_TEXT_MAX]; /* of the place                      */
    char name[HOST_NAME_LIMIT]; /* that the source has for it, or "" */
    uint32_t index; /* among the nodes                   */
    uint32_t slots; /* GPUs, else cores                  */
};

struct here_start {
    uint32_t size; /* ranks of the job                          */
    uint32_t first, count; /* this host's                        */
    uint32_t port; /* of the first host, for supervisors        */
    uint8_t nonce[PROOF_NONCE_BYTES]; /* of which their token is made     */
};

struct here_end {
    uint32_t status;
    char text[LINK_TEXT_MAX]; /* "": it did not fail */
};

/** How hosts meet: the secret is the user's, and all that follows is sealed. */
extern const struct meet_protocol here_protocol;

void here_put_hello(struct wire_writer *out, const struct here_hello *hello);
/** False when it is malformed; likewise the others. */
bool here_get_hello(struct wire_reader *in, struct here_hello *hello);
void here_put_start(struct session *session, const struct here_start *start);
bool here_get_start(const struct frame *frame, struct here_start *start);
void here_put_end(struct session *session, const struct here_end *end);
bool here_get_end(const struct frame *frame, struct here_end *end);

/** The token of the supervisors: nobody makes it of the nonce who does not know the secret. */
void here_make_token(const struct join_place *place,
        const uint8_t nonce[PROOF_NONCE_BYTES], char token[LINK_TOKEN_BYTES + 1]);

#endif
