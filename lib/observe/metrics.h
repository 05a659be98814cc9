/*
 * The metrics of a rank: one block of counters, and all that is said of it.
 *
 * The block lies in the rank's recording (observe/recorder.h), so that its supervisor reads it as
 * part of a file, without a thread, a signal or a word to the rank, also after a kill -9. Without
 * a recording it is memory of the context. Who writes a counter adds to it; readers see each
 * whole, but not all of one moment.
 *
 * The engine counts batches, not tensors: a step of 1000 small tensors has some dozen batches.
 *
 * metrics_visit() is the only list of names; every format is written from it.
 */
#ifndef TUTTI_BASE_METRICS_H
#define TUTTI_BASE_METRICS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tutti/tutti.h>

#include "base/wire.h"

enum {
    METRICS_BUCKETS =
            12, /* of times; each is four times longer, the first 1 us; and all above */
    METRICS_ROWS =
            128, /* of the table; when all are taken, the last one takes the rest */
    METRICS_SETS = 16, /* process sets whose memory is told apart; likewise           */
    METRICS_BACKENDS = 8,
    METRICS_BACKEND_BYTES = 16, /* of a name with its zero                            */
    METRICS_LABELS =
            4 /* of a sample, at most                                         */
};

/** What a DEVICE backend counts for tutti_stats; see there. Any thread. */
struct op_device_counts {
    _Atomic uint64_t packed; /* batches that a kernel packed                       */
    _Atomic uint64_t in_place; /* batches of several runs, with no copy            */
    _Atomic uint64_t launches; /* kernels of tutti's own                           */
};

/** Batches of one collective, on one backend, of one class of sizes. */
struct metrics_row {
    _Atomic uint32_t key; /* key_of() in metrics.c; 0: it is free                    */
    uint32_t padding;
    _Atomic uint64_t operations;
    _Atomic uint64_t bytes; /* of this rank's tensors                                */
    _Atomic uint64_t time_ns; /* from begin to end                                   */
    _Atomic uint64_t buckets[METRICS_BUCKETS + 1]; /* batches by that time           */
};

/** Fusion buffers of one process set. */
struct metrics_set {
    _Atomic uint32_t id; /* 1 + of the set; 0: it is free                            */
    uint32_t padding;
    _Atomic uint64_t bytes; /* in use now                                            */
    _Atomic uint64_t peak; /* most that were                                         */
};

/** Counted by the engine, where nothing else is said; read by anyone. */
struct metrics {
    _Atomic uint64_t batches;
    _Atomic uint64_t steps; /* uses of one tensor that repeats                        */
    _Atomic uint64_t by_number, by_name; /* announcements                           */
    _Atomic uint64_t messages, message_bytes; /* of control                         */
    _Atomic uint64_t stalls;
    _Atomic uint64_t wait_ns; /* of callers in waiting calls; by the waiting threads */
    _Atomic uint64_t lead_ns; /* this rank had all of a batch, and waited for others */
    _Atomic uint64_t busy_ns; /* some batch was in flight                            */
    _Atomic uint64_t device_batches, device_staged;
    _Atomic uint64_t
            streamed; /* operations that ended by going to a stream; any thread */
    _Atomic uint64_t streamed_bytes;
    struct op_device_counts device; /* of the GPU backend                            */

    _Atomic uint64_t started_ns; /* clock_ns()                                       */

    /* Copies, made when a batch ends, of what has lines of its own in the context. */
    _Atomic uint64_t submitted, completed, failed;

    _Atomic uint64_t spare_bytes; /* fusion buffers that no batch uses               */
    struct metrics_set sets[METRICS_SETS];
    char backends[METRICS_BACKENDS][METRICS_BACKEND_BYTES]; /* written at the start  */
    struct metrics_row rows[METRICS_ROWS];
};

/** Of which backend and how large a batch was. */
struct metrics_batch {
    int collective; /* enum tutti_collective                                         */
    int backend; /* its place in struct metrics; -1: none                            */
    uint64_t operations, bytes;
    uint64_t time_ns;
};

static inline void counter_add(_Atomic uint64_t *counter, uint64_t value)
{
    (void)atomic_fetch_add_explicit(counter, value, memory_order_relaxed);
}

/** Of a counter that one thread at a time writes: without a read-modify-write. */
static inline void counter_step(_Atomic uint64_t *counter, uint64_t value)
{
    const uint64_t before = atomic_load_explicit(counter, memory_order_relaxed);

    atomic_store_explicit(counter, before + value, memory_order_relaxed);
}

static inline void counter_set(_Atomic uint64_t *counter, uint64_t value)
{
    atomic_store_explicit(counter, value, memory_order_relaxed);
}

static inline uint64_t counter_get(const _Atomic uint64_t *counter)
{
    return atomic_load_explicit(counter, memory_order_relaxed);
}

/** The class of so many bytes: they are at most 1 << class, and more than half of that. */
unsigned metrics_size_class(uint64_t bytes);
/** Counts a batch that has ended. The engine alone. */
void metrics_count(struct metrics *metrics, const struct metrics_batch *batch);
/** A fusion buffer is taken by a batch of a set (bytes > 0), or given back. The engine alone. */
void metrics_fusion(struct metrics *metrics, uint32_t set, int64_t bytes);

/** What a row says. */
struct metrics_total {
    const char *collective,
            *backend; /* the backend's is copied to `name`             */
    char name[METRICS_BACKEND_BYTES];
    uint64_t size; /* of a batch at most                                              */
    uint64_t operations, batches, bytes, time_ns;
};

/** Reads a row; nothing in it is believed. False: it is free. */
bool metrics_read_row(
        const struct metrics *metrics, int row, struct metrics_total *total);

/** A rank whose metrics are told. */
struct metrics_source {
    const struct metrics *metrics; /* may be a copy of what somebody else has written */
    int rank, size;
    bool is_up; /* it has not ended                                                   */
};

/** Tells all samples of some ranks, those of one name one after the other. Pure. */
void metrics_visit(const struct metrics_source *sources, size_t count,
        tutti_metric_callback callback, void *user);
/** Appends them in a format, with the time of day in seconds where that has one. Pure. */
void metrics_format(struct wire_writer *out, tutti_metrics_format format,
        const struct metrics_source *sources, size_t count, double time);
/**
 * Writes text to a file: replaces it, by rename, or appends (formats of lines).
 * @return TUTTI_OK, TUTTI_ERR_SYSTEM, TUTTI_ERR_NO_MEMORY (the text has failed)
 */
TUTTI_MUST_USE tutti_status metrics_save(
        const char *path, tutti_metrics_format format, const struct wire_writer *text);

/** A name of metrics_visit(), for the documentation: without a sample. */
struct metrics_name {
    const char *name, *labels, *help;
    tutti_metric_kind kind;
};
/** All, in the order of the visit. */
const struct metrics_name *metrics_families(size_t *count);

#endif
