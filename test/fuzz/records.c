/*
 * A file of records, with options that may not fit it. The input: bytes of the header, of a
 * record, how many are expected, then the file.
 */
#include <tutti/trainer/data.h>

#include "fuzz.h"

enum {
    RECORD_MAX = 255
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input input = { data, size };
    tutti_records_options options;
    tutti_records *records = NULL;
    char out[RECORD_MAX];
    int64_t last;

    tutti_records_options_default(&options);
    options.header_bytes = fuzz_byte(&input);
    options.record_bytes = fuzz_byte(&input);
    options.records = (int8_t)fuzz_byte(&input);
    if (tutti_records_open(fuzz_open_file(&input), &options, &records) == TUTTI_OK) {
        last = tutti_records_count(records) - 1;
        REQUIRE(last >= 0);
        REQUIRE(tutti_records_read(records, &last, 1, out) == TUTTI_OK);
        REQUIRE(tutti_records_at(records, last + 1) == NULL);
        tutti_records_prefetch(records, &last, 1);
        tutti_records_close(records);
    }
    fuzz_close_file();
    return 0;
}
