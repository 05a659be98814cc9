/*
 * Messages between two ranks: they arrive whole, in any order of calls and names, in groups and
 * by ranks of sets; what does not fit, and who does not come, is said on both sides.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test/suite/buffer.h"
#include "test/suite/suite.h"

enum {
    RANKS_MAX = 64,
    MANY = 12
};

/* Byte i of what a rank sends to another as message `number`: no two are alike. */
static unsigned char byte_of(int from, int to, int number, size_t i)
{
    return (unsigned char)(i * 7 + i / 251 +
            (size_t)(from * 31 + to * 17 + number * 5));
}

static void fill(const struct buffer *buffer, int from, int to, int number)
{
    unsigned char *bytes = malloc(buffer->bytes + 1);

    for (size_t i = 0; i < buffer->bytes; i++) {
        bytes[i] = byte_of(from, to, number, i);
    }
    buffer_put(buffer, 0, bytes, buffer->bytes, NULL);
    free(bytes);
}

static bool is_from(const struct buffer *buffer, int from, int to, int number)
{
    const unsigned char *bytes = buffer->data;

    for (size_t i = 0; i < buffer->bytes; i++) {
        if (bytes[i] != byte_of(from, to, number, i)) {
            return false;
        }
    }
    return buffer_is_intact(buffer);
}

/* A message to each neighbour of a ring and one from each, under one name, sends first or last. */
struct crossing {
    struct buffer sent[2], received[2]; /* with the next rank, and the one before */
    int peers[2];
    tutti_request requests[4];
};

static void cross(tutti *t, struct checks *c, const char *name, int64_t count,
        tutti_dtype dtype, int number)
{
    struct crossing x = { .peers = { (c->rank + 1) % c->size,
                                  (c->rank + c->size - 1) % c->size } };
    const int ways = c->size == 2 ? 1 : 2;
    const size_t bytes = (size_t)count * tutti_dtype_size(dtype);

    for (int w = 0; w < ways; w++) {
        buffer_init(&x.sent[w], bytes);
        buffer_init(&x.received[w], bytes);
        fill(&x.sent[w], c->rank, x.peers[w], number);
    }
    for (int i = 0; i < 2 * ways; i++) {
        const int k = (c->rank + number) % 2 == 0 ? i : 2 * ways - 1 - i;
        const int w = k / 2;

        EXPECT_OK(c,
                k % 2 == 0 ? tutti_send_async(t, name, x.sent[w].data, count, dtype,
                                     x.peers[w], NULL, &x.requests[k])
                           : tutti_recv_async(t, name, x.received[w].data, count, dtype,
                                     x.peers[w], NULL, &x.requests[k]));
    }
    EXPECT_OK(
            c, tutti_wait_all(t, (size_t)(2 * ways), x.requests, TUTTI_FOREVER, NULL));
    for (int w = 0; w < ways; w++) {
        EXPECT(c, is_from(&x.received[w], x.peers[w], c->rank, number));
        EXPECT(c, is_from(&x.sent[w], c->rank, x.peers[w], number));
        buffer_fini(&x.sent[w]);
        buffer_fini(&x.received[w]);
    }
}

static void every_type(tutti *t, struct checks *c)
{
    static const int64_t counts[] = { 0, 1, 7, 1021, 300001 };
    char name[32];

    checks_step(c, "every type and size");
    for (int dtype = TUTTI_UINT8; dtype <= TUTTI_FLOAT8_E5M2; dtype++) {
        for (int i = 0; i < (dtype % 4 == 0 ? 5 : 4); i++) {
            (void)snprintf(name, sizeof name, "type %d size %d", dtype, i);
            cross(t, c, name, counts[i], (tutti_dtype)dtype, dtype + i);
        }
    }
    checks_step(c, "a name that is used again");
    for (int round = 0; round < 40; round++) {
        cross(t, c, "again", 5, TUTTI_INT32, round);
    }
}

/* From each to each, many at once, posted in different orders. */
static void all_at_once(tutti *t, struct checks *c)
{
    const size_t count = 2 * (size_t)c->size * MANY;
    struct buffer *buffers = calloc(count, sizeof *buffers);
    tutti_request *requests = calloc(count, sizeof *requests);
    char name[16];

    checks_step(c, "all at once");
    for (size_t i = 0; i < count; i++) {
        /* 7 is prime to it unless 7 divides the ranks. */
        const size_t k = c->size % 7 == 0 ? i : (7 * i + (size_t)c->rank) % count;
        const int peer = (int)(k / (2 * MANY));
        const int number = (int)(k % MANY);

        buffer_init(&buffers[k], 100 + 3 * (size_t)number);
        if (peer == c->rank) {
            continue;
        }
        (void)snprintf(name, sizeof name, "many %d", number);
        if (k % (2 * MANY) < MANY) {
            fill(&buffers[k], c->rank, peer, number);
            EXPECT_OK(c,
                    tutti_send_async(t, name, buffers[k].data,
                            (int64_t)buffers[k].bytes, TUTTI_UINT8, peer, NULL,
                            &requests[k]));
        } else {
            EXPECT_OK(c,
                    tutti_recv_async(t, name, buffers[k].data,
                            (int64_t)buffers[k].bytes, TUTTI_UINT8, peer, NULL,
                            &requests[k]));
        }
    }
    EXPECT_OK(c, tutti_wait_all(t, count, requests, TUTTI_FOREVER, NULL));
    for (size_t k = 0; k < count; k++) {
        const int peer = (int)(k / (2 * MANY));

        if (peer != c->rank && k % (2 * MANY) >= MANY) {
            EXPECT(c, is_from(&buffers[k], peer, c->rank, (int)(k % MANY)));
        }
        buffer_fini(&buffers[k]);
    }
    free(requests);
    free(buffers);
}

/* A token goes round by blocking calls, between ranks of a set in another order. */
static void round_a_set(tutti *t, struct checks *c)
{
    int ranks[RANKS_MAX];
    tutti_options options;
    BUFFER_ARRAY(int64_t, token, 1);
    int mine = -1;

    checks_step(c, "round a set");
    tutti_options_default(&options);
    for (int i = 0; i < c->size; i++) {
        ranks[i] = c->size - 1 - i;
    }
    EXPECT_OK(c, tutti_process_set_create(t, ranks, c->size, &options.process_set));
    EXPECT_OK(c, tutti_process_set_info(t, options.process_set, NULL, &mine));
    for (int round = 0; round < 4; round++) {
        const int64_t zero = 0;
        const int next = (mine + 1) % c->size;
        const int before = (mine + c->size - 1) % c->size;

        token[0] = zero;
        if (mine != 0) {
            EXPECT_OK(
                    c, tutti_recv(t, "token", token, 1, TUTTI_INT64, before, &options));
        }
        EXPECT(c, token[0] == mine);
        token[0]++;
        EXPECT_OK(c, tutti_send(t, "token", token, 1, TUTTI_INT64, next, &options));
        if (mine == 0) {
            EXPECT_OK(
                    c, tutti_recv(t, "token", token, 1, TUTTI_INT64, before, &options));
            EXPECT(c, token[0] == c->size);
        }
    }
    EXPECT_OK(c, tutti_process_set_destroy(t, options.process_set));
}

/* With an allreduce that all ranks group, although not all group a message; all or nothing. */
static void in_groups(tutti *t, struct checks *c)
{
    BUFFER_ARRAY(int32_t, values, 3);
    tutti_request requests[3] = { 0 };
    const int last = c->size - 1;

    checks_step(c, "in groups");
    for (int round = 0; round < 4; round++) {
        for (int i = 0; i < 3; i++) {
            values[i] = 100 * round + c->rank + 1;
        }
        EXPECT_OK(c, tutti_group_begin(t));
        if (c->rank == last) {
            EXPECT_OK(c,
                    tutti_send_async(t, "grouped", &values[0], 1, TUTTI_INT32, 0, NULL,
                            &requests[0]));
        }
        EXPECT_OK(c,
                tutti_allreduce_async(t, "beside it", &values[2], &values[2], 1,
                        TUTTI_INT32, TUTTI_MAX, NULL, &requests[2]));
        EXPECT_OK(c, tutti_group_end(t));
        if (c->rank == 0) {
            EXPECT_OK(c,
                    tutti_recv_async(t, "grouped", &values[1], 1, TUTTI_INT32, last,
                            NULL, &requests[1]));
        }
        EXPECT_OK(c, tutti_wait_all(t, 3, requests, TUTTI_FOREVER, NULL));
        EXPECT(c, c->rank != 0 || values[1] == 100 * round + c->size);
        EXPECT(c, values[2] == 100 * round + c->size);
    }
    EXPECT_OK(c, tutti_group_begin(t));
    EXPECT_OK(c,
            tutti_send_async(t, "withdrawn", values, 1, TUTTI_INT32,
                    (c->rank + 1) % c->size, NULL, &requests[0]));
    EXPECT_STATUS(c, TUTTI_ERR_INVALID,
            tutti_send_async(t, "", values, 1, TUTTI_INT32, (c->rank + 1) % c->size,
                    NULL, &requests[1]));
    EXPECT_STATUS(c, TUTTI_ERR_INVALID, tutti_group_end(t));
    EXPECT_STATUS(c, TUTTI_ERR_INVALID, tutti_wait(t, &requests[0], TUTTI_FOREVER));
}

static void refused(tutti *t, struct checks *c)
{
    const int peer = (c->rank + 1) % c->size;
    const tutti_tensor_desc desc = { .size = sizeof desc,
        .name = "registered",
        .collective = TUTTI_MESSAGE,
        .count = 1 };
    tutti_request requests[2] = { 0 };
    BUFFER_ARRAY(int32_t, value, 2);
    tutti_tensor tensor;

    checks_step(c, "refused");
    checks_refused(c, "a message to itself", TUTTI_ERR_INVALID,
            tutti_send(t, "self", value, 1, TUTTI_INT32, c->rank, NULL));
    checks_refused(c, "a peer outside the set", TUTTI_ERR_INVALID,
            tutti_recv(t, "outside", value, 1, TUTTI_INT32, c->size, NULL));
    checks_refused(c, "a message from any rank", TUTTI_ERR_INVALID,
            tutti_recv(t, "any", value, 1, TUTTI_INT32, -1, NULL));
    checks_refused(c, "a registered message", TUTTI_ERR_UNSUPPORTED,
            tutti_tensor_register(t, &desc, &tensor));
    EXPECT_OK(c,
            tutti_send_async(
                    t, "twice", &value[0], 1, TUTTI_INT32, peer, NULL, &requests[0]));
    EXPECT_STATUS(c, TUTTI_ERR_DUPLICATE,
            tutti_send_async(
                    t, "twice", &value[0], 1, TUTTI_INT32, peer, NULL, &requests[1]));
    job_meet(c); /* else the first may be over */
    EXPECT_OK(c,
            tutti_recv_async(t, "twice", &value[1], 1, TUTTI_INT32,
                    (c->rank + c->size - 1) % c->size, NULL, &requests[1]));
    EXPECT_OK(c, tutti_wait_all(t, 2, requests, TUTTI_FOREVER, NULL));
}

/* Rank 0 sends and the last one expects something else; both have both values. */
static void differ(tutti *t, struct checks *c)
{
    static const struct {
        int64_t count;
        tutti_dtype dtype;
        const char *words[3];
    } expected[] = { { 3, TUTTI_INT32, { "count differs", "4", "3" } },
        { 5, TUTTI_INT32, { "count differs", "4", "5" } },
        { 4, TUTTI_FLOAT32, { "dtype differs", "int32", "float32" } } };
    BUFFER_ARRAY(int32_t, values, 5);

    checks_step(c, "they differ");
    for (size_t i = 0; i < 2 * sizeof expected / sizeof *expected; i++) {
        const size_t e = i % (sizeof expected / sizeof *expected);

        if (c->rank != 0 && c->rank != c->size - 1) {
            continue;
        }
        EXPECT_STATUS(c, TUTTI_ERR_MISMATCH,
                c->rank == 0 ? tutti_send(t, "differs", values, 4, TUTTI_INT32,
                                       c->size - 1, NULL)
                             : tutti_recv(t, "differs", values, expected[e].count,
                                       expected[e].dtype, 0, NULL));
        EXPECT(c, strstr(tutti_last_error(), "message \"differs\"") != NULL);
        for (int w = 0; w < 3; w++) {
            EXPECT(c, strstr(tutti_last_error(), expected[e].words[w]) != NULL);
        }
        checks_list(c, i < 3 ? 0 : -1, "sender and receiver differ", TUTTI_ERR_MISMATCH,
                tutti_last_error());
    }
}

/*
 * The last rank finalizes and has never sent anything: those that send to it, or wait for it, are
 * told, whether they do so before or after that.
 */
static void one_leaves(struct checks *c)
{
    tutti *t = job_open(c, NULL);
    const int last = c->size - 1;
    BUFFER_ARRAY(int32_t, values, 2);
    tutti_request requests[2] = { 0 };

    checks_step(c, "one leaves");
    for (int round = 0; round < 2 && c->rank < last; round++) {
        EXPECT_OK(c,
                tutti_send_async(t, "to it", &values[0], 1, TUTTI_INT32, last, NULL,
                        &requests[0]));
        EXPECT_OK(c,
                tutti_recv_async(t, "from it", &values[1], 1, TUTTI_INT32, last, NULL,
                        &requests[1]));
        for (int i = 0; i < 2; i++) {
            EXPECT_STATUS(
                    c, TUTTI_ERR_FINALIZED, tutti_wait(t, &requests[i], TUTTI_FOREVER));
            EXPECT(c,
                    strstr(tutti_last_error(), "has called tutti_finalize()") != NULL);
        }
    }
    EXPECT_OK(c, tutti_finalize(t));
}

static void count_final(void *user, tutti_status status, const char *message)
{
    (void)message;
    ((int *)user)[status == TUTTI_OK ? 0 : status == TUTTI_ERR_FINALIZED ? 1 : 2]++;
}

/* All finalize with messages in flight: those of both sides arrive, the others fail. */
static void all_leave(struct checks *c)
{
    tutti *t = job_open(c, NULL);
    const int next = (c->rank + 1) % c->size;
    const int before = (c->rank + c->size - 1) % c->size;
    BUFFER_ARRAY(int32_t, values, 3);
    int ends[3] = { 0 };
    tutti_options options;

    checks_step(c, "all leave");
    tutti_options_default(&options);
    options.callback = count_final;
    options.user = ends;
    values[0] = c->rank + 1;
    EXPECT_OK(c,
            tutti_send_async(
                    t, "arrives", &values[0], 1, TUTTI_INT32, next, &options, NULL));
    EXPECT_OK(c,
            tutti_recv_async(
                    t, "arrives", &values[1], 1, TUTTI_INT32, before, &options, NULL));
    EXPECT_OK(c,
            c->rank % 2 == 0 ? tutti_send_async(t, "unmatched", &values[2], 1,
                                       TUTTI_INT32, before, &options, NULL)
                             : tutti_recv_async(t, "unmatched too", &values[2], 1,
                                       TUTTI_INT32, next, &options, NULL));
    EXPECT_OK(c, tutti_finalize(t));
    EXPECT(c, ends[0] == 2 && ends[1] == 1 && ends[2] == 0);
    EXPECT(c, values[1] == before + 1);
}

/* The line names who is waited for, be it sender or receiver. */
static void one_is_late(struct checks *c, bool sends)
{
    static const struct setting settings[] = { { "stall_warning_s", "0.05" }, { 0 } };
    tutti *t = job_open(c, settings);
    const bool is_late = c->rank == c->size - 1;
    BUFFER_ARRAY(int32_t, value, 1);
    tutti_request request = TUTTI_REQUEST_NULL;
    char line[LOG_TEXT_MAX];
    char words[64];

    checks_step(c, "one is late");
    job_meet(c);
    if (c->rank == 0) {
        job_clear_log(c);
    }
    job_meet(c);
    for (int come = 0; come < 2; come++) {
        if ((come == 0 && c->rank == 0) || (come == 1 && is_late)) {
            EXPECT_OK(c,
                    sends == is_late
                            ? tutti_send_async(t, "late", value, 1, TUTTI_INT32,
                                      is_late ? 0 : c->size - 1, NULL, &request)
                            : tutti_recv_async(t, "late", value, 1, TUTTI_INT32,
                                      is_late ? 0 : c->size - 1, NULL, &request));
        }
        while (come == 0 && c->rank == 0 &&
                !job_find_line(c, 0, "message \"late\"", line)) {
            EXPECT_STATUS(c, TUTTI_ERR_TIMEOUT, tutti_wait(t, &request, 20000000));
        }
        job_meet(c);
    }
    (void)snprintf(words, sizeof words, "rank %d ", c->size - 1);
    EXPECT(c, c->rank != 0 || strstr(line, words) != NULL);
    EXPECT_OK(c, tutti_wait(t, &request, TUTTI_FOREVER));
    EXPECT_OK(c, tutti_finalize(t));
}

/* Who sends to whom is nobody's business: there is no set of it that a program sees. */
static void no_set_of_it(tutti *t, struct checks *c, int sets)
{
    const tutti_process_set pair = (1U << 31) + (tutti_process_set)(c->rank * c->size);
    int count = 0;

    EXPECT_OK(c, tutti_process_set_list(t, NULL, 0, &count));
    EXPECT(c, count == sets);
    for (int peer = 0; peer < c->size; peer++) {
        EXPECT_STATUS(c, TUTTI_ERR_INVALID,
                tutti_process_set_info(t, pair + (tutti_process_set)peer, NULL, NULL));
    }
}

void suite_messages(tutti *t, struct checks *c)
{
    int sets = 0;

    if (c->size == 1) {
        return;
    }
    EXPECT_OK(c, tutti_process_set_list(t, NULL, 0, &sets));
    every_type(t, c);
    all_at_once(t, c);
    no_set_of_it(t, c, sets);
    round_a_set(t, c);
    in_groups(t, c);
    refused(t, c);
    differ(t, c);
    one_leaves(c);
    all_leave(c);
    one_is_late(c, false);
    one_is_late(c, true);
}
