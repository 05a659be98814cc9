/*
 * The scripts of reductions.
 *
 * ALLREDUCE, REDUCE: a segment is one call over its layout, gaps between runs included.
 *
 *     inputs lie so, no factor before     NCCL reads them; else they are packed ...
 *     outputs lie so                      NCCL writes there (and inputs are packed there);
 *                                         else into the slab, and are unpacked
 *
 * REDUCESCATTER: the layout of a segment has the parts of member 0 of all its runs, then
 * those of member 1 ... With equal parts that is one ncclReduceScatter, otherwise one
 * ncclReduce for each member. Inputs must stay as they are, so what is scaled is packed.
 */
#include "ops/gpu/script.h"

static bool scales_after(const struct script_segment *segment)
{
    return segment->view->form->after != 1.0 || segment->view->form->divisor != 1;
}

static size_t elements(const struct script_segment *segment, size_t bytes)
{
    return bytes / tutti_dtype_size(segment->view->form->wire);
}

/* True where inputs can be reduced as they are. */
static bool input_lies(const struct script_segment *segment,
        const struct script_part *part, struct script_place *place)
{
    return segment->view->form->before == 1.0 &&
            script_lies(segment, SCRIPT_INPUT, part, place);
}

static void call_and_unpack(const struct script_segment *segment,
        const struct script_part *part, const struct script_call *call, bool has_output)
{
    script_call(segment->script, call);
    if (has_output && (call->output.in_slab || scales_after(segment))) {
        script_unpack(segment, part, call->output);
    }
}

/* ALLREDUCE and REDUCE of a segment. */
static void reduce_segment(const struct script_segment *segment)
{
    const struct op_batch *batch = segment->view->batch;
    const struct script_part all = script_part_of(segment, 0);
    const bool has_output = op_has_output(batch);
    struct script_call call = { .verb = batch->collective == TUTTI_ALLREDUCE
                ? SCRIPT_ALL_REDUCE
                : SCRIPT_REDUCE,
        .peer = batch->root,
        .count = elements(segment, all.bytes) };
    const bool lies = input_lies(segment, &all, &call.input);

    if (!has_output && lies) {
        call.output = call.input; /* nothing is written there */
    } else if (!has_output ||
            !script_lies(segment, SCRIPT_OUTPUT, &all, &call.output)) {
        call.output = script_slab(segment->script, all.bytes);
    }
    if (!lies) {
        call.input = call.output;
        script_pack(segment, &all, call.input);
    }
    call_and_unpack(segment, &all, &call, has_output);
}

/* Inputs where they lie as NCCL wants them; else packed. */
static struct script_place scattered_input(
        const struct script_segment *segment, const struct script_part *part)
{
    struct script_place place;

    if (!input_lies(segment, part, &place)) {
        place = script_slab(segment->script, (size_t)part->count * part->bytes);
        script_pack(segment, part, place);
    }
    return place;
}

/* Where this rank's own part comes to lie. */
static struct script_place own_output(const struct script_segment *segment,
        const struct script_part *own, struct script_place own_input)
{
    struct script_place place;

    if (script_lies(segment, SCRIPT_OUTPUT, own, &place)) {
        return place;
    }
    return own_input.in_slab ? own_input : script_slab(segment->script, own->bytes);
}

static void scatter_equal(
        const struct script_segment *segment, const struct script_part *all)
{
    const int rank = segment->view->batch->set->rank;
    const struct script_part own = script_own(all, rank);
    struct script_call call = { .verb = SCRIPT_REDUCE_SCATTER,
        .count = elements(segment, all->bytes) };

    call.input = scattered_input(segment, all);
    call.output = own_output(
            segment, &own, script_behind(call.input, (size_t)rank * all->bytes));
    call_and_unpack(segment, &own, &call, true);
}

/* One member's parts, reduced to it. */
static void scatter_to(const struct script_segment *segment, int member)
{
    const bool is_own = member == segment->view->batch->set->rank;
    const struct script_part part = script_part_of(segment, member);
    struct script_call call = {
        .verb = SCRIPT_REDUCE, .peer = member, .count = elements(segment, part.bytes)
    };

    call.input = scattered_input(segment, &part);
    call.output = is_own ? own_output(segment, &part, call.input) : call.input;
    call_and_unpack(segment, &part, &call, is_own);
}

static void scatter_segment(const struct script_segment *segment)
{
    struct script_part all;

    if (script_part_of_all(segment, &all)) {
        scatter_equal(segment, &all);
        return;
    }
    for (int m = 0; m < segment->view->batch->set->size; m++) {
        scatter_to(segment, m);
    }
}

tutti_status script_reduction(struct script *script, const struct script_view *view)
{
    struct script_segment segment = { .script = script, .view = view };

    while (script_next(&segment)) {
        if (view->batch->collective == TUTTI_REDUCESCATTER) {
            scatter_segment(&segment);
        } else {
            reduce_segment(&segment);
        }
    }
    return script_status(script);
}
