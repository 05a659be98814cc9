/*
 * Scalars for TensorBoard: a writer of event files, without TensorFlow and without ranks.
 *
 *     tutti_events_open("logs/run1", NULL, &events);
 *     tutti_events_scalar(events, "loss", step, loss);
 *     tutti_events_close(events);
 *
 * A file is a sequence of TFRecords, each an Event message of TensorFlow's event.proto. It
 * holds the tags as TensorBoard's plugin for scalars reads them; the values are float32.
 */
#ifndef TUTTI_TRAINER_EVENTS_H
#define TUTTI_TRAINER_EVENTS_H

#include <stddef.h>
#include <stdint.h>

#include <tutti/tutti.h>

#ifdef __cplusplus
extern "C" {
#endif
#if defined(__GNUC__)
#    pragma GCC visibility push(default)
#endif

/** Longest tag in bytes, without the terminating zero. */
#define TUTTI_EVENTS_TAG_MAX 1000

/** Settings of a writer. Fill them with tutti_events_options_default(). */
typedef struct tutti_events_options {
    size_t size; /**< sizeof(tutti_events_options) as the caller knew it      */
    double flush_s; /**< a call finds that so many seconds have passed since the last write:
                         it writes what is buffered. 0: at every call; default 10 */
    const char
            *suffix; /**< at the end of the file's name, for example ".eval"; default ""
                             (read during the call only)                         */
} tutti_events_options;

/** Fills the first `size` bytes; call the macro without _sized. NULL is allowed. */
void tutti_events_options_default_sized(tutti_events_options *options, size_t size);

/** Fills options with the defaults and their size. */
#define tutti_events_options_default(options) \
    tutti_events_options_default_sized((options), sizeof(tutti_events_options))

/** A writer of one event file. One thread at a time. Opaque. */
typedef struct tutti_events tutti_events;

/**
 * Creates a file events.out.tfevents.<seconds>.<host>.<process>.<number><suffix>, never one
 * that is there already, and writes its head.
 * @param directory    created with its parents if missing; a run in TensorBoard's terms
 * @param options      NULL for the defaults
 * @param[out] events  released with tutti_events_close()
 * @return TUTTI_OK, TUTTI_ERR_INVALID, TUTTI_ERR_NO_MEMORY, TUTTI_ERR_SYSTEM (the directory or
 *         the file cannot be made or written: the message has its path and the reason)
 */
TUTTI_MUST_USE tutti_status tutti_events_open(const char *directory,
        const tutti_events_options *options, tutti_events **events);

/**
 * Adds a value, with the time of day. It is buffered (64 KiB) and reaches the file by the rule of
 * options.flush_s, when the buffer is full, with tutti_events_flush() and with
 * tutti_events_close().
 * @param tag    1 to TUTTI_EVENTS_TAG_MAX bytes of UTF-8; "/" groups the tags: "train/loss"
 * @param step   any number; TensorBoard draws values over it
 * @param value  rounded to float32; infinity and NaN are stored as they are
 * @return TUTTI_OK; TUTTI_ERR_INVALID; TUTTI_ERR_SYSTEM (for example a full disk): this value
 *         was not added, those before it are kept and are written with a later call. The file
 *         always ends with a whole record
 */
TUTTI_MUST_USE tutti_status tutti_events_scalar(
        tutti_events *events, const char *tag, int64_t step, double value);

/**
 * Adds the library's metrics of this rank (tutti_metrics_visit()) that are not 0, as
 * "tutti/NAME/LABEL/...", without the rank; of a histogram its sum and its count.
 * @return as tutti_events_scalar()
 */
TUTTI_MUST_USE tutti_status tutti_events_metrics(
        tutti_events *events, tutti *t, int64_t step);

/**
 * Marks that the run restarts at `step`: TensorBoard discards values from there on that it has
 * read from earlier files of the directory.
 * @return as tutti_events_scalar()
 */
TUTTI_MUST_USE tutti_status tutti_events_restart(tutti_events *events, int64_t step);

/**
 * Writes buffered values, so that readers see them. It does not wait for the disk.
 * @return TUTTI_OK, TUTTI_ERR_INVALID, TUTTI_ERR_SYSTEM as tutti_events_scalar()
 */
TUTTI_MUST_USE tutti_status tutti_events_flush(tutti_events *events);

/**
 * Flushes, closes the file and frees the writer, also after an error. NULL is allowed.
 * @return TUTTI_OK; TUTTI_ERR_SYSTEM: values still buffered are lost
 */
tutti_status tutti_events_close(tutti_events *events);

#if defined(__GNUC__)
#    pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif

#endif
