/*
 * Files of what autotune found: what is accepted is written as it is read.
 */
#include <string.h>

#include "base/tuning.h"
#include "fuzz.h"

static const char place[] = "p";

static void take_again(const struct tuning_record *record)
{
    char text[1024];
    char *line = text;
    struct tuning_record again = { 0 };
    bool here = false;

    REQUIRE(tuning_write(record, place, 0.5, text, sizeof text));
    while (*line != '\0') {
        char *end = strchr(line, '\n');

        *end = '\0';
        REQUIRE(tuning_read_line(line, place, &here, &again) >= 0);
        line = end + 1;
    }
    REQUIRE(here && memcmp(record, &again, sizeof again) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input input = { data, size };
    struct tuning_record record = { 0 };
    bool here = false;
    char *line;

    while ((line = fuzz_line(&input)) != NULL) {
        if (tuning_read_line(line, place, &here, &record) >= 0 && here) {
            take_again(&record);
        }
        free(line);
    }
    return 0;
}
