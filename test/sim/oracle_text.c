/*
 * The oracle's reading of error texts: a mismatch must name what differs, the ranks on
 * both sides, and both values.
 */
#include <inttypes.h>

#include "grow.h"
#include "oracle.h"

/* One side of a mismatch, as the text tells it. */
struct side {
    bool *ranks; /* [world] owned                 */
    int some; /* one of them                   */
    bool cut; /* the list was too long         */
    char value[200];
};

static const char *difference_name(enum deviation deviation)
{
    switch (deviation) {
    case DEVIATION_DTYPE:
        return "dtype";
    case DEVIATION_COUNT:
        return "count";
    case DEVIATION_SHAPE:
        return "shape";
    case DEVIATION_OP:
        return "reduction";
    case DEVIATION_ROOT:
        return "root";
    case DEVIATION_SCALE:
        return "scale factors";
    case DEVIATION_GROUP_LESS:
    case DEVIATION_GROUP_APART:
    case DEVIATION_GROUP_MORE:
    case DEVIATION_NONE:
    case DEVIATION_ABSENT:
        break;
    }
    return "group";
}

/* The value that a member in some role gave, in words. */
static void expected_value(const struct world *world, const struct sim_item *item,
        enum role role, char *text, size_t capacity)
{
    const struct sim_call *call = &world->scenario->calls[item->call];
    int64_t dims[SIM_DIMS];
    const struct meta meta = scenario_meta(world->scenario, item, role, dims);

    if (call->deviation == DEVIATION_DTYPE) {
        (void)snprintf(text, capacity, "%s", tutti_dtype_name(meta.dtype));
    } else if (call->deviation == DEVIATION_COUNT) {
        (void)snprintf(text, capacity, "%" PRId64, meta.count);
    } else if (call->deviation == DEVIATION_OP) {
        (void)snprintf(text, capacity, "%s", tutti_reduce_name(meta.op));
    } else if (call->deviation == DEVIATION_ROOT) {
        (void)snprintf(text, capacity, "%d", meta.root);
    } else if (call->deviation == DEVIATION_SCALE) {
        (void)snprintf(text, capacity, "prescale %g, postscale %g", meta.prescale,
                meta.postscale);
    } else if (meta.ndim == 0) {
        (void)snprintf(text, capacity, "none");
    } else if (meta.ndim == 1) {
        (void)snprintf(text, capacity, "[%" PRId64 "]", dims[0]);
    } else {
        (void)snprintf(text, capacity, "[%" PRId64 ", %" PRId64 "]", dims[0], dims[1]);
    }
}

/* "rank 3" or "ranks 0, 4-6, ..." up to " gave "; returns what follows, or NULL. */
static const char *read_ranks(const char *text, int ranks, struct side *side)
{
    const char *end = strstr(text, " gave ");
    char *next;

    if (end == NULL || strncmp(text, "rank", 4) != 0) {
        return NULL;
    }
    text += text[4] == 's' ? 6 : 5;
    while (text < end) {
        if (strncmp(text, "...", 3) == 0) {
            side->cut = true;
            break;
        }
        const long first = strtol(text, &next, 10);
        const long last = *next == '-' ? strtol(next + 1, &next, 10) : first;

        if (next == text || first < 0 || last < first || last >= ranks) {
            return NULL;
        }
        for (long r = first; r <= last; r++) {
            side->ranks[r] = true;
        }
        side->some = (int)first;
        text = next + (strncmp(next, ", ", 2) == 0 ? 2 : 0);
    }
    return end + strlen(" gave ");
}

/* Up to one of two ends; returns where that stands, or NULL. */
static const char *read_value(
        const char *text, const char *end_a, const char *end_b, struct side *side)
{
    const char *a = strstr(text, end_a);
    const char *b = strstr(text, end_b);
    const char *end = a == NULL || (b != NULL && b < a) ? b : a;

    if (end == NULL || (size_t)(end - text) >= sizeof side->value) {
        return NULL;
    }
    memcpy(side->value, text, (size_t)(end - text));
    side->value[end - text] = '\0';
    return end;
}

/* True when the side is exactly the members of one role, with their value. */
static bool side_is_true(const struct world *world, const struct sim_item *item,
        const struct side *side, enum role *role)
{
    const struct sim_call *call = &world->scenario->calls[item->call];
    const struct sim_set *set = &world->scenario->sets[call->set];
    char value[200];

    if (set->member_of[side->some] < 0) {
        return false;
    }
    *role = scenario_role(call, set->member_of[side->some]);
    for (int m = 0; m < set->size; m++) {
        const bool listed = side->ranks[set->ranks[m]];
        const bool in_role = scenario_role(call, m) == *role;

        if (listed != in_role && !(side->cut && in_role)) {
            return false;
        }
    }
    if (call->deviation >= DEVIATION_GROUP_LESS) {
        return true;
    }
    expected_value(
            world, &world->scenario->items[call->target], *role, value, sizeof value);
    return strcmp(value, side->value) == 0;
}

static bool text_is_true(const struct world *world, const struct sim_item *item,
        const char *text, struct side sides[2])
{
    const struct sim_call *call = &world->scenario->calls[item->call];
    const int ranks = world->scenario->ranks;
    char intro[64];
    const char *at;
    enum role roles[2];

    (void)snprintf(
            intro, sizeof intro, ": %s differs: ", difference_name(call->deviation));
    at = strstr(text, intro);
    if (at == NULL) {
        return false;
    }
    at = read_ranks(at + strlen(intro), ranks, &sides[0]);
    at = at != NULL ? read_value(at, ", rank ", ", ranks ", &sides[0]) : NULL;
    at = at != NULL ? read_ranks(at + 2, ranks, &sides[1]) : NULL;
    at = at != NULL ? read_value(at, "; give the same", ", others gave", &sides[1])
                    : NULL;
    return at != NULL && side_is_true(world, item, &sides[0], &roles[0]) &&
            side_is_true(world, item, &sides[1], &roles[1]) && roles[0] != roles[1];
}

void oracle_check_text(
        struct world *world, const struct sim_item *item, const char *text)
{
    const size_t ranks = (size_t)world->scenario->ranks;
    struct side sides[2] = { { .ranks = NULL }, { .ranks = NULL } };

    if (world->scenario->calls[item->call].stray) {
        return;
    }
    sides[0].ranks = sim_alloc(ranks, sizeof(bool));
    sides[1].ranks = sim_alloc(ranks, sizeof(bool));
    if (!text_is_true(world, item, text, sides)) {
        world_fail(world, CHECK_TEXT, "item %d: %s", item->call, text);
    }
    free(sides[0].ranks);
    free(sides[1].ranks);
}
