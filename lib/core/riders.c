/*
 * Batches of plans that ride, and walks, from when they are queued until it is known what
 * becomes of them.
 *
 * They wait in the queue of their lane like others, and take a sequence number when they
 * are launched: every rank launches the same number of each epoch (plan_ride.c). The works
 * of a batch that rides are still with the negotiator. When it is agreed they are the
 * batch's alone; when it is dropped they are given back, once nobody touches their memory.
 */
#include "core/context.h"
#include "core/dispatcher.h"
#include "core/output.h"

static struct set_lane *lane_of(const struct batch *batch)
{
    return &batch->set->lanes[batch->lane];
}

static struct batch **place_of(struct process_set *set, uint32_t lane, uint64_t index)
{
    return &set->lanes[lane].riders[index % RIDERS_MAX];
}

static void add(struct tutti *t, struct batch *batch, uint64_t index)
{
    batch->index = index;
    *place_of(batch->set, batch->lane, index) = batch;
    lane_of(batch)->rider_count++;
    dispatcher_submit(t, batch);
}

static void remove_rider(struct batch *batch)
{
    *place_of(batch->set, batch->lane, batch->index) = NULL;
    lane_of(batch)->rider_count--;
}

bool dispatcher_rides(const struct dispatcher *dispatcher, const struct op_batch *op)
{
    for (int b = 0; b < dispatcher->backend_count; b++) {
        const struct dispatcher_backend *backend = &dispatcher->backends[b];

        if (backend->ops->space == op->space &&
                backend->ops->accepts(backend->state, op)) {
            return backend->ops->rides != NULL &&
                    backend->ops->rides(backend->state, op);
        }
    }
    return false;
}

void dispatcher_begin(struct tutti *t, struct batch *batch, uint64_t index)
{
    batch->launch = LAUNCH_RIDING;
    add(t, batch, index);
}

size_t dispatcher_agree(
        struct tutti *t, struct process_set *set, uint32_t lane, uint64_t index)
{
    struct batch *batch = *place_of(set, lane, index);

    remove_rider(batch);
    batch->launch = LAUNCH_AGREED;
    batch->op.accord = OP_AGREED;
    for (size_t i = 0; i < batch->work_count; i++) {
        work_advance(batch->works[i], WORK_RUNNING);
    }
    counter_add(&t->counters.batches, 1);
    return batch->work_count;
}

static void give_works_back(struct tutti *t, struct batch *batch)
{
    for (size_t i = 0; i < batch->work_count; i++) {
        struct work *work = batch->works[i];

        if (work->owns_output && work->output != NULL) {
            (void)output_free(t, work->output);
            work->output = NULL;
        }
        work_advance(work, WORK_ANNOUNCED);
    }
    batch->work_count = 0;
}

void dispatcher_drop(struct process_set *set, uint32_t lane, uint64_t from)
{
    for (int i = 0; i < RIDERS_MAX; i++) {
        struct batch *batch = set->lanes[lane].riders[i];

        if (batch == NULL || batch->launch != LAUNCH_RIDING || batch->index < from) {
            continue;
        }
        batch->op.accord = OP_DROPPED;
        if (batch->backend == NULL) {
            /* Not launched: nobody has got anything of it. */
            give_works_back(set->context, batch);
            batch->launch = LAUNCH_WALK;
        }
    }
}

tutti_status dispatcher_walk(struct tutti *t, struct process_set *set, uint32_t lane,
        uint64_t first, uint64_t count)
{
    for (uint64_t index = first; index < first + count; index++) {
        struct batch *batch = dispatcher_batch_new(t, set, lane);

        if (batch == NULL) {
            return error_set(TUTTI_ERR_NO_MEMORY, "no memory to leave a plan");
        }
        batch->launch = LAUNCH_WALK;
        add(t, batch, index);
    }
    return TUTTI_OK;
}

void dispatcher_rider_ends(struct tutti *t, struct batch *batch)
{
    remove_rider(batch);
    give_works_back(t, batch);
}

const struct batch *dispatcher_rider(
        const struct process_set *set, uint32_t lane, uint64_t index)
{
    const struct batch *batch = set->lanes[lane].riders[index % RIDERS_MAX];

    return batch != NULL && batch->index == index && batch->backend != NULL ? batch
                                                                            : NULL;
}
