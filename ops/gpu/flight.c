#include "ops/gpu/flight.h"

#include "base/clock.h"
#include "base/error.h"

static struct flight_batch *batch_at(struct flight *flight, size_t index)
{
    return &flight->batches[(flight->first + index) % FLIGHT_MAX];
}

void flight_add(
        struct flight *flight, const struct op_batch *batch, struct device_event *event)
{
    gpu_event_hold(event);
    flight->count++;
    *batch_at(flight, flight->count - 1) = (struct flight_batch){ .event = event,
        .since_ns = clock_ns(),
        .set = batch->set->id,
        .collective = batch->collective,
        .tensors = batch->run_count };
}

static void drop_first(struct flight *flight, struct gpu *gpu)
{
    gpu_event_release(gpu, batch_at(flight, 0)->event);
    flight->first = (flight->first + 1) % FLIGHT_MAX;
    flight->count--;
}

tutti_status flight_sweep(struct flight *flight, struct gpu *gpu)
{
    while (flight->count > 0) {
        const tutti_status status = gpu_passed(gpu, batch_at(flight, 0)->event);

        if (status == TUTTI_AGAIN) {
            return TUTTI_OK;
        }
        if (status != TUTTI_OK) {
            return status;
        }
        drop_first(flight, gpu);
    }
    return TUTTI_OK;
}

tutti_status flight_check(struct flight *flight, const struct gpu *gpu)
{
    const double limit_s = gpu->config->gpu_timeout_s;
    const struct flight_batch *oldest;
    double age_s;

    if (flight->count == 0 || limit_s <= 0) {
        return TUTTI_OK;
    }
    oldest = batch_at(flight, 0);
    age_s = (double)(clock_ns() - oldest->since_ns) * 1e-9;
    if (age_s < limit_s) {
        return TUTTI_OK;
    }
    return error_set(TUTTI_ERR_SYSTEM,
            "rank %d: GPU %d (%s) has not ended the %s of %zu tensors of process set "
            "%u "
            "that was issued %.1f s ago (gpu_timeout_s=%g): another rank of the set "
            "has "
            "not issued it, or died, or work before it on the stream never ends",
            gpu->rank, gpu->ordinal, gpu->pci,
            tutti_collective_name(oldest->collective), oldest->tensors, oldest->set,
            age_s, limit_s);
}

void flight_fini(struct flight *flight, struct gpu *gpu)
{
    while (flight->count > 0) {
        drop_first(flight, gpu);
    }
}
