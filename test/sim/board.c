/*
 * The boards: what the ranks of a node show each other in shared memory.
 *
 * A parent sees each word of a child late, but never an older value after a newer one; words
 * that were written in one order may be seen in another. What a child wrote before it sent a
 * message is seen before the message is received. Log messages are read in their order, also
 * when some of them come as messages. Of a set in which nothing is in a round nothing is read.
 */
#include "agree/protocol.h"
#include "grow.h"
#include "world.h"

void board_show(struct sim_member *member, size_t index, uint64_t value)
{
    struct board *board = &member->board;

    board->words = sim_grow(board->words, board->word_count, sizeof *board->words);
    board->words[board->word_count++] =
            (struct shown){ .index = index, .value = value };
}

/* The index of the first entry of a log message. */
static uint64_t log_index(const uint8_t *bytes, size_t len)
{
    struct wire_reader in;

    wire_reader_init(&in, bytes, len);
    (void)wire_get_u8(&in);
    return wire_get_u64(&in);
}

void board_log(struct sim_member *member, const uint8_t *bytes, size_t len)
{
    struct board *board = &member->board;
    struct ring_entry *entry;

    board->ring = sim_grow(board->ring, board->ring_count, sizeof *board->ring);
    entry = &board->ring[board->ring_count++];
    entry->index = log_index(bytes, len);
    entry->len = len;
    entry->bytes = sim_alloc(len, 1);
    memcpy(entry->bytes, bytes, len);
}

void board_fini(struct board *board)
{
    for (int i = 0; i < board->ring_count; i++) {
        free(board->ring[i].bytes);
    }
    free(board->ring);
    free(board->words);
}

/* -------------------------------------------------------------------- reading */

/* Reads a word of a child as it was after `until` of all that this showed. */
static bool read_word(struct world *world, struct sim_member *member, int child,
        size_t index, int until)
{
    struct board *board =
            &world->members[member->set][member->negotiator.tree.children[child]].board;
    uint64_t value = negotiator_seen(&member->negotiator, child, index);
    const uint64_t before = value;

    for (; board->seen[index] < until; board->seen[index]++) {
        if (board->words[board->seen[index]].index == index) {
            value = board->words[board->seen[index]].value;
        }
    }
    if (value == before) {
        return false;
    }
    world_log(world, "rank %d, set %d: reads %llx in word %zu of member %d",
            member->rank, member->set, (unsigned long long)value, index,
            member->negotiator.tree.children[child]);
    world_touch(world, member);
    world_check_event(world, member,
            negotiator_shown(&member->negotiator, child, index, value), "shown");
    return true;
}

/* The next log message of a parent of the node, if its index is below `limit`. */
static bool read_log(struct world *world, struct sim_member *member, uint64_t limit)
{
    struct negotiator *n = &member->negotiator;
    const struct ring_entry *entry;
    const struct board *board;

    if (!n->config.board || !n->tree.parent_is_near) {
        return false;
    }
    board = &world->members[member->set][n->tree.parent].board;
    entry = &board->ring[member->ring_read];
    if (member->ring_read == board->ring_count || entry->index != n->log.length ||
            entry->index >= limit) {
        return false;
    }
    member->ring_read++;
    world_log(world, "rank %d, set %d: reads a log message of %zu bytes", member->rank,
            member->set, entry->len);
    world_touch(world, member);
    world_check_event(world, member,
            negotiator_receive(n, n->tree.parent, entry->bytes, entry->len), "log");
    return true;
}

static bool read_children(struct world *world, struct sim_member *member, bool closely)
{
    const struct negotiator *n = &member->negotiator;
    const int count = n->tree.child_count * (int)negotiator_words(n);
    const int start = count > 0 ? rng_below(&world->rng, count) : 0;

    for (int i = 0; i < count && n->config.board; i++) {
        const int child = (start + i) % count % n->tree.child_count;
        const size_t index = (size_t)((start + i) % count / n->tree.child_count);
        const struct board *board =
                &world->members[member->set][n->tree.children[child]].board;
        const int late = board->word_count - board->seen[index];
        const int until =
                board->word_count - (closely ? 0 : rng_below(&world->rng, late + 1));

        if (n->tree.child_is_near[child] &&
                read_word(world, member, child, index, until)) {
            return true;
        }
    }
    return false;
}

static bool is_watched(const struct sim_rank *rank, const struct sim_member *member)
{
    return rank_is_awake(rank) && member->negotiator.names.active.first != NULL;
}

static bool look(struct world *world, int rank, bool closely, bool asleep)
{
    const struct sim_rank *r = &world->ranks[rank];
    const int sets = world->scenario->set_count;
    const int start = rng_below(&world->rng, sets);
    const bool dozes =
            rank % 3 == 1 && rng_chance(&world->rng, world->scenario->slow_chance);

    if (dozes && !closely) {
        return false;
    }
    for (int s = 0; s < sets && !r->dead; s++) {
        struct sim_member *member = r->members[(start + s) % sets];

        if (member != NULL && (asleep || is_watched(r, member)) &&
                (read_children(world, member, closely) ||
                        read_log(world, member, UINT64_MAX))) {
            return true;
        }
    }
    return false;
}

bool board_look(struct world *world, int rank)
{
    return look(world, rank, false, false);
}

bool board_look_closely(struct world *world, int rank)
{
    return look(world, rank, true, false);
}

bool board_look_asleep(struct world *world, int rank)
{
    return look(world, rank, true, true);
}

void board_read_before(
        struct world *world, struct sim_member *member, const struct message *message)
{
    const struct negotiator *n = &member->negotiator;
    const int from = world->scenario->sets[member->set].member_of[message->from];
    const int child = tree_child_index(&n->tree, from);

    if (child >= 0 && n->tree.child_is_near[child] && n->config.board) {
        for (size_t i = 0; i < negotiator_words(n) && !world->stop; i++) {
            (void)read_word(world, member, child, i, message->shown);
        }
    }
    if (message->len > 0 && message->bytes[0] == KIND_LOG) {
        const uint64_t index = log_index(message->bytes, message->len);

        while (!world->stop && read_log(world, member, index)) {
        }
    }
}
