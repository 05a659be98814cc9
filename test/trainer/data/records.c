/*
 * Files of records: read by ranks, and refused when they are not what they should be.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <tutti/trainer/data.h>

#include "test/unit/unit.h"

enum {
    RECORD = 2500, /* crosses pages */
    HEADER = 12,
    RECORDS = 40
};

static char path[] = "records-XXXXXX";

/** Bytes that tell their place; `bytes` of them are in the file. */
static int write_file(void **state)
{
    static const size_t bytes = HEADER + (size_t)RECORDS * RECORD;
    int fd;

    (void)state;
    memcpy(path + sizeof path - 7, "XXXXXX", 6);
    fd = mkstemp(path);
    for (size_t i = 0; i < bytes; i += 2) {
        uint16_t word = (uint16_t)(i / 2);

        if (write(fd, &word, 2) != 2) {
            return -1;
        }
    }
    return close(fd);
}

static int remove_file(void **state)
{
    (void)state;
    return unlink(path);
}

static bool is_record(const void *data, int64_t index)
{
    const char *bytes = data;

    for (size_t i = 0; i < RECORD; i += 2) {
        uint16_t word;

        memcpy(&word, bytes + i, 2);
        if (word != (uint16_t)((HEADER + (size_t)index * RECORD + i) / 2)) {
            return false;
        }
    }
    return true;
}

static tutti_records *open_records(void)
{
    tutti_records_options options;
    tutti_records *records = NULL;

    tutti_records_options_default(&options);
    options.record_bytes = RECORD;
    options.header_bytes = HEADER;
    options.records = RECORDS;
    assert_int_equal(tutti_records_open(path, &options, &records), TUTTI_OK);
    return records;
}

UNIT_TEST_WITH(test_two_ranks_read_all_records, write_file, remove_file)
{
    tutti_records *records = open_records();
    char *out = malloc((size_t)7 * RECORD);
    int seen[RECORDS] = { 0 };

    for (int rank = 0; rank < 2; rank++) {
        tutti_shard_options options;
        tutti_shard *shard;
        int64_t indices[7];
        int64_t count;

        tutti_shard_options_default(&options);
        options.samples = RECORDS;
        options.tail = TUTTI_TAIL_UNEVEN;
        options.ranks = 2;
        options.rank = rank;
        assert_int_equal(tutti_shard_create(NULL, &options, &shard), TUTTI_OK);
        do {
            assert_int_equal(
                    tutti_records_next(records, shard, 7, indices, out, &count),
                    TUTTI_OK);
            for (int64_t i = 0; i < count; i++) {
                assert_true(is_record(out + i * RECORD, indices[i]));
                assert_true(
                        is_record(tutti_records_at(records, indices[i]), indices[i]));
                seen[indices[i]]++;
            }
        } while (count > 0);
        tutti_shard_destroy(shard);
    }
    for (int i = 0; i < RECORDS; i++) {
        assert_int_equal(seen[i], 1);
    }
    assert_null(tutti_records_at(records, RECORDS));
    free(out);
    tutti_records_close(records);
}

/* The mapping would raise SIGBUS. */
UNIT_TEST_WITH(
        test_a_file_truncated_while_it_is_read_is_an_error, write_file, remove_file)
{
    tutti_records *records = open_records();
    char *out = malloc((size_t)4 * RECORD);
    int64_t indices[2] = { 9, 20 };
    tutti_shard_options options;
    tutti_shard *shard;
    int64_t count = -1;

    tutti_shard_options_default(&options);
    options.samples = RECORDS;
    options.shuffle = false;
    options.ranks = 1;
    assert_int_equal(tutti_shard_create(NULL, &options, &shard), TUTTI_OK);
    assert_int_equal(
            tutti_shard_resume(shard, (tutti_shard_state){ 0, 8 }, 0, 0), TUTTI_OK);
    assert_int_equal(truncate(path, HEADER + 10 * RECORD + 100), 0);
    assert_int_equal(tutti_records_read(records, indices, 1, out), TUTTI_OK);
    assert_int_equal(tutti_records_read(records, indices, 2, out), TUTTI_ERR_INVALID);
    assert_non_null(strstr(tutti_last_error(), "record 20 of 40"));
    assert_non_null(strstr(tutti_last_error(), "the file ends at 25112"));
    assert_int_equal(
            tutti_records_next(records, shard, 4, (int64_t[4]){ 0 }, out, &count),
            TUTTI_ERR_INVALID);
    assert_int_equal(tutti_shard_get_state(shard).position, 8);
    assert_int_equal(count, -1);
    indices[1] = RECORDS;
    assert_int_equal(tutti_records_read(records, indices, 2, out), TUTTI_ERR_INVALID);
    assert_non_null(strstr(tutti_last_error(), "no record 40"));
    tutti_shard_destroy(shard);
    free(out);
    tutti_records_close(records);
}

static void refused(
        int64_t bytes, int64_t expected, tutti_status status, const char *text)
{
    tutti_records_options options;
    tutti_records *records = NULL;

    if (bytes >= 0) {
        assert_int_equal(truncate(path, bytes), 0);
    }
    tutti_records_options_default(&options);
    options.record_bytes = RECORD;
    options.header_bytes = HEADER;
    options.records = expected;
    assert_int_equal(
            tutti_records_open(bytes == -1 ? "." : path, &options, &records), status);
    assert_non_null(strstr(tutti_last_error(), text));
    assert_null(records);
}

UNIT_TEST_WITH(test_files_that_are_not_what_they_should_be, write_file, remove_file)
{
    tutti_records *records;

    refused(HEADER + RECORD * 3, 4, TUTTI_ERR_INVALID,
            "shorter than it should be: 7512 bytes");
    refused(HEADER + RECORD * 3, 2, TUTTI_ERR_INVALID, "longer");
    refused(HEADER + RECORD * 3 + 1, 3, TUTTI_ERR_INVALID, "longer");
    refused(HEADER + RECORD * 3 - 1, 0, TUTTI_ERR_INVALID, "2499 are left over");
    refused(HEADER, 0, TUTTI_ERR_INVALID, "no records");
    refused(0, 0, TUTTI_ERR_INVALID, "no records");
    refused(-1, 0, TUTTI_ERR_INVALID, "no regular file");
    assert_int_equal(tutti_records_open(path, NULL, &records), TUTTI_ERR_INVALID);
    assert_int_equal(
            tutti_records_open("absent",
                    &(tutti_records_options){
                            .size = sizeof(tutti_records_options), .record_bytes = 1 },
                    &records),
            TUTTI_ERR_SYSTEM);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkfifo(path, 0600), 0); /* which nobody writes */
    refused(-2, 0, TUTTI_ERR_INVALID, "no regular file");
}
