/*
 * Local SGD: every so many steps the parameters, or the ways they went, are averaged.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tutti/trainer/local_sgd.h>

#include "error.h"
#include "options.h"
#include "params.h"
#include "state/agree.h"

enum {
    PREFIX_MAX = 40
};

/** What an outer optimizer keeps of a parameter, in one piece. */
struct outer_state {
    char anchor_name[PARAM_NAME_BYTES_MAX + 16];
    char velocity_name[PARAM_NAME_BYTES_MAX + 16];
    void *anchor; /* value of the last meeting; owned */
    void *velocity; /* of the momentum; behind it */
};

struct tutti_local_sgd {
    tutti *t; /* borrowed */
    tutti_local_sgd_options options; /* complete; prefix is in `prefix` */
    char prefix[PREFIX_MAX + 1];
    size_t count;
    tutti_param *params; /* [count]; owned */
    struct outer_state *states; /* [count]; owned; NULL: the mean alone */
    tutti_request *requests; /* [count]; owned */
    int64_t step;
};

void tutti_local_sgd_options_default_sized(
        tutti_local_sgd_options *options, size_t size)
{
    const tutti_local_sgd_options defaults = {
        .size = size,
        .process_set = TUTTI_WORLD,
        .prefix = "local_sgd",
        .period = 16,
        .outer_learning_rate = 1.0,
    };

    options_give(options, size, &defaults, sizeof defaults);
}

void tutti_local_sgd_options_diloco_sized(tutti_local_sgd_options *options, size_t size)
{
    tutti_local_sgd_options diloco;

    tutti_local_sgd_options_default(&diloco);
    diloco.size = size;
    diloco.period = 500;
    diloco.outer_learning_rate = 0.7;
    diloco.outer_momentum = 0.9;
    diloco.nesterov = true;
    options_give(options, size, &diloco, sizeof diloco);
}

static tutti_status check_options(const tutti_local_sgd_options *options)
{
    if (options->prefix == NULL || strlen(options->prefix) > PREFIX_MAX) {
        return error_set(TUTTI_ERR_INVALID,
                "tutti_local_sgd_create: the prefix must have at most %d bytes",
                PREFIX_MAX);
    }
    if (options->period < 1 || options->start < 0 || options->first_step < 0) {
        return error_set(TUTTI_ERR_INVALID,
                "tutti_local_sgd_create: period is %lld, start %lld, first_step %lld: "
                "at "
                "least 1, 0 and 0 are needed",
                (long long)options->period, (long long)options->start,
                (long long)options->first_step);
    }
    if (!(options->outer_learning_rate > 0.0 &&
                isfinite(options->outer_learning_rate) &&
                options->outer_momentum >= 0.0 && options->outer_momentum < 1.0)) {
        return error_set(TUTTI_ERR_INVALID,
                "tutti_local_sgd_create: outer_learning_rate is %g, outer_momentum %g: "
                "they must be above 0, and from 0 to below 1",
                options->outer_learning_rate, options->outer_momentum);
    }
    return TUTTI_OK;
}

static tutti_status check(const tutti_param *params, size_t n,
        const tutti_local_sgd_options *options, bool outer)
{
    tutti_status status = check_options(options);

    if (status == TUTTI_OK) {
        status = params_check("tutti_local_sgd_create", params, n);
    }
    for (size_t i = 0; status == TUTTI_OK && i < n; i++) {
        if (params[i].value == NULL) {
            status = error_set(TUTTI_ERR_INVALID,
                    "tutti_local_sgd_create: parameter \"%s\" has no value",
                    params[i].name);
        } else if (outer && params[i].dtype != TUTTI_FLOAT32 &&
                params[i].dtype != TUTTI_FLOAT64) {
            status = error_set(TUTTI_ERR_UNSUPPORTED,
                    "tutti_local_sgd_create: parameter \"%s\" is of type %s: an outer "
                    "optimizer needs float32 or float64",
                    params[i].name, tutti_dtype_name(params[i].dtype));
        }
    }
    return status;
}

/** Copies the parameters, and keeps their values where an outer optimizer needs them. */
static bool keep(
        tutti_local_sgd *local, const tutti_param *params, size_t n, bool outer)
{
    local->params = params_copy(params, n);
    local->requests = calloc(n, sizeof *local->requests);
    local->states = outer ? calloc(n, sizeof *local->states) : NULL;
    if (local->params == NULL || local->requests == NULL ||
            (outer && local->states == NULL)) {
        return false;
    }
    local->count = n;
    for (size_t i = 0; outer && i < n; i++) {
        struct outer_state *state = &local->states[i];
        const size_t bytes = param_bytes(&params[i]);

        state->anchor = calloc(2, bytes);
        if (state->anchor == NULL) {
            return false;
        }
        state->velocity = (char *)state->anchor + bytes;
        memcpy(state->anchor, params[i].value, bytes);
        (void)snprintf(state->anchor_name, sizeof state->anchor_name, "%s.anchor",
                params[i].name);
        (void)snprintf(state->velocity_name, sizeof state->velocity_name, "%s.velocity",
                params[i].name);
    }
    return true;
}

static tutti_status agree(const struct state_group *group, tutti_status status,
        const tutti_local_sgd_options *options, const tutti_param *params, size_t n)
{
    const struct setting settings[] = {
        text_setting("options.prefix", options->prefix),
        number_setting("options.period", (double)options->period),
        number_setting("options.start", (double)options->start),
        number_setting("options.first_step", (double)options->first_step),
        number_setting("options.outer_learning_rate", options->outer_learning_rate),
        number_setting("options.outer_momentum", options->outer_momentum),
        number_setting("options.nesterov", options->nesterov),
    };
    const struct setting_list list = params_list(params, n);

    return group_same(
            group, status, settings, sizeof settings / sizeof *settings, &list);
}

tutti_status tutti_local_sgd_create(tutti *t, const tutti_param *params, size_t n,
        const tutti_local_sgd_options *options, tutti_local_sgd **local)
{
    tutti_local_sgd_options complete;
    struct state_group group;
    tutti_local_sgd *made = NULL;
    tutti_status status;
    bool outer;

    if (local == NULL || (options != NULL && options->size == 0)) {
        return error_set(TUTTI_ERR_INVALID,
                "tutti_local_sgd_create: no result, or the size of the options is 0: "
                "fill them with tutti_local_sgd_options_default()");
    }
    tutti_local_sgd_options_default(&complete);
    options_take(&complete, sizeof complete, options);
    outer = complete.outer_learning_rate != 1.0 || complete.outer_momentum != 0.0;
    status = group_init(&group, t, complete.process_set);
    if (status != TUTTI_OK) {
        return status;
    }
    status = check(params, n, &complete, outer);
    if (status == TUTTI_OK) {
        made = calloc(1, sizeof *made);
        status = made != NULL && keep(made, params, n, outer)
                ? TUTTI_OK
                : error_set(TUTTI_ERR_NO_MEMORY,
                          "tutti_local_sgd_create: out of memory for %zu parameters",
                          n);
    }
    status = agree(&group, status, &complete, params, n);
    if (status != TUTTI_OK || made == NULL) {
        tutti_local_sgd_destroy(made);
        return status;
    }
    made->t = t;
    made->options = complete;
    (void)snprintf(made->prefix, sizeof made->prefix, "%s", complete.prefix);
    made->options.prefix = made->prefix;
    made->step = complete.first_step;
    *local = made;
    return TUTTI_OK;
}

void tutti_local_sgd_destroy(tutti_local_sgd *local)
{
    if (local == NULL) {
        return;
    }
    for (size_t i = 0; local->states != NULL && i < local->count; i++) {
        free(local->states[i].anchor);
    }
    free(local->params);
    free(local->states);
    free(local->requests);
    free(local);
}

/** value -= anchor: the way that the parameter went. */
static void take_way(const tutti_param *param, const struct outer_state *state)
{
    const struct update_span span = { .value = param->value, .count = param->count };

    param_kernels(param)->subtract(&span, 1.0, state->anchor);
}

/** The value is the averaged way, a negative gradient; the anchor takes a step, and is the value. */
static void go_on(const tutti_param *param, const struct outer_state *state,
        const tutti_local_sgd_options *options)
{
    const struct update_span span = { .value = state->anchor,
        .gradient = param->value,
        .moment1 = state->velocity,
        .count = param->count };
    const struct update_terms terms = { .scale = -1.0,
        .rate = options->outer_learning_rate,
        .momentum = options->outer_momentum,
        .nesterov = options->nesterov };

    param_kernels(param)->sgd(&span, &terms);
    memcpy(param->value, state->anchor, param_bytes(param));
}

/** Averages the values of all parameters over the ranks, in place. */
static tutti_status average(tutti_local_sgd *local)
{
    char name[TUTTI_NAME_MAX + 1];
    tutti_options options;
    tutti_status status = tutti_group_begin(local->t);

    if (status != TUTTI_OK) {
        return status;
    }
    tutti_options_default(&options);
    options.process_set = local->options.process_set;
    options.step = local->step;
    for (size_t i = 0; status == TUTTI_OK && i < local->count; i++) {
        const tutti_param *param = &local->params[i];

        (void)snprintf(name, sizeof name, "%s.%s", local->prefix, param->name);
        status = tutti_allreduce_async(local->t, name, param->value, param->value,
                param->count, param->dtype, TUTTI_AVERAGE, &options,
                &local->requests[i]);
    }
    status = tutti_group_end(local->t); /* the first refusal, if there was one */
    if (status == TUTTI_OK) {
        status = tutti_wait_all(
                local->t, local->count, local->requests, TUTTI_FOREVER, NULL);
    }
    return status;
}

tutti_status tutti_local_sgd_step(tutti_local_sgd *local, bool *met)
{
    const tutti_local_sgd_options *options = &local->options;
    const int64_t done = local->step + 1;
    const bool meet =
            done <= options->start || (done - options->start) % options->period == 0;
    const size_t outer = meet && local->states != NULL ? local->count : 0;
    tutti_status status = TUTTI_OK;

    for (size_t i = 0; i < outer; i++) {
        take_way(&local->params[i], &local->states[i]);
    }
    if (meet) {
        status = group_heard(local->t, average(local));
    }
    if (status != TUTTI_OK) {
        return status;
    }
    for (size_t i = 0; i < outer; i++) {
        go_on(&local->params[i], &local->states[i], options);
    }
    local->step = done;
    if (met != NULL) {
        *met = meet;
    }
    return TUTTI_OK;
}

int64_t tutti_local_sgd_current_step(const tutti_local_sgd *local)
{
    return local->step;
}

size_t tutti_local_sgd_tensors(
        tutti_local_sgd *local, tutti_state_tensor *tensors, size_t n)
{
    const size_t count = local->states != NULL ? 2 * local->count : 0;

    for (size_t i = 0; i < n && i < count; i++) {
        const tutti_param *param = &local->params[i / 2];
        const struct outer_state *state = &local->states[i / 2];

        tensors[i] = (tutti_state_tensor){
            .name = i % 2 == 0 ? state->anchor_name : state->velocity_name,
            .data = i % 2 == 0 ? state->anchor : state->velocity,
            .dtype = param->dtype,
            .ndim = 1,
            .dims = &param->count,
            .count = param->count,
        };
    }
    return count;
}
