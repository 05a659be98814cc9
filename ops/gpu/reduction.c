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
#include "base/error.h"
#include "ops/gpu/script.h"
#include "ops/runs.h"

/* The layout of a segment in work. */
struct reduction {
    struct script *script; /* filled */
    const struct script_view *view; /* of the batch */
    struct script_segment segment; /* its runs */
    size_t wire; /* bytes of an element that travels */
    size_t own; /* bytes of an element of the tensors */
    size_t stride; /* REDUCESCATTER: bytes from a member's layout to the next */
    bool dense; /* REDUCESCATTER: one run: no gaps at all */
    bool equal; /* REDUCESCATTER: members' layouts are of one length */
};

static size_t run_bytes(const struct script_view *view, size_t run)
{
    return view->batch->runs[run].count * tutti_dtype_size(view->form->wire);
}

static bool scales_before(const struct reduction *r)
{
    return r->view->form->before != 1.0;
}

static bool scales_after(const struct reduction *r)
{
    return r->view->form->after != 1.0 || r->view->form->divisor != 1;
}

/* Elements of a run that member `member` gets; all of them but in a REDUCESCATTER. */
static size_t length(const struct reduction *r, int member, size_t run)
{
    return runs_length(r->view->batch, member, run);
}

/* Where a run of a layout begins, behind `end`. */
static size_t begin_of(const struct reduction *r, size_t end)
{
    return r->dense ? end : script_align(end);
}

/* Bytes of a member's layout, up to the end of its last run. */
static size_t layout_bytes(const struct reduction *r, int member)
{
    size_t end = 0;

    for (size_t i = r->segment.first; i < r->segment.end; i++) {
        end = begin_of(r, end) + length(r, member, i) * r->wire;
    }
    return end;
}

/* Looks whether a member's inputs lie as the layout from `offset` on says. */
static void span_inputs(
        const struct reduction *r, int member, size_t offset, struct script_span *span)
{
    const struct op_batch *batch = r->view->batch;
    size_t at = 0;

    for (size_t i = r->segment.first; i < r->segment.end; i++) {
        const size_t bytes = length(r, member, i) * r->own;

        at = begin_of(r, at);
        script_span_add(span, r->view,
                (const char *)batch->runs[i].input + runs_begin(batch, member, i),
                bytes, offset + at);
        at += length(r, member, i) * r->wire;
    }
}

static void span_outputs(
        const struct reduction *r, int member, struct script_span *span)
{
    size_t at = 0;

    for (size_t i = r->segment.first; i < r->segment.end; i++) {
        at = begin_of(r, at);
        script_span_add(span, r->view, r->view->batch->runs[i].output,
                length(r, member, i) * r->own, at);
        at += length(r, member, i) * r->wire;
    }
}

static void gather(const struct reduction *r, int member, struct script_place to)
{
    const struct op_batch *batch = r->view->batch;
    size_t at = 0;

    for (size_t i = r->segment.first; i < r->segment.end; i++) {
        at = begin_of(r, at);
        script_gather(r->script,
                (const char *)batch->runs[i].input + runs_begin(batch, member, i),
                script_behind(to, at), length(r, member, i));
        at += length(r, member, i) * r->wire;
    }
}

static void scatter(const struct reduction *r, int member, struct script_place from)
{
    size_t at = 0;

    for (size_t i = r->segment.first; i < r->segment.end; i++) {
        at = begin_of(r, at);
        script_scatter(r->script, r->view->batch->runs[i].output,
                script_behind(from, at), length(r, member, i));
        at += length(r, member, i) * r->wire;
    }
}

static struct script_place place_of(const struct script_span *span)
{
    return (struct script_place){ .at = span->base };
}

/* True where this rank's tensors cannot be given to NCCL, wherever they lie. */
static bool must_pack(const struct reduction *r)
{
    return r->view->form->casts || r->segment.packs;
}

/* Where a segment is read and written: tensors that lie right, or the slab. */
struct reduction_places {
    struct script_place input;
    struct script_place output;
    bool packed; /* the input is to be packed there                         */
};

static struct reduction_places find_places(
        const struct reduction *r, size_t bytes, bool has_output)
{
    struct script_span inputs = { .broken = must_pack(r) || scales_before(r) };
    struct script_span outputs = { .broken = must_pack(r) || !has_output };
    struct reduction_places places;

    span_inputs(r, 0, 0, &inputs);
    script_span_end(&inputs, r->view, bytes);
    span_outputs(r, 0, &outputs);
    script_span_end(&outputs, r->view, bytes);
    places.packed = !script_span_holds(&inputs);
    places.input = place_of(&inputs);
    if (script_span_holds(&outputs)) {
        places.output = place_of(&outputs);
    } else if (has_output || places.packed) {
        places.output = script_slab(r->script, bytes);
    } else {
        places.output = places.input; /* nothing is written there */
    }
    places.input = places.packed ? places.output : places.input;
    return places;
}

/* ALLREDUCE and REDUCE of a segment. */
static void reduce_segment(const struct reduction *r)
{
    const struct op_batch *batch = r->view->batch;
    const bool has_output =
            batch->collective == TUTTI_ALLREDUCE || batch->set->rank == batch->root;
    const size_t bytes = layout_bytes(r, 0);
    const struct reduction_places places = find_places(r, bytes, has_output);

    if (places.packed) {
        gather(r, 0, places.output);
    }
    script_call(r->script,
            &(struct script_call){ .verb = batch->collective == TUTTI_ALLREDUCE
                            ? SCRIPT_ALL_REDUCE
                            : SCRIPT_REDUCE,
                    .peer = batch->root,
                    .input = places.input,
                    .output = places.output,
                    .count = bytes / r->wire });
    if (has_output && (places.output.in_slab || scales_after(r))) {
        scatter(r, 0, places.output);
    }
}

/* The inputs of all members, where they lie as NCCL wants them; else packed. */
static struct script_place scattered_input(const struct reduction *r)
{
    const int size = r->view->batch->set->size;
    struct script_span span = { .broken = must_pack(r) || scales_before(r) };
    struct script_place packed;

    for (int m = 0; m < size; m++) {
        span_inputs(r, m, (size_t)m * r->stride, &span);
    }
    script_span_end(&span, r->view, (size_t)size * r->stride);
    if (script_span_holds(&span)) {
        return place_of(&span);
    }
    packed = script_slab(r->script, (size_t)size * r->stride);
    for (int m = 0; m < size; m++) {
        gather(r, m, script_behind(packed, (size_t)m * r->stride));
    }
    return packed;
}

/* Where this rank's own part comes to lie. */
static struct script_place own_output(
        const struct reduction *r, struct script_place own_input, size_t bytes)
{
    struct script_span span = { .broken = must_pack(r) };

    span_outputs(r, r->view->batch->set->rank, &span);
    script_span_end(&span, r->view, bytes);
    if (script_span_holds(&span)) {
        return place_of(&span);
    }
    return own_input.in_slab ? own_input : script_slab(r->script, bytes);
}

static void scatter_equal(const struct reduction *r)
{
    const int rank = r->view->batch->set->rank;
    const size_t bytes = layout_bytes(r, rank);
    const struct script_place input = scattered_input(r);
    const struct script_place output =
            own_output(r, script_behind(input, (size_t)rank * r->stride), r->stride);

    if (bytes == 0) {
        return;
    }
    script_call(r->script,
            &(struct script_call){ .verb = SCRIPT_REDUCE_SCATTER,
                    .input = input,
                    .output = output,
                    .count = r->stride / r->wire });
    if (output.in_slab || scales_after(r)) {
        scatter(r, rank, output);
    }
}

/* One member's parts, reduced to it. */
static void scatter_to(const struct reduction *r, int member)
{
    const bool is_own = member == r->view->batch->set->rank;
    const size_t bytes = layout_bytes(r, member);
    struct script_span span = { .broken = must_pack(r) || scales_before(r) };
    struct script_call call = {
        .verb = SCRIPT_REDUCE, .peer = member, .count = bytes / r->wire
    };

    if (bytes == 0) {
        return;
    }
    span_inputs(r, member, 0, &span);
    script_span_end(&span, r->view, bytes);
    if (script_span_holds(&span)) {
        call.input = place_of(&span);
    } else {
        call.input = script_slab(r->script, bytes);
        gather(r, member, call.input);
    }
    call.output = is_own ? own_output(r, call.input, bytes) : call.input;
    script_call(r->script, &call);
    if (is_own && (call.output.in_slab || scales_after(r))) {
        scatter(r, member, call.output);
    }
}

static void scatter_segment(struct reduction *r)
{
    const int size = r->view->batch->set->size;

    r->dense = r->segment.end == r->segment.first + 1;
    r->equal = true;
    r->stride = layout_bytes(r, 0);
    for (int m = 1; m < size; m++) {
        r->equal = r->equal && layout_bytes(r, m) == r->stride;
    }
    if (r->equal) {
        r->stride = begin_of(r, r->stride);
        scatter_equal(r);
        return;
    }
    for (int m = 0; m < size; m++) {
        scatter_to(r, m);
    }
}

tutti_status script_reduction(struct script *script, const struct script_view *view)
{
    struct reduction r = { .script = script,
        .view = view,
        .wire = tutti_dtype_size(view->form->wire),
        .own = tutti_dtype_size(view->form->dtype) };

    while (r.segment.end < view->batch->run_count) {
        r.segment = script_next(view, r.segment.end, run_bytes);
        if (view->batch->collective == TUTTI_REDUCESCATTER) {
            scatter_segment(&r);
        } else {
            reduce_segment(&r);
        }
    }
    return script->failed
            ? error_set(TUTTI_ERR_NO_MEMORY,
                      "out of memory for a batch of %zu tensors on the GPU",
                      view->batch->run_count)
            : TUTTI_OK;
}
