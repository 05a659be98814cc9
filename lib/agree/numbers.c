/*
 * Announcements of numbers, on their way up the tree: in bulk, a word of 64 at a time, or member
 * by member.
 */
#include "agree/numbers.h"

#include <string.h>

#include "agree/announce.h"
#include "agree/joined.h"
#include "agree/log.h"
#include "agree/names.h"
#include "agree/protocol.h"
#include "agree/tally.h"
#include "base/mem.h"

/* Numbers that a flush announces or decides with their operands. */
#define FEW_MAX 8

/* A number of `rank`, or of all of its subtree (by tag), which is collected member by member. */
static tutti_status note(struct negotiator *negotiator, struct tensor_state *tensor,
        uint8_t tag, int rank)
{
    const struct tree *tree = &negotiator->tree;
    int bit;

    if (is_coordinator(negotiator)) {
        return coordinator_number(negotiator, tensor, tag, rank);
    }
    tensor_activate(negotiator, tensor);
    if (leaves_below(negotiator)) {
        announce_split(negotiator, tensor);
    }
    bit = rank == tree->rank ? tree->child_count : tree_child_index(tree, rank);
    if (!tensor->round.split &&
            (bit < 0 || (tag == ITEM_NUMBERS && rank != tree->rank))) {
        /* Somebody below has split: its parts cannot be held. */
        announce_split(negotiator, tensor);
    }
    if (tensor->round.split) {
        run_put(negotiator, tag, rank, tensor->number);
        return TUTTI_OK;
    }
    return hold_number(negotiator, tensor, bit);
}

/* The same; the coordinator decides what is complete by it. */
static tutti_status collect(struct negotiator *negotiator, struct tensor_state *tensor,
        uint8_t tag, int rank)
{
    const tutti_status status = note(negotiator, tensor, tag, rank);

    return status == TUTTI_OK && is_coordinator(negotiator)
            ? decide_if_complete(negotiator, tensor)
            : status;
}

/* -------------------------------------------------------------- announcements */

/* Some have left and others go on: each announcement counts by itself. */
static bool is_anybody_leaving(const struct negotiator *negotiator)
{
    return leaves_below(negotiator) || negotiator->joined.ways[LEAVE_JOIN].count > 0 ||
            negotiator->joined.ways[LEAVE_FINALIZE].count > 0;
}

static bool is_single(const struct negotiator *negotiator, struct bits_spot at)
{
    return (at.word->single & at.bit) != 0 || is_anybody_leaving(negotiator);
}

tutti_status numbers_announce(
        struct negotiator *negotiator, struct tensor_state *tensor)
{
    const struct bits_spot at = bits_spot_of(negotiator, tensor);

    if (is_single(negotiator, at)) {
        at.word->single |= at.bit;
        return collect(negotiator, tensor, ITEM_NUMBERS, negotiator->config.rank);
    }
    at.word->own |= at.bit;
    negotiator->bits.dirty = true;
    return TUTTI_OK;
}

/* All of a child's subtree has announced it. */
static tutti_status receive_bit(
        struct negotiator *negotiator, struct tensor_state *tensor, int child)
{
    const struct bits_spot at = bits_spot_of(negotiator, tensor);
    const int rank = negotiator->tree.children[child];

    if ((at.word->heard[child] & at.bit) != 0) {
        return error_set(TUTTI_ERR_PROTOCOL, "rank %d announced \"%s\" twice",
                world_rank(negotiator, rank), tensor->name);
    }
    if (is_single(negotiator, at)) {
        const tutti_status status = numbers_single(negotiator, tensor);

        return status == TUTTI_OK
                ? collect(negotiator, tensor, ITEM_NUMBERS_SUBTREE, rank)
                : status;
    }
    at.word->heard[child] |= at.bit;
    negotiator->bits.dirty = true;
    return TUTTI_OK;
}

tutti_status numbers_receive(struct negotiator *negotiator, struct tensor_state *tensor,
        uint8_t tag, int rank, int from)
{
    tutti_status status;

    if (tag == ITEM_NUMBERS_SUBTREE && rank == from) {
        return receive_bit(
                negotiator, tensor, tree_child_index(&negotiator->tree, from));
    }
    status = numbers_single(negotiator, tensor);
    return status == TUTTI_OK ? collect(negotiator, tensor, tag, rank) : status;
}

static void operands_end(const struct tensor_state *tensor)
{
    if (tensor->tally != NULL && tensor->tally->operands != NULL) {
        tensor->tally->operands->count = 0;
    }
}

/* Keeps an operand by its rank; NULL: no memory. */
static struct operands *keep_operand(const struct negotiator *negotiator,
        struct tally *tally, int rank, const void *bytes, size_t len)
{
    struct operands *operands = tally->operands;

    if (operands == NULL || operands->len != len) {
        operands = mem_resize(tally->operands, 1,
                sizeof *operands + (size_t)negotiator->config.size * len);
        if (operands == NULL) {
            return NULL;
        }
        operands->len = len;
        operands->count = 0;
        tally->operands = operands;
    }
    memcpy(operands->bytes + (size_t)rank * len, bytes, len);
    operands->count++;
    return operands;
}

tutti_status numbers_receive_operand(struct negotiator *negotiator,
        struct tensor_state *tensor, int from, const void *bytes, size_t len)
{
    const struct bits_spot at = bits_spot_of(negotiator, tensor);
    const tutti_status status =
            receive_bit(negotiator, tensor, tree_child_index(&negotiator->tree, from));

    if (status != TUTTI_OK || (at.word->single & at.bit) != 0) {
        return status;
    }
    return keep_operand(negotiator, tensor->tally, from, bytes, len) != NULL
            ? TUTTI_OK
            : no_memory_for(tensor->name, tensor->name_len);
}

/* Numbers of a word, one by one. */
static tutti_status receive_each(
        struct negotiator *negotiator, int child, size_t index, uint64_t numbers)
{
    tutti_status status = TUTTI_OK;

    for (; numbers != 0 && status == TUTTI_OK; numbers &= numbers - 1) {
        const size_t place = 64 * index + (size_t)__builtin_ctzll(numbers);

        /* One before it may have failed with its group, whose numbers are retired. */
        if ((bits_row(negotiator, index)->live & numbers & -numbers) != 0) {
            status = receive_bit(negotiator, negotiator->bits.at[place], child);
        }
    }
    return status;
}

/* All of a child's subtree has announced these live numbers of a word. */
static tutti_status receive_word(
        struct negotiator *negotiator, int child, size_t index, uint64_t numbers)
{
    struct bits_word *word = bits_row(negotiator, index);

    if ((numbers & (word->single | word->heard[child])) != 0 ||
            is_anybody_leaving(negotiator)) {
        return receive_each(negotiator, child, index, numbers);
    }
    word->heard[child] |= numbers;
    negotiator->bits.dirty = true;
    return TUTTI_OK;
}

tutti_status negotiator_shown(
        struct negotiator *negotiator, int child, size_t index, uint64_t shown)
{
    struct bits_word *word = bits_row(negotiator, index);
    uint64_t *seen = bits_seen_by(negotiator, word, child);
    /* What flips of no live number was announced before it was retired. */
    const uint64_t numbers = (shown ^ *seen) & word->live;

    *seen = shown;
    return receive_word(negotiator, child, index, numbers);
}

/* Which of numbers in a row, whose places are of one word, are live. */
static uint64_t live_numbers(
        const struct negotiator *negotiator, uint64_t first, uint64_t count)
{
    const struct bits *bits = &negotiator->bits;
    const uint64_t place = first % bits->places;
    uint64_t numbers = 0;

    if (place / 64 >= bits->words) {
        return 0;
    }
    for (uint64_t i = 0; i < count; i++) {
        const struct tensor_state *tensor = bits->at[place + i];

        numbers |= (uint64_t)(tensor != NULL && tensor->number == first + i)
                << (place % 64 + i);
    }
    return numbers & bits_row(negotiator, (size_t)(place / 64))->live;
}

tutti_status numbers_receive_run(
        struct negotiator *negotiator, int child, uint64_t first, uint64_t count)
{
    const uint64_t places = negotiator->bits.places;
    tutti_status status = TUTTI_OK;

    while (count > 0 && status == TUTTI_OK) {
        const uint64_t place = first % places;
        const uint64_t run = size_min(count, size_min(64 - place % 64, places - place));
        const uint64_t numbers = live_numbers(negotiator, first, run);

        if (numbers != 0) {
            status = receive_word(negotiator, child, (size_t)(place / 64), numbers);
        }
        first += run;
        count -= run;
    }
    return status;
}

size_t negotiator_words(const struct negotiator *negotiator)
{
    const size_t words = negotiator->bits.words;

    return words < BITS_BOARD_WORDS ? words : BITS_BOARD_WORDS;
}

uint64_t negotiator_seen(const struct negotiator *negotiator, int child, size_t index)
{
    return *bits_seen_by(negotiator, bits_row(negotiator, index), child);
}

/* ------------------------------------------------------------ member by member */

tutti_status numbers_single(struct negotiator *negotiator, struct tensor_state *tensor)
{
    const struct bits_spot at = bits_spot_of(negotiator, tensor);
    const struct tree *tree = &negotiator->tree;
    tutti_status status = TUTTI_OK;

    if ((at.word->single & at.bit) != 0) {
        return TUTTI_OK;
    }
    at.word->single |= at.bit;
    operands_end(tensor);
    if ((at.word->reported & at.bit) != 0) {
        return TUTTI_OK; /* nothing more comes from here */
    }
    for (int c = 0; c < tree->child_count && status == TUTTI_OK; c++) {
        if ((at.word->heard[c] & at.bit) != 0) {
            at.word->heard[c] &= ~at.bit;
            status = note(negotiator, tensor, ITEM_NUMBERS_SUBTREE, tree->children[c]);
        }
    }
    if (status == TUTTI_OK && (at.word->own & at.bit) != 0) {
        at.word->own &= ~at.bit;
        status = note(negotiator, tensor, ITEM_NUMBERS, tree->rank);
    }
    /* Only now: it may be complete, and somebody leave who has announced it. */
    return status == TUTTI_OK && is_coordinator(negotiator)
            ? decide_if_complete(negotiator, tensor)
            : status;
}

/* What a word notes of announcements, which is to be handed over. */
static uint64_t announced(const struct negotiator *negotiator, size_t index)
{
    const struct bits_word *word = bits_row(negotiator, index);
    uint64_t any = word->own;

    for (int c = 0; c < negotiator->tree.child_count; c++) {
        any |= word->heard[c];
    }
    return any;
}

tutti_status numbers_single_all(struct negotiator *negotiator)
{
    tutti_status status = TUTTI_OK;

    for (size_t w = 0; w < negotiator->bits.words; w++) {
        for (uint64_t left = announced(negotiator, w); left != 0 && status == TUTTI_OK;
                left &= left - 1) {
            const size_t place = 64 * w + (size_t)__builtin_ctzll(left);

            status = numbers_single(negotiator, negotiator->bits.at[place]);
        }
    }
    return status;
}

/* ------------------------------------------------------------------- the flush */

/* What all of this subtree has announced. */
static uint64_t complete(
        const struct negotiator *negotiator, const struct bits_word *word)
{
    uint64_t all = word->own & ~word->reported;

    for (int c = 0; c < negotiator->tree.child_count; c++) {
        all &= word->heard[c];
    }
    return all;
}

/* What this rank gives to a tensor, if that may travel with the agreement; else 0. */
static size_t operand_of(const struct negotiator *negotiator,
        const struct tensor_state *tensor, const void **bytes)
{
    const size_t len = negotiator->bits.few && negotiator->config.operand != NULL
            ? negotiator->config.operand(
                      negotiator->config.user, tensor->round.local, bytes)
            : 0;

    return len * (size_t)negotiator->config.size <= NEGOTIATOR_OPERAND_BYTES ? len : 0;
}

static void send_number(
        struct negotiator *negotiator, const struct tensor_state *tensor)
{
    const void *bytes = NULL;
    const size_t len = operand_of(negotiator, tensor, &bytes);
    struct wire_writer *out;

    if (len == 0 || negotiator->outbox.up.len + len > NEGOTIATOR_OPERAND_BYTES) {
        run_put(negotiator, ITEM_NUMBERS_SUBTREE, negotiator->config.rank,
                tensor->number);
        return;
    }
    out = record_open(negotiator, ITEM_OPERAND);
    wire_put_varint(out, tensor->number);
    wire_put_str(out, bytes, len);
}

/* The parent reads the board. */
static bool is_on_board(const struct negotiator *negotiator, size_t index)
{
    return negotiator->config.board && negotiator->tree.parent_is_near &&
            index < BITS_BOARD_WORDS;
}

static tutti_status report(struct negotiator *negotiator, size_t index)
{
    struct bits_word *word = bits_row(negotiator, index);
    uint64_t numbers = complete(negotiator, word);

    word->reported |= numbers;
    if (is_on_board(negotiator, index)) {
        word->shown ^= numbers;
        return numbers != 0 ? action_show(negotiator, index, word->shown) : TUTTI_OK;
    }
    for (; numbers != 0; numbers &= numbers - 1) {
        const size_t place = 64 * index + (size_t)__builtin_ctzll(numbers);

        send_number(negotiator, negotiator->bits.at[place]);
    }
    return TUTTI_OK;
}

/* Ready; with the operands, when those of all members are here. */
static void decide_number(struct negotiator *negotiator, struct tensor_state *tensor)
{
    struct operands *operands = tensor->tally->operands;
    const void *bytes = NULL;

    if (operands != NULL && operands->count + 1 == negotiator->config.size &&
            operand_of(negotiator, tensor, &bytes) == operands->len && bytes != NULL &&
            negotiator->outbox.down.len +
                            operands->len * (size_t)negotiator->config.size <=
                    NEGOTIATOR_OPERAND_BYTES) {
        memcpy(operands->bytes, bytes, operands->len);
        append_operands(negotiator, tensor);
    } else {
        append_number(negotiator, tensor);
    }
    operands_end(tensor);
}

static void decide(struct negotiator *negotiator, size_t index)
{
    const struct bits_word *word = bits_row(negotiator, index);

    for (uint64_t left = complete(negotiator, word); left != 0; left &= left - 1) {
        const size_t place = 64 * index + (size_t)__builtin_ctzll(left);

        decide_number(negotiator, negotiator->bits.at[place]);
    }
}

/* Of many at once operands do not travel: fused they are exchanged faster. */
static bool are_few(const struct negotiator *negotiator)
{
    int count = 0;

    for (size_t w = 0; w < negotiator->bits.words; w++) {
        count += __builtin_popcountll(complete(negotiator, bits_row(negotiator, w)));
    }
    return count <= FEW_MAX;
}

tutti_status numbers_flush(struct negotiator *negotiator)
{
    tutti_status status = TUTTI_OK;

    if (!negotiator->bits.dirty) {
        return TUTTI_OK;
    }
    negotiator->bits.dirty = false;
    negotiator->bits.few = negotiator->config.operand != NULL && are_few(negotiator);
    for (size_t w = 0; w < negotiator->bits.words && status == TUTTI_OK; w++) {
        if (is_coordinator(negotiator)) {
            decide(negotiator, w);
        } else {
            status = report(negotiator, w);
        }
    }
    return status;
}
