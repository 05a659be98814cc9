/*
 * The reader of safetensors files gets damaged ones: errors or the truth, never a crash.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <tutti/trainer/state.h>

#include "ranks.h"
#include "test/unit/unit.h"

enum {
    ROUNDS = 1000,
    FILE_MAX = 4096
};

static char path[] = "/tmp/tutti-fuzz-XXXXXX";

static const char *const words[] = { "\"F64\"", "[", "]", "{}", "-1",
    "9223372036854775807", "1e99", "null", "\"__metadata__\"", "0", ",",
    "\"shape\":[4294967296,4294967296]", "\"data_offsets\":[0,18446744073709551615]",
    "\\u0000", "\xff", "\"dtype\":\"F32\"" };

static uint64_t next_random(uint64_t *state)
{
    *state = *state * 6364136223846793005U + 1442695040888963407U;
    return *state >> 33;
}

/** Puts words in, cuts, flips bits; sometimes makes the length fit again. */
static size_t damage(char *bytes, size_t count, uint64_t *state)
{
    uint64_t length;

    for (uint64_t times = next_random(state) % 3 + 1; times > 0; times--) {
        size_t at = (size_t)(next_random(state) % count);
        const char *word = words[next_random(state) % (sizeof words / sizeof *words)];

        switch (next_random(state) % 4) {
        case 0:
            bytes[at] = (char)(bytes[at] ^ 1 << next_random(state) % 8);
            break;
        case 1:
            count = at + 1;
            break;
        case 2:
            if (at + strlen(word) < count) {
                memcpy(bytes + at, word, strlen(word));
            }
            break;
        default:
            memset(bytes + at, (int)next_random(state),
                    count - at < 8 ? count - at : 8);
            break;
        }
    }
    if (count > 8 && next_random(state) % 2 == 0) {
        length = next_random(state) % (count + 8);
        memcpy(bytes, &length, sizeof length);
    }
    return count;
}

static void fuzz(tutti *t, void *user)
{
    float values[6] = { 1, 2, 3, 4, 5, 6 };
    const int64_t shape[2] = { 3, 2 };
    int64_t step = 9;
    tutti_state_tensor tensors[2] = { { "values", values, TUTTI_FLOAT32, 2, shape, 0,
                                              6 },
        { "step", &step, TUTTI_INT64, 0, NULL, 0, 1 } };
    tutti_checkpoint_options options;
    uint64_t state = 1;
    char good[FILE_MAX];
    ssize_t count;
    char file[64];
    int loaded = 0;
    int fd;

    (void)user;
    tutti_checkpoint_options_default(&options);
    options.directory = path;
    options.step = 0;
    (void)CHECK(tutti_checkpoint_save(t, &options, tensors, 2) == TUTTI_OK);
    (void)snprintf(file, sizeof file, "%s/step-000000000000.safetensors", path);
    fd = open(file, O_RDWR);
    count = read(fd, good, sizeof good);
    (void)CHECK(count > 100 && count < FILE_MAX);
    for (int round = 0; round < ROUNDS; round++) {
        char bad[FILE_MAX];
        size_t bytes;
        tutti_status status;

        memcpy(bad, good, sizeof bad);
        bytes = damage(bad, (size_t)count, &state);
        (void)CHECK(
                ftruncate(fd, 0) == 0 && pwrite(fd, bad, bytes, 0) == (ssize_t)bytes);
        memset(values, 0, sizeof values);
        step = 0;
        status = tutti_checkpoint_load(t, &options, tensors, 2, NULL);
        loaded += status == TUTTI_OK;
        (void)CHECK(status == TUTTI_OK || status == TUTTI_ERR_INVALID);
        (void)CHECK(status == TUTTI_OK || (values[0] == 0 && step == 0));
    }
    (void)CHECK(loaded > 0 && loaded < ROUNDS / 4); /* spaces may change, and texts */
    (void)close(fd);
    (void)unlink(file);
}

UNIT_TEST(test_damaged_files_are_errors)
{
    assert_non_null(mkdtemp(path));
    assert_int_equal(ranks_run(1, fuzz, NULL), 0);
    assert_int_equal(rmdir(path), 0);
}
