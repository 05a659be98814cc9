/*
 * Jobs, and who helps with them.
 *
 * The gate makes a job safe to share. It is one word, so everything that happens to it is
 * in one order:
 *
 *     driver                              helper
 *     D1 writes the job                   H1 gate + 1, only while it is open
 *     D2 gate = open                      H2 reads the job, takes pieces
 *     D3 takes pieces until none is left  H3 gate - 1
 *     D4 gate = closed, helpers stay
 *     D5 waits until nobody is inside
 *
 * H1 succeeds only between D2 and D4 of some job, and D5 of that job waits for its H3. So a
 * helper that comes late, however late, enters a later job or none; nothing needs to tell
 * one job from another. All changes of the word from D2 on are read-modify-write, hence H1
 * of every helper sees what D1 wrote.
 */
#include "core/crew.h"

#include <sched.h>

#include "base/clock.h"

/* Pauses of the processor per look at the clock while waiting for a job. */
#define HELP_PAUSES 16
/* Looks at the gate before the driver lets a helper that has lost its core have this one. */
#define CLOSE_SPINS 4096
/*
 * Least time between two rings for helpers: waking them costs them some 30 us each and the
 * driver a few, and they may find that others were faster.
 */
#define CALL_INTERVAL_NS 1000000
/* Time to wake up in: until then jobs are open though nobody is there yet. */
#define WAKING_NS 100000

void crew_init(struct crew *crew, const struct config *config, struct doorbell *bell,
        const struct cpu_load *load)
{
    const int64_t most = config->reduce_threads - 1;

    crew->patience_ns = (int64_t)config->spin_us * 1000;
    crew->most = most < 0 ? INT32_MAX : (uint32_t)most;
    if (crew->patience_ns == 0) {
        /* Threads that may not spin cannot be at hand for jobs of microseconds. */
        crew->most = 0;
    }
    crew->bell = bell;
    crew->load = *load;
    crew->load.sampled_ns = 0;
}

bool crew_may_help(const struct crew *crew)
{
    return crew->most > 0;
}

/* ------------------------------------------------------------------ seats */

/* Orders nothing: what is read is a hint. */
static uint32_t hint(const _Atomic uint32_t *word)
{
    return atomic_load_explicit(word, memory_order_relaxed);
}

/*
 * Looks how many cores are idle, if it is time and no other thread does. The caller is
 * the driver or has a seat, so that all who need a core count as runnable.
 * @return true when it has looked
 */
static bool look_at_load(struct crew *crew, int64_t now_ns)
{
    int64_t due = atomic_load_explicit(&crew->look_ns, memory_order_relaxed);
    int64_t seats;

    /* Acquire: the load as the last to look has left it; pairs with the store below. */
    if (now_ns < due ||
            !atomic_compare_exchange_strong_explicit(&crew->look_ns, &due, INT64_MAX,
                    memory_order_acquire, memory_order_relaxed)) {
        return false;
    }
    seats = (int64_t)hint(&crew->hot) + cpu_load_idle(&crew->load, now_ns);
    if (seats > (int64_t)crew->most) {
        seats = crew->most;
    }
    atomic_store_explicit(
            &crew->seats, seats > 0 ? (uint32_t)seats : 0, memory_order_relaxed);
    atomic_store_explicit(
            &crew->look_ns, now_ns + crew->load.interval_ns, memory_order_release);
    return true;
}

static bool take_seat(struct crew *crew)
{
    uint32_t hot = hint(&crew->hot);

    while (hot < hint(&crew->seats)) {
        /* Relaxed: a count. Jobs are published by the gate. */
        if (atomic_compare_exchange_weak_explicit(&crew->hot, &hot, hot + 1,
                    memory_order_relaxed, memory_order_relaxed)) {
            return true;
        }
    }
    return false;
}

static void give_seat(struct crew *crew)
{
    (void)atomic_fetch_sub_explicit(&crew->hot, 1, memory_order_relaxed);
}

/* The driver has, or will have, work at this time. */
static void offer_work(struct crew *crew, int64_t when_ns)
{
    /* Relaxed: a hint; the gate publishes jobs. */
    atomic_store_explicit(&crew->offered_ns, when_ns, memory_order_relaxed);
}

/* Wakes who sleeps beside the driver, now and then, when more of them can help. */
static void call_helpers(struct crew *crew, int64_t now_ns)
{
    if (now_ns - crew->called_ns < CALL_INTERVAL_NS) {
        return;
    }
    (void)look_at_load(crew, now_ns);
    if (hint(&crew->hot) < hint(&crew->seats)) {
        crew->called_ns = now_ns;
        offer_work(crew, now_ns + WAKING_NS);
        doorbell_ring(crew->bell);
    }
}

static bool has_helpers(const struct crew *crew, int64_t now_ns)
{
    return hint(&crew->hot) > 0 || now_ns - crew->called_ns < WAKING_NS;
}

/* ------------------------------------------------------------------- jobs */

/* Takes pieces while there are any; returns how many. */
static uint64_t take_pieces(struct crew *crew)
{
    uint64_t taken = 0;
    size_t index;

    /* Relaxed: each index is given out once; the gate orders the rest. */
    while ((index = atomic_fetch_add_explicit(&crew->next, 1, memory_order_relaxed)) <
            crew->pieces) {
        crew->piece(crew->arg, index);
        taken++;
    }
    return taken;
}

/* D4 and D5. */
static void close_job(struct crew *crew)
{
    int spins = 0;

    (void)atomic_fetch_and_explicit(&crew->gate, ~CREW_OPEN, memory_order_relaxed);
    /* What the helpers computed is visible; pairs with the release in help_once(). */
    while (atomic_load_explicit(&crew->gate, memory_order_acquire) != 0) {
        if (spins++ < CLOSE_SPINS) {
            cpu_relax();
        } else {
            (void)sched_yield();
        }
    }
}

bool crew_share(struct crew *crew, void (*piece)(void *arg, size_t index), void *arg,
        size_t pieces)
{
    const bool asleep = crew->most > 0 && doorbell_has_sleepers(crew->bell);
    int64_t now;

    if (hint(&crew->hot) == 0 && !asleep) {
        return false;
    }
    now = clock_ns();
    offer_work(crew, now);
    if (asleep) {
        call_helpers(crew, now);
    }
    if (!has_helpers(crew, now)) {
        return false;
    }
    crew->piece = piece;
    crew->arg = arg;
    crew->pieces = pieces;
    atomic_store_explicit(&crew->next, 0, memory_order_relaxed);
    /* Publishes the job; pairs with the acquire in enter(). */
    atomic_store_explicit(&crew->gate, CREW_OPEN, memory_order_release);
    (void)take_pieces(crew);
    close_job(crew);
    /* It may have taken longer than helpers wait. */
    offer_work(crew, clock_ns());
    return true;
}

/* H1. */
static bool enter(struct crew *crew)
{
    uint32_t gate = hint(&crew->gate);

    while ((gate & CREW_OPEN) != 0) {
        /* The job is visible; pairs with the release in crew_share(). */
        if (atomic_compare_exchange_weak_explicit(&crew->gate, &gate, gate + 1,
                    memory_order_acquire, memory_order_relaxed)) {
            return true;
        }
    }
    return false;
}

/* False when there is no job. */
static bool help_once(struct crew *crew)
{
    uint64_t taken;

    if (!enter(crew)) {
        return false;
    }
    taken = take_pieces(crew);
    if (taken > 0) {
        (void)atomic_fetch_add_explicit(&crew->helped, taken, memory_order_relaxed);
    }
    /* Publishes the results; pairs with the acquire in close_job(). */
    (void)atomic_fetch_sub_explicit(&crew->gate, 1, memory_order_release);
    return true;
}

static bool is_busy(const struct crew *crew, int64_t now_ns)
{
    const int64_t offered =
            atomic_load_explicit(&crew->offered_ns, memory_order_relaxed);

    return now_ns - offered < crew->patience_ns;
}

/* The one that finds too few cores leaves; the next one looks again a while later. */
static bool may_stay(struct crew *crew, int64_t now_ns, int64_t deadline_ns)
{
    return now_ns < deadline_ns && is_busy(crew, now_ns) &&
            !(look_at_load(crew, now_ns) && hint(&crew->hot) > hint(&crew->seats));
}

void crew_help(struct crew *crew, uint32_t seen, int64_t deadline_ns)
{
    if (crew->most == 0 || !is_busy(crew, clock_ns()) || !take_seat(crew)) {
        return;
    }
    while (doorbell_listen(crew->bell) == seen &&
            may_stay(crew, clock_ns(), deadline_ns)) {
        for (int i = 0; i < HELP_PAUSES && !help_once(crew); i++) {
            cpu_relax();
        }
    }
    give_seat(crew);
}
