/*
 * What saving and loading checkpoints have in common: the options, and the directory of a run's
 * checkpoints. Its files, for step 12:
 *
 *     step-000000000012.safetensors            a whole checkpoint
 *     step-000000000012.json                   a sharded checkpoint: names its files
 *     step-000000000012.ID.2-of-4.safetensors  one of them; ID: 16 hexadecimal digits
 *     step-000000000012.ID.tmp                 a file that is written
 *
 * A file of the first two names is always complete: it gets its name by rename().
 */
#ifndef TUTTI_TRAINER_STATE_CHECKPOINT_H
#define TUTTI_TRAINER_STATE_CHECKPOINT_H

#include <limits.h>
#include <stdint.h>

#include <tutti/trainer/state.h>

#include "state/agree.h"

/** What a name stands for. */
enum checkpoint_kind {
    CHECKPOINT_NONE,
    CHECKPOINT_WHOLE,
    CHECKPOINT_INDEX,
    CHECKPOINT_SHARD,
    CHECKPOINT_TEMPORARY
};

/** What the name of a file says. */
struct checkpoint_file {
    enum checkpoint_kind kind;
    int64_t step;
    uint64_t id; /* of the save, so that two saves of a step share no file */
    int shard; /* 0 to shards - 1 */
    int shards;
};

/** Takes the options, and finds the ranks of a call. */
TUTTI_MUST_USE tutti_status checkpoint_begin(struct state_group *group,
        tutti_checkpoint_options *own, tutti *t,
        const tutti_checkpoint_options *options);

/** The path of a file. Returns path. */
char *checkpoint_path(
        char path[PATH_MAX], const char *directory, const struct checkpoint_file *file);

/** Creates a directory and its parents, where they are missing. */
tutti_status directory_create(const char *path);

/**
 * Finds a checkpoint.
 * @param[in,out] file  a step, or TUTTI_CHECKPOINT_NEWEST; kind is whole or index, or none:
 *                      there is no such checkpoint, or no directory
 */
tutti_status directory_find(const char *path, struct checkpoint_file *file);

/** Puts the names in a directory on disk. */
tutti_status directory_sync(const char *path);

/**
 * Removes what the saved checkpoint replaces, what interrupted saves have left, and all
 * checkpoints but `keep` and this one (0: none). What cannot be removed stays.
 */
void directory_clean(const char *path, const struct checkpoint_file *saved, int keep);

#endif
