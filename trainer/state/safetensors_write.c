/*
 * Writes a safetensors file: the data first, then the header with their checksums.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "error.h"
#include "state/crc32c.h"
#include "state/safetensors.h"

static size_t checksum_bytes(const tutti_state_tensor *entry)
{
    return (size_t)((state_bytes(entry) + SAFETENSORS_BLOCK - 1) / SAFETENSORS_BLOCK *
            SAFETENSORS_DIGITS);
}

/** Fills a text, which it takes over, with spaces up to a multiple of 8; NULL: no memory. */
static char *pad(char *text)
{
    const size_t len = text == NULL ? 0 : strlen(text);
    const size_t padded = (len + 7) & ~(size_t)7;
    char *grown = text == NULL ? NULL : realloc(text, padded + 1);

    if (grown == NULL) {
        free(text);
        return NULL;
    }
    memset(grown + len, ' ', padded - len);
    grown[padded] = '\0';
    return grown;
}

/**
 * The header, to be freed; NULL: no memory. Its length does not depend on the checksums, and is
 * a multiple of 8.
 */
static char *make_header(const struct safetensors_writer *writer)
{
    json_t *header = json_pack("{s:O}", "__metadata__", writer->metadata);
    const char *checksums = writer->checksums;
    json_int_t begin = 0;
    bool done = true;
    char *text;

    for (size_t i = 0; done && i < writer->n; i++) {
        const tutti_state_tensor *entry = &writer->entries[i];
        json_int_t end = begin + state_bytes(entry);
        size_t bytes = checksum_bytes(entry);
        char key[sizeof SAFETENSORS_CHECKSUM + STATE_NAME_MAX];

        (void)snprintf(key, sizeof key, SAFETENSORS_CHECKSUM "%s", entry->name);
        done = json_object_set_new(writer->metadata, key,
                       json_stringn(checksums, bytes > 0 ? bytes - 1 : 0)) == 0 &&
                json_object_set_new(header, entry->name,
                        state_to_json(entry, "data_offsets",
                                json_pack("[I, I]", begin, end))) == 0;
        checksums += bytes;
        begin = end;
    }
    text = done ? pad(json_dumps(header, JSON_COMPACT)) : NULL;
    json_decref(header);
    return text;
}

static tutti_status no_memory(const char *path)
{
    return error_set(TUTTI_ERR_NO_MEMORY, "no memory for the header of %s", path);
}

tutti_status safetensors_create(struct safetensors_writer *writer, const char *path,
        const tutti_state_tensor *entries, size_t n, json_t *metadata)
{
    size_t checksums = 0;
    int64_t bytes = 0;
    char *header;

    for (size_t i = 0; i < n; i++) {
        checksums += checksum_bytes(&entries[i]);
        bytes += state_bytes(&entries[i]);
    }
    *writer = (struct safetensors_writer){
        .path = path,
        .fd = -1,
        .entries = entries,
        .n = n,
        .metadata = metadata,
        .checksums = malloc(checksums + 1),
    };
    if (writer->checksums == NULL) {
        return no_memory(path);
    }
    writer->checksum = memset(writer->checksums, ' ', checksums);
    header = make_header(writer);
    if (header == NULL) {
        return no_memory(path);
    }
    writer->end = (int64_t)(sizeof(uint64_t) + strlen(header));
    free(header);
    writer->fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (writer->fd < 0) {
        return error_system("create", path);
    }
    /* A full disk is found before any data have moved, where the file system can tell. */
    if (fallocate(writer->fd, 0, 0, (off_t)(writer->end + bytes)) != 0 &&
            errno != EOPNOTSUPP && errno != ENOSYS && errno != EINTR) {
        return error_system("find the space for", path);
    }
    return TUTTI_OK;
}

static tutti_status write_all(const struct safetensors_writer *writer, int64_t offset,
        const void *data, size_t bytes)
{
    for (size_t at = 0; at < bytes;) {
        ssize_t done = pwrite(writer->fd, (const char *)data + at, bytes - at,
                (off_t)offset + (off_t)at);

        if (done < 0 && errno != EINTR) {
            return error_system("write", writer->path);
        }
        at += done > 0 ? (size_t)done : 0;
    }
    return TUTTI_OK;
}

tutti_status safetensors_append(
        struct safetensors_writer *writer, const void *data, int64_t bytes)
{
    const char *at = data;
    tutti_status status = TUTTI_OK;

    while (status == TUTTI_OK && bytes > 0) {
        int64_t room = SAFETENSORS_BLOCK - writer->written % SAFETENSORS_BLOCK;
        size_t now = (size_t)(bytes < room ? bytes : room);
        char digits[SAFETENSORS_DIGITS];

        if (writer->written == state_bytes(&writer->entries[writer->entry])) {
            writer->entry++; /* it is complete, or without elements */
            writer->written = 0;
            continue;
        }
        if (room == SAFETENSORS_BLOCK) {
            writer->crc = 0;
            writer->checksum += SAFETENSORS_DIGITS;
        }
        writer->crc = crc32c(writer->crc, at, now);
        (void)snprintf(digits, sizeof digits, "%08x", (unsigned)writer->crc);
        memcpy(writer->checksum - SAFETENSORS_DIGITS, digits, sizeof digits - 1);
        status = write_all(writer, writer->end, at, now);
        writer->written += (int64_t)now;
        writer->end += (int64_t)now;
        at += now;
        bytes -= (int64_t)now;
    }
    return status;
}

tutti_status safetensors_finish(struct safetensors_writer *writer)
{
    char *header = make_header(writer);
    uint64_t length = header == NULL ? 0 : strlen(header);
    tutti_status status = header == NULL ? no_memory(writer->path)
                                         : write_all(writer, 0, &length, sizeof length);

    if (status == TUTTI_OK) {
        status = write_all(writer, sizeof length, header, (size_t)length);
    }
    free(header);
    if (status == TUTTI_OK && fsync(writer->fd) != 0) {
        status = error_system("put on disk", writer->path);
    }
    if (close(writer->fd) != 0 && status == TUTTI_OK) {
        status = error_system("close", writer->path);
    }
    writer->fd = -1;
    return status;
}

void safetensors_discard(struct safetensors_writer *writer)
{
    if (writer->path != NULL && writer->fd >= 0) {
        (void)close(writer->fd);
    }
    free(writer->checksums);
    json_decref(writer->metadata);
    *writer = (struct safetensors_writer){ .fd = -1 };
}
