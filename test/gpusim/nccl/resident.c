/*
 * Kernels of collectives that a device runs at a time.
 */
#include "test/gpusim/gpusim.h"
#include "test/gpusim/nccl/launch.h"

enum {
    DEVICES_MAX = 64
};

/* The kernels of each device that run or wait to run, in the order in which they came. */
static struct {
    pthread_mutex_t lock;
    struct resident *first[DEVICES_MAX];
} queues = { .lock = PTHREAD_MUTEX_INITIALIZER };

static struct resident **queue_of(const struct resident *place)
{
    return &queues.first[place->comm->device % DEVICES_MAX];
}

static bool is_resident(const struct resident *place)
{
    bool is_first;

    (void)pthread_mutex_lock(&queues.lock);
    is_first = *queue_of(place) == place;
    (void)pthread_mutex_unlock(&queues.lock);
    return is_first;
}

bool resident_enter(struct resident *place, struct launch *launch)
{
    struct resident **link;
    uint32_t seen;

    *place = (struct resident){ .comm = launch->comm };
    (void)pthread_mutex_lock(&queues.lock);
    for (link = queue_of(place); *link != NULL; link = &(*link)->next) {
    }
    *link = place;
    (void)pthread_mutex_unlock(&queues.lock);

    for (;;) {
        seen = segment_bell(&launch->comm->segment);
        launch->is_queued = !is_resident(place);
        if (!launch->is_queued) {
            return true;
        }
        if (!launch_pause(launch, seen, &launch->calls[0], 0)) {
            resident_leave(place);
            return false;
        }
    }
}

void resident_leave(struct resident *place)
{
    struct resident **link;

    (void)pthread_mutex_lock(&queues.lock);
    for (link = queue_of(place); *link != place; link = &(*link)->next) {
    }
    *link = place->next;
    (void)pthread_mutex_unlock(&queues.lock);
    comm_ring_device(place->comm->device);
}

size_t resident_count(void)
{
    size_t count = 0;

    (void)pthread_mutex_lock(&queues.lock);
    for (size_t d = 0; d < DEVICES_MAX; d++) {
        for (const struct resident *place = queues.first[d]; place != NULL;
                place = place->next) {
            count++;
        }
    }
    (void)pthread_mutex_unlock(&queues.lock);
    return count;
}
