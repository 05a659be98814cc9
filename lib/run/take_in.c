/*
 * Announces submissions, and cancellations, to the negotiators of their sets.
 */
#include "run/take_in.h"

#include "agree/meta.h"
#include "agree/negotiator.h"
#include "observe/observe.h"
#include "run/complete.h"
#include "run/context.h"
#include "run/intake.h"
#include "run/operation.h"

/*
 * Looked at after the intake was taken: an operation whose cancellation comes later is in the
 * intake of a later pass, or this is true again in one.
 */
static bool take_cancels(struct tutti *t)
{
    /* Acquire: pairs with tutti_cancel(). */
    return atomic_load_explicit(&t->engine.cancels_pending, memory_order_relaxed) !=
            0 &&
            atomic_exchange_explicit(
                    &t->engine.cancels_pending, 0, memory_order_acquire) != 0;
}

/*
 * A member of a group that was cancelled before is announced, too, with its
 * cancellation: the others of the group must fail with it, on all ranks.
 */
static tutti_status announce(struct tutti *t, struct operation *operation)
{
    struct negotiator *negotiator = &operation->set->negotiator;
    const bool cancelled = operation_take_cancel(operation);
    tutti_status status;

    operation->taken_ns = t->engine.now_ns;
    operation_advance(operation, OPERATION_ANNOUNCED);
    if (cancelled && operation->request.meta.group == 0) {
        complete_failed(
                t, operation, TUTTI_ERR_CANCELLED, "cancelled before it was announced");
        return TUTTI_OK;
    }
    if (operation->set->finalized && operation->request.collective != META_FINALIZE) {
        complete_failed(
                t, operation, TUTTI_ERR_FINALIZED, "the process set is finalized");
        return TUTTI_OK;
    }
    operation->set->dirty = true;
    negotiator->now_ns = t->engine.now_ns;
    status = negotiator_submit(negotiator, &operation->request);
    return status == TUTTI_OK && cancelled
            ? negotiator_cancel(negotiator, &operation->request)
            : status;
}

/* Cancellations of operations that are with the negotiator. */
static tutti_status announce_cancels(struct tutti *t)
{
    tutti_status status = TUTTI_OK;
    uint32_t position = 0;
    struct operation *operation;

    while (status == TUTTI_OK &&
            (operation = operation_next(&t->work.operations, &position)) != NULL) {
        if (operation_state(operation) != OPERATION_ANNOUNCED ||
                !operation_take_cancel(operation)) {
            continue;
        }
        operation->set->dirty = true;
        status = negotiator_cancel(&operation->set->negotiator, &operation->request);
    }
    return status;
}

tutti_status take_in_submissions(struct tutti *t, bool *moved)
{
    struct operation *operations = intake_take(&t->work.intake);
    const bool cancels = take_cancels(t);
    struct operation *next;
    tutti_status status = TUTTI_OK;
    uint64_t count = 0;

    *moved = *moved || operations != NULL;
    for (struct operation *operation = operations; operation != NULL;
            operation = next) {
        next = operation->next;
        observe_operation(t, operation, EVENT_TAKEN_IN, ++count);
        if (status == TUTTI_OK) {
            status = announce(t, operation);
        } else {
            /* The context is failing; the drain takes it from here. */
            operation_advance(operation, OPERATION_ANNOUNCED);
        }
    }
    observe_number(t, EVENT_ALL_TAKEN_IN, count);
    return status == TUTTI_OK && cancels ? announce_cancels(t) : status;
}
