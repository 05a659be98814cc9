/*
 * Counts batches, and tells what was counted.
 */
#include "observe/metrics.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"

enum {
    ROWS_HASHED = METRICS_ROWS - 1, /* the last one is for what finds none */
    COLLECTIVE_OTHER = 255
};

enum family {
    FAMILY_UP,
    FAMILY_RANKS,
    FAMILY_OPERATIONS,
    FAMILY_BYTES,
    FAMILY_SECONDS,
    FAMILY_SUBMITTED,
    FAMILY_COMPLETED,
    FAMILY_FAILED,
    FAMILY_BUSY,
    FAMILY_LEAD,
    FAMILY_CALLER_WAIT,
    FAMILY_ANNOUNCED,
    FAMILY_STEPS,
    FAMILY_MESSAGES,
    FAMILY_MESSAGE_BYTES,
    FAMILY_STALLS,
    FAMILY_FUSION,
    FAMILY_FUSION_PEAK,
    FAMILY_FUSION_SPARE,
    FAMILY_DEVICE_BATCHES,
    FAMILY_DEVICE_LAUNCHES,
    FAMILY_COUNT
};

static const struct metrics_name names[FAMILY_COUNT] = {
    [FAMILY_UP] = { "tutti_up", "rank", "1 while the rank runs, 0 once it has ended",
            TUTTI_METRIC_GAUGE },
    [FAMILY_RANKS] = { "tutti_ranks", "rank", "ranks of the job", TUTTI_METRIC_GAUGE },
    [FAMILY_OPERATIONS] = { "tutti_operations_total", "rank, collective, backend, size",
            "operations that were run, by the batch", TUTTI_METRIC_COUNTER },
    [FAMILY_BYTES] = { "tutti_bytes_total", "rank, collective, backend, size",
            "bytes of this rank's tensors in these batches", TUTTI_METRIC_COUNTER },
    [FAMILY_SECONDS] = { "tutti_batch_seconds", "rank, collective, backend, size",
            "time of a batch from begin to end, others in flight beside it or not",
            TUTTI_METRIC_HISTOGRAM },
    [FAMILY_SUBMITTED] = { "tutti_submitted_total", "rank",
            "operations that were submitted", TUTTI_METRIC_COUNTER },
    [FAMILY_COMPLETED] = { "tutti_completed_total", "rank",
            "operations that ended well", TUTTI_METRIC_COUNTER },
    [FAMILY_FAILED] = { "tutti_failed_total", "rank",
            "operations that ended with an error", TUTTI_METRIC_COUNTER },
    [FAMILY_BUSY] = { "tutti_busy_seconds_total", "rank",
            "time in which a batch was in flight", TUTTI_METRIC_COUNTER },
    [FAMILY_LEAD] = { "tutti_rank_wait_seconds_total", "rank",
            "time that batches, complete on this rank, waited for other ranks; least "
            "on the rank that comes last",
            TUTTI_METRIC_COUNTER },
    [FAMILY_CALLER_WAIT] = { "tutti_caller_wait_seconds_total", "rank",
            "time that callers spent in waiting calls", TUTTI_METRIC_COUNTER },
    [FAMILY_ANNOUNCED] = { "tutti_announcements_total", "rank, by",
            "tensors announced to the coordinator", TUTTI_METRIC_COUNTER },
    [FAMILY_STEPS] = { "tutti_steps_total", "rank",
            "steps of the training: uses of one tensor that repeats",
            TUTTI_METRIC_COUNTER },
    [FAMILY_MESSAGES] = { "tutti_control_messages_total", "rank",
            "control messages sent", TUTTI_METRIC_COUNTER },
    [FAMILY_MESSAGE_BYTES] = { "tutti_control_bytes_total", "rank",
            "bytes of the control messages sent", TUTTI_METRIC_COUNTER },
    [FAMILY_STALLS] = { "tutti_stalls_total", "rank", "stalls that were reported",
            TUTTI_METRIC_COUNTER },
    [FAMILY_FUSION] = { "tutti_fusion_bytes", "rank, process_set",
            "fusion buffers in use by batches of a process set", TUTTI_METRIC_GAUGE },
    [FAMILY_FUSION_PEAK] = { "tutti_fusion_peak_bytes", "rank, process_set",
            "most that it ever was", TUTTI_METRIC_GAUGE },
    [FAMILY_FUSION_SPARE] = { "tutti_fusion_spare_bytes", "rank",
            "fusion buffers kept for the next batches", TUTTI_METRIC_GAUGE },
    [FAMILY_DEVICE_BATCHES] = { "tutti_device_batches_total", "rank, route",
            "batches of device memory", TUTTI_METRIC_COUNTER },
    [FAMILY_DEVICE_LAUNCHES] = { "tutti_device_launches_total", "rank",
            "kernels of tutti's own", TUTTI_METRIC_COUNTER },
};

/** A counter of the block, and how it is told. */
struct scalar {
    enum family family;
    size_t offset;
    const char *label, *value; /* beside the rank; NULL: none */
};

#define AT(member) offsetof(struct metrics, member)
/* Sorted by family. */
static const struct scalar scalars[] = {
    { FAMILY_SUBMITTED, AT(submitted), NULL, NULL },
    { FAMILY_COMPLETED, AT(completed), NULL, NULL },
    { FAMILY_FAILED, AT(failed), NULL, NULL },
    { FAMILY_BUSY, AT(busy_ns), NULL, NULL },
    { FAMILY_LEAD, AT(lead_ns), NULL, NULL },
    { FAMILY_CALLER_WAIT, AT(wait_ns), NULL, NULL },
    { FAMILY_ANNOUNCED, AT(by_number), "by", "number" },
    { FAMILY_ANNOUNCED, AT(by_name), "by", "name" },
    { FAMILY_STEPS, AT(steps), NULL, NULL },
    { FAMILY_MESSAGES, AT(messages), NULL, NULL },
    { FAMILY_MESSAGE_BYTES, AT(message_bytes), NULL, NULL },
    { FAMILY_STALLS, AT(stalls), NULL, NULL },
    { FAMILY_FUSION_SPARE, AT(spare_bytes), NULL, NULL },
    { FAMILY_DEVICE_BATCHES, AT(device_batches), "route", "all" },
    { FAMILY_DEVICE_BATCHES, AT(device.packed), "route", "packed" },
    { FAMILY_DEVICE_BATCHES, AT(device.in_place), "route", "in_place" },
    { FAMILY_DEVICE_BATCHES, AT(device_staged), "route", "staged" },
    { FAMILY_DEVICE_LAUNCHES, AT(device.launches), NULL, NULL },
};
#undef AT

/* 4^k microseconds, in seconds. */
static const double bounds[METRICS_BUCKETS] = { 1e-6, 4e-6, 16e-6, 64e-6, 256e-6,
    1024e-6, 4096e-6, 16384e-6, 65536e-6, 262144e-6, 1048576e-6, 4194304e-6 };

const struct metrics_name *metrics_families(size_t *count)
{
    *count = FAMILY_COUNT;
    return names;
}

/* ------------------------------------------------------------------ counting */

unsigned metrics_size_class(uint64_t bytes)
{
    return bytes <= 1 ? 0 : 64 - (unsigned)__builtin_clzll(bytes - 1);
}

/* Never 0. */
static uint32_t key_of(int collective, int backend, unsigned size_class)
{
    return 1u << 31 | (uint32_t)collective << 16 | (uint32_t)(backend + 1) << 8 |
            size_class;
}

static struct metrics_row *find_row(struct metrics *metrics, uint32_t key)
{
    uint32_t at = (key * UINT32_C(2654435761) >> 16) % ROWS_HASHED;

    for (int i = 0; i < ROWS_HASHED; i++) {
        struct metrics_row *row = &metrics->rows[at];
        const uint32_t found = atomic_load_explicit(&row->key, memory_order_relaxed);

        if (found == key) {
            return row;
        }
        if (found == 0) {
            atomic_store_explicit(&row->key, key, memory_order_relaxed);
            return row;
        }
        at = (at + 1) % ROWS_HASHED;
    }
    atomic_store_explicit(&metrics->rows[ROWS_HASHED].key,
            key_of(COLLECTIVE_OTHER, -1, 0), memory_order_relaxed);
    return &metrics->rows[ROWS_HASHED];
}

/* The smallest k with time <= 4^k us. */
static unsigned bucket_of(uint64_t time_ns)
{
    const unsigned bucket = (metrics_size_class((time_ns + 999) / 1000) + 1) / 2;

    return bucket < METRICS_BUCKETS ? bucket : METRICS_BUCKETS;
}

void metrics_count(struct metrics *metrics, const struct metrics_batch *batch)
{
    struct metrics_row *row = find_row(metrics,
            key_of(batch->collective, batch->backend,
                    metrics_size_class(batch->bytes)));

    counter_step(&row->operations, batch->operations);
    counter_step(&row->bytes, batch->bytes);
    counter_step(&row->time_ns, batch->time_ns);
    counter_step(&row->buckets[bucket_of(batch->time_ns)], 1);
}

void metrics_fusion(struct metrics *metrics, uint32_t set, int64_t bytes)
{
    struct metrics_set *entry = metrics->sets;
    const struct metrics_set *last = &metrics->sets[METRICS_SETS - 1];
    uint64_t now;

    while (entry != last &&
            atomic_load_explicit(&entry->id, memory_order_relaxed) != 0 &&
            atomic_load_explicit(&entry->id, memory_order_relaxed) != set + 1) {
        entry++;
    }
    if (atomic_load_explicit(&entry->id, memory_order_relaxed) == 0) {
        atomic_store_explicit(&entry->id, set + 1, memory_order_relaxed);
    }
    now = counter_get(&entry->bytes) + (uint64_t)bytes;
    counter_set(&entry->bytes, now);
    if (now > counter_get(&entry->peak)) {
        counter_set(&entry->peak, now);
    }
}

/* ------------------------------------------------------------------- telling */

bool metrics_read_row(
        const struct metrics *metrics, int row, struct metrics_total *total)
{
    const struct metrics_row *from = &metrics->rows[row];
    const uint32_t key = atomic_load_explicit(&from->key, memory_order_relaxed);
    const unsigned collective = key >> 16 & 255;
    const unsigned backend = key >> 8 & 255;

    *total = (struct metrics_total){
        .collective = collective == COLLECTIVE_OTHER
                ? "other"
                : tutti_collective_name((tutti_collective)collective),
        .backend = "none",
        .size = UINT64_C(1) << (key & 63),
        .operations = counter_get(&from->operations),
        .bytes = counter_get(&from->bytes),
        .time_ns = counter_get(&from->time_ns),
    };
    if (backend > 0 && backend <= METRICS_BACKENDS) {
        memcpy(total->name, metrics->backends[backend - 1], sizeof total->name - 1);
        total->backend = total->name;
    }
    for (int i = 0; i <= METRICS_BUCKETS; i++) {
        total->batches += counter_get(&from->buckets[i]);
    }
    return key != 0;
}

/** What is told of one rank. */
struct telling {
    const struct metrics_source *source;
    tutti_metric_callback callback;
    void *user;
    char rank[16];
    tutti_label labels[METRICS_LABELS];
    tutti_metric metric;
};

static void tell(struct telling *telling, enum family family, double value)
{
    telling->metric.name = names[family].name;
    telling->metric.help = names[family].help;
    telling->metric.kind = names[family].kind;
    telling->metric.value = value;
    telling->callback(telling->user, &telling->metric);
    telling->metric.label_count = 1;
}

static void add_label(struct telling *telling, const char *name, const char *value)
{
    telling->labels[telling->metric.label_count++] =
            (tutti_label){ .name = name, .value = value };
}

static bool is_time(enum family family)
{
    return strstr(names[family].name, "_seconds") != NULL;
}

static void tell_scalars(struct telling *telling, enum family family)
{
    for (size_t i = 0; i < sizeof scalars / sizeof scalars[0]; i++) {
        const char *at = (const char *)telling->source->metrics + scalars[i].offset;
        const double scale = is_time(family) ? 1e-9 : 1;

        if (scalars[i].family != family) {
            continue;
        }
        if (scalars[i].label != NULL) {
            add_label(telling, scalars[i].label, scalars[i].value);
        }
        tell(telling, family,
                (double)counter_get((const _Atomic uint64_t *)(const void *)at) *
                        scale);
    }
}

static void tell_histogram(struct telling *telling, const struct metrics_row *row)
{
    uint64_t buckets[METRICS_BUCKETS + 1];
    uint64_t sum = 0;

    for (int i = 0; i <= METRICS_BUCKETS; i++) {
        sum += counter_get(&row->buckets[i]);
        buckets[i] = sum;
    }
    telling->metric.count = sum;
    telling->metric.bucket_count = METRICS_BUCKETS;
    telling->metric.bounds = bounds;
    telling->metric.buckets = buckets;
    tell(telling, FAMILY_SECONDS, (double)counter_get(&row->time_ns) * 1e-9);
    telling->metric.bucket_count = 0;
    telling->metric.bounds = NULL;
    telling->metric.buckets = NULL;
    telling->metric.count = 0;
}

static void tell_row(struct telling *telling, enum family family, int row)
{
    struct metrics_total total;
    char size[24];

    if (!metrics_read_row(telling->source->metrics, row, &total)) {
        return;
    }
    (void)snprintf(size, sizeof size, "%llu", (unsigned long long)total.size);
    add_label(telling, "collective", total.collective);
    add_label(telling, "backend", total.backend);
    add_label(telling, "size", size);
    if (family == FAMILY_SECONDS) {
        tell_histogram(telling, &telling->source->metrics->rows[row]);
    } else {
        tell(telling, family,
                (double)(family == FAMILY_BYTES ? total.bytes : total.operations));
    }
}

static void tell_set(
        struct telling *telling, enum family family, const struct metrics_set *set)
{
    const uint32_t id = atomic_load_explicit(&set->id, memory_order_relaxed);
    char text[16];

    if (id != 0) {
        (void)snprintf(text, sizeof text, "%u", id - 1);
        add_label(telling, "process_set", text);
        tell(telling, family,
                (double)counter_get(
                        family == FAMILY_FUSION ? &set->bytes : &set->peak));
    }
}

static void tell_family(struct telling *telling, enum family family)
{
    const struct metrics_source *source = telling->source;

    switch ((int)family) {
    case FAMILY_UP:
        tell(telling, family, source->is_up ? 1 : 0);
        break;
    case FAMILY_RANKS:
        tell(telling, family, source->size);
        break;
    case FAMILY_OPERATIONS:
    case FAMILY_BYTES:
    case FAMILY_SECONDS:
        for (int i = 0; i < METRICS_ROWS; i++) {
            tell_row(telling, family, i);
        }
        break;
    case FAMILY_FUSION:
    case FAMILY_FUSION_PEAK:
        for (int i = 0; i < METRICS_SETS; i++) {
            tell_set(telling, family, &source->metrics->sets[i]);
        }
        break;
    default:
        tell_scalars(telling, family);
    }
}

void metrics_visit(const struct metrics_source *sources, size_t count,
        tutti_metric_callback callback, void *user)
{
    for (int family = 0; family < FAMILY_COUNT; family++) {
        for (size_t i = 0; i < count; i++) {
            struct telling telling = {
                .source = &sources[i], .callback = callback, .user = user
            };

            (void)snprintf(telling.rank, sizeof telling.rank, "%d", sources[i].rank);
            telling.metric.size = sizeof telling.metric;
            telling.metric.labels = telling.labels;
            add_label(&telling, "rank", telling.rank);
            tell_family(&telling, (enum family)family);
        }
    }
}
