/*
 * The memory that the ranks of a simulated communicator share, and how they wait in it.
 *
 * It is a memfd that the maker of the id keeps open; the others open it through
 * /proc/PID/fd, so nothing has a name in a file system and nothing is left behind, however
 * a rank ends. Ranks may be processes or threads of one: each maps the memory for itself.
 *
 * A rank waits on its bell: it reads the bell, tests what it waits for, and sleeps while the
 * bell has not moved. Whoever changes something that others may wait for rings theirs.
 */
#ifndef TUTTI_TEST_GPUSIM_NCCL_SEGMENT_H
#define TUTTI_TEST_GPUSIM_NCCL_SEGMENT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    SEGMENT_ID_BYTES = 128, /* an ncclUniqueId                                  */
    SEGMENT_RANKS_MAX = 64,
    SEGMENT_CHUNK_BYTES = 512 * 1024, /* of a rank in one step of a collective    */
    SEGMENT_PAIR_BYTES = 64 * 1024, /* of a message from one rank to another    */
    SEGMENT_PAIR_DEPTH = 4, /* such pieces under way                    */
    SEGMENT_TEXT_BYTES = 200
};

/* How far a rank has come. */
enum segment_state {
    SEGMENT_ABSENT,
    SEGMENT_CLAIMED, /* a rank is here and writes who it is            */
    SEGMENT_TOLD, /* it has said who it is                          */
    SEGMENT_READY, /* it has seen all others and found nothing wrong */
    SEGMENT_REFUSED, /* it has found something wrong                   */
    SEGMENT_GONE /* aborted or destroyed                           */
};

/* What a rank does in one step of a collective: equal on all ranks. */
struct segment_facts {
    uint64_t sequence; /* collectives of this communicator before this one */
    uint64_t offset; /* elements of the collective before this step      */
    uint64_t count; /* as given by the caller                           */
    int32_t function; /* enum function                                    */
    int32_t type; /* of the data                                      */
    int32_t reduction; /* -1: none                                         */
    int32_t root; /* -1: none                                         */
    uint32_t place; /* in its group, from 0                             */
    uint32_t places; /* collectives in its group                         */
    uint64_t input_place; /* in what is registered; see memory_note_call()   */
    uint64_t output_place;
};

/* What a rank says at a meeting of hosts. */
struct segment_word {
    int64_t kind; /* what for; equal on all ranks */
    int64_t first; /* kinds have their own meaning */
    int64_t second;
    unsigned char id[SEGMENT_ID_BYTES];
};

/* A rank's part; written by that rank alone, but for the bell. */
struct segment_rank {
    _Atomic uint32_t state; /* enum segment_state                             */
    _Atomic uint32_t bell;
    int64_t pid; /* from TOLD on, as the following                 */
    int64_t ranks; /* as many as it believes to be there             */
    uint64_t ids; /* hash of the ids by which it comes              */
    uint64_t host; /* hash of the host's name, or of NCCL_HOSTID     */
    char bus[32]; /* PCI id of its device                           */
    _Atomic uint32_t aborts; /* 1: it has come to ncclCommAbort               */
    _Atomic uint64_t steps; /* of collectives that it has come to             */
    struct segment_facts facts[2]; /* of the current step and of the one before it */
    _Atomic uint64_t meetings; /* of hosts that it has come to                   */
    struct segment_word words[2]; /* of the current meeting and of the one before */
    char doing[SEGMENT_TEXT_BYTES]; /* for reports of others; may be torn           */
};

/* Pieces of messages from one rank to another. */
struct segment_pair {
    _Atomic uint64_t written; /* pieces; by the sender           */
    _Atomic uint64_t read; /* pieces; by the receiver         */
    struct {
        uint64_t bytes; /* of the whole message            */
        uint64_t length; /* of this piece                   */
        int64_t type; /* of the message                  */
        bool registered; /* its memory                   */
    } pieces[SEGMENT_PAIR_DEPTH];
};

struct segment_shared; /* the layout is segment.c's */

/* A rank's view. */
struct segment {
    struct segment_shared *shared; /* NULL: not open               */
    size_t bytes; /* mapped                       */
    int rank; /* this one                     */
    int ranks;
    unsigned char id[SEGMENT_ID_BYTES]; /* by which it was found        */
};

/* Makes memory for a communicator and the id by which it is found. */
void segment_id_make(unsigned char *bytes);

/*
 * Opens the memory of an id and claims a rank in it. 0 or errno: ESRCH when its maker is
 * gone, EEXIST when the rank is there already, EINVAL when this is no id.
 */
int segment_open(
        struct segment *segment, const unsigned char *bytes, int rank, int ranks);

/* True for bytes of segment_id_make(). */
bool segment_is_id(const unsigned char *bytes);

/* The id's maker lets go of it: all ranks have opened it. Does nothing elsewhere. */
void segment_id_release(const unsigned char *bytes);

/* Leaves: this rank is GONE (unless REFUSED), the memory unmapped. May be not open. */
void segment_close(struct segment *segment);

struct segment_rank *segment_rank(const struct segment *segment, int rank);
enum segment_state segment_state(const struct segment *segment, int rank);
/* Writes this rank's state and rings all bells. */
void segment_advance(struct segment *segment, enum segment_state state);

/* A rank's bytes of a step of a collective. */
unsigned char *segment_chunk(const struct segment *segment, int rank, uint64_t step);

struct segment_pair *segment_pair(const struct segment *segment, int from, int to);
unsigned char *segment_piece(
        const struct segment *segment, int from, int to, uint64_t piece);

/* This rank's bell, read before the test of what is waited for. */
uint32_t segment_bell(const struct segment *segment);
/* Sleeps until the bell has moved from `seen`, at most so long. */
void segment_sleep(const struct segment *segment, uint32_t seen, int64_t nanoseconds);
void segment_ring(const struct segment *segment, int rank);
void segment_ring_all(const struct segment *segment);

/*
 * Meetings of hosts (split, registration, the end): a rank comes with a word, and reads the
 * others' once all members have come. A rank comes to its next meeting only after that.
 */
void segment_meet(struct segment *segment, const struct segment_word *word);
/* Which of `members` (a bit for each) have not come; the second leaves out who has gone. */
uint64_t segment_missing(const struct segment *segment, uint64_t members);
uint64_t segment_missing_here(const struct segment *segment, uint64_t members);
/* What a rank said at this rank's current meeting. */
const struct segment_word *segment_word(const struct segment *segment, int rank);

#endif
