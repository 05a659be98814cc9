/*
 * The happens-before check: what is said of a race, and kinds of order that the random programs
 * of test_gpusim_random do not have.
 */
#include <stdio.h>

#include "test/gpusim/gpu.h"

enum {
    BYTES = 4096
};

/* Two streams, an event and two buffers of device 0. */
struct bench {
    void *first, *second, *event;
    uint64_t a, b;
};

static struct bench bench_open(void)
{
    gpu_open(0);
    return (struct bench){
        .first = gpu_stream(),
        .second = gpu_stream(),
        .event = gpu_event(),
        .a = gpu_alloc(BYTES),
        .b = gpu_alloc(BYTES),
    };
}

static void bench_close(struct bench *bench)
{
    assert_int_equal(cuCtxSynchronize(), 0);
    assert_int_equal(cuMemFree_v2(bench->a), 0);
    assert_int_equal(cuMemFree_v2(bench->b), 0);
    assert_int_equal(cuEventDestroy_v2(bench->event), 0);
    assert_int_equal(cuStreamDestroy_v2(bench->first), 0);
    assert_int_equal(cuStreamDestroy_v2(bench->second), 0);
    gpu_close(0);
}

/* Ends the work, and says how many races it had; one of them must name both parties. */
static void expect_races(long races, const char *newer, const char *older)
{
    char text[512];

    gpusim_settle();
    assert_int_equal(gpusim_take_races(text, sizeof text), races);
    if (races > 0) {
        assert_non_null(strstr(text, newer));
        assert_non_null(strstr(text, older));
    }
    assert_int_equal(gpusim_reports(), 0);
}

static void link_streams(const struct bench *bench, bool linked)
{
    assert_int_equal(cuEventRecord(bench->event, bench->first), 0);
    if (linked) {
        assert_int_equal(cuStreamWaitEvent(bench->second, bench->event, 0), 0);
    }
}

static void try_write_then_read(bool linked)
{
    struct bench bench = bench_open();

    gpusim_hold(bench.second);
    assert_int_equal(cuMemsetD8Async(bench.a, 1, BYTES, bench.first), 0);
    link_streams(&bench, linked);
    assert_int_equal(cuMemcpyDtoDAsync_v2(bench.b, bench.a, BYTES, bench.second), 0);
    gpusim_settle();
    gpusim_release(bench.second);
    expect_races(linked ? 0 : 1, "cuMemcpyDtoDAsync_v2", "cuMemsetD8Async");
    bench_close(&bench);
}

UNIT_TEST(test_a_missing_wait_before_a_read_is_found)
{
    try_write_then_read(false);
    try_write_then_read(true);
}

/* All readers that nothing orders must be waited for, not only the last one. */
UNIT_TEST(test_every_reader_is_remembered)
{
    struct bench bench = bench_open();

    assert_int_equal(cuMemcpyDtoDAsync_v2(bench.b, bench.a, 10, bench.first), 0);
    gpusim_settle();
    assert_int_equal(cuMemcpyDtoDAsync_v2(bench.b + 10, bench.a, 10, bench.second), 0);
    gpusim_settle();
    assert_int_equal(cuMemsetD8Async(bench.a, 2, 10, bench.second), 0);
    expect_races(1, "cuMemsetD8Async", "cuMemcpyDtoDAsync_v2");
    bench_close(&bench);
}

UNIT_TEST(test_the_host_must_wait_before_it_reads)
{
    struct bench bench = bench_open();
    char bytes[BYTES];

    /* whichever comes first: the access is late or early, it is a race in both cases */
    assert_int_equal(cuMemsetD8Async(bench.a, 1, BYTES, bench.first), 0);
    assert_true(gpusim_read(bytes, bench.a, BYTES));
    expect_races(1, "gpusim_read", "cuMemsetD8Async");
    gpu_wait(bench.first);
    assert_true(gpusim_read(bytes, bench.a, BYTES));

    gpusim_hold(bench.first);
    assert_int_equal(cuMemsetD8Async(bench.a, 2, BYTES, bench.first), 0);
    assert_true(gpusim_read(bytes, bench.a, BYTES));
    gpusim_release(bench.first);
    expect_races(1, "cuMemsetD8Async", "gpusim_read");

    assert_int_equal(cuMemsetD8Async(bench.a, 3, BYTES, bench.first), 0);
    assert_int_equal(cuEventRecord(bench.event, bench.first), 0);
    while (cuEventQuery(bench.event) == 600) {
        gpusim_settle();
    }
    assert_true(gpusim_read(bytes, bench.a, BYTES));
    expect_races(0, "", "");
    bench_close(&bench);
}

UNIT_TEST(test_what_the_host_wrote_is_seen_by_what_it_submits)
{
    struct bench bench = bench_open();

    assert_true(gpusim_fill(bench.a, 1, BYTES));
    assert_int_equal(cuMemcpyDtoDAsync_v2(bench.b, bench.a, BYTES, bench.first), 0);
    gpu_wait(bench.first);
    assert_true(gpusim_fill(bench.a, 2, BYTES));
    expect_races(0, "", "");
    bench_close(&bench);
}

/* The driver may wait when memory is freed, but does not promise it. */
UNIT_TEST(test_freeing_what_is_in_use_is_found)
{
    struct bench bench = bench_open();
    uint64_t pointer = gpu_alloc(BYTES);

    assert_int_equal(cuMemcpyDtoDAsync_v2(bench.b, pointer, BYTES, bench.first), 0);
    assert_int_equal(cuMemFree_v2(pointer), 0);
    expect_races(1, "cuMemFree", "cuMemcpyDtoDAsync_v2");
    pointer = gpu_alloc(BYTES);
    assert_int_equal(cuMemcpyDtoDAsync_v2(bench.b, pointer, BYTES, bench.first), 0);
    gpu_wait(bench.first);
    assert_int_equal(cuMemFree_v2(pointer), 0);
    expect_races(0, "", "");
    bench_close(&bench);
}

UNIT_TEST(test_pinned_memory_is_checked_as_well)
{
    struct bench bench = bench_open();
    void *pinned;

    assert_int_equal(cuMemHostAlloc(&pinned, BYTES, 1), 0);
    assert_int_equal(cuMemcpyDtoHAsync_v2(pinned, bench.a, BYTES, bench.first), 0);
    assert_int_equal(cuMemcpyHtoDAsync_v2(bench.b, pinned, BYTES, bench.second), 0);
    expect_races(1, "cuMemcpy", "cuMemcpy");
    assert_int_equal(cuCtxSynchronize(), 0);
    assert_int_equal(cuMemFreeHost(pinned), 0);
    bench_close(&bench);
}

/* What comes after a record is not covered by it. */
UNIT_TEST(test_a_record_covers_what_was_before_it)
{
    struct bench bench = bench_open();

    assert_int_equal(cuEventRecord(bench.event, bench.first), 0);
    assert_int_equal(cuMemsetD8Async(bench.a, 1, BYTES, bench.first), 0);
    assert_int_equal(cuStreamWaitEvent(bench.second, bench.event, 0), 0);
    assert_int_equal(cuMemsetD8Async(bench.a, 2, BYTES, bench.second), 0);
    expect_races(1, "cuMemsetD8Async", "cuMemsetD8Async");
    bench_close(&bench);
}

UNIT_TEST(test_the_default_stream_orders_implicitly)
{
    struct bench bench = bench_open();
    void *blocking;

    assert_int_equal(cuStreamCreate(&blocking, 0), 0);
    assert_int_equal(cuMemsetD8Async(bench.a, 1, BYTES, blocking), 0);
    assert_int_equal(cuMemsetD8Async(bench.a, 2, BYTES, NULL), 0);
    assert_int_equal(cuMemsetD8Async(bench.a, 3, BYTES, blocking), 0);
    expect_races(0, "", "");
    assert_int_equal(cuMemsetD8Async(bench.a, 4, BYTES, bench.first), 0);
    expect_races(1, "cuMemsetD8Async", "cuMemsetD8Async");
    assert_int_equal(cuStreamDestroy_v2(blocking), 0);
    bench_close(&bench);
}

/* Ranges of a thousand tensors in one buffer: neighbours do not race, one overlap does. */
UNIT_TEST(test_many_neighbours)
{
    struct bench bench = bench_open();

    for (uint64_t i = 0; i < BYTES; i += 4) {
        assert_int_equal(cuMemsetD8Async(bench.a + i, 1, 4,
                                 i % 8 == 0 ? bench.first : bench.second),
                0);
    }
    expect_races(0, "", "");
    assert_int_equal(cuMemsetD8Async(bench.a + 800, 1, 5, bench.first), 0);
    expect_races(1, "writes 5 bytes at offset 800", "at offset 804");
    bench_close(&bench);
}
