/*
 * MPI's life in this process.
 *
 * MPI is one thing of the process, and so is what is known of it here, the only state of the
 * library outside contexts but for counters of allocations: it belongs to no
 * context, and contexts begin and end in any order and in any thread. The lock is held
 * while MPI is initialised and finalized: a context that begins meanwhile learns the result.
 */
#include "fabric/mpi/mpi_life.h"

#include <pthread.h>
#include <signal.h>

#include "base/clock.h"
#include "base/config.h"
#include "base/error.h"
#include "base/failure_page.h"
#include "base/forkmark.h"
#include "fabric/mpi/mpi_end.h"
#include "fabric/mpi/mpi_fabric.h"
#include "fabric/mpi/mpi_job.h"

/* Between polls. */
#define NAP_NS 50000
/*
 * How long ranks of a failed job wait for each other before the end; and how long when
 * tuttirun, which has said why it failed, is about to end what is left.
 */
#define MEET_NS 400000000
#define MEET_WARNED_NS 100000000

enum owner {
    OWNER_OTHER, /* not tutti, or nobody yet */
    OWNER_TUTTI,
    OWNER_ENDED, /* tutti has finalized it */
    OWNER_LEFT /* tutti could not, and nobody may begin any more */
};

static struct {
    pthread_mutex_t lock;
    enum owner owner;
    int jobs; /* that count */
    bool is_held; /* and counts as one of them */
    bool has_failed; /* one of them */
    bool has_world;
    MPI_Comm world; /* see mpi_life_meet_on() */
    int meeting[2]; /* of meet(), which may return before MPI lets it go */
    bool ignores_pipes; /* see ignore_pipes() */
    struct forkmark mark; /* of the process that used it first */
} life = { .lock = PTHREAD_MUTEX_INITIALIZER };

static pthread_once_t mark_once = PTHREAD_ONCE_INIT;

static void make_mark(void)
{
    forkmark_init(&life.mark);
}

/* Takes no lock: a thread that the child does not have may have held it. */
tutti_status mpi_life_check(void)
{
    (void)pthread_once(&mark_once, make_mark);
    return forkmark_is_child(&life.mark)
            ? error_set(TUTTI_ERR_MPI,
                      "this process was forked by one that has MPI, which no child can "
                      "use; fork before the first tutti_init(), or call exec here")
            : TUTTI_OK;
}

int mpi_life_await(MPI_Request *request)
{
    const int64_t since = clock_ns();
    int done = 0;
    int code = MPI_Test(request, &done, MPI_STATUS_IGNORE);

    while (code == MPI_SUCCESS && done == 0) {
        clock_pause(since, NAP_NS);
        code = MPI_Test(request, &done, MPI_STATUS_IGNORE);
    }
    return code;
}

bool mpi_is_on(void)
{
    int initialised = 0;
    int finalized = 0;

    (void)MPI_Initialized(&initialised);
    (void)MPI_Finalized(&finalized);
    return initialised != 0 && finalized == 0;
}

/* ------------------------------------------------------------------- beginning */

static tutti_status say_finalized(void)
{
    if (life.owner == OWNER_ENDED) {
        return error_set(TUTTI_ERR_MPI,
                "MPI cannot be initialised twice in a process: tutti_init had "
                "initialised it, and so the last tutti_finalize() finalized it; keep "
                "one context until the end, or call tutti_mpi_hold() before the last "
                "tutti_finalize()");
    }
    return error_set(TUTTI_ERR_MPI,
            "MPI was already finalized in this process, by MPI_Finalize of the "
            "program; it cannot be started again, so call tutti_init before "
            "MPI_Finalize");
}

static tutti_status initialise(bool may_initialise)
{
    struct failure_page page;
    int level = 0;
    int code;

    if (!may_initialise) {
        return error_set(TUTTI_ERR_MPI,
                "a communicator was given but MPI is not initialised; call "
                "MPI_Init_thread first");
    }
    failure_page_open(&page, config_internal(FAILURE_PAGE_VARIABLE));
    failure_page_start(&page);
    code = MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &level);
    failure_page_started(&page);
    failure_page_close(&page);
    if (code != MPI_SUCCESS) {
        return mpi_error(code, "MPI_Init_thread");
    }
    life.owner = OWNER_TUTTI;
    return TUTTI_OK;
}

/*
 * MPI writes to the sockets of other ranks in whichever thread of ours calls it, Open MPI
 * without MSG_NOSIGNAL: when a rank dies, SIGPIPE would kill those that are to be told.
 */
static void ignore_pipes(void)
{
    struct sigaction action;

    if (sigaction(SIGPIPE, NULL, &action) == 0 && action.sa_handler == SIG_DFL) {
        action.sa_handler = SIG_IGN;
        life.ignores_pipes = sigaction(SIGPIPE, &action, NULL) == 0;
    }
}

/* Unless the program has chosen otherwise meanwhile. */
static void heed_pipes(void)
{
    struct sigaction action;

    if (life.ignores_pipes && sigaction(SIGPIPE, NULL, &action) == 0 &&
            action.sa_handler == SIG_IGN) {
        action.sa_handler = SIG_DFL;
        (void)sigaction(SIGPIPE, &action, NULL);
    }
    life.ignores_pipes = false;
}

static tutti_status begin_locked(bool may_initialise)
{
    int initialised = 0;
    int finalized = 0;

    (void)MPI_Initialized(&initialised);
    (void)MPI_Finalized(&finalized);
    if (finalized != 0) {
        return say_finalized();
    }
    if (life.owner == OWNER_LEFT) {
        return error_set(TUTTI_ERR_MPI,
                "the job has failed, and not all ranks came to the last "
                "tutti_finalize(), so MPI cannot be used any more; end the process");
    }
    if (life.is_held && life.has_failed) {
        return error_set(TUTTI_ERR_MPI,
                "a context of this process has failed, so not all ranks may come to "
                "another one; end the process");
    }
    return initialised != 0 ? TUTTI_OK : initialise(may_initialise);
}

tutti_status mpi_life_begin(bool may_initialise, bool *counts)
{
    tutti_status status;

    pthread_mutex_lock(&life.lock);
    status = begin_locked(may_initialise);
    *counts = status == TUTTI_OK && life.owner == OWNER_TUTTI;
    life.jobs += *counts ? 1 : 0;
    if (status == TUTTI_OK) {
        ignore_pipes();
    }
    pthread_mutex_unlock(&life.lock);
    return status;
}

void mpi_life_meet_on(MPI_Comm world)
{
    pthread_mutex_lock(&life.lock);
    if (life.owner == OWNER_TUTTI && !life.has_world) {
        life.has_world = true;
        life.world = world;
    }
    pthread_mutex_unlock(&life.lock);
}

bool mpi_life_keeps(MPI_Comm comm)
{
    bool keeps;

    pthread_mutex_lock(&life.lock);
    keeps = life.has_world && life.world == comm;
    pthread_mutex_unlock(&life.lock);
    return keeps;
}

/* ---------------------------------------------------------------------- ending */

static tutti_status say_left(void)
{
    return error_set(TUTTI_ERR_MPI,
            "MPI was not finalized, because not all ranks came to tutti_finalize()");
}

/* When to stop waiting, by what is known now; INT64_MAX: never. */
static int64_t meet_until(int64_t since, tutti_status looked)
{
    if (!life.has_failed) {
        return INT64_MAX;
    }
    return since + (looked == TUTTI_OK ? MEET_NS : MEET_WARNED_NS);
}

static tutti_status meet_once(
        tutti_status (*look)(void *user), void *user, int64_t since)
{
    MPI_Request request;
    int done = 0;
    int code = MPI_Iallreduce(
            MPI_IN_PLACE, life.meeting, 1, MPI_2INT, MPI_MINLOC, life.world, &request);

    while (code == MPI_SUCCESS) {
        tutti_status looked;

        code = MPI_Test(&request, &done, MPI_STATUS_IGNORE);
        if (code == MPI_SUCCESS && done != 0) {
            return TUTTI_OK;
        }
        looked = look == NULL ? TUTTI_OK : look(user);
        if (looked != TUTTI_OK && !life.has_failed) {
            return looked;
        }
        if (clock_ns() >= meet_until(since, looked)) {
            return say_left();
        }
        clock_pause(since, NAP_NS);
    }
    return mpi_error(code, "waiting for all ranks before MPI_Finalize");
}

/*
 * Where nobody waits for a rank that does not come; MPI_Finalize does. By the messages with which
 * MPI_Comm_idup made the communicator. A barrier sends some between ranks that had
 * none before: with connections that new, the hang of MPICH that mpi_end.h describes came in 4 of
 * 48 jobs of 4 ranks on 2 hosts; so it came in none of 66. Twice: a rank that comes when the others
 * have given up finds their part of the first meeting, and not of the second.
 */
static tutti_status meet(tutti_status (*look)(void *user), void *user)
{
    const int64_t since = clock_ns();
    const tutti_status status = meet_once(look, user, since);

    return status == TUTTI_OK ? meet_once(look, user, since) : status;
}

static tutti_status end_locked(tutti_status (*look)(void *user), void *user)
{
    tutti_status status = life.has_world ? meet(look, user) : TUTTI_OK;

    if (status != TUTTI_OK) {
        life.owner = OWNER_LEFT;
        return status;
    }
    if (life.has_world) {
        (void)MPI_Comm_free(&life.world);
        life.has_world = false;
    }
    mpi_end(config_foreign("PMI_FD"));
    life.owner = OWNER_ENDED;
    heed_pipes();
    return TUTTI_OK;
}

static tutti_status leave_locked(tutti_status (*look)(void *user), void *user)
{
    life.jobs--;
    return life.jobs == 0 && mpi_is_on() ? end_locked(look, user) : TUTTI_OK;
}

tutti_status mpi_life_end(bool has_failed, tutti_status (*look)(void *user), void *user)
{
    tutti_status status;

    pthread_mutex_lock(&life.lock);
    life.has_failed = life.has_failed || has_failed;
    status = leave_locked(look, user);
    pthread_mutex_unlock(&life.lock);
    return status;
}

/* ------------------------------------------------------------- between contexts */

tutti_status mpi_life_hold(void)
{
    tutti_status status = TUTTI_OK;

    pthread_mutex_lock(&life.lock);
    if (!life.is_held) {
        status = begin_locked(true);
        life.is_held = status == TUTTI_OK && life.owner == OWNER_TUTTI;
        life.jobs += life.is_held ? 1 : 0;
    }
    pthread_mutex_unlock(&life.lock);
    return status;
}

tutti_status mpi_life_release(void)
{
    tutti_status status = TUTTI_OK;

    pthread_mutex_lock(&life.lock);
    if (life.is_held) {
        life.is_held = false;
        status = leave_locked(NULL, NULL);
    }
    pthread_mutex_unlock(&life.lock);
    return status;
}
