/*
 * Failing a context: the first cause, and telling callers.
 */
#include "run/failure.h"

#include <stdio.h>
#include <string.h>

#include "base/bitset.h"
#include "base/clock.h"
#include "observe/observe.h"
#include "run/context.h"
#include "run/persistent.h"
#include "run/process_set.h"

/*
 * How long tuttirun has to say why a rank was lost, and how often to look. It waits itself
 * for the last words of that rank, and for an earlier cause.
 */
#define CAUSE_PATIENCE_NS 1000000000
#define CAUSE_LOOK_NS 1000000

/* The first cause is set; call with the lock. */
static void enter(struct tutti *t, enum context_failure failure)
{
    observe_text(t, EVENT_FAILURE, t->failure.error.text);
    failure_page_fail(&t->failure.page, failure);
    atomic_store_explicit(&t->failure.is_set, 1, memory_order_seq_cst);
    persistent_gate_all(t);
}

void failure_set(struct tutti *t, int rank, const char *text)
{
    pthread_mutex_lock(&t->lock);
    if (t->failure.error.status == TUTTI_OK) {
        error_fill(&t->failure.error, TUTTI_ERR_CONTEXT_FAILED, rank,
                "the context has failed; first cause, on rank %d: %s", rank, text);
        enter(t, CONTEXT_FAILURE_FOUND);
    }
    pthread_mutex_unlock(&t->lock);
    doorbell_ring(t->driver.bell);
}

tutti_status failure_of_device(struct tutti *t, tutti_status status)
{
    if (status == TUTTI_OK || status == TUTTI_AGAIN || t->device.state == NULL ||
            t->device.alive(t->device.state) == TUTTI_OK) {
        return status;
    }
    failure_set(t, t->rank, tutti_last_error());
    /* The others are to be told, and nothing here may be in flight. */
    context_notify(t, 0);
    pthread_mutex_lock(&t->lock);
    status = error_raise(&t->failure.error);
    pthread_mutex_unlock(&t->lock);
    return status;
}

/* The cause as tuttirun has it. All ranks are told, so nobody passes it on. */
static void take_cause(struct tutti *t)
{
    char text[FAILURE_PAGE_TEXT_MAX];
    int rank = -1;

    failure_page_read(&t->failure.page, &rank, text);
    pthread_mutex_lock(&t->lock);
    if (t->failure.error.status == TUTTI_OK) {
        error_fill(&t->failure.error, TUTTI_ERR_CONTEXT_FAILED, rank,
                "the context has failed: %s", text);
        atomic_store_explicit(&t->failure.is_told, 1, memory_order_relaxed);
        enter(t, CONTEXT_FAILURE_TOLD);
    }
    pthread_mutex_unlock(&t->lock);
}

void failure_look(struct tutti *t)
{
    if (failure_page_is_posted(&t->failure.page) &&
            atomic_load_explicit(&t->failure.is_set, memory_order_relaxed) == 0) {
        take_cause(t);
    }
}

void failure_suspect(struct tutti *t)
{
    char text[FAILURE_PAGE_SUSPICION_MAX];

    if (!failure_page_suspicion(&t->failure.page, &t->failure.suspicions, text)) {
        return;
    }
    pthread_mutex_lock(&t->lock);
    memcpy(t->failure.suspicion, text, sizeof text);
    pthread_mutex_unlock(&t->lock);
    log_info(&t->log, "%s", text[0] == '\0' ? "all ranks are heard again" : text);
}

void failure_note_stall(struct tutti *t, const struct process_set *set)
{
    char text[FAILURE_PAGE_AWAITED_MAX];
    struct bitset members;

    if (t->failure.page.shared == NULL || !bitset_init(&members, set->op.size)) {
        return;
    }
    for (int i = 0; i < set->op.size; i++) {
        bitset_add(&members, i);
    }
    failure_page_await(&t->failure.page,
            bitset_format(&members, set->world_ranks, text, sizeof text));
    bitset_fini(&members);
}

/*
 * How a lost rank shows here: it has died on this node, or MPI cannot reach it. Why it died
 * its supervisor hears in the same moment; then it takes a message to tuttirun and one back.
 */
static bool may_be_explained(const struct tutti *t, tutti_status status)
{
    return t->failure.page.shared != NULL &&
            (status == TUTTI_ERR_SYSTEM || status == TUTTI_ERR_MPI);
}

void failure_set_last(struct tutti *t, tutti_status status)
{
    const int64_t until = clock_ns() + CAUSE_PATIENCE_NS;
    char text[ERROR_TEXT_MAX];

    (void)snprintf(text, sizeof text, "%s", tutti_last_error());
    while (may_be_explained(t, status) && !failure_page_is_posted(&t->failure.page) &&
            clock_ns() < until) {
        clock_sleep_ns(CAUSE_LOOK_NS);
    }
    failure_look(t);
    failure_set(t, t->rank, text);
}

bool failure_lingers(const struct tutti *t)
{
    /* Pairs with the release in set_lingers(): the failure is seen, too. */
    return atomic_load_explicit(&t->failure.lingers, memory_order_acquire) != 0;
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
    if (t->failure.error.status == TUTTI_OK) {
        error_fill(&t->failure.error, TUTTI_ERR_CONTEXT_FAILED,
                wire_ok(&in) ? rank : from, "%.*s", (int)text_len,
                wire_ok(&in) ? text : "");
        enter(t, CONTEXT_FAILURE_TOLD);
    }
    pthread_mutex_unlock(&t->lock);
}
