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
};

static const struct topic topics[] = {
    { "values", suite_values },
    { "trees", suite_trees },
    { "collectives", suite_collectives },
    { "rows", suite_rows },
    { "claims", suite_claims },
    { "join", suite_join },
    { "many_sets", suite_many_sets },
    { "ends", suite_ends },
    { "leaving", suite_leaving },
    { "programs", suite_programs },
    { "bad_rows", suite_bad_rows },
    { "row_mismatches", suite_row_mismatches },
    { "moves", suite_moves },
    { "fusion", suite_fusion },
    { "layout", suite_layout },
    { "threads", suite_threads },
    { "requests", suite_requests },
    { "refusals", suite_refusals },
    { "mismatches", suite_mismatches },
    { "sets", suite_sets },
    { "groups", suite_groups },
    { "registered", suite_registered },
    { "ids", suite_ids },
    { "cancel", suite_cancel },
    { "stall", suite_stall },
    { "failure", suite_failure },
    { "abort", suite_abort },
    { "finalize", suite_finalize },
    { "config", suite_config },
    { "memory", suite_memory },
    { "nodes", suite_nodes },
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
    if (first < argc && strcmp(argv[first], "--without") == 0) {
        selection->without = argv[first + 1]; /* NULL ends argv */
        if (!check_topic(selection->without)) {
            return false;
        }
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
    if (selection->without != NULL && strcmp(selection->without, name) == 0) {
        return false;
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
    gpu_begin(&(struct gpu_libraries){ .cuda = GPUSIM_CUDA,
                      .nccl = nccl != NULL ? nccl : GPUSIM_NCCL },
            ranks);
}

static double seconds(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
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

void suite_run(const struct suite_selection *selection, struct checks *c)
{
    tutti *t;

    c->list = selection->list;
    t = job_open(c, NULL);
    buffer_mix(t);
    for (size_t i = 0; i < TOPIC_COUNT && t != NULL; i++) {
        if (is_selected(selection, topics[i].name)) {
            run_topic(&topics[i], t, c);
        }
    }
    atomic_store_explicit(&c->topic, "end", memory_order_relaxed);
    buffer_mix(NULL);
    checks_step(c, "finalize");
    EXPECT_OK(c, tutti_finalize(t));
}
