#include "common.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

void check(tutti *job, tutti_status status)
{
    if (status == TUTTI_OK) {
        return;
    }
    if (job == NULL) {
        (void)fprintf(stderr, "%s\n", tutti_last_error());
    } else if (status != TUTTI_ERR_MISMATCH || tutti_rank(job) == 0) {
        (void)tutti_abort(job, tutti_last_error()); /* logs it, and tells the others */
    }
    (void)tutti_finalize(job);
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): the job is over */
    exit(EXIT_FAILURE);
}

double now(void)
{
    struct timespec time;

    (void)clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

bool find_beside_program(const char *name, char *path, size_t path_bytes)
{
    static const char *const folders[] = { "", "../share/tutti/" };
    char program[4096];
    ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    char *slash;

    if (length <= 0) {
        return false;
    }
    program[length] = '\0';
    slash = strrchr(program, '/');
    for (int i = 0; slash != NULL && i < 2; i++) {
        int written = snprintf(path, path_bytes, "%.*s/%s%s", (int)(slash - program),
                program, folders[i], name);

        if (written > 0 && (size_t)written < path_bytes && access(path, R_OK) == 0) {
            return true;
        }
    }
    return false;
}
