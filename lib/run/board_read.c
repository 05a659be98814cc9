/*
 * Reads the board: the words of the children, and the log messages of the parent.
 */
#include "run/board_read.h"

#include "run/context.h"
#include "run/process_set.h"

static tutti_status read_child(struct tutti *t, struct process_set *set, int child)
{
    struct negotiator *negotiator = &set->negotiator;
    const size_t count = negotiator_words(negotiator);
    uint64_t words[BOARD_WORDS];
    tutti_status status = TUTTI_OK;

    if (!t->peers.board.shown(t->peers.board.state, &set->op,
                negotiator->tree.children[child], words, count)) {
        return TUTTI_OK;
    }
    for (size_t i = 0; i < count && status == TUTTI_OK; i++) {
        if (words[i] != negotiator_seen(negotiator, child, i)) {
            set->dirty = true;
            status = negotiator_shown(negotiator, child, i, words[i]);
        }
    }
    return status;
}

static tutti_status read_parent(struct tutti *t, struct process_set *set)
{
    struct negotiator *negotiator = &set->negotiator;
    const int parent = negotiator->tree.parent;
    uint8_t bytes[BOARD_MESSAGE_BYTES];
    tutti_status status = TUTTI_OK;
    size_t len;

    while (status == TUTTI_OK &&
            (len = t->peers.board.read(t->peers.board.state, &set->op, parent,
                     negotiator->log.messages, bytes)) > 0) {
        set->dirty = true;
        status = negotiator_receive(negotiator, parent, bytes, len);
    }
    return status;
}

tutti_status board_read(struct tutti *t, struct process_set *set)
{
    struct negotiator *negotiator = &set->negotiator;
    const struct tree *tree = &negotiator->tree;
    tutti_status status = TUTTI_OK;

    if (!negotiator->config.board) {
        return TUTTI_OK;
    }
    negotiator->now_ns = t->engine.now_ns;
    if (tree->parent_is_near) {
        status = read_parent(t, set);
    }
    for (int c = 0; c < tree->child_count && status == TUTTI_OK; c++) {
        if (tree->child_is_near[c]) {
            status = read_child(t, set, c);
        }
    }
    return status;
}
