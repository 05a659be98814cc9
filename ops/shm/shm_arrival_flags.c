/*
 * Arrival flags in shared memory. Each rank owns, for each process set, a row of lines of its
 * segment, one for each lane (segment.h); the others read there.
 *
 * A line holds all that a reader needs, so that looking at what another core has not
 * changed takes no memory traffic, and at what it has one transfer of a cache line.
 *
 * A reader may be late: by the time that it looks, the owner may have gone on to the next
 * word, or to another set. It takes
 *
 *     set == id    words of former sets are gone (cleared before the id was stored)
 *     word         says where its detail is: the owner uses two places in turn
 *     detail
 *     word         unchanged: the owner has not come to that place again
 *     set == id    unchanged: it was not a word of a later set
 *
 * and begins again when a word has changed, which it does only when the owner has gone on.
 */
#include "ops/shm/shm_arrival_flags.h"

#include <assert.h>
#include <stdatomic.h>

#include "base/error.h"
#include "ops/shm/segment.h"

/* Rows are backed by memory in whole pages. */
#define ROWS_IN_PAGE ((uint32_t)(4096 / sizeof(struct shm_flag_row)))

static_assert(4096 % sizeof(struct shm_flag_row) == 0, "rows fill a page");
static_assert(OP_SETS_MAX % ROWS_IN_PAGE == 0, "the rows are pages");

static const struct shm_rank *member_of(
        const struct shm_domain *domain, const struct op_set *set, int member)
{
    return &domain->rank[set->world_ranks[member]];
}

/* Whether a peer is mapped is equal on all members (lib/api/neighbours.c). */
static bool covers_set(const void *state, const struct op_set *set)
{
    const struct shm_domain *domain = state;

    for (int member = 0; member < set->size; member++) {
        if (member_of(domain, set, member)->segment == NULL) {
            return false;
        }
    }
    return set->index < OP_SETS_MAX;
}

/** Backs the row of a set, and those before it, in this rank. @return false: no memory */
static bool row_claim(const struct shm_rank *mine, const struct op_set *set)
{
    struct shm_segment *segment = mine->segment;
    const uint32_t rows =
            atomic_load_explicit(&segment->flag_rows, memory_order_relaxed);
    const uint32_t wanted = (set->index / ROWS_IN_PAGE + 1) * ROWS_IN_PAGE;

    if (set->index < rows) {
        return true;
    }
    if (mine->reservation.base != NULL &&
            !reservation_commit(&mine->reservation,
                    (size_t)((char *)&segment->arrival_flags[rows] - (char *)segment),
                    (wanted - rows) * sizeof segment->arrival_flags[0])) {
        return false;
    }
    /* Pairs with the acquire in row_of(). */
    atomic_store_explicit(&segment->flag_rows, wanted, memory_order_release);
    return true;
}

/** The row of a set in a rank, or NULL where reading it would make memory for it. */
static const struct shm_flag_row *row_of(
        const struct shm_rank *rank, const struct op_set *set)
{
    /* Pairs with the release in row_claim(). */
    const uint32_t rows =
            atomic_load_explicit(&rank->segment->flag_rows, memory_order_acquire);

    return set->index < rows ? &rank->segment->arrival_flags[set->index] : NULL;
}

static tutti_status board_open(void *state, const struct op_set *set)
{
    const struct shm_domain *domain = state;
    const struct shm_rank *mine = member_of(domain, set, set->rank);

    if (!row_claim(mine, set)) {
        return error_set(TUTTI_ERR_NO_MEMORY,
                "no shared memory for the words of process set %u on rank %d: %s",
                set->id, set->world_ranks[set->rank],
                reservation_lack(&mine->reservation));
    }
    for (int lane = 0; lane < OP_LANES; lane++) {
        struct shm_arrival_flags_line *line =
                &mine->segment->arrival_flags[set->index].lanes[lane];

        /* Who still looks for a former set finds its words, or none. */
        atomic_store_explicit(&line->cells[0].word, 0, memory_order_relaxed);
        atomic_store_explicit(&line->cells[1].word, 0, memory_order_relaxed);
        /* Pairs with the acquire in is_of(): words of a former set are gone. */
        atomic_store_explicit(&line->set, set->id, memory_order_release);
    }
    return TUTTI_OK;
}

static void board_write(void *state, const struct op_set *set, uint32_t cell_index,
        uint64_t word, uint64_t detail)
{
    const struct shm_domain *domain = state;
    struct shm_flag_row *row =
            &member_of(domain, set, set->rank)->segment->arrival_flags[set->index];
    struct shm_arrival_flags_line *line = &row->lanes[cell_index / 2];
    struct shm_arrival_flags_cell *cell = &line->cells[cell_index % 2];
    const uint64_t place =
            1 - atomic_load_explicit(&cell->word, memory_order_relaxed) % 2;

    assert(word <= ARRIVAL_WORD_MAX && cell_index < ARRIVAL_CELLS &&
            atomic_load_explicit(&line->set, memory_order_relaxed) == set->id);
    /* Pairs with the acquire in cell_read(): who sees it sees that the last word changed. */
    atomic_store_explicit(&cell->details[place], detail, memory_order_release);
    /* Pairs with the loads in cell_read(), of whose writers one must see all. */
    atomic_store_explicit(&cell->word, word << 1 | place, memory_order_seq_cst);
}

static uint64_t cell_read(const struct shm_arrival_flags_cell *cell, uint64_t *detail)
{
    /* Pairs with the store in board_write(), as does the one below. */
    uint64_t seen = atomic_load_explicit(&cell->word, memory_order_seq_cst);
    uint64_t before = ~seen;

    while (detail != NULL && before != seen) {
        before = seen;
        /* Pairs with the store in board_write(): a later detail shows a later word. */
        *detail = atomic_load_explicit(&cell->details[seen % 2], memory_order_acquire);
        seen = atomic_load_explicit(&cell->word, memory_order_seq_cst);
    }
    return seen >> 1;
}

/** True when a line counts for a set. */
static bool is_of(const struct shm_arrival_flags_line *line, const struct op_set *set)
{
    /* Pairs with the release in board_open(). */
    return atomic_load_explicit(&line->set, memory_order_acquire) == set->id;
}

static uint64_t board_read(const void *state, const struct op_set *set, int member,
        uint32_t cell_index, uint64_t *detail)
{
    const struct shm_domain *domain = state;
    const struct shm_flag_row *row = row_of(member_of(domain, set, member), set);
    uint64_t found = 0;
    uint64_t word = 0;

    if (row != NULL) {
        const struct shm_arrival_flags_line *line = &row->lanes[cell_index / 2];

        /*
         * Looked at before, so that it is no word of a former set, and after, so that it
         * is none of a later one: that one's words were stored after its id.
         */
        if (is_of(line, set)) {
            word = cell_read(
                    &line->cells[cell_index % 2], detail != NULL ? &found : NULL);
            word = is_of(line, set) ? word : 0;
        }
    }
    if (detail != NULL) {
        *detail = word != 0 ? found : 0;
    }
    return word;
}

/* Relaxed: a hint. One writer, so no read-modify-write is needed. */
static void board_wait(void *state, int rank)
{
    const struct shm_domain *domain = state;
    _Atomic uint64_t *waits = &domain->rank[rank].segment->waits;
    const uint64_t before = atomic_load_explicit(waits, memory_order_relaxed);

    atomic_store_explicit(waits, before + 1, memory_order_relaxed);
}

static uint64_t board_waits(const void *state, int rank)
{
    const struct shm_domain *domain = state;
    uint64_t sum = 0;

    for (int other = 0; other < domain->ranks; other++) {
        const struct shm_segment *segment = domain->rank[other].segment;

        if (other != rank && segment != NULL) {
            sum += atomic_load_explicit(&segment->waits, memory_order_relaxed);
        }
    }
    return sum;
}

struct arrival_flags shm_arrival_flags(struct shm_domain *domain)
{
    if (domain == NULL) {
        return (struct arrival_flags){ 0 };
    }
    return (struct arrival_flags){ .state = domain,
        .covers = covers_set,
        .open = board_open,
        .write = board_write,
        .read = board_read,
        .wait = board_wait,
        .waits = board_waits };
}
