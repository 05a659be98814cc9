/*
 * Values that must be equal on all ranks and are not: every rank is told which, whose, and
 * both values. Needs a configuration for each rank, so processes.
 */
#include <stdio.h>
#include <string.h>

#include "test/suite/suite.h"

/** A parameter of which the last rank has another value. */
struct difference {
    const char *name;
    const char *most;
    const char *last;
};

static const struct difference differences[] = {
    { "backend", "messages", "vendor" },
    { "algorithm", "auto", "gather" },
    { "fusion_bytes", "1", "4096" },
    { "chunk_bytes", "65536", "131072" },
    { "gather_bytes", "8192", "0" },
    { "inflight", "4", "5" },
    { "cache_capacity", "16384", "0" },
    { "tree_fanout", "16", "2" },
    { "issue", "auto", "caller" },
    { "gpu_connect", "init", "use" },
    { "gpu_half_sums", "float", "half" },
};

static void one_difference(struct checks *c, const struct difference *d)
{
    const bool last = c->rank == c->size - 1;
    const struct setting settings[] = { { d->name, last ? d->last : d->most }, { 0 } };
    tutti *t = NULL;
    char expected[64];

    checks_step(c, d->name);
    EXPECT_STATUS(c, TUTTI_ERR_CONFIG, job_try_open(c, settings, &t));
    EXPECT(c, t == NULL);
    EXPECT(c, strstr(tutti_last_error(), d->name) != NULL);
    (void)snprintf(expected, sizeof expected, "rank 0 has %s,", d->most);
    EXPECT(c, strstr(tutti_last_error(), expected) != NULL);
    (void)snprintf(expected, sizeof expected, "rank %d has %s", c->size - 1, d->last);
    EXPECT(c, strstr(tutti_last_error(), expected) != NULL);
    checks_list(
            c, 0, "a value that must be equal", TUTTI_ERR_CONFIG, tutti_last_error());
}

/* What may differ. */
static void free_values(struct checks *c)
{
    const struct setting settings[] = { { "spin_us", c->rank % 2 == 0 ? "0" : "200" },
        { "background_thread", c->rank % 2 == 0 ? "true" : "false" },
        { "log_level", c->rank == 0 ? "info" : "error" },
        { "kernels", c->rank == 0 ? "scalar" : "auto" },
        { "stall_warning_s", c->rank == 0 ? "1.5" : "30" }, { 0 } };
    tutti *t = job_open(c, settings);

    checks_step(c, "values that may differ");
    EXPECT(c, tutti_has_background(t) == (c->rank % 2 == 0));
    for (int i = 0; i < 10; i++) {
        int value = 1;

        EXPECT_OK(c,
                tutti_allreduce(
                        t, "free", &value, &value, 1, TUTTI_INT32, TUTTI_SUM, NULL));
        EXPECT(c, value == c->size);
    }
    EXPECT_OK(c, tutti_finalize(t));
}

/* Their handles count from 1, in the order of the list, and ranks are in its order, too. */
static void sets_from_the_start(struct checks *c)
{
    char text[32];
    const struct setting settings[] = { { "process_sets", text }, { 0 } };
    const int last = c->size - 1;
    tutti *t;

    checks_step(c, "process sets from the start");
    (void)snprintf(text, sizeof text, "0-%d; %d", last, last);
    t = job_open(c, settings);
    for (tutti_process_set set = 1; set <= 2; set++) {
        const int members = set == 1 ? c->size : 1;
        tutti_options options;
        int value = 1;
        int size = 0;
        int rank = -2;

        tutti_options_default(&options);
        options.process_set = set;
        EXPECT_OK(c, tutti_process_set_info(t, set, &size, &rank));
        EXPECT(c, size == members);
        EXPECT(c, rank == (set == 1 ? c->rank : (c->rank == last ? 0 : -1)));
        EXPECT_STATUS(c, rank >= 0 ? TUTTI_OK : TUTTI_ERR_INVALID,
                tutti_allreduce(t, "of the start", &value, &value, 1, TUTTI_INT32,
                        TUTTI_SUM, &options));
        EXPECT(c, value == (rank >= 0 ? members : 1));
    }
    EXPECT_OK(c, tutti_process_set_destroy(t, 1));
    EXPECT_STATUS(c, TUTTI_ERR_INVALID, tutti_process_set_info(t, 1, NULL, NULL));
    EXPECT_OK(c, tutti_finalize(t));
    (void)snprintf(text, sizeof text, "0; %d", c->size);
    t = NULL;
    checks_refused(c, "process_sets with a rank that is not there", TUTTI_ERR_CONFIG,
            job_try_open(c, settings, &t));
    EXPECT(c, t == NULL);
}

void suite_config(tutti *t, struct checks *c)
{
    (void)t;
    sets_from_the_start(c);
    if (!c->job->processes) {
        return;
    }
    for (size_t i = 0; c->size > 1 && i < sizeof differences / sizeof *differences;
            i++) {
        one_difference(c, &differences[i]);
    }
    free_values(c);
}
