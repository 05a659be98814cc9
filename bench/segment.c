/*
 * Mapping, and a barrier of one counter per rank.
 */
#include "bench/segment.h"

#include <errno.h>
#include <fcntl.h>
#include <mpi.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
    COUNTER_BYTES = 128, /* two cache lines: neighbours are fetched in pairs */
    HUGE_PAGE =
            2 << 20, /* parts begin there, so that pages of any size are one rank's */
    PATIENCE = 2000 /* where every rank has a core */
};

static size_t whole_pages(size_t bytes)
{
    return (bytes + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
}

/* True when all ranks succeeded; says why this one did not. */
static bool all_succeeded(const struct job *job, bool mine, const char *what)
{
    int success = mine;
    char text[128];

    if (!mine) {
        (void)fprintf(stderr, "tutti-bench: rank %d: --compare limit: %s: %s\n",
                job->rank, what, strerror_r(errno, text, sizeof text));
    }
    MPI_Allreduce(MPI_IN_PLACE, &success, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    return success != 0;
}

/* Rank 0 makes the file; the others open it. Returns a descriptor, or -1 with errno. */
static int open_file(const struct job *job, size_t bytes)
{
    int where[2] = { getpid(), -1 };
    char path[64];

    if (job->rank == 0) {
        where[1] = memfd_create("tutti-bench", MFD_CLOEXEC);
        if (where[1] >= 0 && ftruncate(where[1], (off_t)bytes) != 0) {
            (void)close(where[1]);
            where[1] = -1;
        }
    }
    MPI_Bcast(where, 2, MPI_INT, 0, MPI_COMM_WORLD);
    if (job->rank == 0) {
        return where[1];
    }
    (void)snprintf(path, sizeof path, "/proc/%d/fd/%d", where[0], where[1]);
    return open(path, O_RDWR | O_CLOEXEC);
}

/* Every rank commits its own part, on its own memory node; running out is an error. */
static bool commit(const struct segment *segment, int file)
{
    const size_t front = (size_t)(segment_part(segment, 0) - segment->base);
    const size_t from = front + (size_t)segment->rank * segment->part_bytes;

    if (segment->rank == 0 && fallocate(file, 0, 0, (off_t)front) != 0) {
        return false;
    }
    return fallocate(file, 0, (off_t)from, (off_t)segment->part_bytes) == 0;
}

static bool map(struct segment *segment, int file)
{
    void *base =
            mmap(NULL, segment->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);

    if (base == MAP_FAILED) {
        return false;
    }
    segment->base = base;
    return commit(segment, file);
}

tutti_status segment_open(struct segment *segment, const struct job *job, size_t bytes)
{
    size_t front = whole_pages((size_t)job->size * COUNTER_BYTES);
    bool mapped = false;
    int file;

    *segment = (struct segment){
        .part_bytes = whole_pages(bytes),
        .rank = job->rank,
        .ranks = job->size,
        .patience = job->size > sysconf(_SC_NPROCESSORS_ONLN) ? 0 : PATIENCE,
    };
    segment->bytes = front + (size_t)job->size * segment->part_bytes;
    file = open_file(job, segment->bytes);
    if (all_succeeded(job, file >= 0, "opening the memory that all ranks map")) {
        mapped = all_succeeded(job, map(segment, file), "mapping and filling it");
    }
    if (file >= 0) {
        (void)close(file);
    }
    if (!mapped) {
        segment_close(segment);
    }
    return mapped ? TUTTI_OK : TUTTI_ERR_SYSTEM;
}

void segment_close(struct segment *segment)
{
    if (segment->base != NULL) {
        (void)munmap(segment->base, segment->bytes);
    }
    *segment = (struct segment){ .base = NULL };
}

unsigned char *segment_part(const struct segment *segment, int rank)
{
    const size_t parts = (size_t)segment->ranks * segment->part_bytes;

    return segment->base + (segment->bytes - parts) +
            (size_t)rank * segment->part_bytes;
}

static _Atomic uint64_t *counter(const struct segment *segment, int rank)
{
    return (_Atomic uint64_t *)(void *)(segment->base + (size_t)rank * COUNTER_BYTES);
}

/* Tells the processor that this is a wait, where there is a way to. */
static void relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

static void wait_for(const struct segment *segment, int rank, uint64_t meeting)
{
    const _Atomic uint64_t *theirs = counter(segment, rank);
    long looks = 0;

    /* pairs with the release in that rank's segment_meet() */
    while (atomic_load_explicit(theirs, memory_order_acquire) < meeting) {
        if (looks++ < segment->patience) {
            relax();
        } else {
            (void)sched_yield();
        }
    }
}

void segment_meet(struct segment *segment)
{
    const uint64_t meeting = ++segment->meetings;

    atomic_store_explicit(
            counter(segment, segment->rank), meeting, memory_order_release);
    for (int rank = 0; rank < segment->ranks; rank++) {
        wait_for(segment, rank, meeting);
    }
}
