/*
 * Checkpoints: a safetensors file, or the index of a sharded checkpoint beside a good file.
 */
#include <string.h>
#include <unistd.h>

#include <tutti/trainer/state.h>

#include "fuzz.h"

enum {
    COUNT = 6
};

static char directory[] = "/tmp/tutti-fuzz-XXXXXX";
static char index_path[64];
static tutti *t;

static float values[COUNT];
static int64_t number;
static const int64_t shape[] = { 3, 2 };
static const tutti_state_tensor tensors[] = { { "values", values, TUTTI_FLOAT32, 2,
                                                      shape, 0, COUNT },
    { "step", &number, TUTTI_INT64, 0, NULL, 0, 1 } };

static void remove_all(void)
{
    char path[96];

    (void)unlink(index_path);
    (void)snprintf(path, sizeof path, "%s/shard.safetensors", directory);
    (void)unlink(path);
    (void)rmdir(directory);
    (void)tutti_finalize(t);
}

/* The good file, under a name that inputs can know. */
static void begin(void)
{
    tutti_checkpoint_options options;
    char whole[96];
    char shard[96];

    REQUIRE(mkdtemp(directory) != NULL);
    REQUIRE(tutti_init_local(1, &t, NULL) == TUTTI_OK);
    tutti_checkpoint_options_default(&options);
    options.directory = directory;
    options.step = 1;
    REQUIRE(tutti_checkpoint_save(t, &options, tensors, 2) == TUTTI_OK);
    (void)snprintf(whole, sizeof whole, "%s/step-000000000001.safetensors", directory);
    (void)snprintf(shard, sizeof shard, "%s/shard.safetensors", directory);
    (void)snprintf(
            index_path, sizeof index_path, "%s/step-000000000001.json", directory);
    REQUIRE(rename(whole, shard) == 0);
    REQUIRE(atexit(remove_all) == 0);
}

static void take_metadata(void *user, const char *key, const char *text)
{
    (void)user;
    REQUIRE(key != NULL && text != NULL);
}

static void write_index(const struct fuzz_input *input)
{
    FILE *file = fopen(index_path, "wb");

    REQUIRE(file != NULL);
    REQUIRE(fwrite(input->data, 1, input->size, file) == input->size);
    REQUIRE(fclose(file) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input input = { data, size };
    const bool is_index = fuzz_byte(&input) % 2 == 1;
    tutti_checkpoint_options options;
    tutti_status status;

    if (t == NULL) {
        begin();
    }
    tutti_checkpoint_options_default(&options);
    options.directory = directory;
    options.ignore_unknown = true;
    options.on_metadata = take_metadata;
    if (is_index) {
        write_index(&input);
    } else {
        options.file = fuzz_open_file(&input);
    }
    memset(values, 0, sizeof values);
    number = 0;
    status = tutti_checkpoint_load(t, &options, tensors, 2, NULL);
    REQUIRE(status == TUTTI_OK || status == TUTTI_ERR_INVALID ||
            status == TUTTI_ERR_SYSTEM);
    if (status != TUTTI_OK) {
        REQUIRE(values[0] == 0 && number == 0);
    }
    if (!is_index) {
        fuzz_close_file();
    }
    return 0;
}
