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
#include "base/mem.h"
#include "ops/gpu/script.h"

/* -------------------------------------------------------- broadcast, allgather */

/* What this rank gives: where it lies as NCCL wants it, else packed at `own`. */
static struct script_place given(const struct script_segment *segment,
        const struct script_part *part, struct script_place own)
{
    if (!script_lies(segment, SCRIPT_INPUT, part, &own)) {
        script_pack(segment, part, own);
    }
    return own;
}

static struct script_place received(
        const struct script_segment *segment, const struct script_part *part)
{
    struct script_place place;

    return script_lies(segment, SCRIPT_OUTPUT, part, &place)
            ? place
            : script_slab(segment->script, (size_t)part->count * part->bytes);
}

static void call_and_unpack(const struct script_segment *segment,
        const struct script_part *part, const struct script_call *call)
{
    script_call(segment->script, call);
    if (call->output.in_slab && op_has_output(segment->view->batch)) {
        script_unpack(segment, part, call->output);
    }
}

static void gather_equal(
        const struct script_segment *segment, const struct script_part *all)
{
    const int rank = segment->view->batch->set->rank;
    const struct script_part own = script_own(all, rank);
    struct script_call call = { .verb = SCRIPT_ALL_GATHER, .count = all->bytes };

    call.output = received(segment, all);
    call.input =
            given(segment, &own, script_behind(call.output, (size_t)rank * all->bytes));
    call_and_unpack(segment, all, &call);
}

/* What one member gives, to all: also a BROADCAST. */
static void broadcast_from(const struct script_segment *segment, int member)
{
    const bool is_own = member == segment->view->batch->set->rank;
    const struct script_part part = script_part_of(segment, member);
    struct script_call call = {
        .verb = SCRIPT_BROADCAST, .peer = member, .count = part.bytes
    };

    call.output = received(segment, &part);
    call.input = is_own ? given(segment, &part, call.output) : call.output;
    call_and_unpack(segment, &part, &call);
}

static void allgather_segment(const struct script_segment *segment)
{
    struct script_part all;

    if (script_part_of_all(segment, &all)) {
        gather_equal(segment, &all);
        return;
    }
    for (int m = 0; m < segment->view->batch->set->size; m++) {
        broadcast_from(segment, m);
    }
}

/* ---------------------------------------------------- alltoall, gather, scatter */

static struct script_place place_at(const void *memory, size_t offset)
{
    return (struct script_place){ .at = (uint64_t)(uintptr_t)memory + offset };
}

static size_t parts_end(
        const struct script_segment *segment, const struct op_part *parts)
{
    size_t end = 0;

    for (int m = 0; m < segment->view->batch->set->size; m++) {
        end = size_max(end, parts[m].offset + parts[m].bytes);
    }
    return end;
}

/*
 * Where the parts that are sent lie. With registered memory, which is agreed on for no part
 * here, in the slab, like those that come: that of these collectives is not registered.
 */
static struct script_place sent_from(
        const struct script_segment *segment, const struct op_run *run)
{
    const bool is_in_place = segment->view->batch->collective == TUTTI_ALLTOALL &&
            run->input == run->output;
    const size_t bytes = parts_end(segment, run->sends);
    struct script_place copy;

    if ((!is_in_place && !segment->view->registers) || bytes == 0) {
        return place_at(run->input, 0);
    }
    copy = script_slab(segment->script, bytes);
    script_call(segment->script,
            &(struct script_call){ .verb = SCRIPT_COPY,
                    .input = place_at(run->input, 0),
                    .output = copy,
                    .count = bytes });
    return copy;
}

static struct script_place received_at(
        const struct script_segment *segment, const struct op_run *run)
{
    return segment->view->registers
            ? script_slab(segment->script, parts_end(segment, run->recvs))
            : place_at(run->output, 0);
}

/* To and from another member. */
static void swap_parts(const struct script_segment *segment, const struct op_run *run,
        int member, struct script_place from, struct script_place to)
{
    const struct op_part *recv = &run->recvs[member];

    script_call(segment->script,
            &(struct script_call){ .verb = SCRIPT_SEND,
                    .peer = member,
                    .input = from,
                    .count = run->sends[member].bytes });
    script_call(segment->script,
            &(struct script_call){ .verb = SCRIPT_RECV,
                    .peer = member,
                    .output = to,
                    .count = recv->bytes });
    if (to.in_slab) {
        script_scatter(
                segment->script, (char *)run->output + recv->offset, to, recv->bytes);
    }
}

static void keep_part(const struct script_segment *segment, const struct op_run *run)
{
    const int rank = segment->view->batch->set->rank;
    const struct script_place from = place_at(run->input, run->sends[rank].offset);
    const struct script_place to = place_at(run->output, run->recvs[rank].offset);

    if (run->input != run->output && from.at != to.at) {
        script_call(segment->script,
                &(struct script_call){ .verb = SCRIPT_COPY,
                        .input = from,
                        .output = to,
                        .count = run->recvs[rank].bytes });
    }
}

static void move_parts(const struct script_segment *segment, const struct op_run *run)
{
    const struct op_set *set = segment->view->batch->set;
    const struct script_place input = sent_from(segment, run);
    const struct script_place output = received_at(segment, run);

    for (int m = 0; m < set->size; m++) {
        if (m != set->rank) {
            swap_parts(segment, run, m, script_behind(input, run->sends[m].offset),
                    script_behind(output, run->recvs[m].offset));
        } else {
            keep_part(segment, run);
        }
    }
}

/* ------------------------------------------------------------------------- all */

tutti_status script_exchange(struct script *script, const struct script_view *view)
{
    const struct op_batch *batch = view->batch;
    struct script_segment segment = { .script = script, .view = view };

    if (batch->collective == TUTTI_BROADCAST) {
        while (script_next(&segment)) {
            broadcast_from(&segment, batch->root);
        }
    } else if (batch->collective == TUTTI_ALLGATHER) {
        while (script_next(&segment)) {
            allgather_segment(&segment);
        }
    } else {
        for (size_t i = 0; i < batch->run_count; i++) {
            move_parts(&segment, &batch->runs[i]);
        }
    }
    return script_status(script);
}
