/*
 * Loads a checkpoint: each rank reads the elements that it has.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "state/checkpoint.h"
#include "state/safetensors.h"

/** A load that is under way. */
struct load {
    struct state_group group;
    tutti_checkpoint_options options;
    const tutti_state_tensor *tensors;
    size_t n;
    struct checkpoint_file file; /* what all ranks load, as rank 0 found it */
    char path[PATH_MAX]; /* of it */
    json_t *index; /* of a sharded checkpoint; owned */
    json_t *names; /* of its files; borrowed */
    json_t *stored; /* the tensors of the index, or the header of the one file; borrowed */
    json_t *metadata; /* likewise */
    struct safetensors_file
            *files; /* the one, or those of the index, opened as needed */
    size_t file_count;
    char *buffer; /* a block */
};

static tutti_status malformed(const struct load *load, const char *what)
{
    return error_set(TUTTI_ERR_INVALID,
            "%s is no index of a checkpoint, or is damaged: %s", load->path, what);
}

/* ------------------------------------------------------------------ opening */

/** Rank 0 looks into the directory; all load what it has found. */
static tutti_status find(struct load *load)
{
    tutti_status status = TUTTI_OK;

    load->file = (struct checkpoint_file){ .kind = CHECKPOINT_WHOLE,
        .step = load->options.step };
    if (load->options.file != NULL) {
        (void)snprintf(load->path, sizeof load->path, "%s", load->options.file);
        return TUTTI_OK;
    }
    if (load->group.rank == 0) {
        status = directory_find(load->options.directory, &load->file);
        if (status == TUTTI_OK && load->file.kind == CHECKPOINT_NONE &&
                load->options.step != TUTTI_CHECKPOINT_NEWEST) {
            status = error_set(TUTTI_ERR_INVALID, "%s has no checkpoint of step %lld",
                    load->options.directory, (long long)load->options.step);
        }
    }
    status = group_agree(&load->group, status);
    if (status == TUTTI_OK) {
        status = group_heard(load->group.t,
                tutti_broadcast(load->group.t, "tutti.checkpoint.choice", &load->file,
                        (int64_t)sizeof load->file, TUTTI_UINT8, 0,
                        &load->group.options));
    }
    (void)checkpoint_path(load->path, load->options.directory, &load->file);
    return status;
}

/** Checks the frame of an index; its files and tensors are checked as they are used. */
static tutti_status open_index(struct load *load)
{
    json_error_t error;
    int version;

    load->index = json_load_file(load->path, JSON_REJECT_DUPLICATES, &error);
    if (load->index == NULL) {
        return error_set(TUTTI_ERR_INVALID, "%s cannot be read, or is damaged: %s",
                load->path, error.text);
    }
    if (json_unpack(load->index, "{s:i, s:o, s:o, s?o}", "tutti", &version, "files",
                &load->names, "tensors", &load->stored, "metadata",
                &load->metadata) != 0 ||
            json_array_size(load->names) == 0 || !json_is_object(load->stored)) {
        return malformed(load, "it has no version, no files or no tensors");
    }
    load->file_count = json_array_size(load->names);
    return version == 1
            ? TUTTI_OK
            : malformed(load, "\"tutti\", the version of the format, is not 1");
}

static tutti_status open_checkpoint(struct load *load)
{
    tutti_status status = TUTTI_OK;

    load->file_count = 1;
    if (load->file.kind == CHECKPOINT_INDEX) {
        status = open_index(load);
    }
    load->buffer = malloc(SAFETENSORS_BLOCK);
    load->files = calloc(load->file_count, sizeof *load->files);
    if (load->buffer == NULL || load->files == NULL) {
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory to load a checkpoint");
    }
    if (load->file.kind == CHECKPOINT_WHOLE) {
        status = safetensors_open(load->files, load->path);
        load->stored = load->files->header;
        load->metadata = json_object_get(load->stored, "__metadata__");
    }
    return status;
}

/** A file of the index, opened once. */
static tutti_status open_part(struct load *load, size_t number)
{
    const char *name = json_string_value(json_array_get(load->names, number));
    char path[PATH_MAX];

    if (number < load->file_count && load->files[number].header != NULL) {
        return TUTTI_OK;
    }
    if (name == NULL || strchr(name, '/') != NULL) {
        return malformed(load, "a part is in a file that is not listed, or is no name");
    }
    (void)snprintf(path, sizeof path, "%s/%s", load->options.directory, name);
    return safetensors_open(&load->files[number], path);
}

/* ------------------------------------------------------------------ tensors */

/** A tensor of the checkpoint must be of the type and shape that are asked for. */
static tutti_status compare(const struct load *load, const tutti_state_tensor *tensor)
{
    json_t *json = json_object_get(load->stored, tensor->name);
    char found[SHAPE_TEXT_BYTES];
    char wanted[SHAPE_TEXT_BYTES];
    int64_t dims[TUTTI_DIMS_MAX];
    tutti_state_tensor stored;

    if (json == NULL) {
        return error_set(TUTTI_ERR_INVALID,
                "%s has no tensor \"%s\": it is the checkpoint of another model, or of "
                "another compressor",
                load->path, tensor->name);
    }
    if (!state_from_json(json, &stored, dims)) {
        return malformed(load,
                "an entry of a tensor is malformed, or of a type that tutti does not "
                "have");
    }
    if (stored.dtype == tensor->dtype && stored.ndim == tensor->ndim &&
            (tensor->ndim == 0 ||
                    memcmp(dims, tensor->dims, (size_t)tensor->ndim * sizeof *dims) ==
                            0)) {
        return TUTTI_OK;
    }
    return error_set(TUTTI_ERR_INVALID,
            "tensor \"%s\" in %s is %s, and %s is asked for: it is the checkpoint of "
            "another model",
            tensor->name, load->path, state_shape(found, &stored),
            state_shape(wanted, tensor));
}

/** Elements of a tensor in a file. */
struct range {
    json_int_t file;
    json_int_t first;
    json_int_t count;
};

/**
 * Reads what this rank has of a range.
 * @param[in,out] next  this rank's elements up to it have been read
 */
static tutti_status read_range(struct load *load, const tutti_state_tensor *tensor,
        const struct range *range, int64_t *next, bool store)
{
    int64_t size = (int64_t)tutti_dtype_size(tensor->dtype);
    int64_t end = tensor->first + tensor->count;
    const struct safetensors_file *file;
    struct safetensors_entry entry;
    int64_t begin = *next;
    tutti_status status;

    if (range->first > begin || range->first + range->count <= begin || begin >= end) {
        return TUTTI_OK; /* none of it is this rank's; or a gap, found by the caller */
    }
    status = open_part(load, (size_t)range->file);
    if (status != TUTTI_OK) {
        return status;
    }
    file = &load->files[range->file];
    status = safetensors_find(file, tensor->name, &entry);
    if (status != TUTTI_OK) {
        return status;
    }
    if (entry.tensor.dtype != tensor->dtype ||
            state_elements(&entry.tensor) != range->count) {
        return error_set(TUTTI_ERR_INVALID,
                "%s does not have elements %lld to %lld of tensor \"%s\", as %s says",
                file->path, (long long)range->first,
                (long long)(range->first + range->count - 1), tensor->name, load->path);
    }
    *next = range->first + range->count < end ? range->first + range->count : end;
    return safetensors_read(file, &entry, (begin - range->first) * size,
            (*next - begin) * size,
            store ? (char *)tensor->data + (begin - tensor->first) * size : NULL,
            load->buffer);
}

/** Reads what this rank has of a tensor, to check it, or to store it. */
static tutti_status read_tensor(
        struct load *load, const tutti_state_tensor *tensor, bool store)
{
    json_t *parts =
            json_object_get(json_object_get(load->stored, tensor->name), "parts");
    size_t count = load->index == NULL ? 1 : json_array_size(parts);
    int64_t next = tensor->first;
    tutti_status status = TUTTI_OK;

    for (size_t p = 0; status == TUTTI_OK && p < count; p++) {
        struct range range = { .count = state_elements(tensor) };

        if (load->index != NULL &&
                (json_unpack(json_array_get(parts, p), "[I, I, I]", &range.file,
                         &range.first, &range.count) != 0 ||
                        range.first < 0 || range.count <= 0 ||
                        range.count > INT64_MAX - range.first)) {
            return malformed(load, "a part of a tensor is no range");
        }
        status = read_range(load, tensor, &range, &next, store);
    }
    if (status == TUTTI_OK && next < tensor->first + tensor->count) {
        status = malformed(load, "elements of a tensor are in no part");
    }
    return status;
}

/** Every tensor of the checkpoint is asked for. */
static tutti_status check_unknown(const struct load *load)
{
    const char *name;
    json_t *json;

    json_object_foreach(load->stored, name, json)
    {
        bool known = strcmp(name, "__metadata__") == 0;

        for (size_t i = 0; !known && i < load->n; i++) {
            known = strcmp(name, load->tensors[i].name) == 0;
        }
        if (!known) {
            return error_set(TUTTI_ERR_INVALID,
                    "%s has a tensor \"%.200s\", which is not asked for: it is the "
                    "checkpoint of another model, or of another compressor; "
                    "tutti_checkpoint_load() leaves it out with ignore_unknown",
                    load->path, name);
        }
    }
    return TUTTI_OK;
}

/* --------------------------------------------------------------------- load */

/* Nothing is written to the tensors before all ranks have checked all that they read. */

static tutti_status check_all(struct load *load)
{
    tutti_status status = TUTTI_OK;

    /* All names and shapes first: they are quick to compare. */
    for (size_t i = 0; status == TUTTI_OK && i < load->n; i++) {
        status = compare(load, &load->tensors[i]);
    }
    if (status == TUTTI_OK && !load->options.ignore_unknown) {
        status = check_unknown(load);
    }
    for (size_t i = 0; status == TUTTI_OK && i < load->n; i++) {
        status = read_tensor(load, &load->tensors[i], false);
    }
    return status;
}

static tutti_status store_all(struct load *load)
{
    tutti_status status = TUTTI_OK;
    char text[512];

    for (size_t i = 0; status == TUTTI_OK && i < load->n; i++) {
        status = read_tensor(load, &load->tensors[i], true);
    }
    if (status == TUTTI_OK) {
        return TUTTI_OK;
    }
    (void)snprintf(text, sizeof text, "%s", tutti_last_error());
    return error_set(status,
            "%s has changed while it was loaded, and the tensors are undefined: %s",
            load->path, text);
}

static void tell_metadata(const struct load *load)
{
    const char *key;
    json_t *text;

    json_object_foreach(load->metadata, key, text)
    {
        if (json_is_string(text) && strncmp(key, "tutti.", 6) != 0) {
            load->options.on_metadata(load->options.user, key, json_string_value(text));
        }
    }
}

static tutti_status run(struct load *load)
{
    static tutti_status (*const steps[])(
            struct load *) = { open_checkpoint, check_all, store_all };
    tutti_status status = TUTTI_OK;

    for (size_t i = 0; status == TUTTI_OK && i < sizeof steps / sizeof *steps; i++) {
        status = group_agree(&load->group, steps[i](load));
    }
    if (status == TUTTI_OK && load->options.on_metadata != NULL) {
        tell_metadata(load);
    }
    if (status == TUTTI_OK && load->options.file != NULL) {
        const char *text = safetensors_text(load->files, "tutti.step");

        load->file.step = text == NULL ? 0 : strtoll(text, NULL, 10);
    }
    return status;
}

static void close_checkpoint(struct load *load)
{
    for (size_t i = 0; load->files != NULL && i < load->file_count; i++) {
        safetensors_close(&load->files[i]);
    }
    free(load->files);
    json_decref(load->index);
    free(load->buffer);
}

tutti_status tutti_checkpoint_load(tutti *t, const tutti_checkpoint_options *options,
        const tutti_state_tensor *tensors, size_t n, int64_t *step)
{
    struct load load = { .tensors = tensors, .n = n };
    tutti_status status = checkpoint_begin(&load.group, &load.options, t, options);

    if (status != TUTTI_OK) {
        return status;
    }
    status = state_check(tensors, n);
    if (status == TUTTI_OK &&
            (load.options.directory == NULL) == (load.options.file == NULL)) {
        status = error_set(TUTTI_ERR_INVALID,
                "to load a checkpoint needs a directory or a file, and not both");
    }
    status = group_same(&load.group, status,
            (const struct setting[]){
                    number_setting("options.step", (double)load.options.step),
                    number_setting("whether options.file is given",
                            load.options.file != NULL) },
            2, NULL);
    if (status == TUTTI_OK) {
        status = find(&load);
    }
    if (status == TUTTI_OK && load.file.kind != CHECKPOINT_NONE) {
        status = run(&load);
    }
    if (status == TUTTI_OK && step != NULL) {
        *step = load.file.kind == CHECKPOINT_NONE ? -1 : load.file.step;
    }
    close_checkpoint(&load);
    return status;
}
