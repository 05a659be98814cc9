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

struct private_sum {
    struct segment segment; /* the rings, and a place to meet */
    long *pids; /* [ranks] */
    unsigned char **theirs; /* [ranks] where their tensor lies */
    unsigned char *scratch; /* [ranks] pieces */
    const void **operands; /* [ranks] */
    void **results; /* [ranks] */
};

tutti_status private_sum_open(struct private_sum **opened, const struct work *work)
{
    const struct job *job = work->job;
    const size_t ranks = (size_t)job->size;
    struct private_sum *sum = calloc(1, sizeof *sum);
    const long pid = getpid();
    tutti_status status;

    if (sum == NULL) {
        return TUTTI_ERR_NO_MEMORY;
    }
    *opened = sum;
    sum->pids = calloc(ranks, sizeof *sum->pids);
    sum->theirs = calloc(ranks, sizeof *sum->theirs);
    sum->scratch = calloc(ranks, PIECE);
    sum->operands = calloc(ranks, sizeof *sum->operands);
    sum->results = calloc(ranks, sizeof *sum->results);
    if (sum->pids == NULL || sum->theirs == NULL || sum->scratch == NULL ||
            sum->operands == NULL || sum->results == NULL) {
        return TUTTI_ERR_NO_MEMORY;
    }
    status = segment_open(&sum->segment, job, ranks * RING_ROUNDS * PIECE);
    MPI_Allgather(&pid, 1, MPI_LONG, sum->pids, 1, MPI_LONG, MPI_COMM_WORLD);
    MPI_Allgather(&work->inputs[0], sizeof sum->theirs[0], MPI_BYTE, sum->theirs,
            sizeof sum->theirs[0], MPI_BYTE, MPI_COMM_WORLD);
    return status;
}

void private_sum_close(struct private_sum *sum)
{
    if (sum == NULL) {
        return;
    }
    segment_close(&sum->segment);
    free(sum->pids);
    free(sum->theirs);
    free(sum->scratch);
    free((void *)sum->operands);
    free(sum->results);
    free(sum);
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
        const struct private_sum *sum, int owner, size_t round, int rank)
{
    const size_t slot = round % RING_ROUNDS * (size_t)sum->segment.ranks;

    return segment_part(&sum->segment, owner) + (slot + (size_t)rank) * PIECE;
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

    reduce_tree(&spec, work->private_sum->operands, work->job->size,
            work->private_sum->results, outputs,
            piece->bytes / work->pattern.element_bytes);
}

/* Into the own ring, or out of it. */
static void move(const struct work *work, size_t round, bool in)
{
    const int me = work->job->rank;

    for (int rank = 0; rank < work->job->size; rank++) {
        const struct piece piece = piece_of(work, rank, round);
        unsigned char *place = place_of(work->private_sum, me, round, rank);
        unsigned char *own = work->inputs[0] + piece.at;

        if (rank != me && piece.bytes > 0) {
            mem_copy(in ? place : own, in ? own : place, piece.bytes);
        }
    }
}

tutti_status work_step_copy(struct work *work)
{
    struct private_sum *sum = work->private_sum;
    const int me = work->job->rank;
    const size_t rounds = rounds_of(work);

    move(work, 0, true);
    segment_meet(&sum->segment);
    for (size_t round = 0; round < rounds; round++) {
        const struct piece piece = piece_of(work, me, round);

        move(work, round + 1, true);
        for (int rank = 0; rank < work->job->size; rank++) {
            sum->results[rank] = rank == me ? work->inputs[0] + piece.at
                                            : place_of(sum, rank, round, me);
            sum->operands[rank] = sum->results[rank];
        }
        if (piece.bytes > 0) {
            reduce(work, &piece, work->job->size);
        }
        segment_meet(&sum->segment);
        move(work, round, false);
    }
    return TUTTI_OK;
}

static bool read_from(
        const struct private_sum *sum, int rank, size_t at, void *to, size_t bytes)
{
    const struct iovec local = { .iov_base = to, .iov_len = bytes };
    const struct iovec remote = { .iov_base = sum->theirs[rank] + at,
        .iov_len = bytes };

    return process_vm_readv((pid_t)sum->pids[rank], &local, 1, &remote, 1, 0) ==
            (ssize_t)bytes;
}

/* The own slice, a piece at a time. */
static bool sum_own(struct work *work)
{
    struct private_sum *sum = work->private_sum;
    const int me = work->job->rank;
    struct piece piece = piece_of(work, me, 0);
    bool good = true;

    for (size_t round = 0; piece.bytes > 0; piece = piece_of(work, me, ++round)) {
        for (int rank = 0; rank < work->job->size; rank++) {
            void *scratch = sum->scratch + (size_t)rank * PIECE;

            sum->operands[rank] = rank == me ? work->inputs[0] + piece.at : scratch;
            good &= rank == me || read_from(sum, rank, piece.at, scratch, piece.bytes);
        }
        sum->results[0] = work->inputs[0] + piece.at;
        reduce(work, &piece, 1);
    }
    return good;
}

tutti_status work_step_cma(struct work *work)
{
    struct private_sum *sum = work->private_sum;
    bool good;

    segment_meet(&sum->segment);
    good = sum_own(work);
    segment_meet(&sum->segment);
    for (int rank = 0; rank < work->job->size; rank++) {
        struct piece piece = piece_of(work, rank, 0);

        for (size_t round = 0; rank != work->job->rank && piece.bytes > 0;
                piece = piece_of(work, rank, ++round)) {
            good &= read_from(
                    sum, rank, piece.at, work->inputs[0] + piece.at, piece.bytes);
        }
    }
    segment_meet(&sum->segment);
    return good ? TUTTI_OK
                : job_failed(work->job, TUTTI_ERR_SYSTEM,
                          "--compare cma: process_vm_readv, which the system may "
                          "forbid (ptrace)");
}
