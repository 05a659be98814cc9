/*
 * Simulated device memory: what it holds, what pointers are, and what misuse is found.
 */
#include <stdlib.h>

#include "test/gpusim/gpu.h"

enum {
    BYTES = 1000,
    ATTRIBUTES = 7
};

UNIT_TEST(test_fresh_memory_is_poison)
{
    unsigned char bytes[BYTES];
    uint64_t pointer;

    gpu_open(0);
    pointer = gpu_alloc(BYTES);
    assert_int_equal(pointer % 512, 0);
    assert_true(gpusim_read(bytes, pointer, BYTES));
    for (size_t i = 0; i < BYTES; i++) {
        assert_int_equal(bytes[i], 0xCB);
    }
    assert_int_equal(cuMemFree_v2(pointer), 0);
    gpu_close(0);
}

UNIT_TEST(test_copies_go_there_and_back)
{
    unsigned char out[BYTES], in[BYTES];
    uint64_t a, b;
    void *stream;

    gpu_open(0);
    for (size_t i = 0; i < BYTES; i++) {
        out[i] = (unsigned char)(7 * i);
    }
    a = gpu_alloc(BYTES);
    b = gpu_alloc(BYTES);
    stream = gpu_stream();
    assert_int_equal(cuMemcpyHtoDAsync_v2(a, out, BYTES, stream), 0);
    assert_int_equal(cuMemcpyDtoDAsync_v2(b, a, BYTES, stream), 0);
    assert_int_equal(cuMemsetD8Async(b + 10, 3, 5, stream), 0);
    assert_int_equal(cuMemcpyDtoHAsync_v2(in, b, BYTES, stream), 0);
    memset(out + 10, 3, 5);
    assert_memory_equal(in, out, BYTES);
    assert_int_equal(cuMemcpyDtoH_v2(in, a, BYTES), 0);
    assert_int_equal(in[11], 77);
    assert_int_equal(cuStreamDestroy_v2(stream), 0);
    assert_int_equal(cuMemFree_v2(a), 0);
    assert_int_equal(cuMemFree_v2(b), 0);
    gpu_close(0);
}

UNIT_TEST(test_a_host_pointer_is_no_device_pointer)
{
    uint64_t pointer;
    char host[8] = { 0 };

    gpu_open(0);
    pointer = gpu_alloc(8);
    assert_int_equal(
            cuMemcpyDtoDAsync_v2(pointer, (uint64_t)(uintptr_t)host, 8, NULL), 1);
    assert_int_equal(cuMemsetD8_v2((uint64_t)(uintptr_t)host, 0, 8), 1);
    assert_int_equal(cuMemcpyHtoD_v2(pointer, (void *)(uintptr_t)pointer, 8), 1);
    assert_int_equal(gpusim_reports(), 0);
    assert_int_equal(cuMemFree_v2(pointer), 0);
    gpu_close(0);
}

UNIT_TEST(test_misuse_is_reported)
{
    uint64_t pointer;
    char text[256];

    gpu_open(0);
    pointer = gpu_alloc(100);
    assert_int_equal(cuMemsetD8_v2(pointer + 90, 0, 11), 1);
    assert_int_equal(gpusim_take_reports(text, sizeof text), 1);
    assert_non_null(strstr(text, "overruns its memory: 11 bytes at offset 90"));
    assert_int_equal(cuMemFree_v2(pointer + 8), 1);
    assert_int_equal(cuMemFree_v2(pointer), 0);
    assert_int_equal(cuMemsetD8_v2(pointer, 0, 100), 1);
    assert_int_equal(gpusim_take_reports(text, sizeof text), 1);
    assert_non_null(strstr(text, "uses freed memory"));
    assert_int_equal(cuMemFree_v2(pointer), 1);
    assert_int_equal(gpusim_take_reports(text, sizeof text), 1);
    assert_non_null(strstr(text, "freed before"));
    gpu_close(0);
}

static int write_behind(void *argument)
{
    *(char *)gpusim_at(*(uint64_t *)argument) = 1;
    return 0;
}

UNIT_TEST(test_a_touched_guard_is_found_at_free)
{
    uint64_t pointer, behind;
    char text[256];
    void *stream;

#if defined(__SANITIZE_ADDRESS__)
    skip(); /* the guard is poisoned: the write itself ends the program */
#endif
    gpu_open(0);
    stream = gpu_stream();
    pointer = gpu_alloc(100);
    behind = pointer + 107;
    assert_int_equal(gpusim_enqueue(stream,
                             &(struct gpusim_op){
                                     .label = "overrun",
                                     .body = write_behind,
                                     .argument = &behind,
                             }),
            0);
    gpu_wait(stream);
    assert_int_equal(gpusim_reports(), 0);
    assert_int_equal(cuMemFree_v2(pointer), 0);
    assert_int_equal(gpusim_take_reports(text, sizeof text), 1);
    assert_non_null(strstr(text, "7 bytes behind the end"));
    assert_int_equal(cuStreamDestroy_v2(stream), 0);
    gpu_close(0);
}

struct facts {
    void *context;
    unsigned type;
    uint64_t device_pointer;
    unsigned managed;
    int ordinal;
    uint64_t start;
    size_t size;
};

static struct facts facts_of(uint64_t pointer)
{
    struct facts facts = { .ordinal = -1 };
    int attributes[ATTRIBUTES] = { 1, 2, 3, 8, 9, 11, 12 };
    void *values[ATTRIBUTES] = { &facts.context, &facts.type, &facts.device_pointer,
        &facts.managed, &facts.ordinal, &facts.start, &facts.size };

    assert_int_equal(
            cuPointerGetAttributes(ATTRIBUTES, attributes, values, pointer), 0);
    return facts;
}

UNIT_TEST(test_attributes_of_pointers)
{
    void *context, *pinned = NULL;
    uint64_t pointer, managed = 0;
    struct facts facts;
    char host;

    context = gpu_open(2);
    pointer = gpu_alloc(BYTES);
    assert_int_equal(cuMemHostAlloc(&pinned, BYTES, 1), 0);
    assert_int_equal(cuMemAllocManaged(&managed, BYTES, 1), 0);

    facts = facts_of(pointer + 5);
    assert_ptr_equal(facts.context, context);
    assert_int_equal(facts.type, 2);
    assert_int_equal(facts.device_pointer, pointer + 5);
    assert_int_equal(facts.managed, 0);
    assert_int_equal(facts.ordinal, 2);
    assert_int_equal(facts.start, pointer);
    assert_int_equal(facts.size, BYTES);
    assert_int_equal(facts_of((uint64_t)(uintptr_t)pinned).type, 1);
    assert_int_equal(facts_of(managed).managed, 1);
    facts = facts_of((uint64_t)(uintptr_t)&host);
    assert_int_equal(facts.type, 0);
    assert_null(facts.context);
    *(char *)pinned = 1; /* the host may touch these two */
    *(char *)(uintptr_t)managed = 1;

    assert_int_equal(cuMemFree_v2(pointer), 0);
    assert_int_equal(cuMemFree_v2(managed), 0);
    assert_int_equal(cuMemFreeHost(pinned), 0);
    assert_int_equal(facts_of(pointer).type, 0);
    gpu_close(2);
}

UNIT_TEST(test_memory_runs_out)
{
    uint64_t first, pointer = 0;
    gpu_open(1);
    assert_int_equal(cuMemAlloc_v2(&pointer, (size_t)1 << 40), 2);
    gpusim_limit_memory(1, BYTES);
    assert_int_equal(cuMemAlloc_v2(&pointer, BYTES + 1), 2);
    first = gpu_alloc(BYTES - 1);
    assert_int_equal(cuMemAlloc_v2(&pointer, 2), 2);
    gpusim_fail_nothing();
    assert_int_equal(cuMemAlloc_v2(&pointer, 2), 0);
    assert_int_equal(cuMemAlloc_v2(&pointer, 0), 1);
    assert_int_equal(cuMemFree_v2(first), 0);
    assert_int_equal(cuMemFree_v2(pointer), 0);
    gpu_close(1);
}

UNIT_TEST(test_a_large_quarantine_gives_pages_back)
{
    const size_t large = 48 << 20;
    struct gpusim_live before = gpusim_live(), after;

    gpu_open(0);
    for (int i = 0; i < 6; i++) {
        assert_int_equal(cuMemFree_v2(gpu_alloc(large)), 0);
    }
    after = gpusim_live();
    assert_int_equal(after.device_allocations, before.device_allocations);
    assert_int_equal(after.device_bytes, before.device_bytes);
    gpu_close(0);
}

UNIT_TEST(test_pageable_copies_are_counted)
{
    long before = gpusim_pageable_copies();
    uint64_t pointer;
    void *pinned;
    char host[8];

    gpu_open(0);
    pointer = gpu_alloc(8);
    assert_int_equal(cuMemHostAlloc(&pinned, 8, 0), 0);
    assert_int_equal(cuMemcpyDtoHAsync_v2(pinned, pointer, 8, NULL), 0);
    assert_int_equal(gpusim_pageable_copies(), before);
    assert_int_equal(cuMemcpyDtoHAsync_v2(host, pointer, 8, NULL), 0);
    assert_int_equal(gpusim_pageable_copies(), before + 1);
    assert_int_equal(cuStreamSynchronize(NULL), 0);
    assert_int_equal(cuMemFreeHost(pinned), 0);
    assert_int_equal(cuMemFree_v2(pointer), 0);
    gpu_close(0);
}
