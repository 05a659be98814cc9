/*
 * The queue of what the device has still to do.
 */
#include "device/inflight.h"

#include "base/clock.h"
#include "base/mem.h"

/*
 * After a failure events pass soon, since the backends have given up. Those behind commands
 * of the application that never end are not waited for any longer than this.
 */
#define PATIENCE_NS 5000000000

/* One writer, the engine. */
static void count(struct device_inflight *queue, uint32_t change)
{
    const uint32_t before = atomic_load_explicit(&queue->count, memory_order_relaxed);

    /* Release: pairs with inflight_is_pending(), for those that wait for the last one. */
    atomic_store_explicit(&queue->count, before + change, memory_order_release);
}

struct inflight *inflight_add(struct device_inflight *queue,
        const struct device *device, struct device_event *event)
{
    struct inflight *added = queue->spare;

    if (added != NULL) {
        queue->spare = added->next;
    } else {
        added = mem_calloc(1, sizeof *added);
    }
    if (added == NULL) {
        device->release(device->state, event);
        return NULL;
    }
    *added = (struct inflight){ .event = event };
    if (queue->newest != NULL) {
        queue->newest->next = added;
    } else {
        queue->oldest = added;
    }
    queue->newest = added;
    count(queue, 1);
    return added;
}

void inflight_remove_oldest(struct device_inflight *queue, const struct device *device)
{
    struct inflight *oldest = queue->oldest;

    queue->oldest = oldest->next;
    if (queue->oldest == NULL) {
        queue->newest = NULL;
    }
    device->release(device->state, oldest->event);
    oldest->next = queue->spare;
    queue->spare = oldest;
    count(queue, (uint32_t)-1);
}

bool inflight_wait_for(struct device_inflight *queue, const struct device *device,
        struct device_event *event)
{
    if (device->passed(device->state, event) != TUTTI_AGAIN) {
        return false;
    }
    if (queue->patience_ns == 0) {
        queue->patience_ns = clock_ns() + PATIENCE_NS;
    }
    return clock_ns() < queue->patience_ns;
}

void inflight_fini(struct device_inflight *queue, const struct device *device)
{
    while (queue->oldest != NULL) {
        inflight_remove_oldest(queue, device);
    }
    while (queue->spare != NULL) {
        struct inflight *next = queue->spare->next;

        mem_free(queue->spare);
        queue->spare = next;
    }
}
