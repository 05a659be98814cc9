/*
 * sim_mutants: is the simulator any good? Runs it on copies of the sources in which bugs are
 * planted, one after the other, and fails unless each is found: sim_mutants [SEEDS]
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "planted.h"
#include "run.h"

/* Every bug must be found within so many seeds. */
#define SEEDS_TO_FIND 10000

enum planted_bug planted_bug;

static const char *const names[BUG_COUNT] = {
    [BUG_NONE] = "NONE",
#define PLANTED_BUG(name, text) [BUG_##name] = #name,
#include "planted_bugs.def"
#undef PLANTED_BUG
};

static const char *const texts[BUG_COUNT] = {
    [BUG_NONE] = "none",
#define PLANTED_BUG(name, text) [BUG_##name] = (text),
#include "planted_bugs.def"
#undef PLANTED_BUG
};

/* True when the planted bug is found. Those of the launch order have their own schedules. */
static bool hunt(uint64_t seeds)
{
    const bool is_of_launches = strncmp(names[planted_bug], "ORDER_", 6) == 0;
    struct run_result result = { .check = CHECK_NONE };
    uint64_t seed = 0;

    while (result.check == CHECK_NONE && seed < seeds) {
        seed++;
        (is_of_launches ? launches_run_seed : run_seed)(seed, false, &result);
    }
    (void)printf("%-20s %6" PRIu64 "  %-12s  %s\n", names[planted_bug], seed,
            result.check == CHECK_NONE ? "NOT FOUND" : check_name(result.check),
            texts[planted_bug]);
    return result.check != CHECK_NONE;
}

int main(int argc, char **argv)
{
    const uint64_t seeds = argc == 2 ? strtoull(argv[1], NULL, 10) : SEEDS_TO_FIND;
    int found = 0;

    (void)printf("%-20s %6s  %-12s  %s\n", "planted bug", "seed", "found by", "what");
    for (int bug = BUG_NONE + 1; bug < BUG_COUNT; bug++) {
        planted_bug = (enum planted_bug)bug;
        found += hunt(seeds) ? 1 : 0;
    }
    (void)printf("%d of %d planted bugs found within %" PRIu64 " seeds\n", found,
            BUG_COUNT - 1, seeds);
    return found == BUG_COUNT - 1 ? 0 : 1;
}
