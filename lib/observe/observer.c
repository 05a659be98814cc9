/*
 * Begins and ends what observes a rank, and reads it.
 */
#include "observe/observer.h"

#include <stdio.h>

#include "base/clock.h"
#include "observe/observe.h"
#include "observe/profiler.h"

/* A rank that cannot be recorded works as well. */
static void open_recorder(struct tutti *t, const struct op_link *link)
{
    struct observer *observer = &t->observer;
    const struct recorder_spec spec = { .descriptor =
                                                config_internal(RECORDER_VARIABLE),
        .folder = t->config.record_dir,
        .events = (size_t)t->config.record_events,
        .rank = t->rank,
        .size = t->size,
        .link_mbs = (uint32_t)link->bytes_per_us,
        .is_in_memory = true };

    if ((t->size > 1 || t->config.timeline[0] != '\0') &&
            recorder_open(&observer->recorder, &spec) != TUTTI_OK) {
        log_warn(&t->log, "nothing is recorded: %s", tutti_last_error());
    }
    observer->metrics = observer->recorder.shared != NULL
            ? &observer->recorder.shared->metrics
            : &observer->own;
    counter_set(&observer->metrics->started_ns, (uint64_t)clock_ns());
}

tutti_status observer_open(struct tutti *t, const struct op_link *link)
{
    t->observer.profiler = profiler_find();
    open_recorder(t, link);
    return timeline_open(t);
}

void observer_close(struct tutti *t)
{
    timeline_fini(t);
    observe_ends(t);
    recorder_close(&t->observer.recorder,
            atomic_load_explicit(&t->failure.is_set, memory_order_relaxed) == 0);
}

void observer_attach(struct tutti *t, int backend, const char *name, struct op_env *env)
{
    struct observer *observer = &t->observer;

    (void)snprintf(
            observer->metrics->backends[backend], METRICS_BACKEND_BYTES, "%s", name);
    env->links = recorder_links(&observer->recorder);
    env->spent = &observer->timeline.spent;
    env->counts = &observer->metrics->device;
}

void observer_name(struct observer *observer, struct observed_name *place,
        const char *name, uint32_t set, int collective)
{
    recorder_add_name(&observer->recorder, place,
            &(struct recorder_name){
                    .name = name, .set = set, .collective = collective });
}

void observer_keep(
        struct observer *observer, const struct observed_name *place, bool keep)
{
    recorder_keep(&observer->recorder, place, keep);
}

void observer_release(struct observer *observer, struct observed_name *place)
{
    recorder_release(&observer->recorder, place);
}

struct metrics_source observer_metrics(const struct tutti *t)
{
    observe_ends(t);
    return (struct metrics_source){
        .metrics = t->observer.metrics, .rank = t->rank, .size = t->size, .is_up = true
    };
}

void observer_stats(const struct tutti *t, tutti_stats *stats)
{
    const struct metrics *metrics = t->observer.metrics;

    stats->completed =
            counter_get(&t->work.finished.ok) + counter_get(&metrics->streamed);
    stats->failed = counter_get(&t->work.finished.failed);
    stats->bytes = counter_get(&t->work.finished.bytes) +
            counter_get(&metrics->streamed_bytes);
    /* Last, so that it is not less than those that have ended. */
    stats->submitted = counter_get(&t->work.intake.count);
    stats->batches = counter_get(&metrics->batches);
    stats->announced_by_bit = counter_get(&metrics->by_number);
    stats->announced_by_name = counter_get(&metrics->by_name);
    stats->control_messages = counter_get(&metrics->messages);
    stats->control_bytes = counter_get(&metrics->message_bytes);
    stats->wait_ns = counter_get(&metrics->wait_ns);
    stats->stalls = counter_get(&metrics->stalls);
    stats->planned = 0;
    stats->planned_steps = 0;
    stats->slow_steps = 0;
    stats->plan_exits = 0;
    stats->device_batches = counter_get(&metrics->device_batches);
    stats->device_staged = counter_get(&metrics->device_staged);
    stats->device_packed = counter_get(&metrics->device.packed);
    stats->device_in_place = counter_get(&metrics->device.in_place);
    stats->device_launches = counter_get(&metrics->device.launches);
    stats->device_hierarchical = 0;
    stats->rank_wait_ns = counter_get(&metrics->lead_ns);
    stats->busy_ns = counter_get(&metrics->busy_ns);
}
