/*
 * The directory of a run's checkpoints.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "error.h"
#include "options.h"
#include "state/checkpoint.h"

enum {
    FILE_NAME_BYTES = 128
};

void tutti_checkpoint_options_default_sized(
        tutti_checkpoint_options *options, size_t size)
{
    const tutti_checkpoint_options defaults = {
        .size = size, .process_set = TUTTI_WORLD, .step = TUTTI_CHECKPOINT_NEWEST
    };

    options_give(options, size, &defaults, sizeof defaults);
}

tutti_status checkpoint_begin(struct state_group *group, tutti_checkpoint_options *own,
        tutti *t, const tutti_checkpoint_options *options)
{
    if (options == NULL || options->size == 0) {
        return error_set(TUTTI_ERR_INVALID, "a checkpoint needs options with a size");
    }
    tutti_checkpoint_options_default(own);
    options_take(own, sizeof *own, options);
    if ((own->directory != NULL &&
                strlen(own->directory) > PATH_MAX - FILE_NAME_BYTES) ||
            (own->file != NULL && strlen(own->file) >= PATH_MAX)) {
        return error_set(TUTTI_ERR_INVALID, "the path of a checkpoint is too long");
    }
    return group_init(group, t, own->process_set);
}

char *checkpoint_path(
        char path[PATH_MAX], const char *directory, const struct checkpoint_file *file)
{
    char end[FILE_NAME_BYTES] = "safetensors";

    if (file->kind == CHECKPOINT_INDEX) {
        (void)snprintf(end, sizeof end, "json");
    } else if (file->kind == CHECKPOINT_SHARD) {
        (void)snprintf(end, sizeof end, "%016" PRIx64 ".%d-of-%d.safetensors", file->id,
                file->shard + 1, file->shards);
    } else if (file->kind == CHECKPOINT_TEMPORARY) {
        (void)snprintf(end, sizeof end, "%016" PRIx64 ".tmp", file->id);
    }
    (void)snprintf(
            path, PATH_MAX, "%s/step-%012" PRId64 ".%s", directory, file->step, end);
    return path;
}

/** What a name stands for; what tutti does not call its files so is none. */
static struct checkpoint_file parse_name(const char *name)
{
    struct checkpoint_file file = { .step = -1 };
    char *end;

    if (strncmp(name, "step-", 5) != 0 || strspn(name + 5, "0123456789") < 12) {
        return file;
    }
    file.step = strtoll(name + 5, &end, 10);
    if (strcmp(end, ".safetensors") == 0) {
        file.kind = CHECKPOINT_WHOLE;
    } else if (strcmp(end, ".json") == 0) {
        file.kind = CHECKPOINT_INDEX;
    } else if (end[0] == '.' && strspn(end + 1, "0123456789abcdef") == 16) {
        file.id = strtoull(end + 1, &end, 16);
        if (strcmp(end, ".tmp") == 0) {
            file.kind = CHECKPOINT_TEMPORARY;
        } else if (strstr(end, "-of-") != NULL && strstr(end, ".safetensors") != NULL) {
            file.kind = CHECKPOINT_SHARD;
        }
    }
    return file;
}

tutti_status directory_create(const char *path)
{
    char part[PATH_MAX];
    struct stat facts;

    (void)snprintf(part, sizeof part, "%s/", path);
    for (char *at = strchr(part + 1, '/'); at != NULL; at = strchr(at + 1, '/')) {
        *at = '\0';
        if (mkdir(part, 0777) != 0 && errno != EEXIST) {
            return error_system("create the directory", part);
        }
        *at = '/';
    }
    if (stat(path, &facts) == 0 && !S_ISDIR(facts.st_mode)) {
        errno = ENOTDIR;
        return error_system("write files in", path);
    }
    return TUTTI_OK;
}

static int is_ours(const struct dirent *entry)
{
    return parse_name(entry->d_name).kind != CHECKPOINT_NONE;
}

static int compare(const struct dirent **left, const struct dirent **right)
{
    struct checkpoint_file a = parse_name((*left)->d_name);
    struct checkpoint_file b = parse_name((*right)->d_name);

    return a.step != b.step ? (a.step < b.step) - (a.step > b.step)
                            : (int)a.kind - (int)b.kind;
}

/**
 * The files of checkpoints in a directory, each to be freed as the list: the highest step first,
 * and in a step the file that makes it a checkpoint. Returns their number; -1: errno.
 */
static int list_files(const char *path, struct dirent ***list)
{
    *list = NULL;
    return scandir(path, list, is_ours, compare);
}

static bool is_checkpoint(const struct checkpoint_file *file)
{
    return file->kind == CHECKPOINT_WHOLE || file->kind == CHECKPOINT_INDEX;
}

tutti_status directory_find(const char *path, struct checkpoint_file *file)
{
    struct dirent **list;
    int count = list_files(path, &list);

    file->kind = CHECKPOINT_NONE;
    if (count < 0) {
        return errno == ENOENT ? TUTTI_OK : error_system("read", path);
    }
    for (int i = 0; i < count; i++) {
        struct checkpoint_file found = parse_name(list[i]->d_name);

        if (file->kind == CHECKPOINT_NONE && is_checkpoint(&found) &&
                (file->step == TUTTI_CHECKPOINT_NEWEST || file->step == found.step)) {
            *file = found;
        }
        free(list[i]);
    }
    free(list);
    return TUTTI_OK;
}

tutti_status directory_sync(const char *path)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    tutti_status status = TUTTI_OK;

    if (fd < 0 || (fsync(fd) != 0 && errno != EINVAL)) {
        status = error_system("put on disk", path);
    }
    if (fd >= 0) {
        (void)close(fd);
    }
    return status;
}

/**
 * The save whose shards an index names; false: it cannot be read, so that nothing is known of them.
 */
static bool read_id(const char *path, const char *name, uint64_t *id)
{
    char file[PATH_MAX];
    json_t *index = NULL;
    const char *shard;
    struct checkpoint_file first = { .kind = CHECKPOINT_NONE };

    if (snprintf(file, sizeof file, "%s/%s", path, name) < PATH_MAX) {
        index = json_load_file(file, 0, NULL);
    }
    shard = json_string_value(json_array_get(json_object_get(index, "files"), 0));
    if (shard != NULL) {
        first = parse_name(shard);
    }
    json_decref(index);
    *id = first.id;
    return first.kind == CHECKPOINT_SHARD;
}

void directory_clean(const char *path, const struct checkpoint_file *saved, int keep)
{
    struct dirent **list;
    int count = list_files(path, &list);
    int64_t step = -1; /* the lowest so far that has a checkpoint */
    int kept = 0; /* checkpoints of this step and of higher ones */
    uint64_t id =
            0; /* of the save whose shards belong to that step, if it has an index */
    bool has_shards = false; /* it has one */
    bool knows_id = false;
    char name[PATH_MAX];

    for (int i = 0; i < count; i++) {
        struct checkpoint_file file = parse_name(list[i]->d_name);
        bool stays;

        if (is_checkpoint(&file) && file.step != step) {
            step = file.step;
            has_shards = false;
            kept++;
        }
        if (file.kind == CHECKPOINT_INDEX && file.step != saved->step) {
            has_shards = true;
            knows_id = read_id(path, list[i]->d_name, &id);
        }
        if (file.step == saved->step) {
            stays = file.kind == saved->kind ||
                    (file.kind == CHECKPOINT_SHARD && saved->kind == CHECKPOINT_INDEX &&
                            file.id == saved->id);
        } else {
            stays = file.kind != CHECKPOINT_TEMPORARY && file.step == step &&
                    (keep == 0 || kept <= keep) &&
                    (file.kind != CHECKPOINT_SHARD ||
                            (has_shards && (!knows_id || file.id == id)));
        }
        if (!stays &&
                snprintf(name, sizeof name, "%s/%s", path, list[i]->d_name) <
                        PATH_MAX) {
            (void)unlink(name);
        }
        free(list[i]);
    }
    free(list);
}
