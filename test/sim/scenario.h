/*
 * What the virtual ranks do: a random SPMD program over overlapping process sets, and how
 * some ranks deviate from it.
 *
 * A program is a list of waves; a wave is a list of calls; a call submits one tensor or a
 * group of them in one process set. Every member makes the calls of a wave in an order of
 * its own, and may wait for everything before it goes on to the next wave. All ranks go
 * through the waves in the same order, so a program without deviations terminates.
 */
#ifndef TUTTI_SIM_SCENARIO_H
#define TUTTI_SIM_SCENARIO_H

#include <stdbool.h>
#include <stdint.h>

#include "agree/meta.h"
#include "agree/planner.h"
#include "agree/tree.h"
#include "rng.h"

enum {
    SIM_SETS_MAX = 6,
    SIM_WAVES_MAX = 80,
    SIM_GROUP_MAX = 4, /* tensors of a call, without one that a deviation adds */
    SIM_DIMS = 2
};

/** What is special about a run. */
enum sim_mode {
    MODE_LEGAL,
    MODE_ILLEGAL, /* some ranks give something else than the others             */
    MODE_ABSENT, /* some ranks leave out calls                                 */
    MODE_KILL, /* a rank vanishes                                            */
    MODE_INJECT, /* a message is repeated or damaged                           */
    MODE_COUNT
};

/** How the ranks with an odd role differ from the others in a call. */
enum deviation {
    DEVIATION_NONE,
    DEVIATION_DTYPE,
    DEVIATION_COUNT,
    DEVIATION_SHAPE,
    DEVIATION_OP,
    DEVIATION_ROOT,
    DEVIATION_SCALE,
    DEVIATION_SPACE,
    DEVIATION_STEP, /* they left the tensor out before                    */
    DEVIATION_ROW_COUNTS, /* what they send is not what others expect, or the other way          */
    DEVIATION_GROUP_LESS, /* they leave the target out of the group               */
    DEVIATION_GROUP_APART, /* they submit the target by itself, in a call of its own */
    DEVIATION_GROUP_MORE, /* they add the target, which nobody else submits       */
    DEVIATION_ABSENT /* they do not make the call                            */
};

/** What a member does in a call; from ROLE_ABSENT on it does not make it. */
enum role {
    ROLE_NORMAL,
    ROLE_ODD,
    ROLE_ODDER,
    ROLE_ABSENT,
    ROLE_JOINED, /* and waits for the others to join                             */
    ROLE_LEFT /* has called finalize                                          */
};

/** A process set. */
struct sim_set {
    int size;
    int *ranks; /* [size] world rank of each member; owned                      */
    int *nodes; /* [size] node of each member; owned                            */
    struct tree_shape shape; /* of its tree                                      */
    int *member_of; /* [world] member, or -1; owned                                 */
    int join; /* its name for joins                                           */
    bool joins; /* some members join early                                      */
    int boards; /* percent of its nodes whose ranks have boards                 */
};

/** What happens in a training program beside the same in each iteration; in percent. */
struct sim_training {
    int one_offs; /* iterations with a name that is used once             */
    int changes; /* calls from which on something has other metadata     */
    int joins; /* waves in which members begin to join                 */
    int left_out; /* calls that are not made this time, by any rank       */
    int shapes; /* of steps: 1 or 2; not percent                        */
    bool evaluates; /* some iterations use other names                      */
};

/** How the steps of a name go from one call to the next. */
enum sim_steps {
    STEPS_NONE,
    STEPS_EVEN, /* 1, 2, 3, or 3, 6, 9                                 */
    STEPS_RUNS, /* the same a few times in a row                       */
    STEPS_WILD, /* now and then they jump, are not given, or go back   */
    STEPS_COUNT
};

/** A name within a set. */
struct sim_name {
    int set;
    int collective;
    char text[32];
    struct meta meta; /* what the next call gives; dims are in `dims`         */
    int64_t dims[SIM_DIMS];
    int phase; /* chooses the row counts of the next call                             */
    enum sim_steps steps;
    int calls; /* that use it, so far                                   */
    bool dead; /* something of it may hang: not used again             */
};

/** One tensor of a call. */
struct sim_item {
    int name;
    int call;
    struct meta meta;
    int64_t dims[SIM_DIMS];
    int phase; /* chooses its row counts            */
    bool extra; /* only submitted by odd members */
};

struct sim_call {
    int set;
    int wave;
    int first, count; /* its items                                                  */
    bool grouped;
    enum deviation deviation;
    int target; /* the item that the deviation is about                       */
    bool stray; /* submitted by some because of a deviation: may never end    */
    uint8_t *roles; /* [set size], or NULL: all normal; owned                     */
    int *waves; /* [set size] when each member makes it, or NULL: all in
                            `wave`; owned                                             */
    bool cancelled; /* during the run: some member asked for it                   */
};

struct scenario {
    uint64_t seed;
    enum sim_mode mode;
    int ranks;
    int fanout;
    int number_capacity;
    uint64_t first_number;
    size_t row_count_bytes_max;
    int64_t stall_ns, stall_fail_ns;
    struct planner_limits limits;

    bool is_training; /* the program consists of iterations                      */
    int iterations;
    int parts; /* waves of an iteration                                   */
    struct sim_training training;

    struct sim_set sets[SIM_SETS_MAX]; /* the first is the world */
    int set_count;
    struct sim_name *names;
    int name_count;
    struct sim_item *items;
    int item_count;
    struct sim_call *calls;
    int call_count;
    int *wave_first; /* [wave_count + 1] first call of each wave */
    int wave_count;
    int leaves_first; /* first call that has waves of its own; they come last */
    bool finalizes; /* each member calls finalize in the end, or earlier */
    bool leaves_joined; /* a member may call finalize before its join is over */

    /* How the scheduler chooses: relative weights, and chances in percent. */
    int step_weight, deliver_weight, turn_weight, look_weight;
    int tick_chance, cancel_chance, wait_chance, slow_chance;
    bool cancel_seldom; /* a hundredth of that chance                             */
    int full_chance; /* a log message does not fit on a board                 */
};

/** The scenario of a seed. */
struct scenario *scenario_create(uint64_t seed);
void scenario_destroy(struct scenario *scenario);

/** The call that an item belongs to. */
static inline const struct sim_call *scenario_call(
        const struct scenario *scenario, const struct sim_item *item)
{
    return &scenario->calls[item->call];
}

enum role scenario_role(const struct sim_call *call, int member);
/** True when a member in this role submits the item. */
bool scenario_submits(
        const struct scenario *scenario, const struct sim_item *item, enum role role);
/** The metadata that a member in this role gives; `dims` is its storage. */
struct meta scenario_meta(const struct scenario *scenario, const struct sim_item *item,
        enum role role, int64_t dims[SIM_DIMS]);
/** True when a member and its node's other members see each other's words. */
bool scenario_has_board(const struct scenario *scenario, int set, int member);
/** What a member gives to the reduction of an item. */
uint64_t scenario_operand(const struct scenario *scenario, int item, int member);
/** Where a member's tensor of an item lies. */
uint64_t scenario_spot(const struct scenario *scenario, int item, int member);
/** True when the tensors of all members lie at one spot. */
bool scenario_has_one_spot(const struct scenario *scenario, int item);
/** True when operands may travel with announcements: all talk to the coordinator, by messages. */
bool scenario_has_operands(const struct sim_set *set);
/** Numbers that a member's request has room for. */
size_t scenario_numbers(const struct scenario *scenario, const struct sim_name *name);
/** Adds the row counts of a member to the metadata, behind its shape. */
void scenario_row_counts(const struct scenario *scenario, const struct sim_item *item,
        int member, struct meta *meta, int64_t *numbers);
/** The rows that a member sends to another, and those that the other expects; or -1. */
int64_t scenario_sent(
        const struct scenario *scenario, const struct sim_item *item, int from, int to);
int64_t scenario_expected(
        const struct scenario *scenario, const struct sim_item *item, int from, int to);
/** True when some member has this role in the call. */
bool scenario_has_role(
        const struct scenario *scenario, const struct sim_call *call, enum role role);
/** True when the call ends well without those that have joined. */
bool scenario_is_reducible(
        const struct scenario *scenario, const struct sim_call *call);
/** True when what a member in this role submits in the call can wait for ever. */
bool scenario_may_hang(const struct sim_call *call, enum role role);
const char *scenario_mode_name(enum sim_mode mode);

#endif
