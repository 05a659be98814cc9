/*
 * Compares the results of this rank with those of its children in the tree of the set.
 */
#include "run/compare.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/bitset.h"
#include "base/mem.h"
#include "base/wire.h"
#include "run/context.h"

#define RANKS_TEXT 200 /* of a list of ranks */
#define VOTERS_TEXT (RANKS_TEXT + 8)

/** A batch, until the digests of this rank and of all its children are there. */
struct compared {
    struct compared *next;
    const struct process_set *set;
    uint64_t sequence;
    uint32_t lane;
    int awaited; /* ranks whose digests are to come                        */
    size_t count; /* tensors                                                */
    struct wire_writer names; /* of the tensors: text and step; owned      */
    uint64_t digests[]; /* [(1 + children) * count]: this rank's, then those of the
                           children in their order                          */
};

/* What is kept of a batch; new where this rank or a child of it is the first to say something. */
static tutti_status enter(struct tutti *t, const struct process_set *set, uint32_t lane,
        uint64_t sequence, size_t tensors, struct compared **found)
{
    const size_t voters = 1 + (size_t)set->negotiator.tree.child_count;
    struct compared *batch = t->compare.first;

    while (batch != NULL &&
            (batch->set != set || batch->lane != lane || batch->sequence != sequence)) {
        batch = batch->next;
    }
    if (batch == NULL) {
        batch = mem_calloc(
                1, sizeof *batch + voters * tensors * sizeof *batch->digests);
        if (batch == NULL) {
            return error_set(TUTTI_ERR_NO_MEMORY, "no memory to compare results");
        }
        batch->set = set;
        batch->lane = lane;
        batch->sequence = sequence;
        batch->awaited = (int)voters;
        batch->count = tensors;
        batch->next = t->compare.first;
        t->compare.first = batch;
    }
    *found = batch;
    return batch->count == tensors
            ? TUTTI_OK
            : error_set(TUTTI_ERR_PROTOCOL,
                      "ranks have formed different batches: of %zu and of %zu tensors",
                      batch->count, tensors);
}

static void leave(struct tutti *t, struct compared *batch)
{
    struct compared **at = &t->compare.first;

    while (*at != batch) {
        at = &(*at)->next;
    }
    *at = batch->next;
    wire_writer_fini(&batch->names);
    mem_free(batch);
}

/* The set rank of voter v: this rank, then its children. */
static int voter(const struct compared *batch, int v)
{
    return v == 0 ? batch->set->op.rank : batch->set->negotiator.tree.children[v - 1];
}

static uint64_t vote(const struct compared *batch, int v, size_t tensor)
{
    return batch->digests[(size_t)v * batch->count + tensor];
}

/* How many voters have what voter v has. */
static int votes_for(const struct compared *batch, int v, size_t tensor)
{
    int votes = 0;

    for (int w = 0; w <= batch->set->negotiator.tree.child_count; w++) {
        votes += vote(batch, w, tensor) == vote(batch, v, tensor);
    }
    return votes;
}

/* "rank 1", "ranks 0, 2-3": who has, or has not, what voter `most` has. */
static void list_voters(const struct compared *batch, int most, size_t tensor, bool has,
        char text[VOTERS_TEXT])
{
    const int voters = 1 + batch->set->negotiator.tree.child_count;
    const uint64_t right = vote(batch, most, tensor);
    struct bitset members;
    char list[RANKS_TEXT];

    if (!bitset_init(&members, batch->set->op.size)) {
        (void)snprintf(text, VOTERS_TEXT, "ranks ...");
        return;
    }
    for (int v = 0; v < voters; v++) {
        if ((vote(batch, v, tensor) == right) == has) {
            bitset_add(&members, voter(batch, v));
        }
    }
    (void)snprintf(text, VOTERS_TEXT, "%s %s",
            bitset_count(&members) == 1 ? "rank" : "ranks",
            bitset_format(&members, batch->set->world_ranks, list, sizeof list));
    bitset_fini(&members);
}

/* The text and the step of a tensor, as its batch has kept them. */
static void find_name(
        const struct compared *batch, size_t tensor, char *text, size_t capacity)
{
    struct wire_reader in;
    tutti_collective collective;
    char name[OPERATION_TEXT];

    wire_reader_init(&in, batch->names.data, batch->names.len);
    collective = (tutti_collective)wire_get_u8(&in);
    for (size_t i = 0; i <= tensor; i++) {
        wire_get_text(&in, name, sizeof name);
        if (i < tensor) {
            (void)wire_get_varint(&in);
        }
    }
    operation_text_of(collective, name, wire_get_varint(&in), text, capacity);
}

static tutti_status differ(const struct compared *batch, size_t tensor)
{
    const int voters = 1 + batch->set->negotiator.tree.child_count;
    int most = 0;
    char what[OPERATION_TEXT + 64];
    char right[VOTERS_TEXT];
    char wrong[VOTERS_TEXT];

    for (int v = 1; v < voters; v++) {
        if (votes_for(batch, v, tensor) > votes_for(batch, most, tensor)) {
            most = v;
        }
    }
    find_name(batch, tensor, what, sizeof what);
    list_voters(batch, most, tensor, true, right);
    list_voters(batch, most, tensor, false, wrong);
    if (2 * votes_for(batch, most, tensor) > voters) {
        return error_set(TUTTI_ERR_PROTOCOL,
                "silent corruption: %s got another result of %s than %s; suspect its "
                "processor, memory and network",
                wrong, what, right);
    }
    return error_set(TUTTI_ERR_PROTOCOL,
            "silent corruption: %s and %s got different results of %s; which is wrong "
            "cannot be told of so few",
            right, wrong, what);
}

/* The digests of one more rank are there. */
static tutti_status take(
        struct tutti *t, struct compared *batch, int by, struct wire_reader *in)
{
    const int voters = 1 + batch->set->negotiator.tree.child_count;
    tutti_status status = TUTTI_OK;

    for (size_t i = 0; i < batch->count; i++) {
        batch->digests[(size_t)by * batch->count + i] = wire_get_u64(in);
    }
    batch->awaited--;
    if (batch->awaited > 0) {
        return TUTTI_OK;
    }
    for (int v = 1; v < voters && status == TUTTI_OK; v++) {
        for (size_t i = 0; i < batch->count && status == TUTTI_OK; i++) {
            status = vote(batch, v, i) == vote(batch, 0, i) ? TUTTI_OK
                                                            : differ(batch, i);
        }
    }
    leave(t, batch);
    return status;
}

/* Operations are over and may be gone when the last digests come. */
static bool keep_names(struct compared *kept, const struct batch *batch)
{
    wire_put_u8(&kept->names, (uint8_t)batch->op.collective);
    for (size_t i = 0; i < batch->operation_count; i++) {
        const struct request *request = &batch->operations[i]->request;

        wire_put_str(
                &kept->names, request->name, strnlen(request->name, TUTTI_NAME_MAX));
        wire_put_varint(&kept->names, request->meta.step);
    }
    return !kept->names.failed;
}

tutti_status compare_own(
        struct tutti *t, const struct batch *batch, const void *digests)
{
    struct wire_reader in;
    struct compared *kept;
    tutti_status status = enter(t, batch->set, batch->lane, batch->op.sequence,
            batch->operation_count, &kept);

    if (status != TUTTI_OK) {
        return status;
    }
    if (!keep_names(kept, batch)) {
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory to compare results");
    }
    wire_reader_init(&in, digests, kept->count * sizeof(uint64_t));
    return take(t, kept, 0, &in);
}

static tutti_status malformed(int from)
{
    return error_set(TUTTI_ERR_PROTOCOL, "malformed digests from rank %d", from);
}

tutti_status compare_receive(struct tutti *t, int from, const void *bytes, size_t len)
{
    struct wire_reader in;
    uint64_t id, lane, sequence;
    size_t count;
    const struct process_set *set;
    struct compared *kept;
    tutti_status status;
    int child = 0;

    wire_reader_init(&in, bytes, len);
    id = wire_get_varint(&in);
    lane = wire_get_varint(&in);
    sequence = wire_get_varint(&in);
    count = wire_left(&in) / sizeof(uint64_t);
    if (!wire_ok(&in) || id > UINT32_MAX || lane >= OP_LANES ||
            count * sizeof(uint64_t) != wire_left(&in)) {
        return malformed(from);
    }
    set = process_sets_find(&t->sets, (tutti_process_set)id);
    if (set == NULL || set->op.rank < 0) {
        return TUTTI_OK; /* the set is gone, and so is what this rank knew of it */
    }
    while (child < set->negotiator.tree.child_count &&
            set->world_ranks[set->negotiator.tree.children[child]] != from) {
        child++;
    }
    if (child == set->negotiator.tree.child_count) {
        return malformed(from);
    }
    status = enter(t, set, (uint32_t)lane, sequence, count, &kept);
    if (status != TUTTI_OK) {
        return status;
    }
    return take(t, kept, child + 1, &in);
}

void compare_forget(struct tutti *t, const struct process_set *set)
{
    struct compared *next;

    for (struct compared *batch = t->compare.first; batch != NULL; batch = next) {
        next = batch->next;
        if (set == NULL || batch->set == set) {
            leave(t, batch);
        }
    }
}
