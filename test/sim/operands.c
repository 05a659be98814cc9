/*
 * Operands that come with direct arrivals: some batches have them, and when one commits
 * those of all others are here, once, and say whose and which batch's they are.
 */
#include "grow.h"
#include "world.h"

static uint64_t content_of(const struct world *world, const struct carried_key *key)
{
    const uint64_t batch = hash_u64(world->scenario->seed, key->epoch * 64 + key->lane);

    return hash_u64(hash_u64(batch, key->index), (uint64_t)key->member);
}

static bool comes_along(const struct world *world, const struct carried_key *key)
{
    return hash_u64(world->scenario->seed, key->lane * 1000 + key->index) % 2 == 0;
}

void operands_carry(void *user, const struct plan *plan, const struct plan_batch *batch,
        struct wire_writer *out)
{
    const struct sim_member *member = user;
    const struct carried_key key = { .lane = plan->lane,
        .epoch = plan->epoch,
        .index = plan->cursor - 1,
        .member = member->member };

    (void)batch;
    wire_put_varint(out, comes_along(member->world, &key) ? sizeof(uint64_t) : 0);
    if (comes_along(member->world, &key)) {
        wire_put_u64(out, content_of(member->world, &key));
    }
}

tutti_status operands_keep(
        void *user, const struct carried_key *key, const uint8_t *bytes, size_t len)
{
    struct sim_member *member = user;
    struct wire_reader in;

    wire_reader_init(&in, bytes, len);
    if (wire_get_u64(&in) != content_of(member->world, key) &&
            !member->world->tainted) {
        world_fail(member->world, CHECK_OPERANDS, "rank %d is given another's operand",
                member->rank);
    }
    member->kept = sim_grow(member->kept, member->kept_count, sizeof *member->kept);
    member->kept[member->kept_count++] = *key;
    return TUTTI_OK;
}

void operands_take(
        struct world *world, struct sim_member *member, const struct outcome *outcome)
{
    const int others = world->scenario->sets[member->set].size - 1;
    const struct carried_key key = { .lane = outcome->lane, .index = outcome->index };
    int found = 0;

    for (int i = member->kept_count - 1; i >= 0; i--) {
        if (member->kept[i].lane == outcome->lane &&
                member->kept[i].epoch == outcome->epoch &&
                member->kept[i].index == outcome->index) {
            member->kept[i] = member->kept[--member->kept_count];
            found++;
        }
    }
    if (found != (comes_along(world, &key) ? others : 0)) {
        world_fail(world, CHECK_OPERANDS,
                "batch %llu of lane %u has %d operands of others at rank %d",
                (unsigned long long)outcome->index, outcome->lane, found, member->rank);
    }
}
