/*
 * A rank stays outside tutti, until the others have ended: the context of those has failed,
 * their tutti_finalize() returns all the same, and says that MPI was left alone. Under a
 * launcher that lets ranks end without MPI_Finalize.
 *
 *   blocked abort|stall
 *
 * abort: a rank calls tutti_abort(). stall: the others wait for the rank, up to stall_fail_s.
 */
#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <tutti/mpi.h>

#include "check.h"

enum {
    RANKS_MAX = 16,
    HANG_SECONDS = 1000
};

static void await_end(int64_t pid)
{
    struct pollfd ended = { .events = POLLIN };

    ended.fd = (int)syscall(SYS_pidfd_open, (pid_t)pid, 0);
    /* Else it has ended already. MPICH signals the ends of others. */
    while (ended.fd >= 0 && poll(&ended, 1, -1) != 1) {
        CHECK(errno == EINTR);
    }
}

static tutti_status sum(tutti *t)
{
    int32_t value = 1;

    return tutti_allreduce(t, "sum", &value, &value, 1, TUTTI_INT32, TUTTI_SUM, NULL);
}

static void leave(tutti *t, bool aborts)
{
    const int rank = tutti_rank(t);

    if (aborts && rank == 1) {
        CHECK(tutti_abort(t, "no more") == TUTTI_OK);
    }
    CHECK(sum(t) == TUTTI_ERR_CONTEXT_FAILED);
    CHECK(tutti_finalize(t) == TUTTI_ERR_CONTEXT_FAILED);
    CHECK(strstr(tutti_last_error(), aborts ? "no more" : "stall_fail_s") != NULL);
    CHECK(strstr(tutti_last_error(), "MPI was not finalized") != NULL);
    (void)printf("rank %d left\n", rank);
    (void)fflush(stdout);
}

int main(int argc, char **argv)
{
    const bool aborts = argc == 2 && strcmp(argv[1], "abort") == 0;
    const int64_t mine = getpid();
    int64_t pids[RANKS_MAX];
    tutti *t = NULL;

    (void)alarm(HANG_SECONDS);
    CHECK(tutti_init(&t, NULL) == TUTTI_OK && tutti_size(t) <= RANKS_MAX);
    /* Not by tutti, where a rank without a core is a stall. */
    CHECK(MPI_Allgather(&mine, 1, MPI_INT64_T, pids, 1, MPI_INT64_T, MPI_COMM_WORLD) ==
            MPI_SUCCESS);
    (void)MPI_Barrier(MPI_COMM_WORLD); /* before the context fails */
    if (tutti_rank(t) > 0) {
        leave(t, aborts);
        _Exit(0);
    }
    for (int rank = 1; rank < tutti_size(t); rank++) {
        await_end(pids[rank]);
    }
    CHECK(tutti_finalize(t) == TUTTI_ERR_CONTEXT_FAILED);
    _Exit(0);
}
