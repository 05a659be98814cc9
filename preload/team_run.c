/*
 * Carrying out a collective, and waiting for the other ranks.
 *
 * A rank that waits spins as long as a core is free, then yields, then sleeps, and is woken by
 * the one it waits for. MPI's messages must move meanwhile: the rank that is awaited may itself
 * wait for a message that this one has begun to send, and MPI's own end comes as a message. So
 * MPI is polled, also between sleeps.
 */
#include <sched.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "ops/shm/shm.h"
#include "preload/team.h"

/* Looks before the clock is asked. */
#define LOOKS_AT_FIRST 64
/* Pauses of the processor from one look to the next. */
#define SPIN_PAUSES 8
/* From then on MPI is polled. */
#define POLL_NS 20000
/* Yielding is tried so long before sleeping. */
#define YIELD_NS 200000
#define NAP_MIN_NS 50000
#define NAP_MAX_NS 1000000
/* From then on it is asked whether the others live. */
#define WATCH_NS 50000000

/** How long a rank has found nothing to do. */
struct idleness {
    int looks; /* without a look at the clock */
    int64_t since_ns; /* 0: not looked at yet */
};

/** MPI moves what it has to. */
static void poll_mpi(const struct team *team)
{
    int found;

    (void)PMPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, team->preload->progress, &found,
            MPI_STATUS_IGNORE);
}

/** True when the thread may spin: a core is free, as far as is known. */
static bool may_spin(struct team *team, int64_t now, int64_t waited)
{
    const int64_t spin_ns = (int64_t)team->preload->config.spin_us * 1000;
    const bool is_late = waited >= spin_ns;

    if (is_late && !cpu_load_is_sure(&team->load, now)) {
        cpu_load_doubt(&team->load);
    }
    return spin_ns > 0 && cpu_load_has_free(&team->load, now) &&
            (!is_late || cpu_load_is_sure(&team->load, now));
}

static int64_t nap_length(int64_t waited_ns)
{
    const int64_t nap = waited_ns / 16;

    if (nap < NAP_MIN_NS) {
        return NAP_MIN_NS;
    }
    return nap < NAP_MAX_NS ? nap : NAP_MAX_NS;
}

/* False: the rank had better sleep. */
static bool spin_or_yield(struct team *team, int64_t now, int64_t waited)
{
    if (!may_spin(team, now, waited)) {
        return cpu_load_yield(&team->load, now);
    }
    for (int i = 0; i < SPIN_PAUSES; i++) {
        cpu_relax();
    }
    return true;
}

/**
 * One step of doing nothing. `seen` is the state of the bell before the step that found nothing
 * to do.
 * @return TUTTI_OK, or TUTTI_ERR_SYSTEM: another rank has died
 */
static tutti_status be_idle(struct team *team, struct idleness *idle, uint32_t seen)
{
    int64_t now;
    int64_t waited;

    if (idle->looks++ < LOOKS_AT_FIRST) {
        cpu_relax();
        return TUTTI_OK;
    }
    now = clock_ns();
    if (idle->since_ns == 0) {
        idle->since_ns = now;
    }
    waited = now - idle->since_ns;
    if (waited >= POLL_NS) {
        poll_mpi(team);
    }
    if (waited < YIELD_NS && spin_or_yield(team, now, waited)) {
        return TUTTI_OK;
    }
    doorbell_sleep(team->bells[team->rank], seen, nap_length(waited));
    return waited < WATCH_NS ? TUTTI_OK : op_shm.watch(team->state);
}

/** Gives up after an error; all later collectives of the communicator are MPI's. */
static int fail(struct team *team, tutti_status status)
{
    const int error = status == TUTTI_ERR_NO_MEMORY ? MPI_ERR_NO_MEM : MPI_ERR_OTHER;

    log_error(&team->preload->log, "a collective of %d ranks failed: %s", team->ranks,
            error_last());
    while (!op_shm.cancel(team->state, team->task)) {
        poll_mpi(team);
        (void)sched_yield();
    }
    team->usable = false;
    (void)PMPI_Comm_call_errhandler(team->comm, error);
    return error;
}

/** Steps until the batch is over. */
static tutti_status wait_for(struct team *team)
{
    struct idleness idle = { 0 };
    tutti_status life = TUTTI_OK;

    for (;;) {
        const uint32_t seen = doorbell_listen(team->bells[team->rank]);
        bool moved = false;
        const tutti_status status = op_shm.step(team->state, team->task, &moved);

        if (status != TUTTI_AGAIN) {
            return status;
        }
        if (moved) {
            idle = (struct idleness){ 0 };
            continue;
        }
        /* Who has died may have done its part before: then this step went on. */
        if (life != TUTTI_OK) {
            return life;
        }
        life = be_idle(team, &idle, seen);
    }
}

int team_run(struct team *team, struct op_batch *batch)
{
    tutti_status status;

    batch->set = &team->set;
    batch->sequence = team->sequence++;
    batch->divisor = 1;
    batch->prescale = 1;
    batch->postscale = 1;
    batch->run_count = 1;
    batch->sizes_known = true;
    status = op_shm.start(team->state, team->task, batch);
    if (status == TUTTI_OK) {
        status = wait_for(team);
    }
    return status == TUTTI_OK ? MPI_SUCCESS : fail(team, status);
}
