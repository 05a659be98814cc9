/*
 * Ranks on several nodes, and deep trees: numbering and results.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test/batch/reference.h"
#include "test/suite/flight.h"
#include "test/suite/suite.h"

/** Which node a rank is on, so that nodes' ranks need not be neighbours. */
typedef int (*node_choice)(int rank, int size);

static int alternating(int rank, int size)
{
    (void)size;
    return rank % 2;
}

static int backwards_thirds(int rank, int size)
{
    return (size - 1 - rank) / 3;
}

static int in_pairs(int rank, int size)
{
    (void)size;
    return rank / 2;
}

static int all_apart(int rank, int size)
{
    return size - rank;
}

/* Nodes are numbered by their lowest rank, ranks of a node in order. */
static void check_numbering(tutti *t, struct checks *c, node_choice choose)
{
    int node = -1;
    int nodes = 0;
    int local = 0;
    int locals = 0;

    for (int r = 0; r < c->size; r++) {
        bool first = true;

        for (int before = 0; before < r; before++) {
            first = first && choose(before, c->size) != choose(r, c->size);
        }
        if (choose(r, c->size) == choose(c->rank, c->size)) {
            node = first ? nodes : node;
            local += r < c->rank ? 1 : 0;
            locals++;
        }
        nodes += first ? 1 : 0;
    }
    EXPECT(c, tutti_node(t) == node);
    EXPECT(c, tutti_node_count(t) == nodes);
    EXPECT(c, tutti_local_rank(t) == local);
    EXPECT(c, tutti_local_size(t) == locals);
}

/* Names, then numbers, then a name again after a failure, all over the tree. */
static void traffic(tutti *t, struct checks *c)
{
    enum {
        TENSORS = 20
    };
    int *ranks = must_alloc((size_t)c->size, sizeof *ranks);
    const struct crew world = crew_of_world(c, ranks);
    struct operation operations[TENSORS];
    struct flight flights[TENSORS];
    char name[32];

    for (int wave = 0; wave < 5; wave++) {
        for (int k = 0; k < TENSORS; k++) {
            const int i = (k * 7 + c->rank * 3 + wave) % TENSORS;
            /* In wave 3 the last rank asks one tensor for something else. */
            const bool odd = wave == 3 && i == 5 && c->rank == c->size - 1;

            operations[i] = (struct operation){ .collective = TUTTI_ALLREDUCE,
                .pattern = { TUTTI_FLOAT32, odd ? TUTTI_MAX : TUTTI_SUM,
                        (uint32_t)(wave * TENSORS + i) },
                .scales = { 1, 1 },
                .count = 300,
                .row_count = 1,
                .in_place = true };
            (void)snprintf(name, sizeof name, "across %d", i);
            flight_begin(t, c, &flights[i], &operations[i], &world, name);
        }
        for (int i = 0; i < TENSORS; i++) {
            if (wave == 3 && i == 5 && c->size > 1) {
                flight_fail(t, c, &flights[i], TUTTI_ERR_MISMATCH);
            } else {
                flight_end(t, c, &flights[i]);
            }
        }
    }
    free(ranks);
}

/* Inexact sums have the bits of the one tree over the ranks, where that is promised. */
static void check_order(tutti *t, struct checks *c)
{
    static const struct pattern inexact = { TUTTI_FLOAT32, TUTTI_SUM, 1 };
    static const int64_t counts[] = { 37, 40009 };
    const char *groups = reference_set_groups(NULL);
    float *want = must_alloc(PATTERN_PERIOD, sizeof *want);

    pattern_expect(&inexact, c->size, (struct scales){ 1, 1 }, want, PATTERN_PERIOD);
    for (int i = 0; i < 2; i++) {
        float *sum = must_alloc((size_t)counts[i], sizeof *sum);
        bool equal = true;

        pattern_fill(&inexact, c->rank, sum, (size_t)counts[i]);
        EXPECT_OK(c,
                tutti_allreduce(t, "order", sum, sum, counts[i], TUTTI_FLOAT32,
                        TUTTI_SUM, NULL));
        for (int64_t k = 0; k < counts[i]; k++) {
            equal = equal &&
                    memcmp(&sum[k], &want[(size_t)k % PATTERN_PERIOD], sizeof *sum) ==
                            0;
        }
        EXPECT(c, equal == tutti_sums_follow_ranks(t, TUTTI_WORLD));
        free(sum);
    }
    free(want);
    (void)reference_set_groups(groups);
}

/* The rule of docs/numerics.md: blocks of an equal power of two, the last may be smaller. */
static bool should_follow(const struct checks *c, node_choice choose)
{
    return choose == in_pairs || choose == all_apart || c->size <= 2 ||
            (choose == backwards_thirds && c->size == 3);
}

static void on_nodes(
        struct checks *c, const char *step, node_choice choose, const char *hierarchy)
{
    char *groups = must_alloc((size_t)c->size + 1, 1);
    char host[32];
    const struct setting settings[] = { { "host_id", host }, { "tree_fanout", "2" },
        { "backend", "auto" }, { "hierarchy", hierarchy }, { 0 } };
    tutti *t;

    checks_step(c, step);
    (void)snprintf(host, sizeof host, "node-%d", choose(c->rank, c->size));
    for (int r = 0; r < c->size; r++) {
        groups[r] = (char)('a' + choose(r, c->size));
    }
    if (strcmp(hierarchy, "node") == 0) {
        (void)reference_set_groups(groups);
    }
    t = job_open(c, settings);
    check_numbering(t, c, choose);
    EXPECT(c,
            tutti_sums_follow_ranks(t, TUTTI_WORLD) ==
                    (strcmp(hierarchy, "flat") == 0 || should_follow(c, choose)));
    check_order(t, c);
    traffic(t, c);
    EXPECT_OK(c, tutti_finalize(t));
    (void)reference_set_groups(NULL);
    free(groups);
}

/* MPI's own order in the world, and that of the ranks in another set; nobody else's set. */
static void vendor_keeps_its_order(struct checks *c)
{
    static const struct setting settings[] = { { "backend", "vendor" }, { 0 } };
    const int first = 0;
    tutti_process_set set = TUTTI_WORLD;
    tutti *t;

    checks_step(c, "the order of sums of MPI");
    if (getenv("SUITE_OOB") != NULL) {
        EXPECT_STATUS(c, TUTTI_ERR_CONFIG, job_try_open(c, settings, &t));
        return;
    }
    t = job_open(c, settings);
    EXPECT_OK(c, tutti_process_set_create(t, &first, 1, &set));
    EXPECT(c, tutti_sums_follow_ranks(t, TUTTI_WORLD) == (c->size == 1));
    EXPECT(c, tutti_sums_follow_ranks(t, set) == (c->rank == 0));
    EXPECT(c, !tutti_sums_follow_ranks(t, set + 1));
    EXPECT(c, !tutti_sums_follow_ranks(NULL, TUTTI_WORLD));
    EXPECT_OK(c, tutti_finalize(t));
}

/* The backend that takes it, by name; errors. */
static void explains_an_allreduce(struct checks *c)
{
    static const struct setting settings[] = { { "hierarchy", "flat" }, { 0 } };
    char text[256] = "";
    tutti *t;

    checks_step(c, "how an allreduce travels, in words");
    t = job_open(c, settings);
    EXPECT_OK(c,
            tutti_explain_allreduce(
                    t, TUTTI_WORLD, 1000, TUTTI_FLOAT32, TUTTI_SUM, text, sizeof text));
    EXPECT(c, c->size > 1 || strncmp(text, "self", 4) == 0);
    EXPECT(c,
            c->size == 1 || strncmp(text, "shm", 3) == 0 ||
                    strncmp(text, "messages: ", 10) == 0);
    EXPECT(c,
            tutti_explain_allreduce(t, 77, 1, TUTTI_FLOAT32, TUTTI_SUM, text,
                    sizeof text) == TUTTI_ERR_INVALID);
    EXPECT(c,
            tutti_explain_allreduce(t, TUTTI_WORLD, 0, TUTTI_FLOAT32, TUTTI_SUM, text,
                    sizeof text) == TUTTI_ERR_INVALID);
    EXPECT(c,
            tutti_explain_allreduce(t, TUTTI_WORLD, 1, TUTTI_BOOL, TUTTI_SUM, text,
                    sizeof text) == TUTTI_ERR_UNSUPPORTED);
    EXPECT_OK(c, tutti_finalize(t));
}

/* Each rank logs it, when there is anything to divide. */
static void says_how_sets_are_divided(struct checks *c)
{
    char text[LOG_TEXT_MAX];
    char host[32];
    const struct setting settings[] = { { "host_id", host }, { "log_level", "debug" },
        { "backend", "auto" }, { "hierarchy", "node" }, { 0 } };
    tutti *t;

    checks_step(c, "a line in the log");
    job_meet(c);
    job_clear_log(c);
    job_meet(c);
    (void)snprintf(host, sizeof host, "node-%d", alternating(c->rank, c->size));
    t = job_open(c, settings);
    EXPECT(c, job_find_line(c, c->rank, "sets that span nodes", text) == (c->size > 2));
    EXPECT_OK(c, tutti_finalize(t));
}

void suite_nodes(tutti *t, struct checks *c)
{
    static const struct setting deep[] = { { "host_id", "one" },
        { "hierarchy", "flat" }, { "tree_fanout", "2" }, { 0 } };
    const char *groups = reference_set_groups(NULL);
    tutti *tree;

    (void)t;
    checks_step(c, "a deep tree");
    tree = job_open(c, deep);
    EXPECT(c, tutti_node_count(tree) == 1 && tutti_local_rank(tree) == c->rank);
    traffic(tree, c);
    EXPECT_OK(c, tutti_finalize(tree));
    if (c->job->processes) {
        on_nodes(c, "alternating nodes", alternating, "flat");
        on_nodes(c, "alternating nodes, two levels", alternating, "node");
        on_nodes(c, "nodes of three, backwards", backwards_thirds, "flat");
        on_nodes(c, "nodes of three, two levels", backwards_thirds, "node");
        on_nodes(c, "every rank on a node", all_apart, "node");
        on_nodes(c, "nodes of two, two levels", in_pairs, "node");
        vendor_keeps_its_order(c);
        explains_an_allreduce(c);
        says_how_sets_are_divided(c);
    }
    (void)reference_set_groups(groups);
}
