/*
 * Groups: all or nothing, launched as one batch, and failing as one.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "test/suite/buffer.h"
#include "test/suite/suite.h"

enum {
    MEMBERS = 10
};

/** A group's tensors, of 1000 elements each. */
struct members {
    int32_t (*values)[1000]; /* [MEMBERS]; borrowed */
    tutti_request requests[MEMBERS];
};

static uint64_t batches(tutti *t, struct checks *c)
{
    tutti_stats stats = { .size = sizeof stats };

    EXPECT_OK(c, tutti_stats_get(t, &stats));
    return stats.batches;
}

static tutti_status add(tutti *t, struct members *m, int i, int64_t count)
{
    char name[32];

    (void)snprintf(name, sizeof name, "member %d", i);
    return tutti_allreduce_async(t, name, m->values[i], m->values[i], count,
            TUTTI_INT32, TUTTI_SUM, NULL, &m->requests[i]);
}

static void fill(struct checks *c, struct members *m)
{
    for (int i = 0; i < MEMBERS; i++) {
        m->requests[i] = TUTTI_REQUEST_NULL;
        for (int k = 0; k < 1000; k++) {
            m->values[i][k] = (c->rank + 1) * (1000 * i + k);
        }
    }
}

static bool is_sum(struct checks *c, const struct members *m, int i)
{
    for (int k = 0; k < 1000; k++) {
        if (m->values[i][k] != c->size * (c->size + 1) / 2 * (1000 * i + k)) {
            return false;
        }
    }
    return true;
}

/*
 * Members in any order; one launch for all, each time, although each of them alone fills
 * a batch.
 */
static void one_batch(struct checks *c, struct members *m)
{
    static const struct setting settings[] = { { "fusion_bytes", "4k" }, { 0 } };
    tutti *t = job_open(c, settings);

    checks_step(c, "one batch");
    for (int round = 0; round < 5; round++) {
        const uint64_t before = batches(t, c);

        fill(c, m);
        EXPECT_OK(c, tutti_group_begin(t));
        for (int i = 0; i < MEMBERS; i++) {
            EXPECT_OK(c, add(t, m, (i + c->rank + round) % MEMBERS, 1000));
        }
        EXPECT_OK(c, tutti_group_end(t));
        EXPECT_OK(c, tutti_wait_all(t, MEMBERS, m->requests, TUTTI_FOREVER, NULL));
        for (int i = 0; i < MEMBERS; i++) {
            EXPECT(c, is_sum(c, m, i));
        }
        EXPECT(c, batches(t, c) == before + 1);
    }
    EXPECT_OK(c, tutti_finalize(t));
}

/* One refused member withdraws all; their names are free. */
static void all_or_nothing(tutti *t, struct checks *c, struct members *m)
{
    tutti_stats before = { .size = sizeof before };
    tutti_stats after = { .size = sizeof after };
    tutti_request first;

    checks_step(c, "all or nothing");
    fill(c, m);
    EXPECT_OK(c, tutti_stats_get(t, &before));
    EXPECT_OK(c, tutti_group_begin(t));
    EXPECT_OK(c, add(t, m, 0, 1000));
    EXPECT_OK(c, add(t, m, 1, 1000));
    EXPECT_STATUS(c, TUTTI_ERR_INVALID, add(t, m, 2, -5));
    EXPECT_OK(c, add(t, m, 3, 1000));
    EXPECT_STATUS(c, TUTTI_ERR_INVALID, tutti_group_end(t));
    EXPECT(c, strstr(tutti_last_error(), "member 2") != NULL);
    first = m->requests[0];
    EXPECT_STATUS(c, TUTTI_ERR_INVALID, tutti_wait(t, &first, TUTTI_FOREVER));
    EXPECT_OK(c, tutti_stats_get(t, &after));
    EXPECT(c, before.submitted == after.submitted && before.failed == after.failed);
    fill(c, m);
    for (int i = 0; i < 4; i++) {
        EXPECT_OK(c, add(t, m, i, 1000));
        EXPECT_OK(c, tutti_wait(t, &m->requests[i], TUTTI_FOREVER));
        EXPECT(c, is_sum(c, m, i));
    }
}

/*
 * A member whose name is in flight already, behind members that are good: none of them is
 * submitted.
 */
static void duplicate_member(tutti *t, struct checks *c, struct members *m)
{
    const bool late = c->rank == c->size - 1;
    tutti_stats before = { .size = sizeof before };
    tutti_stats after = { .size = sizeof after };
    tutti_request pending = TUTTI_REQUEST_NULL;

    checks_step(c, "duplicate member");
    fill(c, m);
    if (!late) {
        EXPECT_OK(c, add(t, m, 2, 1000));
        pending = m->requests[2];
        EXPECT_OK(c, tutti_stats_get(t, &before));
        EXPECT_OK(c, tutti_group_begin(t));
        EXPECT_OK(c, add(t, m, 0, 1000));
        EXPECT_OK(c, add(t, m, 1, 1000));
        EXPECT_STATUS(c, TUTTI_ERR_DUPLICATE, add(t, m, 2, 1000));
        EXPECT_STATUS(c, TUTTI_ERR_DUPLICATE, tutti_group_end(t));
        EXPECT_OK(c, tutti_stats_get(t, &after));
        EXPECT(c, before.submitted == after.submitted);
        m->requests[2] = pending;
    }
    job_meet(c);
    if (late) {
        EXPECT_OK(c, add(t, m, 2, 1000));
    }
    for (int i = 0; i < 2; i++) {
        EXPECT_OK(c, add(t, m, i, 1000));
    }
    EXPECT_OK(c, tutti_wait_all(t, 3, m->requests, TUTTI_FOREVER, NULL));
    for (int i = 0; i < 3; i++) {
        EXPECT(c, is_sum(c, m, i));
    }
}

static void misuse(tutti *t, struct checks *c, struct members *m)
{
    const int only[] = { 0 };
    tutti_process_set set = 0;
    tutti_request nothing = TUTTI_REQUEST_NULL;

    checks_step(c, "misuse");
    fill(c, m);
    checks_refused(
            c, "group_end without a group", TUTTI_ERR_INVALID, tutti_group_end(t));
    EXPECT_OK(c, tutti_group_begin(t));
    checks_refused(c, "group within a group", TUTTI_ERR_INVALID, tutti_group_begin(t));
    EXPECT_OK(c, add(t, m, 0, 1000));
    checks_refused(c, "wait within a group", TUTTI_ERR_INVALID,
            tutti_wait(t, &m->requests[0], 0));
    EXPECT_STATUS(c, TUTTI_AGAIN, tutti_test(t, &m->requests[0]));
    checks_refused(c, "wait_all within a group", TUTTI_ERR_INVALID,
            tutti_wait_all(t, 1, &nothing, 0, NULL));
    checks_refused(c, "process set within a group", TUTTI_ERR_INVALID,
            tutti_process_set_create(t, only, 1, &set));
    /* None of these was a member: the group still goes. */
    EXPECT_OK(c, tutti_group_end(t));
    EXPECT_OK(c, tutti_wait(t, &m->requests[0], TUTTI_FOREVER));
    EXPECT(c, is_sum(c, m, 0));
    EXPECT_OK(c, tutti_group_begin(t));
    EXPECT_OK(c, tutti_group_end(t));
}

/* A duplicate within the group, and a member of another set. */
static void two_sets(tutti *t, struct checks *c, struct members *m)
{
    tutti_options options;
    int ranks[64];
    tutti_process_set set = 0;

    checks_step(c, "two sets");
    for (int i = 0; i < c->size; i++) {
        ranks[i] = i;
    }
    EXPECT_OK(c, tutti_process_set_create(t, ranks, c->size, &set));
    tutti_options_default(&options);
    options.process_set = set;
    EXPECT_OK(c, tutti_group_begin(t));
    EXPECT_OK(c, add(t, m, 0, 1000));
    EXPECT_STATUS(c, TUTTI_ERR_DUPLICATE, add(t, m, 0, 1000));
    EXPECT_STATUS(c, TUTTI_ERR_DUPLICATE, tutti_group_end(t));
    EXPECT_OK(c, tutti_group_begin(t));
    EXPECT_OK(c, add(t, m, 0, 1000));
    EXPECT_STATUS(c, TUTTI_ERR_INVALID,
            tutti_barrier_async(t, "other", &options, &m->requests[1]));
    EXPECT_STATUS(c, TUTTI_ERR_INVALID, tutti_group_end(t));
    EXPECT_OK(c, tutti_barrier(t, "other", &options));
    EXPECT_OK(c, tutti_process_set_destroy(t, set));
}

/* The last rank's group has one member more: nobody's members are done. */
static void different_members(tutti *t, struct checks *c, struct members *m)
{
    const int count = c->rank == c->size - 1 ? 4 : 3;
    tutti_status statuses[4] = { 0 };
    tutti_request alone = TUTTI_REQUEST_NULL;

    checks_step(c, "different members");
    for (int round = 0; round < 3; round++) {
        fill(c, m);
        EXPECT_OK(c, tutti_group_begin(t));
        for (int i = 0; i < count; i++) {
            EXPECT_OK(c, add(t, m, i, 1000));
        }
        EXPECT_OK(c, tutti_group_end(t));
        EXPECT_STATUS(c, TUTTI_ERR_MISMATCH,
                tutti_wait_all(t, (size_t)count, m->requests, TUTTI_FOREVER, statuses));
        for (int i = 0; i < count; i++) {
            EXPECT_STATUS(c, TUTTI_ERR_MISMATCH, statuses[i]);
            EXPECT(c, m->values[i][1] == (c->rank + 1) * (1000 * i + 1));
        }
        /* And the names can be used again, by all and one by one. */
        for (int i = 0; i < 4; i++) {
            fill(c, m);
            EXPECT_OK(c, add(t, m, i, 1000));
            alone = m->requests[i];
            EXPECT_OK(c, tutti_wait(t, &alone, TUTTI_FOREVER));
            EXPECT(c, is_sum(c, m, i));
        }
    }
}

/* --------------------------------------------- every way to refuse a member */

static tutti_status sum_of(tutti *t, int64_t *value, const tutti_options *options)
{
    return tutti_allreduce_async(t, "refused", value, value, 1, TUTTI_INT64, TUTTI_SUM,
            options, &(tutti_request){ 0 });
}

static tutti_status tensor_without(
        tutti *t, int64_t *value, tutti_request *request, const void *input)
{
    const tutti_tensor_desc desc = { .size = sizeof desc,
        .name = "registered",
        .collective = TUTTI_ALLREDUCE,
        .count = 1,
        .dtype = TUTTI_INT64 };
    tutti_tensor tensor = 0;
    tutti_status status = tutti_tensor_register(t, &desc, &tensor);

    if (status == TUTTI_OK) {
        status = tutti_submit(
                t, tensor, input, value, TUTTI_NO_STEP, NULL, NULL, request);
        (void)tutti_tensor_unregister(t, tensor);
    }
    return status;
}

/* Arguments that are refused anywhere. */
static tutti_status refuse_anywhere(tutti *t, int64_t *value, int i)
{
    static const tutti_options old = { .size = 0 };
    char name[TUTTI_NAME_MAX + 2] = { 0 };
    tutti_request request = 0;
    tutti_options options;

    tutti_options_default(&options);
    switch (i) {
    case 0:
        return sum_of(t, value, &old);
    case 1:
        return tutti_allreduce(
                t, "refused", value, value, 1, TUTTI_INT64, TUTTI_SUM, &old);
    case 2:
        options.ndim = 1;
        options.dims = (int64_t[]){ 2 };
        return sum_of(t, value, &options);
    case 3:
        options.process_set = 123456;
        return sum_of(t, value, &options);
    case 4:
        return sum_of(t, NULL, NULL);
    case 5:
        return tutti_allreduce_async(
                t, "refused", value, value, 1, TUTTI_INT64, TUTTI_SUM, NULL, NULL);
    case 6:
        return tutti_broadcast_async(
                t, "refused", value, 1, TUTTI_INT64, -1, NULL, &request);
    case 7:
        return tutti_allgather_async(
                t, "refused", value, NULL, -1, 1, NULL, TUTTI_INT64, NULL, &request);
    case 8:
        memset(name, 'n', sizeof name - 1);
        return tutti_barrier_async(t, name, NULL, &request);
    case 9:
        return tutti_submit(t, 77, value, value, TUTTI_NO_STEP, NULL, NULL, &request);
    case 10:
        return tensor_without(t, value, &request, NULL);
    default:
        return tensor_without(t, value, NULL, value);
    }
}

/* What is refused in a group only. */
static tutti_status refuse_in_group(
        tutti *t, int64_t *value, int i, const char **listed)
{
    static const char *const names[] = { "blocking call within a group",
        "blocking join within a group", "join within a group", "member twice" };
    tutti_request request = 0;

    *listed = names[i];
    switch (i) {
    case 0:
        return tutti_barrier(t, "refused", NULL);
    case 1:
        return tutti_join(t, NULL, NULL);
    case 2:
        return tutti_join_async(t, NULL, NULL, &request);
    default:
        return tutti_allreduce_async(t, "member 0", value, value, 1000, TUTTI_INT32,
                TUTTI_SUM, NULL, &request);
    }
}

enum {
    IN_GROUP = 4,
    REFUSALS = IN_GROUP + 12
};

/* Nothing of the group is submitted, and its end says what the refusal said. */
static void every_refusal(tutti *t, struct checks *c, struct members *m)
{
    BUFFER_ARRAY(int64_t, value, 1000);

    checks_step(c, "every refusal");
    for (int i = 0; i < REFUSALS; i++) {
        tutti_stats before = { .size = sizeof before };
        tutti_stats after = { .size = sizeof after };
        const char *listed = NULL;
        char text[1024];
        tutti_status status;

        EXPECT_OK(c, tutti_stats_get(t, &before));
        EXPECT_OK(c, tutti_group_begin(t));
        EXPECT_OK(c, add(t, m, 0, 1000));
        status = i < IN_GROUP ? refuse_in_group(t, value, i, &listed)
                              : refuse_anywhere(t, value, i - IN_GROUP);
        EXPECT(c, status < 0);
        (void)snprintf(text, sizeof text, "%s", tutti_last_error());
        if (listed != NULL) {
            checks_list(c, 0, listed, status, text);
        }
        EXPECT_OK(c, add(t, m, 1, 1000));
        (void)sum_of(
                t, value, &(tutti_options){ .size = 0 }); /* the first one counts */
        EXPECT_STATUS(c, status, tutti_group_end(t));
        EXPECT(c, strcmp(text, tutti_last_error()) == 0);
        EXPECT_STATUS(c, TUTTI_ERR_INVALID, tutti_test(t, &m->requests[0]));
        EXPECT_OK(c, tutti_stats_get(t, &after));
        EXPECT(c, before.submitted == after.submitted);
    }
}

/* ------------------------------------------- the end comes too late */

struct joining {
    tutti *t;
    struct checks *c;
    tutti_request request;
};

static void *join_elsewhere(void *argument)
{
    struct joining *joining = argument;

    EXPECT_OK(joining->c, tutti_join_async(joining->t, NULL, NULL, &joining->request));
    return NULL;
}

static void run_thread(struct checks *c, void *(*body)(void *argument), void *argument)
{
    pthread_t thread;

    if (EXPECT(c, pthread_create(&thread, NULL, body, argument) == 0)) {
        (void)pthread_join(thread, NULL);
    }
}

/* Another thread joins while a group is open: the group is refused as its members are. */
static void end_after_a_join(tutti *t, struct checks *c, struct members *m)
{
    struct joining joining = { .t = t, .c = c };
    const bool last = c->rank == c->size - 1;

    checks_step(c, "end after a join");
    fill(c, m);
    if (!last) {
        EXPECT_OK(c, tutti_group_begin(t));
        EXPECT_OK(c, add(t, m, 0, 1000));
        run_thread(c, join_elsewhere, &joining);
        checks_refused(c, "group_end after another thread joined", TUTTI_ERR_INVALID,
                tutti_group_end(t));
    }
    job_meet(c); /* until here the join cannot be over */
    if (last) {
        run_thread(c, join_elsewhere, &joining);
    }
    EXPECT_OK(c, tutti_wait(t, &joining.request, TUTTI_FOREVER));
    EXPECT_OK(c, add(t, m, 0, 1000));
    EXPECT_OK(c, tutti_wait(t, &m->requests[0], TUTTI_FOREVER));
    EXPECT(c, is_sum(c, m, 0));
}

struct closing {
    tutti *t;
    _Atomic int ended; /* status of the group's end */
};

static void end_of_group(void *user, tutti_status status, const char *message)
{
    struct closing *closing = user;

    (void)status;
    (void)message;
    atomic_store(&closing->ended, (int)tutti_group_end(closing->t));
}

/* The group of a thread that finalizes is ended by a callback on it: too late. */
static void end_during_finalize(struct checks *c)
{
    static const struct setting settings[] = { { "background_thread", "false" },
        { 0 } };
    tutti *t = job_open(c, settings);
    struct closing closing = { .t = t, .ended = 1 };
    tutti_options options;

    checks_step(c, "end during finalize");
    tutti_options_default(&options);
    options.callback = end_of_group;
    options.user = &closing;
    if (c->rank == 0) {
        EXPECT_OK(c, tutti_barrier_async(t, "lonely", &options, NULL));
    }
    EXPECT_OK(c, tutti_group_begin(t));
    EXPECT_OK(c, tutti_barrier_async(t, "member", NULL, &(tutti_request){ 0 }));
    EXPECT_OK(c, tutti_finalize(t));
    EXPECT(c, c->rank != 0 || atomic_load(&closing.ended) == TUTTI_ERR_FINALIZED);
}

void suite_groups(tutti *t, struct checks *c)
{
    BUFFER_ARRAY(int32_t, memory, MEMBERS * 1000);
    struct members members = { .values = (int32_t(*)[1000])memory };

    one_batch(c, &members);
    all_or_nothing(t, c, &members);
    misuse(t, c, &members);
    two_sets(t, c, &members);
    every_refusal(t, c, &members);
    if (c->size > 1) {
        duplicate_member(t, c, &members);
        different_members(t, c, &members);
        end_after_a_join(t, c, &members);
        end_during_finalize(c);
    }
}
