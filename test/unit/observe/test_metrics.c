/*
 * What is counted of batches, and how it is told.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "observe/metrics.h"
#include "test/unit/unit.h"

static struct metrics metrics;
static struct wire_writer text;

static int begin(void **state)
{
    (void)state;
    metrics = (struct metrics){ .backends = { "shm", "a\"b" } };
    return 0;
}

static int end(void **state)
{
    (void)state;
    wire_writer_fini(&text);
    text = (struct wire_writer){ .data = NULL };
    return 0;
}

#define TEST(name) UNIT_TEST_WITH(name, begin, end)

static void count(int backend, uint64_t bytes, uint64_t time_ns)
{
    metrics_count(&metrics,
            &(struct metrics_batch){ .collective = TUTTI_ALLREDUCE,
                    .backend = backend,
                    .operations = 3,
                    .bytes = bytes,
                    .time_ns = time_ns });
}

static const char *format(tutti_metrics_format which)
{
    const struct metrics_source sources[] = {
        { .metrics = &metrics, .rank = 4, .size = 6, .is_up = true },
        { .metrics = &metrics, .rank = 5, .size = 6 },
    };

    wire_writer_reset(&text);
    metrics_format(&text, which, sources, 2, 1700000000.25);
    wire_put_u8(&text, 0);
    assert_false(text.failed);
    return (const char *)text.data;
}

static void expect_lines(const char *written, const char *lines)
{
    if (strstr(written, lines) == NULL) {
        fail_msg("'%s' is not in:\n%s", lines, written);
    }
}

TEST(test_sizes_are_classes_of_powers_of_two)
{
    const struct {
        uint64_t bytes;
        unsigned size_class;
    } cases[] = { { 0, 0 }, { 1, 0 }, { 2, 1 }, { 3, 2 }, { 4, 2 }, { 5, 3 },
        { 1 << 20, 20 }, { (1 << 20) + 1, 21 }, { UINT64_C(1) << 63, 63 } };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(metrics_size_class(cases[i].bytes), cases[i].size_class);
    }
}

TEST(test_batches_of_a_class_are_one_row)
{
    struct metrics_total total;
    int rows = 0;

    count(0, 513, 1000);
    count(0, 1024, 5000);
    count(1, 1024, 1);
    for (int i = 0; i < METRICS_ROWS; i++) {
        if (metrics_read_row(&metrics, i, &total)) {
            rows++;
            if (strcmp(total.backend, "shm") == 0) {
                assert_string_equal(total.collective, "allreduce");
                assert_int_equal(total.size, 1024);
                assert_int_equal(total.operations, 6);
                assert_int_equal(total.batches, 2);
                assert_int_equal(total.bytes, 1537);
                assert_int_equal(total.time_ns, 6000);
            }
        }
    }
    assert_int_equal(rows, 2);
}

TEST(test_more_rows_than_there_are_go_into_the_last)
{
    uint64_t operations = 0;
    struct metrics_total total;

    for (int backend = -1; backend < METRICS_BACKENDS; backend++) {
        for (int bit = 0; bit < 40; bit++) {
            count(backend, UINT64_C(1) << bit, 1);
        }
    }
    for (int i = 0; i < METRICS_ROWS; i++) {
        assert_true(metrics_read_row(&metrics, i, &total));
        operations += total.operations;
    }
    assert_string_equal(total.collective, "other");
    assert_int_equal(operations, 3 * 40 * (METRICS_BACKENDS + 1));
    assert_int_equal(total.batches, 40 * (METRICS_BACKENDS + 1) - (METRICS_ROWS - 1));
}

TEST(test_fusion_buffers_of_sets)
{
    metrics_fusion(&metrics, 7, 100);
    metrics_fusion(&metrics, 7, 50);
    metrics_fusion(&metrics, 7, -100);
    for (uint32_t set = 100; set < 100 + METRICS_SETS; set++) {
        metrics_fusion(&metrics, set, 1);
    }
    assert_int_equal(metrics.sets[0].bytes, 50);
    assert_int_equal(metrics.sets[0].peak, 150);
    assert_int_equal(metrics.sets[METRICS_SETS - 1].bytes, 2);
}

TEST(test_text_for_prometheus)
{
    const char *written;

    count(1, 100, 3000);
    count(1, 100, 2000000000);
    counter_add(&metrics.wait_ns, 1500000000);
    counter_add(&metrics.steps, 2);
    written = format(TUTTI_METRICS_PROMETHEUS);
    expect_lines(written,
            "# TYPE tutti_up gauge\ntutti_up{rank=\"4\"} 1\ntutti_up{rank=\"5\"} 0\n");
    expect_lines(written,
            "tutti_bytes_total{rank=\"4\",collective=\"allreduce\",backend=\"a\\\"b\","
            "size=\"128\"} 200\n");
    expect_lines(written, "size=\"128\",le=\"1e-06\"} 0\n");
    expect_lines(written, "size=\"128\",le=\"4e-06\"} 1\n");
    expect_lines(written, "size=\"128\",le=\"1.048576\"} 1\n");
    expect_lines(written, "size=\"128\",le=\"4.194304\"} 2\n");
    expect_lines(written, "size=\"128\",le=\"+Inf\"} 2\n");
    expect_lines(written, "size=\"128\"} 2.000003\n");
    expect_lines(written, "tutti_caller_wait_seconds_total{rank=\"4\"} 1.5\n");
    expect_lines(written, "tutti_steps_total{rank=\"5\"} 2\n");
}

TEST(test_lines_of_json)
{
    count(0, 1, 1);
    expect_lines(format(TUTTI_METRICS_JSON),
            "{\"time\":1700000000.250,\"name\":\"tutti_operations_total\",\"labels\":{"
            "\"rank\":\"4\",\"collective\":\"allreduce\",\"backend\":\"shm\",\"size\":"
            "\"1\"},\"value\":3}\n");
}

/* In a folder of several users one of them may foresee names. */
TEST(test_a_draft_follows_no_link)
{
    char folder[] = "/tmp/test_metrics.XXXXXX";
    char path[64];
    char link[96];
    char victim[64];

    assert_non_null(mkdtemp(folder));
    (void)snprintf(path, sizeof path, "%s/m.prom", folder);
    (void)snprintf(link, sizeof link, "%s.%d", path, (int)getpid());
    (void)snprintf(victim, sizeof victim, "%s/victim", folder);
    assert_int_equal(symlink(victim, link), 0);
    (void)format(TUTTI_METRICS_PROMETHEUS);
    assert_int_equal(metrics_save(path, TUTTI_METRICS_PROMETHEUS, &text), TUTTI_OK);
    assert_int_not_equal(access(victim, F_OK), 0);
    assert_int_equal(unlink(link), 0);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(folder), 0); /* nothing else is left */
}

/* Counters of a rank that writes nonsense. */
TEST(test_nothing_in_the_block_is_believed)
{
    memset(&metrics, 0xff, sizeof metrics);
    expect_lines(format(TUTTI_METRICS_PROMETHEUS), "backend=\"none\"");
    for (size_t i = 0; i < METRICS_ROWS; i++) {
        metrics.rows[i].key = 1u << 31 | 1u << 8;
    }
    expect_lines(format(TUTTI_METRICS_JSON), "tutti_batch_seconds");
}
