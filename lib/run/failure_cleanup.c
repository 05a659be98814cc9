/*
 * What is done once a context has failed.
 *
 * The tree may lead through the rank that is lost. So the rank that finds the cause tells
 * every other rank directly; in a large job each rank tells some others (run/spread.h).
 */
#include <string.h>

#include "run/complete.h"
#include "run/complete_device.h"
#include "run/context.h"
#include "run/dispatch.h"
#include "run/failure.h"
#include "run/messages.h"
#include "run/operation.h"
#include "run/spread.h"

/* How soon to look again whether what was given up is over. */
#define RETRY_NS 100000

/* A rank that cannot be told is lost, or will find out by itself. */
static void send_to_some(struct tutti *t)
{
    int peers[SPREAD_PEERS_MAX];
    const int count = spread_peers(t->rank, t->size, peers);

    for (int i = 0; i < count; i++) {
        (void)messages_send(t, peers[i]);
    }
}

static void send_to_all(struct tutti *t)
{
    for (int r = 0; r < t->size; r++) {
        if (r != t->rank) {
            (void)messages_send(t, r);
        }
    }
}

static void tell_others(struct tutti *t, const struct error *failure)
{
    const bool is_finder = failure->rank == t->rank;
    const bool spreads = t->size > SPREAD_DIRECT_MAX;
    struct wire_writer *out;

    if (atomic_exchange_explicit(&t->failure.is_told, 1, memory_order_relaxed) != 0 ||
            (!is_finder && !spreads)) {
        return;
    }
    if (is_finder) {
        log_error(&t->log, "%s", failure->text);
    }
    out = messages_begin(t, MESSAGE_ABORT);
    wire_put_varint(out, (uint64_t)failure->rank + 1);
    wire_put_str(out, failure->text, strnlen(failure->text, ERROR_TEXT_MAX - 1));
    if (spreads) {
        send_to_some(t);
    } else {
        send_to_all(t);
    }
}

/* What was issued is given up when nobody of this rank runs anything any more. */
static bool quit_backends(const struct dispatcher *dispatcher)
{
    bool quit = true;

    for (int b = 0; b < dispatcher->backend_count; b++) {
        const struct dispatcher_backend *backend = &dispatcher->backends[b];

        quit = (backend->ops->quit == NULL || backend->ops->quit(backend->state)) &&
                quit;
    }
    return quit;
}

/* One writer, so no read-modify-write is needed. */
static void set_lingers(struct tutti *t, bool lingers)
{
    const bool did =
            atomic_load_explicit(&t->failure.lingers, memory_order_relaxed) != 0;

    if (lingers != did) {
        atomic_store_explicit(&t->failure.lingers, lingers, memory_order_release);
    }
    if (lingers && !did) {
        doorbell_ring(&t->driver.done_bell);
    }
}

void failure_enforce(struct tutti *t)
{
    struct error failure;
    bool cancelled;
    bool over;

    pthread_mutex_lock(&t->lock);
    failure = t->failure.error;
    pthread_mutex_unlock(&t->lock);
    tell_others(t, &failure);
    cancelled = dispatch_cancel_all(t);
    complete_drain(t, NULL, cancelled ? OPERATION_RUNNING : OPERATION_AGREED, &failure);
    over = cancelled && quit_backends(&t->dispatcher) && complete_give_up(t, &failure);
    set_lingers(t, !over);
    /* Nobody rings when our memory is ours again. */
    t->engine.next_tick_ns = over ? INT64_MAX : t->engine.now_ns + RETRY_NS;
}
