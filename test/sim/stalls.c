/*
 * Stall reports: each must be true, and together they must name every tensor that hangs.
 */
#include "grow.h"
#include "world.h"

/* All ranks have looked at their clocks, as they do not while others move. */
#define QUARTERS_TO_LISTEN 4
/* A tensor's report comes within so many quarters of the stall time. */
#define QUARTERS_TO_REPORT 16
/* A report is cut after so many names and ranks. */
#define REPORTED_NAMES_MAX 5
#define REPORTED_RANKS_MAX 16

static int find_name(
        const struct world *world, int set, const char *text, const char *end)
{
    const struct scenario *s = world->scenario;
    char label[96];

    for (int n = 0; n < s->name_count; n++) {
        if (s->names[n].set != set) {
            continue;
        }
        (void)snprintf(label, sizeof label, "%s \"%s\"",
                meta_collective_name(s->names[n].collective), s->names[n].text);
        if (strlen(label) == (size_t)(end - text) &&
                memcmp(label, text, strlen(label)) == 0) {
            return n;
        }
    }
    return -1;
}

static bool hangs(const struct world *world, int name)
{
    const int set = world->scenario->names[name].set;

    for (int m = 0; m < world->scenario->sets[set].size; m++) {
        if (world->slots[name][m].pending) {
            return true;
        }
    }
    return false;
}

/* `text` to `end` is one tensor that `rank` has not submitted, it is said. */
static void check_claim(struct world *world, const struct sim_member *reporter,
        long rank, const char *text, const char *end)
{
    const struct scenario *s = world->scenario;
    const int name = find_name(world, reporter->set, text, end);
    const int member =
            rank >= 0 && rank < s->ranks ? s->sets[reporter->set].member_of[rank] : -1;

    if (name < 0 || member < 0 || !hangs(world, name) ||
            world->slots[name][member].pending) {
        world_fail(world, CHECK_STALL,
                "rank %d says in set %d that rank %ld has not submitted %.*s",
                reporter->rank, reporter->set, rank, (int)(end - text), text);
        return;
    }
    world->claimed[name * s->ranks + member] |= reporter->member == 0 ? 2 : 1;
}

/* A list of tensors that `rank` lacks, up to `stop`. */
static void take_names(struct world *world, const struct sim_member *reporter,
        long rank, const char *at, const char *stop)
{
    while (at < stop) {
        const char *open = strchr(at, '"');
        const char *end = open != NULL ? strchr(open + 1, '"') : NULL;

        if (end == NULL) {
            break;
        }
        check_claim(world, reporter, rank, at, end + 1);
        at = strncmp(end + 1, ", ", 2) == 0 ? end + 3 : stop;
    }
}

/* "rank 3 has not submitted allreduce "x", broadcast "y" and 2 more; rank 4 ..." */
static void read_report(
        struct world *world, struct sim_member *reporter, const char *bytes, size_t len)
{
    char *report = sim_alloc(len + 1, 1);
    const char *at;

    memcpy(report, bytes, len);
    at = strstr(report, "s: rank ");
    while (at != NULL) {
        const long rank = strtol(strstr(at, "rank ") + 5, NULL, 10);
        const char *names = strstr(at, "not submitted ");
        const char *stop = strchr(at + 1, ';');

        if (names != NULL) {
            take_names(world, reporter, rank, names + strlen("not submitted "),
                    stop != NULL ? stop : report + len);
        }
        at = stop != NULL && strncmp(stop, "; rank ", 7) == 0 ? stop : NULL;
    }
    free(report);
}

/* ------------------------------------------------------------ completeness */

/* Members above a member, the coordinator aside, that have not submitted the name. */
static bool all_above_wait(const struct world *world, int name, int member)
{
    const int set = world->scenario->names[name].set;
    const struct tree_shape *shape = &world->scenario->sets[set].shape;

    for (int m = tree_shape_parent(shape, member); m > 0;
            m = tree_shape_parent(shape, m)) {
        if (!world->slots[name][m].pending) {
            return false;
        }
    }
    return true;
}

static int hanging_names(const struct world *world, int set)
{
    int count = 0;

    for (int n = 0; n < world->scenario->name_count; n++) {
        count += world->scenario->names[n].set == set && hangs(world, n) ? 1 : 0;
    }
    return count;
}

static bool coordinator_sleeps(const struct world *world, int set)
{
    return !rank_is_awake(&world->ranks[world->scenario->sets[set].ranks[0]]);
}

/* True when a child of the coordinator has submitted the name. */
static bool child_waits(const struct world *world, int name)
{
    const struct sim_set *set =
            &world->scenario->sets[world->scenario->names[name].set];

    for (int m = 1; m < set->size; m++) {
        if (tree_shape_parent(&set->shape, m) == 0 && world->slots[name][m].pending) {
            return true;
        }
    }
    return false;
}

/* True when the coordinator waits for the name itself, or is missed by one of its children. */
static bool coordinator_can_know(const struct world *world, int name)
{
    return world->slots[name][0].pending ||
            (child_waits(world, name) &&
                    coordinator_sleeps(world, world->scenario->names[name].set));
}

/*
 * The coordinator, when it waits itself, names every rank of which it can know; its children
 * name a coordinator that sleeps.
 */
static bool must_be_claimed(const struct world *world, int name, int member)
{
    const struct slot *slots = world->slots[name];

    if (slots[member].pending) {
        return false;
    }
    return slots[0].pending ? all_above_wait(world, name, member)
                            : member == 0 && coordinator_can_know(world, name);
}

static void check_completeness(struct world *world, int name)
{
    const struct scenario *s = world->scenario;
    const struct sim_set *set = &s->sets[s->names[name].set];
    bool claimed = set->size > REPORTED_RANKS_MAX;

    if (!coordinator_can_know(world, name)) {
        return; /* Whom these wait for is in the recordings alone. */
    }
    for (int m = 0; m < set->size; m++) {
        claimed = claimed || world->claimed[name * s->ranks + m] != 0;
        if (set->size <= REPORTED_RANKS_MAX && must_be_claimed(world, name, m) &&
                world->claimed[name * s->ranks + m] == 0) {
            world_fail(world, CHECK_STALL, "nobody says that rank %d lacks \"%s\"",
                    set->ranks[m], s->names[name].text);
        }
    }
    if (!claimed) {
        world_fail(world, CHECK_STALL, "nobody reports \"%s\" of set %d",
                s->names[name].text, s->names[name].set);
    }
}

static void tick_all(struct world *world)
{
    for (int r = 0; r < world->scenario->ranks && !world->stop; r++) {
        if (rank_is_awake(&world->ranks[r])) {
            (void)world_tick(world, r);
        }
    }
}

static void pass_time(struct world *world, int quarters)
{
    for (int i = 0; i < quarters && !world->stop; i++) {
        world->now_ns += world->scenario->stall_ns / 4 + 1;
        tick_all(world);
        schedule_settle(world);
    }
}

/* After the time to fail nobody may wait any more. */
static void check_failure(struct world *world)
{
    const struct scenario *s = world->scenario;

    world->on_stall = NULL;
    pass_time(world, (int)(5 * s->stall_fail_ns / s->stall_ns));
    for (int r = 0; r < s->ranks && !world->stop; r++) {
        if (rank_is_awake(&world->ranks[r])) {
            world_fail(world, CHECK_STALL, "rank %d waits beyond stall_fail", r);
        }
    }
}

void stalls_check(struct world *world)
{
    const struct scenario *s = world->scenario;

    world_log(world, "nothing moves; time passes");
    world->claimed = sim_alloc((size_t)s->name_count * (size_t)s->ranks, 1);
    pass_time(world, QUARTERS_TO_LISTEN);
    world->on_stall = read_report;
    pass_time(world, QUARTERS_TO_REPORT);
    for (int n = 0; n < s->name_count && !world->stop; n++) {
        if (hangs(world, n) &&
                hanging_names(world, s->names[n].set) <= REPORTED_NAMES_MAX) {
            check_completeness(world, n);
        }
    }
    if (s->stall_fail_ns > 0 && !world->stop) {
        check_failure(world);
    }
}
