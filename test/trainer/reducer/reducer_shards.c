/*
 * Sums of virtual shards: the bits of the tree over shard numbers, whatever the number of ranks.
 */
#include <stdlib.h>
#include <string.h>

#include <tutti/trainer.h>

#include "ranks.h"
#include "reducer/shards.h"
#include "test/unit/unit.h"

enum {
    COUNT = 2051, /* elements: more than a block on few ranks, and no multiple */
    STEPS = 3
};

/* Inexact on purpose: sums in another order have other bits. */
static float shard_gradient(int shard, int64_t step, int64_t i)
{
    return 1.0F / (float)(3 + (shard * 7919 + i * 31 + step) % 1009) -
            (float)(shard % 3) * 0.3F;
}

/* The definition, slowly. */
/* NOLINTNEXTLINE(misc-no-recursion) */
static float tree(int first, int length, int64_t step, int64_t i)
{
    int split = 1;

    if (length == 1) {
        return shard_gradient(first, step, i);
    }
    while (split * 2 < length) {
        split *= 2;
    }
    return tree(first, split, step, i) + tree(first + split, length - split, step, i);
}

static void sum_shards(tutti *t, void *user)
{
    const int *shards = user;
    const tutti_param param = { .name = "w", .count = COUNT, .dtype = TUTTI_FLOAT32 };
    tutti_reducer_options options;
    tutti_reducer *reducer = NULL;
    float *gradient;
    int first;
    int count;

    tutti_reducer_options_default(&options);
    options.shards = *shards;
    (void)CHECK(tutti_reducer_create(t, &param, 1, &options, &reducer) == TUTTI_OK);
    gradient = tutti_reducer_gradient(reducer, 0);
    tutti_reducer_shards(reducer, &first, &count);
    for (int64_t step = 0; step < STEPS; step++) {
        int wrong = 0;

        memset(gradient, 0, COUNT * sizeof *gradient);
        for (int s = first; s < first + count; s++) {
            for (int64_t i = 0; i < COUNT; i++) {
                gradient[i] += shard_gradient(s, step, i);
            }
            (void)CHECK(tutti_reducer_ready(reducer, 0) == TUTTI_OK);
        }
        (void)CHECK(tutti_reducer_wait(reducer, NULL) == TUTTI_OK);
        for (int64_t i = 0; i < COUNT; i++) {
            const float expected = tree(0, *shards, step, i) * (float)(1.0 / *shards);

            wrong += memcmp(&gradient[i], &expected, sizeof expected) == 0 ? 0 : 1;
        }
        (void)CHECK(wrong == 0);
    }
    (void)CHECK(tutti_reducer_destroy(reducer) == TUTTI_OK);
}

UNIT_TEST(test_the_bits_are_those_of_the_tree_on_any_number_of_ranks)
{
    static const int numbers[] = { 1, 2, 3, 5, 8, 24 };

    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        int shards = numbers[i];

        for (int ranks = 1; ranks <= 8; ranks++) {
            assert_int_equal(ranks_run(ranks, sum_shards, &shards), 0);
        }
    }
}

UNIT_TEST(test_an_allreduce_suffices_for_equal_powers_of_two)
{
    assert_true(shards_fit_ranks(24, 3) && shards_fit_ranks(8, 8));
    assert_false(shards_fit_ranks(24, 2)); /* 12 shards are two subtrees */
    assert_false(shards_fit_ranks(8, 3));
}
