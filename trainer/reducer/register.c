/*
 * Registering the collectives of a gradient, which depend on who takes it: the caller, or a sink.
 */
#include <stdio.h>
#include <stdlib.h>

#include "error.h"
#include "reducer/gradient.h"

/* An average is also over the passes, and that of shards over their number alone. */
static tutti_status register_sum(
        struct gradient *gradient, tutti_tensor_desc *desc, tutti_options *options)
{
    const tutti_reducer_options *of = &gradient->reducer->options;

    gradient->scattered = gradient->reducer->sink.sharded && of->shards == 0;
    desc->collective = gradient->scattered ? TUTTI_REDUCESCATTER : TUTTI_ALLREDUCE;
    desc->count = gradient->param.count;
    desc->op = of->shards > 0 ? TUTTI_SUM : of->op;
    if (of->op == TUTTI_AVERAGE) {
        options->postscale = 1.0 / (of->shards > 0 ? of->shards : of->accumulate);
    }
    if (!gradient->scattered) {
        options->ndim = gradient->param.ndim;
        options->dims = gradient->dims;
    }
    return tutti_tensor_register(gradient->reducer->t, desc, &gradient->sum);
}

static tutti_status register_gather(struct gradient *gradient, tutti_tensor_desc desc)
{
    const int ranks = gradient->reducer->ranks;
    int64_t *rows = calloc((size_t)ranks, sizeof *rows);
    tutti_status status;

    if (rows == NULL) {
        return error_set(
                TUTTI_ERR_NO_MEMORY, "no memory to register \"%s\"", desc.name);
    }
    for (int r = 0; r < ranks; r++) {
        rows[r] = tutti_part(gradient->param.count, ranks, r, NULL);
    }
    desc.collective = TUTTI_ALLGATHER;
    desc.count = gradient->part_count;
    desc.rows_of = rows;
    status = tutti_tensor_register(gradient->reducer->t, &desc, &gradient->gather);
    free(rows);
    return status;
}

tutti_status gradient_register(struct gradient *gradient)
{
    const tutti_reducer *reducer = gradient->reducer;
    char name[TENSOR_NAME_SIZE];
    tutti_options options;
    tutti_tensor_desc desc = {
        .size = sizeof desc,
        .name = name,
        .dtype = gradient->param.dtype,
        .options = &options,
        .row_count = 1,
    };
    tutti_status status = TUTTI_OK;

    (void)snprintf(name, sizeof name, "%s.%s", reducer->prefix, gradient->name);
    tutti_options_default(&options);
    options.process_set = reducer->options.process_set;
    options.stream = gradient->stream;
    if (reducer->sink.sharded) {
        status = register_gather(gradient, desc);
    }
    if (status == TUTTI_OK && gradient->compressor == NULL) {
        status = register_sum(gradient, &desc, &options);
    }
    if (status != TUTTI_OK) {
        gradient_unregister(gradient);
        return status;
    }
    gradient->registered = true;
    return TUTTI_OK;
}

void gradient_unregister(struct gradient *gradient)
{
    if (gradient->sum != 0) {
        (void)tutti_tensor_unregister(gradient->reducer->t, gradient->sum);
    }
    if (gradient->gather != 0) {
        (void)tutti_tensor_unregister(gradient->reducer->t, gradient->gather);
    }
    gradient->sum = 0;
    gradient->gather = 0;
    gradient->registered = false;
    gradient->scattered = false;
}

tutti_status reducer_set_sink(tutti_reducer *reducer, const struct reducer_sink *sink)
{
    const bool takes = sink != NULL;

    if (reducer_in_step(reducer) || reducer->callback != NULL ||
            (takes && reducer->sink.update != NULL)) {
        return error_set(TUTTI_ERR_INVALID,
                "the gradients of \"%s\" cannot be given to an optimizer: a step is "
                "under way, steps end with a callback, or there is an optimizer "
                "already",
                reducer->prefix);
    }
    if (takes &&
            (reducer->options.memory != TUTTI_HOST ||
                    (sink->sharded && reducer->options.uneven))) {
        return error_set(TUTTI_ERR_UNSUPPORTED,
                "optimizers update parameters in host memory, and a sharded one needs "
                "all ranks, so not options.uneven");
    }
    for (size_t i = 0; takes && i < reducer->count; i++) {
        if (reducer->gradients[i].param.value == NULL) {
            return error_set(TUTTI_ERR_INVALID,
                    "parameter \"%s\" has no value that an optimizer could update",
                    reducer->gradients[i].name);
        }
    }
    reducer->sink = takes ? *sink : (struct reducer_sink){ .update = NULL };
    for (size_t i = 0; i < reducer->count; i++) {
        gradient_unregister(&reducer->gradients[i]); /* the next step registers it */
    }
    return TUTTI_OK;
}
