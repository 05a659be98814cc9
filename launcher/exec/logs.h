/*
 * The files of a rank's output: FOLDER/rank.N/stdout and stderr, byte by byte what it
 * wrote.
 */
#ifndef TUTTI_LAUNCHER_EXEC_LOGS_H
#define TUTTI_LAUNCHER_EXEC_LOGS_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tutti/tutti.h>

/** One file. */
struct log_file {
    char path[PATH_MAX]; /* "" when there is none          */
    int fd; /* -1: there is none, or it failed */
};

/**
 * Where a generation of an elastic job writes what the first one writes to `path`: none writes over
 * what another has written. Of "logs" that is "logs.generation2", of "t.json" "t.generation2.json".
 * @param generation  0, of a job that is not elastic, and 1: the path as it is
 */
void generation_path(char *own, size_t capacity, const char *path, uint32_t generation);

/**
 * Makes FOLDER/rank.N, with FOLDER.
 * @param[out] folder  room for PATH_MAX bytes: where the files are
 * @return TUTTI_OK, TUTTI_ERR_INVALID (too long), TUTTI_ERR_SYSTEM
 */
TUTTI_MUST_USE tutti_status logs_make_folder(
        const char *parent, int rank, char *folder);

/** Opens FOLDER/NAME, emptied. @return TUTTI_OK, TUTTI_ERR_INVALID, TUTTI_ERR_SYSTEM */
TUTTI_MUST_USE tutti_status log_file_open(
        struct log_file *log, const char *folder, const char *name);
/**
 * Appends. After a failure, such as a full disk, nothing more is written.
 * @return TUTTI_OK, TUTTI_ERR_SYSTEM once
 */
TUTTI_MUST_USE tutti_status log_file_write(
        struct log_file *log, const char *bytes, size_t len);
void log_file_close(struct log_file *log);

#endif
