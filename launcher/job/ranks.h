/*
 * What is known of each rank of a job. Times are nanoseconds of tuttirun's own
 * monotonic clock.
 */
#ifndef TUTTI_LAUNCHER_JOB_RANKS_H
#define TUTTI_LAUNCHER_JOB_RANKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tutti/tutti.h>

#include "base/failure_page.h"
#include "launcher/session/link.h"

enum rank_state {
    RANK_ABSENT, /* its supervisor has not said hello */
    RANK_JOINED, /* its program does not run yet      */
    RANK_RUNNING,
    RANK_ENDED
};

/** How a rank ended. */
enum rank_end {
    RANK_END_NONE, /* it has not                                                  */
    RANK_END_EXIT, /* value: exit status                                          */
    RANK_END_SIGNAL, /* value: the signal                                           */
    RANK_END_EXEC, /* value: errno; the program could not be run                  */
    RANK_END_SETUP, /* value: errno; the supervisor could not start it             */
    RANK_END_LOST, /* the connection to its supervisor ended                      */
    RANK_END_SILENT, /* its supervisor was not heard for the heartbeat limit        */
    RANK_END_STUCK /* the program was stopped (SIGSTOP) for the heartbeat limit   */
};

/** One rank. Zeroed: nothing is known. */
struct rank {
    char *host; /* as its supervisor named it; owned; NULL: not known           */
    char *binding; /* in words; owned; NULL: not known                             */
    char *log; /* folder of its logs; owned; NULL: none                        */
    uint64_t pid; /* of the program on its host; 0: not started                   */
    enum rank_state state; /* written by the functions below                      */
    enum rank_end end; /* how, once ENDED                                         */
    int value; /* by end                                                       */
    enum library_stage stage; /* how far the library had come when it ended          */
    int64_t when; /* when it ended; for SILENT, when it was last heard            */
    int64_t doubt; /* how far off `when` may be, for the offset of clocks          */
    enum context_failure failure; /* of its context, until it ended or we ended it   */
    bool dumped_core; /* a core file was written                                  */
    bool is_oom; /* the kernel killed it for want of memory                      */
    bool is_awaited; /* in MPI_Init by others, though it exited without calling the library */
    bool leaves; /* it exited to be started anew, as the ranks were told to      */
    struct link_metrics metrics[2]; /* what it has counted: before, and last     */
    bool has_given; /* to the exchange that is open (exchange.h)                 */
    bool is_stopped; /* by SIGSTOP or a debugger, as was last heard (top.c)             */
    double silence; /* for how long nothing was heard of it, in s; -1: not connected (top.c) */
    uint64_t committed; /* newest commit of an elastic job that it knew of; 0     */
    bool was_stopped; /* we or the MPI launcher ended it: a cause only by not coming     */
    char *detail; /* more in words: what exec said, what the limit was; owned     */
    char *tail; /* its last lines of stderr; owned                              */
    char *awaited; /* ranks of which some did not come to it; owned; NULL: all did */
};

/** All ranks. Zeroed is valid input for ranks_fini(). */
struct ranks {
    struct rank *items; /* by rank; owned      */
    int count; /* ranks of the job    */
    int joined; /* that are not ABSENT */
    int ended; /* that are ENDED      */
};

/** @return TUTTI_OK, TUTTI_ERR_NO_MEMORY */
TUTTI_MUST_USE tutti_status ranks_init(struct ranks *ranks, int count);
void ranks_fini(struct ranks *ranks);

/** A supervisor said hello; its rank was checked to be in range and absent. */
void ranks_join(struct ranks *ranks, const struct link_hello *hello);
/** The program runs. */
void ranks_start(struct ranks *ranks, int index, const struct link_started *started);
/** A rank ended as its supervisor says, at `when` of our clock; a second end is ignored. */
void ranks_exit(struct ranks *ranks, int index, const struct link_exited *exited,
        int64_t when, int64_t doubt);
/** The ranks were told to leave: one that exited with TUTTI_EXIT_AGAIN has ended well. */
void ranks_note_leaving(struct ranks *ranks, int index);
/**
 * Some rank waits in MPI_Init at `when` of our clock: for all, so for those as well that had
 * exited with 0 by then, before they called the library.
 * @return true when there are such, and it was not noted yet
 */
bool ranks_note_awaited(struct ranks *ranks, int64_t when);
/** A rank was lost: LOST, SILENT or STUCK; `detail` says more. */
void ranks_lose(struct ranks *ranks, int index, enum rank_end end, int64_t when,
        const char *detail);

/** True when two ranks that are known run on hosts of different names. */
bool ranks_have_hosts(const struct ranks *ranks);
/** The host's name for people, "?" when it is not known. */
const char *ranks_host(const struct ranks *ranks, int rank);
/** What a list of ranks may be of. */
bool rank_is_absent(const struct rank *rank);
bool rank_is_running(const struct rank *rank);
/**
 * Lists the ranks that match as "0,3-5" into text of `capacity` bytes, cut with "...".
 * @return how many there are
 */
int ranks_list(const struct ranks *ranks, bool (*matches)(const struct rank *rank),
        char *text, size_t capacity);

/** True when a text is such a list. */
bool rank_list_is_valid(const char *text);
/** True when a valid list, or NULL, which is all ranks, names a rank. */
bool rank_list_has(const char *text, int rank);

#endif
