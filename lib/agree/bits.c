/*
 * Numbers in bulk: who has announced which, a word of 64 at a time.
 */
#include "agree/bits.h"

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

/** Where a number is. */
struct spot {
    struct bits_word *word;
    uint64_t bit;
};

static size_t row_size(const struct negotiator *negotiator)
{
    return sizeof(struct bits_word) +
            2 * (size_t)negotiator->tree.child_count * sizeof(uint64_t);
}

struct bits_word *bits_row(const struct negotiator *negotiator, size_t word)
{
    return (struct bits_word *)(void *)((char *)negotiator->bits.rows +
            word * row_size(negotiator));
}

static uint64_t *seen_of(
        const struct negotiator *negotiator, struct bits_word *word, int child)
{
    return &word->heard[negotiator->tree.child_count + child];
}

static uint64_t place_of(const struct negotiator *negotiator, uint64_t number)
{
    return number % negotiator->bits.places;
}

static struct spot spot_of(
        const struct negotiator *negotiator, const struct tensor_state *tensor)
{
    const uint64_t place = place_of(negotiator, tensor->number);

    return (struct spot){ bits_row(negotiator, (size_t)(place / 64)),
        UINT64_C(1) << (place % 64) };
}

/* -------------------------------------------------------------------- numbers */

static bool reserve(struct negotiator *negotiator, uint64_t place)
{
    struct bits *bits = &negotiator->bits;
    const size_t most = (size_t)((bits->places + 63) / 64);
    size_t wanted = bits->words;
    struct bits_place *at;
    struct bits_word *rows;

    while (wanted <= place / 64) {
        wanted = wanted == 0 ? 1 : 2 * wanted;
    }
    wanted = wanted < most ? wanted : most;
    if (wanted == bits->words) {
        return true;
    }
    at = mem_resize(bits->at, 64 * wanted, sizeof *at);
    if (at == NULL) {
        return false;
    }
    bits->at = at;
    rows = mem_resize(bits->rows, wanted, row_size(negotiator));
    if (rows == NULL) {
        return false;
    }
    bits->rows = rows;
    memset(&at[64 * bits->words], 0, 64 * (wanted - bits->words) * sizeof *at);
    memset(bits_row(negotiator, bits->words), 0,
            (wanted - bits->words) * row_size(negotiator));
    bits->words = wanted;
    return true;
}

struct tensor_state *tensor_by_number(
        const struct negotiator *negotiator, uint64_t number)
{
    const struct bits *bits = &negotiator->bits;
    struct tensor_state *tensor;
    uint64_t place;

    if (number == 0 || bits->places == 0) {
        return NULL;
    }
    place = place_of(negotiator, number);
    tensor = place < 64 * bits->words ? bits->at[place].tensor : NULL;
    return tensor != NULL && tensor->number == number ? tensor : NULL;
}

bool bits_is_free(const struct negotiator *negotiator, uint64_t number)
{
    const struct bits *bits = &negotiator->bits;

    return bits->places > 0 &&
            (place_of(negotiator, number) >= 64 * bits->words ||
                    bits->at[place_of(negotiator, number)].tensor == NULL);
}

bool bits_add(struct negotiator *negotiator, struct tensor_state *tensor)
{
    const uint64_t place = place_of(negotiator, tensor->number);
    struct spot at;

    if (!reserve(negotiator, place)) {
        return false;
    }
    negotiator->bits.at[place].tensor = tensor;
    at = spot_of(negotiator, tensor);
    at.word->live |= at.bit;
    if (tensor->tally != NULL &&
            (tensor->meta.group != 0 || tensor->tally->row_counts != NULL)) {
        at.word->always |= at.bit;
        at.word->single |= at.bit;
    }
    return true;
}

/* The rounds of some numbers of a word are over. */
static void unmark(
        const struct negotiator *negotiator, struct bits_word *word, uint64_t bits)
{
    word->own &= ~bits;
    word->reported &= ~bits;
    word->single = (word->single & ~bits) | (word->always & bits);
    for (int c = 0; c < negotiator->tree.child_count; c++) {
        word->heard[c] &= ~bits;
    }
}

void bits_remove(struct negotiator *negotiator, const struct tensor_state *tensor)
{
    const struct spot at = spot_of(negotiator, tensor);

    negotiator->bits.pace =
            negotiator->bits.pace == tensor->number ? 0 : negotiator->bits.pace;
    at.word->always &= ~at.bit;
    at.word->live &= ~at.bit;
    unmark(negotiator, at.word, at.bit);
    negotiator->bits.at[place_of(negotiator, tensor->number)].tensor = NULL;
}

void bits_fini(struct negotiator *negotiator)
{
    mem_free(negotiator->bits.rows);
    mem_free(negotiator->bits.at);
    negotiator->bits = (struct bits){ 0 };
}

uint64_t bits_new_number(struct negotiator *negotiator, uint64_t seen)
{
    struct bits *bits = &negotiator->bits;

    for (uint64_t i = 0; i < bits->places; i++) {
        const uint64_t number = negotiator->names.next_number;
        const uint64_t place = place_of(negotiator, number);

        if (!reserve(negotiator, place)) {
            return 0;
        }
        negotiator->names.next_number++;
        if (bits->at[place].free_since <= seen) {
            bits->at[place].free_since = UINT64_MAX;
            return number;
        }
    }
    return 0;
}

void bits_retire(struct negotiator *negotiator, const struct tensor_state *tensor,
        uint64_t log_length)
{
    const struct spot at = spot_of(negotiator, tensor);

    at.word->live &= ~at.bit;
    unmark(negotiator, at.word, at.bit);
    negotiator->bits.at[place_of(negotiator, tensor->number)].free_since = log_length;
}

/* -------------------------------------------------------------- announcements */

/* Some have left and others go on: each announcement counts by itself. */
static bool is_anybody_leaving(const struct negotiator *negotiator)
{
    return leaves_below(negotiator) || negotiator->joined.ways[LEAVE_JOIN].count > 0 ||
            negotiator->joined.ways[LEAVE_FINALIZE].count > 0;
}

static bool is_single(const struct negotiator *negotiator, struct spot at)
{
    return (at.word->single & at.bit) != 0 || is_anybody_leaving(negotiator);
}

tutti_status bits_announce(struct negotiator *negotiator, struct tensor_state *tensor)
{
    const struct spot at = spot_of(negotiator, tensor);

    if (is_single(negotiator, at)) {
        at.word->single |= at.bit;
        return number_collect(
                negotiator, tensor, ITEM_NUMBERS, negotiator->config.rank);
    }
    at.word->own |= at.bit;
    negotiator->bits.dirty = true;
    return TUTTI_OK;
}

tutti_status bits_receive(
        struct negotiator *negotiator, struct tensor_state *tensor, int child)
{
    const struct spot at = spot_of(negotiator, tensor);
    const int rank = negotiator->tree.children[child];

    if ((at.word->heard[child] & at.bit) != 0) {
        return error_set(TUTTI_ERR_PROTOCOL, "rank %d announced \"%s\" twice",
                world_rank(negotiator, rank), tensor->name);
    }
    if (is_single(negotiator, at)) {
        const tutti_status status = bits_single(negotiator, tensor);

        return status == TUTTI_OK
                ? number_collect(negotiator, tensor, ITEM_NUMBERS_SUBTREE, rank)
                : status;
    }
    at.word->heard[child] |= at.bit;
    negotiator->bits.dirty = true;
    return TUTTI_OK;
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

tutti_status bits_receive_operand(struct negotiator *negotiator,
        struct tensor_state *tensor, int from, const void *bytes, size_t len)
{
    const struct spot at = spot_of(negotiator, tensor);
    const tutti_status status = bits_receive(
            negotiator, tensor, tree_child_index(&negotiator->tree, from));

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

        status = bits_receive(negotiator, negotiator->bits.at[place].tensor, child);
    }
    return status;
}

tutti_status negotiator_shown(
        struct negotiator *negotiator, int child, size_t index, uint64_t shown)
{
    struct bits_word *word = bits_row(negotiator, index);
    uint64_t *seen = seen_of(negotiator, word, child);
    /* What flips of no live number was announced before it was retired. */
    const uint64_t numbers = (shown ^ *seen) & word->live;

    *seen = shown;
    if ((numbers & (word->single | word->heard[child])) != 0 ||
            is_anybody_leaving(negotiator)) {
        return receive_each(negotiator, child, index, numbers);
    }
    word->heard[child] |= numbers;
    negotiator->bits.dirty = true;
    return TUTTI_OK;
}

size_t negotiator_words(const struct negotiator *negotiator)
{
    const size_t words = negotiator->bits.words;

    return words < BITS_BOARD_WORDS ? words : BITS_BOARD_WORDS;
}

uint64_t negotiator_seen(const struct negotiator *negotiator, int child, size_t index)
{
    return *seen_of(negotiator, bits_row(negotiator, index), child);
}

/* ------------------------------------------------------------ member by member */


tutti_status bits_single(struct negotiator *negotiator, struct tensor_state *tensor)
{
    const struct spot at = spot_of(negotiator, tensor);
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
            status = number_note(
                    negotiator, tensor, ITEM_NUMBERS_SUBTREE, tree->children[c]);
        }
    }
    if (status == TUTTI_OK && (at.word->own & at.bit) != 0) {
        at.word->own &= ~at.bit;
        status = number_note(negotiator, tensor, ITEM_NUMBERS, tree->rank);
    }
    /* Only now: it may be complete, and somebody leave who has announced it. */
    return status == TUTTI_OK && is_coordinator(negotiator)
            ? decide_if_complete(negotiator, tensor)
            : status;
}

tutti_status bits_single_all(struct negotiator *negotiator)
{
    const struct tree *tree = &negotiator->tree;

    for (size_t w = 0; w < negotiator->bits.words; w++) {
        const struct bits_word *word = bits_row(negotiator, w);
        uint64_t any = word->own;

        for (int c = 0; c < tree->child_count; c++) {
            any |= word->heard[c];
        }
        for (; any != 0; any &= any - 1) {
            const size_t place = 64 * w + (size_t)__builtin_ctzll(any);
            const tutti_status status =
                    bits_single(negotiator, negotiator->bits.at[place].tensor);

            if (status != TUTTI_OK) {
                return status;
            }
        }
    }
    return TUTTI_OK;
}

void bits_end_rounds(struct negotiator *negotiator, uint64_t first, uint64_t count)
{
    while (count > 0) {
        const uint64_t place = place_of(negotiator, first);
        const uint64_t places = negotiator->bits.places - place;
        const uint64_t left = size_min(64 - place % 64, places);
        const uint64_t run = size_min(count, left);
        const uint64_t ones = run == 64 ? UINT64_MAX : (UINT64_C(1) << run) - 1;

        if (place / 64 < negotiator->bits.words) {
            unmark(negotiator, bits_row(negotiator, (size_t)(place / 64)),
                    ones << (place % 64));
        }
        first += run;
        count -= run;
    }
}

/* ------------------------------------------------------------------- the flush */

/* What all of this subtree has announced. */
static uint64_t complete(const struct negotiator *negotiator, const struct bits_word *word)
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
                      negotiator->config.user, tensor->own.local, bytes)
            : 0;

    return len * (size_t)negotiator->config.size <= NEGOTIATOR_OPERAND_BYTES ? len : 0;
}

static void send_number(struct negotiator *negotiator, const struct tensor_state *tensor)
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

        send_number(negotiator, negotiator->bits.at[place].tensor);
    }
    return TUTTI_OK;
}

/* Ready; with the operands, when those of all members are here. */
static void decide_number(struct negotiator *negotiator, struct tensor_state *tensor)
{
    struct operands *operands = tensor->tally->operands;
    const void *bytes = NULL;

    if (operands != NULL && operands->count + 1 == negotiator->config.size &&
            operand_of(negotiator, tensor, &bytes) == operands->len &&
            negotiator->outbox.down.len + operands->len * (size_t)negotiator->config.size <=
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

        decide_number(negotiator, negotiator->bits.at[place].tensor);
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

tutti_status bits_flush(struct negotiator *negotiator)
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

/* Marks of numbers that nobody has would never be taken away. */
bool bits_are_valid(const struct negotiator *negotiator)
{
    for (size_t w = 0; w < negotiator->bits.words; w++) {
        const struct bits_word *word = bits_row(negotiator, w);
        uint64_t any = word->own | word->reported | word->single | word->always;

        for (int c = 0; c < negotiator->tree.child_count; c++) {
            any |= word->heard[c];
        }
        for (int b = 0; b < 64; b++) {
            const struct tensor_state *tensor = negotiator->bits.at[64 * w + (size_t)b].tensor;
            const uint64_t bit = UINT64_C(1) << b;

            if (tensor == NULL ? (any & bit) != 0
                               : tensor_by_number(negotiator, tensor->number) != tensor ||
                                    ((word->own & bit) != 0 && !tensor->own.by_number)) {
                return false;
            }
        }
    }
    return true;
}
