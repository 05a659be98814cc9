/*
 * The end of MPI: MPI_Finalize, which comes back also with MPICH before 4.2 over UCX.
 *
 * There each rank disconnects from its peers, looks at its messages until all have answered
 * that, and then waits for the others at the process manager without looking any more
 * (pmodels/mpich#6596). UCX over TCP answers whenever it looks, so in any MPI program
 *
 *     rank 0   disconnects ------------------ is answered, waits at the process manager
 *                         \                 /
 *     rank 1   looks ------ answers --------- disconnects, and is never answered
 *
 * So no rank may look between a peer's disconnecting and its own. Those that meet in MPI look
 * until they hear of it, on a busy machine long after the first has left. They meet at the
 * process manager instead, twice: while they look, for what others still need, and without.
 * With many hosts on few cores this makes the hang rarer, no more (docs/threads.md).
 */
#ifndef TUTTI_FABRIC_MPI_END_H
#define TUTTI_FABRIC_MPI_END_H

#include <mpi.h>

#if defined(MPICH_NUMVERSION) && MPICH_NUMVERSION < 40200300
#    include <errno.h>
#    include <limits.h>
#    include <stdbool.h>
#    include <stdlib.h>
#    include <string.h>
#    include <sys/socket.h>
#    include <time.h>

/*
 * The socket to the process manager, by PMI_FD; -1 where that is not known to speak PMI-1, as
 * it does with every MPICH that was configured without another.
 */
static inline int mpi_manager(const char *pmi_fd)
{
    static const char name[] = "MPICH Version";
    char version[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    char *end = NULL;
    int len = 0;
    const long fd = pmi_fd == NULL ? -1 : strtol(pmi_fd, &end, 10);

    (void)MPI_Get_library_version(version, &len);
    return fd >= 0 && fd <= INT_MAX && end != pmi_fd && *end == '\0' &&
                    strncmp(version, name, sizeof name - 1) == 0 &&
                    strstr(version, "--with-pmi") == NULL
            ? (int)fd
            : -1;
}

/* Lets MPI work for others for a moment; on MPI_COMM_SELF it would not look at messages. */
static inline void mpi_look(void)
{
    const int no_tag = 32767; /* every MPI has it */
    const struct timespec moment = { .tv_nsec = 50000 };
    int found = 0;

    (void)MPI_Iprobe(0, no_tag, MPI_COMM_WORLD, &found, MPI_STATUS_IGNORE);
    (void)nanosleep(&moment, NULL);
}

/* The barrier that MPI_Init and MPI_Finalize use. False: the manager is not there any more. */
static inline bool mpi_meet_at(int manager, bool looks)
{
    static const char words[] = "cmd=barrier_in\n";
    const int how = looks ? MSG_DONTWAIT : 0;
    char byte = '\0';
    bool is_there =
            send(manager, words, sizeof words - 1, MSG_NOSIGNAL) == sizeof words - 1;

    while (is_there && byte != '\n') {
        const ssize_t len = recv(manager, &byte, 1, how);

        is_there = len > 0 || (len < 0 && (errno == EINTR || errno == EAGAIN));
        if (len < 0 && looks) {
            mpi_look();
        }
    }
    return is_there;
}

/* Where there is nobody to meet at, those that are late have 50 ms. */
static inline void mpi_meet(const char *pmi_fd)
{
    const struct timespec quiet = { .tv_nsec = 50000000 };
    const int manager = mpi_manager(pmi_fd);

    if (manager < 0 || !mpi_meet_at(manager, true) || !mpi_meet_at(manager, false)) {
        (void)MPI_Barrier(MPI_COMM_WORLD);
        (void)nanosleep(&quiet, NULL);
    }
}
#else
static inline void mpi_meet(const char *pmi_fd)
{
    (void)pmi_fd;
}
#endif

/**
 * Ends MPI. Collective over MPI_COMM_WORLD.
 * @param pmi_fd  the value of PMI_FD in the environment; NULL: there is none
 */
static inline void mpi_end(const char *pmi_fd)
{
    mpi_meet(pmi_fd);
    (void)MPI_Finalize();
}

#endif
