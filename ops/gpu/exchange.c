/*
 * The scripts of what moves bytes.
 *
 * BROADCAST: a segment is one ncclBroadcast over its layout; the root packs, the others
 * unpack, unless their tensors lie so.
 *
 * ALLGATHER: the layout of a segment has what member 0 gives to all its runs, then what
 * member 1 does ... With equal contributions that is one ncclAllGather, otherwise one
 * ncclBroadcast from each member.
 *
 * ALLTOALL, GATHER, SCATTER: sends and receives in one group, and a copy of the rank's own part;
 * of an alltoall in place a copy of all that is sent, which what comes would overwrite.
 * ncclAlltoAll is of no use: that all parts are equal is something that no rank knows of the others.
 */
#include "base/error.h"
#include "base/mem.h"
#include "ops/gpu/script.h"

/* The layout of a segment in work. */
struct exchange {
    struct script *script; /* filled */
    const struct script_view *view; /* of the batch */
    struct script_segment segment; /* its runs */
    size_t stride; /* ALLGATHER: bytes from a member's layout to the next */
    bool dense; /* one run: no gaps at all */
};

static size_t begin_of(const struct exchange *x, size_t end)
{
    return x->dense ? end : script_align(end);
}

static struct script_place place_of(const struct script_span *span)
{
    return (struct script_place){ .at = span->base };
}

/* ------------------------------------------------------------------- broadcast */

static size_t broadcast_bytes(const struct script_view *view, size_t run)
{
    return view->batch->runs[run].count;
}

/* Follows one side of the runs; gives the bytes of the layout. */
static size_t broadcast_span(
        const struct exchange *x, bool of_inputs, struct script_span *span)
{
    size_t end = 0;

    for (size_t i = x->segment.first; i < x->segment.end; i++) {
        const struct op_run *run = &x->view->batch->runs[i];

        end = script_align(end);
        script_span_add(
                span, x->view, of_inputs ? run->input : run->output, run->count, end);
        end += run->count;
    }
    return end;
}

static void broadcast_pack(const struct exchange *x, struct script_place to)
{
    size_t end = 0;

    for (size_t i = x->segment.first; i < x->segment.end; i++) {
        const struct op_run *run = &x->view->batch->runs[i];

        end = script_align(end);
        script_gather(x->script, run->input, script_behind(to, end), run->count);
        end += run->count;
    }
}

/* The root has what it sent already where input and output are one. */
static void broadcast_unpack(const struct exchange *x, struct script_place from)
{
    const bool is_root = x->view->batch->set->rank == x->view->batch->root;
    size_t end = 0;

    for (size_t i = x->segment.first; i < x->segment.end; i++) {
        const struct op_run *run = &x->view->batch->runs[i];

        end = script_align(end);
        if (!is_root || run->input != run->output) {
            script_scatter(
                    x->script, run->output, script_behind(from, end), run->count);
        }
        end += run->count;
    }
}

static void broadcast_segment(const struct exchange *x)
{
    const struct op_batch *batch = x->view->batch;
    const bool is_root = batch->set->rank == batch->root;
    struct script_span inputs = { .broken = !is_root || x->segment.packs };
    struct script_span outputs = { .broken = x->segment.packs };
    const size_t bytes = broadcast_span(x, false, &outputs);
    struct script_call call = {
        .verb = SCRIPT_BROADCAST, .peer = batch->root, .count = bytes
    };

    if (bytes == 0) {
        return;
    }
    if (is_root) {
        (void)broadcast_span(x, true, &inputs);
    }
    script_span_end(&inputs, x->view, bytes);
    script_span_end(&outputs, x->view, bytes);
    call.output = script_span_holds(&outputs) ? place_of(&outputs)
                                              : script_slab(x->script, bytes);
    call.input = call.output;
    if (script_span_holds(&inputs)) {
        call.input = place_of(&inputs);
    } else if (is_root) {
        broadcast_pack(x, call.output);
    }
    script_call(x->script, &call);
    if (call.output.in_slab) {
        broadcast_unpack(x, call.output);
    }
}

/* ------------------------------------------------------------------- allgather */

static size_t allgather_bytes(const struct script_view *view, size_t run)
{
    const struct op_batch *batch = view->batch;
    size_t bytes = 0;

    for (int m = 0; m < batch->set->size; m++) {
        bytes += batch->runs[run].recvs[m].bytes;
    }
    return bytes;
}

/* Bytes of what a member gives, up to the end of its last run. */
static size_t member_bytes(const struct exchange *x, int member)
{
    size_t end = 0;

    for (size_t i = x->segment.first; i < x->segment.end; i++) {
        end = begin_of(x, end) + x->view->batch->runs[i].recvs[member].bytes;
    }
    return end;
}

static void span_received(
        const struct exchange *x, int member, size_t offset, struct script_span *span)
{
    size_t end = 0;

    for (size_t i = x->segment.first; i < x->segment.end; i++) {
        const struct op_run *run = &x->view->batch->runs[i];

        end = begin_of(x, end);
        script_span_add(span, x->view,
                (const char *)run->output + run->recvs[member].offset,
                run->recvs[member].bytes, offset + end);
        end += run->recvs[member].bytes;
    }
}

static void span_given(const struct exchange *x, struct script_span *span)
{
    const int rank = x->view->batch->set->rank;
    size_t end = 0;

    for (size_t i = x->segment.first; i < x->segment.end; i++) {
        const struct op_run *run = &x->view->batch->runs[i];

        end = begin_of(x, end);
        script_span_add(span, x->view,
                (const char *)run->input + run->sends[rank].offset,
                run->recvs[rank].bytes, end);
        end += run->recvs[rank].bytes;
    }
}

static void pack_given(const struct exchange *x, struct script_place to)
{
    const int rank = x->view->batch->set->rank;
    size_t end = 0;

    for (size_t i = x->segment.first; i < x->segment.end; i++) {
        const struct op_run *run = &x->view->batch->runs[i];

        end = begin_of(x, end);
        script_gather(x->script, (const char *)run->input + run->sends[rank].offset,
                script_behind(to, end), run->recvs[rank].bytes);
        end += run->recvs[rank].bytes;
    }
}

static void unpack_received(
        const struct exchange *x, int member, struct script_place from)
{
    size_t end = 0;

    for (size_t i = x->segment.first; i < x->segment.end; i++) {
        const struct op_run *run = &x->view->batch->runs[i];

        end = begin_of(x, end);
        script_scatter(x->script, (const char *)run->output + run->recvs[member].offset,
                script_behind(from, end), run->recvs[member].bytes);
        end += run->recvs[member].bytes;
    }
}

/* What this rank gives: where it lies as NCCL wants it, else packed at `own`. */
static struct script_place given(
        const struct exchange *x, struct script_place own, size_t bytes)
{
    struct script_span span = { .broken = x->segment.packs };

    span_given(x, &span);
    script_span_end(&span, x->view, bytes);
    if (script_span_holds(&span)) {
        return place_of(&span);
    }
    pack_given(x, own);
    return own;
}

static void gather_equal(const struct exchange *x)
{
    const struct op_set *set = x->view->batch->set;
    const size_t total = (size_t)set->size * x->stride;
    struct script_span outputs = { .broken = x->segment.packs };
    struct script_call call = { .verb = SCRIPT_ALL_GATHER, .count = x->stride };

    for (int m = 0; m < set->size; m++) {
        span_received(x, m, (size_t)m * x->stride, &outputs);
    }
    script_span_end(&outputs, x->view, total);
    call.output = script_span_holds(&outputs) ? place_of(&outputs)
                                              : script_slab(x->script, total);
    call.input = given(
            x, script_behind(call.output, (size_t)set->rank * x->stride), x->stride);
    script_call(x->script, &call);
    for (int m = 0; m < set->size && call.output.in_slab; m++) {
        unpack_received(x, m, script_behind(call.output, (size_t)m * x->stride));
    }
}

/* What one member gives, to all. */
static void gather_from(const struct exchange *x, int member)
{
    const size_t bytes = member_bytes(x, member);
    struct script_span outputs = { .broken = x->segment.packs };
    struct script_call call = {
        .verb = SCRIPT_BROADCAST, .peer = member, .count = bytes
    };

    if (bytes == 0) {
        return;
    }
    span_received(x, member, 0, &outputs);
    script_span_end(&outputs, x->view, bytes);
    call.output = script_span_holds(&outputs) ? place_of(&outputs)
                                              : script_slab(x->script, bytes);
    call.input = member == x->view->batch->set->rank ? given(x, call.output, bytes)
                                                     : call.output;
    script_call(x->script, &call);
    if (call.output.in_slab) {
        unpack_received(x, member, call.output);
    }
}

static void allgather_segment(struct exchange *x)
{
    const int size = x->view->batch->set->size;
    bool equal = true;

    x->dense = x->segment.end == x->segment.first + 1;
    x->stride = member_bytes(x, 0);
    for (int m = 1; m < size; m++) {
        equal = equal && member_bytes(x, m) == x->stride;
    }
    if (x->stride == 0 && equal) {
        return;
    }
    if (equal) {
        x->stride = begin_of(x, x->stride);
        gather_equal(x);
        return;
    }
    for (int m = 0; m < size; m++) {
        gather_from(x, m);
    }
}

/* ---------------------------------------------------- alltoall, gather, scatter */

static size_t parts_end(const struct exchange *x, const struct op_part *parts)
{
    size_t end = 0;

    for (int m = 0; m < x->view->batch->set->size; m++) {
        end = size_max(end, parts[m].offset + parts[m].bytes);
    }
    return end;
}

/*
 * Where the parts that are sent lie. With registered memory, which is agreed on for no part
 * here, in the slab, like those that come: that of these collectives is not registered.
 */
static struct script_place sent_from(const struct exchange *x, const struct op_run *run)
{
    const bool is_in_place =
            x->view->batch->collective == TUTTI_ALLTOALL && run->input == run->output;
    const size_t bytes = parts_end(x, run->sends);
    struct script_place copy;

    if ((!is_in_place && !x->view->registers) || bytes == 0) {
        return script_at(run->input, 0);
    }
    copy = script_slab(x->script, bytes);
    script_call(x->script,
            &(struct script_call){ .verb = SCRIPT_COPY,
                    .input = script_at(run->input, 0),
                    .output = copy,
                    .count = bytes });
    return copy;
}

static struct script_place received_at(
        const struct exchange *x, const struct op_run *run)
{
    return x->view->registers ? script_slab(x->script, parts_end(x, run->recvs))
                              : script_at(run->output, 0);
}

/* To and from another member. */
static void swap_parts(const struct exchange *x, const struct op_run *run, int member,
        struct script_place from, struct script_place to)
{
    const struct op_part *recv = &run->recvs[member];

    script_call(x->script,
            &(struct script_call){ .verb = SCRIPT_SEND,
                    .peer = member,
                    .input = from,
                    .count = run->sends[member].bytes });
    script_call(x->script,
            &(struct script_call){ .verb = SCRIPT_RECV,
                    .peer = member,
                    .output = to,
                    .count = recv->bytes });
    if (to.in_slab) {
        script_scatter(x->script, (char *)run->output + recv->offset, to, recv->bytes);
    }
}

static void keep_part(const struct exchange *x, const struct op_run *run)
{
    const int rank = x->view->batch->set->rank;
    const struct script_place from = script_at(run->input, run->sends[rank].offset);
    const struct script_place to = script_at(run->output, run->recvs[rank].offset);

    if (run->input != run->output && from.at != to.at) {
        script_call(x->script,
                &(struct script_call){ .verb = SCRIPT_COPY,
                        .input = from,
                        .output = to,
                        .count = run->recvs[rank].bytes });
    }
}

static void move_parts(const struct exchange *x, const struct op_run *run)
{
    const struct op_set *set = x->view->batch->set;
    const struct script_place input = sent_from(x, run);
    const struct script_place output = received_at(x, run);

    for (int m = 0; m < set->size; m++) {
        if (m != set->rank) {
            swap_parts(x, run, m, script_behind(input, run->sends[m].offset),
                    script_behind(output, run->recvs[m].offset));
        } else {
            keep_part(x, run);
        }
    }
}

/* ------------------------------------------------------------------------- all */

static void exchange_segments(struct exchange *x)
{
    const bool broadcasts = x->view->batch->collective == TUTTI_BROADCAST;

    while (x->segment.end < x->view->batch->run_count) {
        x->segment = script_next(x->view, x->segment.end,
                broadcasts ? broadcast_bytes : allgather_bytes);
        if (broadcasts) {
            broadcast_segment(x);
        } else {
            allgather_segment(x);
        }
    }
}

tutti_status script_exchange(struct script *script, const struct script_view *view)
{
    struct exchange x = { .script = script, .view = view };

    if (view->batch->collective == TUTTI_BROADCAST ||
            view->batch->collective == TUTTI_ALLGATHER) {
        exchange_segments(&x);
    } else {
        for (size_t i = 0; i < view->batch->run_count; i++) {
            move_parts(&x, &view->batch->runs[i]);
        }
    }
    return script->failed
            ? error_set(TUTTI_ERR_NO_MEMORY,
                      "out of memory for a batch of %zu tensors on the GPU",
                      view->batch->run_count)
            : TUTTI_OK;
}
