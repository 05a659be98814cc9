/*
 * Registered tensors: submitted by id here and by name there, and unregistered.
 */
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>

#include "test/suite/buffer.h"
#include "test/suite/suite.h"

static tutti_tensor_desc sum_of(const char *name, int64_t count)
{
    return (tutti_tensor_desc){ .size = sizeof(tutti_tensor_desc),
        .name = name,
        .collective = TUTTI_ALLREDUCE,
        .count = count,
        .dtype = TUTTI_INT64,
        .op = TUTTI_SUM };
}

/* Ranks take turns at submitting by id and by name. */
static void by_id_and_by_name(tutti *t, struct checks *c)
{
    tutti_tensor_desc desc = sum_of("registered", 2);
    tutti_tensor tensor = 0;
    char name[] = "registered";

    checks_step(c, "by id and by name");
    desc.name = name;
    EXPECT_OK(c, tutti_tensor_register(t, &desc, &tensor));
    memset(name, 'x', sizeof name - 1); /* it was copied */
    for (int i = 0; i < 8; i++) {
        BUFFER_ARRAY(int64_t, values, 2);
        BUFFER_ARRAY(int64_t, sums, 2);
        tutti_request request = TUTTI_REQUEST_NULL;

        values[0] = c->rank + 1;
        values[1] = i;
        if ((c->rank + i) % 2 == 0) {
            EXPECT_OK(c,
                    tutti_submit(t, tensor, values, sums, TUTTI_NO_STEP, NULL, NULL,
                            &request));
        } else {
            EXPECT_OK(c,
                    tutti_allreduce_async(t, "registered", values, sums, 2, TUTTI_INT64,
                            TUTTI_SUM, NULL, &request));
        }
        EXPECT_OK(c, tutti_wait(t, &request, TUTTI_FOREVER));
        EXPECT(c, sums[0] == c->size * (c->size + 1) / 2 && sums[1] == i * c->size);
    }
    EXPECT_OK(c, tutti_tensor_unregister(t, tensor));
    /* The number of a handle depends on what happened before: it is not listed. */
    EXPECT_STATUS(c, TUTTI_ERR_INVALID, tutti_tensor_unregister(t, tensor));
    EXPECT_STATUS(c, TUTTI_ERR_INVALID,
            tutti_submit(t, tensor, NULL, NULL, TUTTI_NO_STEP, NULL, NULL,
                    &(tutti_request){ 0 }));
    checks_refused(c, "unregistered a made-up tensor", TUTTI_ERR_INVALID,
            tutti_tensor_unregister(t, 77));
    checks_refused(c, "submitted a made-up tensor", TUTTI_ERR_INVALID,
            tutti_submit(t, 77, NULL, NULL, TUTTI_NO_STEP, NULL, NULL,
                    &(tutti_request){ 0 }));
}

static void count_down(void *user, tutti_status status, const char *message)
{
    _Atomic int *left = user;

    (void)message;
    (void)atomic_fetch_sub(left, status == TUTTI_OK ? 1 : 100);
}

/* A broadcast and a barrier by id, with a callback instead of a request. */
static void other_collectives(tutti *t, struct checks *c)
{
    const int64_t dims[] = { 3 };
    tutti_options options;
    tutti_tensor_desc desc = { .size = sizeof desc,
        .name = "registered",
        .collective = TUTTI_BROADCAST,
        .count = 3,
        .dtype = TUTTI_FLOAT8_E4M3,
        .root = c->size - 1,
        .options = &options };
    tutti_tensor move = 0;
    tutti_tensor gate = 0;
    BUFFER_ARRAY(uint8_t, bytes, 3);
    _Atomic int left = 2;

    bytes[0] = (uint8_t)c->rank;
    bytes[2] = 2;
    checks_step(c, "broadcast and barrier");
    tutti_options_default(&options);
    options.ndim = 1;
    options.dims = dims;
    EXPECT_OK(c, tutti_tensor_register(t, &desc, &move));
    desc = (tutti_tensor_desc){
        .size = sizeof desc, .name = "registered", .collective = TUTTI_BARRIER
    };
    EXPECT_OK(c, tutti_tensor_register(t, &desc, &gate));
    EXPECT_OK(c,
            tutti_submit(t, gate, NULL, NULL, TUTTI_NO_STEP, count_down, &left, NULL));
    EXPECT_OK(c,
            tutti_submit(t, move, NULL, bytes, TUTTI_NO_STEP, count_down, &left, NULL));
    while (atomic_load(&left) > 0) {
        (void)sched_yield();
    }
    EXPECT(c, atomic_load(&left) == 0);
    EXPECT(c, bytes[0] == c->size - 1 && bytes[2] == 2);
    EXPECT_OK(c, tutti_tensor_unregister(t, move));
    EXPECT_OK(c, tutti_tensor_unregister(t, gate));
}

static void misuse(tutti *t, struct checks *c)
{
    tutti_tensor_desc desc = sum_of("misused", 1);
    tutti_tensor tensor = 0;
    tutti_tensor second = 77;
    tutti_request request = TUTTI_REQUEST_NULL;
    int64_t value = 1;

    checks_step(c, "misuse");
    EXPECT_OK(c, tutti_tensor_register(t, &desc, &tensor));
    checks_refused(c, "registered twice", TUTTI_ERR_DUPLICATE,
            tutti_tensor_register(t, &desc, &second));
    desc.name = "";
    checks_refused(c, "registered without a name", TUTTI_ERR_INVALID,
            tutti_tensor_register(t, &desc, &second));
    desc = sum_of("misused too", -1);
    checks_refused(c, "registered with -1 elements", TUTTI_ERR_INVALID,
            tutti_tensor_register(t, &desc, &second));
    desc = sum_of("misused too", 1);
    desc.size = 0;
    checks_refused(c, "description of size 0", TUTTI_ERR_INVALID,
            tutti_tensor_register(t, &desc, &second));
    desc = sum_of("misused too", 1);
    desc.collective = (tutti_collective)99;
    checks_refused(c, "unknown collective", TUTTI_ERR_INVALID,
            tutti_tensor_register(t, &desc, &second));
    desc = sum_of("misused too", 1);
    desc.dtype = TUTTI_BOOL;
    checks_refused(c, "registered sum of bool", TUTTI_ERR_UNSUPPORTED,
            tutti_tensor_register(t, &desc, &second));
    checks_refused(c, "description NULL", TUTTI_ERR_INVALID,
            tutti_tensor_register(t, NULL, &second));
    checks_refused(
            c, "handle NULL", TUTTI_ERR_INVALID, tutti_tensor_register(t, &desc, NULL));
    EXPECT(c, second == 77);
    checks_refused(c, "registered tensor from NULL", TUTTI_ERR_INVALID,
            tutti_submit(t, tensor, NULL, &value, TUTTI_NO_STEP, NULL, NULL, &request));
    checks_refused(c, "registered tensor with step -7", TUTTI_ERR_INVALID,
            tutti_submit(t, tensor, &value, &value, -7, NULL, NULL, &request));
    checks_refused(c, "registered, request NULL and no callback", TUTTI_ERR_INVALID,
            tutti_submit(t, tensor, &value, &value, TUTTI_NO_STEP, NULL, NULL, NULL));
    EXPECT_OK(c,
            tutti_submit(
                    t, tensor, &value, &value, TUTTI_NO_STEP, NULL, NULL, &request));
    EXPECT_OK(c, tutti_wait(t, &request, TUTTI_FOREVER));
    EXPECT_OK(c, tutti_tensor_unregister(t, tensor));
}

/* What is in flight cannot be submitted again nor unregistered. */
static void in_flight(tutti *t, struct checks *c)
{
    const bool late = c->rank == c->size - 1;
    const tutti_tensor_desc desc = sum_of("in flight", 1);
    tutti_tensor tensor = 0;
    tutti_request request = TUTTI_REQUEST_NULL;
    tutti_request second = TUTTI_REQUEST_NULL;
    BUFFER_ARRAY(int64_t, value, 1);

    *value = 1;
    checks_step(c, "in flight");
    EXPECT_OK(c, tutti_tensor_register(t, &desc, &tensor));
    if (!late) {
        EXPECT_OK(c,
                tutti_submit(
                        t, tensor, value, value, TUTTI_NO_STEP, NULL, NULL, &request));
        EXPECT_STATUS(c, TUTTI_ERR_DUPLICATE, tutti_tensor_unregister(t, tensor));
        EXPECT_STATUS(c, TUTTI_ERR_DUPLICATE,
                tutti_submit(
                        t, tensor, value, value, TUTTI_NO_STEP, NULL, NULL, &second));
    }
    job_meet(c);
    if (late) {
        EXPECT_OK(c,
                tutti_submit(
                        t, tensor, value, value, TUTTI_NO_STEP, NULL, NULL, &request));
    }
    EXPECT_OK(c, tutti_wait(t, &request, TUTTI_FOREVER));
    EXPECT(c, *value == c->size);
    EXPECT_OK(c, tutti_tensor_unregister(t, tensor));
}

/* A set that goes takes its registrations along. */
static void set_goes(tutti *t, struct checks *c)
{
    const int first[] = { 0 };
    tutti_process_set set = 0;
    tutti_options options;
    tutti_tensor_desc desc = sum_of("of a set", 1);
    tutti_tensor tensor = 0;

    checks_step(c, "a set goes");
    EXPECT_OK(c, tutti_process_set_create(t, first, 1, &set));
    tutti_options_default(&options);
    options.process_set = set;
    desc.options = &options;
    EXPECT_STATUS(c, c->rank == 0 ? TUTTI_OK : TUTTI_ERR_INVALID,
            tutti_tensor_register(t, &desc, &tensor));
    EXPECT_OK(c, tutti_process_set_destroy(t, set));
    EXPECT_STATUS(c, TUTTI_ERR_INVALID, tutti_tensor_unregister(t, tensor));
}

void suite_registered(tutti *t, struct checks *c)
{
    by_id_and_by_name(t, c);
    other_collectives(t, c);
    misuse(t, c);
    if (c->size > 1) {
        in_flight(t, c);
    }
    set_goes(t, c);
}
