/*
 * A set of ranks in 64-bit words.
 */
#include "base/bitset.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"

enum {
    WORD_BITS = 64
};

static size_t bitset_words(const struct bitset *set)
{
    return ((size_t)set->bits + WORD_BITS - 1) / WORD_BITS;
}

static size_t word_of(const struct bitset *set, int member)
{
    assert(member >= 0 && member < set->bits);
    (void)set;
    return (size_t)member / WORD_BITS;
}

static uint64_t mask_of(int member)
{
    return UINT64_C(1) << ((unsigned)member % WORD_BITS);
}

bool bitset_init(struct bitset *set, int bits)
{
    struct bitset empty = { .words = NULL, .bits = bits };

    if (bits > 0) {
        empty.words = mem_calloc(bitset_words(&empty), sizeof *empty.words);
        if (empty.words == NULL) {
            return false;
        }
    }
    *set = empty;
    return true;
}

void bitset_fini(struct bitset *set)
{
    mem_free(set->words);
    *set = (struct bitset){ .words = NULL };
}

void bitset_clear(struct bitset *set)
{
    if (set->bits > 0) {
        memset(set->words, 0, bitset_words(set) * sizeof *set->words);
    }
}

void bitset_add(struct bitset *set, int member)
{
    set->words[word_of(set, member)] |= mask_of(member);
}

void bitset_remove(struct bitset *set, int member)
{
    set->words[word_of(set, member)] &= ~mask_of(member);
}

bool bitset_has(const struct bitset *set, int member)
{
    return (set->words[word_of(set, member)] & mask_of(member)) != 0;
}

int bitset_count(const struct bitset *set)
{
    int count = 0;
    size_t i;

    for (i = 0; i < bitset_words(set); i++) {
        count += __builtin_popcountll(set->words[i]);
    }
    return count;
}

bool bitset_is_empty(const struct bitset *set)
{
    for (size_t i = 0; i < bitset_words(set); i++) {
        if (set->words[i] != 0) {
            return false;
        }
    }
    return true;
}

void bitset_copy(struct bitset *to, const struct bitset *from)
{
    assert(to->bits == from->bits);
    if (from->bits > 0) {
        memcpy(to->words, from->words, bitset_words(from) * sizeof *to->words);
    }
}

/* Of the word `index`, the bits of the members `first` to `last`, some of which it holds. */
static uint64_t mask_in_word(size_t index, int first, int last)
{
    const int begin = (int)index * WORD_BITS;
    const int low = first > begin ? first - begin : 0;
    const int high = last < begin + WORD_BITS ? last - begin : WORD_BITS - 1;

    return (UINT64_MAX << low) & (UINT64_MAX >> (WORD_BITS - 1 - high));
}

bool bitset_has_any(const struct bitset *set, int first, int last)
{
    const size_t end = word_of(set, last);

    for (size_t i = word_of(set, first); i <= end; i++) {
        if ((set->words[i] & mask_in_word(i, first, last)) != 0) {
            return true;
        }
    }
    return false;
}

void bitset_add_range(struct bitset *set, int first, int last)
{
    const size_t end = word_of(set, last);

    for (size_t i = word_of(set, first); i <= end; i++) {
        set->words[i] |= mask_in_word(i, first, last);
    }
}

/* The lowest member at or above `from`, or `bits` when there is none. */
static int bitset_next(const struct bitset *set, int from)
{
    while (from < set->bits && !bitset_has(set, from)) {
        from++;
    }
    return from;
}

static int translated(const int *translate, int member)
{
    return translate != NULL ? translate[member] : member;
}

/* The last member of the range that starts at `first`. */
static int range_end(const struct bitset *set, const int *translate, int first)
{
    int last = first;
    int next = bitset_next(set, first + 1);

    while (next < set->bits &&
            translated(translate, next) == translated(translate, last) + 1) {
        last = next;
        next = bitset_next(set, last + 1);
    }
    return last;
}

/* Writes "9" or "2-5" after what separates it from the item before. */
static size_t item_format(
        char *item, size_t capacity, const char *separator, int first, int last)
{
    int len = first == last
            ? snprintf(item, capacity, "%s%d", separator, first)
            : snprintf(item, capacity, "%s%d-%d", separator, first, last);

    return len < 0 ? 0 : (size_t)len;
}

char *bitset_format(
        const struct bitset *set, const int *translate, char *text, size_t capacity)
{
    static const char cut[] = ", ...";
    int first = bitset_next(set, 0);
    size_t used = 0;

    if (capacity == 0) {
        return text;
    }
    text[0] = '\0';
    while (first < set->bits) {
        int last = range_end(set, translate, first);
        int next = bitset_next(set, last + 1);
        /* Whatever is not last leaves room to say that something follows. */
        size_t reserve = next < set->bits ? sizeof cut - 1 : 0;
        char item[32];
        size_t len = item_format(item, sizeof item, used > 0 ? ", " : "",
                translated(translate, first), translated(translate, last));

        if (used + len + reserve >= capacity) {
            (void)snprintf(
                    text + used, capacity - used, "%s", used > 0 ? cut : cut + 2);
            break;
        }
        memcpy(text + used, item, len + 1);
        used += len;
        first = next;
    }
    return text;
}
