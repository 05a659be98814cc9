/*
 * What hub, hosts and agents say to each other over sessions, once they have met. A channel
 * is one command.
 */
#ifndef TUTTI_LAUNCHER_JOIN_JOIN_MESSAGE_H
#define TUTTI_LAUNCHER_JOIN_JOIN_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tutti/tutti.h>

#include "launcher/session/meet.h"

enum {
    JOIN_READ_MAX = 1 << 16 /* bytes of input or output in a message */
};

enum join_type {
    /*
     * Agent to hub: words, each with a zero behind it. Hub to host: the command. Hub to
     * agent: "" when it runs, or the command when the host is this one, and no connection
     * is needed.
     */
    JOIN_RUN = FRAME_OWN,
    JOIN_INPUT, /* to the command; no bytes: it has ended. Back: send more          */
    JOIN_OUTPUT, /* from the command; value: 1 stdout, 2 stderr                     */
    JOIN_ENDED, /* from the command; value: exit status, 128+signal                */
    JOIN_CANCEL, /* nobody waits for the command any more: end it                  */
    JOIN_BYE /* the job is over                                               */
};

struct join_message {
    enum join_type type;
    uint32_t channel;
    uint32_t value;
    const char *bytes; /* borrowed of the session until it receives again */
    size_t len;
};

/** How hosts meet: the secret is the user's, and all that follows is sealed. */
extern const struct meet_protocol join_protocol;

/** What a host says of itself in its HELLO. */
struct join_hello {
    const char *key; /* of the place                         */
    const char *name; /* that the source has for it, or ""    */
    int index; /* among the nodes                      */
    int slots; /* GPUs, else cores                     */
};

enum {
    JOIN_HELLO_TEXTS_MAX = 1024 /* bytes of the texts of a HELLO, with their zeros */
};

/** Sends one, waiting for room up to some seconds; false when the other side is gone. */
bool join_send(struct session *session, const struct join_message *message);
/** Takes the next. @return 1, 0 (there is none yet), -1 (malformed, or not sealed) */
int join_next(struct session *session, struct join_message *message);

void join_put_hello(struct wire_writer *out, const struct join_hello *hello);
/** Reads a HELLO; its texts are put in `texts`. False when malformed. */
bool join_get_hello(struct wire_reader *in, struct join_hello *hello,
        char texts[JOIN_HELLO_TEXTS_MAX]);

#endif
