/*
 * What hub, hosts and agents say to each other: a length (4 bytes, little-endian, of what
 * follows), a type, a channel, a value and bytes. A channel is one command.
 */
#ifndef TUTTI_LAUNCHER_JOIN_FRAME_H
#define TUTTI_LAUNCHER_JOIN_FRAME_H

#include <stddef.h>
#include <stdint.h>

#include <tutti/tutti.h>

#include "base/wire.h"

enum {
    FRAME_VERSION = 1, /* of HELLO                              */
    FRAME_BYTES_MAX = 1 << 17, /* in one frame                          */
    FRAME_READ_MAX = 1 << 16 /* bytes of input or output in a frame    */
};

enum frame_type {
    FRAME_HELLO =
            1, /* host to hub; value: FRAME_VERSION; bytes: struct frame_hello   */
    /*
     * Agent to hub: words, each with a zero behind it. Hub to host: the command. Hub to
     * agent: "" when it runs, or the command when the host is this one, and no connection
     * is needed.
     */
    FRAME_RUN,
    FRAME_INPUT, /* to the command; no bytes: it has ended. Back: send more          */
    FRAME_OUTPUT, /* from the command; value: 1 stdout, 2 stderr                     */
    FRAME_ENDED, /* from the command; value: exit status, 128+signal                */
    FRAME_CANCEL, /* nobody waits for the command any more: end it                   */
    FRAME_BYE /* the job is over; bytes: "", or why we are refused              */
};

struct frame {
    enum frame_type type;
    uint32_t channel;
    uint32_t value;
    const char *bytes; /* borrowed of the connection until its next frame */
    size_t len;
};

/** What a host says of itself. */
struct frame_hello {
    const char *key; /* of the place                         */
    const char *release; /* tutti_version()                      */
    const char *name; /* that the source has for it, or ""    */
    int index; /* among the nodes                      */
    int slots; /* GPUs, else cores                     */
};

enum {
    HELLO_TEXTS_MAX = 1024 /* bytes of the three texts of a HELLO, with their zeros */
};

/** One end of a connection. Zeroed with fd -1 is closed. */
struct frame_end {
    int fd; /* owned */
    uint8_t *data; /* received; owned */
    size_t len;
    size_t capacity;
    bool closed; /* by the other side, in order */
    size_t read; /* bytes of data that frames were taken from */
};

void frame_end_fini(struct frame_end *end);

/**
 * Reads what is there.
 * @return TUTTI_OK, TUTTI_ERR_SYSTEM (the other side is gone), TUTTI_ERR_NO_MEMORY
 */
TUTTI_MUST_USE tutti_status frame_receive(struct frame_end *end);
/**
 * Takes the next whole frame.
 * @return 1, 0 (there is none yet), -1 (malformed)
 */
int frame_next(struct frame_end *end, struct frame *frame);

/** Sends one, waiting for room up to some seconds; false when the other side is gone. */
bool frame_send(int fd, const struct frame *frame);
bool frame_send_hello(int fd, const struct frame_hello *hello);
/** Reads a HELLO; its texts are put in `texts`. False when malformed. */
bool frame_read_hello(const struct frame *frame, struct frame_hello *hello,
        char texts[HELLO_TEXTS_MAX]);

/** True when the keys are the same; the time tells nothing about how far they are. */
bool frame_same_key(const char *a, const char *b);

#endif
