/*
 * The board in shared memory. Each rank owns, for each process set, a row of its segment
 * (segment.h); the others read there.
 *
 * A reader may be late: by the time that it looks, the owner may have gone on to another set. So
 * it looks at the id of the set before and after what it reads. The words of a former set are
 * cleared before the id is stored; and what is written for a later one is written behind its id.
 *
 * A message of the ring is replaced when all for whom it is have counted it as read, or know what
 * is behind it. A reader of
 * a former set is not among them: it finds the head of the cell changed behind what it has read.
 */
#include "ops/shm/shm_board.h"

#include <assert.h>
#include <stdatomic.h>
#include <string.h>

#include "base/error.h"
#include "ops/shm/segment.h"

/* Rows are backed by memory in whole pages. */
#define ROWS_IN_PAGE ((uint32_t)(4096 / sizeof(struct shm_board_row)))
/* Below the number of a message in the head of its cell. */
#define LENGTH_BITS 8

static_assert(4096 % sizeof(struct shm_board_row) == 0, "rows fill a page");
static_assert(OP_SETS_MAX % ROWS_IN_PAGE == 0, "the rows are pages");
static_assert(
        BOARD_MESSAGE_BYTES < 1 << LENGTH_BITS, "a length fits the head of a cell");

static const struct shm_rank *member_of(
        const struct shm_domain *domain, const struct op_set *set, int member)
{
    return &domain->rank[set->world_ranks[member]];
}

static bool board_sees(const void *state, int world_rank)
{
    const struct shm_domain *domain = state;

    return domain->rank[world_rank].segment != NULL;
}

/** Backs the row of a set, and those before it, in this rank. @return false: no memory */
static bool row_claim(const struct shm_rank *mine, const struct op_set *set)
{
    struct shm_segment *segment = mine->segment;
    const uint32_t rows =
            atomic_load_explicit(&segment->board_rows, memory_order_relaxed);
    const uint32_t wanted = (set->index / ROWS_IN_PAGE + 1) * ROWS_IN_PAGE;

    if (set->index < rows) {
        return true;
    }
    if (mine->reservation.base != NULL &&
            !reservation_commit(&mine->reservation,
                    (size_t)((char *)&segment->board[rows] - (char *)segment),
                    (wanted - rows) * sizeof segment->board[0])) {
        return false;
    }
    /* Pairs with the acquire in row_of(). */
    atomic_store_explicit(&segment->board_rows, wanted, memory_order_release);
    return true;
}

static tutti_status board_open(void *state, const struct op_set *set)
{
    const struct shm_domain *domain = state;
    const struct shm_rank *mine = member_of(domain, set, set->rank);
    struct shm_board_row *row;

    if (!row_claim(mine, set)) {
        return error_set(TUTTI_ERR_NO_MEMORY,
                "no shared memory for the words of process set %u on rank %d: %s",
                set->id, set->world_ranks[set->rank],
                reservation_lack(&mine->reservation));
    }
    row = &mine->segment->board[set->index];
    /* A reader of a former set finds what that showed, or 0. */
    for (size_t i = 0; i < BOARD_WORDS; i++) {
        atomic_store_explicit(&row->words[i], 0, memory_order_relaxed);
    }
    for (size_t i = 0; i < SHM_BOARD_CELLS; i++) {
        atomic_store_explicit(&row->cells[i].head, 0, memory_order_relaxed);
    }
    atomic_store_explicit(&row->read, 0, memory_order_relaxed);
    row->room = SHM_BOARD_CELLS;
    /* Pairs with the acquire in is_of(): words of a former set are gone. */
    atomic_store_explicit(&row->set, set->id, memory_order_release);
    return TUTTI_OK;
}

static void board_show(
        void *state, const struct op_set *set, size_t index, uint64_t word)
{
    const struct shm_domain *domain = state;
    struct shm_board_row *row =
            &member_of(domain, set, set->rank)->segment->board[set->index];

    assert(index < BOARD_WORDS &&
            atomic_load_explicit(&row->set, memory_order_relaxed) == set->id);
    /* Pairs with the acquire in board_shown(). */
    atomic_store_explicit(&row->words[index], word, memory_order_release);
}

/** The row of a set in a member, or NULL where reading it would make memory for it. */
static struct shm_board_row *row_of(
        const struct shm_domain *domain, const struct op_set *set, int member)
{
    struct shm_segment *segment = member_of(domain, set, member)->segment;
    /* Pairs with the release in row_claim(). */
    const uint32_t rows =
            atomic_load_explicit(&segment->board_rows, memory_order_acquire);

    return set->index < rows ? &segment->board[set->index] : NULL;
}

/** True when a row counts for a set. */
static bool is_of(const struct shm_board_row *row, const struct op_set *set)
{
    /* Pairs with the release in board_open(). */
    return atomic_load_explicit(&row->set, memory_order_acquire) == set->id;
}

static bool board_shown(const void *state, const struct op_set *set, int member,
        uint64_t *words, size_t count)
{
    const struct shm_board_row *row = row_of(state, set, member);

    if (row == NULL || !is_of(row, set)) {
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        words[i] = atomic_load_explicit(&row->words[i], memory_order_acquire);
    }
    return is_of(row, set);
}

/* True when all members have read what a message of this number replaces. */
static bool has_room(const struct shm_domain *domain, const struct op_set *set,
        struct shm_board_row *row, const int *members, int count, uint64_t sequence)
{
    uint64_t least = UINT64_MAX;

    if (sequence < row->room) {
        return true;
    }
    for (int m = 0; m < count; m++) {
        const struct shm_board_row *reader = row_of(domain, set, members[m]);
        /* Pairs with the release in board_read(): it touches the cell no more. */
        const uint64_t read = reader != NULL && is_of(reader, set)
                ? atomic_load_explicit(&reader->read, memory_order_acquire)
                : 0;

        least = read < least ? read : least;
    }
    row->room = least + SHM_BOARD_CELLS;
    return sequence < row->room;
}

static bool board_write(void *state, const struct op_set *set, const int *members,
        int member_count, uint64_t sequence, const void *bytes, size_t len)
{
    const struct shm_domain *domain = state;
    struct shm_board_row *row =
            &member_of(domain, set, set->rank)->segment->board[set->index];
    struct shm_board_cell *cell = &row->cells[sequence % SHM_BOARD_CELLS];
    uint64_t words[BOARD_MESSAGE_BYTES / 8];

    if (len > sizeof words ||
            !has_room(domain, set, row, members, member_count, sequence)) {
        return false;
    }
    memcpy(words, bytes, len);
    /* A reader of a former set that sees one of the words sees that the head has changed. */
    atomic_store_explicit(&cell->head, 0, memory_order_relaxed);
    atomic_thread_fence(memory_order_release);
    for (size_t i = 0; i < (len + 7) / 8; i++) {
        atomic_store_explicit(&cell->words[i], words[i], memory_order_relaxed);
    }
    /* Pairs with the acquire in board_read(). */
    atomic_store_explicit(
            &cell->head, (sequence + 1) << LENGTH_BITS | len, memory_order_release);
    return true;
}

static size_t board_read(void *state, const struct op_set *set, int member,
        uint64_t sequence, void *bytes)
{
    const struct shm_domain *domain = state;
    const struct shm_board_row *row = row_of(domain, set, member);
    struct shm_board_row *mine =
            &member_of(domain, set, set->rank)->segment->board[set->index];
    const struct shm_board_cell *cell;
    uint64_t words[BOARD_MESSAGE_BYTES / 8];
    uint64_t head;
    size_t len;

    if (row == NULL || !is_of(row, set)) {
        return 0;
    }
    if (atomic_load_explicit(&mine->read, memory_order_relaxed) < sequence) {
        /* Some came another way. Pairs with the acquire in has_room(). */
        atomic_store_explicit(&mine->read, sequence, memory_order_release);
    }
    cell = &row->cells[sequence % SHM_BOARD_CELLS];
    /* Pairs with the release in board_write(). */
    head = atomic_load_explicit(&cell->head, memory_order_acquire);
    len = head % ((uint64_t)1 << LENGTH_BITS);
    if (head >> LENGTH_BITS != sequence + 1) {
        return 0;
    }
    for (size_t i = 0; i < (len + 7) / 8; i++) {
        words[i] = atomic_load_explicit(&cell->words[i], memory_order_relaxed);
    }
    /* Pairs with the fence in board_write(). */
    atomic_thread_fence(memory_order_acquire);
    if (atomic_load_explicit(&cell->head, memory_order_relaxed) != head ||
            !is_of(row, set)) {
        return 0;
    }
    memcpy(bytes, words, len);
    /* Pairs with the acquire in has_room(). */
    atomic_store_explicit(&mine->read, sequence + 1, memory_order_release);
    return len;
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

struct board shm_board(struct shm_domain *domain)
{
    if (domain == NULL) {
        return (struct board){ 0 };
    }
    return (struct board){ .state = domain,
        .sees = board_sees,
        .open = board_open,
        .show = board_show,
        .shown = board_shown,
        .write = board_write,
        .read = board_read,
        .wait = board_wait,
        .waits = board_waits };
}
