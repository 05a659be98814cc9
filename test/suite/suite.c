/*
 * The table of topics.
 */
#include "test/suite/suite.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "test/suite/buffer.h"
#include "test/suite/gpu.h"

struct topic {
    const char *name;
    suite_topic run;
    const char *host_only; /* why it is left out of runs with GPUs; NULL: it is not */
};

static const struct topic topics[] = {
    { "values", suite_values, NULL },
    { "trees", suite_trees, "the order of the host's sums" },
    { "collectives", suite_collectives, NULL },
    { "rows", suite_rows, NULL },
    { "claims", suite_claims,
            "contradictions of rows; mismatches has others on the device" },
    { "join", suite_join, NULL },
    { "many_sets", suite_many_sets, NULL },
    { "ends", suite_ends, NULL },
    { "leaving", suite_leaving, NULL },
    { "programs", suite_programs, NULL },
    { "bad_rows", suite_bad_rows, "calls that are refused, whatever the memory" },
    { "moves", suite_moves, NULL },
    { "messages", suite_messages, NULL },
    { "board", suite_board, "counts control messages, which tickets are, too" },
    { "threads", suite_threads, NULL },
    { "rivals", suite_rivals, "threads and names, whatever the memory" },
    { "late", suite_late, "calls that are refused, whatever the memory" },
    { "requests", suite_requests, NULL },
    { "refusals", suite_refusals, "calls that are refused, whatever the memory" },
    { "mismatches", suite_mismatches, NULL },
    { "steps", suite_steps, NULL },
    { "sets", suite_sets, NULL },
    { "groups", suite_groups, NULL },
    { "registered", suite_registered, NULL },
    { "ids", suite_ids, "numbers of names, whatever the memory" },
    { "cancel", suite_cancel, NULL },
    { "stall", suite_stall, NULL },
    { "failure", suite_failure, NULL },
    { "abort", suite_abort, NULL },
    { "finalize", suite_finalize, NULL },
    { "config", suite_config, "parameters, and no tensor" },
    { "memory", suite_memory, NULL },
    { "nodes", suite_nodes, NULL },
};

#define TOPIC_COUNT (sizeof topics / sizeof *topics)

static bool is_topic(const char *name)
{
    for (size_t i = 0; i < TOPIC_COUNT; i++) {
        if (strcmp(topics[i].name, name) == 0) {
            return true;
        }
    }
    return false;
}

static bool check_topic(const char *name)
{
    const bool known = name != NULL && is_topic(name);

    if (!known) {
        (void)fprintf(stderr, "there is no topic \"%s\"\n", name != NULL ? name : "");
    }
    return known;
}

bool suite_select(int argc, char **argv, struct suite_selection *selection)
{
    int first = 1;

    *selection = (struct suite_selection){ 0 };
    if (first < argc && strcmp(argv[first], "--list") == 0) {
        selection->list = true;
        first++;
    }
    selection->without = argv + first;
    while (first < argc && strcmp(argv[first], "--without") == 0) {
        if (!check_topic(argv[first + 1])) { /* NULL ends argv */
            return false;
        }
        selection->without_count++;
        first += 2;
    }
    if (first < argc && strcmp(argv[first], "--gpu") == 0) {
        selection->gpu = true;
        first++;
    }
    if (first + 1 < argc && strcmp(argv[first], "--nccl") == 0) {
        selection->nccl = argv[first + 1];
        first += 2;
    }
    for (int i = first; i < argc; i++) {
        if (!check_topic(argv[i])) {
            return false;
        }
    }
    selection->count = argc - first;
    selection->names = argv + first;
    return true;
}

static bool is_selected(const struct suite_selection *selection, const char *name)
{
    for (int i = 0; i < selection->without_count; i++) {
        if (strcmp(selection->without[2 * i + 1], name) == 0) {
            return false;
        }
    }
    for (int i = 0; i < selection->count; i++) {
        if (strcmp(selection->names[i], name) == 0) {
            return true;
        }
    }
    return selection->count == 0;
}

void suite_begin_gpu(const char *nccl, int ranks)
{
    suite_gpu_begin(GPUSIM_CUDA, nccl != NULL ? nccl : GPUSIM_NCCL, ranks);
}

static double seconds(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

void suite_check_paths(tutti *t, struct checks *c)
{
    tutti_stats stats = { .size = sizeof stats };

    EXPECT_OK(c, tutti_stats_get(t, &stats));
    if (c->rank == 0) {
        printf("of %llu batches %llu on the device, %llu packed, %llu in place, "
               "%llu staged\n",
                (unsigned long long)stats.batches,
                (unsigned long long)stats.device_batches,
                (unsigned long long)stats.device_packed,
                (unsigned long long)stats.device_in_place,
                (unsigned long long)stats.device_staged);
    }
    if (!suite_gpu_has_nccl()) {
        EXPECT(c, stats.device_staged == stats.device_batches);
    } else if (stats.device_batches > 0) {
        EXPECT(c, stats.device_staged < stats.device_batches);
    }
}

/* One topic, and how long it took. */
static void run_topic(const struct topic *topic, tutti *t, struct checks *c)
{
    const double begin = seconds();

    atomic_store_explicit(&c->topic, topic->name, memory_order_relaxed);
    checks_step(c, "begin");
    topic->run(t, c);
    checks_step(c, "barrier at its end");
    EXPECT_OK(c, tutti_barrier(t, "end of topic", NULL));
    if (c->rank == 0 && !c->list) {
        printf("%-12s %6.2f s\n", topic->name, seconds() - begin);
    }
}

static void say_left_out(const struct topic *topic, const struct checks *c)
{
    if (c->rank == 0) {
        printf("%-12s is not for device memory: %s\n", topic->name, topic->host_only);
    }
}

void suite_run(const struct suite_selection *selection, struct checks *c)
{
    tutti *t;

    c->list = selection->list;
    t = job_open(c, NULL);
    buffer_mix(t);
    for (size_t i = 0; i < TOPIC_COUNT && t != NULL; i++) {
        if (!is_selected(selection, topics[i].name)) {
            continue;
        }
        if (suite_gpu_is_used() && topics[i].host_only != NULL) {
            say_left_out(&topics[i], c);
        } else {
            run_topic(&topics[i], t, c);
        }
    }
    atomic_store_explicit(&c->topic, "end", memory_order_relaxed);
    if (suite_gpu_is_used()) {
        suite_check_paths(t, c);
    }
    buffer_mix(NULL);
    checks_step(c, "finalize");
    EXPECT_OK(c, tutti_finalize(t));
}
