/*
 * Meddling with a world.
 */
#include "agree/protocol.h"
#include "grow.h"
#include "world.h"

/* Damage is done to one of the messages after so many events. */
#define MEDDLE_WITHIN 2000

enum damage {
    DAMAGE_REPEAT,
    DAMAGE_CUT,
    DAMAGE_FLIP,
    DAMAGE_NOISE,
    DAMAGE_COUNT
};

static struct message *copy_of(const struct message *message, size_t len)
{
    struct message *copy = sim_alloc(1, sizeof *copy + len + 1);

    *copy = *message;
    copy->len = len;
    memcpy(copy->bytes, message->bytes, len);
    return copy;
}

/* The first name is that of a join or a finalize, which may legally come twice. */
static bool is_leave(const struct message *message)
{
    /* The tag stands at 1; then the rank, of up to two bytes, and the collective. */
    const size_t at = (message->bytes[2] & 0x80) != 0 ? 4 : 3;

    return message->bytes[at] == META_JOIN || message->bytes[at] == META_FINALIZE;
}

/*
 * A repetition that must be noticed at once: a log message; or a name at the coordinator,
 * unless its group was cancelled or failed because of a leave.
 */
static bool must_be_noticed(const struct world *world, const struct message *message)
{
    const int member = world->scenario->sets[message->set].member_of[message->to];

    return message->bytes[0] == KIND_LOG ||
            (message->bytes[0] == KIND_ANNOUNCE && member == 0 &&
                    message->bytes[1] == ITEM_NAME && !is_leave(message) &&
                    !world->scenario->sets[message->set].joins &&
                    world->scenario->cancel_chance == 0);
}

static void repeat(struct world *world, struct message *message)
{
    const bool must = must_be_noticed(world, message);

    world_deliver(world, copy_of(message, message->len));
    if (!world->stop) {
        world->tainted = true;
        world_deliver(world, copy_of(message, message->len));
        if (must && !world->stop) {
            world_fail(world, CHECK_INJECTION,
                    "a repeated message of kind %d went "
                    "unnoticed at rank %d",
                    message->bytes[0], message->to);
        }
    }
    free(message);
}

static void damage(struct world *world, struct message *message)
{
    struct rng *rng = &world->rng;
    const enum damage how = (enum damage)rng_below(rng, DAMAGE_COUNT);
    struct message *copy;

    if (how == DAMAGE_REPEAT) {
        repeat(world, message);
        return;
    }
    world->tainted = true;
    copy = copy_of(message,
            how == DAMAGE_CUT ? (size_t)rng_below(rng, (int)message->len)
                              : message->len);
    for (size_t i = 0; i < copy->len; i++) {
        if (how == DAMAGE_NOISE) {
            copy->bytes[i] = (uint8_t)rng_next(rng);
        }
    }
    if (how == DAMAGE_FLIP) {
        const int at = rng_below(rng, (int)copy->len);

        copy->bytes[at] ^= (uint8_t)(1 << rng_below(rng, 8));
    }
    world_log(world, "damage %d of:", how);
    free(message);
    world_deliver(world, copy);
}

void meddle_deliver(struct world *world, struct message *message)
{
    const bool due = world->scenario->mode == MODE_INJECT && !world->tainted &&
            world->events >= world->meddle_at;

    if (due) {
        damage(world, message);
    } else {
        world_deliver(world, message);
    }
}

/* Cancels some submission of a random rank, if it has any. */
static void cancel_something(struct world *world)
{
    const struct scenario *s = world->scenario;
    const int rank = rng_below(&world->rng, s->ranks);
    const int start = rng_below(&world->rng, s->name_count);

    if (world->ranks[rank].dead) {
        return;
    }
    for (int i = 0; i < s->name_count; i++) {
        const int n = (start + i) % s->name_count;
        const int member = s->sets[s->names[n].set].member_of[rank];

        if (member >= 0 && world->slots[n][member].pending &&
                s->names[n].collective < META_SET_CREATE) {
            world_cancel(world, &world->slots[n][member]);
            return;
        }
    }
}

void meddle(struct world *world)
{
    const struct scenario *s = world->scenario;

    if (world->meddle_at == 0) {
        world->meddle_at = rng_range(
                &world->rng, 1, s->is_training ? 10 * MEDDLE_WITHIN : MEDDLE_WITHIN);
    }
    if (s->cancel_chance > 0 && rng_chance(&world->rng, s->cancel_chance) &&
            (!s->cancel_seldom || rng_chance(&world->rng, 3))) {
        cancel_something(world);
    }
    if (s->mode == MODE_KILL && !world->killed && world->events >= world->meddle_at) {
        world_kill(world, rng_below(&world->rng, s->ranks));
    }
}
