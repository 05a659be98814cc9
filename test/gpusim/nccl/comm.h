/*
 * A simulated communicator: what a rank of it holds, how its handle is checked, how its kernels and
 * its host wait, and what its host has to do.
 */
#ifndef TUTTI_TEST_GPUSIM_NCCL_COMM_H
#define TUTTI_TEST_GPUSIM_NCCL_COMM_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ops/gpu/driver.h"
#include "ops/gpu/nccl.h"
#include "test/gpusim/gpusim_test.h"
#include "test/gpusim/nccl/segment.h"

/* The functions that the two libraries export, as the product's tables have them: a signature
 * that differs from the table's does not compile. */
#define CUDA_REQUIRED(field, symbol, parameters) GPUSIM_API cu_result symbol parameters;
#define CUDA_OPTIONAL(field, symbol, parameters) GPUSIM_API cu_result symbol parameters;
#include "ops/gpu/driver.def"

#define NCCL_ID struct nccl_id
#define NCCL_CONFIG struct nccl_config
#define NCCL_REQUIRED(field, symbol, parameters) \
    GPUSIM_API nccl_result symbol parameters;
#define NCCL_OPTIONAL(field, symbol, since, parameters) \
    GPUSIM_API nccl_result symbol parameters;
#define NCCL_TEXT_REQUIRED(field, symbol, parameters) \
    GPUSIM_API const char *symbol parameters;
#define NCCL_TEXT_OPTIONAL(field, symbol, since, parameters) \
    GPUSIM_API const char *symbol parameters;
#include "ops/gpu/nccl.def"

#undef NCCL_ID
#undef NCCL_CONFIG

enum {
    DEVICES_MAX = 80 /* as in the CUDA half */
};

struct launch;

/*
 * Work of a host call that may take several steps and need other ranks: making and splitting
 * communicators, launching, ending. For a blocking communicator the call steps it until it is done;
 * for one that is not it becomes pending, and only polls (ncclCommGetAsyncError) step it.
 */
struct job {
    nccl_comm comm; /* whose polls step it                                  */
    const char *function; /* for reports                                    */
    bool always_blocks; /* ncclCommDestroy and ncclCommAbort                  */
    /* Success, NCCL_IN_PROGRESS, or an error; then it is not called again. */
    nccl_result (*step)(struct job *job);
    int64_t since_ns; /* when it was submitted                                */
    bool is_begun; /* it has come to its meeting                            */
    bool is_stuck; /* by a fault                                            */
    struct launch *launch; /* owned until it is on its stream; NULL: none        */
    nccl_comm child; /* that is made ready; NULL: this rank gets none        */
    struct segment_word word; /* of a split; the id, of any child              */
};

/* What may be done with a communicator. */
enum comm_life {
    COMM_ARRIVING, /* its ranks are looking for each other     */
    COMM_LIVE,
    COMM_FINALIZED, /* only Destroy and Abort                   */
    COMM_DEAD /* the handle must not be used              */
};

struct nccl_comm_object {
    struct nccl_comm_object *next; /* of all that there ever were                     */
    int rank;
    int ranks;
    int device; /* of the context                                   */
    bool blocking;
    uint64_t ids; /* hash of those that it was made by               */
    struct segment segment; /* closed only when nobody is inside                */
    cu_context context; /* current when it was made                         */
    cu_pointer scratch; /* device memory, as NCCL has some; 0: none         */

    pthread_mutex_t lock; /* of what follows                                  */
    _Atomic enum comm_life life;
    atomic_int users; /* calls that are inside                            */
    int workers; /* of these, calls that NCCL wants one at a time    */
    atomic_int flying; /* launches that have not ended                     */
    atomic_int captured; /* launches that are in graphs, which still exist   */
    uint64_t issued; /* launches                                         */
    uint64_t sequence; /* collectives issued                               */
    _Atomic uint64_t finished; /* launches that have ended: whose turn it is       */
    _Atomic bool quits; /* aborted: kernels and jobs leave                    */
    _Atomic nccl_result async; /* what ncclCommGetAsyncError says; sticky          */
    struct job pending; /* not blocking: what polls bring forward, if it has a step */
    bool stepping; /* a poll brings it forward                         */
    int polls; /* that find nothing done before that               */
    uint64_t polled; /* jobs that were left to polls                     */
    uint64_t registered; /* times that memory was                            */
};

/* ---- comm.c: handles ---- */

/* A new one, ARRIVING. */
nccl_comm comm_create(int rank, int ranks, bool blocking);

/* What a call needs of a handle. */
enum comm_need {
    COMM_ANY, /* it is not dead                    */
    COMM_SETTLED, /* polls have said that it is done   */
    COMM_READY /* and it can be given work          */
};

/* Counts a call; an error if a fault wants one. */
nccl_result comm_begin(const char *function);
/* Also checks the handle, and enters it: success, or a report and an error. */
nccl_result comm_enter(nccl_comm comm, const char *function, enum comm_need need);
/* Leaves, as it was entered, with a result; a group that the call is in fails with it. */
nccl_result comm_leave(nccl_comm comm, enum comm_need need, nccl_result result);

/* A caller broke a rule of NCCL: reported; gives the result back. */
nccl_result comm_misuse(
        nccl_comm comm, const char *function, const char *what, nccl_result result);
/* Sets the text of ncclGetLastError, and gives the result back. */
nccl_result comm_error(nccl_result result, const char *format, ...)
        __attribute__((format(printf, 2, 3)));

/* Makes kernels and jobs leave; those that wait notice at once. */
void comm_quit(nccl_comm comm);
/* True while launches have not ended, or may come again from a graph. */
bool comm_is_needed(nccl_comm comm);
/* True while another thread is in a call on it, for who is in one. */
bool comm_is_shared(nccl_comm comm);
/* Gives everything back; the handle dies. */
void comm_bury(nccl_comm comm);

/* ---- comm.c: waiting ---- */

/*
 * A kernel waits by the bell until no rank is `missing` (a bit for each; its own: it is for no
 * rank), or too long for that; false when it has to leave.
 */
bool comm_await(
        nccl_comm comm, uint64_t (*missing)(void *user), void *user, const char *what);
/* True when somebody has waited too long. */
bool comm_is_late(int64_t since_ns);
_Noreturn void comm_report_hang(nccl_comm comm, const char *what, uint64_t missing);
/* Reports what nothing can go on after, and ends the process. */
_Noreturn void comm_report_fatal(const char *format, ...)
        __attribute__((format(printf, 1, 2)));

/* ---- job.c ---- */

/* What the call returns. In a group there are only launches. */
nccl_result job_submit(struct job *job);
/* Inside of a group a call has failed: the group will launch nothing. Gives it back. */
nccl_result job_group_failed(nccl_result result);
/* The launch of the thread's group, or where it will be; NULL: there is no group. */
struct launch **job_group_launch(void);
/* Forgets what is pending; the lock of the communicator is held. */
void job_drop_pending_locked(nccl_comm comm);

/* ---- comm.c: what tests see, for which see gpusim_test.h ---- */

/* What a fault (gpusim_fail()) makes of it that `what` happens to a rank; 0: none does. */
int fault_of(int rank, const char *what);

/* What this process has, until the unlock; it guards the lists of memory.c as well. */
struct gpusim_nccl_live *live_lock(void);
void live_unlock(void);

/* ---- memory.c ---- */

/* Forgets what is registered with a communicator: true if something was. */
bool memory_forget(nccl_comm comm);

#endif
