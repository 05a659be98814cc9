/*
 * Driving the engine, and sleeping.
 */
#include "core/driver.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>

#include "base/clock.h"
#include "base/futex.h"
#include "core/context.h"
#include "core/crew.h"
#include "core/engine.h"

/* A nap of a driver that must poll. */
#define NAP_MIN_NS 50000
#define NAP_MAX_NS 1000000
/*
 * One of the background thread while the application keeps all cores busy. Moving data
 * then takes from the computation what it saves later, and each look costs two switches
 * of context on top; whoever waits in the end moves the rest at full speed. Within a node
 * there is nothing else to gain; between nodes the network works meanwhile.
 */
#define NAP_BUSY_NS 2000000
#define NAP_BUSY_NODE_NS 20000000
/* Yielding is tried so long before sleeping: covers a turn of every other thread. */
#define YIELD_NS 200000
/* Pauses of the processor per look at the clock while spinning. */
#define SPIN_PAUSES 16
/*
 * A spinning thread whose looks at the clock are so far apart has lost its core, and more
 * than for the moment that a daemon takes. Between them lies a turn that moves nothing.
 */
#define LOST_CORE_NS 100000
/* After a nap, what is known of the load is believed to be true if it is not older. */
#define NEWS_NS 10000000

/* How long a driver has found nothing to do, and what it knows meanwhile. */
struct idleness {
    struct cpu_load *load; /* of this thread                                       */
    int64_t since_ns; /* 0: it just did something                             */
    int64_t looked_ns; /* last look at the clock of a spin; 0: none             */
    int64_t tick_ns; /* when the engine wants to look for stalls             */
    bool must_poll; /* nothing rings when the engine's next work is there   */
};

/*
 * A turn of the engine; the calling thread drives. Whether messages of this rank are left is
 * for those who decide that nobody needs to drive any more: others may be waiting for them.
 * Written when it changes only, since threads that submit read words beside it.
 */
static void run(struct tutti *t, bool *moved)
{
    uint32_t unsent;

    engine_turn(t, moved);
    unsent = engine_is_flushed(t) ? 0 : 1;
    if (atomic_load_explicit(&t->unsent, memory_order_relaxed) != unsent) {
        /* Who is rung after it, or drives after this thread, sees it. */
        atomic_store_explicit(&t->unsent, unsent, memory_order_relaxed);
    }
}

/*
 * Messages must not stay behind when nobody drives any more; those of a context that has
 * failed may never leave.
 */
static bool has_unsent(struct tutti *t)
{
    return atomic_load_explicit(&t->unsent, memory_order_relaxed) != 0 &&
            atomic_load_explicit(&t->failed, memory_order_relaxed) == 0;
}

/*
 * One turn, and what it found: all that be_idle() may know of the engine, since another
 * thread may drive by then. The calling thread drives.
 */
static void turn(struct tutti *t, struct idleness *idle)
{
    bool moved = false;

    run(t, &moved);
    idle->tick_ns = t->next_tick_ns;
    idle->must_poll = !t->control.ops->wakes || engine_must_poll(t);
    if (moved) {
        idle->since_ns = 0;
        idle->looked_ns = 0;
    } else if (idle->since_ns == 0) {
        idle->since_ns = clock_ns();
    }
}

/* Below MPI_THREAD_MULTIPLE only one thread may touch MPI. */
static bool may_drive(const struct tutti *t)
{
    return t->any_thread || pthread_equal(pthread_self(), t->owner) != 0;
}

static bool try_drive(struct tutti *t)
{
    uint32_t nobody = 0;

    if (!may_drive(t)) {
        return false;
    }
    /* What the last driver did is visible; pairs with stop_driving(). */
    return atomic_compare_exchange_strong_explicit(
            &t->driving, &nobody, 1, memory_order_seq_cst, memory_order_relaxed);
}

/* The context has failed, and the other ranks do not know yet. */
static bool is_untold(struct tutti *t)
{
    return atomic_load_explicit(&t->failed, memory_order_seq_cst) != 0 &&
            atomic_load_explicit(&t->failure_told, memory_order_relaxed) == 0;
}

/*
 * A failure that another thread set while this one drove must not stay untold: that thread
 * could not drive. Sequentially consistent against failure_set() and the try_drive() after
 * it: either that one drives, or this one sees the failure.
 */
static void stop_driving(struct tutti *t)
{
    bool moved = false;

    atomic_store_explicit(&t->driving, 0, memory_order_seq_cst);
    while (is_untold(t) && try_drive(t)) {
        run(t, &moved);
        atomic_store_explicit(&t->driving, 0, memory_order_seq_cst);
    }
}

static int64_t nap_length(int64_t waited_ns)
{
    const int64_t nap = waited_ns / 16;

    if (nap < NAP_MIN_NS) {
        return NAP_MIN_NS;
    }
    return nap < NAP_MAX_NS ? nap : NAP_MAX_NS;
}

static void spin(struct idleness *idle, int64_t now)
{
    if (idle->looked_ns != 0 && now - idle->looked_ns > LOST_CORE_NS) {
        cpu_load_doubt(idle->load);
    }
    idle->looked_ns = now;
    for (int i = 0; i < SPIN_PAUSES; i++) {
        cpu_relax();
    }
}

/*
 * Before a sleep. One that is needed may be so because those who are waited for have no
 * core, and it makes a system call anyway: look again after it.
 */
static void forget(struct idleness *idle, int64_t now)
{
    idle->looked_ns = 0;
    if (now - idle->load->sampled_ns >= NEWS_NS) {
        cpu_load_doubt(idle->load);
    }
}

/*
 * True when the thread may go on spinning. Waiting longer than spin_us casts doubt on a
 * free core, unless that is sure: those who are waited for may lack just this one.
 */
static bool may_spin(struct idleness *idle, int64_t now, int64_t spin_ns)
{
    const bool is_late = now - idle->since_ns >= spin_ns;

    if (is_late && !cpu_load_is_sure(idle->load, now)) {
        cpu_load_doubt(idle->load);
    }
    return spin_ns > 0 && cpu_load_has_free(idle->load, now) &&
            (!is_late || cpu_load_is_sure(idle->load, now));
}

/*
 * One step of doing nothing, up to the deadline. `seen` is the state of the bell before
 * the turn that found nothing to do, so a ring since then ends the sleep at once.
 */
static void be_idle(
        struct tutti *t, struct idleness *idle, uint32_t seen, int64_t until)
{
    const int64_t now = clock_ns();
    const int64_t spin_ns = (int64_t)t->config.spin_us * 1000;
    const int64_t waited = now - idle->since_ns;
    int64_t sleep;

    if (idle->since_ns == 0) {
        return;
    }
    if (waited < spin_ns + YIELD_NS) {
        if (may_spin(idle, now, spin_ns)) {
            spin(idle, now);
        } else {
            idle->looked_ns = 0;
            (void)sched_yield();
        }
        return;
    }
    sleep = until == INT64_MAX ? INT64_MAX : until - now;
    if (idle->must_poll) {
        const int64_t nap = nap_length(waited);

        sleep = nap < sleep ? nap : sleep;
    } else if (idle->tick_ns - now < sleep) {
        sleep = idle->tick_ns - now;
    }
    if (sleep > 0) {
        forget(idle, now);
        doorbell_sleep(t->bell, seen, sleep);
    }
}

/* Drives until over; true when it is, false at the deadline. */
static bool drive(struct tutti *t, driver_over over, void *what, int64_t deadline)
{
    struct idleness idle = { .load = &t->load };

    for (;;) {
        const uint32_t seen = doorbell_listen(t->bell);

        turn(t, &idle);
        if (over(what)) {
            return true;
        }
        be_idle(t, &idle, seen, deadline);
        if (deadline != INT64_MAX && clock_ns() >= deadline) {
            return false;
        }
    }
}

static void flush_messages(struct tutti *t)
{
    struct idleness idle = { .load = &t->load };

    while (has_unsent(t)) {
        const uint32_t seen = doorbell_listen(t->bell);

        turn(t, &idle);
        be_idle(t, &idle, seen, INT64_MAX);
    }
}

void driver_enter(struct tutti *t)
{
    (void)atomic_fetch_add_explicit(&t->waiters, 1, memory_order_seq_cst);
}

void driver_leave(struct tutti *t)
{
    /*
     * Sequentially consistent against driver_notify(): either the submitter sees no
     * waiter and wakes the background thread, or this thread sees its operation.
     */
    const uint32_t before =
            atomic_fetch_sub_explicit(&t->waiters, 1, memory_order_seq_cst);

    if (before == 1 && t->has_background &&
            (context_has_work(t) || order_is_on_duty(t) || has_unsent(t))) {
        doorbell_ring(&t->park_bell);
    }
}

static void drive_and_leave(
        struct tutti *t, driver_over over, void *what, int64_t deadline_ns)
{
    if (drive(t, over, what, deadline_ns)) {
        flush_messages(t);
    }
    stop_driving(t);
    /* Another waiter takes over. */
    doorbell_ring(&t->done_bell);
}

/*
 * Until an operation ends, a driver leaves, or the deadline: helps the driver while it has
 * work for others, and sleeps.
 */
static void stay_beside(struct tutti *t, uint32_t seen, int64_t deadline_ns)
{
    int64_t left = INT64_MAX;

    crew_help(&t->crew, seen, deadline_ns);
    if (deadline_ns != INT64_MAX) {
        left = deadline_ns - clock_ns();
    }
    if (left > 0) {
        doorbell_sleep(&t->done_bell, seen, left);
    }
}

void driver_wait(struct tutti *t, driver_over over, void *what, int64_t deadline_ns)
{
    while (!over(what)) {
        const uint32_t seen = doorbell_listen(&t->done_bell);

        if (try_drive(t)) {
            drive_and_leave(t, over, what, deadline_ns);
            return;
        }
        if (over(what)) {
            return;
        }
        stay_beside(t, seen, deadline_ns);
        if (deadline_ns != INT64_MAX && clock_ns() >= deadline_ns) {
            return;
        }
    }
}

void driver_poke(struct tutti *t)
{
    bool moved = false;

    if (try_drive(t)) {
        t->poked_ns = clock_ns();
        run(t, &moved);
        stop_driving(t);
        doorbell_ring(&t->done_bell);
        if (t->has_background && has_unsent(t)) {
            doorbell_ring(&t->park_bell);
        }
    }
}

void driver_notify(struct tutti *t)
{
    doorbell_ring(t->bell);
    if (t->has_background &&
            atomic_load_explicit(&t->waiters, memory_order_seq_cst) == 0) {
        doorbell_ring(&t->park_bell);
    }
}

tutti_status driver_may_wait(struct tutti *t)
{
    if (atomic_load_explicit(&t->calling_back, memory_order_relaxed) ==
            (uintptr_t)pthread_self()) {
        return error_set(TUTTI_ERR_THREAD,
                "a callback may not wait (rank %d); submit with another callback "
                "instead",
                t->rank);
    }
    if (!may_drive(t)) {
        return error_set(TUTTI_ERR_THREAD,
                "MPI was initialised below MPI_THREAD_MULTIPLE: only the thread of "
                "rank %d "
                "that called tutti_init may wait; others may submit",
                t->rank);
    }
    return TUTTI_OK;
}

/* ------------------------------------------------------ background thread */

/* So many wake-ups in a row that moved nothing tell that waiters come by themselves. */
#define VAIN_MANY 16

struct background {
    struct cpu_load load; /* of this thread                                       */
    uint32_t vain; /* wake-ups since it last moved something               */
    uint32_t rested; /* state of `park_bell` when it last napped instead     */
};

/* Acquire: pairs with the store in driver_stop_background(). */
static bool is_stopping(struct tutti *t)
{
    return atomic_load_explicit(&t->stopping, memory_order_acquire) != 0;
}

/* Ended by driver_stop_background(). */
static void background_nap(struct tutti *t, int64_t nap_ns)
{
    futex_wait(&t->stopping, 0, nap_ns);
}

static int64_t busy_nap(const struct tutti *t)
{
    return t->nodes.count > 1 ? NAP_BUSY_NS : NAP_BUSY_NODE_NS;
}

/*
 * A nap of the background thread is not disturbed by submissions: a burst of them is
 * better taken in together. Where the transport rings, sleeping on the bell is as good.
 */
static void background_idle(struct tutti *t, struct idleness *idle, uint32_t seen)
{
    const int64_t now = clock_ns();

    if (idle->since_ns == 0) {
        return;
    }
    if (t->control.ops->wakes) {
        be_idle(t, idle, seen, INT64_MAX);
        return;
    }
    if (!cpu_load_has_free(idle->load, now)) {
        background_nap(t, busy_nap(t));
        return;
    }
    if (now - idle->since_ns < (int64_t)t->config.spin_us * 1000) {
        be_idle(t, idle, seen, INT64_MAX);
        return;
    }
    /* The application may begin to compute at any time, and short naps would disturb it. */
    idle->looked_ns = 0;
    cpu_load_doubt(idle->load);
    background_nap(t, nap_length(now - idle->since_ns));
}

/*
 * Also when a call that only submitted has failed the context, and while others may wait for
 * messages of this rank, whose own operations are over.
 */
static bool background_is_needed(struct tutti *t)
{
    return atomic_load_explicit(&t->waiters, memory_order_seq_cst) == 0 &&
            (context_has_work(t) || order_is_on_duty(t) || is_untold(t) ||
                    has_unsent(t));
}

/*
 * Lets the application submit some more first when it computes on this core. Then it is
 * better not to be woken for every step, either.
 */
static void background_start(struct tutti *t, struct background *background)
{
    cpu_load_doubt(&background->load); /* it has slept until now */
    if (!cpu_load_has_free(&background->load, clock_ns())) {
        background_nap(t, busy_nap(t));
        background->vain = VAIN_MANY;
    }
}

/* Drives while it is needed; returns when it is not, or another thread drives. */
static void background_drive(struct tutti *t, struct background *background)
{
    struct idleness idle = { .load = &background->load };

    background->vain++;
    background_start(t, background);
    while (background_is_needed(t) && !is_stopping(t)) {
        const uint32_t seen = doorbell_listen(t->bell);

        if (!try_drive(t)) {
            /* A thread inside tutti_test(): it is out again in a moment. */
            (void)sched_yield();
            continue;
        }
        turn(t, &idle);
        stop_driving(t);
        if (idle.since_ns == 0) {
            background->vain = 0;
        }
        if (atomic_load_explicit(&t->waiters, memory_order_seq_cst) > 0) {
            /* A waiter that found the engine taken sleeps: its turn. */
            doorbell_ring(&t->done_bell);
            return;
        }
        background_idle(t, &idle, seen);
    }
}

/*
 * Nothing to drive. An application that always waits right after it has submitted does not
 * need this thread, and waking it costs both of them system calls: it then comes by itself
 * from time to time, and sleeps until it is rung only when nothing was submitted meanwhile.
 */
static void background_rest(
        struct tutti *t, struct background *background, uint32_t seen)
{
    if (background->vain >= VAIN_MANY && seen != background->rested) {
        background->rested = seen;
        background_nap(t, busy_nap(t));
    } else {
        doorbell_sleep(&t->park_bell, seen, INT64_MAX);
    }
}

static void *background_main(void *arg)
{
    struct tutti *t = arg;
    struct background background = { .vain = 0 };

    cpu_load_init(&background.load);
    while (!is_stopping(t)) {
        const uint32_t seen = doorbell_listen(&t->park_bell);

        if (background_is_needed(t)) {
            background_drive(t, &background);
        } else if (!is_stopping(t)) {
            background_rest(t, &background, seen);
        }
    }
    cpu_load_fini(&background.load);
    return NULL;
}

tutti_status driver_start_background(struct tutti *t)
{
    sigset_t all;
    sigset_t before;
    int error;

    /* The application's signals are for the application's threads. */
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    error = pthread_create(&t->background, NULL, background_main, t);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error != 0) {
        errno = error;
        return error_set_errno(TUTTI_ERR_SYSTEM,
                "cannot start the background thread of rank %d", t->rank);
    }
    t->has_background = true;
    return TUTTI_OK;
}

void driver_stop_background(struct tutti *t)
{
    if (!t->has_background) {
        return;
    }
    atomic_store_explicit(&t->stopping, 1, memory_order_release);
    futex_wake(&t->stopping, 1);
    doorbell_ring(&t->park_bell);
    doorbell_ring(t->bell);
    (void)pthread_join(t->background, NULL);
    t->has_background = false;
}
