/*
 * Memory of the library: aligned, zeroed, usable as a buffer, and freed once.
 */
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "test/batch/reference.h"
#include "test/suite/buffer.h"
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

/* Memory that one operation reads and another piece that it writes. */
struct loan {
    tutti *t;
    struct checks *c;
    char *input; /* host memory of the program, shared; or of tutti_alloc(), as the output is */
    char *output;
    bool is_shared; /* the input; a callback runs on a thread that has entered no GPU */
    _Atomic bool is_over; /* given back */
};

static tutti_status give_input_back(const struct loan *loan)
{
    return loan->is_shared ? tutti_unshare(loan->t, loan->input)
                           : tutti_free(loan->t, loan->input);
}

static void expect_kept(const struct loan *loan, const char *name)
{
    EXPECT_STATUS(loan->c, TUTTI_ERR_INVALID, tutti_free(loan->t, loan->output));
    EXPECT(loan->c, strstr(tutti_last_error(), name) != NULL);
    EXPECT_STATUS(loan->c, TUTTI_ERR_INVALID, give_input_back(loan));
    EXPECT(loan->c, strstr(tutti_last_error(), name) != NULL);
}

static void give_back(void *user, tutti_status status, const char *message)
{
    struct loan *loan = user;

    (void)message;
    EXPECT_OK(loan->c, status);
    EXPECT_OK(loan->c, tutti_free(loan->t, loan->output));
    EXPECT_OK(loan->c, give_input_back(loan));
    atomic_store(&loan->is_over, true);
}

/* Both at odd places within their memory. */
static tutti_status lend(struct loan *loan, const char *name, tutti_tensor tensor,
        tutti_callback callback, tutti_request *request)
{
    void *input = loan->input + 4096 - 8;
    void *output = loan->output + 16;
    tutti_options options;

    if (tensor != 0) {
        return tutti_submit(
                loan->t, tensor, input, output, TUTTI_NO_STEP, callback, loan, request);
    }
    tutti_options_default(&options);
    options.callback = callback;
    options.user = loan;
    return tutti_allreduce_async(loan->t, name, input, output, 2, TUTTI_FLOAT64,
            TUTTI_SUM, &options, request);
}

/* In an open group, submitted by one rank alone, and submitted with a callback. */
static void kept_in_flight(struct loan *loan, const char *name, tutti_tensor tensor)
{
    struct checks *c = loan->c;
    tutti_request request = TUTTI_REQUEST_NULL;

    EXPECT_OK(c, tutti_group_begin(loan->t));
    EXPECT_OK(c, lend(loan, name, tensor, NULL, &request));
    expect_kept(loan, name);
    EXPECT_OK(c, tutti_group_end(loan->t));
    EXPECT_OK(c, tutti_wait(loan->t, &request, TUTTI_FOREVER));
    if (c->rank == 0 && c->size > 1) {
        EXPECT_OK(c, lend(loan, name, tensor, NULL, &request));
        expect_kept(loan, name);
    }
    EXPECT_OK(c, tutti_barrier(loan->t, "rank 0 has tried", NULL));
    if (c->rank != 0 || c->size == 1) {
        EXPECT_OK(c, lend(loan, name, tensor, NULL, &request));
    }
    EXPECT_OK(c, tutti_wait(loan->t, &request, TUTTI_FOREVER));
    EXPECT_OK(c, lend(loan, name, tensor, give_back, NULL));
    while (!atomic_load(&loan->is_over)) {
        EXPECT_OK(c, tutti_test(loan->t, &request));
    }
}

static void freed_in_flight(
        tutti *t, struct checks *c, const char *name, bool registers)
{
    const size_t bytes = 5 * 4096;
    struct loan loan = { .t = t, .c = c, .is_shared = kind_of_run() == TUTTI_HOST };
    tutti_tensor_desc desc = { .size = sizeof desc,
        .name = name,
        .collective = TUTTI_ALLREDUCE,
        .count = 2,
        .dtype = TUTTI_FLOAT64,
        .op = TUTTI_SUM };
    char *own = must_alloc(bytes, 1);
    tutti_tensor tensor = 0;
    void *memory = NULL;

    EXPECT_OK(c, tutti_alloc(t, bytes, kind_of_run(), &memory));
    loan.output = memory;
    if (loan.is_shared) {
        EXPECT_OK(c, tutti_share(t, own, bytes));
        EXPECT_STATUS(c, TUTTI_ERR_INVALID, tutti_share(t, own + 5, 4));
        loan.input = own;
    } else {
        EXPECT_OK(c, tutti_alloc(t, bytes, kind_of_run(), &memory));
        loan.input = memory;
    }
    if (registers) {
        EXPECT_OK(c, tutti_tensor_register(t, &desc, &tensor));
    }
    kept_in_flight(&loan, name, tensor);
    if (registers) {
        EXPECT_OK(c, tutti_tensor_unregister(t, tensor));
    }
    free(own);
}

void suite_memory(tutti *t, struct checks *c)
{
    checks_step(c, "reduced in place");
    reduced_in_place(t, c);
    checks_step(c, "freed once");
    freed_once(t, c);
    checks_step(c, "refused");
    refused(t, c);
    checks_step(c, "in flight");
    freed_in_flight(t, c, "lent by name", false);
    freed_in_flight(t, c, "lent by registration", true);
}
