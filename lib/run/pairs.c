/*
 * Pairs: made when they are first used, by a submission or by a message of the other rank.
 */
#include "run/pairs.h"

#include "base/error.h"
#include "base/mem.h"
#include "run/context.h"
#include "run/messages.h"
#include "run/process_set.h"
#include "run/submit.h"

static tutti_process_set id_of(const struct tutti *t, int sender, int receiver)
{
    return PAIRS_FIRST_ID + (tutti_process_set)sender * (tutti_process_set)t->size +
            (tutti_process_set)receiver;
}

static struct process_set **place_of(const struct tutti *t, int sender, int receiver)
{
    return &t->sets.pairs.made[sender == t->rank ? receiver : t->size + sender];
}

/*
 * The sum of two ranks tells the pairs of each apart, and is the same on both; two banks tell the
 * directions apart. Ranks on different nodes share no memory in which it would matter.
 */
static uint32_t index_of(const struct tutti *t, int sender, int receiver)
{
    const struct nodes *nodes = &t->peers.nodes;
    const int node = nodes_of(nodes, sender);

    return node != nodes_of(nodes, receiver)
            ? 0
            : (uint32_t)((nodes_local(nodes, sender) + nodes_local(nodes, receiver)) %
                      nodes_ranks(nodes, node));
}

static struct process_set *make(struct tutti *t, int sender, int receiver)
{
    const int64_t ranks[] = { sender, receiver };
    const struct op_set identity = { .id = id_of(t, sender, receiver),
        .index = index_of(t, sender, receiver),
        .bank = OP_PAIR_BANK + (sender > receiver),
        .size = 2 };

    return process_set_new(t, &identity, ranks);
}

static tutti_status no_memory(void)
{
    return error_set(TUTTI_ERR_NO_MEMORY, "no memory for messages between ranks");
}

tutti_status pairs_get(
        struct tutti *t, int sender, int receiver, struct process_set **set)
{
    struct pairs *pairs = &t->sets.pairs;
    struct process_set **place;

    if ((uint64_t)t->size * (uint64_t)t->size > PAIRS_FIRST_ID) {
        return error_set(TUTTI_ERR_UNSUPPORTED,
                "messages between ranks need a world of at most 46340 ranks, and this "
                "one has %d",
                t->size);
    }
    if (pairs->made == NULL) {
        pairs->made = mem_calloc(2 * (size_t)t->size, sizeof *pairs->made);
    }
    if (pairs->made == NULL) {
        return no_memory();
    }
    place = place_of(t, sender, receiver);
    if (*place == NULL) {
        *place = make(t, sender, receiver);
    }
    *set = *place;
    return *place == NULL ? no_memory() : TUTTI_OK;
}

struct process_set *pairs_find(const struct tutti *t, tutti_process_set id)
{
    const int sender = (int)((id - PAIRS_FIRST_ID) / (tutti_process_set)t->size);
    const int receiver = (int)((id - PAIRS_FIRST_ID) % (tutti_process_set)t->size);

    return t->sets.pairs.made == NULL ? NULL : *place_of(t, sender, receiver);
}

tutti_status pairs_enter(struct tutti *t, struct process_set *set)
{
    if (set->is_entered) {
        return TUTTI_OK;
    }
    if (!process_sets_enter(t, set)) {
        return no_memory();
    }
    wire_put_varint(messages_begin(t, MESSAGE_SET), set->id);
    return messages_send(t, set->world_ranks[1 - set->op.rank]);
}

/* There is nobody to wait for it. */
static void ignore(void *user, tutti_status status, const char *message)
{
    (void)user;
    (void)status;
    (void)message;
}

/* This rank has announced to the others that it finalizes before it knew of this one. */
static tutti_status finalize(struct tutti *t, tutti_process_set id)
{
    struct submission submission = { .collective = META_FINALIZE,
        .name = "finalize",
        .set = id,
        .meta = { .prescale = 1, .postscale = 1 },
        .callback = ignore };
    tutti_request none;

    return submit_queue(t, &submission, &none);
}

tutti_status pairs_receive(
        struct tutti *t, tutti_process_set id, int from, struct process_set **set)
{
    const tutti_process_set size = (tutti_process_set)t->size;
    const tutti_process_set number = id - PAIRS_FIRST_ID;
    const bool is_from = number == (tutti_process_set)from * size + (tutti_process_set)t->rank;
    tutti_status status;
    bool ends;

    if (!is_from &&
            number != (tutti_process_set)t->rank * size + (tutti_process_set)from) {
        return error_set(TUTTI_ERR_PROTOCOL,
                "rank %d sent a message for a pair of ranks that rank %d is not of",
                from, t->rank);
    }
    pthread_mutex_lock(&t->lock);
    ends = pairs_find(t, id) == NULL && t->sets.pairs.are_ending;
    status = is_from ? pairs_get(t, from, t->rank, set)
                     : pairs_get(t, t->rank, from, set);
    pthread_mutex_unlock(&t->lock);
    if (status != TUTTI_OK) {
        return status;
    }
    if (!(*set)->is_entered && !process_sets_enter(t, *set)) {
        return no_memory();
    }
    return ends ? finalize(t, id) : TUTTI_OK;
}

void pairs_fini(struct pairs *pairs, int world_size)
{
    for (int i = 0; pairs->made != NULL && i < 2 * world_size; i++) {
        if (pairs->made[i] != NULL && !pairs->made[i]->is_entered) {
            process_set_free(pairs->made[i]);
        }
    }
    mem_free(pairs->made);
    *pairs = (struct pairs){ 0 };
}
