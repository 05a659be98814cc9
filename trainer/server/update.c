/*
 * What a server does with gradients: sums, averages and updates.
 */
#include "params.h"
#include "server/server.h"

void server_add(const struct server_pair *sum, const struct server_pair *pair)
{
    for (size_t i = 0; i < pair->slice_count; i++) {
        const struct server_slice *slice = &pair->slices[i];
        const struct update_span span = { .value = sum->part + slice->offset,
            .count = slice->count };

        param_kernels(&pair->ps->params[slice->param])
                ->subtract(&span, -1.0, pair->part + slice->offset);
    }
}

static void divide(tutti_dtype dtype, void *elements, int64_t count, int n)
{
    for (int64_t i = 0; i < count; i++) {
        if (dtype == TUTTI_FLOAT32) {
            ((float *)elements)[i] /= (float)n;
        } else {
            ((double *)elements)[i] /= n;
        }
    }
}

/* SGD; Sutskever et al. 2013 call the momentum of this form classical. */
static void descend(
        const struct tutti_server *ps, const tutti_server_slice *slice, void *velocity)
{
    const struct update_span span = { .value = slice->value,
        .gradient = slice->gradient,
        .moment1 = velocity,
        .count = slice->count };
    const struct update_terms terms = { .scale = 1.0,
        .rate = slice->rate,
        .momentum = ps->options.momentum,
        .decay = ps->options.weight_decay };

    param_kernels(&ps->params[slice->param])->sgd(&span, &terms);
}

void server_update(const struct server_pair *pair, int n)
{
    struct tutti_server *ps = pair->ps;

    for (size_t i = 0; i < pair->slice_count; i++) {
        const struct server_slice *part = &pair->slices[i];
        const tutti_server_slice slice = {
            .name = ps->params[part->param].name,
            .param = part->param,
            .first = part->first,
            .count = part->count,
            .dtype = ps->params[part->param].dtype,
            .value = ps->values + part->offset,
            .gradient = pair->part + part->offset,
            .rate = pair->rate,
            .update = ps->report.clock,
        };

        if (n > 1) {
            divide(slice.dtype, pair->part + part->offset, slice.count, n);
        }
        if (ps->options.update != NULL) {
            ps->options.update(ps->options.user, &slice);
        } else {
            descend(ps, &slice,
                    ps->velocity == NULL ? NULL : ps->velocity + part->offset);
        }
    }
    ps->report.clock++;
}
