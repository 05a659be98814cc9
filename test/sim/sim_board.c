/*
 * A board: every value that a word has had, and how far each reader has come.
 */
#include "sim_board.h"

#include "agree/plan.h"
#include "grow.h"

#define CELLS (2 * PLAN_LANES_MAX)

struct version {
    uint64_t word, detail;
};

struct cell {
    struct version *versions; /* owned; the first ones are the oldest */
    int count;
};

struct sim_board {
    int members;
    struct cell *cells; /* [writer][cell]; owned                        */
    int *seen; /* [reader][writer][cell] versions seen; owned  */
};

struct sim_board *sim_board_create(int members)
{
    const size_t count = (size_t)members * CELLS;
    struct sim_board *board = sim_alloc(1, sizeof *board);

    board->members = members;
    board->cells = sim_alloc(count, sizeof *board->cells);
    board->seen = sim_alloc(count * (size_t)members, sizeof *board->seen);
    return board;
}

void sim_board_destroy(struct sim_board *board)
{
    for (int i = 0; board != NULL && i < board->members * CELLS; i++) {
        free(board->cells[i].versions);
    }
    if (board != NULL) {
        free(board->cells);
        free(board->seen);
        free(board);
    }
}

void sim_board_write(struct sim_board *board, int writer, uint32_t cell, uint64_t word,
        uint64_t detail)
{
    struct cell *c = &board->cells[(uint32_t)writer * CELLS + cell];

    c->versions = sim_grow(c->versions, c->count, sizeof *c->versions);
    c->versions[c->count++] = (struct version){ .word = word, .detail = detail };
}

static int *seen_by(
        const struct sim_board *board, int reader, int writer, uint32_t cell)
{
    return &board->seen[(uint32_t)(reader * board->members + writer) * CELLS + cell];
}

uint64_t sim_board_read(struct sim_board *board, struct rng *rng, int reader,
        int writer, uint32_t cell, uint64_t *detail)
{
    const struct cell *c = &board->cells[(uint32_t)writer * CELLS + cell];
    int *seen = seen_by(board, reader, writer, cell);
    int later;

    *seen += rng_below(rng, c->count - *seen + 1);
    if (*seen == 0) {
        *detail = 0;
        return 0;
    }
    later = *seen + rng_below(rng, c->count - *seen + 1);
    *detail = c->versions[later - 1].detail;
    return c->versions[*seen - 1].word;
}

void sim_board_catch_up(struct sim_board *board, int reader, int writer, uint32_t cell)
{
    *seen_by(board, reader, writer, cell) =
            board->cells[(uint32_t)writer * CELLS + cell].count;
}
