/*
 * The product's kernels over the simulator: each range that they read or write is seen by the
 * happens-before check. What they compute is for gpu.device_kernels.
 */
#include <stdlib.h>

#include "ops/gpu/kernels/kernels.h"
#include "test/gpusim/gpu.h"

enum {
    TENSORS = 5,
    ELEMENTS = 3000,
    SLAB_BYTES = 1 << 20,
    TABLE_BYTES = 4096
};

static const struct kernel_target target = { .sm_count = 2,
    .parameter_bytes = KERNEL_LARGE_BYTES };

/* A batch in device memory, and a stream for each of its steps. */
struct bench {
    void *module;
    uint64_t tensors[TENSORS];
    uint64_t slab;
    uint64_t table;
    void *produce, *pack;
    void *event;
    struct pack_plan plan;
    uint64_t table_image[TABLE_BYTES / sizeof(uint64_t)];
};

static struct bench bench;

static void bench_open(void)
{
    gpu_open(0);
    memset(&bench, 0, sizeof bench);
    assert_int_equal(cuModuleLoadData(&bench.module, "any image will do"), 0);
    pack_plan_init(&bench.plan, TUTTI_FLOAT32, TUTTI_FLOAT32);
    for (int i = 0; i < TENSORS; i++) {
        bench.tensors[i] = gpu_alloc(ELEMENTS * sizeof(float));
        assert_int_equal(
                pack_plan_add(&bench.plan, bench.tensors[i], ELEMENTS - (uint64_t)i),
                TUTTI_OK);
    }
    bench.slab = gpu_alloc(SLAB_BYTES);
    bench.table = gpu_alloc(TABLE_BYTES);
    bench.produce = gpu_stream();
    bench.pack = gpu_stream();
    bench.event = gpu_event();
}

static void bench_close(void)
{
    assert_int_equal(cuCtxSynchronize(), 0);
    for (int i = 0; i < TENSORS; i++) {
        assert_int_equal(cuMemFree_v2(bench.tensors[i]), 0);
    }
    assert_int_equal(cuMemFree_v2(bench.slab), 0);
    assert_int_equal(cuMemFree_v2(bench.table), 0);
    assert_int_equal(cuEventDestroy_v2(bench.event), 0);
    assert_int_equal(cuStreamDestroy_v2(bench.produce), 0);
    assert_int_equal(cuStreamDestroy_v2(bench.pack), 0);
    assert_int_equal(cuModuleUnload(bench.module), 0);
    pack_plan_fini(&bench.plan);
    gpu_close(0);
}

static void launch_kernel(struct kernel_launch launch, void *args, void *stream)
{
    void *parameters[] = { args };
    void *function = NULL;

    assert_int_equal(
            cuModuleGetFunction(&function, bench.module, kernel_name(launch.kernel)),
            0);
    assert_int_equal(cuLaunchKernel(function, launch.grid, 1, 1, launch.threads, 1, 1,
                             0, stream, parameters, NULL),
            0);
}

static void launch_pack(enum pack_direction direction, bool has_table)
{
    static union pack_args args;
    const struct pack_work work = { .direction = direction,
        .packed = bench.slab,
        .table = has_table ? bench.table : 0,
        .scale = direction == PACK_GATHER ? 2 : 1,
        .divisor = 1 };
    const struct kernel_launch launch = pack_launch(&bench.plan, &work, &target, &args);

    launch_kernel(launch, &args, bench.pack);
    memset(&args, 0xff, sizeof args); /* parameters were copied */
}

static void upload_table(void *stream)
{
    assert_true(pack_table_bytes(&bench.plan) <= TABLE_BYTES);
    pack_table_write(&bench.plan, bench.table_image);
    assert_int_equal(cuMemcpyHtoDAsync_v2(bench.table, bench.table_image,
                             pack_table_bytes(&bench.plan), stream),
            0);
}

/* A gradient on its stream. */
static void produce(int tensor, unsigned char byte)
{
    assert_int_equal(cuMemsetD8Async(bench.tensors[tensor], byte,
                             ELEMENTS * sizeof(float), bench.produce),
            0);
}

static void link_streams(void *before, void *after)
{
    assert_int_equal(cuEventRecord(bench.event, before), 0);
    assert_int_equal(cuStreamWaitEvent(after, bench.event, 0), 0);
}

/* A tensor that is written while it is packed, and no event between: which one is found. */
static void expect_race_of(int tensor, bool has_table)
{
    char text[512];

    bench_open();
    upload_table(bench.pack);
    for (int i = 0; i < TENSORS; i++) {
        if (i != tensor) {
            produce(i, 0);
        }
    }
    link_streams(bench.produce, bench.pack);
    produce(tensor, 1);
    launch_pack(PACK_GATHER, has_table);
    gpusim_settle();
    assert_int_equal(gpusim_take_races(text, sizeof text), 1);
    assert_non_null(strstr(text, "tutti_f32_f32_"));
    bench_close();
}

UNIT_TEST(test_every_tensor_of_a_launch_is_watched)
{
    for (int i = 0; i < TENSORS; i++) {
        expect_race_of(i, false);
        expect_race_of(i, true);
    }
}

UNIT_TEST(test_the_packed_buffer_is_watched)
{
    bench_open();
    for (int i = 0; i < TENSORS; i++) {
        produce(i, 0);
    }
    link_streams(bench.produce, bench.pack);
    launch_pack(PACK_GATHER, false);
    assert_int_equal(cuMemsetD8Async(bench.slab + bench.plan.pieces[TENSORS - 1].packed,
                             0, 4, bench.produce),
            0);
    gpusim_settle();
    assert_int_equal(gpusim_take_races(NULL, 0), 1);
    bench_close();
}

UNIT_TEST(test_a_table_that_is_not_there_yet_is_found)
{
    bench_open();
    upload_table(bench.pack);
    gpu_wait(bench.pack);
    gpusim_settle();
    upload_table(bench.produce); /* again, and the launch does not wait */
    for (int i = 0; i < TENSORS; i++) {
        assert_int_equal(cuMemsetD8Async(bench.tensors[i], 0, ELEMENTS * sizeof(float),
                                 bench.pack),
                0);
    }
    launch_pack(PACK_GATHER, true);
    gpusim_settle();
    assert_true(gpusim_take_races(NULL, 0) >= 1);
    bench_close();
}
