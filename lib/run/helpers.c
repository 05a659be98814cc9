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
#include "run/helpers.h"

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

void helpers_init(struct helpers *helpers, const struct config *config,
        struct doorbell *bell, const struct cpu_load *load)
{
    const int64_t most = config->reduce_threads - 1;

    helpers->patience_ns = (int64_t)config->spin_us * 1000;
    helpers->most = most < 0 ? INT32_MAX : (uint32_t)most;
    if (helpers->patience_ns == 0) {
        /* Threads that may not spin cannot be at hand for jobs of microseconds. */
        helpers->most = 0;
    }
    helpers->bell = bell;
    helpers->load = *load;
    helpers->load.sampled_ns = 0;
}

bool helpers_may_help(const struct helpers *helpers)
{
    return helpers->most > 0;
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
static bool look_at_load(struct helpers *helpers, int64_t now_ns)
{
    int64_t due = atomic_load_explicit(&helpers->look_ns, memory_order_relaxed);
    int64_t seats;

    /* Acquire: the load as the last to look has left it; pairs with the store below. */
    if (now_ns < due ||
            !atomic_compare_exchange_strong_explicit(&helpers->look_ns, &due, INT64_MAX,
                    memory_order_acquire, memory_order_relaxed)) {
        return false;
    }
    seats = (int64_t)hint(&helpers->hot) + cpu_load_idle(&helpers->load, now_ns);
    if (seats > (int64_t)helpers->most) {
        seats = helpers->most;
    }
    atomic_store_explicit(
            &helpers->seats, seats > 0 ? (uint32_t)seats : 0, memory_order_relaxed);
    atomic_store_explicit(&helpers->look_ns, now_ns + helpers->load.interval_ns,
            memory_order_release);
    return true;
}

static bool take_seat(struct helpers *helpers)
{
    uint32_t hot = hint(&helpers->hot);

    while (hot < hint(&helpers->seats)) {
        /* Relaxed: a count. Jobs are published by the gate. */
        if (atomic_compare_exchange_weak_explicit(&helpers->hot, &hot, hot + 1,
                    memory_order_relaxed, memory_order_relaxed)) {
            return true;
        }
    }
    return false;
}

static void give_seat(struct helpers *helpers)
{
    (void)atomic_fetch_sub_explicit(&helpers->hot, 1, memory_order_relaxed);
}

/* The driver has, or will have, work at this time. */
static void offer_work(struct helpers *helpers, int64_t when_ns)
{
    /* Relaxed: a hint; the gate publishes jobs. */
    atomic_store_explicit(&helpers->offered_ns, when_ns, memory_order_relaxed);
}

/* Wakes who sleeps beside the driver, now and then, when more of them can help. */
static void call_helpers(struct helpers *helpers, int64_t now_ns)
{
    if (now_ns - helpers->called_ns < CALL_INTERVAL_NS) {
        return;
    }
    (void)look_at_load(helpers, now_ns);
    if (hint(&helpers->hot) < hint(&helpers->seats)) {
        helpers->called_ns = now_ns;
        offer_work(helpers, now_ns + WAKING_NS);
        doorbell_ring(helpers->bell);
    }
}

static bool has_helpers(const struct helpers *helpers, int64_t now_ns)
{
    return hint(&helpers->hot) > 0 || now_ns - helpers->called_ns < WAKING_NS;
}

/* ------------------------------------------------------------------- jobs */

/* Takes pieces while there are any; returns how many. */
static uint64_t take_pieces(struct helpers *helpers)
{
    uint64_t taken = 0;
    size_t index;

    /* Relaxed: each index is given out once; the gate orders the rest. */
    while ((index = atomic_fetch_add_explicit(
                    &helpers->next, 1, memory_order_relaxed)) < helpers->pieces) {
        helpers->piece(helpers->arg, index);
        taken++;
    }
    return taken;
}

/* D4 and D5. */
static void close_job(struct helpers *helpers)
{
    int spins = 0;

    (void)atomic_fetch_and_explicit(
            &helpers->gate, ~HELPERS_OPEN, memory_order_relaxed);
    /* What the helpers computed is visible; pairs with the release in help_once(). */
    while (atomic_load_explicit(&helpers->gate, memory_order_acquire) != 0) {
        if (spins++ < CLOSE_SPINS) {
            cpu_relax();
        } else {
            (void)sched_yield();
        }
    }
}

bool helpers_share(struct helpers *helpers, void (*piece)(void *arg, size_t index),
        void *arg, size_t pieces)
{
    const bool asleep = helpers->most > 0 && doorbell_has_sleepers(helpers->bell);
    int64_t now;

    if (hint(&helpers->hot) == 0 && !asleep) {
        return false;
    }
    now = clock_ns();
    offer_work(helpers, now);
    if (asleep) {
        call_helpers(helpers, now);
    }
    if (!has_helpers(helpers, now)) {
        return false;
    }
    helpers->piece = piece;
    helpers->arg = arg;
    helpers->pieces = pieces;
    atomic_store_explicit(&helpers->next, 0, memory_order_relaxed);
    /* Publishes the job; pairs with the acquire in enter(). */
    atomic_store_explicit(&helpers->gate, HELPERS_OPEN, memory_order_release);
    (void)take_pieces(helpers);
    close_job(helpers);
    /* It may have taken longer than helpers wait. */
    offer_work(helpers, clock_ns());
    return true;
}

/* H1. */
static bool enter(struct helpers *helpers)
{
    uint32_t gate = hint(&helpers->gate);

    while ((gate & HELPERS_OPEN) != 0) {
        /* The job is visible; pairs with the release in helpers_share(). */
        if (atomic_compare_exchange_weak_explicit(&helpers->gate, &gate, gate + 1,
                    memory_order_acquire, memory_order_relaxed)) {
            return true;
        }
    }
    return false;
}

/* False when there is no job. */
static bool help_once(struct helpers *helpers)
{
    uint64_t taken;

    if (!enter(helpers)) {
        return false;
    }
    taken = take_pieces(helpers);
    if (taken > 0) {
        (void)atomic_fetch_add_explicit(&helpers->helped, taken, memory_order_relaxed);
    }
    /* Publishes the results; pairs with the acquire in close_job(). */
    (void)atomic_fetch_sub_explicit(&helpers->gate, 1, memory_order_release);
    return true;
}

static bool is_busy(const struct helpers *helpers, int64_t now_ns)
{
    const int64_t offered =
            atomic_load_explicit(&helpers->offered_ns, memory_order_relaxed);

    return now_ns - offered < helpers->patience_ns;
}

/* The one that finds too few cores leaves; the next one looks again a while later. */
static bool may_stay(struct helpers *helpers, int64_t now_ns, int64_t deadline_ns)
{
    return now_ns < deadline_ns && is_busy(helpers, now_ns) &&
            !(look_at_load(helpers, now_ns) &&
                    hint(&helpers->hot) > hint(&helpers->seats));
}

void helpers_take_part(struct helpers *helpers, uint32_t seen, int64_t deadline_ns)
{
    if (helpers->most == 0 || !is_busy(helpers, clock_ns()) || !take_seat(helpers)) {
        return;
    }
    while (doorbell_listen(helpers->bell) == seen &&
            may_stay(helpers, clock_ns(), deadline_ns)) {
        for (int i = 0; i < HELP_PAUSES && !help_once(helpers); i++) {
            cpu_relax();
        }
    }
    give_seat(helpers);
}
