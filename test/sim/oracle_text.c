/*
 * The oracle's reading of error texts: a mismatch must name what differs, the ranks on
 * both sides, and both values.
 */
#include <inttypes.h>

#include "grow.h"
#include "world.h"

/* One side of a mismatch, as the text tells it. */
struct side {
    bool *ranks; /* [world] owned                 */
    int some; /* one of them                   */
    bool cut; /* the list was too long         */
    char value[200];
};

/* What differs, in words; groups, unless something else is said here. */
static const char *difference_name(enum deviation deviation)
{
    static const char *const names[] = {
        [DEVIATION_DTYPE] = "dtype differs",
        [DEVIATION_COUNT] = "count differs",
        [DEVIATION_SHAPE] = "shape differs",
        [DEVIATION_OP] = "reduction differs",
        [DEVIATION_ROOT] = "root differs",
        [DEVIATION_SCALE] = "scale factors differ",
        [DEVIATION_SPACE] = "memory differs",
        [DEVIATION_STEP] = "step differs",
        [DEVIATION_ABSENT] = NULL,
    };

    return names[deviation] != NULL ? names[deviation] : "group differs";
}

/* The value that a member in some role gave, in words. */
static void expected_value(const struct world *world, const struct sim_item *item,
        enum role role, char *text, size_t capacity)
{
    const struct sim_call *call = scenario_call(world->scenario, item);
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
    } else if (call->deviation == DEVIATION_STEP && meta.step == 0) {
        (void)snprintf(text, capacity, "no step");
    } else if (call->deviation == DEVIATION_STEP) {
        (void)snprintf(text, capacity, "step %" PRIu64, meta.step - 1);
    } else if (call->deviation == DEVIATION_SPACE) {
        (void)snprintf(text, capacity, "%s",
                meta.space == OP_DEVICE ? "device memory" : "host memory");
    } else if (meta.ndim == 0) {
        (void)snprintf(text, capacity, "none");
    } else if (meta.ndim == 1) {
        (void)snprintf(text, capacity, "[%" PRId64 "]", dims[0]);
    } else {
        (void)snprintf(text, capacity, "[%" PRId64 ", %" PRId64 "]", dims[0], dims[1]);
    }
}

/* "rank 3" or "ranks 0, 4-6, ..." up to a verb; returns what follows, or NULL. */
static const char *read_ranks(
        const char *text, int ranks, const char *verb, struct side *side)
{
    const char *end = strstr(text, verb);
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
    return end + strlen(verb);
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
    const struct sim_call *call = scenario_call(world->scenario, item);
    const struct sim_set *set = &world->scenario->sets[call->set];
    /* Where groups differ, some may have left without announcing the target. */
    const bool partial = call->deviation >= DEVIATION_GROUP_LESS;
    char value[200];

    if (set->member_of[side->some] < 0) {
        return false;
    }
    *role = scenario_role(call, set->member_of[side->some]);
    for (int m = 0; m < set->size; m++) {
        const bool listed = side->ranks[set->ranks[m]];
        const bool in_role = scenario_role(call, m) == *role;

        if (listed != in_role && !(in_role && (side->cut || partial))) {
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
    const struct sim_call *call = scenario_call(world->scenario, item);
    const int ranks = world->scenario->ranks;
    char intro[64];
    const char *at;
    enum role roles[2];

    (void)snprintf(intro, sizeof intro, ": %s: ", difference_name(call->deviation));
    at = strstr(text, intro);
    if (at == NULL) {
        return false;
    }
    at = read_ranks(at + strlen(intro), ranks, " gave ", &sides[0]);
    at = at != NULL ? read_value(at, ", rank ", ", ranks ", &sides[0]) : NULL;
    at = at != NULL ? read_ranks(at + 2, ranks, " gave ", &sides[1]) : NULL;
    at = at != NULL ? read_value(at, "; ", ", others gave", &sides[1]) : NULL;
    return at != NULL && side_is_true(world, item, &sides[0], &roles[0]) &&
            side_is_true(world, item, &sides[1], &roles[1]) && roles[0] != roles[1];
}

/* "rank 3 sends 5 rows to rank 1, which expects 4": true, and a contradiction. */
static bool row_counts_are_told(
        const struct world *world, const struct sim_item *item, const char *text)
{
    const struct scenario *s = world->scenario;
    const struct sim_call *call = &s->calls[item->call];
    const struct sim_item *target = &s->items[call->target];
    const char *at = strstr(text, "\": rank ");
    int ranks[2];
    long long sent;
    long long expected;
    int from;
    int to;

    if (at == NULL ||
            sscanf(at, "\": rank %d sends %lld rows to rank %d, which expects %lld;",
                    &ranks[0], &sent, &ranks[1], &expected) != 4 ||
            ranks[0] < 0 || ranks[0] >= s->ranks || ranks[1] < 0 ||
            ranks[1] >= s->ranks) {
        return false;
    }
    from = s->sets[call->set].member_of[ranks[0]];
    to = s->sets[call->set].member_of[ranks[1]];
    return from >= 0 && to >= 0 && sent != expected &&
            sent == scenario_sent(s, target, from, to) &&
            expected == scenario_expected(s, target, from, to);
}

static bool is_named(const struct world *world, const struct sim_call *call,
        const struct side *side, int member)
{
    return side->cut || side->ranks[world->scenario->sets[call->set].ranks[member]];
}

/*
 * Those that leave are named, and those that have joined where nobody leaves; beside
 * those that leave, others may do so who had joined before.
 */
static bool left_are_named(const struct world *world, const struct sim_call *call,
        tutti_status status, const struct side *side)
{
    const struct scenario *s = world->scenario;
    const bool left = status == TUTTI_ERR_FINALIZED;

    for (int m = 0; m < s->sets[call->set].size; m++) {
        const enum role role = scenario_role(call, m);
        const bool listed = side->ranks[s->sets[call->set].ranks[m]];
        const bool must =
                left ? role == ROLE_LEFT || role == ROLE_ABSENT : role == ROLE_JOINED;

        if ((must && !is_named(world, call, side, m)) ||
                (listed && !must && !(left && role == ROLE_JOINED))) {
            return false;
        }
    }
    return true;
}

void oracle_check_left(
        struct world *world, const struct sim_item *item, const struct error *error)
{
    const struct sim_call *call = scenario_call(world->scenario, item);
    struct side side = { .ranks = sim_alloc(
                                 (size_t)world->scenario->ranks, sizeof(bool)) };
    const char *at = strstr(error->text, "\": rank");

    /* A member of a group fails because of another one; its text speaks of that. */
    if (!call->stray &&
            (call->deviation < DEVIATION_GROUP_LESS ||
                    call->deviation == DEVIATION_ABSENT) &&
            (at == NULL ||
                    read_ranks(at + 3, world->scenario->ranks, " ha", &side) == NULL ||
                    !left_are_named(world, call, error->status, &side))) {
        world_fail(world, CHECK_TEXT, "item %d: %s", item->call, error->text);
    }
    free(side.ranks);
}

void oracle_check_text(
        struct world *world, const struct sim_item *item, const char *text)
{
    const size_t ranks = (size_t)world->scenario->ranks;
    struct side sides[2] = { { .ranks = NULL }, { .ranks = NULL } };

    const struct sim_call *call = scenario_call(world->scenario, item);

    if (call->stray) {
        return;
    }
    if (call->deviation == DEVIATION_ROW_COUNTS) {
        if (!row_counts_are_told(world, item, text)) {
            world_fail(world, CHECK_TEXT, "item %d: %s", item->call, text);
        }
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
