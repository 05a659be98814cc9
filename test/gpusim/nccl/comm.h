/*
 * A simulated communicator: what a rank of it holds, how its handle is checked, and how its
 * kernels and its host wait.
 */
#ifndef TUTTI_TEST_GPUSIM_NCCL_COMM_H
#define TUTTI_TEST_GPUSIM_NCCL_COMM_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ops/gpu/nccl.h"
#include "test/gpusim/nccl/segment.h"

struct job;

/* What may be done with a communicator. */
enum comm_life {
    COMM_ARRIVING, /* its ranks are looking for each other     */
    COMM_LIVE,
    COMM_FINALIZED, /* only Destroy and Abort                   */
    COMM_DEAD /* the handle must not be used              */
};

/* What kernels and calls that wait have to leave for. */
enum comm_quit {
    COMM_STAY,
    COMM_QUIT_ALL /* aborted: calls, too    */
};

/* Memory registered with a communicator. */
struct comm_memory {
    struct comm_memory *next;
    uint64_t start;
    size_t bytes;
    uint64_t number; /* of registrations before it */
};

struct nccl_comm_object {
    struct nccl_comm_object *next; /* in the registry, for ever                       */
    _Atomic uint64_t number; /* in reports: the first bits of the id             */
    int rank;
    int ranks;
    int device; /* of the context                                   */
    bool blocking;
    uint64_t ids; /* hash of those that it was made by               */
    bool is_unnamed; /* its config has no name                           */
    struct segment segment; /* closed only when nobody is inside                */
    cu_context context; /* current when it was made                         */
    cu_pointer scratch; /* device memory, as NCCL has some; 0: none         */

    pthread_mutex_t lock; /* of what follows                                  */
    pthread_cond_t calm; /* users, flying or finished have changed           */
    enum comm_life life;
    int users; /* calls that are inside                            */
    int workers; /* of these, calls that NCCL wants one at a time    */
    int flying; /* launches that have not ended                     */
    int captured; /* launches that are in graphs, which still exist   */
    uint64_t issued; /* launches                                         */
    uint64_t sequence; /* collectives issued                               */
    _Atomic uint64_t finished; /* launches that have ended: whose turn it is       */
    _Atomic int quit; /* enum comm_quit                                  */
    _Atomic nccl_result async; /* what ncclCommGetAsyncError says; sticky          */
    struct job *pending; /* not blocking: what polls bring forward           */
    bool stepping; /* a poll brings it forward                         */
    uint64_t polled; /* jobs that were left to polls                     */
    struct comm_memory *memory;
    char last_error[256];
};

/* The memory, which must be there: the process ends otherwise. */
void *must(void *memory);

/* A new one in the registry, ARRIVING; never freed, so that handles stay checkable. */
nccl_comm comm_create(int rank, int ranks, bool blocking);
/* Opens the segment of an id. */
void comm_open_segment(nccl_comm comm, const unsigned char *id);

/*
 * Checks a handle for a call and enters it: success, or a report and an error, e.g. when it
 * was destroyed, finalized, or is in progress. comm_enter() wants it ready for work,
 * comm_enter_any() only that it is not dead.
 */
nccl_result comm_enter(nccl_comm comm, const char *function);
nccl_result comm_enter_any(nccl_comm comm, const char *function);
void comm_leave(nccl_comm comm);
void comm_leave_any(nccl_comm comm);

/* A caller broke a rule of NCCL: reported; gives the result back. */
nccl_result comm_misuse(
        nccl_comm comm, const char *function, const char *what, nccl_result result);

/* Looks at a handle without entering: false when it never was a communicator. */
bool comm_is_known(const struct nccl_comm_object *comm);

/* Makes kernels or all leave; those that wait notice at once. */
void comm_quit(nccl_comm comm, enum comm_quit who);
/* How many launches have not ended. */
int comm_flying(nccl_comm comm);
/* True while launches have not ended, or may come again from a graph. */
bool comm_is_needed(nccl_comm comm);
/* Waits for launches and for other callers, and gives the memory back; the handle dies. */
void comm_bury(nccl_comm comm);
/* Rings this process's bells on a device: a kernel has left it. */
void comm_ring_device(int device);

/* Sets the text of ncclGetLastError, and gives the result back. */
nccl_result comm_error(nccl_comm comm, nccl_result result, const char *format, ...)
        __attribute__((format(printf, 3, 4)));
/* The text for NULL: of this thread's last failure without a communicator. */
const char *comm_last_error(nccl_comm comm);

/* How long somebody has waited in one place. */
struct patience {
    int64_t since; /* clock_ns() of the start; 0: not waited yet */
    bool reported;
};

/* Sleeps until the bell moves; true when it is time to report a hang, once. */
bool comm_pause(nccl_comm comm, uint32_t seen, struct patience *patience);
/* Reports a hang: in `what`, and for which ranks (a bit for each). */
void comm_report_hang(nccl_comm comm, const char *what, uint64_t missing);
/* Reports what nothing can go on after, and ends the process. */
_Noreturn void comm_report_fatal(const char *format, ...)
        __attribute__((format(printf, 1, 2)));

/* Adds communicators that are not dead, and registrations with them that overlap a range. */
struct gpusim_nccl_live;
void comm_count(struct gpusim_nccl_live *live, uint64_t start, uint64_t end);

#endif
