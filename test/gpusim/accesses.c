/*
 * Checking what is touched: bounds, liveness, the right device, and order.
 */
#include "test/gpusim/state.h"

/* Up to the first race of an operation, of which nothing more is said. */
static bool touch(const struct access *access, const struct clock *clock,
        const struct gpusim_range *range, bool writes)
{
    struct allocation *allocation = memory_find(range->start);
    struct conflict conflict;

    if (allocation == NULL || range->bytes == 0 ||
            !shadow_touch(
                    &allocation->shadow, range, writes, access, clock, &conflict)) {
        return false;
    }
    gpusim_report(
            "RACE: %s (%s, step %llu) %s %zu bytes at offset %llu of an allocation of "
            "%zu bytes, which %s (%s, step %llu) %s at offset %llu; nothing orders "
            "them",
            access->label, access->who, (unsigned long long)access->time,
            writes ? "writes" : "reads", range->bytes,
            (unsigned long long)(range->start - allocation->start), allocation->bytes,
            conflict.earlier.label, conflict.earlier.who,
            (unsigned long long)conflict.earlier.time,
            conflict.earlier_wrote ? "writes" : "reads",
            (unsigned long long)(conflict.start - allocation->start));
    return true;
}

void access_by_host(const char *label, const struct clock *clock,
        const struct gpusim_range *range, bool writes)
{
    const struct access access = {
        .label = label,
        .who = "host",
        .time = clock_time(clock, ACTOR_HOST),
        .actor = ACTOR_HOST,
    };

    (void)touch(&access, clock, range, writes);
}

/* Work of a stream reaches memory of its own device only. */
static int check_range(const struct stream *stream, const char *label,
        const struct gpusim_range *range)
{
    const struct allocation *allocation = memory_find(range->start);

    if (allocation != NULL && allocation->kind == MEMORY_DEVICE &&
            allocation->owner->device != stream->context->device) {
        gpusim_report("%s on %s touches memory of device %d", label, stream->name,
                allocation->owner->device->ordinal);
        return CUDA_ILLEGAL_ADDRESS;
    }
    return memory_check(label, range->start, range->bytes) == CUDA_SUCCESS
            ? CUDA_SUCCESS
            : CUDA_ILLEGAL_ADDRESS;
}

/* Checks and notes ranges of one direction. */
static int touch_all(
        const struct stream *stream, const struct op *op, bool writes, bool *raced)
{
    const struct ranges *ranges = writes ? &op->accesses.writes : &op->accesses.reads;
    const struct access access = {
        .label = op->label,
        .who = stream->name,
        .time = clock_time(&op->clock, stream->actor),
        .actor = stream->actor,
    };

    for (size_t i = 0; i < ranges->count; i++) {
        int result = check_range(stream, op->label, &ranges->list[i]);

        if (result != CUDA_SUCCESS) {
            return result;
        }
        *raced = *raced || touch(&access, &op->clock, &ranges->list[i], writes);
    }
    return CUDA_SUCCESS;
}

int access_by_op(const struct stream *stream, const struct op *op)
{
    bool raced = false;
    int result = touch_all(stream, op, false, &raced);

    return result == CUDA_SUCCESS ? touch_all(stream, op, true, &raced) : result;
}
