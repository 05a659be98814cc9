/*
 * Event files of TensorBoard.
 *
 * A file is a sequence of TFRecords (tensorflow/core/lib/io/record_writer.h):
 *
 *     uint64  length of the data          little endian, as all that follows
 *     uint32  masked CRC-32C of the length
 *     byte    data[length]
 *     uint32  masked CRC-32C of the data
 *
 * with mask(c) = (c rotated right by 15) + 0xa282ead8. The data are an Event
 * (tensorflow/core/util/event.proto) in the encoding of protocol buffers. A message inside
 * another has its length in front, so a record is written from its end to its beginning:
 * every length is known when its turn comes.
 */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"
#include "error.h"
#include "loop/trainer.h"
#include "options.h"
#include "state/checkpoint.h"
#include "state/crc32c.h"

enum {
    BUFFER_BYTES = 64 * 1024,
    RECORD_BYTES_MAX = TUTTI_EVENTS_TAG_MAX + 128,
    DATA_END = RECORD_BYTES_MAX - sizeof(uint32_t), /* the checksum is behind it */
    HOST_BYTES = 256,
    NAME_TRIES = 1000,
};

/* Keys of fields: number << 3 | kind; a varint is of kind 0, 8 bytes 1, bytes 2, 4 bytes 5. */
enum event_key {
    EVENT_WALL_TIME = 1 << 3 | 1,
    EVENT_STEP = 2 << 3 | 0,
    EVENT_FILE_VERSION = 3 << 3 | 2,
    EVENT_SUMMARY = 5 << 3 | 2,
    EVENT_SESSION_LOG = 7 << 3 | 2,
    SESSION_LOG_STATUS = 1 << 3 | 0,
    SESSION_START = 1, /* a status: what comes at or after the step is new */
    SUMMARY_VALUE = 1 << 3 | 2,
    VALUE_TAG = 1 << 3 | 2,
    VALUE_SIMPLE = 2 << 3 | 5,
};

/** A record that grows toward its beginning. */
struct record {
    size_t first; /* index of its first byte; at first DATA_END */
    uint8_t bytes[RECORD_BYTES_MAX];
};

struct tutti_events {
    struct log_file file;
    int64_t flush_ns;
    int64_t written_ns; /* of the last write, monotonic      */
    size_t used; /* bytes in the buffer: whole records */
    uint8_t buffer[BUFFER_BYTES];
};

void tutti_events_options_default_sized(tutti_events_options *options, size_t size)
{
    const tutti_events_options defaults = { .size = size, .flush_s = 10, .suffix = "" };

    options_give(options, size, &defaults, sizeof defaults);
}

/* ------------------------------------------------------ files that grow at their end */

tutti_status log_file_open(
        struct log_file *file, const char *directory, const char *name, bool fresh)
{
    const int flags = O_WRONLY | O_CREAT | O_CLOEXEC | (fresh ? O_EXCL : 0);
    tutti_status status = TUTTI_OK;

    errno = ENAMETOOLONG;
    file->fd = -1;
    if (snprintf(file->path, sizeof file->path, "%s/%s", directory, name) < PATH_MAX) {
        file->fd = open(file->path, flags, 0666);
    }
    if (file->fd < 0) {
        status = fresh && errno == EEXIST ? TUTTI_AGAIN
                                          : error_system("create", file->path);
        file->path[0] = '\0';
        return status;
    }
    file->bytes = lseek(file->fd, 0, SEEK_END);
    return status;
}

tutti_status log_file_append(struct log_file *file, const void *data, size_t bytes)
{
    const off_t end = file->bytes + (off_t)bytes;
    const char *next = data;
    off_t at = file->bytes;

    while (at < end) {
        ssize_t wrote = pwrite(file->fd, next, (size_t)(end - at), at);

        if (wrote == 0 || (wrote < 0 && errno != EINTR)) {
            tutti_status status;

            errno = wrote == 0 ? ENOSPC : errno;
            status = error_system("write to", file->path);
            (void)!ftruncate(
                    file->fd, file->bytes); /* readers see whole records only */
            return status;
        }
        at += wrote > 0 ? wrote : 0;
        next += wrote > 0 ? wrote : 0;
    }
    file->bytes = end;
    return TUTTI_OK;
}

tutti_status log_file_close(struct log_file *file)
{
    tutti_status status = TUTTI_OK;

    if (file->path[0] != '\0' && close(file->fd) != 0) {
        status = error_system("write to", file->path);
    }
    file->path[0] = '\0';
    return status;
}

/* ---------------------------------------------------------------------------- records */

static void put(struct record *record, const void *data, size_t bytes)
{
    record->first -= bytes;
    memcpy(record->bytes + record->first, data, bytes);
}

/** A number in groups of 7 bits, all but the last with the eighth bit set. */
static void put_varint(struct record *record, uint64_t number)
{
    uint8_t groups[10];
    size_t n = 0;

    for (; number > 0x7f; number >>= 7) {
        groups[n++] = (uint8_t)(number | 0x80);
    }
    groups[n++] = (uint8_t)number;
    put(record, groups, n);
}

/** Makes what lies between the first byte and `end` a field of a message around it. */
static void put_length(struct record *record, enum event_key key, size_t end)
{
    put_varint(record, end - record->first);
    put_varint(record, key);
}

static void put_string(struct record *record, enum event_key key, const char *text)
{
    size_t end = record->first;

    put(record, text, strlen(text));
    put_length(record, key, end);
}

static uint32_t masked_crc(const void *data, size_t bytes)
{
    uint32_t crc = crc32c(0, data, bytes);

    return (crc >> 15 | crc << 17) + 0xa282ead8U;
}

static tutti_status write_buffer(tutti_events *events)
{
    tutti_status status = log_file_append(&events->file, events->buffer, events->used);

    if (status == TUTTI_OK) {
        events->used = 0;
        events->written_ns = clock_ns(CLOCK_MONOTONIC);
    }
    return status;
}

/**
 * Ends an event: puts its step and time, and the frame. Buffers it, and writes the buffer if it is
 * time to. After an error it is not there.
 */
static tutti_status add(tutti_events *events, struct record *record, int64_t step)
{
    const double wall = (double)clock_ns(CLOCK_REALTIME) * 1e-9;
    tutti_status status = TUTTI_OK;
    uint64_t length;
    uint32_t crc;
    size_t bytes;

    if (step != 0) {
        put_varint(record, (uint64_t)step);
        put_varint(record, EVENT_STEP);
    }
    put(record, &wall, sizeof wall);
    put_varint(record, EVENT_WALL_TIME);
    length = DATA_END - record->first;
    crc = masked_crc(record->bytes + record->first, length);
    memcpy(record->bytes + DATA_END, &crc, sizeof crc);
    crc = masked_crc(&length, sizeof length);
    put(record, &crc, sizeof crc);
    put(record, &length, sizeof length);

    bytes = RECORD_BYTES_MAX - record->first;
    if (bytes > BUFFER_BYTES - events->used) {
        status = write_buffer(events);
    }
    if (status != TUTTI_OK) {
        return status;
    }
    memcpy(events->buffer + events->used, record->bytes + record->first, bytes);
    events->used += bytes;
    if (clock_ns(CLOCK_MONOTONIC) - events->written_ns >= events->flush_ns) {
        status = write_buffer(events);
        events->used -= status == TUTTI_OK ? 0 : bytes;
    }
    return status;
}

/* ------------------------------------------------------------------------- event files */

/** Opens a file under the first number that is free, and writes its head. */
static tutti_status open_file(
        tutti_events *events, const char *directory, const char *suffix)
{
    struct record version = { .first = DATA_END };
    char host[HOST_BYTES] = "localhost";
    char name[HOST_BYTES + 128];
    tutti_status status = TUTTI_AGAIN;

    (void)gethostname(host, sizeof host - 1);
    for (int i = 0; i < NAME_TRIES && status == TUTTI_AGAIN; i++) {
        int length =
                snprintf(name, sizeof name, "events.out.tfevents.%010lld.%s.%ld.%d%s",
                        (long long)time(NULL), host, (long)getpid(), i, suffix);

        if (length < 0 || (size_t)length >= sizeof name) {
            return error_set(TUTTI_ERR_INVALID,
                    "the suffix \"%.20s...\" of an event file is too long", suffix);
        }
        status = log_file_open(&events->file, directory, name, true);
    }
    if (status == TUTTI_AGAIN) {
        return error_set(TUTTI_ERR_SYSTEM,
                "%s has %d event files of this second already", directory, NAME_TRIES);
    }
    if (status == TUTTI_OK) {
        put_string(&version, EVENT_FILE_VERSION, "brain.Event:2");
        status = add(events, &version, 0);
    }
    return status == TUTTI_OK ? write_buffer(events) : status;
}

tutti_status tutti_events_open(const char *directory,
        const tutti_events_options *options, tutti_events **events)
{
    tutti_events_options settings;
    tutti_events *opened;
    tutti_status status;

    if (directory == NULL || directory[0] == '\0' || events == NULL ||
            (options != NULL && options->size == 0)) {
        return error_set(TUTTI_ERR_INVALID,
                "tutti_events_open: the directory, the result or the size of the "
                "options is missing");
    }
    tutti_events_options_default(&settings);
    options_take(&settings, sizeof settings, options);
    if (!(settings.flush_s >= 0) || settings.flush_s > 1e9 || settings.suffix == NULL ||
            strchr(settings.suffix, '/') != NULL) {
        return error_set(TUTTI_ERR_INVALID,
                "tutti_events_open: flush_s %g must be 0 to 1e9, and the suffix may "
                "not be NULL or have a \"/\"",
                settings.flush_s);
    }
    opened = calloc(1, sizeof *opened);
    if (opened == NULL) {
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory for an event file");
    }
    opened->flush_ns = (int64_t)(settings.flush_s * 1e9);
    opened->written_ns = clock_ns(CLOCK_MONOTONIC);
    status = directory_create(directory);
    if (status == TUTTI_OK) {
        status = open_file(opened, directory, settings.suffix);
    }
    if (status != TUTTI_OK) {
        (void)log_file_close(&opened->file);
        free(opened);
        return status;
    }
    *events = opened;
    return TUTTI_OK;
}

static bool tag_valid(const char *tag)
{
    size_t bytes = tag == NULL ? 0 : strnlen(tag, TUTTI_EVENTS_TAG_MAX + 1);
    json_t *text = bytes == 0 || bytes > TUTTI_EVENTS_TAG_MAX ? NULL : json_string(tag);
    bool valid = text != NULL; /* NULL if it is no UTF-8, which readers refuse */

    json_decref(text);
    return valid;
}

tutti_status tutti_events_scalar(
        tutti_events *events, const char *tag, int64_t step, double value)
{
    const float single = (float)value;
    struct record record = { .first = DATA_END };

    if (events == NULL || !tag_valid(tag)) {
        return error_set(TUTTI_ERR_INVALID,
                "tutti_events_scalar: the writer is NULL, or the tag \"%.40s\" is not "
                "1 to %d bytes of UTF-8",
                tag == NULL ? "" : tag, TUTTI_EVENTS_TAG_MAX);
    }
    put(&record, &single, sizeof single);
    put_varint(&record, VALUE_SIMPLE);
    put_string(&record, VALUE_TAG, tag);
    put_length(&record, SUMMARY_VALUE, DATA_END);
    put_length(&record, EVENT_SUMMARY, DATA_END);
    return add(events, &record, step);
}

tutti_status tutti_events_restart(tutti_events *events, int64_t step)
{
    struct record record = { .first = DATA_END };

    if (events == NULL) {
        return error_set(TUTTI_ERR_INVALID, "tutti_events_restart: the writer is NULL");
    }
    put_varint(&record, SESSION_START);
    put_varint(&record, SESSION_LOG_STATUS);
    put_length(&record, EVENT_SESSION_LOG, DATA_END);
    return add(events, &record, step);
}

tutti_status tutti_events_flush(tutti_events *events)
{
    if (events == NULL) {
        return error_set(TUTTI_ERR_INVALID, "tutti_events_flush: the writer is NULL");
    }
    return write_buffer(events);
}

tutti_status tutti_events_close(tutti_events *events)
{
    tutti_status written;
    tutti_status closed;

    if (events == NULL) {
        return TUTTI_OK;
    }
    written = write_buffer(events);
    closed = log_file_close(&events->file);
    free(events);
    return written != TUTTI_OK ? written : closed;
}
