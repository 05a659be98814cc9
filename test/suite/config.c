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
    { "backend", "mpi", "vendor" },
    { "algorithm", "auto", "gather" },
    { "fusion_bytes", "1", "4096" },
    { "chunk_bytes", "65536", "131072" },
    { "gather_bytes", "8192", "0" },
    { "inflight", "4", "5" },
    { "cache_capacity", "16384", "0" },
    { "tree_fanout", "16", "2" },
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
    if (c->list && c->rank == 0) {
        printf("%-34s %-22s %s\n", "a value that must be equal", "TUTTI_ERR_CONFIG",
                tutti_last_error());
    }
}

/* What may differ. */
static void free_values(struct checks *c)
{
    const struct setting settings[] = { { "spin_us", c->rank % 2 == 0 ? "0" : "200" },
        { "background_thread", c->rank % 2 == 0 ? "true" : "false" },
        { "log_level", c->rank == 0 ? "info" : "error" },
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

void suite_config(tutti *t, struct checks *c)
{
    (void)t;
    if (!c->job->processes) {
        return;
    }
    for (size_t i = 0; c->size > 1 && i < sizeof differences / sizeof *differences;
            i++) {
        one_difference(c, &differences[i]);
    }
    free_values(c);
}
