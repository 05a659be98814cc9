/*
 * The longest file that the process may make (ulimit -f).
 */
#ifndef TUTTI_BASE_FILE_LIMIT_H
#define TUTTI_BASE_FILE_LIMIT_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/resource.h>

/**
 * To be asked before a file, or memory behind a descriptor, is made so long: the system answers
 * with SIGXFSZ, which ends the process.
 * @return false, with errno EFBIG: it may not be
 */
static inline bool file_limit_allows(size_t bytes)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && bytes > limit.rlim_cur) {
        errno = EFBIG;
        return false;
    }
    return true;
}

#endif
