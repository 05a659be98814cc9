/*
 * Allocation: what the functions return, the counter, and the injected failures.
 */
#include <string.h>

#include "base/mem.h"
#include "test/unit/unit.h"

UNIT_TEST(test_no_bytes_give_a_unique_pointer)
{
    void *blocks[] = { mem_alloc(0), mem_alloc(0), mem_calloc(0, 8), mem_calloc(8, 0),
        mem_alloc_aligned(0), mem_resize(NULL, 0, 4) };
    size_t i, j;

    for (i = 0; i < sizeof blocks / sizeof *blocks; i++) {
        assert_non_null(blocks[i]);
        for (j = 0; j < i; j++) {
            assert_ptr_not_equal(blocks[i], blocks[j]);
        }
    }
    for (i = 0; i < sizeof blocks / sizeof *blocks; i++) {
        mem_free(blocks[i]);
    }
    mem_free(NULL);
}

UNIT_TEST(test_aligned_memory_is_aligned_and_zeroed)
{
    static const char zeroes[1000];
    size_t size;

    for (size = 1; size <= sizeof zeroes; size += 111) {
        unsigned char *block = mem_alloc_aligned(size);

        assert_non_null(block);
        assert_int_equal((uintptr_t)block % 64, 0);
        assert_memory_equal(block, zeroes, size);
        memset(block, 0xff, size);
        mem_free(block);
    }
}

UNIT_TEST(test_overflowing_sizes_are_refused)
{
    assert_null(mem_calloc(SIZE_MAX / 2, 3));
    assert_null(mem_resize(NULL, SIZE_MAX / 2, 3));
    assert_null(mem_alloc_aligned(SIZE_MAX - 1));
    assert_null(mem_alloc_aligned(SIZE_MAX));
}

UNIT_TEST(test_a_failed_resize_leaves_the_block)
{
    char *block = mem_strdup("text");
    char *larger;

    assert_null(mem_resize(block, SIZE_MAX, 2));
    mem_fail_at(1);
    assert_null(mem_resize(block, 100, 1));
    assert_string_equal(block, "text");

    larger = mem_resize(block, 100, 1);
    assert_string_equal(larger, "text");
    mem_free(larger);
}

/* One call of each kind. */
static void *allocate(int kind)
{
    switch (kind) {
    case 0:
        return mem_alloc(8);
    case 1:
        return mem_calloc(2, 8);
    case 2:
        return mem_resize(NULL, 2, 8);
    case 3:
        return mem_alloc_aligned(8);
    default:
        return mem_strdup("x");
    }
}

UNIT_TEST(test_every_kind_is_counted_and_can_fail)
{
    int kind;

    for (kind = 0; kind < 5; kind++) {
        uint64_t before = mem_alloc_count();
        void *block = allocate(kind);

        assert_non_null(block);
        assert_int_equal(mem_alloc_count(), before + 1);
        mem_free(block);

        mem_fail_at(1);
        assert_null(allocate(kind));
        assert_int_equal(mem_alloc_count(), before + 2);
    }
}

UNIT_TEST(test_only_the_nth_allocation_fails)
{
    uint64_t n;

    for (n = 1; n <= 5; n++) {
        uint64_t i;

        mem_fail_at(n);
        for (i = 1; i <= 6; i++) {
            void *block = mem_alloc(1);

            assert_true((block == NULL) == (i == n));
            mem_free(block);
        }
    }
    mem_fail_at(1);
    mem_fail_at(0);
    mem_free(allocate(0));
}

UNIT_TEST(test_size_arithmetic)
{
    size_t product = 7;

    assert_true(size_mul(6, 7, &product));
    assert_int_equal(product, 42);
    assert_false(size_mul(SIZE_MAX, 2, &product));
    assert_int_equal(product, 42);
    assert_int_equal(size_align(0, 64), 0);
    assert_int_equal(size_align(1, 64), 64);
    assert_int_equal(size_align(64, 64), 64);
    assert_int_equal(size_min(3, 4), 3);
    assert_int_equal(size_max(3, 4), 4);
}

UNIT_TEST(test_copies_of_any_length_are_exact)
{
    static unsigned char from[9000];
    static unsigned char to[sizeof from];

    for (size_t i = 0; i < sizeof from; i++) {
        from[i] = (unsigned char)(i * 7 + i / 256);
    }
    for (size_t bytes = 0; bytes + 2 <= sizeof from; bytes += bytes < 70 ? 1 : 509) {
        memset(to, 0xa5, sizeof to);
        mem_copy(to + 1, from, bytes);
        assert_int_equal(to[0], 0xa5);
        assert_memory_equal(to + 1, from, bytes);
        assert_int_equal(to[bytes + 1], 0xa5);
    }
}

UNIT_TEST(test_an_array_grows_and_keeps_its_elements)
{
    int *numbers = NULL;
    size_t capacity = 0;
    uint64_t before;

    for (int i = 0; i < 1000; i++) {
        assert_true(mem_grow(&numbers, &capacity, (size_t)i + 1, sizeof *numbers));
        assert_true(capacity > (size_t)i);
        numbers[i] = i;
    }
    for (int i = 0; i < 1000; i++) {
        assert_int_equal(numbers[i], i);
    }
    before = mem_alloc_count();
    assert_true(mem_grow(&numbers, &capacity, capacity, sizeof *numbers));
    assert_int_equal(mem_alloc_count(), before);
    mem_fail_at(1);
    assert_false(mem_grow(&numbers, &capacity, capacity + 1, sizeof *numbers));
    mem_fail_at(0);
    assert_int_equal(numbers[999], 999);
    mem_free(numbers);
}
