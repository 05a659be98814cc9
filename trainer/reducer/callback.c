/*
 * Steps that end with a callback: each collective calls back, on the thread that runs the engine,
 * and the last one of a step ends it.
 */
#include "error.h"
#include "reducer/gradient.h"

static void finish(tutti_reducer *reducer)
{
    tutti_status status;

    gradients_deliver(reducer);
    status = step_end(reducer, NULL);
    atomic_store(&reducer->left, reducer->count);
    reducer->callback(
            reducer->user, status, status == TUTTI_OK ? "" : reducer->error_text);
}

/* Goes on with facts, and then with digests. */
static void conclude(tutti_reducer *reducer)
{
    tutti_status status = reducer->error;

    if (status == TUTTI_OK && reducer->needs_facts) {
        status = facts_advance(reducer);
    }
    if (status == TUTTI_OK) {
        status = verify_advance(reducer);
    }
    if (status != TUTTI_AGAIN) {
        finish(reducer);
    }
}

static void facts_called_back(void *user, tutti_status status, const char *message)
{
    tutti_reducer *reducer = user;

    if (status != TUTTI_OK) {
        step_fail(reducer, status, message);
    }
    conclude(reducer);
}

static void operation_done(tutti_reducer *reducer)
{
    if (atomic_fetch_sub(&reducer->left, 1) == 1) {
        conclude(reducer);
    }
}

static void gradient_called_back(void *user, tutti_status status, const char *message)
{
    struct gradient *gradient = user;

    if (!gradient_continue(gradient, status, message)) {
        operation_done(gradient->reducer);
    }
}

static void average_called_back(void *user, tutti_status status, const char *message)
{
    struct average *average = user;

    if (status != TUTTI_OK) {
        step_fail(average->reducer, status, message);
    }
    average_finish(average, status);
    operation_done(average->reducer);
}

tutti_status tutti_reducer_set_callback(
        tutti_reducer *reducer, tutti_callback callback, void *user)
{
    if (reducer == NULL || reducer_in_step(reducer)) {
        return error_set(TUTTI_ERR_INVALID, "tutti_reducer_set_callback: %s",
                reducer == NULL ? "the reducer is NULL" : "a step is under way");
    }
    if (callback != NULL &&
            (reducer->options.unused || reducer->sink.update != NULL ||
                    reducer->marks == 0)) {
        return error_set(TUTTI_ERR_UNSUPPORTED,
                "tutti_reducer_set_callback: with options.unused, an optimizer, or a "
                "rank without shards, steps end with a wait");
    }
    reducer->callback = callback;
    reducer->user = user;
    reducer->calls = (struct step_calls){ .gradient = NULL };
    if (callback != NULL) {
        reducer->calls = (struct step_calls){ .gradient = gradient_called_back,
            .average = average_called_back,
            .facts = facts_called_back };
    }
    atomic_store(&reducer->left, reducer->count);
    return TUTTI_OK;
}
