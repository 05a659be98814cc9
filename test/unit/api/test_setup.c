/*
 * What the ranks of a job agree on at its start, over mailboxes: a thread for each.
 */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "api/setup.h"
#include "test/unit/transport/ranks.h"

static const int sizes[] = { 1, 2, 3, 5, 17, 64 };

/* One thread's rank. */
struct member {
    struct context_spec spec;
    tutti_status status;
    char error[256];
};

static void *start(void *user)
{
    struct member *member = user;

    member->status = setup_agree(&member->spec);
    (void)snprintf(member->error, sizeof member->error, "%s", tutti_last_error());
    return NULL;
}

/* Gives a rank values; three ranks are on each host. */
static void prepare(
        struct member *member, const struct transport *end, const char *fanout)
{
    tutti_config *config = NULL;
    char host[16];

    *member = (struct member){
        .spec = { .rank = end->rank,
                .size = end->size,
                .transport = *end,
                .limits = { .batch_bytes = (size_t)(100 - end->rank),
                        .tensor_bytes = 7 },
                .chunk_bytes = (size_t)(10 + end->rank),
                .expects_gpus = end->rank == end->size - 1 }
    };
    (void)snprintf(host, sizeof host, "h%d", end->rank / 3);
    assert_int_equal(tutti_config_create(&config), TUTTI_OK);
    assert_int_equal(tutti_config_set(config, "host_id", host), TUTTI_OK);
    assert_int_equal(tutti_config_set(config, "tree_fanout", fanout), TUTTI_OK);
    assert_int_equal(config_copy(&member->spec.config, &config->values), TUTTI_OK);
    tutti_config_destroy(config);
}

/* Ranks from `odd` on have another fanout, each its own; -1: all have the same. */
static void run(struct member *members, int size, int odd)
{
    static struct ranks ranks;
    pthread_t threads[RANKS_MAX];

    ranks_open(&ranks, size);
    for (int r = 0; r < size; r++) {
        char fanout[16];

        (void)snprintf(fanout, sizeof fanout, "%d", odd >= 0 && r >= odd ? 20 + r : 16);
        prepare(&members[r], &ranks.ends[r], fanout);
        assert_int_equal(pthread_create(&threads[r], NULL, start, &members[r]), 0);
    }
    for (int r = 0; r < size; r++) {
        assert_int_equal(pthread_join(threads[r], NULL), 0);
    }
}

UNIT_TEST(test_all_ranks_know_where_all_are_and_the_smallest_limits)
{
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        static struct member members[RANKS_MAX];
        const int size = sizes[i];

        run(members, size, -1);
        for (int r = 0; r < size; r++) {
            struct context_spec *spec = &members[r].spec;

            assert_int_equal(members[r].status, TUTTI_OK);
            assert_int_equal(spec->limits.batch_bytes, 100 - (size - 1));
            assert_int_equal(spec->limits.tensor_bytes, 7);
            assert_int_equal(spec->chunk_bytes, 10);
            assert_true(spec->expects_gpus);
            assert_int_equal(spec->nodes.count, (size + 2) / 3);
            assert_int_equal(spec->caches.size, size);
            for (int other = 0; other < size; other++) {
                assert_int_equal(nodes_of(&spec->nodes, other), other / 3);
            }
            context_spec_fini(spec);
        }
    }
}

UNIT_TEST(test_the_lowest_rank_that_differs_is_named_with_both_values)
{
    for (size_t i = 1; i < sizeof sizes / sizeof *sizes; i++) {
        static struct member members[RANKS_MAX];

        for (int odd = 1; odd < sizes[i]; odd += 1 + sizes[i] / 7) {
            char expected[128];

            (void)snprintf(expected, sizeof expected,
                    "tree_fanout must be equal on all ranks: rank 0 has 16, rank %d "
                    "has "
                    "%d",
                    odd, 20 + odd);
            run(members, sizes[i], odd);
            for (int r = 0; r < sizes[i]; r++) {
                assert_int_equal(members[r].status, TUTTI_ERR_CONFIG);
                assert_string_equal(members[r].error, expected);
                context_spec_fini(&members[r].spec);
            }
        }
    }
}
