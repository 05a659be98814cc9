/*
 * What the tests of loading share.
 */
#ifndef TUTTI_TEST_UNIT_GPU_LOADING_H
#define TUTTI_TEST_UNIT_GPU_LOADING_H

#include <stdlib.h>
#include <string.h>

#include <tutti/tutti.h>

#include "test/unit/unit.h"

/* Compares a text from which the folder of the fakes is cut away. */
static inline void assert_sentence(const char *said, const char *expected)
{
    const size_t folder_length = strlen(FAKES "/");
    char text[8192];
    size_t length = 0;

    for (; *said != '\0' && length < sizeof text - 1; said++) {
        while (strncmp(said, FAKES "/", folder_length) == 0) {
            said += folder_length;
        }
        text[length++] = *said;
    }
    text[length] = '\0';
    assert_string_equal(text, expected);
}

/* Puts the environment as the fakes see it back to nothing. */
static inline int clear_fakes(void **state)
{
    (void)state;
    (void)unsetenv("FAKE_CUDA_INIT");
    (void)unsetenv("FAKE_CUDA_DEVICES");
    (void)unsetenv("FAKE_CUDA_SILENT");
    (void)unsetenv("FAKE_NCCL_VERSION");
    (void)unsetenv("CUDA_VISIBLE_DEVICES");
    return 0;
}

/** A test of loading, with fakes as they are. */
#define LOADING_TEST(name) UNIT_TEST_WITH(name, clear_fakes, NULL)

#endif
