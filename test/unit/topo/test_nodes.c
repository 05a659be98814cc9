/*
 * The map between ranks and nodes, and how it comes about from what parts of a job know.
 */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "test/unit/unit.h"
#include "topo/places.h"

enum {
    RANKS = 5000
};

/* What the ranks of a job say; the texts of rank r. */
struct job {
    int size;
    const char *(*host)(int rank);
    const char *(*cache)(int rank);
};

static const char *letter(int number)
{
    static const char *const letters[] = { "a", "b", "c", "aa", "", "ab" };

    return letters[number];
}

/* Takes the ranks from first on in, in two parts of which each is put together so. */
static tutti_status gather(
        const struct job *job, int first, int count, struct places *places)
{
    struct places rest = { .list = NULL };
    struct wire_writer out = { .data = NULL };
    struct wire_reader in;
    tutti_status status;

    if (count == 1) {
        return places_add(places, job->host(first), job->cache(first))
                ? TUTTI_OK
                : TUTTI_ERR_NO_MEMORY;
    }
    status = gather(job, first, count / 2, places);
    if (status == TUTTI_OK) {
        status = gather(job, first + count / 2, count - count / 2, &rest);
    }
    places_put(&out, &rest);
    wire_reader_init(&in, out.data, out.len);
    if (status == TUTTI_OK) {
        status = out.failed ? TUTTI_ERR_NO_MEMORY : places_take(places, &in);
    }
    wire_writer_fini(&out);
    places_fini(&rest);
    return status;
}

/* As a rank does that hears of a placement. */
static tutti_status hear(struct nodes *nodes)
{
    struct wire_writer out = { .data = NULL };
    struct wire_reader in;
    struct nodes read = { .size = 0 };
    tutti_status status;

    nodes_put(&out, nodes);
    wire_reader_init(&in, out.data, out.len);
    status = out.failed ? TUTTI_ERR_NO_MEMORY : nodes_get(&in, &read);
    wire_writer_fini(&out);
    nodes_fini(nodes);
    *nodes = read;
    return status;
}

static tutti_status place(
        const struct job *job, struct nodes *nodes, struct nodes *caches)
{
    struct places places = { .list = NULL };
    tutti_status status = gather(job, 0, job->size, &places);

    if (status == TUTTI_OK) {
        status = places_group(&places, nodes, caches);
    }
    places_fini(&places);
    if (status == TUTTI_OK) {
        status = hear(nodes);
    }
    return status == TUTTI_OK ? hear(caches) : status;
}

/* Compares with numbers that are given out one by one. */
static void assert_groups(const struct nodes *nodes, const int *expected, int size)
{
    static int local[RANKS];
    static int list[RANKS];
    int *table = nodes_table(nodes);
    int count = 0;

    memset(local, 0, sizeof local);
    assert_int_equal(nodes->size, size);
    for (int r = 0; r < size; r++) {
        count = expected[r] >= count ? expected[r] + 1 : count;
        assert_int_equal(nodes_of(nodes, r), expected[r]);
        assert_int_equal(table[r], expected[r]);
        assert_int_equal(nodes_local(nodes, r), local[expected[r]]++);
    }
    assert_int_equal(nodes->count, count);
    for (int n = 0; n < count; n++) {
        assert_int_equal(nodes_ranks(nodes, n), local[n]);
        nodes_list(nodes, n, list);
        for (int i = 0; i < local[n]; i++) {
            assert_int_equal(expected[list[i]], n);
            assert_int_equal(nodes_local(nodes, list[i]), i);
        }
    }
    mem_free(table);
}

static const char *few_hosts(int rank)
{
    static const int host[] = { 1, 0, 1, 3, 0, 1, 5, 5 };

    return letter(host[rank]);
}

/* On host 1 rank 2 is in no single cache. */
static const char *few_caches(int rank)
{
    static const int cache[] = { 1, 1, 4, 1, 2, 1, 0, 2 };

    return letter(cache[rank]);
}

UNIT_TEST(test_ranks_are_grouped_by_host_and_cache)
{
    static const int node_of[] = { 0, 1, 0, 2, 1, 0, 3, 3 };
    static const int cache_of[] = { 0, 1, 0, 2, 3, 0, 4, 5 };

    for (int size = 1; size <= 8; size++) {
        const struct job job = { .size = size, .host = few_hosts, .cache = few_caches };
        struct nodes nodes = { .size = 0 };
        struct nodes caches = { .size = 0 };

        assert_int_equal(place(&job, &nodes, &caches), TUTTI_OK);
        assert_groups(&nodes, node_of, size);
        if (size > 4) {
            assert_groups(&caches, cache_of, size);
        }
        nodes_fini(&nodes);
        nodes_fini(&caches);
    }
}

/* Eight ranks on a host; the same dealt; and no rule at all. */
static int number_of(int kind, int rank)
{
    static const int irregular[] = { 0, 0, 1, 0, 2, 2, 3, 1, 1, 4 };

    switch (kind) {
    case 0:
        return rank / 8;
    case 1:
        return rank % 625;
    default:
        return irregular[rank % 10] + rank / 10 * 5;
    }
}

static int kind;

static const char *many_hosts(int rank)
{
    static char text[16];

    (void)snprintf(text, sizeof text, "host-%d", number_of(kind, rank));
    return text;
}

static const char *no_cache(int rank)
{
    (void)rank;
    return "";
}

UNIT_TEST(test_regular_placements_take_few_runs)
{
    static const size_t runs[] = { 1, 8, RANKS };
    static int expected[RANKS];
    const struct job job = { .size = RANKS, .host = many_hosts, .cache = no_cache };

    for (kind = 0; kind < 3; kind++) {
        struct nodes nodes = { .size = 0 };
        struct nodes caches = { .size = 0 };

        for (int r = 0; r < RANKS; r++) {
            expected[r] = number_of(kind, r);
        }
        assert_int_equal(place(&job, &nodes, &caches), TUTTI_OK);
        assert_groups(&nodes, expected, RANKS);
        assert_groups(&caches, expected, RANKS);
        assert_true(nodes.run_count <= runs[kind]);
        nodes_fini(&nodes);
        nodes_fini(&caches);
    }
}

/* Whatever is cut or changed: refused, or a placement that can be used. */
UNIT_TEST(test_damaged_placements_do_no_harm)
{
    struct places places = { .list = NULL };
    struct wire_writer out = { .data = NULL };
    const struct job job = { .size = 8, .host = few_hosts, .cache = few_caches };

    assert_int_equal(gather(&job, 0, job.size, &places), TUTTI_OK);
    places_put(&out, &places);
    places_fini(&places);
    for (size_t at = 0; at < out.len; at++) {
        struct wire_reader in;

        wire_reader_init(&in, out.data, at);
        assert_int_equal(places_take(&places, &in), TUTTI_ERR_PROTOCOL);
        places_fini(&places);
        out.data[at] ^= 0x15;
        wire_reader_init(&in, out.data, out.len);
        (void)places_take(&places, &in);
        for (int r = 0; r < places.ranks.size && r < RANKS; r++) {
            assert_in_range(nodes_of(&places.ranks, r), 0, places.ranks.count - 1);
        }
        places_fini(&places);
        out.data[at] ^= 0x15;
    }
    wire_writer_fini(&out);
}
