/*
 * Broadcast: chunks travel down a tree, several in flight.
 *
 * The tree is one of two, by the number of messages that follow one another, with n
 * ranks, c chunks and h = ceil(log2 n):
 *
 *     chain     every rank has one child:    c + n - 2
 *     binomial  the root has h children:     c * h, the root's own sends
 *
 * Small broadcasts have one chunk and take the binomial tree; in a large one each rank
 * of the chain receives once and sends once, the minimum. n and c are equal on all
 * ranks, so they choose alike. Data goes straight into the output; no scratch is
 * needed.
 *
 *     binomial, 8 ranks from root 0:   0 -> 4 -> 6 -> 7     4 -> 5
 *                                      0 -> 2 -> 3          0 -> 1
 */
#include <string.h>

#include "base/mem.h"
#include "ops/p2p/task.h"

/* Receives posted ahead; deeper than the sums, because they cost no scratch. */
#define DEPTH_MAX 8
/* Rows of broadcast.pending. */
enum {
    RECEIVES,
    SENDS,
    ROWS
};

static int ceil_log2(size_t n)
{
    int bits = 0;

    while (((size_t)1 << bits) < n) {
        bits++;
    }
    return bits;
}

static bool chain_is_shorter(size_t ranks, size_t chunks)
{
    return chunks + ranks < chunks * (size_t)ceil_log2(ranks) + 2;
}

/* Ranks of the tree count from the root; set ranks follow in a circle. */
static int set_rank_of(const struct op_batch *batch, int tree_rank)
{
    return (tree_rank + batch->root) % batch->set->size;
}

static void plant_chain(struct broadcast *b, const struct op_batch *batch, int me)
{
    b->parent = me == 0 ? -1 : set_rank_of(batch, me - 1);
    b->child_count = 0;
    if (me + 1 < batch->set->size) {
        b->children[b->child_count++] = set_rank_of(batch, me + 1);
    }
}

/* The parent of a rank is the rank without its lowest bit. */
static void plant_binomial(struct broadcast *b, const struct op_batch *batch, int me)
{
    int size = batch->set->size;
    int bit = 1;

    while (bit < size && (me & bit) == 0) {
        bit *= 2;
    }
    b->parent = me == 0 ? -1 : set_rank_of(batch, me - bit);
    b->child_count = 0;
    for (bit /= 2; bit > 0; bit /= 2) {
        if (me + bit < size) {
            b->children[b->child_count++] = set_rank_of(batch, me + bit);
        }
    }
}

static int slot_of(const struct broadcast *b, size_t chunk)
{
    return (int)(chunk % (size_t)b->depth);
}

static int *pending_of(const struct broadcast *b, int row, size_t chunk)
{
    return &b->pending[row * b->depth + slot_of(b, chunk)];
}

static uint8_t *chunk_at(const struct p2p_task *task, size_t chunk)
{
    return (uint8_t *)task->batch->runs[0].output +
            chunk * task->broadcast.message_bytes;
}

static size_t chunk_length(const struct broadcast *b, size_t chunk)
{
    return size_min(b->message_bytes, b->bytes - chunk * b->message_bytes);
}

/* The root's own copy; it sends from the output, where the chunk is now in cache. */
static void fetch_at_root(const struct p2p_task *task, size_t chunk)
{
    const struct op_run *run = &task->batch->runs[0];
    const struct broadcast *b = &task->broadcast;

    if (run->input != run->output) {
        memcpy(chunk_at(task, chunk),
                (const uint8_t *)run->input + chunk * b->message_bytes,
                chunk_length(b, chunk));
    }
}

/* Keeps `depth` chunks in flight. */
static tutti_status issue(struct p2p_task *task)
{
    struct broadcast *b = &task->broadcast;
    tutti_status status = TUTTI_OK;

    while (status == TUTTI_OK && b->issued < b->chunk_count &&
            b->issued - b->finished < (size_t)b->depth) {
        if (b->parent < 0) {
            fetch_at_root(task, b->issued);
        } else {
            *pending_of(b, RECEIVES, b->issued) = 1;
            status = task_receive(task, slot_of(b, b->issued), TASK_OPERANDS, b->parent,
                    chunk_at(task, b->issued), chunk_length(b, b->issued));
        }
        b->issued++;
    }
    return status;
}

/* Sends the chunks that are here to the children. */
static tutti_status forward(struct p2p_task *task)
{
    struct broadcast *b = &task->broadcast;
    tutti_status status = TUTTI_OK;

    while (status == TUTTI_OK && b->forwarded < b->issued &&
            *pending_of(b, RECEIVES, b->forwarded) == 0) {
        int first = b->depth + slot_of(b, b->forwarded) * b->child_max;

        *pending_of(b, SENDS, b->forwarded) = b->child_count;
        for (int i = 0; i < b->child_count && status == TUTTI_OK; i++) {
            status = task_send(task, first + i, TASK_OPERANDS, b->children[i],
                    chunk_at(task, b->forwarded), chunk_length(b, b->forwarded));
        }
        b->forwarded++;
    }
    return status;
}

static void retire(struct broadcast *b)
{
    while (b->finished < b->forwarded && *pending_of(b, SENDS, b->finished) == 0) {
        b->finished++;
    }
}

static tutti_status broadcast_step(struct p2p_task *task, bool *moved)
{
    struct broadcast *b = &task->broadcast;
    int count = 0;
    tutti_status status = task_poll(task, &count);

    if (status != TUTTI_OK) {
        return status;
    }
    for (int i = 0; i < count; i++) {
        int request = task->done[i];
        int sends_before = request - b->depth;

        if (request < b->depth) {
            b->pending[request]--;
        } else {
            b->pending[b->depth + sends_before / b->child_max]--;
        }
    }
    *moved = *moved || count > 0;
    status = forward(task);
    if (status == TUTTI_OK) {
        retire(b);
        status = issue(task);
    }
    if (status != TUTTI_OK) {
        return status;
    }
    return b->finished == b->chunk_count ? TUTTI_OK : TUTTI_AGAIN;
}

/* Cuts the batch into equal chunks of at most the state's message_bytes. */
static void lay_out(const struct p2p_state *state, struct p2p_task *task)
{
    struct broadcast *b = &task->broadcast;
    size_t chunks;

    b->bytes = task->batch->count * task->element_bytes;
    chunks = (b->bytes - 1) / state->message_bytes + 1;
    b->message_bytes = size_align((b->bytes - 1) / chunks + 1, TASK_ALIGNMENT);
    b->chunk_count = (b->bytes - 1) / b->message_bytes + 1;
    b->depth = (int)size_min(b->chunk_count,
            size_max(DEPTH_MAX, state->window_bytes / b->message_bytes));
    b->child_max = ceil_log2((size_t)task->batch->set->size) + 1;
}

static tutti_status broadcast_start(struct p2p_state *state, struct p2p_task *task)
{
    struct broadcast *b = &task->broadcast;
    const struct op_batch *batch = task->batch;
    int size = batch->set->size;
    int me = (batch->set->rank - batch->root + size) % size;
    size_t counters;
    uint8_t *extra;
    tutti_status status;

    lay_out(state, task);
    counters = size_align(ROWS * (size_t)b->depth * sizeof *b->pending, TASK_ALIGNMENT);
    extra = task_prepare(state, task, b->depth, b->depth * b->child_max,
            counters + (size_t)b->child_max * sizeof *b->children);
    if (extra == NULL) {
        return TUTTI_ERR_NO_MEMORY;
    }
    b->pending = (int *)(void *)extra;
    b->children = (int *)(void *)(extra + counters);
    for (int i = 0; i < ROWS * b->depth; i++) {
        b->pending[i] = 0;
    }
    if (chain_is_shorter((size_t)size, b->chunk_count)) {
        plant_chain(b, batch, me);
    } else {
        plant_binomial(b, batch, me);
    }
    status = issue(task);
    return status == TUTTI_OK ? forward(task) : status;
}

const struct p2p_algorithm broadcast_tree = {
    .name = "tree",
    .bytes_most = SIZE_MAX,
    .start = broadcast_start,
    .step = broadcast_step,
};
