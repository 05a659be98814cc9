/*
 * Random programs (program.h) on contexts of three kinds. SUITE_PROGRAMS=COUNT runs more of
 * them; a failure names the seed.
 */
#include <stdio.h>
#include <stdlib.h>

#include "test/batch/reference.h"
#include "test/suite/program.h"
#include "test/suite/suite.h"

enum {
    PROGRAMS = 24
};

static void run_one(tutti *t, struct checks *c, uint64_t seed)
{
    static _Thread_local char step[64];
    struct program *program = must_alloc(1, sizeof *program);

    (void)snprintf(step, sizeof step, "random program, seed %d", (int)seed);
    checks_step(c, step);
    program_make(program, seed, c->size);
    program_run(t, c, program);
    free(program);
}

void suite_programs(tutti *t, struct checks *c)
{
    static const struct setting tight[] = { { "fusion_bytes", "600" },
        { "inflight", "2" }, { "cache_capacity", "8" }, { "tree_fanout", "2" }, { 0 } };
    static const struct setting quiet[] = { { "background_thread", "false" }, { 0 } };
    const char *wanted = getenv("SUITE_PROGRAMS");
    const uint64_t programs = wanted == NULL ? PROGRAMS : strtoull(wanted, NULL, 10);
    tutti *contexts[3] = { t, job_open(c, tight), job_open(c, quiet) };

    for (uint64_t seed = 0; seed < programs; seed++) {
        run_one(contexts[seed % 3], c, 1000 * (uint64_t)c->size + seed);
    }
    EXPECT_OK(c, tutti_finalize(contexts[1]));
    EXPECT_OK(c, tutti_finalize(contexts[2]));
}
