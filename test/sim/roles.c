/*
 * What each member of a set submits in a call, given its role.
 */
#include <string.h>

#include "agree/negotiator.h"
#include "scenario.h"

enum role scenario_role(const struct sim_call *call, int member)
{
    return call->roles != NULL ? (enum role)call->roles[member] : ROLE_NORMAL;
}

bool scenario_submits(
        const struct scenario *scenario, const struct sim_item *item, enum role role)
{
    const struct sim_call *call = scenario_call(scenario, item);
    const bool target = item == &scenario->items[call->target];

    if (role >= ROLE_ABSENT) {
        return false;
    }
    if (role == ROLE_NORMAL) {
        return !item->extra;
    }
    return !target ||
            (call->deviation != DEVIATION_GROUP_LESS &&
                    call->deviation != DEVIATION_GROUP_APART);
}

bool scenario_has_board(const struct scenario *scenario, int set, int member)
{
    const struct sim_set *s = &scenario->sets[set];
    const uint64_t node = (uint64_t)set << 32 | (uint32_t)s->nodes[member];

    return (int)(hash_u64(scenario->seed, node) % 100) < s->boards;
}

uint64_t scenario_spot(const struct scenario *scenario, int item, int member)
{
    const uint64_t chance = hash_u64(scenario->seed, (uint64_t)item) % 8;
    const int name = scenario->items[item].name;

    if (name % 2 == 0 || chance == 0) {
        return META_SPOT_NONE;
    }
    return chance == 1 ? 2 + scenario_operand(scenario, item, member) % 2
                       : 2 + chance / 4;
}

bool scenario_has_one_spot(const struct scenario *scenario, int item)
{
    const int size =
            scenario->sets[scenario_call(scenario, &scenario->items[item])->set].size;

    for (int m = 1; m < size; m++) {
        if (scenario_spot(scenario, item, m) != scenario_spot(scenario, item, 0)) {
            return false;
        }
    }
    return true;
}

uint64_t scenario_operand(const struct scenario *scenario, int item, int member)
{
    return hash_u64(scenario->seed, (uint64_t)item << 32 | (uint32_t)member);
}

bool scenario_has_operands(const struct sim_set *set)
{
    for (int m = 1; m < set->size; m++) {
        if (tree_shape_parent(&set->shape, m) != 0 || set->nodes[m] == set->nodes[0]) {
            return false;
        }
    }
    return set->size > 1;
}

/* The sum of the hashes of the members, so that their order does not matter. */
static void set_group(const struct scenario *scenario, const struct sim_call *call,
        enum role role, struct meta *meta)
{
    if (!call->grouped) {
        return;
    }
    for (int i = call->first; i < call->first + call->count; i++) {
        const struct sim_name *name = &scenario->names[scenario->items[i].name];

        if (scenario_submits(scenario, &scenario->items[i], role)) {
            meta->group +=
                    request_hash(name->collective, name->text, strlen(name->text));
            meta->group_size++;
        }
    }
}

/* Changes one thing; `by` is 1 or 2, for two different odd values. */
static void deviate_value(const struct scenario *scenario, const struct sim_call *call,
        int by, struct meta *meta, int64_t dims[SIM_DIMS])
{
    if (call->deviation == DEVIATION_DTYPE) {
        meta->dtype = (tutti_dtype)(((int)meta->dtype + by) % 12);
    } else if (call->deviation == DEVIATION_COUNT) {
        meta->count += by;
    } else if (call->deviation == DEVIATION_SHAPE) {
        dims[0] = meta->count + by;
        meta->ndim = 1;
    } else if (call->deviation == DEVIATION_OP) {
        meta->op = (tutti_reduce_op)(((int)meta->op + by) % 5);
    } else if (call->deviation == DEVIATION_ROOT) {
        meta->root = (meta->root + by) % scenario->sets[call->set].size;
    } else if (call->deviation == DEVIATION_SPACE) {
        meta->space = meta->space == OP_HOST ? OP_DEVICE : OP_HOST;
    } else if (call->deviation == DEVIATION_SCALE) {
        meta->prescale = 0.25;
    } else if (call->deviation == DEVIATION_STEP) {
        meta->step += (uint64_t)by;
    }
}

struct meta scenario_meta(const struct scenario *scenario, const struct sim_item *item,
        enum role role, int64_t dims[SIM_DIMS])
{
    const struct sim_call *call = scenario_call(scenario, item);
    struct meta meta = item->meta;

    memcpy(dims, item->dims, sizeof item->dims);
    if (item == &scenario->items[call->target] && role != ROLE_NORMAL) {
        deviate_value(scenario, call, role == ROLE_ODD ? 1 : 2, &meta, dims);
    }
    set_group(scenario, call, role, &meta);
    meta.dims = meta.ndim > 0 ? dims : NULL;
    return meta;
}

bool scenario_has_role(
        const struct scenario *scenario, const struct sim_call *call, enum role role)
{
    for (int m = 0; m < scenario->sets[call->set].size; m++) {
        if (scenario_role(call, m) == role) {
            return true;
        }
    }
    return false;
}

bool scenario_is_reducible(const struct scenario *scenario, const struct sim_call *call)
{
    for (int i = call->first; i < call->first + call->count; i++) {
        const int collective = scenario->names[scenario->items[i].name].collective;
        const int root = scenario->items[i].meta.root;

        if (collective == TUTTI_REDUCE && scenario_role(call, root) == ROLE_JOINED) {
            return false;
        }
        if (collective != TUTTI_ALLREDUCE && collective != TUTTI_REDUCE &&
                collective != TUTTI_REDUCESCATTER) {
            return false;
        }
    }
    return true;
}

/*
 * A tensor submitted apart from its group may meet the others' group, which then fails,
 * before its own rank submits what is left of the group.
 */
bool scenario_may_hang(const struct sim_call *call, enum role role)
{
    return call->stray || call->deviation == DEVIATION_ABSENT ||
            (call->deviation == DEVIATION_GROUP_APART && role != ROLE_NORMAL);
}

const char *scenario_mode_name(enum sim_mode mode)
{
    static const char *const names[MODE_COUNT] = { [MODE_LEGAL] = "legal",
        [MODE_ILLEGAL] = "illegal",
        [MODE_ABSENT] = "absent",
        [MODE_KILL] = "kill",
        [MODE_INJECT] = "inject" };

    return names[mode];
}
