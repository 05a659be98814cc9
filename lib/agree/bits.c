/*
 * Where numbers are: the place of each, and the words of 64 places.
 */
#include "agree/bits.h"

#include <string.h>

#include "agree/negotiator.h"
#include "base/mem.h"

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

uint64_t *bits_seen_by(
        const struct negotiator *negotiator, struct bits_word *word, int child)
{
    return &word->heard[negotiator->tree.child_count + child];
}

static uint64_t place_of(const struct negotiator *negotiator, uint64_t number)
{
    return number % negotiator->bits.places;
}

struct bits_spot bits_spot_of(
        const struct negotiator *negotiator, const struct tensor_state *tensor)
{
    const uint64_t place = place_of(negotiator, tensor->number);

    return (struct bits_spot){ bits_row(negotiator, (size_t)(place / 64)),
        UINT64_C(1) << (place % 64) };
}

/* -------------------------------------------------------------------- numbers */

static bool reserve_places(struct negotiator *negotiator, size_t words)
{
    struct bits *bits = &negotiator->bits;
    const size_t more = 64 * (words - bits->words);
    struct tensor_state **at = mem_resize(bits->at, 64 * words, sizeof *at);
    uint64_t *free_since;

    if (at == NULL) {
        return false;
    }
    bits->at = at;
    memset(&at[64 * bits->words], 0, more * sizeof *at);
    if (!is_coordinator(negotiator)) {
        return true;
    }
    free_since = mem_resize(bits->free_since, 64 * words, sizeof *free_since);
    if (free_since == NULL) {
        return false;
    }
    bits->free_since = free_since;
    memset(&free_since[64 * bits->words], 0, more * sizeof *free_since);
    return true;
}

static bool reserve(struct negotiator *negotiator, uint64_t place)
{
    struct bits *bits = &negotiator->bits;
    const size_t most = (size_t)((bits->places + 63) / 64);
    size_t wanted = bits->words;
    struct bits_word *rows;

    while (wanted <= place / 64) {
        wanted = wanted == 0 ? 1 : 2 * wanted;
    }
    wanted = wanted < most ? wanted : most;
    if (wanted == bits->words) {
        return true;
    }
    if (!reserve_places(negotiator, wanted)) {
        return false;
    }
    rows = mem_resize(bits->rows, wanted, row_size(negotiator));
    if (rows == NULL) {
        return false;
    }
    bits->rows = rows;
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
    tensor = place < 64 * bits->words ? bits->at[place] : NULL;
    return tensor != NULL && tensor->number == number ? tensor : NULL;
}

bool bits_is_free(const struct negotiator *negotiator, uint64_t number)
{
    const struct bits *bits = &negotiator->bits;

    return bits->places > 0 &&
            (place_of(negotiator, number) >= 64 * bits->words ||
                    bits->at[place_of(negotiator, number)] == NULL);
}

bool bits_add(struct negotiator *negotiator, struct tensor_state *tensor)
{
    const uint64_t place = place_of(negotiator, tensor->number);
    struct bits_spot at;

    if (!reserve(negotiator, place)) {
        return false;
    }
    negotiator->bits.at[place] = tensor;
    at = bits_spot_of(negotiator, tensor);
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
    const struct bits_spot at = bits_spot_of(negotiator, tensor);

    negotiator->bits.pace =
            negotiator->bits.pace == tensor->number ? 0 : negotiator->bits.pace;
    at.word->always &= ~at.bit;
    at.word->live &= ~at.bit;
    unmark(negotiator, at.word, at.bit);
    negotiator->bits.at[place_of(negotiator, tensor->number)] = NULL;
}

void bits_fini(struct negotiator *negotiator)
{
    mem_free(negotiator->bits.rows);
    mem_free(negotiator->bits.at);
    mem_free(negotiator->bits.free_since);
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
        if (bits->free_since[place] <= seen) {
            bits->free_since[place] = UINT64_MAX;
            return number;
        }
    }
    return 0;
}

void bits_retire(struct negotiator *negotiator, const struct tensor_state *tensor,
        uint64_t log_length)
{
    const struct bits_spot at = bits_spot_of(negotiator, tensor);

    at.word->live &= ~at.bit;
    unmark(negotiator, at.word, at.bit);
    negotiator->bits.free_since[place_of(negotiator, tensor->number)] = log_length;
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

/* All that is noted of a word. */
static uint64_t noted(const struct negotiator *negotiator, const struct bits_word *word)
{
    uint64_t any = word->own | word->reported | word->single | word->always;

    for (int c = 0; c < negotiator->tree.child_count; c++) {
        any |= word->heard[c];
    }
    return any;
}

/* Marks of numbers that nobody has would never be taken away. */
static bool place_is_valid(const struct negotiator *negotiator, size_t place)
{
    const struct bits_word *word = bits_row(negotiator, place / 64);
    const struct tensor_state *tensor = negotiator->bits.at[place];
    const uint64_t bit = UINT64_C(1) << place % 64;

    if (tensor == NULL) {
        return (noted(negotiator, word) & bit) == 0;
    }
    return tensor_by_number(negotiator, tensor->number) == tensor &&
            ((word->own & bit) == 0 || tensor->round.by_number);
}

bool bits_are_valid(const struct negotiator *negotiator)
{
    for (size_t p = 0; p < 64 * negotiator->bits.words; p++) {
        if (!place_is_valid(negotiator, p)) {
            return false;
        }
    }
    return true;
}
