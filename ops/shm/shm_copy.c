/*
 * The work of what only moves bytes: a member copies what comes to it straight from the
 * senders' inputs, or from where they have staged them, to its own output.
 *
 * For a broadcast that is all of the root's runs. Of an exchange each sender has
 * published the table of its parts, which says where what comes from it lies and, to a
 * receiver that does not know, how long it is. What goes to one receiver is a stream: the
 * parts for it of all runs, one behind the other. In a round a member copies a piece of
 * each of the streams that come to it; it begins with its own and goes on in a circle, so
 * that not all read the same memory at once.
 */
#include "base/mem.h"
#include "ops/shm/shm_task.h"

/* Bytes of a stream that a round moves at least. */
#define PIECE_BYTES_MIN ((size_t)4096)

static size_t piece_bytes(const struct shm_state *shm, int streams)
{
    return size_max(shm->env->chunk_bytes / (size_t)streams, PIECE_BYTES_MIN) &
            ~(MEM_CACHE_LINE - 1);
}

/* Bytes that are copied before they are handed back, so that they are still near. */
#define HAND_BACK_BYTES ((size_t)4096)

/** Copies scratch of another rank that this rank alone reads. */
static void copy_scratch(char *to, char *scratch, size_t bytes)
{
    while (bytes > 0) {
        const size_t step = size_min(bytes, HAND_BACK_BYTES);

        mem_copy(to, scratch, step);
        shm_hand_back(scratch, step);
        to += step;
        scratch += step;
        bytes -= step;
    }
}

/* ----------------------------------------------------------------- broadcast */

void shm_broadcast_init(const struct shm_state *shm, struct shm_task *task)
{
    const struct op_batch *batch = task->batch;
    uint64_t rounds;

    task->places = 1;
    task->piece = piece_bytes(shm, 1);
    rounds = shm_rounds_of(task, batch->count * tutti_dtype_size(batch->dtype));
    if (batch->set->rank != batch->root) {
        task->rest = runs_range(batch, 0, 0, batch->count);
        task->work.all = rounds;
        return;
    }
    for (size_t run = 0; run < batch->run_count && batch->set->size > 1; run++) {
        if (batch->runs[run].count > 0 && !shm_has_shared_input(shm, batch, run)) {
            task->stage.all = rounds;
        }
    }
}

void shm_broadcast_stage(const struct shm_state *shm, const struct shm_task *task)
{
    const struct op_batch *batch = task->batch;
    const size_t bytes = tutti_dtype_size(batch->dtype);
    const size_t first = (size_t)task->stage.done * (task->piece / bytes);
    struct runs_cursor at = runs_range(
            batch, 0, first, size_min(task->piece / bytes, batch->count - first));
    char *to = shm_place(task, task->staging, task->stage.done, 0);
    size_t count;

    for (; (count = runs_piece(&at, batch, at.left)) > 0;
            runs_advance(&at, batch, count)) {
        const char *input = batch->runs[at.run].input;

        if (!shm_has_shared_input(shm, batch, at.run)) {
            mem_copy(to, input + at.offset * bytes, count * bytes);
        }
        to += count * bytes;
    }
}

void shm_broadcast_work(const struct shm_state *shm, struct shm_task *task)
{
    const struct op_batch *batch = task->batch;
    const struct shm_rank *root = shm_member(shm, batch, batch->root);
    const struct shm_run *runs = shm_member_runs(shm, batch, batch->root);
    const size_t bytes = tutti_dtype_size(batch->dtype);
    size_t done = 0;

    while (task->rest.left > 0 && done < task->piece) {
        const size_t count =
                runs_piece(&task->rest, batch, (task->piece - done) / bytes);
        const size_t offset = task->rest.offset * bytes;
        const size_t run = task->rest.run;
        char *to = (char *)batch->runs[run].output + offset;
        char *from = runs[run].input != SHM_PRIVATE
                ? shm_address(root, runs[run].input + offset)
                : shm_member_place(shm, task, batch->root, task->work.done, 0) + done;

        if (runs[run].input == SHM_PRIVATE && batch->set->size == 2) {
            copy_scratch(to, from, count * bytes);
        } else {
            mem_copy(to, from, count * bytes);
        }
        runs_advance(&task->rest, batch, count);
        done += count * bytes;
    }
}

/* ----------------------------------------------------------------- exchanges */

/** True when all receivers get the same, so that it is staged once. */
static bool is_one_stream(const struct op_batch *batch)
{
    return batch->collective == TUTTI_ALLGATHER || batch->collective == TUTTI_GATHER;
}

/** The place of the stream to a receiver. */
static int place_of(const struct op_batch *batch, int to)
{
    return is_one_stream(batch) ? 0 : to;
}

/** Bytes that this rank sends to a member. */
static size_t bytes_to(const struct op_batch *batch, int to)
{
    size_t bytes = 0;

    for (size_t run = 0; run < batch->run_count; run++) {
        bytes += batch->runs[run].sends[to].bytes;
    }
    return bytes;
}

static size_t bytes_from(const struct op_batch *batch, int from)
{
    size_t bytes = 0;

    for (size_t run = 0; run < batch->run_count; run++) {
        bytes += batch->runs[run].recvs[from].bytes;
    }
    return bytes;
}

/** The rounds of what comes here, once that is known. */
static void count_rounds(struct shm_task *task)
{
    const struct op_batch *batch = task->batch;

    task->placed = true;
    for (int from = 0; from < batch->set->size; from++) {
        const uint64_t rounds = shm_rounds_of(task, bytes_from(batch, from));

        task->work.all = rounds > task->work.all ? rounds : task->work.all;
    }
}

void shm_exchange_init(const struct shm_state *shm, struct shm_task *task)
{
    const struct op_batch *batch = task->batch;
    const int me = batch->set->rank;
    bool is_private = false;

    task->places = is_one_stream(batch) ? 1 : batch->set->size;
    task->piece = piece_bytes(shm, task->places);
    if (batch->sizes_known) {
        count_rounds(task);
    }
    for (size_t run = 0; run < batch->run_count; run++) {
        is_private |= !shm_has_shared_input(shm, batch, run);
    }
    for (int to = 0; to < batch->set->size && is_private; to++) {
        if (to != me && exchange_flows(batch, me, to)) {
            const uint64_t rounds = shm_rounds_of(task, bytes_to(batch, to));

            task->stage.all = rounds > task->stage.all ? rounds : task->stage.all;
        }
    }
}

/** The part of a run of another member that comes here. */
static const struct op_part *part_from(
        const struct shm_state *shm, const struct op_batch *batch, int from, size_t run)
{
    const struct shm_run *runs = shm_member_runs(shm, batch, from);
    const struct op_part *sends =
            shm_address(shm_member(shm, batch, from), runs[run].sends);

    return &sends[batch->set->rank];
}

/** Fills recvs from the senders' tables and lays out the outputs. */
tutti_status shm_exchange_place(const struct shm_state *shm, struct shm_task *task)
{
    const struct op_batch *batch = task->batch;
    tutti_status status;

    if (!exchange_receives(batch)) {
        task->placed = true;
        return TUTTI_OK;
    }
    for (int from = 0; from < batch->set->size; from++) {
        bool flows = exchange_flows(batch, from, batch->set->rank);

        for (size_t run = 0; run < batch->run_count; run++) {
            batch->runs[run].recvs[from].bytes =
                    flows ? part_from(shm, batch, from, run)->bytes : 0;
        }
    }
    status = exchange_place(batch);
    if (status == TUTTI_OK) {
        count_rounds(task);
    }
    return status;
}

/** Copies a piece of the stream to a member that is in private memory. */
static void stage_for(const struct shm_state *shm, const struct shm_task *task, int to)
{
    const struct op_batch *batch = task->batch;
    char *place = shm_place(task, task->staging, task->stage.done, place_of(batch, to));
    size_t skip = (size_t)task->stage.done * task->piece;
    size_t room = task->piece;

    for (size_t run = 0; run < batch->run_count && room > 0; run++) {
        const struct op_part *part = &batch->runs[run].sends[to];
        const char *input = batch->runs[run].input;
        size_t bytes;

        if (skip >= part->bytes) {
            skip -= part->bytes;
            continue;
        }
        bytes = size_min(part->bytes - skip, room);
        if (!shm_has_shared_input(shm, batch, run)) {
            mem_copy(place, input + part->offset + skip, bytes);
        }
        skip = 0;
        place += bytes;
        room -= bytes;
    }
}

void shm_exchange_stage(const struct shm_state *shm, const struct shm_task *task)
{
    const struct op_batch *batch = task->batch;
    const int me = batch->set->rank;
    bool is_staged = false;

    for (int to = 0; to < batch->set->size; to++) {
        if (to != me && exchange_flows(batch, me, to) && !is_staged) {
            stage_for(shm, task, to);
            is_staged = is_one_stream(batch);
        }
    }
}

/** The byte of the stream from a member where a round begins. */
static struct exchange_cursor cursor_at(
        const struct op_batch *batch, int from, size_t first)
{
    struct exchange_cursor at = { .offset = first };

    while (at.run < batch->run_count &&
            at.offset >= batch->runs[at.run].recvs[from].bytes) {
        at.offset -= batch->runs[at.run].recvs[from].bytes;
        at.run++;
    }
    return at;
}

/** Copies the bytes at a cursor of what stays here. */
static void copy_own(
        const struct op_batch *batch, const struct exchange_cursor *at, size_t bytes)
{
    const int me = batch->set->rank;
    const struct op_run *run = &batch->runs[at->run];
    char *to = (char *)run->output + run->recvs[me].offset + at->offset;
    const char *source = (const char *)run->input + run->sends[me].offset + at->offset;

    if (to != source) {
        mem_copy(to, source, bytes);
    }
}

/** Copies the bytes at a cursor, which are those from `done` of a round on. */
static void copy_others(const struct shm_state *shm, const struct shm_task *task,
        int from, const struct exchange_cursor *at, size_t done, size_t bytes)
{
    const struct op_batch *batch = task->batch;
    const int me = batch->set->rank;
    const struct op_run *run = &batch->runs[at->run];
    const struct shm_run *other = &shm_member_runs(shm, batch, from)[at->run];
    const bool is_sole_reader =
            batch->collective != TUTTI_ALLGATHER || batch->set->size == 2;
    char *to = (char *)run->output + run->recvs[from].offset + at->offset;
    char *source = other->input == SHM_PRIVATE
            ? shm_member_place(shm, task, from, task->work.done, place_of(batch, me)) +
                    done
            : (char *)shm_address(shm_member(shm, batch, from), other->input) +
                    part_from(shm, batch, from, at->run)->offset + at->offset;

    if ((other->input == SHM_PRIVATE || other->scratch != 0) && is_sole_reader) {
        copy_scratch(to, source, bytes);
    } else {
        mem_copy(to, source, bytes);
    }
}

/** Copies a piece of the stream from a member. */
static void copy_from(
        const struct shm_state *shm, const struct shm_task *task, int from)
{
    const struct op_batch *batch = task->batch;
    struct exchange_cursor at =
            cursor_at(batch, from, (size_t)task->work.done * task->piece);
    size_t done = 0;
    size_t bytes;

    while (done < task->piece &&
            (bytes = exchange_piece(batch, from, &at, task->piece - done)) > 0) {
        if (from == batch->set->rank) {
            copy_own(batch, &at, bytes);
        } else {
            copy_others(shm, task, from, &at, done, bytes);
        }
        at.offset += bytes;
        done += bytes;
    }
}

void shm_exchange_work(const struct shm_state *shm, struct shm_task *task)
{
    const struct op_set *set = task->batch->set;

    for (int i = 0; i < set->size; i++) {
        copy_from(shm, task, (set->rank + i) % set->size);
    }
}
