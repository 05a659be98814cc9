/*
 * Messages between tuttirun and its supervisors (tuttirun --exec, one per rank),
 * over one session per supervisor that the supervisor connects.
 *
 * A message is a frame; its body is its fields as base/wire.h writes them. Bytes after the
 * last known field are ignored; a type that is unknown is an error. Pure: bytes in, structs
 * out. First they meet (session/meet.h), by the job's token, which is never sent.
 *
 * supervisor                       tuttirun
 *        <-------------------------  CHALLENGE
 *     HELLO  ------------------------->        its proof is checked, rank is noted
 *        <-------------------------  WELCOME   with a proof; what to do
 *        <-------------------------  GO        all have joined, where WELCOME says to wait for that
 *     STARTED ------------------------>        the program runs
 *     BEAT <-------------------------> BEAT    every beat_ms, both ways; clock offsets
 *     OUTPUT, NOTE ------------------->        lines for the console
 *        <-------------------------  SIGNAL    to be given to the program
 *        <-------------------------  LOOK      what does the program do?
 *        <-------------------------  TIMELINE  to the library: begins, or ends, its timeline
 *     RECORDING ---------------------->        in parts (observe/recorder.h): when asked, after a
 *                                              stall, and when the program or the job fails
 *     METRICS ------------------------>        every second, where WELCOME asks for it
 *     GIVE --------------------------->        bytes for all ranks that start (boot/session.h)
 *        <-------------------------  PART      those of all ranks, once they have come
 *     MORE --------------------------->        the next part; before: who is missing?
 *        <-------------------------  UNMET     they will not come, or have not yet
 *     EXITED ------------------------->        how the program ended
 *        <-----------------------  SUSPICION   which host is silent: to the library
 *        <-------------------------  NOTICE    of an elastic job: the ranks are to leave
 *        <-------------------------  FAILURE   why the job failed: to the library
 *        <-------------------------  STOP      end the program: SIGTERM, then SIGKILL
 *        <-------------------------  RELEASE   the supervisor may end now
 */
#ifndef TUTTI_LAUNCHER_SESSION_LINK_H
#define TUTTI_LAUNCHER_SESSION_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <tutti/tutti.h>

#include "base/wire.h"
#include "launcher/session/meet.h"

enum {
    LINK_TOKEN_BYTES = 32, /* of the secret, in hexadecimal, without a zero       */
    LINK_TEXT_MAX = 4096, /* bytes of a name, path or sentence                   */
    LINK_TAIL_LINES = 20, /* last lines of stderr that EXITED carries            */
    LINK_TAIL_MAX = 16384, /* bytes of them                                       */
    LINK_LINES_MAX = 1 << 16, /* bytes of lines in one OUTPUT                         */
    LINK_STATE_STARTING = 'I', /* a program waits in MPI_Init; no state of /proc      */
    LINK_BEAT_MS_MAX = 60000, /* longest time between beats                           */
    LINK_SUSPECT_MS = 2300 /* and two beats of silence, until it is reported        */
};

/** The variable with the address of tuttirun, for supervisors: struct link_address. */
#define LINK_VARIABLE "TUTTI_INTERNAL_JOIN"

enum link_type {
    LINK_HELLO = FRAME_HELLO,
    LINK_WELCOME = FRAME_WELCOME,
    LINK_STARTED = FRAME_OWN,
    LINK_BEAT,
    LINK_OUTPUT,
    LINK_NOTE,
    LINK_SIGNAL,
    LINK_EXITED,
    LINK_FAILURE,
    LINK_STOP,
    LINK_RELEASE,
    LINK_SUSPICION,
    LINK_NOTICE,
    LINK_LOOK,
    LINK_RECORDING,
    LINK_TIMELINE,
    LINK_METRICS,
    LINK_GIVE,
    LINK_MORE,
    LINK_PART,
    LINK_UNMET,
    LINK_GO
};

/** Text inside a received message, not terminated; borrowed from its bytes. */
struct link_text {
    const char *text;
    size_t len;
};

/** A terminated text, borrowed. */
static inline struct link_text link_text_of(const char *text)
{
    return (struct link_text){ .text = text, .len = strlen(text) };
}

/** How they meet: the secret is the token. */
extern const struct meet_protocol link_protocol;

/** The first message of a supervisor. */
struct link_hello {
    struct link_text host; /* its host's name                                 */
    int rank, size; /* in the job, by the variables of the MPI launcher; -1: unknown */
    int local_rank, local_size; /* on its host; -1: unknown                   */
    uint64_t pid; /* of the supervisor, as seen on its host                   */
};

/** What is sent of a stream; its log has all in any case. */
enum link_forward {
    LINK_FORWARD_NOTHING,
    LINK_FORWARD_LINES, /* as a console shows them (exec/lines.h)               */
    LINK_FORWARD_BYTES /* what the program wrote                                */
};

/** What a supervisor needs to know before it starts the program. */
struct link_welcome {
    struct link_text job; /* identity: in the names of logs and the environment */
    struct link_text log_folder; /* for rank.N/stdout and stderr; "": none      */
    uint32_t beat_ms; /* between beats, 1 to 60000                            */
    uint32_t silent_ms; /* without a beat for so long, the other side is lost  */
    uint32_t kill_ms; /* between SIGTERM and SIGKILL of STOP and of a lost tuttirun */
    uint64_t output_rate; /* bytes per second of OUTPUT; 0: as much as there is */
    uint8_t forward[2]; /* how OUTPUT is sent, enum link_forward: stdout, stderr */
    uint32_t generation; /* of an elastic job, from 1; 0: it is none            */
    uint32_t keeper_port; /* of tuttirun, for keepers (exec/keeper.h)             */
    uint32_t metrics_port; /* of each host, for HTTP; 0: none                      */
    struct link_text metrics_address; /* where it listens, in numbers              */
    struct link_text metrics_file; /* of each host; "": none                       */
    uint32_t metrics_ms; /* between two writes of it                               */
    bool tells; /* send METRICS every second                                  */
    bool waits; /* with the program, for GO                                   */
};

struct link_started {
    uint64_t pid; /* of the program, on its host        */
    struct link_text binding; /* cores, memory and GPU in words     */
    struct link_text log; /* folder of its logs; "": none       */
};

/** A part of the recording of a rank; the last one has no bytes. */
struct link_recording {
    uint64_t offset; /* of these bytes; `total` in the last      */
    uint64_t total; /* bytes of the whole; 0: there is none     */
    struct link_text bytes; /* what no part has is zero                 */
};

/** What a rank has counted so far (observe/metrics.h). */
struct link_metrics {
    uint64_t time; /* supervisor's clock */
    uint64_t steps, bytes, wait_ns, lead_ns;
};

/** Both ways. Times are the sender's monotonic clock, in ns. */
struct link_beat {
    uint64_t sent; /* now                                               */
    uint64_t echo; /* `sent` of the last beat that was received; 0: none */
    uint64_t held; /* ns from the arrival of that beat until `sent`      */
    uint8_t state; /* letter of the program's state in /proc ('R', 'S', 'T'), or
                      LINK_STATE_STARTING; 0: none */
};

/** Whole lines of the program, each with its newline; at most LINK_LINES_MAX bytes. */
struct link_output {
    uint8_t stream; /* 1 stdout, 2 stderr                                */
    uint64_t time; /* when the first of them was read, supervisor's clock */
    struct link_text lines;
};

enum link_ending {
    LINK_ENDED_EXIT, /* value: exit status                               */
    LINK_ENDED_SIGNAL, /* value: number of the signal                      */
    LINK_ENDED_EXEC, /* value: errno of exec; the program never ran      */
    LINK_ENDED_SETUP /* value: errno; the supervisor could not start it  */
};

struct link_exited {
    uint8_t ending; /* enum link_ending                                        */
    uint32_t value; /* by ending                                               */
    uint64_t time; /* supervisor's clock                                      */
    uint8_t stage; /* enum library_stage: how far the library had come          */
    bool dumped_core;
    bool is_oom; /* the kernel killed it for want of memory                    */
    bool was_stopped; /* STOP, SIGNAL or the MPI launcher ended it                      */
    struct link_text
            detail; /* what exec or set-up said, or what the kernel's limit was; "" */
    struct link_text tail; /* its last lines of stderr                         */
    uint8_t failure; /* enum context_failure: of its context, until STOP         */
    struct link_text awaited; /* ranks of which some did not come to it; "": all did */
    uint64_t committed; /* newest commit of its elastic job (elastic/control.h); 0  */
};

/** How the supervisor ends. */
struct link_release {
    uint8_t status; /* its exit status */
    struct link_text text; /* why the job failed, for the console of another host; "" */
};

/** What a rank gives to all that start with it. */
struct link_give {
    bool is_withdrawn; /* its process has ended: what it gave does not count */
    struct link_text bytes;
};

/** A part of what all ranks have given, in their order. */
struct link_part {
    uint64_t total; /* bytes of the whole     */
    uint64_t offset; /* of these bytes in it   */
    struct link_text bytes;
};

/** Why the job failed, for survivors; posted to the library (base/failure_page.h). */
struct link_failure {
    int rank; /* -1: no rank's fault */
    struct link_text text; /* in words             */
};

/** Part of the sentence of a supervisor whose MPI launcher's daemon is gone: that is a cause. */
#define LINK_NOTE_ORPHANED "the engine's process on its host has died"

/** A message; `type` selects the member. */
struct link_message {
    enum link_type type;
    union {
        struct link_hello hello;
        struct link_welcome welcome;
        struct link_started started;
        struct link_beat beat;
        struct link_output output;
        struct link_text note; /* a sentence of the supervisor for the console */
        int signal; /* 1 to 64                                          */
        struct link_exited exited;
        struct link_failure failure;
        uint32_t
                stop_ms; /* SIGTERM at once; SIGKILL so much later, to all that is left */
        struct link_release release;
        struct link_text suspicion; /* which host is silent, which fails nothing yet
                                       (base/failure_page.h); "": nobody any more */
        uint32_t notice; /* a tutti_notice, for the trainer's layer */
        bool look; /* with stacks */
        struct link_recording recording;
        uint32_t timeline; /* recorder_header.timeline_asked */
        struct link_metrics metrics;
        struct link_give give;
        uint64_t more; /* offset of the next part */
        struct link_part part;
        struct link_text unmet; /* which ranks are missing, in words */
    };
};

/** Appends a whole frame. Texts that are too long are cut. */
void link_put(struct wire_writer *out, const struct link_message *message);
/** The same of a NOTE, a sentence for the console. */
void link_put_note(struct wire_writer *out, const char *format, ...)
        __attribute__((format(printf, 2, 3)));
/** Appends the fields alone: HELLO and WELCOME are sent by meet.h. */
void link_put_body(struct wire_writer *out, const struct link_message *message);

/**
 * Reads the fields of a type; borrowed from what is read.
 * @return false when they are malformed, or out of range
 */
TUTTI_MUST_USE bool link_get_body(
        struct wire_reader *in, enum link_type type, struct link_message *message);
/**
 * The message in a frame; borrowed from it.
 * @return TUTTI_OK, TUTTI_ERR_PROTOCOL (unknown type, or malformed; the error says which)
 */
TUTTI_MUST_USE tutti_status link_read(
        const struct frame *frame, struct link_message *message);

/*
 * How far a supervisor's clock is ahead of ours, from beats that go both ways:
 *
 *     ours    ---- a ------------------- d ---->     a: echo        d: now
 *     theirs  --------- b ------ c ------------>     b: sent-held   c: sent
 *
 * The way there and back took (d - a) - (c - b); the shortest one tells most, since the
 * offset is wrong by half of it at most. Processes of one machine have one clock, and nothing
 * is measured between them.
 */

/** Zeroed: nothing was measured. */
struct offset {
    bool is_ours; /* it is our clock: a process of this machine   */
    bool is_known; /* a beat has come back                          */
    int64_t ahead_ns; /* their clock minus ours                        */
    int64_t trip_ns; /* of the shortest round trip                    */
    int64_t measured; /* our clock when that was; clocks drift         */
};

/** Learns from a beat that arrived at `now` of our clock. */
void offset_learn(struct offset *offset, const struct link_beat *beat, int64_t now);
/**
 * A time of their clock in ours, never later than `now`; `now` where the clock is another
 * and nothing was measured.
 * @param[out] doubt  how far off it may be, in ns
 */
int64_t offset_ours(
        const struct offset *offset, uint64_t theirs, int64_t now, int64_t *doubt);

/*
 * Where tuttirun is: the text of LINK_VARIABLE, "TOKEN ADDRESS,ADDRESS,... PORT". It
 * travels in the environment, which only the same user can read, never in arguments.
 */

enum {
    LINK_ADDRESSES_MAX = 16, /* numeric addresses of one tuttirun                */
    LINK_ADDRESS_MAX = 64, /* bytes of one with its zero, IPv6 with scope included */
    LINK_JOIN_MAX = 1280 /* bytes of the variable's value with its zero         */
};

struct link_address {
    char token[LINK_TOKEN_BYTES + 1];
    char addresses[LINK_ADDRESSES_MAX][LINK_ADDRESS_MAX]; /* numeric, best first */
    size_t count; /* at least 1 */
    int port;
};

/** Writes the variable's value; its length never exceeds LINK_JOIN_MAX. */
void link_address_format(const struct link_address *address, char text[LINK_JOIN_MAX]);
/** @return TUTTI_OK, TUTTI_ERR_INVALID (does not show the token) */
TUTTI_MUST_USE tutti_status link_address_parse(
        struct link_address *address, const char *text);

#endif
