/*
 * The launch order among virtual ranks.
 *
 * The oracle is the device: each rank has a queue of what it launched, and a collective runs
 * when it is at the head of the queues of all that take part. All must have run in the end.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "device/tickets.h"
#include "grow.h"
#include "run.h"

enum {
    RANKS_MAX = 9,
    SETS_MAX = 8,
    WAVES_MAX = 14,
    OPS_MAX = WAVES_MAX * 8,
    TURNS_MAX = 200000
};

enum op_kind {
    OP_BATCH,
    OP_CREATE,
    OP_REMOVE,
    OP_JOIN
};

/* One operation; the ranks are bits. */
struct launch_op {
    enum op_kind kind;
    int set;
    unsigned members; /* who submits or reads it                           */
    unsigned absent; /* members that have joined, and only count the batch */
    bool is_sized; /* comes to the device when all have launched it         */
    unsigned submitted, launched, issued;
};

struct launch_wave {
    int first, count; /* its operations */
    unsigned
            waits; /* operations of it that their members wait for, by index in the wave */
    bool is_outside; /* ranks begin it when all have ended the one before */
};

/* The batches or operations of a set, in order. */
struct op_queue {
    int ops[OPS_MAX];
    int first, count;
};

struct launch_rank {
    struct tickets tickets;
    struct op_set sets[SETS_MAX];
    bool is_here[SETS_MAX]; /* the set was created, and not removed */
    bool met[SETS_MAX];
    int wave, next; /* the next operation of the wave, in its order */
    int order[8]; /* of the wave's operations                    */
    bool is_waiting, is_leaving, has_left, is_dead;
    bool is_pending[OPS_MAX], is_demanded[OPS_MAX]; /* submitted, and not over */
    int pending;
    int counted; /* batches that wait and that it has no part in */
    int read[SETS_MAX]; /* of the logs */
    struct op_queue waiting[SETS_MAX];
    struct op_queue unissued, device;
    bool is_sizing; /* a batch waits for that, and the next ones for it */
};

struct launches {
    struct rng rng;
    struct network network;
    struct launch_rank ranks[RANKS_MAX];
    int size;
    bool brakes;
    unsigned members[SETS_MAX];
    int world_ranks[SETS_MAX][RANKS_MAX];
    struct launch_op ops[OPS_MAX];
    int op_count;
    struct launch_wave waves[WAVES_MAX];
    int wave_count;
    struct op_queue logs[SETS_MAX];
    unsigned meets[SETS_MAX]; /* ranks that have come to the meeting of a set */
    uint8_t tokens[SETS_MAX]; /* by which it meets                            */
    uint8_t token_count;
    uint64_t sent; /* messages */
    int slow; /* rank that gets messages when nothing else happens, or -1 */
    bool is_calm; /* nothing else happens */
    int kill_at; /* event at which a rank dies, or -1 */
    bool has_dead, verbose;
    struct run_result *result;
};

/* What the tickets of a rank are given. */
struct user {
    struct launches *all;
    int rank;
};

static void fail(struct launches *all, enum check check, const char *format, ...)
        __attribute__((format(printf, 3, 4)));

static void fail(struct launches *all, enum check check, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    if (all->result->check == CHECK_NONE) {
        all->result->check = check;
        (void)vsnprintf(
                all->result->finding, sizeof all->result->finding, format, args);
    }
    va_end(args);
}

static void note(const struct launches *all, int rank, const char *what, int op)
{
    static const char *const kinds[] = { "batch", "creation", "removal", "join" };

    if (all->verbose) {
        (void)printf("%8lld rank %d %s %s %d of set %d\n",
                (long long)all->result->events, rank, what, kinds[all->ops[op].kind],
                op, all->ops[op].set);
    }
}

static void push(struct op_queue *queue, int op)
{
    queue->ops[queue->count++] = op;
}

static bool is_empty(const struct op_queue *queue)
{
    return queue->first == queue->count;
}

/* ------------------------------------------------------------- what tickets ask */

static const struct op_set *find_set(void *user, tutti_process_set id)
{
    const struct user *at = user;
    const struct launch_rank *r = &at->all->ranks[at->rank];

    return id < SETS_MAX && r->is_here[id] ? &r->sets[id] : NULL;
}

static bool all_is_issued(void *user)
{
    const struct user *at = user;

    return is_empty(&at->all->ranks[at->rank].unissued);
}

static void next_token(void *user, uint8_t token[OP_TOKEN_BYTES])
{
    const struct user *at = user;

    memset(token, 0, OP_TOKEN_BYTES);
    token[0] = ++at->all->token_count;
}

/* It is over for a rank when all have come. */
static tutti_status come(void *user, const struct op_set *set,
        const uint8_t token[OP_TOKEN_BYTES], bool everyone, bool *moved)
{
    const struct user *at = user;
    struct launches *all = at->all;
    const unsigned bit = 1u << at->rank;
    const uint32_t id = set != NULL ? set->id : 0;
    const unsigned wanted = all->members[everyone ? 0 : id];

    if (set == NULL || (wanted & bit) == 0 || !all_is_issued(user)) {
        fail(all, CHECK_ORDER, "rank %d meets for set %u, %s", at->rank, id,
                set == NULL ? "which is not here" : "but has no part or is busy");
        return TUTTI_AGAIN;
    }
    *moved |= (all->meets[id] & bit) == 0;
    if (all->meets[id] == 0) {
        all->tokens[id] = token[0];
    } else if (all->tokens[id] != token[0]) {
        fail(all, CHECK_ORDER, "rank %d meets for set %u by another token", at->rank,
                id);
    }
    all->meets[id] |= bit;
    all->ranks[at->rank].met[id] |= all->meets[id] == wanted;
    return all->meets[id] == wanted ? TUTTI_OK : TUTTI_AGAIN;
}

/* A work of the rank is over, or issued. */
static void end_work(struct launches *all, int rank, int op)
{
    struct launch_rank *r = &all->ranks[rank];

    if (!r->is_pending[op]) {
        fail(all, CHECK_ORDER, "rank %d ends operation %d, which is none of its own",
                rank, op);
        return;
    }
    note(all, rank, "ends", op);
    r->is_pending[op] = false;
    r->pending--;
    if (r->is_demanded[op]) {
        tickets_satisfy(&r->tickets);
    }
}

static void end_creation(void *user, tutti_process_set set)
{
    const struct user *at = user;
    int op = 0;

    while (at->all->ops[op].kind != OP_CREATE || at->all->ops[op].set != (int)set) {
        op++;
    }
    end_work(at->all, at->rank, op);
}

static tutti_status post(
        void *user, int to, bool is_question, const void *bytes, size_t len)
{
    const struct user *at = user;
    const struct message head = {
        .from = at->rank, .to = to, .set = is_question, .len = len
    };

    network_send(&at->all->network, &head, bytes);
    at->all->sent++;
    return TUTTI_OK;
}

static const struct tickets_ops asking = { .find = find_set,
    .is_idle = all_is_issued,
    .token = next_token,
    .meet = come,
    .created = end_creation,
    .send = post };

/* ------------------------------------------------------------------ the program */

static struct launch_op *add_op(struct launches *all, enum op_kind kind, int set)
{
    struct launch_op *op = &all->ops[all->op_count++];

    op->kind = kind;
    op->set = set;
    op->members = kind == OP_CREATE || kind == OP_REMOVE ? all->members[0]
                                                         : all->members[set];
    all->waves[all->wave_count].count++;
    return op;
}

/*
 * Batches of live sets; the members that have joined one of them are absent there.
 * @return that set, or 0
 */
static int add_batches(struct launches *all, unsigned live)
{
    struct rng *rng = &all->rng;
    const int joined = rng_chance(rng, 30) ? rng_below(rng, SETS_MAX) : -1;
    const bool joins = joined >= 0 && (live >> joined & 1u) != 0;
    const unsigned absent = (unsigned)rng_next(rng);

    for (int i = rng_range(rng, 1, 6); i > 0; i--) {
        int set = rng_below(rng, SETS_MAX);
        struct launch_op *op;

        while ((live >> set & 1u) == 0) {
            set = rng_below(rng, SETS_MAX);
        }
        op = add_op(all, OP_BATCH, set);
        op->is_sized = rng_chance(rng, 20);
        op->absent = joins && set == joined ? absent & op->members : 0;
        op->absent = op->absent == op->members ? 0 : op->absent;
    }
    if (joins) {
        (void)add_op(all, OP_JOIN, joined);
    }
    return joins ? joined : 0;
}

static void make_members(struct launches *all)
{
    for (int s = 0; s < SETS_MAX; s++) {
        int size = 0;

        do {
            all->members[s] = ((1u << all->size) - 1) &
                    (s == 0 ? ~0u : (unsigned)(rng_next(&all->rng) >> 20));
        } while (all->members[s] == 0);
        for (int r = 0; r < all->size; r++) {
            if ((all->members[s] >> r & 1u) != 0) {
                all->world_ranks[s][size++] = r;
            }
        }
    }
}

/* A wave is a few batches, or the creation or the removal of a set. */
static void make_program(struct launches *all, int listed)
{
    struct rng *rng = &all->rng;
    const int chance =
            rng_chance(rng, 25) ? 0 : 25; /* of a set: 0: none comes or goes */
    const int wave_count = rng_range(rng, 2, WAVES_MAX);
    unsigned live = (1u << listed) - 1;
    int next = listed;
    int joined = 0; /* what is late of it may come when the set is gone */

    while (all->wave_count < wave_count) {
        struct launch_wave *wave = &all->waves[all->wave_count];
        const int gone = joined > 0 ? joined : 1 + rng_below(rng, SETS_MAX - 1);

        wave->first = all->op_count;
        /* With brakes, all members wait for what one of them waits for. */
        wave->waits =
                !all->brakes && rng_chance(rng, 50) ? (unsigned)rng_next(rng) : ~0u;
        wave->is_outside = !all->brakes && rng_chance(rng, 20);
        if (next < SETS_MAX && rng_chance(rng, chance)) {
            (void)add_op(all, OP_CREATE, next);
            live |= 1u << next++;
        } else if ((live >> gone & 1u) != 0 && rng_chance(rng, chance)) {
            (void)add_op(all, OP_REMOVE, gone);
            live &= ~(1u << gone);
        } else {
            joined = add_batches(all, live);
        }
        all->wave_count++;
    }
}

static void make_ranks(struct launches *all, struct user *users, int listed)
{
    const int fanout = rng_range(&all->rng, 1, 4);

    for (int r = 0; r < all->size; r++) {
        struct launch_rank *rank = &all->ranks[r];

        users[r] = (struct user){ .all = all, .rank = r };
        tickets_init(&rank->tickets, &asking, &users[r], r, all->size, fanout);
        rank->tickets.brakes = all->brakes;
        rank->next = -1;
        for (int s = 0; s < SETS_MAX; s++) {
            struct op_set *set = &rank->sets[s];

            *set = (struct op_set){ .id = (uint32_t)s,
                .index = (uint32_t)s,
                .rank = -1,
                .world_ranks = all->world_ranks[s] };
            for (int other = 0; other < all->size; other++) {
                if ((all->members[s] >> other & 1u) != 0) {
                    set->rank = other == r ? set->size : set->rank;
                    set->size++;
                }
            }
            if (s < listed) {
                rank->is_here[s] = true;
                tickets_listed(&rank->tickets, set);
            }
        }
    }
}

/* -------------------------------------------------------------------- events */

static bool is_awake(const struct launch_rank *r)
{
    return !r->is_dead && !r->has_left &&
            (r->pending > 0 || r->is_leaving || tickets_are_awaited(&r->tickets));
}

/* The order in which a rank submits: who has joined does so first, all others last. */
static void begin_wave(struct launches *all, int rank)
{
    struct launch_rank *r = &all->ranks[rank];
    const struct launch_wave *wave = &all->waves[r->wave];
    int count = 0;

    for (int i = 0; i < wave->count; i++) {
        r->order[i] = wave->first + i;
    }
    rng_shuffle(&all->rng, r->order, wave->count);
    for (int i = 0; i < wave->count; i++) {
        const int id = r->order[i];
        const struct launch_op *op = &all->ops[id];

        if (op->kind != OP_JOIN && (op->members & ~op->absent) >> rank & 1u) {
            r->order[count++] = id;
        }
    }
    for (int i = wave->first; i < wave->first + wave->count; i++) {
        if (all->ops[i].kind == OP_JOIN && (all->ops[i].members >> rank & 1u) != 0) {
            r->order[count++] = i;
        }
    }
    for (int i = count; i < wave->count; i++) {
        r->order[i] = -1;
    }
    r->next = 0;
    r->is_waiting = false;
}

static void submit(struct launches *all, int rank, int id)
{
    struct launch_rank *r = &all->ranks[rank];
    struct launch_op *op = &all->ops[id];

    note(all, rank, "submits", id);
    op->submitted |= 1u << rank;
    r->is_pending[id] = true;
    r->pending++;
    if ((op->submitted | op->absent) == op->members) {
        push(&all->logs[op->kind == OP_BATCH || op->kind == OP_JOIN ? op->set : 0], id);
    }
}

/* Whether the rank waits for what it submitted in its wave: batches only when told so. */
static bool awaits(const struct launches *all, const struct launch_rank *r, int id)
{
    const struct launch_wave *wave = &all->waves[r->wave];

    return all->ops[id].kind != OP_BATCH ||
            (wave->waits >> (id - wave->first) & 1u) != 0;
}

static bool is_over(const struct launches *all, const struct launch_rank *r)
{
    const struct launch_wave *wave = &all->waves[r->wave];

    for (int i = wave->first; i < wave->first + wave->count; i++) {
        if (r->is_pending[i] && awaits(all, r, i)) {
            return false;
        }
    }
    return true;
}

/* As operation_demand(). */
static void demand(const struct launches *all, struct launch_rank *r)
{
    const struct launch_wave *wave = &all->waves[r->wave];

    for (int i = wave->first; i < wave->first + wave->count; i++) {
        if (r->is_pending[i] && awaits(all, r, i) && all->ops[i].kind == OP_BATCH) {
            r->is_demanded[i] = true;
            tickets_demand(&r->tickets);
        }
    }
    r->is_waiting = true;
}

/* A set is removed by ranks that have nothing of it in flight. */
static bool may_begin(const struct launches *all, const struct launch_rank *r)
{
    const struct launch_wave *wave = &all->waves[r->wave];

    for (int other = 0; wave->is_outside && other < all->size; other++) {
        if (all->ranks[other].wave < r->wave) {
            return false;
        }
    }
    for (int i = 0; i < wave->first; i++) {
        if (all->ops[wave->first].kind == OP_REMOVE && r->is_pending[i] &&
                all->ops[i].set == all->ops[wave->first].set) {
            return false;
        }
    }
    return true;
}

static void end_wave(struct launches *all, struct launch_rank *r)
{
    r->wave++;
    r->next = -1;
    if (r->wave == all->wave_count) {
        r->is_leaving = true;
        tickets_demand(&r->tickets);
    }
}

/* The application goes on. */
static bool step(struct launches *all, int rank)
{
    struct launch_rank *r = &all->ranks[rank];

    if (r->is_dead || r->is_leaving) {
        return false;
    }
    if (r->next < 0) {
        if (!may_begin(all, r)) {
            return false;
        }
        begin_wave(all, rank);
        return true;
    }
    if (r->next < all->waves[r->wave].count && r->order[r->next] >= 0) {
        submit(all, rank, r->order[r->next++]);
        return true;
    }
    if (is_over(all, r)) {
        end_wave(all, r);
        return true;
    }
    if (!r->is_waiting) {
        demand(all, r);
        return true;
    }
    return false;
}

static bool takes_part(const struct launch_op *op, int rank)
{
    return (op->absent >> rank & 1u) == 0;
}

/* As dispatcher_forget(): what waits is what the rank has no part in. */
static void forget_waiting(struct launch_rank *r, int set)
{
    struct op_queue *waiting = &r->waiting[set];

    r->counted -= waiting->count - waiting->first;
    waiting->first = waiting->count;
}

/* It is agreed on, and this rank comes to know. */
static void take(struct launches *all, int rank, int id)
{
    struct launch_rank *r = &all->ranks[rank];
    const struct launch_op *op = &all->ops[id];
    const struct op_set *set = &r->sets[op->set];

    note(all, rank, "reads", id);
    if (op->kind == OP_BATCH) {
        push(&r->waiting[op->set], id);
        tickets_queued(&r->tickets, set, takes_part(op, rank));
        r->counted += takes_part(op, rank) ? 0 : 1;
    } else if (op->kind == OP_CREATE) {
        r->is_here[op->set] = true;
        tickets_created(&r->tickets, set);
    } else {
        if (op->kind == OP_REMOVE) {
            r->is_here[op->set] = false;
            forget_waiting(r, op->set);
            tickets_removed(&r->tickets, set);
        }
        end_work(all, rank, id);
    }
}

static bool read_log(struct launches *all, int rank)
{
    struct launch_rank *r = &all->ranks[rank];
    const int first = rng_below(&all->rng, SETS_MAX);

    for (int i = 0; i < SETS_MAX && is_awake(r); i++) {
        const int set = (first + i) % SETS_MAX;
        const struct op_queue *log = &all->logs[set];

        if ((all->members[set] >> rank & 1u) != 0 && r->read[set] < log->count) {
            take(all, rank, log->ops[r->read[set]++]);
            return true;
        }
    }
    return false;
}

static void put_on_device(struct launches *all, int rank, int id)
{
    push(&all->ranks[rank].device, id);
    all->ops[id].issued |= 1u << rank;
}

static void launch(struct launches *all, int rank, struct op_queue *waiting)
{
    struct launch_rank *r = &all->ranks[rank];
    const int id = waiting->ops[waiting->first++];
    struct launch_op *op = &all->ops[id];

    note(all, rank, "launches", id);
    if (!r->met[op->set]) {
        fail(all, CHECK_ORDER, "rank %d launches batch %d before set %d has met", rank,
                id, op->set);
    }
    if (all->brakes && !r->is_waiting && !r->is_leaving && r->counted == 0) {
        fail(all, CHECK_ORDER, "rank %d launches batch %d while it waits for nothing",
                rank, id);
    }
    op->launched |= 1u << rank;
    tickets_use(&r->tickets, takes_part(op, rank));
    r->counted -= takes_part(op, rank) ? 0 : 1;
    if (takes_part(op, rank)) {
        push(&r->unissued, id);
        r->is_sizing = op->is_sized;
    }
    if (takes_part(op, rank) && !op->is_sized) {
        put_on_device(all, rank, id);
    }
}

/* As launch_all() of the dispatcher. */
static bool look(struct launches *all, int rank)
{
    struct launch_rank *r = &all->ranks[rank];
    const uint64_t sent = all->sent;
    bool moved = false;
    bool again = is_awake(r);

    while (again && all->result->check == CHECK_NONE) {
        const uint64_t used = r->tickets.used;

        if (tickets_advance(&r->tickets, &moved) != TUTTI_OK) {
            fail(all, CHECK_STATUS, "rank %d: %s", rank, tutti_last_error());
        }
        for (int i = 0; i < SETS_MAX; i++) {
            struct op_queue *waiting = &r->waiting[i];

            while (!is_empty(waiting) && !r->is_sizing &&
                    tickets_allow(&r->tickets, &r->sets[i])) {
                launch(all, rank, waiting);
                moved = true;
            }
        }
        again = r->tickets.used != used;
    }
    return moved || all->sent != sent;
}

static bool issue(struct launches *all, int rank)
{
    struct launch_rank *r = &all->ranks[rank];
    const struct launch_op *op;

    if (r->is_dead || is_empty(&r->unissued)) {
        return false;
    }
    op = &all->ops[r->unissued.ops[r->unissued.first]];
    if (op->is_sized) {
        if ((op->members & ~op->absent & ~op->launched) != 0) {
            return false;
        }
        r->is_sizing = false;
        put_on_device(all, rank, r->unissued.ops[r->unissued.first]);
    }
    end_work(all, rank, r->unissued.ops[r->unissued.first++]);
    return true;
}

static bool deliver(struct launches *all, int rank)
{
    struct launch_rank *r = &all->ranks[rank];
    const int count = all->network.busy_count;
    const int start = rng_below(&all->rng, count);

    for (int i = 0; i < count && is_awake(r) && (rank != all->slow || all->is_calm);
            i++) {
        const int index = (start + i) % count;

        if (network_target(&all->network, index) == rank) {
            struct message *message = network_take(&all->network, index);

            if (tickets_receive(&r->tickets, message->from, message->set != 0,
                        message->bytes, message->len) != TUTTI_OK) {
                fail(all, CHECK_STATUS, "rank %d: %s", rank, tutti_last_error());
            }
            free(message);
            return true;
        }
    }
    return false;
}

/*
 * As leave_together(): when its own is over; where there are other sets, when all are so far.
 * A batch that it has no part in is still handed on.
 */
static bool leave(struct launches *all, int rank)
{
    struct launch_rank *r = &all->ranks[rank];
    bool is_ready = r->is_leaving && !r->has_left && !r->is_dead && r->pending == 0 &&
            !tickets_are_owed(&r->tickets);
    bool is_alone = true;

    for (int s = 1; s < SETS_MAX; s++) {
        is_alone &= !r->is_here[s];
    }
    for (int other = 0; other < all->size && !is_alone; other++) {
        is_ready &= all->ranks[other].is_leaving && all->ranks[other].pending == 0;
    }
    r->has_left |= is_ready;
    return is_ready;
}

typedef bool (*launch_event)(struct launches *all, int rank);

static bool happen(struct launches *all, const int weights[5])
{
    static const launch_event events[] = { step, read_log, deliver, look, issue,
        leave };
    const int kinds = (int)(sizeof events / sizeof *events);
    const int rank = rng_below(&all->rng, all->size);
    const int kind = rng_below(&all->rng, kinds);

    if (rng_below(&all->rng, 8) < weights[kind % 5] && events[kind](all, rank)) {
        return true;
    }
    for (int i = 0; i < 2 * kinds * all->size; i++) {
        all->is_calm = i >= kinds * all->size;
        if (events[(kind + i) % kinds](all, (rank + i / kinds) % all->size)) {
            all->is_calm = false;
            return true;
        }
    }
    return false;
}

static void kill_one(struct launches *all)
{
    const int rank = rng_below(&all->rng, all->size);

    all->ranks[rank].is_dead = true;
    all->has_dead = true;
    network_drop(&all->network, rank);
}

/* -------------------------------------------------------------------- oracle */

static bool is_first(const struct launches *all, int rank, int op)
{
    const struct op_queue *queue = &all->ranks[rank].device;

    return !is_empty(queue) && queue->ops[queue->first] == op;
}

static bool run_collective(struct launches *all, int id)
{
    const unsigned members = all->ops[id].members & ~all->ops[id].absent;

    for (int r = 0; r < all->size; r++) {
        if ((members >> r & 1u) != 0 && !is_first(all, r, id)) {
            return false;
        }
    }
    for (int r = 0; r < all->size; r++) {
        all->ranks[r].device.first += (members >> r & 1u) != 0 ? 1 : 0;
    }
    return true;
}

/* A rank has died: what it left out runs nowhere, and the order of the rest is looked at. */
static bool is_left_out(const struct launches *all, int id)
{
    const struct launch_op *op = &all->ops[id];

    return all->has_dead && (op->members & ~op->absent & ~op->issued) != 0;
}

static void run_device(struct launches *all)
{
    bool moved = true;

    while (moved) {
        moved = false;
        for (int r = 0; r < all->size; r++) {
            struct op_queue *queue = &all->ranks[r].device;

            while (!is_empty(queue) && is_left_out(all, queue->ops[queue->first])) {
                queue->first++;
            }
            moved |= !is_empty(queue) && run_collective(all, queue->ops[queue->first]);
        }
    }
    for (int r = 0; r < all->size; r++) {
        const struct op_queue *queue = &all->ranks[r].device;

        if (!is_empty(queue)) {
            fail(all, CHECK_ORDER, "rank %d: batch %d never runs on the device", r,
                    queue->ops[queue->first]);
        }
    }
}

static void verify(struct launches *all)
{
    for (int r = 0; r < all->size && !all->has_dead; r++) {
        const struct launch_rank *rank = &all->ranks[r];

        if (!rank->has_left) {
            fail(all, CHECK_DEADLOCK,
                    "rank %d does not go on in wave %d of %d, %d pending", r,
                    rank->wave, all->wave_count, rank->pending);
        } else if (rank->tickets.next.count + rank->tickets.early.count +
                        rank->tickets.asked.count >
                0) {
            fail(all, CHECK_BOUNDS, "rank %d has tickets left", r);
        }
    }
    run_device(all);
}

static void dump(const struct launches *all)
{
    for (int r = 0; r < all->size; r++) {
        const struct launch_rank *rank = &all->ranks[r];
        const struct tickets *t = &rank->tickets;

        (void)printf("rank %d: wave %d, %d pending, %zu tickets of which %zu told, %zu "
                     "early, %u owed, %u demands%s%s\n",
                r, rank->wave, rank->pending, t->next.count, t->told, t->early.count,
                t->owed, t->demands, t->meets ? ", meets" : "",
                is_awake(rank) ? "" : ", sleeps");
    }
}

void launches_run_seed(uint64_t seed, bool verbose, struct run_result *result)
{
    struct launches *all = sim_alloc(1, sizeof *all);
    struct user users[RANKS_MAX];
    int weights[5];
    int listed;

    *result = (struct run_result){ .check = CHECK_NONE };
    all->rng = rng_seeded(seed);
    all->result = result;
    all->verbose = verbose;
    all->size = result->ranks = rng_range(&all->rng, 1, RANKS_MAX);
    all->brakes = rng_chance(&all->rng, 33);
    all->slow = rng_below(&all->rng, 2 * RANKS_MAX);
    all->kill_at = rng_chance(&all->rng, 10) ? rng_below(&all->rng, 400) : -1;
    listed = rng_chance(&all->rng, 70) ? 1 : rng_range(&all->rng, 1, 4);
    for (int i = 0; i < 5; i++) {
        weights[i] = rng_range(&all->rng, 1, 8);
    }
    make_members(all);
    make_program(all, listed);
    network_init(&all->network, all->size);
    make_ranks(all, users, listed);
    while (result->check == CHECK_NONE && happen(all, weights)) {
        if (++result->events == TURNS_MAX) {
            fail(all, CHECK_DEADLOCK, "it goes on for ever");
        }
        if (result->events == all->kill_at) {
            kill_one(all);
        }
    }
    if (result->check == CHECK_NONE) {
        verify(all);
    }
    if (verbose) {
        dump(all);
    }
    for (int r = 0; r < all->size; r++) {
        tickets_fini(&all->ranks[r].tickets);
    }
    network_fini(&all->network);
    free(all);
}
