/*
 * Makes an optimizer on all ranks or on none, and frees it.
 */
#include <stdio.h>
#include <stdlib.h>

#include "error.h"
#include "optimizer/optimizer.h"

static void fill_slots(tutti_optimizer *optimizer)
{
    for (size_t i = 0; i < optimizer->count; i++) {
        struct optimizer_slot *slot = &optimizer->slots[i];
        const tutti_param *param = reducer_param(optimizer->reducer, i);

        slot->param = param;
        slot->kernels = param->dtype == TUTTI_FLOAT64 ? &update_doubles
                                                      : update_fastest_floats();
        slot->count = param->count;
        if (optimizer->options.sharded) {
            slot->count = tutti_part(param->count, reducer_ranks(optimizer->reducer),
                    reducer_rank(optimizer->reducer), &slot->first);
        }
        slot->custom_dims[0] = param->count;
        slot->custom_dims[1] = (int64_t)optimizer->options.state_bytes;
    }
}

static tutti_status allocate_state(tutti_optimizer *optimizer)
{
    const size_t bytes = optimizer_lay_out(optimizer, NULL) + STATE_ALIGNMENT;

    /* calloc: large memory is zeroed by the kernel when it is first used */
    optimizer->memory = calloc(1, bytes);
    if (optimizer->memory == NULL) {
        return error_set(TUTTI_ERR_NO_MEMORY,
                "tutti_optimizer_create: no memory for %zu bytes of state on rank %d%s",
                bytes, reducer_rank(optimizer->reducer),
                optimizer->options.sharded
                        ? ""
                        : "; options.sharded divides them by the number of ranks");
    }
    (void)optimizer_lay_out(optimizer,
            optimizer->memory + -(uintptr_t)optimizer->memory % STATE_ALIGNMENT);
    return TUTTI_OK;
}

/* All that a rank does alone; at the end the optimizer is the reducer's sink. */
static tutti_status build(
        tutti_optimizer *optimizer, const tutti_optimizer_options *options)
{
    const size_t count = reducer_params(optimizer->reducer);
    struct reducer_sink sink;
    tutti_status status = optimizer_take_options(optimizer, options);

    if (status != TUTTI_OK) {
        return status;
    }
    optimizer->count = count;
    optimizer->slots = calloc(count, sizeof *optimizer->slots);
    optimizer->steps = calloc(count, sizeof *optimizer->steps);
    optimizer->squares = calloc(count, 2 * sizeof *optimizer->squares);
    if (optimizer->slots == NULL || optimizer->steps == NULL ||
            optimizer->squares == NULL) {
        return error_set(TUTTI_ERR_NO_MEMORY, "tutti_optimizer_create: out of memory");
    }
    optimizer->steps_dims[0] = (int64_t)count;
    (void)snprintf(optimizer->steps_name, sizeof optimizer->steps_name, "%s.step",
            optimizer->prefix);
    fill_slots(optimizer);
    status = allocate_state(optimizer);
    if (status == TUTTI_OK) {
        sink = optimizer_sink(optimizer);
        status = reducer_set_sink(optimizer->reducer, &sink);
    }
    return status;
}

static void free_optimizer(tutti_optimizer *optimizer)
{
    free(optimizer->slots);
    free(optimizer->steps);
    free(optimizer->squares);
    free(optimizer->memory);
    free(optimizer);
}

static void log_memory(const tutti_optimizer *optimizer)
{
    const double mib = 1024.0 * 1024.0;
    const double here = (double)optimizer->bytes_here / mib;
    const double replicated = (double)optimizer->bytes_replicated / mib;

    if (optimizer->options.sharded) {
        tutti_log(reducer_context(optimizer->reducer), TUTTI_LOG_INFO,
                "optimizer %s, sharded over %d ranks: %.1f MiB of state on this rank "
                "instead of %.1f MiB, %.1f MiB saved",
                optimizer_kind_name(optimizer->options.kind),
                reducer_ranks(optimizer->reducer), here, replicated, replicated - here);
    } else {
        tutti_log(reducer_context(optimizer->reducer), TUTTI_LOG_INFO,
                "optimizer %s: %.1f MiB of state on each rank",
                optimizer_kind_name(optimizer->options.kind), here);
    }
}

tutti_status tutti_optimizer_create(tutti_reducer *reducer,
        const tutti_optimizer_options *options, tutti_optimizer **out)
{
    struct state_group group;
    tutti_optimizer *optimizer;
    tutti_status mine;
    tutti_status status;

    if (reducer == NULL || out == NULL) {
        return error_set(TUTTI_ERR_INVALID,
                "tutti_optimizer_create: the reducer or the result is NULL");
    }
    status = group_init(
            &group, reducer_context(reducer), reducer_options(reducer)->process_set);
    if (status != TUTTI_OK) {
        return status;
    }
    optimizer = calloc(1, sizeof *optimizer);
    if (optimizer == NULL) {
        return group_agree(&group,
                error_set(
                        TUTTI_ERR_NO_MEMORY, "tutti_optimizer_create: out of memory"));
    }
    optimizer->reducer = reducer;
    mine = build(optimizer, options);
    status = optimizer_agree(&group, mine, &optimizer->options);
    if (status == TUTTI_OK) {
        log_memory(optimizer);
        *out = optimizer;
        return TUTTI_OK;
    }
    if (mine == TUTTI_OK) {
        (void)reducer_set_sink(reducer, NULL);
    }
    free_optimizer(optimizer);
    return status;
}

tutti_status tutti_optimizer_destroy(tutti_optimizer *optimizer)
{
    if (optimizer == NULL) {
        return TUTTI_OK;
    }
    /* another error is that of a failed context, whose steps have ended */
    if (reducer_set_sink(optimizer->reducer, NULL) == TUTTI_ERR_INVALID) {
        return TUTTI_ERR_INVALID;
    }
    free_optimizer(optimizer);
    return TUTTI_OK;
}
