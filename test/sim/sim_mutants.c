/*
 * sim_mutants: is the simulator any good? Runs it on a negotiator that was compiled with
 * its observer, and reports which transitions the schedules reach (--coverage), and
 * whether deliberate bugs are found (--bugs).
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "run.h"

/* Every bug must be found, and every transition seen, within so many seeds. */
#define SEEDS_TO_FIND 10000
#define SEEDS_TO_COVER 2000

static const char *const transition_names[TRANSITION_COUNT] = {
#define TRANSITION(name) #name,
#include "agree/transitions.def"
#undef TRANSITION
};

struct bug_text {
    const char *name;
    const char *text;
};

static const struct bug_text bugs[BUG_COUNT] = {
    [BUG_NONE] = { "NONE", "none" },
#define PLANTED_BUG(name, text) [BUG_##name] = { #name, text },
#include "agree/planted_bugs.def"
#undef PLANTED_BUG
};

/* Bugs of the launch order are looked for in its own schedules. */
static bool is_of_launches(enum planted_bug bug)
{
    return strncmp(bugs[bug].name, "ORDER_", 6) == 0;
}

static int cover(uint64_t seeds)
{
    struct observer observer = { .planted = BUG_NONE };
    struct run_result result;
    int missing = 0;

    for (uint64_t seed = 1; seed <= seeds; seed++) {
        run_seed(seed, &observer, false, &result);
        if (result.check == CHECK_NONE) {
            launches_run_seed(seed, &observer, false, &result);
        }
        if (result.check != CHECK_NONE) {
            (void)printf("seed %" PRIu64 ": %s: %s\n", seed, check_name(result.check),
                    result.finding);
            return 1;
        }
    }
    (void)printf("transitions seen in %" PRIu64 " schedules:\n", seeds);
    for (int t = 0; t < TRANSITION_COUNT; t++) {
        (void)printf("  %-24s %12" PRIu64 "%s\n", transition_names[t], observer.seen[t],
                observer.seen[t] == 0 ? "  NOT COVERED" : "");
        missing += observer.seen[t] == 0 ? 1 : 0;
    }
    (void)printf("%d of %d transitions covered\n", TRANSITION_COUNT - missing,
            TRANSITION_COUNT);
    return missing == 0 ? 0 : 1;
}

/* True when the bug is found. */
static bool hunt(enum planted_bug bug, uint64_t seeds)
{
    struct observer observer = { .planted = bug };
    struct run_result result = { .check = CHECK_NONE };
    uint64_t seed = 0;

    while (result.check == CHECK_NONE && seed < seeds) {
        seed++;
        (is_of_launches(bug) ? launches_run_seed : run_seed)(
                seed, &observer, false, &result);
    }
    if (result.check == CHECK_NONE) {
        (void)printf("%-20s %6s  %-12s  %s\n", bugs[bug].name, "-", "NOT FOUND",
                bugs[bug].text);
        return false;
    }
    (void)printf("%-20s %6" PRIu64 "  %-12s  %s\n", bugs[bug].name, seed,
            check_name(result.check), bugs[bug].text);
    return true;
}

static int hunt_all(uint64_t seeds)
{
    int missed = 0;

    (void)printf("%-20s %6s  %-12s  %s\n", "planted bug", "seed", "found by", "what");
    for (int bug = BUG_NONE + 1; bug < BUG_COUNT; bug++) {
        missed += hunt((enum planted_bug)bug, seeds) ? 0 : 1;
    }
    (void)printf("%d of %d planted bugs found within %" PRIu64 " seeds\n",
            BUG_COUNT - 1 - missed, BUG_COUNT - 1, seeds);
    return missed == 0 ? 0 : 1;
}

int main(int argc, char **argv)
{
    const uint64_t seeds = argc == 3 ? strtoull(argv[2], NULL, 10) : 0;

    if (argc >= 2 && argc <= 3 && strcmp(argv[1], "--coverage") == 0) {
        return cover(seeds > 0 ? seeds : SEEDS_TO_COVER);
    }
    if (argc >= 2 && argc <= 3 && strcmp(argv[1], "--bugs") == 0) {
        return hunt_all(seeds > 0 ? seeds : SEEDS_TO_FIND);
    }
    (void)fprintf(stderr, "usage: sim_mutants --coverage|--bugs [SEEDS]\n");
    return 2;
}
