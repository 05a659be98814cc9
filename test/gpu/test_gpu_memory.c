/*
 * Memory of a rank's GPU: pieces of tutti_alloc(TUTTI_DEVICE), slabs, pinned memory, and
 * where memory lies.
 */
#include <stdlib.h>
#include <string.h>

#include "ops/gpu/memory.h"
#include "ops/gpu/pieces.h"
#include "test/gpu/rig.h"

#define KIB ((size_t)1024)
#define MIB (KIB * 1024)

static uint64_t address(const void *memory)
{
    return (uint64_t)(uintptr_t)memory;
}

/* True when memory is given out, all of it in one piece. */
static bool has(struct gpu *gpu, const void *memory, size_t bytes)
{
    struct piece rest;

    return memory_rest(gpu, address(memory), &rest) && rest.state == PIECE_USED &&
            bytes <= rest.bytes;
}

static void *take(struct gpu *gpu, size_t bytes)
{
    void *memory = gpu_memory_alloc(gpu, bytes);

    if (memory == NULL) {
        fail_msg("%zu bytes: %s", bytes, tutti_last_error());
    }
    return memory;
}

static void assert_zeroed(const void *memory, size_t bytes)
{
    unsigned char *copy = malloc(bytes);

    assert_non_null(copy);
    assert_true(gpusim_read(copy, address(memory), bytes));
    for (size_t i = 0; i < bytes; i++) {
        assert_int_equal(copy[i], 0);
    }
    free(copy);
}

/* ----------------------------------------------------------------------- pieces */

UNIT_TEST(test_pieces_follow_each_other_and_merge)
{
    static const size_t sizes[] = { 1, 512, 256 };
    static const size_t offsets[] = { 0, 256, 768 };
    struct pieces pieces;
    size_t at = 9;

    assert_true(pieces_init(&pieces, 1024));
    for (int i = 0; i < 3; i++) {
        assert_true(pieces_take(&pieces, sizes[i], &at));
        assert_int_equal(at, offsets[i]);
        assert_int_equal(pieces_at(&pieces, at + sizes[i] - 1)->offset, at);
    }
    assert_false(pieces_take(&pieces, 1, &at));
    pieces_at(&pieces, 0)->state = PIECE_LEAVING;
    pieces_at(&pieces, 256)->state = PIECE_LEAVING;
    pieces_at(&pieces, 768)->state = PIECE_PARTED;
    assert_false(pieces_take(&pieces, 1, &at));
    pieces_turn(&pieces, PIECE_LEAVING, PIECE_FREE);
    assert_int_equal(pieces.count, 2);
    assert_false(pieces_take(&pieces, SIZE_MAX, &at));
    pieces_turn(&pieces, PIECE_PARTED, PIECE_FREE);
    assert_int_equal(pieces.count, 1);
    assert_true(pieces_take(&pieces, 1024, &at));
    assert_int_equal(at, 0);
    pieces_fini(&pieces);
}

/* ------------------------------------------------------------------- allocation */

GPU_TEST(test_memory_is_zeroed_aligned_and_side_by_side)
{
    const size_t sizes[] = { 256, 1024, 300, 4, 1 * MIB, 0 };
    uint64_t expected = 0;

    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        void *memory = take(f->gpu, sizes[i]);

        assert_int_equal(address(memory) % 256, 0);
        assert_true(expected == 0 || address(memory) == expected);
        assert_zeroed(memory, sizes[i]);
        assert_true(has(f->gpu, memory, sizes[i]));
        expected = address(memory) + (sizes[i] + 255) / 256 * 256;
        expected += sizes[i] == 0 ? 256 : 0;
    }
}

GPU_TEST(test_memory_is_not_given_out_while_it_may_be_in_use)
{
    for (int i = 0; i < GPU_ZERO; i++) {
        void *first = take(f->gpu, 4 * KIB);
        char bytes[4 * KIB];
        void *again;

        memset(bytes, 0x55, sizeof bytes);
        assert_true(gpusim_write(address(first), bytes, sizeof bytes));
        gpusim_hold(f->gpu->streams[i]);
        gpu_memory_give_back(f->gpu, first);
        again = take(f->gpu, 4 * KIB); /* and nobody waits */
        assert_ptr_not_equal(again, first);
        gpusim_release(f->gpu->streams[i]);
        gpusim_settle();
        again = take(f->gpu, 4 * KIB);
        assert_ptr_equal(again, first);
        assert_zeroed(again, 4 * KIB);
    }
}

GPU_TEST(test_what_a_size_is_rounded_up_by_is_padding)
{
    void *memory = take(f->gpu, 1000);
    const uint64_t end = address(memory) + 1000;

    assert_true(gpu_memory_is_padding(f->gpu, end, 24));
    assert_true(gpu_memory_is_padding(f->gpu, end + 23, 1));
    assert_false(gpu_memory_is_padding(f->gpu, end, 25));
    assert_false(gpu_memory_is_padding(f->gpu, end - 1, 1));
    gpu_memory_give_back(f->gpu, memory);
    assert_false(gpu_memory_is_padding(f->gpu, end, 24));
}

GPU_TEST(test_out_of_memory_is_told_and_the_rest_can_be_had)
{
    void *memory;

    gpusim_limit_memory(1, 3 * MIB);
    assert_null(gpu_memory_alloc(f->gpu, 4 * MIB));
    assert_error_has("rank 5, GPU 1");
    assert_error_has("cannot allocate device memory");
    assert_error_has("CUDA_ERROR_OUT_OF_MEMORY");
    memory = take(f->gpu, 1 * MIB); /* where a usual stretch does not fit */
    assert_true(has(f->gpu, memory, 1 * MIB));
    assert_null(gpu_memory_alloc(f->gpu, SIZE_MAX));
    assert_null(gpu_memory_alloc(f->gpu, SIZE_MAX - 300));
    gpusim_fail_nothing();
    memory = take(f->gpu, 20 * MIB + 1);
    assert_true(has(f->gpu, memory, 20 * MIB + 1));
    assert_false(has(f->gpu, memory, 20 * MIB + 257));
    assert_true(has(f->gpu, (char *)memory + 4096, 20 * MIB - 4095));
}

/* ------------------------------------------------------------------------ looking */

static enum op_space where(struct gpu *gpu, const void *memory, size_t bytes)
{
    enum op_space space = OP_HOST;

    if (gpu_memory_look(gpu, memory, bytes, &space) != TUTTI_OK) {
        fail_msg("look: %s", tutti_last_error());
    }
    return space;
}

static void assert_look_refused(
        struct gpu *gpu, const void *memory, size_t bytes, const char *says)
{
    enum op_space space = OP_HOST;

    assert_int_equal(gpu_memory_look(gpu, memory, bytes, &space), TUTTI_ERR_INVALID);
    assert_error_has("rank 5");
    assert_error_has(says);
    ASSERT_OK(gpu_alive(gpu));
}

GPU_TEST(test_host_memory_of_any_kind_is_the_hosts)
{
    static char fixed[64];
    char local[64];
    void *pinned = NULL;
    uint64_t managed = 0;

    assert_int_equal(cuMemHostAlloc(&pinned, 64, 0), 0);
    assert_int_equal(cuMemAllocManaged(&managed, 64, 1), 0);
    {
        const void *const all[] = { fixed, local, pinned, f, (void *)(uintptr_t)managed,
            gpu_host_alloc(f->gpu, 64) };

        for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
            assert_int_equal(where(f->gpu, all[i], 64), OP_HOST);
        }
    }
    assert_int_equal(cuMemFreeHost(pinned), 0);
    assert_int_equal(cuMemFree_v2(managed), 0);
}

GPU_TEST(test_device_memory_is_found_within_its_bounds)
{
    uint64_t pointer = 0;
    char *memory;

    assert_int_equal(cuMemAlloc_v2(&pointer, 10 * KIB), 0);
    memory = (char *)(uintptr_t)pointer;
    assert_int_equal(where(f->gpu, memory, 10 * KIB), OP_DEVICE);
    assert_int_equal(where(f->gpu, memory + 10 * KIB - 1, 1), OP_DEVICE);
    assert_look_refused(f->gpu, memory + 8, 10 * KIB, "ends before");
    assert_look_refused(f->gpu, memory, SIZE_MAX, "ends before");
    assert_int_equal(cuMemFree_v2(pointer), 0);
    /* It is not remembered: what is freed is not device memory any more. */
    assert_int_equal(where(f->gpu, memory, 16), OP_HOST);
}

GPU_TEST(test_own_memory_is_found_without_the_driver)
{
    char *first = take(f->gpu, 1000);
    char *second = take(f->gpu, 1000);
    const long calls = gpusim_calls("cuPointerGetAttributes");

    assert_int_equal(where(f->gpu, first, 1000), OP_DEVICE);
    assert_int_equal(where(f->gpu, second + 999, 1), OP_DEVICE);
    assert_look_refused(f->gpu, first, 2000, "ends before");
    gpu_memory_give_back(f->gpu, first);
    assert_look_refused(f->gpu, first, 1000, "tutti_free()");
    gpusim_settle();
    assert_look_refused(f->gpu, first, 1000, "tutti_free()");
    assert_int_equal(gpusim_calls("cuPointerGetAttributes"), calls);
}

/* ------------------------------------------------------------------------- slabs */

GPU_TEST(test_a_larger_slab_is_made_when_none_is_large_enough)
{
    struct gpu_slab *small = gpu_slab_take(f->gpu, 1, f->gpu->streams[GPU_PACK]);
    const size_t more = small->stretch.bytes + 1;
    struct gpu_slab *large;

    gpu_slab_give(f->gpu, small, NULL);
    large = gpu_slab_take(f->gpu, more, f->gpu->streams[GPU_PACK]);
    assert_ptr_not_equal(large, small);
    assert_true(large->stretch.bytes >= more);
    gpu_slab_give(f->gpu, large, NULL);
    gpusim_limit_memory(1, 0);
    assert_null(
            gpu_slab_take(f->gpu, large->stretch.bytes + 1, f->gpu->streams[GPU_PACK]));
    assert_error_has("CUDA_ERROR_OUT_OF_MEMORY");
    gpusim_fail_nothing();
}

/* ------------------------------------------------------------------------ pinned */

GPU_TEST(test_pinned_memory_is_kept_for_the_next)
{
    void *first = gpu_host_alloc(f->gpu, 100 * KIB);
    const long calls = gpusim_calls("cuMemHostAlloc");

    assert_int_equal(address(first) % 64, 0);
    gpu_host_give_back(f->gpu, first);
    assert_ptr_equal(gpu_host_alloc(f->gpu, 128 * KIB), first);
    assert_int_equal(gpusim_calls("cuMemHostAlloc"), calls);
    assert_ptr_not_equal(gpu_host_alloc(f->gpu, 128 * KIB), first);
    assert_null(gpu_host_alloc(f->gpu, SIZE_MAX));
}
