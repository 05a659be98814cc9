/*
 * Reductions in three stages. With two groups of two members and an allreduce:
 *
 *             group 0                          group 1
 *             member 0        member 1         member 2        member 3
 *   stage 0   slice 0         slice 1          slice 0         slice 1       inside:
 *             of 0 + 1        of 0 + 1         of 2 + 3        of 2 + 3      reducescatter
 *   stage 1   slice 0  <------------------->   slice 0                       across:
 *                             slice 1  <------------------->   slice 1       allreduce
 *   stage 2   both     <-->   both             both     <-->   both          inside:
 *                                                                            allgather
 *
 * The members with equal index in their groups form a lane. There are as many lanes as the
 * smallest group has members; other members give operands and take results. Between the
 * stages a lane's slice lies packed in scratch memory, so that one run travels across.
 *
 * A reduce goes to the root's group in stage 1 and to the root in stage 2. In a
 * reducescatter, whose groups are of one size, a lane carries the parts of its own
 * members, and stage 2 only copies.
 */
#include <assert.h>

#include "base/mem.h"
#include "ops/hier/hier_task.h"

/* Below this a slice is not worth its messages: fewer lanes carry more. */
#define SLICE_BYTES_MIN ((size_t)8192)

/* -------------------------------------------------------------------- slices */

/** Elements of a lane's slice of an ALLREDUCE or a REDUCE; the last ones have less. */
size_t hier_slice_length(const struct op_batch *batch, const struct grouping *groups)
{
    const size_t bytes = tutti_dtype_size(batch->dtype);
    const size_t lanes = (size_t)groups->smallest;
    const size_t share = batch->count / lanes + (batch->count % lanes != 0);

    return size_max(size_align(share, MEM_CACHE_LINE / bytes), SLICE_BYTES_MIN / bytes);
}

/** What a lane carries of an ALLREDUCE or a REDUCE; may be empty. */
static struct hier_slice slice_of(const struct hier_task *task, int lane)
{
    const struct op_batch *batch = task->batch;
    const size_t lanes = (size_t)task->groups.smallest;
    const size_t length = hier_slice_length(batch, &task->groups);
    size_t first;

    if ((size_t)lane >= lanes) {
        return (struct hier_slice){ .first = batch->count };
    }
    first = size_min(batch->count, (size_t)lane * length);
    return (struct hier_slice){ .first = first,
        .count = size_min(length, batch->count - first) };
}

/** The part of a run, whose first element is element `first` of the batch, in a slice. */
static struct op_part cut(
        const struct op_batch *batch, struct hier_slice slice, size_t run, size_t first)
{
    const size_t bytes = tutti_dtype_size(batch->dtype);
    const size_t begin = size_max(first, slice.first);
    const size_t end =
            size_min(first + batch->runs[run].count, slice.first + slice.count);

    if (begin >= end) {
        return (struct op_part){ 0 };
    }
    return (struct op_part){ .offset = (begin - first) * bytes,
        .bytes = (end - begin) * bytes };
}

/** Where in the packed slice the part of a run begins; anywhere if it has none. */
static size_t packed_at(
        const struct op_batch *batch, struct hier_slice slice, size_t first)
{
    return first > slice.first && first - slice.first < slice.count
            ? (first - slice.first) * tutti_dtype_size(batch->dtype)
            : 0;
}

/** The part of a REDUCESCATTER's run that goes to a member of this rank's lane. */
static const struct op_part *part_of(
        const struct hier_task *task, size_t run, int group, int lane)
{
    return &task->batch->runs[run].sends[grouping_member(&task->groups, group, lane)];
}

/** Bytes that this rank's lane carries for a group. */
static size_t bytes_for(const struct hier_task *task, int group)
{
    size_t bytes = 0;

    for (size_t run = 0; run < task->batch->run_count; run++) {
        bytes += part_of(task, run, group, task->groups.local)->bytes;
    }
    return bytes;
}

void hier_reduce_room(const struct hier_task *task, struct hier_room *room)
{
    const size_t runs = task->batch->run_count;
    const size_t members = (size_t)grouping_size(&task->groups, task->groups.mine);
    const size_t groups = (size_t)task->groups.count;
    const bool scatters = task->batch->collective == TUTTI_REDUCESCATTER;

    *room = (struct hier_room){ .inner_runs = scatters ? runs * groups : runs,
        .inner_parts = (scatters ? runs * groups : 2 * runs) * members,
        .across_runs = 1,
        .across_parts = groups };
}

size_t hier_reduce_init(struct hier_task *task)
{
    size_t bytes = 0;

    if (task->batch->collective != TUTTI_REDUCESCATTER) {
        task->slice = slice_of(task, task->groups.local);
        return task->slice.count * tutti_dtype_size(task->batch->dtype);
    }
    for (int group = 0; group < task->groups.count; group++) {
        bytes += bytes_for(task, group);
    }
    return bytes;
}

/* -------------------------------------------------------- stage 0: in groups */

/** Makes the inner leg a reduction to partial results; its runs are the caller's. */
static void lead_partial(struct hier_task *task)
{
    const struct op_batch *batch = task->batch;
    struct op_batch *inner = &task->inner.batch;

    hier_lead_inner(task, HIER_FIRST);
    inner->collective = TUTTI_REDUCESCATTER;
    inner->dtype = batch->dtype;
    inner->op = batch->op == TUTTI_AVERAGE ? TUTTI_SUM : batch->op;
    inner->divisor = 1;
    inner->prescale = batch->prescale;
    inner->postscale = 1;
}

/** Each run gives each lane the part that is in its slice. */
static void reduce_slices(struct hier_task *task)
{
    const struct op_batch *batch = task->batch;
    struct hier_leg *leg = &task->inner;
    struct op_part *sends = leg->parts;
    size_t first = 0;

    lead_partial(task);
    for (size_t run = 0; run < batch->run_count; run++) {
        for (int m = 0; m < leg->set.size; m++) {
            sends[m] = cut(batch, slice_of(task, m), run, first);
        }
        leg->runs[run] = (struct op_run){ .input = batch->runs[run].input,
            .output = task->scratch + packed_at(batch, task->slice, first),
            .count = batch->runs[run].count,
            .sends = sends };
        sends += leg->set.size;
        first += batch->runs[run].count;
    }
    leg->batch.run_count = batch->run_count;
    leg->batch.count = batch->count;
}

/** A run that gives each lane the part for its member of a group. */
static struct op_run parts_run(
        const struct hier_task *task, size_t run, int group, struct op_part *sends)
{
    for (int m = 0; m < task->inner.set.size; m++) {
        sends[m] = *part_of(task, run, group, m);
    }
    return (struct op_run){ .input = task->batch->runs[run].input,
        .count = task->batch->runs[run].count,
        .sends = sends };
}

/** All runs for the members of the first group, then for those of the next ... */
static void reduce_parts(struct hier_task *task)
{
    const struct op_batch *batch = task->batch;
    struct hier_leg *leg = &task->inner;
    struct op_part *sends = leg->parts;
    struct op_run *made = leg->runs;
    char *output = task->scratch;

    lead_partial(task);
    for (int group = 0; group < task->groups.count; group++) {
        for (size_t run = 0; run < batch->run_count; run++) {
            *made = parts_run(task, run, group, sends);
            made->output = output;
            output += sends[task->groups.local].bytes;
            sends += leg->set.size;
            made++;
        }
    }
    leg->batch.run_count = batch->run_count * (size_t)task->groups.count;
    leg->batch.count = batch->count * (size_t)task->groups.count;
}

/* ---------------------------------------------------------- stage 1: across */

static int lane_member(const struct hier_task *task, int group)
{
    return grouping_member(&task->groups, group, task->groups.local);
}

/** Partial results of a lane, all of it in one run: elements of scratch. */
static void reduce_across(struct hier_task *task, size_t count)
{
    const struct op_batch *batch = task->batch;
    struct op_batch *across = &task->across.batch;

    hier_lead_across(task, lane_member);
    across->collective = batch->collective;
    across->dtype = batch->dtype;
    across->op = batch->op;
    across->divisor = batch->divisor;
    across->prescale = 1;
    across->postscale = batch->postscale;
    across->run_count = 1;
    across->count = count;
    task->across.runs[0] = (struct op_run){
        .input = task->scratch, .output = task->scratch, .count = count
    };
}

/** To the member of the root's group. */
static void reduce_to_group(struct hier_task *task)
{
    reduce_across(task, task->slice.count);
    task->across.batch.root = task->groups.number[task->batch->root];
    if (!hier_has_root(task)) {
        task->across.runs[0].output = NULL;
    }
}

/** To each member of the lane what is for it, which stays where it is. */
static void scatter_across(struct hier_task *task)
{
    struct op_part *sends = task->across.parts;
    size_t end = 0;

    for (int group = 0; group < task->groups.count; group++) {
        sends[group] =
                (struct op_part){ .offset = end, .bytes = bytes_for(task, group) };
        end += sends[group].bytes;
    }
    if (end > 0) {
        reduce_across(task, end / tutti_dtype_size(task->batch->dtype));
        task->across.runs[0].sends = sends;
        task->across.runs[0].output = task->scratch + sends[task->groups.mine].offset;
    }
}

/* ------------------------------------------------------- stage 2: in groups */

/** Makes the inner leg an exchange of known sizes: of each lane's part of each run. */
static void lead_return(struct hier_task *task, tutti_collective collective)
{
    struct hier_leg *leg = &task->inner;

    hier_lead_inner(task, HIER_LAST);
    leg->batch.collective = collective;
    leg->batch.dtype = TUTTI_UINT8;
    leg->batch.sizes_known = true;
    leg->batch.run_count = task->batch->run_count;
    leg->batch.count = 0;
}

/** Gives all of this rank's results to the members that `wants` them: -1 is all. */
static void return_slices(struct hier_task *task, int wants)
{
    const struct op_batch *batch = task->batch;
    struct hier_leg *leg = &task->inner;
    const int members = leg->set.size;
    struct op_part *sends = leg->parts;
    size_t first = 0;

    for (size_t run = 0; run < batch->run_count; run++) {
        const struct op_part own = cut(batch, task->slice, run, first);
        const bool takes = wants < 0 || wants == task->groups.local;
        struct op_part *recvs = sends + members;

        for (int m = 0; m < members; m++) {
            sends[m] = (struct op_part){ .bytes = wants < 0 || wants == m ? own.bytes
                                                                          : 0 };
            recvs[m] = takes ? cut(batch, slice_of(task, m), run, first)
                             : (struct op_part){ 0 };
        }
        leg->runs[run] = (struct op_run){ .input = task->scratch +
                    packed_at(batch, task->slice, first),
            .output = batch->runs[run].output,
            .sends = sends,
            .recvs = recvs };
        sends += 2 * (size_t)members;
        first += batch->runs[run].count;
    }
}

/** The results for this rank are in scratch: puts them where they belong. */
static void unpack_part(const struct hier_task *task)
{
    const struct op_batch *batch = task->batch;
    const char *from = task->scratch + task->across.parts[task->groups.mine].offset;

    for (size_t run = 0; run < batch->run_count; run++) {
        const size_t bytes = batch->runs[run].sends[batch->set->rank].bytes;

        if (bytes > 0) {
            mem_copy(batch->runs[run].output, from, bytes);
            from += bytes;
        }
    }
}

static void finish(struct hier_task *task)
{
    if (task->batch->collective == TUTTI_REDUCESCATTER) {
        unpack_part(task);
    } else if (task->batch->collective == TUTTI_ALLREDUCE) {
        lead_return(task, TUTTI_ALLGATHER);
        return_slices(task, -1);
    } else if (hier_has_root(task)) {
        lead_return(task, TUTTI_GATHER);
        task->inner.batch.root = grouping_local(&task->groups, task->batch->root);
        return_slices(task, task->inner.batch.root);
    }
}

/* -------------------------------------------------------------------- stages */

void hier_reduce_stage(struct hier_task *task)
{
    const tutti_collective collective = task->batch->collective;

    assert(op_is_reduction(collective));
    if (task->stage == 2) {
        finish(task);
    } else if (collective == TUTTI_REDUCESCATTER) {
        if (task->stage == 0) {
            reduce_parts(task);
        } else {
            scatter_across(task);
        }
    } else if (task->stage == 0) {
        reduce_slices(task);
    } else if (task->slice.count > 0 && collective == TUTTI_ALLREDUCE) {
        reduce_across(task, task->slice.count);
    } else if (task->slice.count > 0) {
        reduce_to_group(task);
    }
}
