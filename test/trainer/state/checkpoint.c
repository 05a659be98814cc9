/*
 * Checkpoints: whole and sharded, loaded at other numbers of ranks, damaged, and interrupted.
 */
#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <tutti/trainer/state.h>

#include "ranks.h"
#include "test/unit/unit.h"

enum {
    BIG = (1 << 20) + 14, /* elements: a multiple of 3, of float32 two blocks */
    TENSORS = 4
};

static char directory[] = "/tmp/tutti-checkpoint-XXXXXX";

/** A state: one tensor that all ranks have, two that are divided, a number. */
struct model {
    float *big;
    uint8_t *divided;
    int16_t odd[21];
    int64_t epoch;
    tutti_state_tensor tensors[TENSORS];
};

static const int64_t big_shape[2] = { 3, BIG / 3 };
static const int64_t divided_shape[1] = { BIG };
static const int64_t odd_shape[3] = { 7, 1, 3 };

static float big_at(int64_t i, int64_t step)
{
    return (float)(i % 65521) + (float)step;
}

/** Divides as tutti_part() does, and `odd` so that parts overlap. */
static void model_init(struct model *model, tutti *t)
{
    int64_t first;
    int64_t count = tutti_part(BIG, tutti_size(t), tutti_rank(t), &first);
    int64_t rest = tutti_rank(t) * 21 / tutti_size(t);

    model->big = calloc(BIG, sizeof *model->big);
    model->divided = calloc((size_t)count + 1, 1);
    memset(model->odd, 0, sizeof model->odd);
    model->epoch = 0;
    model->tensors[0] = (tutti_state_tensor){ "odd", model->odd, TUTTI_INT16, 3,
        odd_shape, rest, 21 - rest };
    model->tensors[1] = (tutti_state_tensor){ "divided", model->divided, TUTTI_UINT8, 1,
        divided_shape, first, count };
    model->tensors[2] = (tutti_state_tensor){ "big", model->big, TUTTI_FLOAT32, 2,
        big_shape, 0, BIG };
    model->tensors[3] =
            (tutti_state_tensor){ "epoch", &model->epoch, TUTTI_INT64, 0, NULL, 0, 1 };
}

static void model_fini(struct model *model)
{
    free(model->big);
    free(model->divided);
}

static void model_fill(struct model *model, int64_t step)
{
    for (int64_t i = 0; i < BIG; i++) {
        model->big[i] = big_at(i, step);
    }
    for (int64_t i = 0; i < model->tensors[1].count; i++) {
        model->divided[i] = (uint8_t)((model->tensors[1].first + i) % 251 + step);
    }
    for (int64_t i = 0; i < model->tensors[0].count; i++) {
        model->odd[i] = (int16_t)(model->tensors[0].first + i + step);
    }
    model->epoch = step;
}

static bool model_is(const struct model *model, int64_t step)
{
    bool same = model->epoch == step;

    for (int64_t i = 0; i < BIG; i++) {
        same = same && model->big[i] == big_at(i, step);
    }
    for (int64_t i = 0; i < model->tensors[1].count; i++) {
        same = same &&
                model->divided[i] ==
                        (uint8_t)((model->tensors[1].first + i) % 251 + step);
    }
    for (int64_t i = 0; i < model->tensors[0].count; i++) {
        same = same && model->odd[i] == model->tensors[0].first + i + step;
    }
    return same;
}

/** What the ranks of a run are to do. */
struct task {
    int64_t step;
    bool sharded;
    int keep;
    const char *directory;
    tutti_status status; /* that is expected */
    const char *text; /* of the message */
    int64_t loaded; /* step that a load is to find */
};

static void count_metadata(void *user, const char *key, const char *text)
{
    *(int *)user += strcmp(key, "optimizer") == 0 && strcmp(text, "größer") == 0;
}

static tutti_checkpoint_options options_of(const struct task *task)
{
    static const tutti_metadata metadata[1] = { { "optimizer", "größer" } };
    tutti_checkpoint_options options;

    tutti_checkpoint_options_default(&options);
    options.directory = task->directory == NULL ? directory : task->directory;
    options.step = task->step;
    options.sharded = task->sharded;
    options.keep = task->keep;
    options.metadata = metadata;
    options.metadata_count = 1;
    return options;
}

static void save(tutti *t, void *user)
{
    const struct task *task = user;
    tutti_checkpoint_options options = options_of(task);
    struct model model;

    model_init(&model, t);
    model_fill(&model, task->step);
    (void)CHECK(
            tutti_checkpoint_save(t, &options, model.tensors, TENSORS) == task->status);
    (void)CHECK(task->text == NULL || strstr(tutti_last_error(), task->text) != NULL);
    model_fini(&model);
}

static void load(tutti *t, void *user)
{
    const struct task *task = user;
    tutti_checkpoint_options options = options_of(task);
    struct model model;
    int64_t step = -7;
    int metadata = 0;

    options.on_metadata = count_metadata;
    options.user = &metadata;
    model_init(&model, t);
    model_fill(&model, 100);
    (void)CHECK(tutti_checkpoint_load(t, &options, model.tensors, TENSORS, &step) ==
            task->status);
    (void)CHECK(task->text == NULL || strstr(tutti_last_error(), task->text) != NULL);
    (void)CHECK(step == (task->status == TUTTI_OK ? task->loaded : -7));
    (void)CHECK(metadata == (step >= 0));
    (void)CHECK(model_is(&model, step >= 0 ? step : 100)); /* else as before */
    model_fini(&model);
}

static int files(void)
{
    DIR *open = opendir(directory);
    int count = -2;

    while (open != NULL && readdir(open) != NULL) {
        count++;
    }
    (void)closedir(open);
    return count;
}

static int make_directory(void **state)
{
    (void)state;
    memcpy(directory + sizeof directory - 7, "XXXXXX", 6);
    return mkdtemp(directory) == NULL;
}

static int remove_directory(void **state)
{
    DIR *open = opendir(directory);
    const struct dirent *file;

    (void)state;
    while ((file = readdir(open)) != NULL) {
        (void)unlinkat(dirfd(open), file->d_name, 0);
    }
    (void)closedir(open);
    return rmdir(directory);
}

static void run(int ranks, void (*body)(tutti *t, void *user), struct task task)
{
    assert_int_equal(ranks_run(ranks, body, &task), 0);
}

UNIT_TEST_WITH(test_another_number_of_ranks_resumes, make_directory, remove_directory)
{
    run(2, load, (struct task){ .step = -1, .loaded = -1 }); /* there is none yet */
    for (int sharded = 0; sharded <= 1; sharded++) {
        for (int ranks = 1; ranks <= 3; ranks++) {
            int64_t step = 10 * sharded + ranks;

            run(ranks, save, (struct task){ .step = step, .sharded = sharded != 0 });
            for (int readers = 1; readers <= 4; readers += 3) {
                run(readers, load, (struct task){ .step = -1, .loaded = step });
            }
        }
    }
    run(2, load, (struct task){ .step = 2, .loaded = 2 });
    run(2, load,
            (struct task){ .step = 5,
                    .status = TUTTI_ERR_INVALID,
                    .text = "has no checkpoint of step 5" });
}

UNIT_TEST_WITH(test_old_checkpoints_and_leftovers_go, make_directory, remove_directory)
{
    char path[sizeof directory + 64];

    (void)snprintf(
            path, sizeof path, "%s/step-000000000009.0123456789abcdef.tmp", directory);
    (void)close(creat(path, 0600));
    for (int64_t step = 1; step <= 4; step++) {
        run(2, save,
                (struct task){ .step = step, .sharded = step % 2 == 0, .keep = 2 });
    }
    assert_int_equal(files(), 1 + 3);
    run(2, save, (struct task){ .step = 4, .sharded = true, .keep = 2 });
    assert_int_equal(files(), 1 + 3);
    run(2, save, (struct task){ .step = 4, .keep = 2 });
    assert_int_equal(files(), 2);
    run(2, save, (struct task){ .step = 2, .keep = 1 }); /* never the one just saved */
    assert_int_equal(files(), 2);
    run(2, load, (struct task){ .step = -1, .loaded = 4 });
    /* Of saves that were cut short before they had cleaned up: no index names these shards. */
    run(2, save, (struct task){ .step = 6, .sharded = true });
    for (int64_t step = 4; step <= 6; step += 2) {
        (void)snprintf(path, sizeof path,
                "%s/step-%012" PRId64 ".0123456789abcdef.1-of-2.safetensors", directory,
                step);
        (void)close(creat(path, 0600));
    }
    run(2, save, (struct task){ .step = 7 });
    assert_int_equal(files(), 2 + 3 + 1);
    run(2, load, (struct task){ .step = 6, .loaded = 6 });
}

/** A type that tutti does not have is no reason to refuse the others; nor does a FIFO hang. */
static void foreign(tutti *t, void *user)
{
    static const char header[] =
            "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
            "\"b\":{\"dtype\":\"F4\",\"shape\":[8],\"data_offsets\":[4,8]}}";
    const uint64_t bytes = sizeof header - 1;
    char path[sizeof directory + 16];
    float a = 0;
    tutti_state_tensor tensor = { .name = "a",
        .data = &a,
        .dtype = TUTTI_FLOAT32,
        .ndim = 1,
        .dims = (const int64_t[1]){ 1 },
        .count = 1 };
    tutti_checkpoint_options options;
    FILE *file;

    (void)user;
    (void)snprintf(path, sizeof path, "%s/foreign", directory);
    file = fopen(path, "w");
    (void)CHECK(file != NULL && fwrite(&bytes, sizeof bytes, 1, file) == 1 &&
            fputs(header, file) >= 0 &&
            fwrite((const float[2]){ 2.5F, 0 }, sizeof(float), 2, file) == 2 &&
            fclose(file) == 0);
    tutti_checkpoint_options_default(&options);
    options.file = path;
    options.ignore_unknown = true;
    (void)CHECK(tutti_checkpoint_load(t, &options, &tensor, 1, NULL) == TUTTI_OK &&
            a == 2.5F);
    tensor.name = "b";
    (void)CHECK(
            tutti_checkpoint_load(t, &options, &tensor, 1, NULL) == TUTTI_ERR_INVALID);
    (void)CHECK(strstr(tutti_last_error(), "of a type that tutti does not have"));
    (void)CHECK(unlink(path) == 0 && mkfifo(path, 0600) == 0);
    (void)CHECK(
            tutti_checkpoint_load(t, &options, &tensor, 1, NULL) == TUTTI_ERR_INVALID);
    (void)CHECK(strstr(tutti_last_error(), "no regular file"));
}

UNIT_TEST_WITH(test_files_of_others, make_directory, remove_directory)
{
    assert_int_equal(ranks_run(1, foreign, NULL), 0);
}

/** The first file whose name contains a text. */
static void find_file(char *path, size_t bytes, const char *text)
{
    DIR *open = opendir(directory);
    const struct dirent *file;

    while ((file = readdir(open)) != NULL) {
        if (strstr(file->d_name, text) != NULL) {
            (void)snprintf(path, bytes, "%s/%s", directory, file->d_name);
        }
    }
    (void)closedir(open);
}

UNIT_TEST_WITH(test_a_flipped_bit_is_found_and_named, make_directory, remove_directory)
{
    char path[512] = "";
    struct stat facts;
    uint8_t byte;
    int fd;

    for (int sharded = 0; sharded <= 1; sharded++) {
        run(2, save, (struct task){ .step = 3 + sharded, .sharded = sharded != 0 });
        find_file(path, sizeof path, sharded != 0 ? "1-of-2" : "3.safetensors");
        assert_int_equal(stat(path, &facts), 0);
        fd = open(path, O_RDWR);
        assert_int_equal(pread(fd, &byte, 1, facts.st_size - 5), 1);
        byte ^= 0x10;
        assert_int_equal(pwrite(fd, &byte, 1, facts.st_size - 5), 1);
        (void)close(fd);
        run(2, load,
                (struct task){ .step = -1,
                        .status = TUTTI_ERR_INVALID,
                        .text = "tensor \"divided\" in /tmp/tutti" });
        assert_int_equal(truncate(path, facts.st_size - 4), 0);
        run(3, load,
                (struct task){ .step = -1,
                        .status = TUTTI_ERR_INVALID,
                        .text = "is cut off" });
    }
}

/* A full disk: files may not grow beyond a limit. The last good checkpoint stays. */
UNIT_TEST_WITH(test_a_full_disk_fails_on_all_ranks_and_loses_nothing, make_directory,
        remove_directory)
{
    struct rlimit old;
    struct rlimit small;

    (void)signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    for (int sharded = 0; sharded <= 1; sharded++) {
        int before;

        run(2, save, (struct task){ .step = 1 + sharded, .sharded = sharded != 0 });
        before = files();
        small = (struct rlimit){ .rlim_cur = 1 << 20, .rlim_max = old.rlim_max };
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
        run(3, save,
                (struct task){ .step = 7,
                        .sharded = sharded != 0,
                        .status = TUTTI_ERR_SYSTEM,
                        .text = "File too large" });
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
        assert_int_equal(files(), before);
        run(1, load, (struct task){ .step = -1, .loaded = 1 + sharded });
    }
}

UNIT_TEST_WITH(
        test_what_cannot_be_a_directory_is_named, make_directory, remove_directory)
{
    run(2, save,
            (struct task){ .directory = "/dev/null",
                    .status = TUTTI_ERR_SYSTEM,
                    .text = "rank 0: cannot write files in /dev/null: Not a "
                            "directory" });
    run(2, save,
            (struct task){ .directory = "/proc/none/such",
                    .status = TUTTI_ERR_SYSTEM,
                    .text = "/proc/none" });
    run(2, save,
            (struct task){ .step = -1, .status = TUTTI_ERR_INVALID, .text = "a step" });
}

/** Rank 1 asks for another type, or for less, or more; or does not have what it should. */
static void another_model(tutti *t, void *user)
{
    tutti_checkpoint_options options = options_of(&(struct task){ .step = 1 });
    struct model model;

    (void)user;
    model_init(&model, t);
    model_fill(&model, 100);
    if (tutti_rank(t) == 1) {
        model.tensors[3].dtype = TUTTI_FLOAT64;
    }
    (void)CHECK(tutti_checkpoint_load(t, &options, model.tensors, TENSORS, NULL) ==
            TUTTI_ERR_INVALID);
    (void)CHECK(strstr(tutti_last_error(), "is int64 [], and float64 [] is asked for"));
    (void)CHECK(tutti_checkpoint_load(t, &options, model.tensors, 3, NULL) ==
            TUTTI_ERR_INVALID);
    (void)CHECK(
            strstr(tutti_last_error(), "a tensor \"epoch\", which is not asked for"));
    model.tensors[3].name = "step";
    (void)CHECK(tutti_checkpoint_load(t, &options, model.tensors, TENSORS, NULL) ==
            TUTTI_ERR_INVALID);
    (void)CHECK(strstr(tutti_last_error(), "has no tensor \"step\""));
    (void)CHECK(model_is(&model, 100));
    model.tensors[3] = model.tensors[2];
    model.tensors[3].name = "gap";
    model.tensors[3].count = 12;
    model.tensors[3].first = tutti_rank(t) == 0 ? 0 : BIG - 12;
    (void)CHECK(tutti_checkpoint_save(t, &options, model.tensors, TENSORS) ==
            TUTTI_ERR_INVALID);
    (void)CHECK(strstr(tutti_last_error(), "\"gap\": no rank has element 12"));
    options.ignore_unknown = true;
    (void)CHECK(tutti_checkpoint_load(t, &options, model.tensors, 3, NULL) == TUTTI_OK);
    model.epoch = 1;
    (void)CHECK(model_is(&model, 1));
    model_fini(&model);
}

UNIT_TEST_WITH(test_another_model_is_refused, make_directory, remove_directory)
{
    for (int sharded = 0; sharded <= 1; sharded++) {
        run(2, save, (struct task){ .step = 1, .sharded = sharded != 0 });
        assert_int_equal(ranks_run(2, another_model, NULL), 0);
    }
}
