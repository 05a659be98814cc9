/*
 * Drafts of files.
 */
#include "base/draft.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/random.h>
#include <sys/types.h>

int draft_open(const char *path, char *draft, size_t capacity)
{
    uint64_t number;

    if (getrandom(&number, sizeof number, 0) != (ssize_t)sizeof number) {
        return -1;
    }
    if (snprintf(draft, capacity, "%s.%016" PRIx64, path, number) >= (int)capacity) {
        errno = ENAMETOOLONG;
        return -1;
    }
    return open(draft, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
}
