/*
 * Parameters that can be changed while a job runs, as values that belong to one plan: the
 * coordinator chooses them (agree/tuner.h), and the log says them to all ranks with the
 * plan. Also the text in which they are kept for later runs. Pure.
 */
#ifndef TUTTI_BASE_TUNING_H
#define TUTTI_BASE_TUNING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/wire.h"

/** Named after the parameters of config.def. On the wire in this order: append only. */
enum tuning_knob {
    TUNING_FUSION_BYTES,
    TUNING_ALGORITHM,
    TUNING_GATHER_BYTES,
    TUNING_HIERARCHY,
    TUNING_CHUNK_BYTES,
    TUNING_INFLIGHT,
    TUNING_SPIN_US,
    TUNING_COUNT
};

/** Values of the parameters, choices by their index. 0: as configured. */
struct tuning {
    uint64_t values[TUNING_COUNT];
};

/** The value, or what is configured. */
static inline size_t tuning_or(
        const struct tuning *tuning, enum tuning_knob knob, size_t configured)
{
    return tuning->values[knob] != 0 ? (size_t)tuning->values[knob] : configured;
}

/** The name of the parameter. */
const char *tuning_name(enum tuning_knob knob);

void tuning_put(struct wire_writer *out, const struct tuning *tuning);
/** @return false when a value is none that the parameter may have */
bool tuning_get(struct wire_reader *in, struct tuning *tuning);

/** What differs from the configuration, "fusion_bytes=4194304 inflight=8", or "none". */
void tuning_describe(const struct tuning *tuning, char *text, size_t capacity);

/** Tensors of a plan and their bytes: they stand for a workload. */
struct workload {
    uint64_t tensors, bytes;
};

/** What was found out about a workload. */
struct tuning_record {
    struct workload workload;
    struct tuning tuning;
};

/** Longest text that stands for where a job runs, with its terminating zero. */
#define TUNING_PLACE_MAX 256

/**
 * Reads the next line of a file. Lines are "[place tensors=N bytes=N]", under which
 * "name=value" says what holds there, or "gain=..." what it was worth; or "# comment".
 * @param here   set by headings: whether they name `place`
 * @param record  written where `here`; a heading begins a new one
 * @return 1: a heading, 0: another line, -1: malformed
 */
int tuning_read_line(
        const char *line, const char *place, bool *here, struct tuning_record *record);
/** Writes a record as such lines; false when it does not fit. */
bool tuning_write(const struct tuning_record *record, const char *place, double gain,
        char *text, size_t capacity);

#endif
