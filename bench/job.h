/*
 * The ranks that measure together, and what rank 0 says about them.
 *
 * MPI belongs to the bench: it initialises it with MPI_THREAD_MULTIPLE and hands tutti
 * MPI_COMM_WORLD, so that tutti and raw MPI run in one process under one set of
 * conditions. MPI's errors are fatal (its default), so MPI calls are not checked.
 */
#ifndef TUTTI_BENCH_JOB_H
#define TUTTI_BENCH_JOB_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include <tutti/tutti.h>

#include "bench/core/arguments.h"
#include "bench/core/jsonline.h"

struct job {
    const struct bench_arguments *arguments;
    int rank, size; /* in the world */
    char mpi_version[80]; /* first line of what the MPI library says */
    double load_average; /* of rank 0's node over the minute before */
    FILE *json; /* rank 0 only; NULL: no file */
    tutti *t; /* owned */
    tutti *slow; /* owned; the same ranks with --slow; NULL: not compared with */
    int64_t wrong; /* wrong elements of all rows, over all ranks */
    bool left_out; /* what was asked for could not be measured */
};

/** Initialises MPI; what follows may use job_complain(). */
void job_start_mpi(struct job *job, int *argc, char ***argv);
/**
 * Checks what needs the number of ranks and opens the JSON file; false, equally on all
 * ranks and already reported, when the arguments do not fit this job.
 */
bool job_prepare(struct job *job, const struct bench_arguments *arguments);
/** Joins the ranks with tutti, a second time with --slow where that is compared. */
tutti_status job_open(struct job *job);
/** Undoes job_open() and closes the file; the status is that of tutti_finalize(). */
tutti_status job_close(struct job *job);

/** Prints a line on stderr, from rank 0 alone. */
__attribute__((format(printf, 2, 3))) void job_complain(
        const struct job *job, const char *format, ...);
/** Reports a failed call of this rank on stderr with tutti's reason; returns status. */
tutti_status job_failed(const struct job *job, tutti_status status, const char *what);
/** A passing line for people who watch; nothing when stderr is no terminal. */
void job_progress(const struct job *job, const char *what, int done, int of);
/** Prints who measures what, and under which conditions. */
void job_print_head(const struct job *job, const char *what);

void job_barrier(void);
/** Replaces times by the figure over all ranks that --average asks for. */
void job_combine(const struct job *job, double *values, int count);
/** Replaces values by their sums over all ranks. */
void job_sum(double *values, int count);
/** Replaces values by the largest over all ranks. */
void job_maximum(double *values, int count);
/** Adds counts of wrong elements over all ranks, remembers and returns them. */
int64_t job_count_wrong(struct job *job, int64_t wrong);
/** True when every node has twice this much memory for each of its ranks. */
bool job_memory_suffices(const struct job *job, uint64_t bytes);

/** Starts a row: the bench's name and the conditions. */
void job_row_start(const struct job *job, struct bench_json *json);
/** Writes the row on rank 0, when there is a file. */
void job_row_write(const struct job *job, struct bench_json *json);

#endif
