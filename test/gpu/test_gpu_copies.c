/*
 * Copies between the memory of a rank's GPU and the host's, by the interface of the core.
 */
#include <string.h>

#include "test/gpu/rig.h"

#define BYTES ((size_t)5000)

/* Between fresh memory of both; it goes with the GPU. */
static struct device_copy copy_of(const struct device *d, enum device_way way)
{
    void *host = d->host_alloc(d->state, BYTES);
    void *memory = d->alloc(d->state, BYTES);

    assert_non_null(host);
    assert_non_null(memory);
    memset(host, 1, BYTES);
    return (struct device_copy){ .to = way == DEVICE_TO_HOST ? host : memory,
        .from = way == DEVICE_TO_HOST ? memory : host,
        .bytes = BYTES };
}

/* What comes back does not queue behind what still waits for its tensors. */
GPU_TEST(test_the_ways_do_not_wait_for_each_other)
{
    const struct device d = gpu_device(f->gpu);
    const struct device_copy there = copy_of(&d, DEVICE_TO_HOST);
    const struct device_copy back = copy_of(&d, HOST_TO_DEVICE);
    struct device_event *written = NULL;
    struct device_event *copied = NULL;
    struct device_event *returned = NULL;
    bool captured;

    gpusim_hold(f->stream);
    ASSERT_OK(d.record(d.state, f->stream, &written, &captured));
    ASSERT_OK(d.copy(d.state, DEVICE_TO_HOST, &there, 1, &written, 1, &copied));
    ASSERT_OK(d.copy(d.state, HOST_TO_DEVICE, &back, 1, NULL, 0, &returned));
    assert_passes(f->gpu, returned);
    assert_int_equal(d.passed(d.state, copied), TUTTI_AGAIN);
    gpusim_release(f->stream);
    assert_passes(f->gpu, copied);
    d.release(d.state, written);
    d.release(d.state, copied);
    d.release(d.state, returned);
}

static tutti_status copy_two(struct fixture *f)
{
    const struct device d = gpu_device(f->gpu);
    struct device_event *done = NULL;
    const struct device_copy copies[] = { copy_of(&d, DEVICE_TO_HOST),
        copy_of(&d, DEVICE_TO_HOST) };

    return d.copy(d.state, DEVICE_TO_HOST, copies, 2, NULL, 0, &done);
}

/* What was begun cannot be taken back: only behind the first copy the device is lost. */
GPU_TEST(test_an_error_of_a_copy)
{
    gpusim_fail("cuMemcpyDtoHAsync_v2", 1, CU_ERROR_OUT_OF_MEMORY);
    assert_int_equal(copy_two(f), TUTTI_ERR_NO_MEMORY);
    assert_error_has("cannot copy between host and device memory");
    ASSERT_OK(gpu_alive(f->gpu));
    gpusim_fail("cuMemcpyDtoHAsync_v2", 2, CU_ERROR_OUT_OF_MEMORY);
    assert_int_equal(copy_two(f), TUTTI_ERR_SYSTEM);
    assert_error_has("rank 5 has lost GPU 1");
    assert_error_has("copy between host and device memory");
    assert_int_equal(gpu_alive(f->gpu), TUTTI_ERR_SYSTEM);
}
