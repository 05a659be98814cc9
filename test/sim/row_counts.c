/*
 * The row counts that the members of a set give in an exchange of rows.
 */
#include "scenario.h"

static int size_of(const struct scenario *scenario, const struct sim_item *item)
{
    return scenario->sets[scenario_call(scenario, item)->set].size;
}

static int collective_of(const struct scenario *scenario, const struct sim_item *item)
{
    return scenario->names[item->name].collective;
}

/* With the phase about a third of the pairs changes. */
static int64_t rows(const struct sim_item *item, int from, int to)
{
    return (from * 7 + to * 3 + item->name) % 11 +
            ((from + to) % 3 == item->phase % 3 ? item->phase : 0);
}

static bool is_odd(
        const struct scenario *scenario, const struct sim_item *item, int member)
{
    const struct sim_call *call = scenario_call(scenario, item);

    return call->deviation == DEVIATION_ROW_COUNTS &&
            item == &scenario->items[call->target] &&
            scenario_role(call, member) == ROLE_ODD;
}

int64_t scenario_sent(
        const struct scenario *scenario, const struct sim_item *item, int from, int to)
{
    const int collective = collective_of(scenario, item);
    const bool wrong = is_odd(scenario, item, from) && collective != TUTTI_SCATTER &&
            (collective == TUTTI_GATHER || to == (from + 1) % size_of(scenario, item));

    return rows(item, from, to) + (wrong ? 1 : 0);
}

int64_t scenario_expected(
        const struct scenario *scenario, const struct sim_item *item, int from, int to)
{
    if (collective_of(scenario, item) != TUTTI_SCATTER) {
        return rows(item, from, to);
    }
    if (is_odd(scenario, item, to)) {
        return rows(item, from, to) + 1;
    }
    return to % 4 == 1 ? -1 : rows(item, from, to);
}

size_t scenario_numbers(const struct scenario *scenario, const struct sim_name *name)
{
    return SIM_DIMS + 2 * (size_t)scenario->sets[name->set].size + 1;
}

void scenario_row_counts(const struct scenario *scenario, const struct sim_item *item,
        int member, struct meta *meta, int64_t *numbers)
{
    const int collective = collective_of(scenario, item);
    const int size = size_of(scenario, item);
    int64_t *row_counts = numbers + meta->ndim;
    int count = 0;

    if (collective == TUTTI_ALLTOALL) {
        for (int to = 0; to < size; to++) {
            row_counts[count++] = scenario_sent(scenario, item, member, to);
        }
        for (int from = 0; from < size; from++) {
            row_counts[count++] = scenario_expected(scenario, item, from, member);
        }
    } else if (collective == TUTTI_GATHER) {
        row_counts[count++] = scenario_sent(scenario, item, member, meta->root);
        for (int m = 0; m < size && member == meta->root; m++) {
            row_counts[count++] = scenario_expected(scenario, item, m, member);
        }
    } else if (collective == TUTTI_SCATTER) {
        row_counts[count++] = scenario_expected(scenario, item, meta->root, member);
        for (int m = 0; m < size && member == meta->root; m++) {
            row_counts[count++] = scenario_sent(scenario, item, member, m);
        }
    }
    meta->row_counts = count;
    meta->dims = meta->ndim + count > 0 ? numbers : NULL;
}
