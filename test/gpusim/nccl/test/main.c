/*
 * Runs one case of the simulated NCCL: test_gpusim_nccl CASE processes|threads RANKS
 */
#include <stdlib.h>
#include <string.h>

#include "test/gpusim/nccl/test/cases.h"

/* A rule that is broken ends the process with this status. */
#define FOUND 97

static const struct {
    const char *name;
    void (*body)(struct rank *rank);
    struct expectation expected;
    const char *environment[4]; /* names and values, by turns */
} cases[] = {
    { .name = "values", .body = case_values },
    { .name = "rounding", .body = case_rounding },
    { .name = "scaled", .body = case_scaled },
    { .name = "large", .body = case_large },
    { .name = "pairs", .body = case_pairs },
    { .name = "group", .body = case_group },
    { .name = "float8", .body = case_float8,
            .expected = { .status = FOUND, .says = "only moves 8-bit floats" } },
};

int main(int count, char **arguments)
{
    size_t i;
    size_t k;

    if (count != 4) {
        (void)fprintf(stderr, "usage: %s CASE processes|threads RANKS\n", arguments[0]);
        return 2;
    }
    for (i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        if (strcmp(cases[i].name, arguments[1]) != 0) {
            continue;
        }
        for (k = 0; k + 1 < 4 && cases[i].environment[k] != NULL; k += 2) {
            (void)setenv(cases[i].environment[k], cases[i].environment[k + 1], 1);
        }
        return ranks_run(cases[i].body, (int)strtol(arguments[3], NULL, 10),
                strcmp(arguments[2], "threads") == 0, &cases[i].expected);
    }
    (void)fprintf(stderr, "no case %s\n", arguments[1]);
    return 2;
}
