/*
 * Settings as they travel and as they are kept: what may not be is refused.
 */
#include <string.h>

#include "base/tuning.h"
#include "test/unit/unit.h"

static const char place[] = "ranks=4 nodes=2 cpu=\"A [x] B\"";

static const struct tuning_record some = { .workload = { .tensors = 161,
                                                   .bytes = 4096 },
    .tuning.values = { [TUNING_FUSION_BYTES] = 1,
            [TUNING_ALGORITHM] = 2,
            [TUNING_SPIN_US] = 1000 } };

/* Reads a text line by line. @return how many lines were malformed */
static int read_text(
        char *text, const char *where, bool *here, struct tuning_record *record)
{
    int malformed = 0;

    for (char *line = text; *line != '\0';) {
        char *end = strchr(line, '\n');

        assert_non_null(end);
        *end = '\0';
        malformed += tuning_read_line(line, where, here, record) < 0;
        line = end + 1;
    }
    return malformed;
}

UNIT_TEST(test_what_is_written_is_read)
{
    struct tuning_record read = { 0 };
    char text[512];
    char copy[512];
    bool here = false;

    assert_true(tuning_write(&some, place, 0.123, text, sizeof text));
    assert_non_null(
            strstr(text, "]\nfusion_bytes=1\nalgorithm=direct\nspin_us=1000\n"));
    assert_non_null(strstr(text, "gain=12.3%\n"));
    memcpy(copy, text, sizeof copy);
    assert_int_equal(read_text(copy, place, &here, &read), 0);
    assert_true(here);
    assert_memory_equal(&read, &some, sizeof read);
    assert_int_equal(read_text(text, "ranks=4 nodes=2", &here, &read), 0);
    assert_false(here);
    for (size_t capacity = 1; capacity < 90; capacity++) {
        assert_false(tuning_write(&some, place, 0.123, text, capacity));
    }
}

UNIT_TEST(test_malformed_lines_are_refused)
{
    static const char *const lines[] = { "[p tensors=1 bytes=2", "[p tensors= bytes=2]",
        "[p tensors=1 bytes=2] ", "[p tensors=0 bytes=2]", "[p tensors=-1 bytes=2]",
        "[p bytes=2]", "[]", "inflight", "inflight=", "inflight=9", "inflight=0",
        "inflight=-1", "chunk_bytes=2g", "algorithm=4", "algorithm=fast", "plan=off",
        "=", " inflight=2" };
    struct tuning_record record = some;
    bool here = true;

    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        assert_int_equal(tuning_read_line(lines[i], "p", &here, &record), -1);
    }
    assert_int_equal(tuning_read_line("inflight=8", "p", &here, &record), 0);
    assert_int_equal(record.tuning.values[TUNING_INFLIGHT], 8);
    record = (struct tuning_record){ 0 };
    assert_int_equal(tuning_read_line("inflight=8", "p", &here, &record), -1);
    assert_int_equal(tuning_read_line("# inflight", "p", &here, &record), 0);
    assert_int_equal(tuning_read_line("", "p", &here, &record), 0);
}

UNIT_TEST(test_settings_travel_unless_they_may_not_be)
{
    struct wire_writer out = { 0 };
    struct wire_reader in;
    struct tuning tuning = { 0 };

    tuning_put(&out, &some.tuning);
    wire_reader_init(&in, out.data, out.len);
    assert_true(tuning_get(&in, &tuning));
    assert_memory_equal(&tuning, &some.tuning, sizeof tuning);
    wire_reader_init(&in, out.data, out.len - 1);
    assert_false(tuning_get(&in, &tuning));
    tuning.values[TUNING_INFLIGHT] = 9;
    wire_writer_reset(&out);
    tuning_put(&out, &tuning);
    wire_reader_init(&in, out.data, out.len);
    assert_false(tuning_get(&in, &tuning));
    wire_writer_fini(&out);
}
