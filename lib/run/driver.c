/*
 * Who runs the engine and how it waits: waiting threads, the background thread, sleep.
 */
#include "run/driver.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>

#include "base/clock.h"
#include "base/futex.h"
#include "run/context.h"
#include "run/engine.h"
#include "run/order.h"

/* A nap of a driver that must poll. */
#define NAP_MIN_NS 50000
#define NAP_MAX_NS 1000000
/*
 * Those of the background thread while the application keeps all cores busy, from the first
 * to the longest, each twice the one before: another rank may begin to wait for this one,
 * and the application may stop computing.
 */
#define NAP_BUSY_MIN_NS 10000
#define NAP_BUSY_MAX_NS 2000000
/*
 * Where it is known that no rank waits, the engine is turned so rarely meanwhile. Moving data
 * takes from the computation what it saves later; whoever waits in the end moves the rest at
 * full speed.
 */
#define TURN_BUSY_NS 20000000
/* The background thread yields so long for the next submission before it parks. */
#define LINGER_NS 50000
#define TIMER_SLACK_NS 1000UL
/* So many passes in a row ask what rings to get ready; then the driver naps in between. */
#define ARM_TRIES 2
/* How long a driver that need not stay waits for its messages to leave. */
#define FLUSH_NS 100000
/* Yielding is tried so long before sleeping: covers a pass of every other thread. */
#define YIELD_NS 200000
/* Pauses of the processor between passes while spinning: each takes 24 to 45 ns, and what comes
 * meanwhile waits for their end. */
#define SPIN_PAUSES 4
/*
 * A spinning thread whose looks at the clock are so far apart has lost its core, and more
 * than for the moment that a daemon takes. Between them lies a pass that moves nothing.
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
    int tries; /* > 0: it wants to sleep, and passes ready what rings      */
    bool may_sleep; /* what rings is ready                                  */
};

/*
 * A pass of the engine; the calling thread drives. Whether messages of this rank are left is
 * for those who decide that nobody needs to drive any more: others may be waiting for them.
 * Written when it changes only, since threads that submit read words beside it.
 */
static void run(struct tutti *t, bool *moved)
{
    uint32_t unsent;

    engine_progress(t, moved);
    unsent = engine_is_flushed(t) ? 0 : 1;
    if (atomic_load_explicit(&t->driver.unsent, memory_order_relaxed) != unsent) {
        /* Who is rung after it, or drives after this thread, sees it. */
        atomic_store_explicit(&t->driver.unsent, unsent, memory_order_relaxed);
    }
}

/*
 * Messages must not stay behind when nobody drives any more; those of a context that has
 * failed may never leave.
 */
static bool has_unsent(struct tutti *t)
{
    return atomic_load_explicit(&t->driver.unsent, memory_order_relaxed) != 0 &&
            atomic_load_explicit(&t->failure.is_set, memory_order_relaxed) == 0;
}

/*
 * Readies what rings for a sleep, which costs system calls: only when be_idle() has asked for
 * it. The calling thread drives.
 */
static bool arm(struct tutti *t, const struct idleness *idle)
{
    const struct transport *transport = &t->peers.transport;

    return transport->ops->arm == NULL || idle->must_poll ||
            (idle->tries > 0 && transport->ops->arm(transport->state));
}

/*
 * One pass, and what it found: all that be_idle() may know of the engine, since another
 * thread may drive by then. The calling thread drives.
 */
static void pass(struct tutti *t, struct idleness *idle)
{
    bool moved = false;

    run(t, &moved);
    idle->tick_ns = t->engine.next_tick_ns;
    idle->must_poll = !t->peers.transport.ops->wakes || engine_must_poll(t);
    if (moved) {
        idle->since_ns = 0;
        idle->looked_ns = 0;
        idle->tries = 0;
    } else if (idle->since_ns == 0) {
        idle->since_ns = clock_ns();
    }
    idle->may_sleep = arm(t, idle);
}

/* Below MPI_THREAD_MULTIPLE only one thread may touch MPI. */
static bool may_drive(const struct tutti *t)
{
    return t->driver.any_thread || pthread_equal(pthread_self(), t->driver.owner) != 0;
}

static bool try_drive(struct tutti *t)
{
    uint32_t nobody = 0;

    if (!may_drive(t)) {
        return false;
    }
    /* What the last driver did is visible; pairs with stop_driving(). */
    return atomic_compare_exchange_strong_explicit(
            &t->driver.driving, &nobody, 1, memory_order_seq_cst, memory_order_relaxed);
}

/* The context has failed, and the other ranks do not know yet. */
static bool is_untold(struct tutti *t)
{
    return atomic_load_explicit(&t->failure.is_set, memory_order_seq_cst) != 0 &&
            atomic_load_explicit(&t->failure.is_told, memory_order_relaxed) == 0;
}

/*
 * A failure that another thread set while this one drove must not stay untold: that thread
 * could not drive. Sequentially consistent against failure_set() and the try_drive() after
 * it: either that one drives, or this one sees the failure.
 */
static void stop_driving(struct tutti *t)
{
    bool moved = false;

    atomic_store_explicit(&t->driver.driving, 0, memory_order_seq_cst);
    while (is_untold(t) && try_drive(t)) {
        run(t, &moved);
        atomic_store_explicit(&t->driver.driving, 0, memory_order_seq_cst);
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

/* Ranks of this node that compute see that this one waits. */
static void show_waiting(struct tutti *t)
{
    if (t->peers.board.state != NULL) {
        t->peers.board.wait(t->peers.board.state, t->rank);
    }
}

static int64_t spin_limit_ns(const struct tutti *t)
{
    return (int64_t)t->config.spin_us * 1000;
}

static int64_t shorter(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/*
 * One step of doing nothing, up to the deadline. `seen` is the state of the bell before
 * the pass that found nothing to do, so a ring since then ends the sleep at once.
 */
static void be_idle(
        struct tutti *t, struct idleness *idle, uint32_t seen, int64_t until)
{
    const int64_t now = clock_ns();
    const int64_t spin_ns = spin_limit_ns(t);
    const int64_t waited = now - idle->since_ns;
    int64_t sleep;

    if (idle->since_ns == 0) {
        return;
    }
    if (waited < spin_ns + YIELD_NS) {
        if (may_spin(idle, now, spin_ns)) {
            spin(idle, now);
            return;
        }
        idle->looked_ns = 0;
        show_waiting(t);
        if (cpu_load_yield(idle->load, now)) {
            return;
        }
    }
    show_waiting(t);
    if (!idle->may_sleep && idle->tries < ARM_TRIES) {
        idle->tries++;
        return; /* the next pass readies what rings */
    }
    sleep = shorter(until == INT64_MAX ? INT64_MAX : until - now,
            idle->may_sleep && !idle->must_poll ? idle->tick_ns - now
                                                : nap_length(waited));
    if (sleep > 0) {
        forget(idle, now);
        doorbell_sleep(t->driver.bell, seen, sleep);
    }
}

/* Drives until over; true when it is, false at the deadline. */
static bool drive(struct tutti *t, driver_over over, void *what, int64_t deadline)
{
    struct idleness idle = { .load = &t->driver.load };

    for (;;) {
        const uint32_t seen = doorbell_listen(t->driver.bell);

        pass(t, &idle);
        if (over(what)) {
            return true;
        }
        be_idle(t, &idle, seen, deadline);
        if (deadline != INT64_MAX && clock_ns() >= deadline) {
            return false;
        }
    }
}

/*
 * Before a driver leaves whose operation is over: messages that other ranks may wait for
 * mostly leave at once. What a peer that polls nothing keeps from leaving is for the
 * background thread, or for the next call.
 */
static void flush_messages(struct tutti *t, int64_t deadline)
{
    struct idleness idle = { .load = &t->driver.load };
    int64_t until;

    if (!has_unsent(t)) {
        return;
    }
    until = clock_deadline(clock_ns(), FLUSH_NS);
    until = until < deadline ? until : deadline;
    while (has_unsent(t) && clock_ns() < until) {
        const uint32_t seen = doorbell_listen(t->driver.bell);

        pass(t, &idle);
        be_idle(t, &idle, seen, until);
    }
}

void driver_enter(struct tutti *t)
{
    (void)atomic_fetch_add_explicit(&t->driver.waiters, 1, memory_order_seq_cst);
}

static uint64_t calls_made(const struct tutti *t)
{
    return atomic_load_explicit(&t->driver.calls, memory_order_relaxed);
}

/* This rank must look for messages although it has submitted nothing. */
static bool is_on_duty(const struct tutti *t)
{
    return tickets_are_used(&t->engine.tickets) && order_is_on_duty(t);
}

/* Callbacks have not run: nobody can wait for their operations. */
static bool owes_calls(const struct tutti *t)
{
    return atomic_load_explicit(&t->driver.calls_due, memory_order_seq_cst) !=
            calls_made(t);
}

void driver_leave(struct tutti *t)
{
    /*
     * Sequentially consistent against context_notify(): either the submitter sees no
     * waiter and wakes the background thread, or this thread sees its operation.
     */
    const uint32_t before =
            atomic_fetch_sub_explicit(&t->driver.waiters, 1, memory_order_seq_cst);

    if (before == 1 && t->driver.has_background &&
            (context_has_work(t) || is_on_duty(t) || has_unsent(t))) {
        doorbell_ring(&t->driver.park_bell);
        if (owes_calls(t)) {
            doorbell_ring(&t->driver.rest_bell);
        }
    }
}

static void drive_and_leave(
        struct tutti *t, driver_over over, void *what, int64_t deadline_ns)
{
    if (drive(t, over, what, deadline_ns)) {
        flush_messages(t, deadline_ns);
    }
    stop_driving(t);
    /* Another waiter takes over. */
    doorbell_ring(&t->driver.done_bell);
}

/* Until an operation ends, a driver leaves, or the deadline. */
static void sleep_beside(struct tutti *t, uint32_t seen, int64_t deadline_ns)
{
    const int64_t left =
            deadline_ns == INT64_MAX ? INT64_MAX : deadline_ns - clock_ns();

    if (left > 0) {
        doorbell_sleep(&t->driver.done_bell, seen, left);
    }
}

void driver_wait(struct tutti *t, driver_over over, void *what, int64_t deadline_ns)
{
    while (!over(what)) {
        const uint32_t seen = doorbell_listen(&t->driver.done_bell);

        if (try_drive(t)) {
            drive_and_leave(t, over, what, deadline_ns);
            return;
        }
        if (over(what)) {
            return;
        }
        sleep_beside(t, seen, deadline_ns);
        if (deadline_ns != INT64_MAX && clock_ns() >= deadline_ns) {
            return;
        }
    }
}

void driver_poke(struct tutti *t)
{
    bool moved = false;

    if (try_drive(t)) {
        show_waiting(t);
        run(t, &moved);
        stop_driving(t);
        doorbell_ring(&t->driver.done_bell);
        if (t->driver.has_background && has_unsent(t)) {
            doorbell_ring(&t->driver.park_bell);
        }
    }
}

bool driver_borrow(struct tutti *t, void (*what)(struct tutti *t, void *arg), void *arg)
{
    if (!may_drive(t)) {
        return false;
    }
    while (!try_drive(t)) {
        (void)sched_yield();
    }
    what(t, arg);
    stop_driving(t);
    doorbell_ring(&t->driver.done_bell);
    return true;
}

/* ------------------------------------------------------ background thread */

/* So many wake-ups in a row that moved nothing tell that waiters come by themselves. */
#define VAIN_MANY 16

struct background {
    struct cpu_load load; /* of this thread                                       */
    struct cpu_thread submitter; /* the thread that submitted last              */
    int64_t busy_nap_ns; /* the next nap, should the cores be busy               */
    uint64_t waits; /* of the other ranks, when it last looked: board.h     */
    bool awaited; /* one of them has waited between the last two looks    */
    bool computes; /* the application has kept the cores for milliseconds    */
    bool called; /* since it began to drive it has called back              */
    uint32_t vain; /* wake-ups since it last moved something               */
    uint32_t rested; /* state of `park_bell` when it last napped instead     */
};

/* Acquire: pairs with the store in driver_stop_background(). */
static bool is_stopping(struct tutti *t)
{
    return atomic_load_explicit(&t->driver.stopping, memory_order_acquire) != 0;
}

/* Ended by driver_stop_background(). */
static void background_nap(struct tutti *t, int64_t nap_ns)
{
    futex_wait(&t->driver.stopping, 0, nap_ns);
}

/*
 * Also when a call that only submitted has failed the context, and while others may wait for
 * messages of this rank, whose own operations are over.
 */
static bool background_is_needed(struct tutti *t)
{
    return atomic_load_explicit(&t->driver.waiters, memory_order_seq_cst) == 0 &&
            (context_has_work(t) || is_on_duty(t) || is_untold(t) || has_unsent(t));
}

/*
 * Whether the application goes on working after it has submitted. A thread that submits and
 * then sleeps, perhaps until a callback wakes it, waits like one inside tutti_wait(): its
 * core is free for this one, and what it waits for is urgent. It may be on its way to sleep,
 * so it is looked at twice at first.
 */
static bool submitter_runs(struct tutti *t, struct background *background)
{
    const int32_t id = atomic_load_explicit(&t->driver.submitter, memory_order_relaxed);

    return cpu_thread_runs(&background->submitter, id) &&
            (background->busy_nap_ns > NAP_BUSY_MIN_NS ||
                    cpu_thread_runs(&background->submitter, id));
}

/* Whether it is seen when any other rank waits: not on other nodes. */
static bool sees_who_waits(const struct tutti *t)
{
    return t->peers.board.state != NULL && t->peers.nodes.count == 1;
}

static void look_who_waits(struct tutti *t, struct background *background)
{
    const uint64_t waits = t->peers.board.waits(t->peers.board.state, t->rank);

    background->awaited = waits != background->waits;
    background->waits = waits;
}

/* Leaves the cores to the application until the engine should be turned again. */
static void stand_back(struct tutti *t, struct background *background)
{
    int64_t slept = 0;

    do {
        const int64_t nap = background->busy_nap_ns;

        background_nap(t, nap);
        slept += nap;
        if (nap < NAP_BUSY_MAX_NS / 2) {
            background->busy_nap_ns = 2 * nap;
        } else {
            background->busy_nap_ns = NAP_BUSY_MAX_NS;
            background->computes = true;
        }
        if (!sees_who_waits(t)) {
            return;
        }
        look_who_waits(t, background);
    } while (!background->awaited && slept < TURN_BUSY_NS && background_is_needed(t) &&
            !is_stopping(t) && submitter_runs(t, background));
}

static bool rings_by_itself(const struct tutti *t)
{
    return t->peers.transport.ops->wakes && t->peers.transport.ops->arm == NULL;
}

/*
 * A nap of the background thread is not disturbed by submissions: a burst of them is
 * better taken in together. Where the transport rings by itself, sleeping on the bell is as
 * good; where that must be readied, it takes more than a nap.
 */
static void background_idle(struct tutti *t, struct background *background,
        struct idleness *idle, uint32_t seen)
{
    const int64_t now = clock_ns();
    const bool is_early = now - idle->since_ns < spin_limit_ns(t);
    bool is_free;

    if (rings_by_itself(t)) {
        be_idle(t, idle, seen, INT64_MAX);
        return;
    }
    is_free = cpu_load_has_free(idle->load, now);
    if (is_early && (is_free || background->awaited)) {
        spin(idle, now);
    } else if (!submitter_runs(t, background)) {
        background->busy_nap_ns = NAP_BUSY_MIN_NS;
        be_idle(t, idle, seen, INT64_MAX);
    } else if (is_free) {
        /* The application may begin to compute, and short naps would disturb it. */
        idle->looked_ns = 0;
        cpu_load_doubt(idle->load);
        background_nap(t, nap_length(now - idle->since_ns));
    } else {
        stand_back(t, background);
        idle->looked_ns = 0;
        idle->since_ns = 0;
    }
}

/* Lets the application submit some more first when it works on this core. */
static void background_start(struct tutti *t, struct background *background)
{
    cpu_load_doubt(&background->load); /* it has slept until now */
    background->busy_nap_ns = NAP_BUSY_MIN_NS;
    background->awaited = false;
    background->computes = false;
    if (!rings_by_itself(t) && !cpu_load_has_free(&background->load, clock_ns()) &&
            submitter_runs(t, background)) {
        stand_back(t, background);
    }
}

static void background_moved(struct background *background)
{
    background->vain = 0;
    if (background->awaited) {
        background->busy_nap_ns = NAP_BUSY_MIN_NS;
    }
}

/* Drives while it is needed; returns when it is not, or another thread drives. */
static void background_drive(struct tutti *t, struct background *background)
{
    struct idleness idle = { .load = &background->load };
    uint64_t calls;

    background->called = false;
    background_start(t, background);
    for (;;) {
        /* Before the look at `stopping`: its ring, which may be the last, is not missed. */
        const uint32_t seen = doorbell_listen(t->driver.bell);

        if (!background_is_needed(t) || is_stopping(t)) {
            break;
        }
        if (!try_drive(t)) {
            /* A thread inside tutti_test(): it is out again in a moment. */
            (void)sched_yield();
            continue;
        }
        calls = calls_made(t);
        pass(t, &idle);
        background->called = background->called || calls_made(t) != calls;
        stop_driving(t);
        if (idle.since_ns == 0) {
            background_moved(background);
        }
        if (atomic_load_explicit(&t->driver.waiters, memory_order_seq_cst) > 0) {
            /* A waiter that found the engine taken sleeps: its turn. */
            doorbell_ring(&t->driver.done_bell);
            return;
        }
        if (idle.since_ns != 0) {
            background_idle(t, background, &idle, seen);
        }
    }
    if (background->computes) {
        /* Each submission would wake this thread, at the expense of the computation. */
        background->vain = VAIN_MANY;
    }
}

/*
 * Nothing to drive. An application that always waits right after it has submitted does not
 * need this thread, and waking it costs both of them system calls: it then comes by itself
 * from time to time, and sleeps until it is rung only when nothing was submitted meanwhile.
 * What is submitted with a callback nobody can wait for: it comes at once.
 */
static void background_rest(
        struct tutti *t, struct background *background, uint32_t seen, uint32_t called)
{
    if (background->vain >= VAIN_MANY && seen != background->rested) {
        background->rested = seen;
        if (background->computes) {
            background_nap(t, NAP_BUSY_MAX_NS);
        } else {
            doorbell_sleep(&t->driver.rest_bell, called, NAP_BUSY_MAX_NS);
        }
    } else {
        doorbell_sleep(&t->driver.park_bell, seen, INT64_MAX);
        background->vain++; /* until it moves something */
    }
}

/*
 * An application that sleeps until a callback wakes it mostly submits again at once, and
 * finds this thread awake: true when it does.
 */
static bool background_linger(struct tutti *t, struct background *background)
{
    const int64_t until = clock_ns() + LINGER_NS;

    while (background->called && clock_ns() < until &&
            atomic_load_explicit(&t->driver.waiters, memory_order_relaxed) == 0) {
        if (background_is_needed(t)) {
            return true;
        }
        (void)sched_yield();
    }
    background->called = false;
    return false;
}

/*
 * Whether there is something to drive. After a nap it may be just what a waiter comes for in
 * a moment: what is still the same a little later is left to this thread.
 */
static bool background_has_work(struct tutti *t, const struct background *background)
{
    const uint64_t count =
            atomic_load_explicit(&t->work.intake.count, memory_order_relaxed);

    if (!background_is_needed(t) || background->vain < VAIN_MANY || owes_calls(t)) {
        return background_is_needed(t);
    }
    background_nap(t, NAP_BUSY_MIN_NS);
    /* Who submits in between rings, or leaves it to a waiter, who does. */
    return background_is_needed(t) &&
            atomic_load_explicit(&t->work.intake.count, memory_order_relaxed) == count;
}

static void *background_main(void *arg)
{
    struct tutti *t = arg;
    struct background background = { .vain = 0 };

    /* Naps are short, and the kernel lengthens them by 50 us otherwise. */
    (void)prctl(PR_SET_TIMERSLACK, TIMER_SLACK_NS, 0, 0, 0);
    cpu_load_init(&background.load);
    while (!is_stopping(t)) {
        const uint32_t seen = doorbell_listen(&t->driver.park_bell);
        const uint32_t called = doorbell_listen(&t->driver.rest_bell);

        if (background_has_work(t, &background)) {
            background_drive(t, &background);
        } else if (!is_stopping(t) && !background_linger(t, &background)) {
            background_rest(t, &background, seen, called);
        }
    }
    cpu_load_fini(&background.load);
    cpu_thread_fini(&background.submitter);
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
    error = pthread_create(&t->driver.background, NULL, background_main, t);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error != 0) {
        errno = error;
        return error_set_errno(TUTTI_ERR_SYSTEM,
                "cannot start the background thread of rank %d", t->rank);
    }
    t->driver.has_background = true;
    return TUTTI_OK;
}

void driver_stop_background(struct tutti *t)
{
    if (!t->driver.has_background) {
        return;
    }
    atomic_store_explicit(&t->driver.stopping, 1, memory_order_release);
    futex_wake(&t->driver.stopping, 1);
    doorbell_ring(&t->driver.park_bell);
    doorbell_ring(&t->driver.rest_bell);
    doorbell_ring(t->driver.bell);
    (void)pthread_join(t->driver.background, NULL);
    t->driver.has_background = false;
}
