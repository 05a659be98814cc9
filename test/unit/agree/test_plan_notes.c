/*
 * What a rank writes when it leaves a plan: where, which rank, why, and which tensor. Where is
 * equal on all ranks; a rank that leaves as well names itself.
 *
 * Two ranks plan "a" and "b", a batch each; rank 1 is world rank 11.
 */
#include <stdio.h>

#include "scene.h"
#include "test/unit/unit.h"

/* The third iteration and the first batch of the fourth have committed in a plan. */
static struct scene *begin(void)
{
    const struct request a = scene_request("a", 5);
    const struct request b = scene_request("b", 5);
    struct scene *s = scene_begin_plans(SCENE_TREE, 2, 10, 2);

    for (int i = 0; i < 3; i++) {
        scene_all_ready(s, &a);
        scene_all_ready(s, &b);
    }
    scene_all_ready(s, &a);
    return s;
}

/* A rank has left the plan and writes so. */
static void left(const struct scene *s, int rank, const char *why)
{
    char text[512];

    (void)snprintf(text, sizeof text,
            "plan on lane 1 (2 tensors) left after 1 iteration and 1 of 2 batches: "
            "rank %s",
            why);
    assert_string_equal(s->notes[rank], text);
    assert_int_equal(s->ranks[rank].stats.plan_exits, 1);
}

#define OTHER_LEAVES "10 leaves because another rank joins or finalizes"

UNIT_TEST(test_a_rank_that_leaves_is_named_with_the_reason)
{
    struct request step = scene_request("b", 5);
    const struct {
        struct request request; /* of rank 1 */
        const char *notes[2]; /* of each rank */
    } cases[] = {
        { scene_request("b", 6),
                { "11 submitted allreduce \"b\" with other metadata", NULL } },
        { step,
                { "11 submitted allreduce \"b\" with another step than was expected",
                        NULL } },
        { scene_request("a", 5),
                { "11 did not submit allreduce \"b\" in time", NULL } },
        { scene_request("a", 5), { "11 cancels allreduce \"a\"", NULL } },
        { scene_leave(META_JOIN), { OTHER_LEAVES, "11 joins" } },
        { scene_leave(META_FINALIZE), { OTHER_LEAVES, "11 finalizes" } },
    };

    step.meta.step = 4;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *const *notes = cases[i].notes;
        struct scene *s = begin();

        scene_play(s, 1, i == 1 ? &step : &cases[i].request);
        if (i == 2) {
            scene_tick(s, 1, negotiator_next_tick(&s->ranks[1]));
        } else if (i == 3) {
            scene_cancel(s, 1, &cases[i].request);
        }
        scene_run(s);
        left(s, 0, notes[0]);
        left(s, 1, notes[1] != NULL ? notes[1] : notes[0]);
        scene_fini(s);
    }
}
