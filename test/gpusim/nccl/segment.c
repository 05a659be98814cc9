/*
 * The memory that the ranks of a simulated communicator share.
 */
#include "test/gpusim/nccl/segment.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/futex.h"
#include "test/gpusim/nccl/comm.h"
#include "test/gpusim/nccl/launch.h"

static_assert(sizeof(struct segment_facts) == 48, "facts are compared as bytes");

#define MAGIC "gpusimID"

/* Data of one rank or message do not reach those of the next: the file has holes. */
#define PLACE_BYTES (UINT64_C(1) << 34)

/* What an id says; the rest of its bytes are zero. */
struct id {
    char magic[8];
    int64_t pid; /* of the maker                                    */
    int64_t fd; /* there                                           */
    uint64_t nonce; /* also in the memory: the descriptor may be another by now */
};

static struct id id_read(const unsigned char *bytes)
{
    struct id id;

    memcpy(&id, bytes, sizeof id);
    return id;
}

/* ---- ids ---- */

void segment_id_make(unsigned char *bytes)
{
    struct id id = { .pid = getpid(), .fd = memfd_create("gpusim-nccl", MFD_CLOEXEC) };

    memcpy(id.magic, MAGIC, sizeof id.magic);
    if (getrandom(&id.nonce, sizeof id.nonce, 0) != (ssize_t)sizeof id.nonce ||
            pwrite((int)id.fd, &id.nonce, sizeof id.nonce, 0) !=
                    (ssize_t)sizeof id.nonce ||
            ftruncate((int)id.fd, sizeof(struct segment_shared)) != 0) {
        perror("gpusim: memory of an id");
        abort();
    }
    memset(bytes, 0, SEGMENT_ID_BYTES);
    memcpy(bytes, &id, sizeof id);
}

unsigned segment_id_number(const unsigned char *bytes)
{
    return id_read(bytes).nonce & 0xffff;
}

void segment_id_drop(const unsigned char *bytes)
{
    const struct id id = id_read(bytes);

    if (id.pid == getpid()) {
        (void)close((int)id.fd);
    }
}

/* ---- opening and closing ---- */

/* A descriptor of the memory of an id. */
static int id_open(const unsigned char *bytes)
{
    const struct id id = id_read(bytes);
    uint64_t nonce = 0;
    char path[64];
    int fd;

    (void)snprintf(path, sizeof path, "/proc/%lld/fd/%lld", (long long)id.pid,
            (long long)id.fd);
    fd = open(path, O_RDWR | O_CLOEXEC);
    if (memcmp(id.magic, MAGIC, sizeof id.magic) != 0 || fd < 0 ||
            pread(fd, &nonce, sizeof nonce, 0) != (ssize_t)sizeof nonce ||
            nonce != id.nonce) {
        comm_report_fatal("an id that is none, or whose maker is gone");
    }
    return fd;
}

void segment_open(
        struct segment *segment, const unsigned char *bytes, int rank, int ranks)
{
    const int fd = id_open(bytes);
    uint32_t absent = SEGMENT_ABSENT;
    void *memory = mmap(
            NULL, sizeof *segment->shared, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    if (memory == MAP_FAILED) {
        comm_report_fatal("memory of a communicator: %s", strerror(errno));
    }
    *segment = (struct segment){
        .shared = memory, .fd = fd, .rank = rank, .ranks = ranks
    };
    memcpy(segment->id, bytes, sizeof segment->id);
    if (!atomic_compare_exchange_strong(
                &segment->shared->ranks[rank].state, &absent, SEGMENT_HERE)) {
        comm_report_fatal("ncclCommInitRank: rank %d is there already", rank);
    }
}

void segment_release(const struct segment *segment)
{
    /* Several ranks may be threads of this process. */
    if (id_read(segment->id).pid == getpid() &&
            atomic_exchange(&segment->shared->released, 1) == 0) {
        segment_id_drop(segment->id);
    }
}

void segment_close(struct segment *segment)
{
    if (segment->shared != NULL) {
        segment_release(segment);
        segment_advance(segment, SEGMENT_GONE);
        (void)munmap(segment->shared, sizeof *segment->shared);
        (void)close(segment->fd);
        segment->shared = NULL;
    }
}

enum segment_state segment_state(const struct segment *segment, int rank)
{
    return (enum segment_state)atomic_load(&segment->shared->ranks[rank].state);
}

void segment_advance(struct segment *segment, enum segment_state state)
{
    atomic_store(&segment->shared->ranks[segment->rank].state, (uint32_t)state);
    segment_ring(segment);
}

void segment_ring(const struct segment *segment)
{
    (void)atomic_fetch_add(&segment->shared->bell, 1);
    futex_wake(&segment->shared->bell, INT_MAX);
}

/* ---- meetings ---- */

static uint64_t meetings(
        const struct segment *segment, enum segment_lane lane, int rank)
{
    return atomic_load(&segment->shared->ranks[rank].lanes[lane].meetings);
}

void segment_come(struct segment *segment, enum segment_lane lane,
        const struct segment_word *word)
{
    const uint64_t meeting = meetings(segment, lane, segment->rank) + 1;
    struct segment_rank *here = &segment->shared->ranks[segment->rank];

    here->lanes[lane].words[meeting & 1] = *word;
    atomic_store(&here->lanes[lane].meetings, meeting);
    segment_ring(segment);
}

uint64_t segment_missing(
        const struct segment *segment, enum segment_lane lane, uint64_t members)
{
    const uint64_t meeting = meetings(segment, lane, segment->rank);
    uint64_t missing = 0;

    for (int rank = 0; rank < segment->ranks; rank++) {
        if (meetings(segment, lane, rank) < meeting) {
            missing |= UINT64_C(1) << rank;
        }
    }
    return missing & members;
}

const struct segment_word *segment_word(
        const struct segment *segment, enum segment_lane lane, int rank)
{
    const uint64_t meeting = meetings(segment, lane, segment->rank);

    return &segment->shared->ranks[rank].lanes[lane].words[meeting & 1];
}

static void facts_text(const struct segment_facts *facts, char *text, size_t capacity)
{
    const char *name = function_name((enum function)facts->function);

    (void)snprintf(text, capacity,
            "%s of %llu x type %d, reduction %d, root %d, %u of %u in its group; "
            "registered "
            "at %llx and %llx",
            name, (unsigned long long)facts->count, facts->type, facts->reduction,
            facts->root, facts->place + 1, facts->places,
            (unsigned long long)facts->input_place,
            (unsigned long long)facts->output_place);
}

void segment_compare(const struct segment *segment, const struct segment_facts *ours,
        int rank, const struct segment_facts *theirs)
{
    char here[256];
    char there[256];

    if (memcmp(ours, theirs, sizeof *ours) != 0) {
        facts_text(ours, here, sizeof here);
        facts_text(theirs, there, sizeof there);
        comm_report_fatal(
                "MISMATCH in communicator %04x: rank %d does %s; rank %d does %s",
                segment_id_number(segment->id), segment->rank, here, rank, there);
    }
}

void segment_agree(
        const struct segment *segment, enum segment_lane lane, uint64_t members)
{
    const uint64_t come = members & ~segment_missing(segment, lane, members);

    for (int rank = 0; rank < segment->ranks; rank++) {
        if ((come >> rank & 1) != 0) {
            segment_compare(segment, &segment_word(segment, lane, segment->rank)->facts,
                    rank, &segment_word(segment, lane, rank)->facts);
        }
    }
}

/* ---- data ---- */

uint64_t segment_place(const struct segment *segment, int rank, uint64_t ahead)
{
    const uint64_t meeting = meetings(segment, SEGMENT_KERNELS, segment->rank) + ahead;

    return (1 + (uint64_t)rank * 2 + (meeting & 1)) * PLACE_BYTES;
}

uint64_t segment_message_place(int from, int to)
{
    const uint64_t pair = (uint64_t)from * SEGMENT_RANKS_MAX + (uint64_t)to;

    return (1 + (uint64_t)2 * SEGMENT_RANKS_MAX + pair) * PLACE_BYTES;
}

static void move_bytes(const struct segment *segment, uint64_t place, uint64_t address,
        size_t bytes, bool puts)
{
    void *at = gpusim_at(address);
    ssize_t moved;

    gpusim_memory_lock();
    moved = puts ? pwrite(segment->fd, at, bytes, (off_t)place)
                 : pread(segment->fd, at, bytes, (off_t)place);
    gpusim_memory_unlock();
    if (moved != (ssize_t)bytes) {
        comm_report_fatal(
                "%zd of %zu bytes were moved: %s", moved, bytes, strerror(errno));
    }
}

void segment_put(
        const struct segment *segment, uint64_t place, uint64_t address, size_t bytes)
{
    move_bytes(segment, place, address, bytes, true);
}

void segment_take(
        const struct segment *segment, uint64_t place, uint64_t address, size_t bytes)
{
    move_bytes(segment, place, address, bytes, false);
}
