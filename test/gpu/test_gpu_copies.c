/*
 * Copies between the memory of a rank's GPU and the host's, by the interface of the core.
 */
#include <string.h>

#include "test/gpu/rig.h"

#define COUNT 3
#define BYTES ((size_t)5000)

/* Pinned memory, and the device's. */
static unsigned char *host[COUNT];
static void *memory[COUNT];

static int begin(void **state)
{
    struct device d;

    (void)fixture_begin(state);
    d = gpu_device(((struct fixture *)*state)->gpu);
    for (int i = 0; i < COUNT; i++) {
        host[i] = d.host_alloc(d.state, BYTES);
        memory[i] = d.alloc(d.state, BYTES);
        assert_non_null(host[i]);
        assert_non_null(memory[i]);
    }
    return 0;
}

static int end(void **state)
{
    const struct device d = gpu_device(((struct fixture *)*state)->gpu);

    gpusim_settle();
    for (int i = 0; i < COUNT; i++) {
        d.host_give_back(d.state, host[i]);
        d.give_back(d.state, memory[i]);
    }
    return fixture_end(state);
}

#define TEST(name) UNIT_TEST_ON(name, struct fixture *f, begin, end)

static void copy(struct fixture *f, enum device_way way, struct device_event *after,
        struct device_event **done)
{
    const struct device d = gpu_device(f->gpu);
    struct device_copy copies[COUNT];

    for (int i = 0; i < COUNT; i++) {
        const bool to_host = way == DEVICE_TO_HOST;

        copies[i] = (struct device_copy){ .to = to_host ? host[i] : memory[i],
            .from = to_host ? memory[i] : host[i],
            .bytes = i == 1 ? 0 : BYTES };
    }
    if (d.copy(d.state, way, copies, COUNT, &after, after != NULL ? 1 : 0, done) !=
            TUTTI_OK) {
        fail_msg("copy: %s", tutti_last_error());
    }
}

static unsigned char *bytes_of(int value)
{
    static unsigned char bytes[BYTES];

    memset(bytes, value, sizeof bytes);
    return bytes;
}

/* There and back, behind what the caller's stream does: the simulator sees any race. */
TEST(test_copies_wait_for_events_and_are_waited_for)
{
    const struct device gpu = gpu_device(f->gpu);
    const struct device *d = &gpu;
    struct device_event *written = NULL;
    bool captured;
    struct device_event *copied = NULL;
    struct device_event *returned = NULL;

    gpusim_hold(f->stream);
    for (int i = 0; i < COUNT; i++) {
        assert_int_equal(cuMemsetD8Async((uint64_t)(uintptr_t)memory[i],
                                 (unsigned char)(i + 1), BYTES, f->stream),
                0);
        memset(host[i], 0xee, BYTES);
    }
    ASSERT_OK(d->record(d->state, f->stream, &written, &captured));
    copy(f, DEVICE_TO_HOST, written, &copied);
    assert_int_equal(d->passed(d->state, copied), TUTTI_AGAIN);
    gpusim_release(f->stream);
    assert_passes(f->gpu, copied);
    for (int i = 0; i < COUNT; i++) {
        assert_memory_equal(host[i], bytes_of(i == 1 ? 0xee : i + 1), BYTES);
        memset(host[i], 0x40 + i, BYTES);
    }
    copy(f, HOST_TO_DEVICE, copied, &returned);
    ASSERT_OK(d->follow(d->state, f->stream, returned));
    assert_int_equal(cuStreamSynchronize(f->stream), 0);
    for (int i = 0; i < COUNT; i++) {
        unsigned char read[BYTES];

        assert_true(gpusim_read(read, (uint64_t)(uintptr_t)memory[i], BYTES));
        assert_memory_equal(read, bytes_of(i == 1 ? 2 : 0x40 + i), BYTES);
    }
    d->hold(d->state, written);
    d->release(d->state, written);
    d->release(d->state, written);
    d->release(d->state, copied);
    d->release(d->state, returned);
    d->release(d->state, NULL);
    assert_int_equal(gpusim_pageable_copies(), 0);
}

/* What comes back does not queue behind what still waits for its tensors. */
TEST(test_the_ways_do_not_wait_for_each_other)
{
    const struct device gpu = gpu_device(f->gpu);
    const struct device *d = &gpu;
    struct device_event *written = NULL;
    bool captured;
    struct device_event *copied = NULL;
    struct device_event *returned = NULL;
    const struct device_copy there = {
        .to = host[0], .from = memory[0], .bytes = BYTES
    };
    const struct device_copy back = {
        .to = memory[2], .from = host[2], .bytes = BYTES
    };

    memset(host[2], 1, BYTES);
    gpusim_hold(f->stream);
    ASSERT_OK(d->record(d->state, f->stream, &written, &captured));
    ASSERT_OK(d->copy(d->state, DEVICE_TO_HOST, &there, 1, &written, 1, &copied));
    ASSERT_OK(d->copy(d->state, HOST_TO_DEVICE, &back, 1, NULL, 0, &returned));
    assert_passes(f->gpu, returned);
    assert_int_equal(d->passed(d->state, copied), TUTTI_AGAIN);
    gpusim_release(f->stream);
    assert_passes(f->gpu, copied);
    d->release(d->state, written);
    d->release(d->state, copied);
    d->release(d->state, returned);
}

static tutti_status copy_two(struct fixture *f)
{
    const struct device d = gpu_device(f->gpu);
    struct device_event *done = NULL;
    const struct device_copy copies[] = {
        { .to = host[0], .from = memory[0], .bytes = BYTES },
        { .to = host[1], .from = memory[1], .bytes = BYTES },
    };

    return d.copy(d.state, DEVICE_TO_HOST, copies, 2, NULL, 0, &done);
}

TEST(test_an_error_before_the_first_copy_has_copied_nothing)
{
    gpusim_fail("cuMemcpyDtoHAsync_v2", 1, CU_ERROR_OUT_OF_MEMORY);
    assert_int_equal(copy_two(f), TUTTI_ERR_NO_MEMORY);
    assert_error_has("cannot copy between host and device memory");
    ASSERT_OK(gpu_alive(f->gpu));
    gpusim_fail("cuEventCreate", 1, CU_ERROR_OUT_OF_MEMORY);
    /* Spare events come before new ones: use them up. */
    for (int i = 0; i < 100 && copy_two(f) == TUTTI_OK; i++) {
        ASSERT_OK(gpu_alive(f->gpu));
    }
    assert_error_has("cannot create an event");
    ASSERT_OK(gpu_alive(f->gpu));
}

TEST(test_an_error_behind_the_first_copy_loses_the_device)
{
    gpusim_fail("cuMemcpyDtoHAsync_v2", 2, CU_ERROR_OUT_OF_MEMORY);
    assert_int_equal(copy_two(f), TUTTI_ERR_SYSTEM);
    assert_error_has("rank 5 has lost GPU 1");
    assert_error_has("copy between host and device memory");
    assert_int_equal(gpu_alive(f->gpu), TUTTI_ERR_SYSTEM);
}
