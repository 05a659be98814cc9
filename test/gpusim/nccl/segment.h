/*
 * The memory that the ranks of a simulated communicator share, and how they meet in it.
 *
 * It is a memfd that the maker of the id keeps open; the others open it through
 * /proc/PID/fd, so nothing has a name in a file system and nothing is left behind, however
 * a rank ends. Ranks may be processes or threads of one: each maps the memory for itself. Data
 * of the GPU are written to the file, behind what is mapped.
 *
 * Who waits reads the bell, tests what it waits for, and sleeps while the bell has not moved.
 * Whoever changes something rings it.
 */
#ifndef TUTTI_TEST_GPUSIM_NCCL_SEGMENT_H
#define TUTTI_TEST_GPUSIM_NCCL_SEGMENT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    SEGMENT_ID_BYTES = 128, /* an ncclUniqueId */
    SEGMENT_RANKS_MAX = 64
};

/* How far a rank has come. */
enum segment_state {
    SEGMENT_ABSENT,
    SEGMENT_HERE,
    SEGMENT_ABORTS, /* it has come to ncclCommAbort */
    SEGMENT_GONE /* aborted or destroyed         */
};

/* What ranks do together: equal on all that meet for it. */
struct segment_facts {
    uint64_t count; /* as given by the caller                           */
    uint64_t input_place; /* in what is registered; see memory_note_call()    */
    uint64_t output_place;
    int32_t function; /* enum function                                    */
    int32_t type; /* of the data                                      */
    int32_t reduction; /* -1: none                                         */
    int32_t root; /* -1: none                                         */
    uint32_t place; /* in its group, from 0                             */
    uint32_t places; /* collectives in its group                         */
};

/* What a rank says at a meeting: facts, and what is its own. */
struct segment_word {
    struct segment_facts facts;
    int64_t colour; /* of a split */
    int64_t key;
    unsigned char id[SEGMENT_ID_BYTES]; /* for a child */
};

/* Hosts meet to connect, to split and to end; kernels for each collective. */
enum segment_lane {
    SEGMENT_HOSTS,
    SEGMENT_KERNELS,
    SEGMENT_LANES
};

/* A rank's part; written by that rank alone. */
struct segment_rank {
    _Atomic uint32_t state; /* enum segment_state                             */
    char host[64]; /* NCCL_HOSTID; empty: the machine               */
    char bus[32]; /* PCI id of its device                           */
    struct {
        _Atomic uint64_t meetings; /* that it has come to                  */
        struct segment_word words[2]; /* of the current one and of that before */
    } lanes[SEGMENT_LANES];
};

/* Messages from one rank to another, one at a time. */
struct segment_pair {
    _Atomic uint64_t sent; /* by the sender   */
    _Atomic uint64_t taken; /* by the receiver */
    struct segment_facts facts;
};

struct segment_shared {
    uint64_t nonce; /* written by the maker of the id          */
    _Atomic uint32_t released; /* 1: the maker does not keep it any more */
    _Atomic uint32_t bell;
    struct segment_rank ranks[SEGMENT_RANKS_MAX];
    struct segment_pair pairs[SEGMENT_RANKS_MAX][SEGMENT_RANKS_MAX]; /* [from][to] */
};

/* A rank's view. */
struct segment {
    struct segment_shared *shared; /* NULL: not open               */
    int fd;
    int rank; /* this one                     */
    int ranks;
    unsigned char id[SEGMENT_ID_BYTES]; /* by which it was found        */
};

/* Makes memory for a communicator and the id by which it is found. */
void segment_id_make(unsigned char *bytes);
/* The number by which reports name the communicator of an id. */
unsigned segment_id_number(const unsigned char *bytes);
/* Its maker lets go of an id that nobody has opened. */
void segment_id_drop(const unsigned char *bytes);

/* Opens the memory of an id and claims a rank in it; what is wrong ends the process. */
void segment_open(
        struct segment *segment, const unsigned char *bytes, int rank, int ranks);
/* All ranks have opened it: its maker lets go of it, if that is this process. */
void segment_release(const struct segment *segment);
/* Leaves: this rank is GONE, the memory unmapped. May be not open. */
void segment_close(struct segment *segment);

enum segment_state segment_state(const struct segment *segment, int rank);
/* Writes this rank's state and rings. */
void segment_advance(struct segment *segment, enum segment_state state);
void segment_ring(const struct segment *segment);

/*
 * A rank comes to a meeting with a word, and reads the others' once all members (a bit for each)
 * have come. It comes to its next meeting only after that.
 */
void segment_come(struct segment *segment, enum segment_lane lane,
        const struct segment_word *word);
/* Which members have not come to this rank's current meeting. */
uint64_t segment_missing(
        const struct segment *segment, enum segment_lane lane, uint64_t members);
/* What a rank said at it. */
const struct segment_word *segment_word(
        const struct segment *segment, enum segment_lane lane, int rank);
/* Ends the process if a member that has come said other facts. */
void segment_agree(
        const struct segment *segment, enum segment_lane lane, uint64_t members);
void segment_compare(const struct segment *segment, const struct segment_facts *ours,
        int rank, const struct segment_facts *theirs);

/* The places of data in the file: of a rank at this rank's current meeting of kernels (ahead = 1:
 * at the next one), and of a message. */
uint64_t segment_place(const struct segment *segment, int rank, uint64_t ahead);
uint64_t segment_message_place(int from, int to);
/* Moves data there, or from there, where gpusim_at() is. */
void segment_put(
        const struct segment *segment, uint64_t place, uint64_t address, size_t bytes);
void segment_take(
        const struct segment *segment, uint64_t place, uint64_t address, size_t bytes);

#endif
