/*
 * Failing a context.
 *
 * The rank that finds the cause tells every other rank directly: the tree may lead through
 * the rank that is lost.
 */
#include "core/failure.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "core/completion.h"
#include "core/context.h"
#include "core/driver.h"
#include "core/engine.h"
#include "core/registration.h"

/*
 * How long tuttirun has to say why a rank was lost, and how often to look. It waits itself
 * for the last words of that rank, and for an earlier cause.
 */
#define NOTICE_PATIENCE_NS 1000000000
#define NOTICE_LOOK_NS 1000000
/* How soon to look again whether what was given up is over. */
#define RETRY_NS 100000

void failure_set(struct tutti *t, int rank, const char *text)
{
    pthread_mutex_lock(&t->lock);
    if (t->failure.status == TUTTI_OK) {
        error_fill(&t->failure, TUTTI_ERR_CONTEXT_FAILED, rank,
                "the context has failed; first cause, on rank %d: %s", rank, text);
        atomic_store_explicit(&t->failed, 1, memory_order_seq_cst);
        registration_gate(t);
    }
    pthread_mutex_unlock(&t->lock);
    doorbell_ring(t->bell);
}

tutti_status failure_of_device(struct tutti *t, tutti_status status)
{
    if (status == TUTTI_OK || status == TUTTI_AGAIN || t->device.state == NULL ||
            t->device.alive(t->device.state) == TUTTI_OK) {
        return status;
    }
    failure_set(t, t->rank, tutti_last_error());
    driver_notify(t); /* the others are to be told, and nothing here may be in flight */
    pthread_mutex_lock(&t->lock);
    status = error_raise(&t->failure);
    pthread_mutex_unlock(&t->lock);
    return status;
}

/* The cause as tuttirun has it. All ranks are told, so nobody passes it on. */
static void take_notice(struct tutti *t)
{
    char text[NOTICE_TEXT_MAX];
    int rank = -1;

    notice_read(&t->notice, &rank, text);
    pthread_mutex_lock(&t->lock);
    if (t->failure.status == TUTTI_OK) {
        error_fill(&t->failure, TUTTI_ERR_CONTEXT_FAILED, rank,
                "the context has failed: %s", text);
        atomic_store_explicit(&t->failure_told, 1, memory_order_relaxed);
        atomic_store_explicit(&t->failed, 1, memory_order_seq_cst);
        registration_gate(t);
    }
    pthread_mutex_unlock(&t->lock);
}

void failure_look(struct tutti *t)
{
    if (notice_is_posted(&t->notice) &&
            atomic_load_explicit(&t->failed, memory_order_relaxed) == 0) {
        take_notice(t);
    }
}

/*
 * How a lost rank shows here: it has died on this node, or MPI cannot reach it. Why it died
 * its supervisor hears in the same moment; then it takes a message to tuttirun and one back.
 */
static bool may_be_noticed(const struct tutti *t, tutti_status status)
{
    return t->notice.page != NULL &&
            (status == TUTTI_ERR_SYSTEM || status == TUTTI_ERR_MPI);
}

void failure_set_last(struct tutti *t, tutti_status status)
{
    const int64_t until = clock_ns() + NOTICE_PATIENCE_NS;
    char text[ERROR_TEXT_MAX];

    (void)snprintf(text, sizeof text, "%s", tutti_last_error());
    while (may_be_noticed(t, status) && !notice_is_posted(&t->notice) &&
            clock_ns() < until) {
        clock_sleep_ns(NOTICE_LOOK_NS);
    }
    failure_look(t);
    failure_set(t, t->rank, text);
}

static void tell_others(struct tutti *t, const struct error *failure)
{
    if (atomic_exchange_explicit(&t->failure_told, 1, memory_order_relaxed) != 0 ||
            failure->rank != t->rank) {
        return;
    }
    log_error(&t->log, "%s", failure->text);
    wire_writer_reset(&t->envelope);
    wire_put_u8(&t->envelope, ENVELOPE_ABORT);
    wire_put_varint(&t->envelope, (uint64_t)failure->rank + 1);
    wire_put_str(
            &t->envelope, failure->text, strnlen(failure->text, ERROR_TEXT_MAX - 1));
    for (int r = 0; r < t->size && !t->envelope.failed; r++) {
        /* A rank that cannot be told is lost, or will find out by itself. */
        if (r != t->rank) {
            (void)t->control.ops->send(
                    t->control.state, r, t->envelope.data, t->envelope.len);
        }
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

bool failure_lingers(const struct tutti *t)
{
    /* Pairs with the release in set_lingers(): the failure is seen, too. */
    return atomic_load_explicit(&t->lingers, memory_order_acquire) != 0;
}

/* One writer, so no read-modify-write is needed. */
static void set_lingers(struct tutti *t, bool lingers)
{
    const bool did = atomic_load_explicit(&t->lingers, memory_order_relaxed) != 0;

    if (lingers != did) {
        atomic_store_explicit(&t->lingers, lingers, memory_order_release);
    }
    if (lingers && !did) {
        doorbell_ring(&t->done_bell);
    }
}

void failure_enforce(struct tutti *t)
{
    struct error failure;
    bool cancelled;
    bool over;

    if (atomic_load_explicit(&t->failed, memory_order_acquire) == 0) {
        return;
    }
    pthread_mutex_lock(&t->lock);
    failure = t->failure;
    pthread_mutex_unlock(&t->lock);
    tell_others(t, &failure);
    cancelled = dispatcher_cancel_all(t);
    completion_drain(t, NULL, cancelled ? WORK_RUNNING : WORK_AGREED, &failure);
    over = cancelled && quit_backends(&t->dispatcher) && issues_give_up(t, &failure);
    set_lingers(t, !over);
    /* Nobody rings when our memory is ours again. */
    t->next_tick_ns = over ? INT64_MAX : t->now_ns + RETRY_NS;
}

void failure_received(struct tutti *t, int from, const void *bytes, size_t len)
{
    struct wire_reader in;
    const char *text;
    size_t text_len = 0;
    int rank;

    wire_reader_init(&in, bytes, len);
    rank = (int)wire_get_varint(&in) - 1;
    text = wire_get_str(&in, ERROR_TEXT_MAX - 1, &text_len);
    pthread_mutex_lock(&t->lock);
    if (t->failure.status == TUTTI_OK) {
        error_fill(&t->failure, TUTTI_ERR_CONTEXT_FAILED, wire_ok(&in) ? rank : from,
                "%.*s", (int)text_len, wire_ok(&in) ? text : "");
        atomic_store_explicit(&t->failed, 1, memory_order_seq_cst);
        registration_gate(t);
    }
    pthread_mutex_unlock(&t->lock);
}
