/*
 * Checking what is touched: bounds, liveness, the right device, and order.
 */
#include <stdio.h>

#include "test/gpusim/state.h"

static void report_conflict(const struct access *access, bool writes,
        const struct gpusim_range *range, const struct conflict *conflict,
        const struct allocation *allocation)
{
    report_race(
            "%s (%s, step %llu) %s %zu bytes at offset %llu of an allocation of %zu "
            "bytes, which %s (%s, step %llu) %s at offset %llu; nothing orders them",
            access->label, access->who, (unsigned long long)access->time,
            writes ? "writes" : "reads", range->bytes,
            (unsigned long long)(range->start - allocation->start), allocation->bytes,
            conflict->earlier.label, conflict->earlier.who,
            (unsigned long long)conflict->earlier.time,
            conflict->earlier_wrote ? "writes" : "reads",
            (unsigned long long)(conflict->start - allocation->start));
}

static bool touch(const struct access *access, const struct clock *clock,
        const struct gpusim_range *range, bool writes, bool silent)
{
    struct allocation *allocation = memory_find(range->start, NULL);
    struct conflict conflict;
    bool found;

    if (allocation == NULL || allocation->state != ALLOCATION_LIVE ||
            range->bytes == 0) {
        return false;
    }
    found = shadow_touch(&allocation->shadow, range, writes, access, clock, &conflict);
    if (found && !silent) {
        report_conflict(access, writes, range, &conflict, allocation);
    }
    return found;
}

bool access_touch(const struct access *access, const struct clock *clock,
        const struct gpusim_range *range, bool writes)
{
    return touch(access, clock, range, writes, false);
}

void access_by_host(const char *label, const struct gpusim_range *range, bool writes)
{
    struct host *host = host_self();
    struct access access = {
        .label = intern(label),
        .who = intern(host->name),
        .time = clock_time(&host->clock, host->actor),
        .actor = host->actor,
    };

    (void)access_touch(&access, &host->clock, range, writes);
}

/* Kernels and collectives reach memory of their own device only. */
static bool on_device(const struct stream *stream, uint64_t address)
{
    const struct arena *arena = arena_of(address);

    return arena == NULL || arena->kind != ARENA_DEVICE ||
            arena->device == stream->context->device->ordinal;
}

static int check_range(const struct stream *stream, const struct op *op,
        const struct gpusim_range *range)
{
    if (range->bytes == 0) {
        return CUDA_SUCCESS;
    }
    if (arena_of(range->start) == NULL && op->kind == OP_PLAIN) {
        return CUDA_SUCCESS; /* pageable memory, which the call looked at */
    }
    if (op->kind != OP_PLAIN && !on_device(stream, range->start)) {
        gpusim_report("%s on %s touches memory of device %d", op->label, stream->name,
                arena_of(range->start)->device);
        return CUDA_ILLEGAL_ADDRESS;
    }
    if (memory_check(op->label, range->start, range->bytes) != CUDA_SUCCESS) {
        if (memory_find(range->start, NULL) == NULL) {
            gpusim_report("%s on %s touches %zu bytes that are no GPU's", op->label,
                    stream->name, range->bytes);
        }
        return CUDA_ILLEGAL_ADDRESS;
    }
    return CUDA_SUCCESS;
}

/* Checks and notes ranges of one direction; one race is reported per operation. */
static int touch_all(const struct stream *stream, const struct op *op, bool writes,
        const struct access *access, bool *raced)
{
    const struct gpusim_range *ranges =
            writes ? op->accesses->writes : op->accesses->reads;
    size_t count = writes ? op->accesses->write_count : op->accesses->read_count;

    for (size_t i = 0; i < count; i++) {
        int result = check_range(stream, op, &ranges[i]);

        if (result != CUDA_SUCCESS) {
            return result;
        }
        *raced = touch(access, &op->clock, &ranges[i], writes, *raced) || *raced;
    }
    return CUDA_SUCCESS;
}

int access_by_op(const struct stream *stream, const struct op *op)
{
    struct access access = {
        .label = op->label,
        .who = intern(stream->name),
        .time = clock_time(&op->clock, stream->actor),
        .actor = stream->actor,
    };
    bool raced = false;
    int result;

    if (op->accesses == NULL) {
        return CUDA_SUCCESS;
    }
    result = touch_all(stream, op, false, &access, &raced);
    if (result == CUDA_SUCCESS) {
        result = touch_all(stream, op, true, &access, &raced);
    }
    return result;
}
