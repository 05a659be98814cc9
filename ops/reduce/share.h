/*
 * Reductions that threads beside the engine's may take part in.
 */
#ifndef TUTTI_OPS_REDUCE_SHARE_H
#define TUTTI_OPS_REDUCE_SHARE_H

#include <stddef.h>

#include "ops/op.h"
#include "ops/reduce/reduce.h"

/** The arguments of reduce_tree(). */
struct reduce_job {
    const struct reduce_spec *spec;
    const void *const *inputs; /* n of them */
    int n;
    void *const *outputs; /* m of them */
    int m;
    size_t count; /* elements */
};

/**
 * As reduce_tree(); the elements are cut in pieces where threads that wait (op_env.share)
 * take some of them. Called by the thread that runs the engine. Results do not depend on
 * who computes them.
 */
void reduce_shared(const struct op_env *env, const struct reduce_job *job);
/** For reductions by reduce_tree(): begins to count their time, if somebody asks; then ends. */
int64_t reduce_clock(const struct op_env *env);
void reduce_count(const struct op_env *env, int64_t begin_ns);

#endif
