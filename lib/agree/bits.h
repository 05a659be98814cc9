/*
 * Numbers as bits: each has a place while a tensor has it, and words of 64 places say who below
 * this node has announced them (numbers.c).
 */
#ifndef TUTTI_AGREE_BITS_H
#define TUTTI_AGREE_BITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tutti/tutti.h>

struct negotiator;
struct tensor_state;

/** Words that fit on a board; numbers beyond are announced by message. */
#define BITS_BOARD_WORDS 62

/** The words of 64 numbers; behind them heard[children] and seen[children]. */
struct bits_word {
    uint64_t live; /* numbers that a tensor has and that are not retired */
    uint64_t own; /* announced by this rank, and not decided */
    uint64_t reported; /* the parent knows that all of this subtree has */
    uint64_t single; /* collected member by member, until the round ends */
    uint64_t always; /* coordinator: ... in every round */
    uint64_t shown; /* on the board: a bit flips with each report */
    uint64_t heard[]; /* [children] announced by all of a child's subtree, not decided;
                         [children] what a child showed when it was last read */
};

/** Where a number is. */
struct bits_spot {
    struct bits_word *word;
    uint64_t bit;
};

/** Zeroed is valid: no number was given yet. */
struct bits {
    uint64_t places; /* numbers that can be in use; 0: none */
    size_t words; /* in use */
    struct bits_word *rows; /* [words], bits_row(); owned */
    struct tensor_state **at; /* [64 words] whose number it is, or NULL; owned */
    uint64_t *free_since; /* coordinator: [64 words] length of the log when it became
                             free; UINT64_MAX: it is taken; owned */
    uint64_t pace; /* the number whose uses are counted as steps; 0: the next one */
    bool dirty; /* own or heard have grown */
    bool few; /* in this flush so few are complete that their operands may travel */
};

/** The tensor of a number, or NULL (never given out, or retired). */
struct tensor_state *tensor_by_number(
        const struct negotiator *negotiator, uint64_t number);
/** True when the place of a number exists, and no tensor has it. */
bool bits_is_free(const struct negotiator *negotiator, uint64_t number);
/** False when out of memory. */
bool bits_add(struct negotiator *negotiator, struct tensor_state *tensor);
/** The number is retired: what was announced of it is void. */
void bits_remove(struct negotiator *negotiator, const struct tensor_state *tensor);
void bits_fini(struct negotiator *negotiator);

/** Coordinator: takes a place that all who had read `seen` of the log know to be free; 0: none. */
uint64_t bits_new_number(struct negotiator *negotiator, uint64_t seen);
/** Coordinator: the number was retired by the log so far, at that length. */
void bits_retire(struct negotiator *negotiator, const struct tensor_state *tensor,
        uint64_t log_length);

/** The rounds of numbers in a row are over. */
void bits_end_rounds(struct negotiator *negotiator, uint64_t first, uint64_t count);

/** A word in use. */
struct bits_word *bits_row(const struct negotiator *negotiator, size_t word);
/** What a child showed of it when it was last read. */
uint64_t *bits_seen_by(
        const struct negotiator *negotiator, struct bits_word *word, int child);
/** Where the number of a tensor is. */
struct bits_spot bits_spot_of(
        const struct negotiator *negotiator, const struct tensor_state *tensor);
/** For negotiator_is_valid(). */
bool bits_are_valid(const struct negotiator *negotiator);

#endif
