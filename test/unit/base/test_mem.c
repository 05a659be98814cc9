/*
 * Allocation: what the functions return, the counter, and the injected failures.
 */
#include <string.h>

#include "base/mem.h"
#include "test/unit/unit.h"

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
