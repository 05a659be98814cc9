/*
 * Checks for programs of several ranks: a failure names the rank and ends the job, so
 * that no other rank waits for ever and the exit status is not zero.
 */
#ifndef TUTTI_TEST_MULTI_CHECK_H
#define TUTTI_TEST_MULTI_CHECK_H

#include <mpi.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include <tutti/tutti.h>

/** Prints where and why, and ends the job. */
__attribute__((format(printf, 3, 4), noreturn)) static inline void check_failed(
        const char *file, int line, const char *format, ...)
{
    va_list arguments;
    int rank = -1;
    int initialised = 0;
    int finalized = 0;

    (void)MPI_Initialized(&initialised);
    (void)MPI_Finalized(&finalized);
    if (initialised != 0 && finalized == 0) {
        (void)MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    }
    (void)fprintf(stderr, "rank %d: %s:%d: ", rank, file, line);
    va_start(arguments, format);
    (void)vfprintf(stderr, format, arguments);
    va_end(arguments);
    (void)fprintf(stderr, " (last error: %s)\n", tutti_last_error());
    if (initialised != 0 && finalized == 0) {
        (void)MPI_Abort(MPI_COMM_WORLD, 1);
    }
    _Exit(1);
}

/** Ends the job unless the condition holds. */
#define CHECK(condition) \
    ((condition) ? (void)0 : check_failed(__FILE__, __LINE__, "not so: %s", #condition))

/** As CHECK, with a message of its own. */
#define CHECK_SAYS(condition, ...) \
    ((condition) ? (void)0 : check_failed(__FILE__, __LINE__, __VA_ARGS__))

#endif
