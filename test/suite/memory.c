/*
 * Memory of the library: aligned, zeroed, usable as a buffer, and freed once.
 */
#include <stdint.h>
#include <string.h>

#include "test/suite/gpu.h"
#include "test/suite/suite.h"

/* In a run with GPUs device memory, which the simulator lets the host touch. */
static tutti_memory_kind kind_of_run(void)
{
    return suite_gpu_is_entered() ? TUTTI_DEVICE : TUTTI_HOST;
}

static bool is_zero(const unsigned char *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (bytes[i] != 0) {
            return false;
        }
    }
    return true;
}

static void reduced_in_place(tutti *t, struct checks *c)
{
    const int64_t count = 100000;
    void *memory = NULL;
    int32_t *values;
    bool right = true;

    EXPECT_OK(
            c, tutti_alloc(t, (size_t)count * sizeof *values, kind_of_run(), &memory));
    EXPECT(c, (uintptr_t)memory % 64 == 0);
    EXPECT(c, is_zero(memory, (size_t)count * sizeof *values));
    values = memory;
    for (int64_t i = 0; i < count; i++) {
        values[i] = (int32_t)(i * (c->rank + 1));
    }
    EXPECT_OK(c,
            tutti_allreduce(
                    t, "arena", values, values, count, TUTTI_INT32, TUTTI_SUM, NULL));
    for (int64_t i = 0; i < count; i++) {
        right = right && values[i] == (int32_t)(i * c->size * (c->size + 1) / 2);
    }
    EXPECT(c, right);
    EXPECT_OK(c, tutti_free(t, memory));
}

static void freed_once(tutti *t, struct checks *c)
{
    void *empty[2] = { NULL, NULL };
    void *memory = NULL;
    int foreign = 0;

    EXPECT_OK(c, tutti_alloc(t, 0, kind_of_run(), &empty[0]));
    EXPECT_OK(c, tutti_alloc(t, 0, kind_of_run(), &empty[1]));
    EXPECT(c, empty[0] != NULL && empty[1] != NULL && empty[0] != empty[1]);
    EXPECT_OK(c, tutti_free(t, empty[0]));
    EXPECT_STATUS(c, TUTTI_ERR_INVALID, tutti_free(t, empty[0]));
    EXPECT_OK(c, tutti_free(t, empty[1]));
    EXPECT_OK(c, tutti_free(t, NULL));
    EXPECT_STATUS(c, TUTTI_ERR_INVALID, tutti_free(t, &foreign));
    EXPECT_OK(c, tutti_alloc(t, 100, kind_of_run(), &memory));
    EXPECT_STATUS(c, TUTTI_ERR_INVALID, tutti_free(t, (char *)memory + 1));
    EXPECT_OK(c, tutti_free(t, memory));
}

static void refused(tutti *t, struct checks *c)
{
    void *memory = &memory;

    EXPECT_STATUS(c, TUTTI_ERR_INVALID, tutti_alloc(t, 8, kind_of_run(), NULL));
    EXPECT_STATUS(c, TUTTI_ERR_INVALID, tutti_alloc(NULL, 8, kind_of_run(), &memory));
    EXPECT_STATUS(
            c, TUTTI_ERR_INVALID, tutti_alloc(t, 8, (tutti_memory_kind)9, &memory));
    EXPECT_STATUS(
            c, TUTTI_ERR_NO_MEMORY, tutti_alloc(t, SIZE_MAX, kind_of_run(), &memory));
    EXPECT_STATUS(c, TUTTI_ERR_NO_MEMORY,
            tutti_alloc(t, SIZE_MAX / 2 + 1, kind_of_run(), &memory));
    EXPECT(c, memory == &memory);
}

void suite_memory(tutti *t, struct checks *c)
{
    checks_step(c, "reduced in place");
    reduced_in_place(t, c);
    checks_step(c, "freed once");
    freed_once(t, c);
    checks_step(c, "refused");
    refused(t, c);
}
