/*
 * A reader of files of records of one size.
 *
 * The file is mapped, so ranks of a node share its pages, prefetching is one madvise(), and
 * tutti_records_at() copies nothing. Copies are made by pread() all the same: it reads the same
 * pages, and where the file has been truncated it says so, while a touch of the mapping would
 * end the process by SIGBUS.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <tutti/trainer/data.h>

#include "error.h"
#include "options.h"

struct tutti_records {
    tutti_records_options options; /* records: as many as there are */
    int fd;
    char *map; /* the whole file */
    size_t map_bytes;
    char path[]; /* for messages */
};

void tutti_records_options_default_sized(tutti_records_options *options, size_t size)
{
    const tutti_records_options defaults = { .size = size, .prefetch = 4 };

    options_give(options, size, &defaults, sizeof defaults);
}

/** Takes the number of records from the size of the file; it must be that which is expected. */
static tutti_status count_records(tutti_records *records)
{
    tutti_records_options *options = &records->options;
    size_t bytes = records->map_bytes;
    size_t header = options->header_bytes;
    size_t record = options->record_bytes;
    int64_t expected = options->records;
    size_t rest;

    if (bytes <= header) {
        return error_set(TUTTI_ERR_INVALID,
                "%s has no records: %zu bytes, of which the header has %zu",
                records->path, bytes, header);
    }
    rest = (bytes - header) % record;
    options->records = (int64_t)((bytes - header) / record);
    if (expected != 0 && (options->records != expected || rest != 0)) {
        return error_set(TUTTI_ERR_INVALID,
                "%s is %s than it should be: %zu bytes, where a header of %zu and %lld "
                "records of %zu bytes are expected",
                records->path, options->records < expected ? "shorter" : "longer",
                bytes, header, (long long)expected, record);
    }
    if (rest != 0) {
        return error_set(TUTTI_ERR_INVALID,
                "%s: %zu bytes after a header of %zu are no multiple of the record's "
                "%zu bytes; %zu are left over: the file is cut off, or the record has "
                "another size",
                records->path, bytes - header, header, record, rest);
    }
    return TUTTI_OK;
}

static tutti_status map_file(tutti_records *records)
{
    struct stat file;
    tutti_status status;
    void *map;

    records->fd = open(records->path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (records->fd < 0 || fstat(records->fd, &file) != 0) {
        return error_system("open", records->path);
    }
    if (!S_ISREG(file.st_mode)) {
        return error_set(TUTTI_ERR_INVALID, "%s is no regular file", records->path);
    }
    records->map_bytes = (size_t)file.st_size;
    status = count_records(records);
    if (status != TUTTI_OK) {
        return status;
    }
    map = mmap(NULL, records->map_bytes, PROT_READ, MAP_SHARED, records->fd, 0);
    if (map == MAP_FAILED) {
        return error_system("map", records->path);
    }
    records->map = map;
    return TUTTI_OK;
}

tutti_status tutti_records_open(
        const char *path, const tutti_records_options *options, tutti_records **records)
{
    tutti_records_options settings;
    tutti_records *made;
    tutti_status status;

    tutti_records_options_default(&settings);
    options_take(&settings, sizeof settings, options);
    if (path == NULL || records == NULL || settings.record_bytes == 0 ||
            settings.records < 0 || settings.prefetch < 0) {
        return error_set(TUTTI_ERR_INVALID,
                "%s: records of %zu bytes, %lld of them, %lld steps prefetched; a path "
                "and record_bytes are required, the others are 0 or more",
                path == NULL ? "no path" : path, settings.record_bytes,
                (long long)settings.records, (long long)settings.prefetch);
    }
    made = calloc(1, sizeof *made + strlen(path) + 1);
    if (made == NULL) {
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory to open %s", path);
    }
    memcpy(made->path, path, strlen(path));
    made->options = settings;
    status = map_file(made);
    if (status != TUTTI_OK) {
        tutti_records_close(made);
        return status;
    }
    *records = made;
    return TUTTI_OK;
}

void tutti_records_close(tutti_records *records)
{
    if (records == NULL) {
        return;
    }
    if (records->map != NULL) {
        (void)munmap(records->map, records->map_bytes);
    }
    if (records->fd >= 0) {
        (void)close(records->fd);
    }
    free(records);
}

int64_t tutti_records_count(const tutti_records *records)
{
    return records->options.records;
}

static bool has_record(const tutti_records *records, int64_t index)
{
    return index >= 0 && index < records->options.records;
}

static size_t offset_of(const tutti_records *records, int64_t index)
{
    return records->options.header_bytes +
            (size_t)index * records->options.record_bytes;
}

const void *tutti_records_at(const tutti_records *records, int64_t index)
{
    return has_record(records, index) ? records->map + offset_of(records, index) : NULL;
}

void tutti_records_prefetch(
        const tutti_records *records, const int64_t *indices, int64_t count)
{
    const size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);
    int64_t run; /* records side by side: one call */

    for (int64_t i = 0; i < count; i += run) {
        bool known = has_record(records, indices[i]);
        size_t first = known ? offset_of(records, indices[i]) : 0;

        run = 1;
        while (known && i + run < count && indices[i + run] == indices[i] + run &&
                has_record(records, indices[i + run])) {
            run++;
        }
        if (known) {
            (void)madvise(records->map + first - first % page_bytes,
                    first % page_bytes + (size_t)run * records->options.record_bytes,
                    MADV_WILLNEED);
        }
    }
}

static tutti_status truncated(const tutti_records *records, int64_t index, size_t end)
{
    struct stat file = { .st_size = -1 };

    (void)fstat(records->fd, &file);
    return error_set(TUTTI_ERR_INVALID,
            "%s has been truncated since it was opened: record %lld of %lld "
            "should end at byte %zu, and the file ends at %lld",
            records->path, (long long)index, (long long)records->options.records, end,
            (long long)file.st_size);
}

static tutti_status read_record(const tutti_records *records, int64_t index, char *out)
{
    size_t at = offset_of(records, index);
    const size_t end = at + records->options.record_bytes;

    while (at < end) {
        ssize_t got = pread(records->fd, out, end - at, (off_t)at);

        if (got < 0 && errno != EINTR) {
            return error_system("read", records->path);
        }
        if (got == 0) {
            return truncated(records, index, end);
        }
        at += got > 0 ? (size_t)got : 0;
        out += got > 0 ? got : 0;
    }
    return TUTTI_OK;
}

tutti_status tutti_records_read(
        const tutti_records *records, const int64_t *indices, int64_t count, void *out)
{
    const size_t bytes = records->options.record_bytes;
    tutti_status status = TUTTI_OK;

    for (int64_t i = 0; i < count; i++) {
        if (!has_record(records, indices[i])) {
            return error_set(TUTTI_ERR_INVALID,
                    "%s has no record %lld: it has %lld, from 0 on", records->path,
                    (long long)indices[i], (long long)records->options.records);
        }
    }
    for (int64_t i = 0; status == TUTTI_OK && i < count; i++) {
        status = read_record(records, indices[i], (char *)out + (size_t)i * bytes);
    }
    return status;
}

tutti_status tutti_records_next(const tutti_records *records, tutti_shard *shard,
        int64_t batch, int64_t *indices, void *out, int64_t *count)
{
    bool fresh = tutti_shard_get_state(shard).position == 0;
    tutti_status status;
    int64_t found;

    /* A step earlier this one and those up to the last were prefetched already. */
    for (int64_t ahead = fresh ? 1 : records->options.prefetch;
            ahead > 0 && ahead <= records->options.prefetch; ahead++) {
        found = tutti_shard_peek(shard, indices, batch, ahead);
        tutti_records_prefetch(records, indices, found);
    }
    found = tutti_shard_peek(shard, indices, batch, 0);
    status = tutti_records_read(records, indices, found, out);
    if (status != TUTTI_OK) {
        return status;
    }
    *count = tutti_shard_next(shard, indices, batch);
    return TUTTI_OK;
}
