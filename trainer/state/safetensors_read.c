/*
 * Reads a safetensors file, which may be damaged in any way.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "error.h"
#include "state/crc32c.h"
#include "state/safetensors.h"

enum {
    HEADER_MAX = 100 * 1000 * 1000 /* as the reference implementation */
};

static tutti_status damaged(const struct safetensors_file *file, const char *what)
{
    return error_set(TUTTI_ERR_INVALID, "%s is no safetensors file, or is damaged: %s",
            file->path, what);
}

/** Reads all bytes, or fails. */
static tutti_status read_all(
        const struct safetensors_file *file, int64_t offset, void *data, size_t bytes)
{
    for (size_t at = 0; at < bytes;) {
        ssize_t got = pread(
                file->fd, (char *)data + at, bytes - at, (off_t)offset + (off_t)at);

        if (got < 0 && errno != EINTR) {
            return error_system("read", file->path);
        }
        if (got == 0) {
            return error_set(TUTTI_ERR_INVALID,
                    "%s is cut off: it ends at byte %lld, and %zu more are needed",
                    file->path, (long long)offset + (long long)at, bytes - at);
        }
        at += got > 0 ? (size_t)got : 0;
    }
    return TUTTI_OK;
}

/** Where the bytes of an entry are, behind the header. */
static tutti_status find_place(const struct safetensors_file *file, const char *name,
        json_t *json, json_int_t *begin, json_int_t *end)
{
    if (json_unpack(json, "{s:[I, I!]}", "data_offsets", begin, end) != 0 ||
            *begin < 0 || *end < *begin) {
        return error_set(TUTTI_ERR_INVALID,
                "%s is damaged: the entry of tensor \"%.200s\" in its header is "
                "missing "
                "or malformed",
                file->path, name);
    }
    if (*end > file->data_bytes) {
        return error_set(TUTTI_ERR_INVALID,
                "%s is cut off, or damaged: tensor \"%.200s\" should end at byte %lld "
                "of the data, of which there are %lld",
                file->path, name, (long long)*end, (long long)file->data_bytes);
    }
    return TUTTI_OK;
}

tutti_status safetensors_find(const struct safetensors_file *file, const char *name,
        struct safetensors_entry *entry)
{
    json_t *json = json_object_get(file->header, name);
    json_int_t begin = 0;
    json_int_t end = 0;
    tutti_status status = find_place(file, name, json, &begin, &end);

    *entry = (struct safetensors_entry){ .tensor.name = name };
    if (status != TUTTI_OK) {
        return status;
    }
    if (!state_from_json(json, &entry->tensor, entry->dims) ||
            end - begin != state_bytes(&entry->tensor)) {
        return error_set(TUTTI_ERR_INVALID,
                "%s is damaged, or has a type that tutti does not know: the entry of "
                "tensor \"%.200s\" in its header is malformed",
                file->path, name);
    }
    entry->begin = begin;
    return TUTTI_OK;
}

/**
 * Every entry has a place, and together they have the bytes of the file. What is in it is asked
 * when it is read: other programs store types that tutti does not have.
 */
static tutti_status check_entries(const struct safetensors_file *file)
{
    int64_t rest = file->data_bytes;
    tutti_status status = TUTTI_OK;
    const char *name;
    json_t *json;

    json_object_foreach(file->header, name, json)
    {
        json_int_t begin;
        json_int_t end;

        if (status == TUTTI_OK && strcmp(name, "__metadata__") != 0) {
            status = find_place(file, name, json, &begin, &end);
            rest -= status == TUTTI_OK ? end - begin : 0;
        }
        if (status == TUTTI_OK && rest < 0) {
            status = damaged(file, "tensors overlap");
        }
    }
    return status == TUTTI_OK && rest > 0
            ? damaged(file, "it has bytes that belong to no tensor")
            : status;
}

static tutti_status read_header(struct safetensors_file *file, int64_t file_bytes)
{
    uint64_t length = 0;
    tutti_status status = read_all(file, 0, &length, sizeof length);
    json_error_t error;
    char *text;

    if (status != TUTTI_OK) {
        return status;
    }
    if (length > HEADER_MAX) {
        return damaged(file, "its header would be longer than 100 MB");
    }
    text = malloc((size_t)length + 1);
    if (text == NULL) {
        return error_set(TUTTI_ERR_NO_MEMORY,
                "no memory for the header of %s, %llu bytes", file->path,
                (unsigned long long)length);
    }
    status = read_all(file, sizeof length, text, (size_t)length);
    if (status == TUTTI_OK) {
        file->header = json_loadb(text, (size_t)length, JSON_REJECT_DUPLICATES, &error);
        file->data_begin = (int64_t)(sizeof length + length);
        file->data_bytes = file_bytes - file->data_begin;
        status = json_is_object(file->header)
                ? check_entries(file)
                : damaged(file, "its header is no JSON object");
    }
    free(text);
    return status;
}

tutti_status safetensors_open(struct safetensors_file *file, const char *path)
{
    struct stat facts;
    tutti_status status;

    (void)snprintf(file->path, sizeof file->path, "%s", path);
    file->fd =
            open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC); /* a FIFO is refused below */
    if (file->fd < 0 || fstat(file->fd, &facts) != 0) {
        status = error_system("open", path);
    } else if (!S_ISREG(facts.st_mode)) {
        status = damaged(file, "it is no regular file");
    } else {
        status = read_header(file, facts.st_size);
    }
    if (status != TUTTI_OK) {
        safetensors_close(file);
    }
    return status;
}

void safetensors_close(struct safetensors_file *file)
{
    if (file->path[0] != '\0' && file->fd >= 0) {
        (void)close(file->fd);
    }
    json_decref(file->header);
    *file = (struct safetensors_file){ .fd = -1 };
}

const char *safetensors_text(const struct safetensors_file *file, const char *key)
{
    return json_string_value(
            json_object_get(json_object_get(file->header, "__metadata__"), key));
}

/** Compares the checksum of a block of a tensor, if the file has one for it. */
static tutti_status check_block(const struct safetensors_file *file, const char *name,
        int64_t begin, const void *data, size_t bytes)
{
    char key[sizeof SAFETENSORS_CHECKSUM + STATE_NAME_MAX];
    char digits[SAFETENSORS_DIGITS];
    size_t at = (size_t)(begin / SAFETENSORS_BLOCK) * SAFETENSORS_DIGITS;
    const char *checksums;

    (void)snprintf(key, sizeof key, SAFETENSORS_CHECKSUM "%s", name);
    checksums = safetensors_text(file, key);
    if (checksums == NULL) {
        return TUTTI_OK;
    }
    (void)snprintf(digits, sizeof digits, "%08x", (unsigned)crc32c(0, data, bytes));
    if (strlen(checksums) >= at &&
            strncmp(checksums + at, digits, sizeof digits - 1) == 0) {
        return TUTTI_OK;
    }
    return error_set(TUTTI_ERR_INVALID,
            "tensor \"%s\" in %s is damaged: bytes %lld to %lld of it do not have the "
            "checksum that they were written with; load an earlier checkpoint",
            name, file->path, (long long)begin,
            (long long)begin + (long long)bytes - 1);
}

tutti_status safetensors_read(const struct safetensors_file *file,
        const struct safetensors_entry *entry, int64_t first, int64_t bytes, void *out,
        void *buffer)
{
    int64_t all = state_bytes(&entry->tensor);
    int64_t begin = first / SAFETENSORS_BLOCK * SAFETENSORS_BLOCK;
    int64_t end = first + bytes;
    tutti_status status = TUTTI_OK;

    for (; status == TUTTI_OK && begin < end && bytes > 0; begin += SAFETENSORS_BLOCK) {
        int64_t rest = all - begin;
        size_t length = (size_t)(rest < SAFETENSORS_BLOCK ? rest : SAFETENSORS_BLOCK);
        int64_t from = begin < first ? first : begin;
        int64_t to = begin + (int64_t)length;

        status =
                read_all(file, file->data_begin + entry->begin + begin, buffer, length);
        if (status == TUTTI_OK) {
            status = check_block(file, entry->tensor.name, begin, buffer, length);
        }
        if (status == TUTTI_OK && out != NULL) {
            memcpy((char *)out + (from - first), (char *)buffer + (from - begin),
                    (size_t)((to < end ? to : end) - from));
        }
    }
    return status;
}
