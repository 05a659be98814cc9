/*
 * Pairs: made when they are first used, by a submission or by a message of the other rank.
 */
#include "run/pairs.h"

#include "base/error.h"
#include "base/mem.h"
#include "run/context.h"
#include "run/process_set.h"

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

tutti_status pairs_no_memory(void)
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
        return pairs_no_memory();
    }
    place = place_of(t, sender, receiver);
    if (*place == NULL) {
        *place = make(t, sender, receiver);
    }
    *set = *place;
    return *place == NULL ? pairs_no_memory() : TUTTI_OK;
}

struct process_set *pairs_find(const struct tutti *t, tutti_process_set id)
{
    const int sender = (int)((id - PAIRS_FIRST_ID) / (tutti_process_set)t->size);
    const int receiver = (int)((id - PAIRS_FIRST_ID) % (tutti_process_set)t->size);

    return t->sets.pairs.made == NULL ? NULL : *place_of(t, sender, receiver);
}
