/*
 * Saves a checkpoint: whole, by rank 0, or sharded, by all ranks.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"
#include "error.h"
#include "state/checkpoint.h"
#include "state/parts.h"
#include "state/safetensors.h"

/** A save that is under way. */
struct save {
    struct state_group group;
    tutti_checkpoint_options options;
    struct checkpoint_file file; /* that makes it a checkpoint */
    tutti_state_tensor *tensors; /* in the order of the data; owned */
    tutti_state_tensor *entries; /* of this rank's file; owned */
    size_t n;
    struct part *parts; /* of all tensors; owned */
    struct part *room; /* for parts_divide(); owned */
    char *piece; /* a block that travels; owned */
    int64_t *rows; /* of each rank in a gather, 0; owned */
    struct safetensors_writer writer;
    char path[PATH_MAX]; /* of this rank's file */
    char temporary[PATH_MAX]; /* of `file`, until it is complete */
};

static tutti_status check_options(const tutti_checkpoint_options *options)
{
    if (options->directory == NULL || options->directory[0] == '\0' ||
            options->step < 0 || options->keep < 0) {
        return error_set(TUTTI_ERR_INVALID,
                "to save a checkpoint needs a directory (%s), a step of 0 or more "
                "(%lld) and a keep of 0 or more (%d)",
                options->directory == NULL ? "none" : options->directory,
                (long long)options->step, options->keep);
    }
    for (size_t i = 0; i < options->metadata_count; i++) {
        const tutti_metadata *metadata = &options->metadata[i];

        if (metadata->key == NULL || metadata->text == NULL ||
                strncmp(metadata->key, "tutti.", 6) == 0) {
            return error_set(TUTTI_ERR_INVALID,
                    "metadata %zu of the checkpoint, \"%s\": a key and a text are "
                    "needed, and keys beginning with \"tutti.\" are tutti's own",
                    i, metadata->key == NULL ? "" : metadata->key);
        }
    }
    return TUTTI_OK;
}

/** Takes memory, and puts the tensors into an order in which all of a file are aligned. */
static tutti_status prepare(struct save *save, const tutti_state_tensor *tensors)
{
    size_t n = save->n + 1;
    size_t count = 0;

    save->tensors = calloc(n, sizeof *save->tensors);
    save->entries = calloc(n, sizeof *save->entries);
    save->piece = malloc(SAFETENSORS_BLOCK);
    save->rows = calloc((size_t)save->group.ranks, sizeof *save->rows);
    save->parts = calloc(n * parts_stride(&save->group), sizeof *save->parts);
    save->room = calloc(n * (size_t)save->group.ranks, sizeof *save->room);
    if (save->tensors == NULL || save->entries == NULL || save->piece == NULL ||
            save->rows == NULL || save->parts == NULL || save->room == NULL) {
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory to save a checkpoint");
    }
    for (size_t size = sizeof(int64_t); size > 0; size /= 2) {
        for (size_t i = 0; i < save->n; i++) {
            /* The next one takes its place if it is of another size. */
            save->tensors[count] = tensors[i];
            count += tutti_dtype_size(tensors[i].dtype) == size;
        }
    }
    return TUTTI_OK;
}

/** The parts of a tensor, and an empty one behind them. */
static const struct part *parts_of(const struct save *save, size_t i)
{
    return &save->parts[i * parts_stride(&save->group)];
}

/** The caller's metadata; NULL: not UTF-8, or no memory. */
static json_t *make_metadata(const struct save *save)
{
    json_t *metadata = json_object();

    for (size_t i = 0; i < save->options.metadata_count; i++) {
        if (json_object_set_new(metadata, save->options.metadata[i].key,
                    json_string(save->options.metadata[i].text)) != 0) {
            json_decref(metadata);
            return NULL;
        }
    }
    return metadata;
}

/* -------------------------------------------------------------------- steps */

/* Each is a part of the save after which all ranks learn whether all could do it. */

static tutti_status create_directory(struct save *save)
{
    return save->group.rank == 0 ? directory_create(save->options.directory) : TUTTI_OK;
}

static tutti_status divide(struct save *save)
{
    return parts_divide(save->parts, save->room, &save->group, save->tensors, save->n,
            save->options.sharded);
}

/** Rank 0 chooses a number that no other save of this step has. */
static tutti_status choose_id(struct save *save)
{
    struct checkpoint_file file = save->file;
    tutti_status status;

    file.id = (uint64_t)clock_ns(CLOCK_REALTIME);
    status = group_heard(save->group.t,
            tutti_broadcast(save->group.t, "tutti.checkpoint.id", &file.id, 1,
                    TUTTI_UINT64, 0, &save->group.options));
    save->file.id = file.id;
    file.kind = CHECKPOINT_TEMPORARY;
    (void)checkpoint_path(save->temporary, save->options.directory, &file);
    if (save->options.sharded) {
        file.kind = CHECKPOINT_SHARD;
        file.shard = save->group.rank;
        file.shards = save->group.ranks;
    }
    (void)checkpoint_path(save->path, save->options.directory, &file);
    return status;
}

/** The part of a tensor that this rank supplies, at most one; NULL: none. */
static const struct part *own_part(const struct save *save, size_t i)
{
    const struct part *part = parts_of(save, i);

    while (part->count > 0 && part->rank != save->group.rank) {
        part++;
    }
    return part->count > 0 ? part : NULL;
}

/** Creates the file of this rank: of its parts, or on rank 0 of all tensors. */
static tutti_status create_file(struct save *save)
{
    size_t count = 0;
    json_t *metadata;

    if (save->group.rank != 0 && !save->options.sharded) {
        return TUTTI_OK;
    }
    metadata = make_metadata(save);
    if (metadata == NULL) {
        return error_set(TUTTI_ERR_INVALID,
                "the metadata of the checkpoint are no UTF-8, or there is no memory");
    }
    (void)json_object_set_new(metadata, "tutti.step",
            json_sprintf("%lld", (long long)save->options.step));
    for (size_t i = 0; i < save->n; i++) {
        const struct part *part = own_part(save, i);
        tutti_state_tensor *entry = &save->entries[count];

        if (part != NULL || !save->options.sharded) {
            *entry = save->tensors[i];
            count++;
        }
        if (part != NULL && save->options.sharded) {
            entry->ndim = 1; /* a part has no shape */
            entry->dims = &part->count;
        }
    }
    return safetensors_create(
            &save->writer, save->path, save->entries, count, metadata);
}

/**
 * Appends a part of a tensor to the file of its rank, or to that of rank 0, where it travels in
 * pieces. Who has failed to write goes on taking pieces: the others do not know yet.
 * @param[in,out] written  of the rank whose file it is
 */
static tutti_status append_part(struct save *save, const tutti_state_tensor *tensor,
        const struct part *part, tutti_status *written)
{
    int64_t size = (int64_t)tutti_dtype_size(tensor->dtype);
    int64_t bytes = part->count * size;
    bool own = part->rank == save->group.rank;
    char *data =
            own ? (char *)tensor->data + (part->first - tensor->first) * size : NULL;
    tutti_status status = TUTTI_OK;

    if (save->options.sharded || part->rank == 0) {
        if (own && *written == TUTTI_OK) {
            *written = safetensors_append(&save->writer, data, bytes);
        }
        return TUTTI_OK;
    }
    for (int64_t at = 0; status == TUTTI_OK && at < bytes; at += SAFETENSORS_BLOCK) {
        int64_t now = bytes - at < SAFETENSORS_BLOCK ? bytes - at : SAFETENSORS_BLOCK;

        save->rows[part->rank] = now;
        status = group_heard(save->group.t,
                tutti_gather(save->group.t, "tutti.checkpoint.piece",
                        own ? data + at : save->piece, save->piece, own ? now : 0, 1,
                        save->rows, TUTTI_UINT8, 0, &save->group.options));
        save->rows[part->rank] = 0;
        if (status == TUTTI_OK && save->group.rank == 0 && *written == TUTTI_OK) {
            *written = safetensors_append(&save->writer, save->piece, now);
        }
    }
    return status;
}

static tutti_status write_file(struct save *save)
{
    tutti_status status = TUTTI_OK;
    tutti_status written = TUTTI_OK;

    for (size_t i = 0; i < save->n; i++) {
        for (const struct part *part = parts_of(save, i);
                status == TUTTI_OK && part->count > 0; part++) {
            status = append_part(save, &save->tensors[i], part, &written);
        }
    }
    if (status == TUTTI_OK && written == TUTTI_OK && save->writer.path != NULL) {
        written = safetensors_finish(&save->writer);
        if (written == TUTTI_OK && save->options.sharded) {
            written = directory_sync(save->options.directory);
        }
    }
    return status == TUTTI_OK ? written : status;
}

/** The index: which part of which tensor is in which file; NULL: no memory. */
static json_t *make_index(const struct save *save)
{
    struct checkpoint_file file = save->file;
    json_t *files = json_array();
    json_t *tensors = json_object();
    char path[PATH_MAX];

    file.kind = CHECKPOINT_SHARD;
    file.shards = save->group.ranks;
    for (file.shard = 0; file.shard < file.shards; file.shard++) {
        (void)checkpoint_path(path, save->options.directory, &file);
        (void)json_array_append_new(files, json_string(strrchr(path, '/') + 1));
    }
    for (size_t i = 0; i < save->n; i++) {
        json_t *parts = json_array();

        for (const struct part *part = parts_of(save, i); part->count > 0; part++) {
            (void)json_array_append_new(parts,
                    json_pack("[I, I, I]", (json_int_t)part->rank,
                            (json_int_t)part->first, (json_int_t)part->count));
        }
        (void)json_object_set_new(tensors, save->tensors[i].name,
                state_to_json(&save->tensors[i], "parts", parts));
    }
    return json_pack("{s:i, s:I, s:o, s:o, s:o}", "tutti", 1, "step",
            (json_int_t)save->options.step, "metadata", make_metadata(save), "files",
            files, "tensors", tensors);
}

/** Writes the index under its temporary name. */
static tutti_status write_index(struct save *save)
{
    json_t *index;
    FILE *file;
    tutti_status status = TUTTI_OK;

    if (save->group.rank != 0 || !save->options.sharded) {
        return TUTTI_OK;
    }
    index = make_index(save);
    file = index == NULL ? NULL : fopen(save->temporary, "wxe");
    if (index == NULL) {
        status = error_set(
                TUTTI_ERR_NO_MEMORY, "no memory for the index of a checkpoint");
    } else if (file == NULL) {
        status = error_system("create", save->temporary);
    } else if (json_dumpf(index, file, JSON_COMPACT) != 0 || fflush(file) != 0 ||
            fsync(fileno(file)) != 0) {
        status = error_system("write", save->temporary);
    }
    if (file != NULL && fclose(file) != 0 && status == TUTTI_OK) {
        status = error_system("close", save->temporary);
    }
    json_decref(index);
    return status;
}

/** Makes what has been written a checkpoint. */
static tutti_status commit(struct save *save)
{
    char path[PATH_MAX];
    tutti_status status;

    if (save->group.rank != 0) {
        return TUTTI_OK;
    }
    (void)checkpoint_path(path, save->options.directory, &save->file);
    if (rename(save->temporary, path) != 0) {
        status = error_system("give its name to", path);
        (void)unlink(save->temporary);
        return status;
    }
    if (directory_sync(save->options.directory) != TUTTI_OK) {
        return error_set(TUTTI_ERR_SYSTEM,
                "%s has been written and can be loaded, but a crash of the host may "
                "still "
                "lose it: %s",
                path, tutti_last_error());
    }
    return TUTTI_OK;
}

/* --------------------------------------------------------------------- save */

static tutti_status run(struct save *save)
{
    static tutti_status (*const steps[])(struct save *) = { create_directory, divide,
        choose_id, create_file, write_file, write_index, commit };
    const size_t count = sizeof steps / sizeof *steps;
    tutti_status status = TUTTI_OK;
    size_t done = 0;

    while (status == TUTTI_OK && done < count) {
        status = group_agree(&save->group, steps[done++](save));
    }
    /*
     * Files stay where rank 0 may have made them a checkpoint: in its last step, or with a failed
     * context, which does not say how far it came. The next save removes them if it had not.
     */
    if (status != TUTTI_OK && done < count && status != TUTTI_ERR_CONTEXT_FAILED) {
        (void)unlink(save->path);
        (void)unlink(save->temporary);
    } else if (status == TUTTI_OK && save->group.rank == 0) {
        directory_clean(save->options.directory, &save->file, save->options.keep);
    }
    return status;
}

tutti_status tutti_checkpoint_save(tutti *t, const tutti_checkpoint_options *options,
        const tutti_state_tensor *tensors, size_t n)
{
    struct save save = { .n = n };
    tutti_status status = checkpoint_begin(&save.group, &save.options, t, options);

    if (status != TUTTI_OK) {
        return status;
    }
    save.file.kind = save.options.sharded ? CHECKPOINT_INDEX : CHECKPOINT_WHOLE;
    save.file.step = save.options.step;
    status = state_agree(&save.group, check_options(&save.options), tensors, n);
    if (status == TUTTI_OK) {
        const struct setting settings[] = { number_setting("options.step",
                                                    (double)save.file.step),
            number_setting("options.sharded", save.options.sharded) };

        status = group_same(&save.group, prepare(&save, tensors), settings, 2, NULL);
    }
    if (status == TUTTI_OK) {
        status = run(&save);
    }
    safetensors_discard(&save.writer);
    free(save.room);
    free(save.parts);
    free(save.rows);
    free(save.piece);
    free(save.entries);
    free(save.tensors);
    return status;
}
