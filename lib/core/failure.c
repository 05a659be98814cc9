/*
 * Failing a context.
 *
 * The rank that finds the cause tells every other rank directly: the tree may lead through
 * the rank that is lost.
 */
#include "core/failure.h"

#include <stdio.h>
#include <string.h>

#include "core/completion.h"
#include "core/context.h"
#include "core/engine.h"
#include "core/registration.h"

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

void failure_set_last(struct tutti *t)
{
    char text[ERROR_TEXT_MAX];

    (void)snprintf(text, sizeof text, "%s", tutti_last_error());
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

void failure_enforce(struct tutti *t)
{
    struct error failure;
    bool cancelled;

    if (atomic_load_explicit(&t->failed, memory_order_acquire) == 0) {
        return;
    }
    pthread_mutex_lock(&t->lock);
    failure = t->failure;
    pthread_mutex_unlock(&t->lock);
    tell_others(t, &failure);
    cancelled = dispatcher_cancel_all(t);
    completion_drain(t, NULL, cancelled ? WORK_RUNNING : WORK_AGREED, &failure);
    /* Nobody rings when our memory is ours again. */
    t->next_tick_ns = cancelled ? INT64_MAX : t->now_ns + RETRY_NS;
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
