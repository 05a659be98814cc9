/*
 * Finalizing: with work that all ranks submitted, with work that only some did, again and
 * again, and with several contexts alive.
 */
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "test/suite/buffer.h"
#include "test/suite/suite.h"

/** How operations ended that were in flight when finalize was called. */
struct ends {
    _Atomic int ok;
    _Atomic int finalized;
    _Atomic int others;
};

static void count_end(void *user, tutti_status status, const char *message)
{
    struct ends *ends = user;

    if (status == TUTTI_OK) {
        (void)atomic_fetch_add(&ends->ok, 1);
    } else if (status == TUTTI_ERR_FINALIZED && message[0] != '\0') {
        (void)atomic_fetch_add(&ends->finalized, 1);
    } else {
        (void)atomic_fetch_add(&ends->others, 1);
    }
}

static void in_flight(struct checks *c)
{
    enum {
        COMPLETE = 20,
        LONELY = 5
    };
    tutti *t = job_open(c, NULL);
    BUFFER_ARRAY(int64_t, values, COMPLETE + LONELY);
    struct ends ends = { 0 };
    tutti_options options;
    char name[32];
    const bool lonely = c->rank == c->size - 1 && c->size > 1;

    checks_step(c, "operations in flight");
    tutti_options_default(&options);
    options.callback = count_end;
    options.user = &ends;
    for (int i = 0; i < COMPLETE + (lonely ? LONELY : 0); i++) {
        values[i] = c->rank + i;
        (void)snprintf(name, sizeof name, "in flight %d", i);
        EXPECT_OK(c,
                tutti_allreduce_async(t, name, &values[i], &values[i], 1, TUTTI_INT64,
                        TUTTI_SUM, &options, NULL));
    }
    EXPECT_OK(c, tutti_finalize(t));
    EXPECT(c, atomic_load(&ends.ok) == COMPLETE);
    EXPECT(c, atomic_load(&ends.finalized) == (lonely ? LONELY : 0));
    EXPECT(c, atomic_load(&ends.others) == 0);
    for (int i = 0; i < COMPLETE; i++) {
        EXPECT(c, values[i] == c->size * (c->size - 1) / 2 + (int64_t)i * c->size);
    }
}

/* Submits once more from the callback of what is cut off: too late. */
static void submit_again(void *user, tutti_status status, const char *message)
{
    tutti *t = user;
    tutti_request request = TUTTI_REQUEST_NULL;

    (void)status;
    (void)message;
    (void)!tutti_barrier_async(t, "too late", NULL, &request);
}

static void callback_submits(struct checks *c)
{
    tutti *t = job_open(c, NULL);
    tutti_options options;

    checks_step(c, "a callback submits during finalize");
    tutti_options_default(&options);
    options.callback = submit_again;
    options.user = t;
    EXPECT_OK(c, tutti_barrier_async(t, "all", &options, NULL));
    if (c->rank == 0 && c->size > 1) {
        EXPECT_OK(c, tutti_barrier_async(t, "lonely", &options, NULL));
    }
    EXPECT_OK(c, tutti_finalize(t));
}

/* Sets, registrations, memory and requests that nobody gave back. */
static void left_behind(struct checks *c)
{
    tutti *t = job_open(c, NULL);
    const int ranks[] = { 0 };
    tutti_process_set set = 0;
    tutti_tensor tensor = 0;
    tutti_request request = TUTTI_REQUEST_NULL;
    void *memory = NULL;
    const tutti_tensor_desc desc = {
        .size = sizeof desc, .name = "kept", .collective = TUTTI_BARRIER
    };

    checks_step(c, "things left behind");
    EXPECT_OK(c, tutti_process_set_create(t, ranks, 1, &set));
    EXPECT_OK(c, tutti_tensor_register(t, &desc, &tensor));
    EXPECT_OK(c,
            tutti_submit(t, tensor, NULL, NULL, TUTTI_NO_STEP, NULL, NULL, &request));
    EXPECT_OK(c, tutti_alloc(t, 1000, TUTTI_HOST, &memory));
    memset(memory, 1, 1000);
    EXPECT_OK(c, tutti_group_begin(t));
    EXPECT_OK(c, tutti_barrier_async(t, "of an open group", NULL, &request));
    EXPECT_OK(c, tutti_finalize(t));
}

static void again_and_again(struct checks *c)
{
    checks_step(c, "again and again");
    for (int i = 0; i < 5; i++) {
        tutti *t = job_open(c, NULL);
        BUFFER_ARRAY(int32_t, value, 1);

        *value = i;
        EXPECT_OK(c,
                tutti_allreduce(
                        t, "round", value, value, 1, TUTTI_INT32, TUTTI_SUM, NULL));
        EXPECT(c, *value == i * c->size);
        EXPECT_OK(c, tutti_finalize(t));
    }
    EXPECT_OK(c, tutti_finalize(NULL));
}

/* Work on three contexts at once, under the same names. */
static void several_contexts(tutti *t, struct checks *c)
{
    tutti *all[3] = { t, job_open(c, NULL), job_open(c, NULL) };
    tutti_request requests[3][10];
    int32_t values[3][10];
    char name[32];

    checks_step(c, "several contexts");
    for (int i = 0; i < 10; i++) {
        for (int k = 0; k < 3; k++) {
            const int at = (k + c->rank) % 3;

            values[at][i] = 100 * at + i;
            (void)snprintf(name, sizeof name, "shared name %d", i);
            EXPECT_OK(c,
                    tutti_allreduce_async(all[at], name, &values[at][i], &values[at][i],
                            1, TUTTI_INT32, TUTTI_SUM, NULL, &requests[at][i]));
        }
    }
    for (int k = 0; k < 3; k++) {
        const int at = (k + c->rank) % 3;

        EXPECT_OK(c, tutti_wait_all(all[at], 10, requests[at], TUTTI_FOREVER, NULL));
        for (int i = 0; i < 10; i++) {
            EXPECT(c, values[at][i] == c->size * (100 * at + i));
        }
    }
    EXPECT_OK(c, tutti_finalize(all[2]));
    EXPECT_OK(c, tutti_finalize(all[1]));
}

void suite_finalize(tutti *t, struct checks *c)
{
    in_flight(c);
    callback_submits(c);
    left_behind(c);
    again_and_again(c);
    several_contexts(t, c);
}
