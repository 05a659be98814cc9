/*
 * The defaults of parameter servers, and what is refused: on one rank, and where ranks differ.
 */
#include "options.h"

#include <math.h>
#include <string.h>

#include "error.h"
#include "params.h"
#include "server/server.h"

void tutti_server_options_default_sized(tutti_server_options *options, size_t size)
{
    const tutti_server_options defaults = {
        .size = size,
        .mode = TUTTI_SERVER_SYNC,
        .servers = 1,
        .rate = 0.01,
        .name = "server",
        .split_bytes = 65536,
    };

    options_give(options, size, &defaults, sizeof defaults);
}

int64_t server_bound(const struct tutti_server *ps)
{
    switch (ps->options.mode) {
    case TUTTI_SERVER_SYNC:
        return 0;
    case TUTTI_SERVER_SSP:
        return ps->options.staleness;
    case TUTTI_SERVER_ASYNC:
        break;
    }
    return INT64_MAX;
}

static tutti_status check_options(const struct tutti_server *ps)
{
    const tutti_server_options *options = &ps->options;
    int others = tutti_size(ps->t) - options->servers - options->evaluators;

    if ((unsigned)options->mode > TUTTI_SERVER_SSP || options->staleness < 0) {
        return error_set(TUTTI_ERR_INVALID,
                "options.mode is %d and options.staleness %d: the modes are "
                "TUTTI_SERVER_SYNC, _ASYNC and _SSP, with a staleness of 0 or more",
                (int)options->mode, options->staleness);
    }
    if ((unsigned)options->role > TUTTI_ROLE_EVALUATOR) {
        return error_set(TUTTI_ERR_INVALID, "options.role is %d, no tutti_role",
                (int)options->role);
    }
    if (options->role == TUTTI_ROLE_BY_RANK &&
            (options->servers < 1 || options->evaluators < 0 || others < 1)) {
        return error_set(TUTTI_ERR_INVALID,
                "options.servers is %d and options.evaluators %d: of %d ranks at least "
                "one must be a server and one a worker",
                options->servers, options->evaluators, tutti_size(ps->t));
    }
    if (!isfinite(options->rate) || !isfinite(options->momentum) ||
            !isfinite(options->weight_decay) || options->split_bytes < 1) {
        return error_set(TUTTI_ERR_INVALID,
                "options.rate %g, momentum %g and weight_decay %g must be finite, and "
                "split_bytes %lld at least 1",
                options->rate, options->momentum, options->weight_decay,
                (long long)options->split_bytes);
    }
    if (options->name == NULL || options->name[0] == '\0' ||
            strlen(options->name) > SERVER_NAME_MAX) {
        return error_set(TUTTI_ERR_INVALID, "options.name must have 1 to %d bytes",
                SERVER_NAME_MAX);
    }
    return TUTTI_OK;
}

static tutti_status check_param(const struct tutti_server *ps, const tutti_param *param)
{
    const bool serves = ps->role == TUTTI_ROLE_SERVER;
    const bool trains = !serves && ps->role != TUTTI_ROLE_EVALUATOR;

    if (param->dtype != TUTTI_FLOAT32 && param->dtype != TUTTI_FLOAT64) {
        return error_set(TUTTI_ERR_UNSUPPORTED,
                "parameter \"%s\" is %s: parameter servers keep float32 and float64",
                param->name, tutti_dtype_name(param->dtype));
    }
    if ((param->value == NULL && !serves) || (param->gradient == NULL && trains)) {
        return error_set(TUTTI_ERR_INVALID,
                "parameter \"%s\" has no %s at rank %d, which is a %s", param->name,
                param->value == NULL ? "value" : "gradient", tutti_rank(ps->t),
                tutti_role_name(ps->role));
    }
    return TUTTI_OK;
}

tutti_status server_check(
        const struct tutti_server *ps, const tutti_param *params, size_t n)
{
    tutti_status status = check_options(ps);

    if (status == TUTTI_OK) {
        status = params_check("tutti_server_create", params, n);
    }
    if (status == TUTTI_OK && ps->role == TUTTI_ROLE_SERVER &&
            !tutti_has_background(ps->t)) {
        status = error_set(TUTTI_ERR_UNSUPPORTED,
                "rank %d cannot be a server: it has no background thread "
                "(docs/threads.md)",
                tutti_rank(ps->t));
    }
    for (size_t i = 0; status == TUTTI_OK && i < n; i++) {
        status = check_param(ps, &params[i]);
    }
    return status;
}

tutti_status server_compare(const struct tutti_server *ps,
        const struct state_group *group, tutti_status status)
{
    const tutti_server_options *options = &ps->options;
    const bool by_rank = options->role == TUTTI_ROLE_BY_RANK;
    const struct setting settings[] = {
        number_setting("whether options.role is given", by_rank ? 0 : 1),
        number_setting("options.mode", options->mode),
        number_setting("options.staleness", options->staleness),
        number_setting("options.servers", by_rank ? options->servers : 0),
        number_setting("options.evaluators", by_rank ? options->evaluators : 0),
        number_setting("options.rate", options->rate),
        number_setting("options.momentum", options->momentum),
        number_setting("options.weight_decay", options->weight_decay),
        number_setting("options.split_bytes", (double)options->split_bytes),
        text_setting("options.name", ps->name),
    };
    const struct setting_list list = params_list(ps->params, ps->n);

    return group_same(
            group, status, settings, sizeof settings / sizeof settings[0], &list);
}
