/*
 * What any step asks of the context, and how it calls for a driver.
 */
#include "run/context.h"

#include "base/cpu.h"
#include "run/complete_device.h"

tutti_status context_check(struct tutti *t)
{
    tutti_status status = TUTTI_OK;

    if (atomic_load_explicit(&t->failure.is_set, memory_order_acquire) != 0) {
        pthread_mutex_lock(&t->lock);
        status = error_raise(&t->failure.error);
        pthread_mutex_unlock(&t->lock);
    }
    return status;
}

static bool is_called_back(struct tutti *t)
{
    return atomic_load_explicit(&t->driver.calling_back, memory_order_relaxed) ==
            (uintptr_t)pthread_self();
}

/*
 * Written when it changes only, since the engine reads words beside it. Who submits from a
 * callback is the engine, which does not count.
 */
static void remember_submitter(struct tutti *t)
{
    const int32_t self = cpu_thread_id();

    if (!is_called_back(t) &&
            atomic_load_explicit(&t->driver.submitter, memory_order_relaxed) != self) {
        atomic_store_explicit(&t->driver.submitter, self, memory_order_relaxed);
    }
}

void context_notify(struct tutti *t, uint32_t callbacks)
{
    if (callbacks > 0) {
        (void)atomic_fetch_add_explicit(
                &t->driver.calls_due, callbacks, memory_order_seq_cst);
    }
    doorbell_ring(t->driver.bell);
    if (t->driver.has_background &&
            atomic_load_explicit(&t->driver.waiters, memory_order_seq_cst) == 0) {
        remember_submitter(t);
        doorbell_ring(&t->driver.park_bell);
        if (callbacks > 0) {
            doorbell_ring(&t->driver.rest_bell);
        }
    }
}

tutti_status context_may_wait(struct tutti *t)
{
    if (is_called_back(t)) {
        return error_set(TUTTI_ERR_THREAD,
                "a callback may not wait (rank %d); submit with another callback "
                "instead",
                t->rank);
    }
    return TUTTI_OK;
}
