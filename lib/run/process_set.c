/*
 * Creation and removal of process sets.
 */
#include "run/process_set.h"

#include <assert.h>
#include <string.h>

#include "agree/tree.h"
#include "base/mem.h"
#include "observe/observe.h"
#include "run/context.h"
#include "run/order.h"
#include "run/persistent.h"
#include "run/tensor_use.h"

/* Of names that have numbers; 32 alltoalls of 256 ranks that list rows, 8000 of 16. */
#define ROW_COUNT_BYTES_MAX ((size_t)32 << 20)
/* Most live sets: pairs have the last index. */
#define SETS_MAX (OP_SETS_MAX - 1)

static tutti_status init_shape(const struct tutti *t, struct process_set *set)
{
    int *node_of = mem_calloc((size_t)set->op.size, sizeof *node_of);
    bool made;

    for (int i = 0; node_of != NULL && i < set->op.size; i++) {
        node_of[i] = nodes_of(&t->peers.nodes, set->world_ranks[i]);
    }
    made = node_of != NULL &&
            tree_shape_init(&set->shape, set->op.size, node_of, t->config.tree_fanout);
    mem_free(node_of);
    return made ? TUTTI_OK
                : error_set(TUTTI_ERR_NO_MEMORY,
                          "no memory for a process set of %d ranks", set->op.size);
}

/* The members on this node see each other's words; equal on all of them (lib/api/neighbours.c). */
static bool has_board(const struct tutti *t, const struct process_set *set)
{
    const struct board *board = &t->peers.board;
    bool sees = board->state != NULL && !op_is_pair(&set->op);

    for (int m = 0; m < set->op.size && sees; m++) {
        const int rank = set->world_ranks[m];

        sees = nodes_of(&t->peers.nodes, rank) != nodes_of(&t->peers.nodes, t->rank) ||
                board->sees(board->state, rank);
    }
    return sees;
}

/*
 * Operands of small allreduces travel with the agreement between few hosts with a rank each: then
 * an exchange would only follow it. Not where backend or algorithm are chosen. Equal on all ranks.
 */
static bool operands_travel(const struct tutti *t, const struct process_set *set)
{
    return set->op.size > 1 && set->op.size <= OP_OPERANDS_MAX &&
            set->shape.node_count == set->op.size &&
            set->op.size <= t->config.tree_fanout + 1 &&
            t->config.backend == CONFIG_BACKEND_AUTO &&
            t->config.algorithm == CONFIG_ALGORITHM_AUTO;
}

/* negotiator_config.operand */
static size_t operand_of(void *user, const struct request *request, const void **bytes)
{
    const struct operation *operation = request->cookie;

    (void)user;
    if (request->collective != TUTTI_ALLREDUCE || request->meta.space != OP_HOST ||
            request->meta.group != 0) {
        return 0;
    }
    *bytes = operation->memory.input;
    return operation->memory.bytes;
}

static tutti_status init_negotiator(struct tutti *t, struct process_set *set)
{
    struct negotiator_config config = { .size = set->op.size,
        .rank = set->op.rank,
        .shape = &set->shape,
        .world_ranks = set->world_ranks,
        .number_capacity = t->config.cache_capacity,
        .row_count_bytes_max = ROW_COUNT_BYTES_MAX,
        .stall_ns = t->engine.stall_ns,
        .stall_fail_ns = t->engine.stall_fail_ns,
        .act = t->sets.act,
        .board = has_board(t, set),
        .lock = &t->lock,
        .user = set,
        .forget = tensor_use_forget };

    static_assert(BITS_BOARD_WORDS == BOARD_WORDS, "a board has all words");
    tutti_status status = init_shape(t, set);

    if (status != TUTTI_OK) {
        return status;
    }
    config.operand = operands_travel(t, set) ? operand_of : NULL;
    status = negotiator_init(&set->negotiator, &config);
    if (status != TUTTI_OK || set->op.rank != 0) {
        tree_shape_fini(&set->shape);
    }
    return status;
}

void process_set_free(struct process_set *set)
{
    if (set == NULL) {
        return;
    }
    if (set->op.rank >= 0) {
        negotiator_fini(&set->negotiator);
    }
    tree_shape_fini(&set->shape);
    mem_free(set->world_ranks);
    mem_free(set);
}

struct process_set *process_set_new(
        struct tutti *t, const struct op_set *identity, const int64_t *ranks)
{
    const int size = identity->size;
    struct process_set *set = mem_calloc(1, sizeof *set);

    if (set == NULL) {
        return NULL;
    }
    set->context = t;
    set->id = identity->id;
    set->op = *identity;
    set->op.rank = -1;
    set->world_ranks = mem_calloc((size_t)size, sizeof *set->world_ranks);
    if (set->world_ranks == NULL) {
        mem_free(set);
        return NULL;
    }
    set->op.world_ranks = set->world_ranks;
    for (int i = 0; i < size; i++) {
        set->world_ranks[i] = (int)ranks[i];
        if (set->world_ranks[i] == t->rank) {
            set->op.rank = i;
        }
    }
    if (set->op.rank >= 0 && init_negotiator(t, set) != TUTTI_OK) {
        set->op.rank = -1;
        process_set_free(set);
        return NULL;
    }
    return set;
}

static bool reserve(struct process_sets *sets)
{
    const size_t capacity = 2 * sets->capacity + 4;
    struct process_set **grown;

    if (sets->count < sets->capacity) {
        return true;
    }
    grown = mem_resize(sets->sets, capacity, sizeof *grown);
    if (grown == NULL) {
        return false;
    }
    sets->sets = grown;
    sets->capacity = capacity;
    return true;
}

/* Opens the board of this rank, which the other members read. */
static tutti_status open_board(struct tutti *t, const struct process_set *set)
{
    if (set->op.rank < 0 || !set->negotiator.config.board) {
        return TUTTI_OK;
    }
    return t->peers.board.open(t->peers.board.state, &set->op);
}

bool process_sets_enter(struct tutti *t, struct process_set *set)
{
    struct process_sets *sets = &t->sets;
    bool entered;

    pthread_mutex_lock(&t->lock);
    entered = reserve(sets);
    if (entered) {
        size_t at = sets->count++;

        for (; at > 0 && sets->sets[at - 1]->id > set->id; at--) {
            sets->sets[at] = sets->sets[at - 1];
        }
        sets->sets[at] = set;
        sets->named += !op_is_pair(&set->op);
        set->is_entered = true;
        observe_set(t, set, EVENT_SET_ADDED);
    }
    pthread_mutex_unlock(&t->lock);
    return entered;
}

tutti_status process_sets_add(
        struct tutti *t, const int64_t *ranks, int size, struct process_set **added)
{
    struct process_sets *sets = &t->sets;
    struct process_set *set;
    uint32_t index = 0;
    tutti_status status;

    while (index < SETS_MAX && sets->index_used[index]) {
        index++;
    }
    if (index == SETS_MAX) {
        return error_set(TUTTI_ERR_UNSUPPORTED,
                "%d process sets are alive, the most there can be; destroy some",
                SETS_MAX);
    }
    set = process_set_new(t,
            &(struct op_set){ .id = sets->next_id, .index = index, .size = size },
            ranks);
    status = set == NULL ? TUTTI_ERR_NO_MEMORY : open_board(t, set);
    if (set != NULL && status != TUTTI_OK) {
        process_set_free(set);
        return status;
    }
    if (set == NULL || !process_sets_enter(t, set)) {
        process_set_free(set);
        return error_set(
                TUTTI_ERR_NO_MEMORY, "no memory for a process set of %d", size);
    }
    sets->next_id++;
    sets->index_used[index] = true;
    *added = set;
    return TUTTI_OK;
}

void process_sets_take(struct tutti *t, struct process_set *set)
{
    struct process_sets *sets = &t->sets;
    size_t at = 0;

    pthread_mutex_lock(&t->lock);
    persistent_forget(t, set);
    while (sets->sets[at] != set) {
        at++;
    }
    memmove(&sets->sets[at], &sets->sets[at + 1],
            (sets->count - at - 1) * sizeof *sets->sets);
    sets->count--;
    sets->named--;
    sets->index_used[set->op.index] = false;
    pthread_mutex_unlock(&t->lock);
}

void process_sets_fini(struct process_sets *sets, int world_size)
{
    const int pairs = sets->pairs.made == NULL ? 0 : 2 * world_size;

    for (int i = 0; i < pairs; i++) {
        if (sets->pairs.made[i] != NULL && !sets->pairs.made[i]->is_entered) {
            process_set_free(sets->pairs.made[i]);
        }
    }
    mem_free(sets->pairs.made);
    for (size_t i = 0; i < sets->count; i++) {
        process_set_free(sets->sets[i]);
    }
    mem_free(sets->sets);
    *sets = (struct process_sets){ 0 };
}
