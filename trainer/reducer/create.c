/*
 * Registering the parameters of a model, and letting go of them.
 */
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compression/compressed.h"
#include "error.h"
#include "options.h"
#include "params.h"
#include "reducer/elements.h"
#include "reducer/gradient.h"
#include "state/tensors.h"

#define REFUSE(status, ...) error_set((status), "tutti_reducer_create: " __VA_ARGS__)
#define INVALID(...) REFUSE(TUTTI_ERR_INVALID, __VA_ARGS__)

static tutti_status no_memory(void)
{
    return REFUSE(TUTTI_ERR_NO_MEMORY, "out of memory");
}

/* ------------------------------------------------------------------ options */

void tutti_reducer_options_default_sized(tutti_reducer_options *options, size_t size)
{
    const tutti_reducer_options defaults = {
        .size = size,
        .process_set = TUTTI_WORLD,
        .prefix = "gradient",
        .memory = TUTTI_HOST,
        .op = TUTTI_AVERAGE,
        .accumulate = 1,
        .verify_results = -1,
    };

    options_give(options, size, &defaults, sizeof defaults);
}

static tutti_status check_options(const tutti_reducer_options *options)
{
    if (options->prefix == NULL || options->prefix[0] == '\0' ||
            strlen(options->prefix) > PREFIX_MAX) {
        return INVALID("options.prefix must have 1 to %d bytes", PREFIX_MAX);
    }
    if (options->op != TUTTI_AVERAGE && options->op != TUTTI_SUM) {
        return INVALID("options.op is neither average nor sum: %s",
                tutti_reduce_name(options->op));
    }
    if (options->accumulate < 1 || options->first_step < 0) {
        return INVALID(
                "accumulate is %d and first_step is %lld; they must be at least 1 and "
                "0",
                options->accumulate, (long long)options->first_step);
    }
    if (!(options->clip_norm >= 0) || !(options->clip_value >= 0) ||
            !(options->loss_scale >= 0 && isfinite(options->loss_scale))) {
        return INVALID(
                "clip_norm %g, clip_value %g and loss_scale %g must be 0 or more, and "
                "the loss scale finite",
                options->clip_norm, options->clip_value, options->loss_scale);
    }
    if (options->shards < 0 || options->shards > SHARDS_MAX) {
        return INVALID("options.shards is %d; it must be 0 to %d", options->shards,
                SHARDS_MAX);
    }
    return TUTTI_OK;
}

/* What the environment says, where the caller does not. */
static tutti_status choose_verify_results(tutti_reducer_options *options)
{
    tutti_config *config = NULL;
    const char *text = "0";
    tutti_status status = TUTTI_OK;

    if (options->verify_results >= 0) {
        return TUTTI_OK;
    }
    if (options->memory == TUTTI_HOST) {
        status = tutti_config_create(&config);
    }
    if (config != NULL) {
        status = tutti_config_get(config, "verify_results", &text);
    }
    options->verify_results = (int)strtol(text, NULL, 10);
    tutti_config_destroy(config);
    return status;
}

static bool looks_at_elements(const tutti_reducer_options *options)
{
    return options->clip_norm > 0 || options->clip_value > 0 ||
            options->find_overflow || options->loss_scale > 0 || options->unused ||
            options->shards > 0 || options->verify_results > 0;
}

/* Settings that exclude each other; the compressor is that of a parameter. */
static tutti_status check_combination(
        const tutti_reducer_options *options, const tutti_compressor *compressor)
{
    const bool averages = options->op == TUTTI_AVERAGE;
    const char *why = NULL;

    if (options->memory != TUTTI_HOST &&
            (looks_at_elements(options) || compressor != NULL)) {
        why = "gradients in device memory can be averaged and accumulated; clipping, "
              "overflow, loss scale, unused, shards, verify_results and compression "
              "need "
              "host memory";
    } else if (options->shards > 0 &&
            (options->accumulate > 1 || options->unused || options->uneven ||
                    compressor != NULL)) {
        why = "options.shards excludes accumulate, unused, uneven and compression; the "
              "shards of a rank are computed one by one as it is";
    } else if (options->uneven && compressor != NULL) {
        why = "options.uneven excludes compression, whose collectives need all ranks";
    } else if (!averages && (compressor != NULL || options->shards > 0)) {
        why = "compressors and shards average: options.op must be TUTTI_AVERAGE";
    }
    return why == NULL ? TUTTI_OK : REFUSE(TUTTI_ERR_UNSUPPORTED, "%s", why);
}

static tutti_status take_options(
        tutti_reducer *reducer, const tutti_reducer_options *options)
{
    tutti_reducer_options *mine = &reducer->options;
    tutti_status status = check_options(options);

    *mine = *options;
    if (status == TUTTI_OK) {
        status = choose_verify_results(mine);
    }
    if (status != TUTTI_OK) {
        return status;
    }
    (void)snprintf(reducer->prefix, sizeof reducer->prefix, "%s", options->prefix);
    mine->prefix = reducer->prefix;
    reducer->step = mine->first_step;
    reducer->loss_scale.factor = mine->loss_scale > 0 ? mine->loss_scale : 1;
    (void)snprintf(reducer->loss_scale_name, sizeof reducer->loss_scale_name,
            "%s:loss_scale", reducer->prefix);
    reducer->needs_facts =
            mine->clip_norm > 0 || mine->find_overflow || mine->loss_scale > 0;
    reducer->whole_facts = mine->shards > 0 || mine->uneven || reducer->ranks == 1;
    reducer->marks = mine->accumulate;
    if (mine->shards > 0) {
        tutti_reducer_shards(reducer, NULL, &reducer->marks);
    }
    step_begin_report(reducer);
    return TUTTI_OK;
}

/* --------------------------------------------------------------- parameters */

static tutti_status check_shape(const tutti_param *param)
{
    const tutti_state_tensor shape = {
        .dtype = param->dtype, .ndim = param->ndim, .dims = param->dims
    };
    char text[SHAPE_TEXT_BYTES];

    if (param->ndim < 0 || param->ndim > TUTTI_DIMS_MAX ||
            (param->ndim > 0 && param->dims == NULL)) {
        return INVALID("parameter \"%s\" has %d dimensions and %s dims", param->name,
                param->ndim, param->dims == NULL ? "no" : "its");
    }
    if (param->ndim > 0 && state_elements(&shape) != param->count) {
        return INVALID("parameter \"%s\" has %lld elements, and its shape is %s",
                param->name, (long long)param->count, state_shape(text, &shape));
    }
    return TUTTI_OK;
}

static tutti_status check_param(const tutti_reducer_options *options,
        const tutti_param *param, const tutti_compressor *compressor)
{
    tutti_status status;

    if ((options->shards > 0 || compressor != NULL) && param->dtype != TUTTI_FLOAT32) {
        return REFUSE(TUTTI_ERR_UNSUPPORTED,
                "parameter \"%s\" is of type %s; shards and compression need float32",
                param->name, tutti_dtype_name(param->dtype));
    }
    status = check_combination(options, compressor);
    return status == TUTTI_OK ? check_shape(param) : status;
}

/* Checks a parameter, and copies what is not borrowed. */
static tutti_status take_param(
        tutti_reducer *reducer, const tutti_param *from, size_t i)
{
    struct gradient *gradient = &reducer->gradients[i];
    const tutti_compressor *compressor =
            from->compressor != NULL ? from->compressor : reducer->options.compressor;
    const tutti_status status = check_param(&reducer->options, from, compressor);

    if (status != TUTTI_OK) {
        return status;
    }
    gradient->reducer = reducer;
    gradient->param = *from;
    (void)snprintf(gradient->name, sizeof gradient->name, "%s", from->name);
    gradient->param.name = gradient->name;
    gradient->param.dims = gradient->dims;
    gradient->dims[0] = from->count;
    for (int d = 0; d < from->ndim; d++) {
        gradient->dims[d] = from->dims[d];
    }
    gradient->compressor = compressor;
    gradient->part_count = tutti_part(
            from->count, reducer->ranks, reducer->rank, &gradient->part_first);
    return TUTTI_OK;
}

/* Neighbours are reduced in one pass, so only what vectors ask for lies between them. */
static size_t padded_bytes(const tutti_param *param)
{
    return ((size_t)param->count * tutti_dtype_size(param->dtype) + 15) / 16 * 16;
}

/* Side by side in the order of the parameters. */
static tutti_status allocate_gradients(tutti_reducer *reducer)
{
    size_t bytes = 0;
    unsigned char *at;
    tutti_status status;

    for (size_t i = 0; i < reducer->count; i++) {
        const tutti_param *param = &reducer->gradients[i].param;

        bytes += param->gradient == NULL ? padded_bytes(param) : 0;
    }
    if (bytes == 0) {
        return TUTTI_OK;
    }
    status = tutti_alloc(reducer->t, bytes, reducer->options.memory, &reducer->memory);
    at = reducer->memory;
    for (size_t i = 0; status == TUTTI_OK && i < reducer->count; i++) {
        tutti_param *param = &reducer->gradients[i].param;

        if (param->gradient == NULL) {
            param->gradient = at;
            at += padded_bytes(param);
        }
    }
    return status;
}

/* Opens what has the stages of a gradient, and registers what has none. */
static tutti_status prepare_gradient(struct gradient *gradient)
{
    const tutti_reducer *reducer = gradient->reducer;
    const tutti_reducer_options *options = &reducer->options;
    tutti_compressor_info info = {
        .size = sizeof info,
        .t = reducer->t,
        .name = gradient->name,
        .count = gradient->param.count,
        .ndim = gradient->param.ndim > 0 ? gradient->param.ndim : 1,
        .dims = gradient->dims,
        .ranks = reducer->ranks,
        .rank = reducer->rank,
        .finds_overflow = reducer->needs_facts,
    };
    tutti_status status = TUTTI_OK;

    if (gradient->compressor != NULL) {
        info.settings = gradient->compressor->settings;
        status = gradient->compressor->open(&info, &gradient->compression);
    } else if (options->shards > 0) {
        status = shards_sum_create(&info, options->shards,
                tutti_sums_follow_ranks(reducer->t, options->process_set),
                &gradient->shards);
        if (status == TUTTI_OK) {
            gradient->compressor = shards_sum_stages(gradient->shards);
            gradient->compression = gradient->shards;
        }
    }
    return status == TUTTI_OK ? gradient_register(gradient) : status;
}

/* ---------------------------------------------------------------- lifecycle */

static void free_reducer(tutti_reducer *reducer)
{
    struct average *average = reducer->averages;

    for (size_t i = 0; reducer->gradients != NULL && i < reducer->count; i++) {
        struct gradient *gradient = &reducer->gradients[i];

        gradient_unregister(gradient);
        if (gradient->shards != NULL) {
            shards_sum_destroy(gradient->shards);
        } else if (gradient->compression != NULL) {
            gradient->compressor->close(gradient->compression);
        }
    }
    (void)tutti_free(reducer->t, reducer->memory);
    while (average != NULL) {
        struct average *next = average->next;

        free(average);
        average = next;
    }
    free(reducer->gradients);
    free(reducer->requests);
    free(reducer->used);
    free(reducer->digests);
    (void)pthread_mutex_destroy(&reducer->lock);
    free(reducer);
}

static tutti_status fill(tutti_reducer *reducer, const tutti_param *params)
{
    tutti_status status = params_check("tutti_reducer_create", params, reducer->count);

    if (status != TUTTI_OK) {
        return status;
    }
    reducer->gradients = calloc(reducer->count, sizeof *reducer->gradients);
    reducer->requests = calloc(reducer->count, sizeof *reducer->requests);
    reducer->used = calloc(reducer->count, sizeof *reducer->used);
    reducer->digests = calloc(
            (size_t)tutti_size(reducer->t) + reducer->count, sizeof *reducer->digests);
    if (reducer->gradients == NULL || reducer->requests == NULL ||
            reducer->used == NULL || reducer->digests == NULL) {
        return no_memory();
    }
    for (size_t i = 0; status == TUTTI_OK && i < reducer->count; i++) {
        status = take_param(reducer, &params[i], i);
    }
    if (status == TUTTI_OK) {
        status = allocate_gradients(reducer);
    }
    for (size_t i = 0; status == TUTTI_OK && i < reducer->count; i++) {
        status = prepare_gradient(&reducer->gradients[i]);
    }
    return status;
}

static void describe(const void *items, size_t i, char text[SETTING_TEXT_BYTES])
{
    const struct gradient *gradient = (const struct gradient *)items + i;
    const tutti_compressor *compressor = gradient->compressor;
    const tutti_state_tensor shape = { .dtype = gradient->param.dtype,
        .ndim = gradient->param.ndim > 0 ? gradient->param.ndim : 1,
        .dims = gradient->dims };
    char shape_text[SHAPE_TEXT_BYTES];
    char settings[COMPRESSED_TEXT_BYTES] = "";

    if (compressor != NULL && compressor->stage == compressed_stage) {
        compressed_describe(gradient->compression, settings);
    }
    (void)snprintf(text, SETTING_TEXT_BYTES, "\"%s\", %s, compressor %s%s",
            gradient->name, state_shape(shape_text, &shape),
            compressor != NULL ? compressor->name : "none", settings);
}

static tutti_status agree(const struct state_group *group, tutti_status status,
        const tutti_reducer *reducer)
{
    const tutti_reducer_options *options = &reducer->options;
    const struct setting settings[] = {
        text_setting("options.prefix", options->prefix),
        number_setting("options.memory", options->memory),
        text_setting("options.op", tutti_reduce_name(options->op)),
        number_setting("options.accumulate", options->accumulate),
        number_setting("options.unused", options->unused),
        number_setting("options.uneven", options->uneven),
        number_setting("options.clip_norm", options->clip_norm),
        number_setting("options.clip_value", options->clip_value),
        number_setting("options.find_overflow", options->find_overflow),
        number_setting("options.loss_scale", options->loss_scale),
        number_setting("options.shards", options->shards),
        number_setting("options.first_step", (double)options->first_step),
        number_setting("options.verify_results", options->verify_results),
    };
    const struct setting_list list = { .name = "parameter",
        .n = reducer->count,
        .describe = describe,
        .items = reducer->gradients };

    return group_same(
            group, status, settings, sizeof settings / sizeof *settings, &list);
}

tutti_status tutti_reducer_create(tutti *t, const tutti_param *params, size_t n,
        const tutti_reducer_options *options, tutti_reducer **out)
{
    tutti_reducer_options complete;
    struct state_group group;
    tutti_reducer *reducer;
    tutti_status status;

    if (out == NULL || (options != NULL && options->size == 0)) {
        return INVALID("the result is NULL, or options.size is 0; call "
                       "tutti_reducer_options_default()");
    }
    tutti_reducer_options_default(&complete);
    options_take(&complete, sizeof complete, options);
    status = group_init(&group, t, complete.process_set);
    if (status != TUTTI_OK) {
        return status;
    }
    reducer = calloc(1, sizeof *reducer);
    if (reducer == NULL) {
        return group_agree(&group, no_memory());
    }
    reducer->count = n;
    reducer->t = t;
    reducer->ranks = group.ranks;
    reducer->rank = group.rank;
    (void)pthread_mutex_init(&reducer->lock, NULL);
    status = take_options(reducer, &complete);
    if (status == TUTTI_OK) {
        status = fill(reducer, params);
    }
    status = agree(&group, status, reducer);
    if (status != TUTTI_OK) {
        free_reducer(reducer);
        return status;
    }
    *out = reducer;
    return TUTTI_OK;
}

tutti_status tutti_reducer_destroy(tutti_reducer *reducer)
{
    if (reducer == NULL) {
        return TUTTI_OK;
    }
    if (reducer_in_step(reducer)) {
        return error_set(TUTTI_ERR_INVALID,
                "tutti_reducer_destroy: step %lld is under way; call "
                "tutti_reducer_wait() first",
                (long long)reducer->step);
    }
    if (reducer->sink.update != NULL) {
        return error_set(TUTTI_ERR_INVALID,
                "tutti_reducer_destroy: an optimizer takes the gradients of \"%s\"; "
                "destroy it first",
                reducer->prefix);
    }
    free_reducer(reducer);
    return TUTTI_OK;
}

/* ------------------------------------------------------------------ queries */

void *tutti_reducer_gradient(tutti_reducer *reducer, size_t i)
{
    return i < reducer->count ? reducer->gradients[i].param.gradient : NULL;
}

size_t tutti_reducer_find(const tutti_reducer *reducer, const char *name)
{
    size_t i = 0;

    while (i < reducer->count && strcmp(reducer->gradients[i].name, name) != 0) {
        i++;
    }
    return i;
}

int64_t tutti_reducer_step(const tutti_reducer *reducer)
{
    return reducer->step;
}

double tutti_reducer_loss_scale(const tutti_reducer *reducer)
{
    return reducer->loss_scale.factor;
}

void tutti_reducer_shards(const tutti_reducer *reducer, int *first, int *count)
{
    int64_t begin;
    const int64_t mine =
            tutti_part(reducer->options.shards, reducer->ranks, reducer->rank, &begin);

    if (first != NULL) {
        *first = (int)begin;
    }
    if (count != NULL) {
        *count = (int)mine;
    }
}

size_t tutti_reducer_tensors(
        tutti_reducer *reducer, tutti_state_tensor *tensors, size_t n)
{
    static const int64_t numbers = sizeof reducer->loss_scale / sizeof(double);
    size_t count = reducer->options.loss_scale > 0 ? 1 : 0;

    if (count > 0 && n > 0) {
        tensors[0] = (tutti_state_tensor){
            .name = reducer->loss_scale_name,
            .data = &reducer->loss_scale,
            .dtype = TUTTI_FLOAT64,
            .ndim = 1,
            .dims = &numbers,
            .count = numbers,
        };
    }
    for (size_t i = 0; i < reducer->count; i++) {
        struct gradient *gradient = &reducer->gradients[i];
        const tutti_compressor *compressor = gradient->compressor;

        if (compressor != NULL &&
                compressor->size > offsetof(tutti_compressor, tensors) &&
                compressor->tensors != NULL) {
            count += compressor->tensors(gradient->compression,
                    count < n ? tensors + count : NULL, count < n ? n - count : 0);
        }
    }
    return count;
}

size_t reducer_params(const tutti_reducer *reducer)
{
    return reducer->count;
}

const tutti_param *reducer_param(const tutti_reducer *reducer, size_t i)
{
    return &reducer->gradients[i].param;
}

tutti *reducer_context(const tutti_reducer *reducer)
{
    return reducer->t;
}

const tutti_reducer_options *reducer_options(const tutti_reducer *reducer)
{
    return &reducer->options;
}

int reducer_ranks(const tutti_reducer *reducer)
{
    return reducer->ranks;
}

int reducer_rank(const tutti_reducer *reducer)
{
    return reducer->rank;
}
