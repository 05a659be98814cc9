/*
 * Numbers that are averaged with the gradients of a step: losses and metrics.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "reducer/gradient.h"

/* Enters a number in the step, in the memory of a former one or new; under the lock. */
static tutti_status enter(
        tutti_reducer *reducer, const char *name, double *value, struct average **out)
{
    struct average *average = NULL;

    for (struct average *other = reducer->averages; other != NULL;
            other = other->next) {
        if (other->value == NULL) {
            average = other;
        } else if (strcmp(other->name, name) == 0) {
            return error_set(TUTTI_ERR_DUPLICATE,
                    "tutti_reducer_average: \"%s\" is averaged in step %lld already",
                    name, (long long)reducer->step);
        }
    }
    if (average == NULL) {
        average = calloc(1, sizeof *average);
        if (average == NULL) {
            return error_set(
                    TUTTI_ERR_NO_MEMORY, "tutti_reducer_average: out of memory");
        }
        average->reducer = reducer;
        average->next = reducer->averages;
        reducer->averages = average;
    }
    average->value = value;
    average->buffer = *value;
    (void)snprintf(average->name, sizeof average->name, "%s", name);
    *out = average;
    return TUTTI_OK;
}

static tutti_status submit(struct average *average)
{
    tutti_reducer *reducer = average->reducer;
    const bool calls = reducer->calls.average != NULL;
    const tutti_options options =
            step_options(reducer, reducer->calls.average, average);
    tutti_status status;

    if (calls) {
        (void)atomic_fetch_add(&reducer->left, 1);
    }
    status = tutti_allreduce_async(reducer->t, average->name, &average->buffer,
            &average->buffer, 1, TUTTI_FLOAT64, TUTTI_AVERAGE, &options,
            calls ? NULL : &average->request);
    if (status != TUTTI_OK) {
        average_finish(average, status);
        if (calls) {
            (void)atomic_fetch_sub(&reducer->left, 1);
        }
    }
    if (status == TUTTI_ERR_CONTEXT_FAILED || status == TUTTI_ERR_FINALIZED) {
        step_fail(reducer, status, tutti_last_error()); /* nothing completes it now */
    }
    return status;
}

tutti_status tutti_reducer_average(
        tutti_reducer *reducer, const char *name, double *value)
{
    char full[TENSOR_NAME_SIZE];
    struct average *average = NULL;
    tutti_status status;

    if (reducer == NULL || value == NULL || name == NULL || name[0] == '\0' ||
            strlen(name) > PARAM_NAME_MAX) {
        return error_set(TUTTI_ERR_INVALID,
                "tutti_reducer_average: the reducer, the name or the number is NULL, "
                "or the name has not 1 to %d bytes",
                PARAM_NAME_MAX);
    }
    (void)snprintf(full, sizeof full, "%s:average.%s", reducer->prefix, name);
    (void)pthread_mutex_lock(&reducer->lock);
    status = enter(reducer, full, value, &average);
    (void)pthread_mutex_unlock(&reducer->lock);
    return status == TUTTI_OK ? submit(average) : status;
}

void average_finish(struct average *average, tutti_status status)
{
    tutti_reducer *reducer = average->reducer;

    (void)pthread_mutex_lock(&reducer->lock);
    /* who left a step that failed may have left the number's scope */
    if (status == TUTTI_OK && reducer->error == TUTTI_OK) {
        *average->value = average->buffer;
    }
    average->value = NULL;
    (void)pthread_mutex_unlock(&reducer->lock);
}
