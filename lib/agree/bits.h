/*
 * Numbers in bulk: a bit for each, in the place that the number has while a tensor holds it.
 *
 * Almost every announcement is of a number that all members announce in the same way. Of these
 * a node only notes who below it has announced them, a word of 64 at a time: `own` for itself
 * and `heard` for each child, when the child's whole subtree has. What is set in all of them
 * goes up to the parent, or, at the coordinator, into the log.
 *
 * Where anything about a number is unusual (a member announced the name with other metadata, or
 * cancelled it; somebody has joined; a stall is to be reported) the rounds are collected member
 * by member (tally.c, held.c): bits_single() hands over what was noted, and until the round
 * ends what comes goes there.
 *
 * Within a node ranks show their parent the words in shared memory (the board): a bit is flipped
 * when the subtree has announced the number. All else are messages.
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

/** The place of a number. */
struct bits_place {
    struct tensor_state *tensor; /* that has it; NULL: none */
    uint64_t free_since; /* coordinator: length of the log when it became free;
                            UINT64_MAX: it is taken */
};

/** Zeroed is valid: no number was given yet. */
struct bits {
    uint64_t places; /* numbers that can be in use; 0: none */
    size_t words; /* in use */
    struct bits_word *rows; /* [words], bits_row(); owned */
    struct bits_place *at; /* [64 words]; owned */
    uint64_t pace; /* the number whose uses are counted as steps; 0: the next one */
    bool dirty; /* own or heard have grown */
    bool few; /* in this flush so few are complete that their operands may travel */
};

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

/** This rank announces a tensor by its number. */
tutti_status bits_announce(struct negotiator *negotiator, struct tensor_state *tensor);
/** All of a child's subtree has announced it. */
tutti_status bits_receive(
        struct negotiator *negotiator, struct tensor_state *tensor, int child);
/** The same of a child that has no subtree, with its operand. */
tutti_status bits_receive_operand(struct negotiator *negotiator,
        struct tensor_state *tensor, int from, const void *bytes, size_t len);
/** From here to the end of its round the tensor is collected member by member. */
tutti_status bits_single(struct negotiator *negotiator, struct tensor_state *tensor);
/** All tensors that are not complete. */
tutti_status bits_single_all(struct negotiator *negotiator);
/** The rounds of numbers in a row are over. */
void bits_end_rounds(struct negotiator *negotiator, uint64_t first, uint64_t count);

/** Reports to the parent, or decides at the coordinator, what is complete. */
tutti_status bits_flush(struct negotiator *negotiator);
/** A word in use. */
struct bits_word *bits_row(const struct negotiator *negotiator, size_t word);
/** For negotiator_is_valid(). */
bool bits_are_valid(const struct negotiator *negotiator);

#endif
