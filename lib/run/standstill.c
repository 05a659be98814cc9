/*
 * Tells of batches that stand still.
 */
#include "run/standstill.h"

#include <stdio.h>

#include "base/text.h"
#include "observe/observe.h"
#include "run/batch.h"
#include "run/context.h"
#include "run/failure.h"
#include "run/operation.h"

static void batch_text(
        const struct tutti *t, const struct batch *batch, char *text, size_t capacity)
{
    char tensor[OPERATION_TEXT];
    char more[32] = "";
    char seconds[TEXT_SECONDS];

    operation_text(batch->operations[0], tensor, sizeof tensor);
    if (batch->operation_count > 1) {
        (void)snprintf(more, sizeof more, " and %zu more", batch->operation_count - 1);
    }
    (void)snprintf(text, capacity,
            "%s%s, which all ranks have submitted: nothing has moved for %s s; "
            "a rank does not take part, or the network stands still",
            tensor, more,
            text_seconds(
                    (double)(t->engine.now_ns - batch->time.moved_ns) / 1e9, seconds));
}

static tutti_status look_at_batch(struct tutti *t, struct batch *batch)
{
    const int64_t still_ns = t->engine.now_ns - batch->time.moved_ns;
    const int64_t warn_ns = t->engine.stall_ns;
    const int64_t fail_ns = t->engine.stall_fail_ns;
    const int64_t told_ns = batch->time.told_ns > batch->time.moved_ns
            ? batch->time.told_ns
            : batch->time.moved_ns;
    char text[2 * OPERATION_TEXT];

    if (fail_ns > 0 && still_ns >= fail_ns) {
        batch_text(t, batch, text, sizeof text);
        failure_note_stall(t, batch->set);
        return error_set(TUTTI_ERR_TIMEOUT, "stall_fail_s = %g: %s",
                t->config.stall_fail_s, text);
    }
    if (warn_ns > 0 && t->engine.now_ns - told_ns >= warn_ns) {
        batch_text(t, batch, text, sizeof text);
        batch->time.told_ns = t->engine.now_ns;
        observe_text(t, EVENT_STALL, text);
        log_warn(&t->log, "stalled: %s%s%s", text,
                t->failure.suspicion[0] == '\0' ? "" : "; ", t->failure.suspicion);
    }
    return TUTTI_OK;
}

tutti_status standstill_look(struct tutti *t)
{
    tutti_status status = TUTTI_OK;

    for (struct batch *batch = t->dispatcher.running;
            batch != NULL && status == TUTTI_OK; batch = batch->next) {
        if (batch->state == BATCH_RUNNING) {
            status = look_at_batch(t, batch);
        }
    }
    return status;
}
