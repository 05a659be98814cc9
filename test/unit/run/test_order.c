/*
 * The launch order in a context: batches, sets, works and the backend. The order itself is
 * looked at by the simulator (test/sim/launches.c).
 */
#include <string.h>

#include "base/mem.h"
#include "run/context.h"
#include "run/engine.h"
#include "run/order.h"
#include "run/persistent.h"
#include "test/unit/unit.h"

enum {
    RANKS = 7,
    SETS = 2, /* the world, and one that comes later */
    LANES = 3
};

struct letter {
    struct letter *next;
    int from;
    bool is_question;
    size_t len;
    uint8_t bytes[];
};

/* One rank. */
struct player {
    struct tutti *context;
    struct process_set *sets[SETS];
    int world_ranks[SETS][RANKS];
    struct operation creations[SETS];
    tutti_process_set created[SETS];
    int waiting[SETS][LANES]; /* batches agreed, and not launched */
    struct letter *first[RANKS]; /* from each rank */
    size_t count; /* of launches */
    bool joined; /* it only counts batches */
    int met[SETS]; /* times */
    int polls_left; /* until a meeting is over */
};

struct scene {
    struct player players[RANKS];
    unsigned seed;
};

static struct scene *current; /* for the slots below, which get a rank */

static unsigned any(unsigned below)
{
    current->seed = current->seed * 1103515245u + 12345u;
    return (current->seed >> 16u & 0x7fffu) % below;
}

/* -------------------------------------------------------------- transport */

static tutti_status post(void *state, int to, const void *bytes, size_t len)
{
    struct player *from = state;
    struct letter **last = &current->players[to].first[from->context->rank];
    struct letter *letter = mem_alloc(sizeof *letter + len);
    const uint8_t *body = bytes;

    assert_non_null(letter);
    assert_int_not_equal(to, from->context->rank);
    letter->next = NULL;
    letter->from = from->context->rank;
    letter->is_question = body[0] == ENVELOPE_ASK;
    letter->len = len - 1;
    mem_copy(letter->bytes, body + 1, len - 1);
    while (*last != NULL) {
        last = &(*last)->next;
    }
    *last = letter;
    return TUTTI_OK;
}

static const struct transport_ops posting = { .name = "posting", .send = post };

/* ---------------------------------------------------------------- backend */

static tutti_status make_token(void *state, uint8_t token[OP_TOKEN_BYTES])
{
    (void)state;
    memset(token, 0, OP_TOKEN_BYTES);
    return TUTTI_OK;
}

static tutti_status note_meeting(void *state, const struct op_set *set,
        const uint8_t token[OP_TOKEN_BYTES], bool everyone, bool *moved)
{
    struct player *player = state;

    (void)token;
    (void)everyone;
    *moved = true;
    if (player->polls_left > 0) {
        player->polls_left--;
        return TUTTI_AGAIN;
    }
    player->polls_left = (int)any(3);
    player->met[set->id]++;
    return TUTTI_OK;
}

static void nothing_to_part(void *state, const struct op_set *set, uint32_t next)
{
    (void)state;
    (void)set;
    (void)next;
}

static const struct op_backend meeting = { .name = "meeting",
    .space = OP_DEVICE,
    .token = make_token,
    .meet = note_meeting,
    .part = nothing_to_part };

/* ------------------------------------------------------------------- sets */

static bool is_member(tutti_process_set set, int rank)
{
    static const unsigned members[SETS] = { 0x7f, 0x0f };

    return (members[set] >> rank & 1u) != 0;
}

static void add_set(struct player *player, tutti_process_set id)
{
    struct tutti *t = player->context;
    struct process_set *set = mem_calloc(1, sizeof *set);

    assert_non_null(set);
    set->context = t;
    set->id = id;
    set->op = (struct op_set){ .id = id, .index = id, .rank = -1 };
    for (int r = 0; r < RANKS; r++) {
        if (is_member(id, r)) {
            set->op.rank = r == t->rank ? set->op.size : set->op.rank;
            player->world_ranks[id][set->op.size++] = r;
        }
    }
    set->world_ranks = player->world_ranks[id];
    set->op.world_ranks = set->world_ranks;
    player->sets[id] = set;
    t->sets.count++;
    t->sets.next_id = id + 1;
}

static void create_set(struct player *player, tutti_process_set id)
{
    struct operation *operation = &player->creations[id];

    add_set(player, id);
    *operation = (struct operation){ .state = OPERATION_ANNOUNCED,
        .output = &player->created[id] };
    operation->request.collective = META_SET_CREATE;
    atomic_store(&operation->persistent, PERSISTENT_HELD);
    assert_true(order_created(player->context, player->sets[id], operation));
}

static int set_up(void **state)
{
    struct scene *scene = mem_calloc(1, sizeof *scene);

    assert_non_null(scene);
    current = scene;
    for (int r = 0; r < RANKS; r++) {
        struct player *player = &scene->players[r];
        struct tutti *t = mem_alloc_aligned(sizeof *t);

        assert_non_null(t);
        memset(t, 0, sizeof *t);
        player->context = t;
        t->rank = r;
        t->size = RANKS;
        t->config.tree_fanout = 2;
        t->transport = (struct transport){
            .ops = &posting, .state = player, .rank = r, .size = RANKS
        };
        t->sets.sets = player->sets;
        t->dispatcher.backends[0] =
                (struct dispatcher_backend){ .ops = &meeting, .state = player };
        t->dispatcher.backend_count = 1;
        (void)pthread_mutex_init(&t->lock, NULL);
        add_set(player, TUTTI_WORLD);
        order_begin(t);
    }
    *state = scene;
    return 0;
}

static int tear_down(void **state)
{
    struct scene *scene = *state;

    for (int r = 0; r < RANKS; r++) {
        struct player *player = &scene->players[r];

        for (int from = 0; from < RANKS; from++) {
            assert_null(player->first[from]);
        }
        for (int s = 0; s < SETS; s++) {
            mem_free(player->sets[s]);
        }
        order_fini(player->context);
        operation_table_fini(&player->context->operations);
        wire_writer_fini(&player->context->envelope);
        (void)pthread_mutex_destroy(&player->context->lock);
        mem_free(player->context);
    }
    mem_free(scene);
    return 0;
}

/* ------------------------------------------------------------------ the play */

static void queue_batch(struct player *player, tutti_process_set set, uint32_t lane)
{
    const struct batch batch = { .set = player->sets[set],
        .lane = lane,
        .space = OP_DEVICE,
        .operation_count = player->joined ? 0 : 1 };

    player->waiting[set][lane]++;
    order_queued(player->context, &batch);
}

static bool launch_one(struct player *player)
{
    for (uint32_t s = 0; s < SETS; s++) {
        for (uint32_t lane = 0; lane < LANES; lane++) {
            const struct batch batch = { .set = player->sets[s],
                .lane = lane,
                .space = OP_DEVICE,
                .operation_count = player->joined ? 0 : 1 };

            if (player->waiting[s][lane] > 0 && order_allows(player->context, &batch)) {
                player->waiting[s][lane]--;
                player->count++;
                order_use(player->context, &batch);
                return true;
            }
        }
    }
    return false;
}

static void look(struct player *player)
{
    bool moved = false;

    do {
        assert_int_equal(order_advance(player->context, &moved), TUTTI_OK);
    } while (launch_one(player));
}

static bool deliver_one(struct player *player, int from)
{
    struct letter *letter = player->first[from];

    if (letter == NULL) {
        return false;
    }
    player->first[from] = letter->next;
    assert_int_equal(order_receive(player->context, from, letter->is_question,
                             letter->bytes, letter->len),
            TUTTI_OK);
    mem_free(letter);
    return true;
}

static bool anything_is_under_way(const struct scene *scene)
{
    for (int r = 0; r < RANKS; r++) {
        for (int from = 0; from < RANKS; from++) {
            if (scene->players[r].first[from] != NULL) {
                return true;
            }
        }
        if (scene->players[r].context->tickets.meets) {
            return true;
        }
    }
    return false;
}

/* Ranks and links take turns at random, until nothing is under way. */
static void come_to_rest(struct scene *scene)
{
    do {
        for (int i = 0; i < 2 * RANKS; i++) {
            (void)deliver_one(&scene->players[any(RANKS)], (int)any(RANKS));
            look(&scene->players[any(RANKS)]);
        }
        for (int r = 0; r < RANKS; r++) {
            look(&scene->players[r]);
        }
    } while (anything_is_under_way(scene));
}

/* Members alone meet for a set that was there before the world met. */
static void test_members_meet(void **state)
{
    struct scene *scene = *state;

    for (int r = 0; r < RANKS; r++) {
        create_set(&scene->players[r], 1);
    }
    come_to_rest(scene);
    for (int r = 0; r < RANKS; r++) {
        assert_int_equal(scene->players[r].met[1], 0);
        if (is_member(1, r)) {
            queue_batch(&scene->players[r], 1, 0);
        }
    }
    come_to_rest(scene);
    for (int r = 0; r < RANKS; r++) {
        assert_int_equal(scene->players[r].met[1], is_member(1, r) ? 1 : 0);
        assert_int_equal(scene->players[r].count, is_member(1, r) ? 1 : 0);
    }
}

/* Somebody waits for an operation on the device. */
static void demand(struct tutti *t)
{
    struct operation *operation = operation_take(&t->operations);

    assert_non_null(operation);
    operation_begin(operation, NULL, NULL);
    operation->request.meta.space = OP_DEVICE;
    operation_demand(operation, &t->tickets);
}

/* With issue=caller batches wait until somebody waits for one. */
static void test_caller_issues(void **state)
{
    struct scene *scene = *state;

    for (int r = 0; r < RANKS; r++) {
        scene->players[r].context->tickets.brakes = true;
        queue_batch(&scene->players[r], TUTTI_WORLD, 0);
    }
    come_to_rest(scene);
    for (int r = 0; r < RANKS; r++) {
        assert_int_equal(scene->players[r].count, 0);
        demand(scene->players[r].context);
    }
    come_to_rest(scene);
    for (int r = 0; r < RANKS; r++) {
        assert_int_equal(scene->players[r].count, 1);
    }
}

/* Who has joined waits for no batch, but without it the others could not meet. */
static void test_joined_meets(void **state)
{
    struct scene *scene = *state;

    scene->players[RANKS - 1].joined = true;
    for (int r = 0; r < RANKS; r++) {
        scene->players[r].context->tickets.brakes = true;
        queue_batch(&scene->players[r], TUTTI_WORLD, 0);
        assert_true(order_is_owed(scene->players[r].context));
        if (!scene->players[r].joined) {
            demand(scene->players[r].context);
        }
    }
    come_to_rest(scene);
    for (int r = 0; r < RANKS; r++) {
        assert_int_equal(scene->players[r].count, 1);
        assert_false(order_is_owed(scene->players[r].context));
    }
}

/* The creation of a set is waited for on all ranks, and what comes before it with it. */
static void test_creation_demands(void **state)
{
    struct scene *scene = *state;

    for (int r = 0; r < RANKS; r++) {
        scene->players[r].context->tickets.brakes = true;
        queue_batch(&scene->players[r], TUTTI_WORLD, 0);
        create_set(&scene->players[r], 1);
        queue_batch(&scene->players[r], TUTTI_WORLD, 1);
    }
    come_to_rest(scene);
    for (int r = 0; r < RANKS; r++) {
        assert_int_equal(scene->players[r].count, 1);
        assert_int_equal(scene->players[r].created[1], 1);
        assert_int_equal(scene->players[r].met[1], 1);
    }
}

static void test_malformed(void **state)
{
    struct scene *scene = *state;
    static const uint8_t short_token[] = { 0, 32, 0, 1, 2, 3 };
    static const uint8_t bad_lane[] = { 0, 9, 0 };
    static const uint8_t bad_question[] = { 200, 1 };
    struct tutti *first = scene->players[0].context;
    struct tutti *second = scene->players[1].context;

    assert_int_equal(order_receive(second, 0, false, short_token, sizeof short_token),
            TUTTI_ERR_PROTOCOL);
    assert_int_equal(order_receive(second, 0, false, bad_lane, sizeof bad_lane),
            TUTTI_ERR_PROTOCOL);
    assert_int_equal(order_receive(first, 1, true, bad_question, sizeof bad_question),
            TUTTI_ERR_PROTOCOL);
    /* Questions are for the sequencer, and orders are not. */
    assert_int_equal(order_receive(second, 0, true, bad_question, sizeof bad_question),
            TUTTI_ERR_PROTOCOL);
    assert_int_equal(order_receive(first, 1, false, bad_lane, sizeof bad_lane),
            TUTTI_ERR_PROTOCOL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_members_meet, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_caller_issues, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_joined_meets, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_creation_demands, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_malformed, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
