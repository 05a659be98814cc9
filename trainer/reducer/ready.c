/*
 * Marking gradients ready.
 */
#include "error.h"
#include "reducer/gradient.h"

static tutti_status refuse(const tutti_reducer *reducer, size_t i, const char *why)
{
    return error_set(TUTTI_ERR_INVALID,
            "tutti_reducer_ready: gradient \"%s\" (parameter %zu) of step %lld on "
            "rank %d %s",
            i < reducer->count ? reducer->gradients[i].name : "?", i,
            (long long)reducer->step, reducer->rank, why);
}

tutti_status tutti_reducer_ready_on(
        tutti_reducer *reducer, size_t i, tutti_stream stream)
{
    struct gradient *gradient;
    tutti_status status = TUTTI_OK;
    int marks;

    if (reducer == NULL) {
        return error_set(TUTTI_ERR_INVALID, "tutti_reducer_ready: the reducer is NULL");
    }
    if (i >= reducer->count) {
        return refuse(reducer, i, "does not exist");
    }
    if (atomic_load(&reducer->ending)) {
        return refuse(reducer, i, "is marked ready while the step is being waited for");
    }
    gradient = &reducer->gradients[i];
    marks = atomic_fetch_add(&gradient->marks, 1) + 1;
    if (marks > reducer->marks) {
        (void)atomic_fetch_sub(&gradient->marks, 1);
        return refuse(reducer, i,
                reducer->marks == 1
                        ? "was already marked ready; wait for the step first"
                        : "was already marked ready in every pass of the step");
    }
    if (gradient->shards != NULL && !gradient->sums.taken) {
        shards_sum_add(gradient->shards, marks - 1, gradient->param.gradient);
    }
    if (marks == reducer->marks) {
        status = gradient_submit(gradient, stream);
        if (status != TUTTI_OK) {
            (void)atomic_fetch_sub(&gradient->marks, 1);
        }
    }
    if (status == TUTTI_ERR_CONTEXT_FAILED || status == TUTTI_ERR_FINALIZED) {
        step_fail(reducer, status, tutti_last_error()); /* nothing completes it now */
    }
    return status;
}

tutti_status tutti_reducer_ready(tutti_reducer *reducer, size_t i)
{
    return tutti_reducer_ready_on(reducer, i, NULL);
}
