/*
 * The launch order: ranks that get messages late and in any order between links launch the
 * device batches that they share in one order, whatever sets come into being meanwhile.
 */
#include <string.h>

#include "base/mem.h"
#include "core/context.h"
#include "core/engine.h"
#include "core/lease.h"
#include "core/order.h"
#include "test/unit/unit.h"

enum {
    RANKS = 7,
    SETS = 6, /* the world, and some that come later */
    LANES = 3,
    LAUNCHES_MAX = 4096,
    ROUNDS = 300
};

struct letter {
    struct letter *next;
    int from;
    bool is_question;
    size_t len;
    uint8_t bytes[];
};

struct launch_note {
    tutti_process_set set;
    uint32_t lane;
};

/* One rank. */
struct player {
    struct tutti *context;
    struct process_set *sets[SETS];
    int world_ranks[SETS][RANKS];
    struct work creations[SETS];
    tutti_process_set created[SETS];
    int waiting[SETS][LANES]; /* batches agreed, and not launched */
    struct letter *first[RANKS]; /* from each rank */
    struct launch_note notes[LAUNCHES_MAX];
    size_t count;
    int met[SETS]; /* times */
    int polls_left; /* until a meeting is over */
    uint8_t token[SETS]; /* first byte of what it met with */
};

struct scene {
    struct player players[RANKS];
    unsigned seed;
    uint8_t tokens; /* made so far */
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

static const struct control_ops posting = { .name = "posting", .send = post };

/* ---------------------------------------------------------------- backend */

static tutti_status make_token(void *state, uint8_t token[OP_TOKEN_BYTES])
{
    (void)state;
    memset(token, 0, OP_TOKEN_BYTES);
    token[0] = ++current->tokens;
    return TUTTI_OK;
}

static tutti_status note_meeting(void *state, const struct op_set *set,
        const uint8_t token[OP_TOKEN_BYTES], bool everyone, bool *moved)
{
    struct player *player = state;

    (void)everyone;
    *moved = true;
    if (player->polls_left > 0) {
        player->polls_left--;
        return TUTTI_AGAIN;
    }
    player->polls_left = (int)any(3);
    player->met[set->id]++;
    player->token[set->id] = token[0];
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
    static const unsigned members[SETS] = { 0x7f, 0x0f, 0x3c, 0x71, 0x06, 0x48 };

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
    struct work *work = &player->creations[id];

    add_set(player, id);
    *work = (struct work){ .state = WORK_ANNOUNCED, .output = &player->created[id] };
    work->request.collective = META_SET_CREATE;
    atomic_store(&work->lease, LEASE_HELD);
    assert_true(order_created(player->context, player->sets[id], work));
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
        t->control = (struct control){
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
        order_fini(&player->context->order);
        work_table_fini(&player->context->works);
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
    const struct batch batch = {
        .set = player->sets[set], .lane = lane, .space = OP_DEVICE
    };

    player->waiting[set][lane]++;
    order_queued(player->context, &batch);
}

static bool launch_one(struct player *player)
{
    for (uint32_t s = 0; s < SETS; s++) {
        for (uint32_t lane = 0; lane < LANES; lane++) {
            const struct batch batch = {
                .set = player->sets[s], .lane = lane, .space = OP_DEVICE
            };

            if (player->waiting[s][lane] > 0 && order_allows(player->context, &batch)) {
                player->waiting[s][lane]--;
                assert_in_range(player->count, 0, LAUNCHES_MAX - 1);
                player->notes[player->count++] =
                        (struct launch_note){ .set = s, .lane = lane };
                order_use(player->context);
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
        if (scene->players[r].context->order.meets) {
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

/* What each rank has agreed on and not taken note of yet. */
struct agreed {
    tutti_process_set sets[RANKS][ROUNDS * 2];
    uint32_t lanes[RANKS][ROUNDS * 2];
    bool creates[RANKS][ROUNDS * 2];
    size_t first[RANKS], count[RANKS];
};

static void agree(
        struct agreed *agreed, tutti_process_set set, uint32_t lane, bool create)
{
    for (int r = 0; r < RANKS; r++) {
        if (create || is_member(set, r)) {
            const size_t at = agreed->count[r]++;

            agreed->sets[r][at] = set;
            agreed->lanes[r][at] = lane;
            agreed->creates[r][at] = create;
        }
    }
}

static bool take_note(struct scene *scene, struct agreed *agreed, int rank)
{
    struct player *player = &scene->players[rank];
    size_t at;

    if (agreed->first[rank] == agreed->count[rank]) {
        return false;
    }
    at = agreed->first[rank]++;
    if (agreed->creates[rank][at]) {
        create_set(player, agreed->sets[rank][at]);
    } else {
        queue_batch(player, agreed->sets[rank][at], agreed->lanes[rank][at]);
    }
    return true;
}

/* What two ranks launched of the sets that both are in. */
static void compare(
        const struct player *a, int rank_a, const struct player *b, int rank_b)
{
    size_t i = 0;
    size_t j = 0;

    for (;;) {
        while (i < a->count && !is_member(a->notes[i].set, rank_b)) {
            i++;
        }
        while (j < b->count && !is_member(b->notes[j].set, rank_a)) {
            j++;
        }
        if (i == a->count || j == b->count) {
            break;
        }
        assert_int_equal(a->notes[i].set, b->notes[j].set);
        assert_int_equal(a->notes[i].lane, b->notes[j].lane);
        i++;
        j++;
    }
    assert_int_equal(i, a->count);
    assert_int_equal(j, b->count);
}

static void play(struct scene *scene, unsigned seed, unsigned sets)
{
    struct agreed *agreed = mem_calloc(1, sizeof *agreed);
    unsigned known = 1;
    bool is_left = true;

    assert_non_null(agreed);
    scene->seed = seed;
    for (int round = 0; round < ROUNDS; round++) {
        if (known < sets && any(20) == 0) {
            agree(agreed, known, 0, true);
            known++;
        }
        agree(agreed, any(known), any(LANES), false);
    }
    while (is_left) {
        is_left = false;
        for (int i = 0; i < 2 * RANKS; i++) {
            is_left |= take_note(scene, agreed, (int)any(RANKS));
            (void)deliver_one(&scene->players[any(RANKS)], (int)any(RANKS));
            look(&scene->players[any(RANKS)]);
        }
        for (int r = 0; r < RANKS; r++) {
            is_left |= agreed->first[r] < agreed->count[r];
        }
    }
    come_to_rest(scene);
    for (int r = 0; r < RANKS; r++) {
        size_t batches = 0;

        for (size_t i = 0; i < agreed->count[r]; i++) {
            batches += !agreed->creates[r][i];
        }
        assert_int_equal(scene->players[r].count, batches);
        for (int other = 0; other < r; other++) {
            compare(&scene->players[r], r, &scene->players[other], other);
        }
    }
    mem_free(agreed);
}

static void test_world_alone(void **state)
{
    struct scene *scene = *state;

    play(scene, 1, 1);
    for (int r = 0; r < RANKS; r++) {
        assert_int_equal(scene->players[r].met[TUTTI_WORLD], 1);
        assert_int_equal(
                scene->players[r].token[TUTTI_WORLD], scene->players[0].token[0]);
        assert_false(scene->players[r].context->order.is_direct);
    }
}

static void check_sets(struct scene *scene)
{
    for (int r = 0; r < RANKS; r++) {
        const struct player *player = &scene->players[r];

        assert_true(player->context->order.is_direct);
        for (uint32_t s = 1; s < SETS; s++) {
            assert_null(player->sets[s]->creation);
            assert_int_equal(player->created[s], s);
            if (player->met[s] > 0) {
                assert_int_equal(player->met[s], 1);
            }
        }
    }
    assert_true(order_is_on_duty(scene->players[0].context));
    assert_false(order_is_on_duty(scene->players[1].context));
}

static void test_sets_come(void **state)
{
    struct scene *scene = *state;

    for (unsigned seed = 2; seed < 200; seed++) {
        play(scene, seed, SETS);
        check_sets(scene);
        assert_int_equal(tear_down(state), 0);
        assert_int_equal(set_up(state), 0);
        scene = *state;
    }
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

/* Somebody waits for a work on the device. */
static void demand(struct tutti *t)
{
    struct work *work = work_take(&t->works);

    assert_non_null(work);
    work_begin(work, NULL, NULL);
    work->request.meta.space = OP_DEVICE;
    order_demand(t, work);
}

/* With issue=caller batches wait until somebody waits for one. */
static void test_caller_issues(void **state)
{
    struct scene *scene = *state;

    for (int r = 0; r < RANKS; r++) {
        scene->players[r].context->config.issue = CONFIG_ISSUE_CALLER;
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

/* The creation of a set is waited for on all ranks, and what comes before it with it. */
static void test_creation_demands(void **state)
{
    struct scene *scene = *state;

    for (int r = 0; r < RANKS; r++) {
        scene->players[r].context->config.issue = CONFIG_ISSUE_CALLER;
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
        cmocka_unit_test_setup_teardown(test_world_alone, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_sets_come, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_members_meet, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_caller_issues, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_creation_demands, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_malformed, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
