/*
 * The work of reductions: a member reads its share of everybody's inputs and writes the
 * result where it is wanted.
 *
 *     allreduce       a slice of the batch, to all outputs
 *     reduce          a slice of the batch, to the root's output
 *     reducescatter   this member's parts, to its own output
 *
 * Small batches have fewer slices than the set has ranks; the ranks take turns at them.
 *
 * A place of the staging memory belongs to the member whose slice it is of. It reads there
 * the operand of the memory's owner and, where that has a private output, leaves the
 * result for it.
 */
#include "base/mem.h"
#include "ops/reduce/reduce.h"
#include "ops/shm/shm_task.h"

/* Below this one rank is as fast as several, and less ringing. Measured with two. */
#define SLICE_BYTES_MIN ((size_t)2048)
/* Bytes of one operand that a round works on at least, however many operands there are. */
#define PIECE_BYTES_MIN ((size_t)4096)

/** A range of the elements of a batch, or of a member's parts. */
struct slice {
    size_t first;
    size_t count;
};

/**
 * A member's slice of an allreduce or a reduce. It is the same in every batch, so that what
 * lies in its cache is used again, unless there is too little for all.
 */
static struct slice slice_of(const struct op_batch *batch, int member)
{
    const size_t bytes = tutti_dtype_size(batch->dtype);
    const size_t size = (size_t)batch->set->size;
    const size_t share = size_align(
            batch->count / size + (batch->count % size != 0), MEM_CACHE_LINE / bytes);
    const size_t length = size_max(share, SLICE_BYTES_MIN / bytes);
    const uint64_t turn = length > share ? batch->sequence : 0;
    const size_t place = (size_t)((turn + (uint64_t)member) % size);
    const size_t first = size_min(batch->count, place * length);

    return (struct slice){ .first = first,
        .count = size_min(length, batch->count - first) };
}

/** What a member has to reduce. */
static struct slice share_of(const struct op_batch *batch, int member)
{
    if (batch->collective == TUTTI_REDUCESCATTER) {
        return (struct slice){ .first = 0, .count = runs_total(batch, member) };
    }
    return slice_of(batch, member);
}

bool shm_reduce_has_share(const struct op_batch *batch, int member)
{
    return share_of(batch, member).count > 0;
}

/** The elements of a round of a member's share. */
static struct runs_cursor piece_of(
        const struct shm_task *task, int member, uint64_t round)
{
    const struct op_batch *batch = task->batch;
    const struct slice share = share_of(batch, member);
    const size_t length = task->piece / tutti_dtype_size(batch->dtype);
    const size_t skipped = size_min(share.count, (size_t)round * length);

    return runs_range(batch, member, share.first + skipped,
            size_min(length, share.count - skipped));
}

/** True when other members write this rank's output. */
static bool is_output_written(const struct op_batch *batch)
{
    return batch->collective == TUTTI_ALLREDUCE ||
            (batch->collective == TUTTI_REDUCE && batch->set->rank == batch->root);
}

void shm_reduce_init(const struct shm_state *shm, struct shm_task *task)
{
    const struct op_batch *batch = task->batch;
    const int me = batch->set->rank;
    const size_t bytes = tutti_dtype_size(batch->dtype);
    const struct slice share = share_of(batch, me);
    uint64_t most = 0;
    bool is_private = false;

    task->places = batch->set->size;
    task->piece = size_max(shm->env->chunk_bytes / (size_t)batch->set->size,
                          PIECE_BYTES_MIN) &
            ~(MEM_CACHE_LINE - 1);
    task->rest = runs_range(batch, me, share.first, share.count);
    task->work.all = shm_rounds_of(task, share.count * bytes);
    for (int member = 0; member < batch->set->size; member++) {
        const uint64_t rounds =
                shm_rounds_of(task, share_of(batch, member).count * bytes);

        most = member != me && rounds > most ? rounds : most;
    }
    for (size_t run = 0; run < batch->run_count; run++) {
        const struct op_run *at = &batch->runs[run];

        is_private |= at->count > 0 && !shm_has_shared_input(shm, batch, run);
        if (at->count > 0 && is_output_written(batch) &&
                !shm_has_shared_output(shm, batch, run)) {
            task->take.all = most;
        }
    }
    task->stage.all = is_private || task->take.all > 0 ? most : 0;
}

/** True when the result is written over the operand that a member staged. */
static bool is_staged_over(
        const struct op_batch *batch, const struct shm_run *run, int member)
{
    return run->output == SHM_PRIVATE &&
            (batch->collective == TUTTI_ALLREDUCE ||
                    (batch->collective == TUTTI_REDUCE && member == batch->root));
}

/** Sets shm->views for the next round of work. */
static void look_at_members(struct shm_state *shm, const struct shm_task *task)
{
    const struct op_batch *batch = task->batch;
    const int me = batch->set->rank;

    for (int member = 0; member < batch->set->size; member++) {
        struct shm_view *view = &shm->views[member];

        *view = (struct shm_view){ .rank = shm_member(shm, batch, member),
            .runs = shm_member_runs(shm, batch, member) };
        if (member != me) {
            view->place = shm_member_place(shm, task, member, task->work.done, me);
        }
    }
}

/** The operand of a member, from an element of a run on, `done` bytes into the round. */
static const void *operand_of(const struct op_batch *batch, struct shm_view *view,
        int member, const struct runs_cursor *at, size_t done)
{
    const size_t offset = runs_begin(batch, at->member, at->run) +
            at->offset * tutti_dtype_size(batch->dtype);
    const struct shm_run *run = &view->runs[at->run];

    if (run->input != SHM_PRIVATE) {
        return shm_address(view->rank, run->input + offset);
    }
    if (member == batch->set->rank) {
        return (const char *)batch->runs[at->run].input + offset;
    }
    view->only_read |= !is_staged_over(batch, run, member);
    return view->place + done;
}

/** Where a member wants these elements. */
static void *result_of(const struct op_batch *batch, const struct shm_view *view,
        int member, const struct runs_cursor *at, size_t done)
{
    const size_t offset = at->offset * tutti_dtype_size(batch->dtype);
    const struct shm_run *run = &view->runs[at->run];

    if (run->output != SHM_PRIVATE) {
        return shm_address(view->rank, run->output + offset);
    }
    return member == batch->set->rank ? (char *)batch->runs[at->run].output + offset
                                      : view->place + done;
}

/** The members that want the result. */
static struct shm_members receivers_of(const struct op_batch *batch)
{
    if (batch->collective == TUTTI_ALLREDUCE) {
        return (struct shm_members){ .first = 0, .count = batch->set->size };
    }
    return (struct shm_members){
        .first = batch->collective == TUTTI_REDUCE ? batch->root : batch->set->rank,
        .count = 1
    };
}

/** Elements whose operands, and whose results, are one piece of memory on each member. */
struct span {
    const void **inputs; /* [n] */
    void **outputs; /* [m] */
    int n, m;
    size_t count;
};

/** Finds where the elements at the cursor lie. */
static void span_find(struct span *span, const struct shm_state *shm,
        const struct shm_task *task, size_t done)
{
    const struct shm_members receivers = receivers_of(task->batch);

    for (int i = 0; i < span->n; i++) {
        span->inputs[i] = operand_of(task->batch, &shm->views[i], i, &task->rest, done);
    }
    for (int i = 0; i < span->m; i++) {
        const int member = receivers.first + i;

        span->outputs[i] =
                result_of(task->batch, &shm->views[member], member, &task->rest, done);
    }
}

/** True when a span begins where another one ends, everywhere. */
static bool span_follows(
        const struct span *span, const struct span *other, size_t element_bytes)
{
    const size_t bytes = other->count * element_bytes;

    for (int i = 0; i < span->n; i++) {
        if (span->inputs[i] != (const char *)other->inputs[i] + bytes) {
            return false;
        }
    }
    for (int i = 0; i < span->m; i++) {
        if (span->outputs[i] != (char *)other->outputs[i] + bytes) {
            return false;
        }
    }
    return true;
}

static void span_swap(struct span *a, struct span *b)
{
    const struct span old = *a;

    *a = *b;
    *b = old;
}

/*
 * Makes the next elements part of the span, if they lie behind it on every member, or, as
 * gradients do that became ready from the last layer to the first, in front of it.
 */
static bool span_extend(struct span *span, struct span *next, size_t element_bytes)
{
    const size_t count = span->count + next->count;

    if (span_follows(span, next, element_bytes)) {
        span_swap(span, next);
    } else if (!span_follows(next, span, element_bytes)) {
        return false;
    }
    span->count = count;
    return true;
}

static void span_reduce(
        const struct shm_state *shm, const struct shm_task *task, struct span *span)
{
    const struct reduce_spec spec = reduce_spec_of(task->batch);
    const int64_t begin_ns = reduce_clock(shm->env);

    reduce_tree(&spec, span->inputs, span->n, span->outputs, span->m, span->count);
    reduce_count(shm->env, begin_ns);
}

/** Hands staged operands back that were only read. */
static void hand_back(
        const struct shm_state *shm, const struct op_batch *batch, size_t bytes)
{
    for (int member = 0; member < batch->set->size; member++) {
        if (shm->views[member].only_read) {
            shm_hand_back(shm->views[member].place, bytes);
        }
    }
}

/* The next run joins the span, or the span is reduced and the run begins one. */
static void span_take(struct shm_state *shm, struct shm_task *task, struct span *span,
        struct span *next, size_t bytes)
{
    if (span->count > 0 && span_extend(span, next, bytes)) {
        return;
    }
    if (span->count > 0) {
        span_reduce(shm, task, span);
    }
    span_swap(span, next);
}

/* Tensors that are neighbours on every member are reduced as if they were one. */
void shm_reduce_work(struct shm_state *shm, struct shm_task *task)
{
    const struct op_batch *batch = task->batch;
    const size_t bytes = tutti_dtype_size(batch->dtype);
    const size_t all = task->piece / bytes;
    struct span span = { .inputs = shm->inputs,
        .outputs = shm->outputs,
        .n = batch->set->size,
        .m = receivers_of(batch).count };
    struct span next = span;
    size_t done = 0;

    next.inputs += span.n;
    next.outputs += span.m;
    look_at_members(shm, task);
    while ((next.count = runs_piece(&task->rest, batch, all - done)) > 0) {
        const size_t count = next.count;

        span_find(&next, shm, task, done * bytes);
        span_take(shm, task, &span, &next, bytes);
        runs_advance(&task->rest, batch, count);
        done += count;
    }
    if (span.count > 0) {
        span_reduce(shm, task, &span);
    }
    hand_back(shm, batch, done * bytes);
}

/** Copies what is private of a member's piece of the round into its place. */
static void stage_for(
        const struct shm_state *shm, const struct shm_task *task, int member)
{
    const struct op_batch *batch = task->batch;
    const size_t bytes = tutti_dtype_size(batch->dtype);
    struct runs_cursor at = piece_of(task, member, task->stage.done);
    char *to = shm_place(task, task->staging, task->stage.done, member);
    size_t count;

    for (; (count = runs_piece(&at, batch, at.left)) > 0;
            runs_advance(&at, batch, count)) {
        const char *input = batch->runs[at.run].input;

        if (!shm_has_shared_input(shm, batch, at.run)) {
            mem_copy(to, input + runs_begin(batch, member, at.run) + at.offset * bytes,
                    count * bytes);
        }
        to += count * bytes;
    }
}

void shm_reduce_stage(const struct shm_state *shm, const struct shm_task *task)
{
    for (int member = 0; member < task->batch->set->size; member++) {
        if (member != task->batch->set->rank) {
            stage_for(shm, task, member);
        }
    }
}

/** Copies the results that a member left in its place to where they are private. */
static void take_from(
        const struct shm_state *shm, const struct shm_task *task, int member)
{
    const struct op_batch *batch = task->batch;
    const size_t bytes = tutti_dtype_size(batch->dtype);
    struct runs_cursor at = piece_of(task, member, task->take.done);
    const char *from = shm_place(task, task->staging, task->take.done, member);
    size_t count;

    for (; (count = runs_piece(&at, batch, at.left)) > 0;
            runs_advance(&at, batch, count)) {
        char *output = batch->runs[at.run].output;

        if (!shm_has_shared_output(shm, batch, at.run)) {
            mem_copy(output + at.offset * bytes, from, count * bytes);
        }
        from += count * bytes;
    }
}

void shm_reduce_take(const struct shm_state *shm, const struct shm_task *task)
{
    for (int member = 0; member < task->batch->set->size; member++) {
        if (member != task->batch->set->rank) {
            take_from(shm, task, member);
        }
    }
}
