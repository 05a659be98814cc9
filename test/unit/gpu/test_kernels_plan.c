/*
 * The parameters of launches.
 */
#include <string.h>

#include "base/mem.h"
#include "base/status.h"
#include "ops/gpu/kernels/kernels.h"
#include "test/unit/unit.h"

#define DRIVER_12_0 12000
#define DRIVER_12_1 12010

static const struct kernel_target old_gpu = { .sm_count = 40,
    .parameter_bytes = KERNEL_SMALL_BYTES };
static const struct kernel_target new_gpu = { .sm_count = 132,
    .parameter_bytes = KERNEL_LARGE_BYTES };
static struct pack_plan plan;

UNIT_TEST(test_parameters_have_the_sizes_that_drivers_take)
{
    assert_true(sizeof(struct pack_small) <= 4096);
    assert_true(sizeof(struct pack_large) <= 32764);
    assert_true(sizeof(struct pack_small) + sizeof(struct pack_piece) > 4096);
    assert_true(sizeof(struct pack_large) + sizeof(struct pack_piece) > 32764);
    assert_int_equal(kernel_parameter_bytes(DRIVER_12_0), 4096);
    assert_int_equal(kernel_parameter_bytes(DRIVER_12_1), 32764);
    assert_int_equal(pack_pieces_max(&old_gpu), PACK_SMALL_PIECES);
    assert_int_equal(pack_pieces_max(&new_gpu), PACK_LARGE_PIECES);
    assert_int_equal(offsetof(struct pack_small, pieces), sizeof(struct pack_header));
    assert_int_equal(sizeof(struct pack_header), 40);
    assert_int_equal(sizeof(struct pack_piece), 32);
}

UNIT_TEST(test_a_launch_has_as_many_blocks_as_chunks_or_as_fit)
{
    const struct pack_work work = { .scale = 1, .divisor = 1 };
    struct kernel_target known = new_gpu;
    struct kernel_launch launch;

    pack_plan_init(&plan, TUTTI_FLOAT32, TUTTI_FLOAT32);
    for (uint64_t i = 0; i < 3; i++) {
        pack_plan_add(&plan, 4096 + i * 400, 100, i * 512);
    }
    launch = pack_launch(&plan, &work, &new_gpu);
    assert_int_equal(launch.grid, 3);
    assert_int_equal(launch.threads, KERNEL_THREADS);
    assert_int_equal(launch.args_bytes, sizeof(struct pack_small));
    pack_plan_add(&plan, 0, UINT64_C(1) << 40, 0);
    launch = pack_launch(&plan, &work, &new_gpu);
    assert_int_equal(launch.grid, 132 * KERNEL_BLOCKS_PER_SM);
    known.blocks[launch.kernel] = 5;
    assert_int_equal(pack_launch(&plan, &work, &known).grid, 132 * 5);
}

/** A row of the table below. */
struct choice {
    tutti_dtype tensor, packed;
    struct pack_work work;
    const char *kernel;
    unsigned flags;
    double factor;
};

/* What is no copy, and no product, is compared in test_kernels_pack.c. */
UNIT_TEST(test_the_cheapest_kernel_is_taken)
{
    static const struct choice choices[] = {
        { TUTTI_FLOAT32, TUTTI_FLOAT32, { PACK_GATHER, 0, 1, 1 }, "tutti_copy_small", 0,
                1 },
        { TUTTI_FLOAT32, TUTTI_FLOAT32, { PACK_GATHER, 0, 0.5, 1 },
                "tutti_f32_f32_small", PACK_SCALES, 0.5 },
        /* division by a power of two is a product with an exact number */
        { TUTTI_BFLOAT16, TUTTI_BFLOAT16, { PACK_SCATTER, 0, 1, 4 },
                "tutti_bf16_bf16_small", PACK_SCATTERS | PACK_SCALES, 0.25 },
        /* but not with a factor: that would be one rounding for two */
        { TUTTI_FLOAT64, TUTTI_FLOAT64, { PACK_SCATTER, 0, 1.1, 4 },
                "tutti_f64_f64_small", PACK_SCATTERS | PACK_SCALES | PACK_DIVIDES,
                1.1 },
        { TUTTI_INT32, TUTTI_INT32, { PACK_SCATTER, 0, 1, 1 }, "tutti_copy_small",
                PACK_SCATTERS | PACK_SIGNED, 1 },
        { TUTTI_BOOL, TUTTI_BOOL, { PACK_GATHER, 0, 1, 1 }, "tutti_copy_small", 0, 1 },
        { TUTTI_FLOAT8_E4M3, TUTTI_FLOAT8_E4M3, { PACK_GATHER, 0, 1, 1 },
                "tutti_copy_small", 0, 1 },
    };

    for (size_t i = 0; i < sizeof choices / sizeof choices[0]; i++) {
        const struct choice *c = &choices[i];
        struct kernel_launch launch;

        pack_plan_init(&plan, c->tensor, c->packed);
        pack_plan_add(&plan, 64, 10, 0);
        launch = pack_launch(&plan, &c->work, &old_gpu);
        assert_string_equal(kernel_name(launch.kernel), c->kernel);
        assert_int_equal(plan.args.header.flags, c->flags);
        assert_true(plan.args.header.factor == c->factor);
    }
}

/* A fatbin begins with this number. Without nvcc there is none, and no size. */
UNIT_TEST(test_the_image_is_a_fatbin)
{
    const unsigned char magic[] = { 0x50, 0xed, 0x55, 0xba };
    size_t bytes = 1;
    const void *image = kernel_image(&bytes);

    if (image == NULL) {
        assert_int_equal(bytes, 0);
        print_message("this build has no nvcc and no kernels\n");
        return;
    }
    assert_true(bytes > sizeof magic);
    assert_memory_equal(image, magic, sizeof magic);
    assert_int_equal((uintptr_t)image % 8, 0);
}
