/*
 * The memory that the ranks of a simulated communicator share.
 */
#include "test/gpusim/nccl/segment.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/futex.h"
#include "base/mem.h"
#include "test/gpusim/nccl/comm.h"

#define MAGIC "gpusimID"

/* What an id says; the rest of its bytes are zero. */
struct id {
    char magic[8];
    int64_t pid; /* of the maker                                    */
    int64_t fd; /* there                                           */
    uint64_t nonce; /* also in the memory: the descriptor may be another by now */
};

struct segment_shared {
    uint64_t nonce; /* written by the maker of the id */
    /* struct segment_rank[ranks], struct segment_pair[ranks][ranks], chunks, pieces */
};

/* Where the parts of the memory begin. */
struct layout {
    size_t pairs;
    size_t chunks;
    size_t pieces;
    size_t end;
};

static size_t up(size_t bytes)
{
    return (bytes + 4095) / 4096 * 4096;
}

static struct layout layout_of(int ranks)
{
    size_t n = (size_t)ranks;
    struct layout at;

    at.pairs = up(up(sizeof(struct segment_shared)) + n * sizeof(struct segment_rank));
    at.chunks = up(at.pairs + n * n * sizeof(struct segment_pair));
    at.pieces = at.chunks + n * 2 * SEGMENT_CHUNK_BYTES;
    at.end = at.pieces + n * n * SEGMENT_PAIR_DEPTH * SEGMENT_PAIR_BYTES;
    return at;
}

static unsigned char *base_of(const struct segment *segment)
{
    return (unsigned char *)segment->shared;
}

static struct id id_read(const unsigned char *bytes)
{
    struct id id;

    memcpy(&id, bytes, sizeof id);
    return id;
}

/* Ids of this process whose descriptors are open. */
struct own_id {
    struct own_id *next;
    uint64_t nonce;
    int fd;
};

static struct {
    pthread_mutex_t lock;
    struct own_id *first;
} own_ids = { .lock = PTHREAD_MUTEX_INITIALIZER };

void segment_id_make(unsigned char *bytes)
{
    struct own_id *own = must(mem_alloc(sizeof *own));
    struct id id = { .pid = getpid() };

    own->fd = memfd_create("gpusim-nccl", MFD_CLOEXEC);
    if (getrandom(&own->nonce, sizeof own->nonce, 0) != (ssize_t)sizeof own->nonce ||
            pwrite(own->fd, &own->nonce, sizeof own->nonce, 0) !=
                    (ssize_t)sizeof own->nonce) {
        perror("gpusim: memory of an id");
        abort();
    }
    id.fd = own->fd;
    id.nonce = own->nonce;
    memcpy(id.magic, MAGIC, sizeof id.magic);
    memset(bytes, 0, SEGMENT_ID_BYTES);
    memcpy(bytes, &id, sizeof id);
    (void)pthread_mutex_lock(&own_ids.lock);
    own->next = own_ids.first;
    own_ids.first = own;
    (void)pthread_mutex_unlock(&own_ids.lock);
}

/* The nonce in the memory behind a descriptor; 0: none. */
static uint64_t nonce_behind(int fd)
{
    uint64_t nonce;

    return pread(fd, &nonce, sizeof nonce, 0) == (ssize_t)sizeof nonce ? nonce : 0;
}

bool segment_is_id(const unsigned char *bytes)
{
    const struct id id = id_read(bytes);

    return memcmp(id.magic, MAGIC, sizeof id.magic) == 0;
}

/* A descriptor of the memory of an id, or -errno. */
static int id_open(const struct id *id)
{
    char path[64];
    int fd;

    if (memcmp(id->magic, MAGIC, sizeof id->magic) != 0) {
        return -EINVAL;
    }
    (void)snprintf(path, sizeof path, "/proc/%lld/fd/%lld", (long long)id->pid,
            (long long)id->fd);
    fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0) {
        return -ESRCH;
    }
    if (nonce_behind(fd) != id->nonce) {
        (void)close(fd);
        return -ESRCH;
    }
    return fd;
}

void segment_id_release(const unsigned char *bytes)
{
    struct id id = id_read(bytes);
    struct own_id **link;
    struct own_id *found;

    /* Several ranks may be threads of this process: the first one closes it. */
    (void)pthread_mutex_lock(&own_ids.lock);
    for (link = &own_ids.first; *link != NULL && (*link)->nonce != id.nonce;
            link = &(*link)->next) {
    }
    found = *link;
    if (found != NULL) {
        *link = found->next;
        (void)close(found->fd);
    }
    (void)pthread_mutex_unlock(&own_ids.lock);
    mem_free(found);
}

static int claim(struct segment *segment)
{
    uint32_t absent = SEGMENT_ABSENT;
    struct segment_rank *here = segment_rank(segment, segment->rank);

    return atomic_compare_exchange_strong(&here->state, &absent, SEGMENT_CLAIMED)
            ? 0
            : EEXIST;
}

int segment_open(
        struct segment *segment, const unsigned char *bytes, int rank, int ranks)
{
    struct id id = id_read(bytes);
    struct segment opened = { .rank = rank, .ranks = ranks };
    int problem;
    void *memory;
    int fd = id_open(&id);

    if (fd < 0) {
        return -fd;
    }
    opened.bytes = layout_of(ranks).end;
    /* So it only grows; ftruncate() would shrink it under a rank that wants more. */
    if (pwrite(fd, "", 1, (off_t)opened.bytes - 1) != 1) {
        problem = errno;
        (void)close(fd);
        return problem;
    }
    memory = mmap(NULL, opened.bytes, PROT_READ | PROT_WRITE,
            MAP_SHARED | MAP_NORESERVE, fd, 0);
    problem = errno;
    (void)close(fd);
    if (memory == MAP_FAILED) {
        return problem;
    }
    opened.shared = memory;
    memcpy(opened.id, bytes, sizeof opened.id);
    problem = claim(&opened);
    if (problem != 0) {
        (void)munmap(memory, opened.bytes);
        return problem;
    }
    *segment = opened;
    return 0;
}

void segment_close(struct segment *segment)
{
    if (segment->shared == NULL) {
        return;
    }
    if (segment_state(segment, segment->rank) != SEGMENT_REFUSED) {
        segment_advance(segment, SEGMENT_GONE);
    }
    (void)munmap(segment->shared, segment->bytes);
    segment->shared = NULL;
}

struct segment_rank *segment_rank(const struct segment *segment, int rank)
{
    void *ranks = base_of(segment) + up(sizeof(struct segment_shared));

    return (struct segment_rank *)ranks + rank;
}

enum segment_state segment_state(const struct segment *segment, int rank)
{
    return (enum segment_state)atomic_load(&segment_rank(segment, rank)->state);
}

void segment_advance(struct segment *segment, enum segment_state state)
{
    atomic_store(&segment_rank(segment, segment->rank)->state, (uint32_t)state);
    segment_ring_all(segment);
}

unsigned char *segment_chunk(const struct segment *segment, int rank, uint64_t step)
{
    size_t index = (size_t)rank * 2 + (size_t)(step & 1);

    return base_of(segment) + layout_of(segment->ranks).chunks +
            index * SEGMENT_CHUNK_BYTES;
}

static size_t pair_index(const struct segment *segment, int from, int to)
{
    return (size_t)from * (size_t)segment->ranks + (size_t)to;
}

struct segment_pair *segment_pair(const struct segment *segment, int from, int to)
{
    void *pairs = base_of(segment) + layout_of(segment->ranks).pairs;

    return (struct segment_pair *)pairs + pair_index(segment, from, to);
}

unsigned char *segment_piece(
        const struct segment *segment, int from, int to, uint64_t piece)
{
    size_t index = pair_index(segment, from, to) * SEGMENT_PAIR_DEPTH +
            (size_t)(piece % SEGMENT_PAIR_DEPTH);

    return base_of(segment) + layout_of(segment->ranks).pieces +
            index * SEGMENT_PAIR_BYTES;
}

uint32_t segment_bell(const struct segment *segment)
{
    return atomic_load(&segment_rank(segment, segment->rank)->bell);
}

void segment_sleep(const struct segment *segment, uint32_t seen, int64_t nanoseconds)
{
    futex_wait(&segment_rank(segment, segment->rank)->bell, seen, nanoseconds);
}

void segment_ring(const struct segment *segment, int rank)
{
    struct segment_rank *there = segment_rank(segment, rank);

    (void)atomic_fetch_add(&there->bell, 1);
    futex_wake(&there->bell, INT_MAX);
}

void segment_ring_all(const struct segment *segment)
{
    int rank;

    for (rank = 0; rank < segment->ranks; rank++) {
        segment_ring(segment, rank);
    }
}

void segment_meet(struct segment *segment, const struct segment_word *word)
{
    struct segment_rank *here = segment_rank(segment, segment->rank);
    uint64_t meeting = atomic_load(&here->meetings) + 1;

    here->words[meeting & 1] = *word;
    atomic_store(&here->meetings, meeting);
    segment_ring_all(segment);
}

uint64_t segment_missing(const struct segment *segment, uint64_t members)
{
    uint64_t meeting = atomic_load(&segment_rank(segment, segment->rank)->meetings);
    uint64_t missing = 0;
    int rank;

    for (rank = 0; rank < segment->ranks; rank++) {
        if ((members >> rank & 1) != 0 &&
                atomic_load(&segment_rank(segment, rank)->meetings) < meeting) {
            missing |= UINT64_C(1) << rank;
        }
    }
    return missing;
}

uint64_t segment_missing_here(const struct segment *segment, uint64_t members)
{
    int rank;

    for (rank = 0; rank < segment->ranks; rank++) {
        if (segment_state(segment, rank) == SEGMENT_GONE) {
            members &= ~(UINT64_C(1) << rank);
        }
    }
    return segment_missing(segment, members);
}

const struct segment_word *segment_word(const struct segment *segment, int rank)
{
    uint64_t meeting = atomic_load(&segment_rank(segment, segment->rank)->meetings);

    return &segment_rank(segment, rank)->words[meeting & 1];
}
