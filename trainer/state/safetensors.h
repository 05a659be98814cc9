/*
 * Files in the format safetensors (https://huggingface.co/docs/safetensors):
 *
 *     uint64  length of the header           little endian
 *     char    header[length]                 JSON, filled up with spaces
 *     byte    data[]                         the tensors, side by side
 *
 * The header is an object: for each tensor {"dtype": "F32", "shape": [3, 4],
 * "data_offsets": [begin, end]}, and "__metadata__" of texts. Ours has checksums among the
 * metadata: "tutti.crc32c.NAME" is the CRC-32C of each 4 MiB of the tensor, 8 hexadecimal
 * digits each, separated by spaces.
 */
#ifndef TUTTI_TRAINER_STATE_SAFETENSORS_H
#define TUTTI_TRAINER_STATE_SAFETENSORS_H

#include <jansson.h>
#include <limits.h>
#include <stddef.h>
#include <stdint.h>

#include "state/tensors.h"

#define SAFETENSORS_CHECKSUM "tutti.crc32c."

enum {
    SAFETENSORS_BLOCK = 4 << 20, /* bytes under one checksum */
    SAFETENSORS_DIGITS = 9 /* of a checksum, and a space */
};

/** A file that is written; zeroed is valid for safetensors_discard(). */
struct safetensors_writer {
    const char *path; /* borrowed; NULL: there is no file */
    int fd; /* -1: not open */
    const tutti_state_tensor *entries; /* whole; borrowed, in the order of the data */
    size_t n;
    json_t *metadata; /* owned */
    char *checksums; /* of all blocks, as in the header; owned */
    char *checksum; /* of the next block */
    uint32_t crc; /* of the block that is being written */
    size_t entry; /* being written */
    int64_t written; /* bytes of it */
    int64_t end; /* of what has been written */
};

/**
 * Creates a file with room for all data, which begin with the largest elements, so that all are
 * aligned.
 * @param entries   their data and parts are not looked at
 * @param metadata  texts; one reference is taken, also on failure
 */
TUTTI_MUST_USE tutti_status safetensors_create(struct safetensors_writer *writer,
        const char *path, const tutti_state_tensor *entries, size_t n,
        json_t *metadata);

/** Appends bytes of the entry whose turn it is; never beyond its end. */
TUTTI_MUST_USE tutti_status safetensors_append(
        struct safetensors_writer *writer, const void *data, int64_t bytes);

/** Writes the header, and waits until all is on disk. All entries must be complete. */
TUTTI_MUST_USE tutti_status safetensors_finish(struct safetensors_writer *writer);

/** Frees a writer. A file that was not finished is the caller's to remove. */
void safetensors_discard(struct safetensors_writer *writer);

/** A file that is read; zeroed is valid for safetensors_close(). */
struct safetensors_file {
    char path[PATH_MAX];
    int fd;
    json_t *header; /* owned; NULL: not open */
    int64_t data_begin; /* in the file */
    int64_t data_bytes;
};

/** A tensor in a file. */
struct safetensors_entry {
    tutti_state_tensor tensor; /* name, type and shape */
    int64_t dims[TUTTI_DIMS_MAX];
    int64_t begin; /* first byte of its data */
};

/** Opens a file and checks all of its header. TUTTI_ERR_INVALID: it is cut off, or damaged. */
TUTTI_MUST_USE tutti_status safetensors_open(
        struct safetensors_file *file, const char *path);
void safetensors_close(struct safetensors_file *file);

/** Finds a tensor. TUTTI_ERR_INVALID: there is none of this name, or it is malformed. */
TUTTI_MUST_USE tutti_status safetensors_find(const struct safetensors_file *file,
        const char *name, struct safetensors_entry *entry);

/** A text of the metadata; NULL if there is none. */
const char *safetensors_text(const struct safetensors_file *file, const char *key);

/**
 * Reads bytes of a tensor, with their checksums where the file has some.
 * @param out     NULL: they are only checked
 * @param buffer  SAFETENSORS_BLOCK bytes
 * @return TUTTI_ERR_INVALID: a checksum is wrong, or the file ends: names tensor and file
 */
TUTTI_MUST_USE tutti_status safetensors_read(const struct safetensors_file *file,
        const struct safetensors_entry *entry, int64_t first, int64_t bytes, void *out,
        void *buffer);

#endif
