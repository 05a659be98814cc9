/*
 * A rank that reads nothing for a while: what the ring of log messages on the board has no space for
 * reaches it as messages, and later the board carries all again.
 */
#include <stdint.h>
#include <stdio.h>

#include "test/suite/buffer.h"
#include "test/suite/suite.h"

enum {
    TENSORS = 40, /* several times what the ring holds */
    ROUNDS = 3
};

/** The first rank, whose tensors come last, and the last one. */
struct pair {
    tutti *t;
    struct checks *c;
    tutti_process_set set;
    int32_t *values; /* [TENSORS] */
    tutti_request requests[TENSORS];
};

static tutti_stats stats_of(const struct pair *p)
{
    tutti_stats stats = { .size = sizeof stats };

    EXPECT_OK(p->c, tutti_stats_get(p->t, &stats));
    return stats;
}

static void begin(struct pair *p, int tensor, int round)
{
    tutti_options options;
    char name[32];

    tutti_options_default(&options);
    options.process_set = p->set;
    (void)snprintf(name, sizeof name, "tensor %d", tensor);
    p->values[tensor] = (p->c->rank + 1) * (round + tensor);
    EXPECT_OK(p->c,
            tutti_allreduce_async(p->t, name, &p->values[tensor], &p->values[tensor], 1,
                    TUTTI_INT32, TUTTI_SUM, &options, &p->requests[tensor]));
}

static void end_all(struct pair *p, int round)
{
    EXPECT_OK(p->c, tutti_wait_all(p->t, TENSORS, p->requests, TUTTI_FOREVER, NULL));
    for (int i = 0; i < TENSORS; i++) {
        EXPECT(p->c, p->values[i] == (p->c->size + 1) * (round + i));
    }
}

/* One tensor in each log message, of which each is read before the next one. @return messages of this rank */
static uint64_t one_by_one(struct pair *p, int round)
{
    const uint64_t before = stats_of(p).control_messages;

    for (int i = 0; i < TENSORS; i++) {
        begin(p, i, round);
        EXPECT_OK(p->c, tutti_wait(p->t, &p->requests[i], TUTTI_FOREVER));
    }
    return stats_of(p).control_messages - before;
}

/* The last rank has announced all before it stops to drive; then the first one has many log messages for it. */
static uint64_t all_at_once(struct pair *p, int round)
{
    const bool late = p->c->rank != 0;
    const tutti_stats before = stats_of(p);
    uint64_t sent;

    for (int i = 0; i < TENSORS && late; i++) {
        begin(p, i, round);
    }
    while (late && stats_of(p).announced_by_bit < before.announced_by_bit + TENSORS) {
        EXPECT_STATUS(p->c, TUTTI_AGAIN, tutti_test(p->t, &p->requests[0]));
    }
    job_meet(p->c);
    for (int i = 0; i < TENSORS && !late; i++) {
        begin(p, i, round);
        EXPECT_STATUS(p->c, TUTTI_AGAIN, tutti_test(p->t, &p->requests[i]));
    }
    sent = stats_of(p).control_messages - before.control_messages;
    job_meet(p->c);
    end_all(p, round);
    return sent;
}

static void run_pair(struct pair *p, bool has_board)
{
    for (int i = 0; i < 2; i++) {
        (void)one_by_one(p, i);
    }
    for (int round = 2; round < 2 + 2 * ROUNDS; round += 2) {
        uint64_t sent;

        checks_step(p->c, "one by one");
        sent = one_by_one(p, round);
        EXPECT(p->c, sent == 0 || !has_board);
        checks_step(p->c, "all at once");
        sent = all_at_once(p, round + 1);
        EXPECT(p->c, !has_board || (sent > 0) == (p->c->rank == 0));
    }
}

void suite_board(tutti *t, struct checks *c)
{
    static const struct setting settings[] = { { "background_thread", "off" },
        { "stall_warning_s", "0" }, { 0 } };
    const int ranks[] = { 0, c->size - 1 };
    BUFFER_ARRAY(int32_t, values, TENSORS);
    struct pair pair = { .c = c, .values = values };

    (void)t;
    if (c->size == 1) {
        return;
    }
    pair.t = job_open(c, settings);
    EXPECT_OK(c, tutti_process_set_create(pair.t, ranks, 2, &pair.set));
    if (c->rank == 0 || c->rank == c->size - 1) {
        /* Ranks of one process have one. */
        run_pair(&pair, !c->job->processes);
    } else {
        for (int round = 0; round < 2 * ROUNDS; round++) {
            job_meet(c);
        }
    }
    EXPECT_OK(c, tutti_finalize(pair.t));
}
