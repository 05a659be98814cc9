/*
 * What agreement costs each of 4,096 ranks: the messages of a step, and memory. The negotiators are
 * those of the library; messages arrive one round after they are sent, and ranks submit within some
 * rounds of each other, so that announcements are merged in parts.
 *
 *     sim_scale      fails above the limits
 */
#include <malloc.h>
#include <math.h>

#include "agree/negotiator.h"
#include "test/sim/grow.h"
#include "test/sim/rng.h"

enum {
    RANKS = 4096,
    PER_NODE = 8,
    FANOUT = 16,
    TENSORS = 161, /* as ResNet-50 has, with names as long as there */
    SKEW_ROUNDS = 24, /* within which ranks submit */
    ROUND_NS = 2000,
    MEMORY_MAX = 64 << 10, /* bytes of a rank */
    STEPS = 4 /* two by name, two by number */
};

struct mail {
    struct mail *next;
    int from;
    size_t len;
    uint8_t bytes[];
};

/** A queue, in the order of arrival. */
struct box {
    struct mail *first, **last;
};

/** A rank of the set. */
struct member {
    struct negotiator negotiator;
    struct box arrived, on_the_way;
    int ready_round; /* when it submits */
    int pending; /* submissions that it still has to make, or in flight */
    int messages; /* of this step, sent and received */
};

/** A process set whose members are all simulated. */
struct world {
    int size;
    int ranks[RANKS], node_of[RANKS];
    struct tree_shape shape;
    struct member *members; /* [size], owned */
    struct rng rng;
    int64_t now_ns;
};

static void must(bool done, const char *what)
{
    if (!done) {
        (void)fprintf(stderr, "sim_scale: %s: %s\n", what, tutti_last_error());
        _Exit(2);
    }
}

static int64_t memory_in_use(void)
{
    const struct mallinfo2 info = mallinfo2();

    return (int64_t)(info.uordblks + info.hblkhd);
}

static void box_put(struct box *box, struct mail *mail)
{
    mail->next = NULL;
    *(box->first == NULL ? &box->first : box->last) = mail;
    box->last = &mail->next;
}

/* The ranks of every `stride`-th node. */
static struct world *world_create(int stride)
{
    struct world *world = sim_alloc(1, sizeof *world);

    world->rng = rng_seeded(1);
    for (int r = 0; r < RANKS; r++) {
        if (r / PER_NODE % stride == 0) {
            world->node_of[world->size] = r / PER_NODE;
            world->ranks[world->size++] = r;
        }
    }
    must(tree_shape_init(&world->shape, world->size, world->node_of, FANOUT), "a tree");
    world->members = sim_alloc((size_t)world->size, sizeof *world->members);
    for (int m = 0; m < world->size; m++) {
        const struct negotiator_config config = { .size = world->size,
            .rank = m,
            .shape = &world->shape,
            .world_ranks = world->ranks,
            .number_capacity = 16384,
            .row_count_bytes_max = (size_t)32 << 20,
            .stall_ns = INT64_C(60000000000) };

        must(negotiator_init(&world->members[m].negotiator, &config) == TUTTI_OK,
                "a rank");
    }
    return world;
}

static void world_destroy(struct world *world)
{
    for (int m = 0; m < world->size; m++) {
        negotiator_fini(&world->members[m].negotiator);
    }
    tree_shape_fini(&world->shape);
    free(world->members);
    free(world);
}

static struct request request_of(int collective, const char *name)
{
    static char cookie; /* outcomes are counted, not told apart */

    return (struct request){ .collective = collective,
        .name = name,
        .name_len = strlen(name),
        .hash = request_hash(collective, name, strlen(name)),
        .meta = { .count = 16384,
                .dtype = TUTTI_FLOAT32,
                .prescale = 1,
                .postscale = 1 },
        .cookie = &cookie };
}

static void receive_all(struct member *member)
{
    struct mail *mail;

    while ((mail = member->arrived.first) != NULL) {
        member->arrived.first = mail->next;
        member->messages++;
        must(negotiator_receive(&member->negotiator, mail->from, mail->bytes,
                     mail->len) == TUTTI_OK,
                "receive");
        free(mail);
    }
}

static void send_all(struct world *world, int from)
{
    struct member *member = &world->members[from];
    const struct outbox *box = &member->negotiator.outbox;

    for (size_t i = 0; i < box->outcome_count; i++) {
        must(box->outcomes[i].error == NULL, "an outcome is an error");
    }
    member->pending -= (int)box->outcome_count;
    for (size_t i = 0; i < box->action_count; i++) {
        const struct action *action = &box->actions[i];

        if (action->kind == ACTION_SEND) {
            struct mail *mail = sim_alloc(1, sizeof *mail + action->len);

            mail->from = from;
            mail->len = action->len;
            memcpy(mail->bytes, box->arena.data + action->offset, action->len);
            box_put(&world->members[action->to].on_the_way, mail);
            member->messages++;
        }
    }
    negotiator_clear(&member->negotiator);
}

/* A rank with nothing to do sleeps. @return true when it did something */
static bool turn(struct world *world, int m, int round, const struct request *requests,
        int count)
{
    struct member *member = &world->members[m];
    struct negotiator *negotiator = &member->negotiator;

    if (member->arrived.first == NULL && member->pending == 0) {
        return false;
    }
    negotiator->now_ns = world->now_ns;
    receive_all(member);
    for (int i = 0; round == member->ready_round && i < count; i++) {
        must(negotiator_submit(negotiator, &requests[i]) == TUTTI_OK, "submit");
    }
    if (world->now_ns >= negotiator_next_tick(negotiator)) {
        must(negotiator_tick(negotiator) == TUTTI_OK, "tick");
    }
    must(negotiator_flush(negotiator) == TUTTI_OK, "flush");
    send_all(world, m);
    return true;
}

/* All ranks submit the same, and go on until nothing moves. @return messages of the busiest */
static int step(struct world *world, const struct request *requests, int count)
{
    bool moves = true;
    int most = 0;

    for (int m = 0; m < world->size; m++) {
        world->members[m].ready_round = (int)rng_below(&world->rng, SKEW_ROUNDS);
        world->members[m].pending = count;
        world->members[m].messages = 0;
    }
    for (int round = 0; moves; round++) {
        moves = false;
        world->now_ns += ROUND_NS;
        for (int m = 0; m < world->size; m++) {
            moves = turn(world, m, round, requests, count) || moves;
        }
        for (int m = 0; m < world->size; m++) {
            world->members[m].arrived = world->members[m].on_the_way;
            world->members[m].on_the_way.first = NULL;
        }
        must(round < 1000000, "nothing moves any more");
    }
    for (int m = 0; m < world->size; m++) {
        most = world->members[m].messages > most ? world->members[m].messages : most;
    }
    return most;
}

static bool is_within(const char *of, const char *what, int64_t is, int64_t limit)
{
    (void)printf("%-12s %-20s %10lld  at most %lld%s\n", of, what, (long long)is,
            (long long)limit, is <= limit ? "" : "  TOO MANY");
    return is <= limit;
}

static bool has_few_messages(const char *of, int messages)
{
    return is_within(of, "messages of a rank", messages, (int64_t)(12 * log2(RANKS)));
}

/* Steps of TENSORS tensors. */
static bool check_steps(void)
{
    static char names[TENSORS][32];
    static struct request requests[TENSORS];
    const int64_t before = memory_in_use();
    struct world *world = world_create(1);
    bool ok = true;

    for (int i = 0; i < TENSORS; i++) {
        (void)snprintf(names[i], sizeof names[i], "resnet/layer%03d.conv.weight", i);
        requests[i] = request_of(TUTTI_ALLREDUCE, names[i]);
    }
    for (int s = 0; s < STEPS; s++) {
        const int messages = step(world, requests, TENSORS);

        ok = has_few_messages(s < 2 ? "named" : "numbered", messages) && ok;
    }
    ok = is_within("all", "bytes of memory", (memory_in_use() - before) / RANKS,
                 MEMORY_MAX) &&
            ok;
    world_destroy(world);
    return ok;
}

/* All ranks create a set of every second node, whose members then meet. */
static bool check_set(void)
{
    struct request create = request_of(META_SET_CREATE, "set");
    struct request meet = request_of(TUTTI_BARRIER, "meet");
    struct world *world = world_create(1);
    struct world *set = world_create(2);
    int64_t *ranks = sim_alloc((size_t)set->size, sizeof *ranks);
    bool ok;

    for (int m = 0; m < set->size; m++) {
        ranks[m] = set->ranks[m];
    }
    create.meta.dims = ranks;
    create.meta.ndim = set->size;
    create.meta.dtype = meet.meta.dtype = TUTTI_UINT8;
    create.meta.count = meet.meta.count = 0;
    ok = has_few_messages("set-create", step(world, &create, 1));
    ok = has_few_messages("set-meet", step(set, &meet, 1)) && ok;
    free(ranks);
    world_destroy(world);
    world_destroy(set);
    return ok;
}

int main(void)
{
    const bool steps = check_steps();

    return check_set() && steps ? 0 : 1;
}
