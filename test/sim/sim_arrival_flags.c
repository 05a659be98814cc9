/*
 * The simulated arrival flags: every value that a word has had, and how far each reader has come.
 */
#include "sim_arrival_flags.h"

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

struct sim_arrival_flags {
    int members;
    struct cell *cells; /* [writer][cell]; owned                        */
    int *seen; /* [reader][writer][cell] versions seen; owned  */
};

struct sim_arrival_flags *sim_arrival_flags_create(int members)
{
    const size_t count = (size_t)members * CELLS;
    struct sim_arrival_flags *flags = sim_alloc(1, sizeof *flags);

    flags->members = members;
    flags->cells = sim_alloc(count, sizeof *flags->cells);
    flags->seen = sim_alloc(count * (size_t)members, sizeof *flags->seen);
    return flags;
}

void sim_arrival_flags_destroy(struct sim_arrival_flags *flags)
{
    for (int i = 0; flags != NULL && i < flags->members * CELLS; i++) {
        free(flags->cells[i].versions);
    }
    if (flags != NULL) {
        free(flags->cells);
        free(flags->seen);
        free(flags);
    }
}

void sim_arrival_flags_write(struct sim_arrival_flags *flags, int writer, uint32_t cell,
        uint64_t word, uint64_t detail)
{
    struct cell *c = &flags->cells[(uint32_t)writer * CELLS + cell];

    c->versions = sim_grow(c->versions, c->count, sizeof *c->versions);
    c->versions[c->count++] = (struct version){ .word = word, .detail = detail };
}

static int *seen_by(
        const struct sim_arrival_flags *flags, int reader, int writer, uint32_t cell)
{
    return &flags->seen[(uint32_t)(reader * flags->members + writer) * CELLS + cell];
}

uint64_t sim_arrival_flags_read(struct sim_arrival_flags *flags, struct rng *rng,
        int reader, int writer, uint32_t cell, uint64_t *detail)
{
    const struct cell *c = &flags->cells[(uint32_t)writer * CELLS + cell];
    int *seen = seen_by(flags, reader, writer, cell);
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

void sim_arrival_flags_catch_up(
        struct sim_arrival_flags *flags, int reader, int writer, uint32_t cell)
{
    *seen_by(flags, reader, writer, cell) =
            flags->cells[(uint32_t)writer * CELLS + cell].count;
}
