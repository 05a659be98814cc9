/*
 * Two ways to sum private memory between the ranks of one host, without agreement: what
 * tutti's own way is to be compared with. Rank r sums slice r of all ranks.
 *
 *   copy   operands and results go through a ring that all ranks map and that stays in the
 *          cache, a piece of each slice in a round
 *   cma    each rank reads what it needs from the memory of the others, by
 *          process_vm_readv(): first the operands of its slice, then the other slices
 */
#include <errno.h>
#include <mpi.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/mem.h"
#include "bench/work.h"
#include "ops/reduce/reduce.h"

enum {
    LINE = 64,
    PIECE = 256 << 10, /* the best of 16 KiB to 512 KiB for both, at 1 MiB and 16 MiB */
    RING_ROUNDS = 3 /* staged ahead; at work; taken out */
};

struct rival {
    struct segment segment; /* the rings, and a place to meet */
    long *pids; /* [ranks] */
    unsigned char **theirs; /* [ranks] where their tensor lies */
    unsigned char *scratch; /* [ranks] pieces */
    const void **operands; /* [ranks] */
    void **results; /* [ranks] */
};

tutti_status rival_open(struct rival **opened, const struct work *work)
{
    const struct job *job = work->job;
    const size_t ranks = (size_t)job->size;
    struct rival *rival = calloc(1, sizeof *rival);
    const long pid = getpid();
    tutti_status status;

    if (rival == NULL) {
        return TUTTI_ERR_NO_MEMORY;
    }
    *opened = rival;
    rival->pids = calloc(ranks, sizeof *rival->pids);
    rival->theirs = calloc(ranks, sizeof *rival->theirs);
    rival->scratch = calloc(ranks, PIECE);
    rival->operands = calloc(ranks, sizeof *rival->operands);
    rival->results = calloc(ranks, sizeof *rival->results);
    if (rival->pids == NULL || rival->theirs == NULL || rival->scratch == NULL ||
            rival->operands == NULL || rival->results == NULL) {
        return TUTTI_ERR_NO_MEMORY;
    }
    status = segment_open(&rival->segment, job, ranks * RING_ROUNDS * PIECE);
    MPI_Allgather(&pid, 1, MPI_LONG, rival->pids, 1, MPI_LONG, MPI_COMM_WORLD);
    MPI_Allgather(&work->inputs[0], sizeof rival->theirs[0], MPI_BYTE, rival->theirs,
            sizeof rival->theirs[0], MPI_BYTE, MPI_COMM_WORLD);
    return status;
}

void rival_close(struct rival *rival)
{
    if (rival == NULL) {
        return;
    }
    segment_close(&rival->segment);
    free(rival->pids);
    free(rival->theirs);
    free(rival->scratch);
    free((void *)rival->operands);
    free(rival->results);
    free(rival);
}

/* A piece of a rank's slice; bytes is 0 behind the last one. */
struct piece {
    size_t at, bytes;
};

static struct piece piece_of(const struct work *work, int rank, size_t round)
{
    const size_t bytes = (size_t)work->tensors->elements * work->pattern.element_bytes;
    const size_t ranks = (size_t)work->job->size;
    const size_t share = size_align((bytes + ranks - 1) / ranks, LINE);
    const size_t from = size_min(bytes, (size_t)rank * share + round * PIECE);
    const size_t end = size_min(bytes, ((size_t)rank + 1) * share);

    return (struct piece){ .at = from,
        .bytes = from < end ? size_min(PIECE, end - from) : 0 };
}

/* Of the largest slice. */
static size_t rounds_of(const struct work *work)
{
    size_t rounds = 0;

    while (piece_of(work, 0, rounds).bytes > 0) {
        rounds++;
    }
    return rounds;
}

static unsigned char *place_of(
        const struct rival *rival, int owner, size_t round, int rank)
{
    const size_t slot = round % RING_ROUNDS * (size_t)rival->segment.ranks;

    return segment_part(&rival->segment, owner) + (slot + (size_t)rank) * PIECE;
}

static void reduce(const struct work *work, const struct piece *piece, int outputs)
{
    const struct reduce_spec spec = {
        .dtype = work->operation.dtype,
        .op = work->operation.op,
        .divisor = work->job->size,
        .prescale = 1,
        .postscale = 1,
    };

    reduce_tree(&spec, work->rival->operands, work->job->size, work->rival->results,
            outputs, piece->bytes / work->pattern.element_bytes);
}

/* Into the own ring, or out of it. */
static void move(const struct work *work, size_t round, bool in)
{
    const int me = work->job->rank;

    for (int rank = 0; rank < work->job->size; rank++) {
        const struct piece piece = piece_of(work, rank, round);
        unsigned char *place = place_of(work->rival, me, round, rank);
        unsigned char *own = work->inputs[0] + piece.at;

        if (rank != me && piece.bytes > 0) {
            mem_copy(in ? place : own, in ? own : place, piece.bytes);
        }
    }
}

tutti_status work_step_copy(struct work *work)
{
    struct rival *rival = work->rival;
    const int me = work->job->rank;
    const size_t rounds = rounds_of(work);

    move(work, 0, true);
    segment_meet(&rival->segment);
    for (size_t round = 0; round < rounds; round++) {
        const struct piece piece = piece_of(work, me, round);

        move(work, round + 1, true);
        for (int rank = 0; rank < work->job->size; rank++) {
            rival->results[rank] = rank == me ? work->inputs[0] + piece.at
                                              : place_of(rival, rank, round, me);
            rival->operands[rank] = rival->results[rank];
        }
        if (piece.bytes > 0) {
            reduce(work, &piece, work->job->size);
        }
        segment_meet(&rival->segment);
        move(work, round, false);
    }
    return TUTTI_OK;
}

static bool read_from(
        const struct rival *rival, int rank, size_t at, void *to, size_t bytes)
{
    const struct iovec local = { .iov_base = to, .iov_len = bytes };
    const struct iovec remote = { .iov_base = rival->theirs[rank] + at,
        .iov_len = bytes };

    return process_vm_readv((pid_t)rival->pids[rank], &local, 1, &remote, 1, 0) ==
            (ssize_t)bytes;
}

/* The own slice, a piece at a time. */
static bool sum_own(struct work *work)
{
    struct rival *rival = work->rival;
    const int me = work->job->rank;
    struct piece piece = piece_of(work, me, 0);
    bool good = true;

    for (size_t round = 0; piece.bytes > 0; piece = piece_of(work, me, ++round)) {
        for (int rank = 0; rank < work->job->size; rank++) {
            void *scratch = rival->scratch + (size_t)rank * PIECE;

            rival->operands[rank] = rank == me ? work->inputs[0] + piece.at : scratch;
            good &= rank == me ||
                    read_from(rival, rank, piece.at, scratch, piece.bytes);
        }
        rival->results[0] = work->inputs[0] + piece.at;
        reduce(work, &piece, 1);
    }
    return good;
}

tutti_status work_step_cma(struct work *work)
{
    struct rival *rival = work->rival;
    bool good;

    segment_meet(&rival->segment);
    good = sum_own(work);
    segment_meet(&rival->segment);
    for (int rank = 0; rank < work->job->size; rank++) {
        struct piece piece = piece_of(work, rank, 0);

        for (size_t round = 0; rank != work->job->rank && piece.bytes > 0;
                piece = piece_of(work, rank, ++round)) {
            good &= read_from(
                    rival, rank, piece.at, work->inputs[0] + piece.at, piece.bytes);
        }
    }
    segment_meet(&rival->segment);
    return good ? TUTTI_OK
                : job_failed(work->job, TUTTI_ERR_SYSTEM,
                          "--compare cma: process_vm_readv, which the system may "
                          "forbid (ptrace)");
}
