/*
 * What the end of a generation means for the next one.
 */
#include <stdlib.h>
#include <string.h>

#include "launcher/elastic/judge.h"
#include "test/unit/unit.h"
#include "trainer/elastic/control.h"

enum {
    RANKS = 4,
    GENERATION = 3
};

struct play {
    struct rank items[RANKS];
    struct ranks ranks;
    struct cause cause;
    struct host_list hosts;
    struct members members;
    struct judge_facts facts;
};

static bool names_b(const void *context, const char *host)
{
    (void)context;
    return strcmp(host, "b") == 0;
}

/* A host is not blamed for another whose name is longer, nor for other words. */
UNIT_TEST(test_ssh_names_one_host)
{
    static const struct {
        const char *line;
        const char *host;
        bool names;
    } rows[] = {
        { "ssh: connect to host tt11 port 22: No route to host", "tt11", true },
        { "ssh: connect to host tt11 port 22: No route to host", "tt1", false },
        { "ssh: connect to host tt11 port 22: No route to host", "host", false },
        { "ssh: connect to host tt1 port 22: No route to host", "tt11", false },
        { "ssh: connect to host tt1.pool port 22: No route to host", "tt1", false },
        { "ssh: connect to host tt1.pool port 22: No route to host", "TT1.pool", true },
        { "ssh: Could not resolve hostname tt1: Name or service not known", "tt1",
                true },
        { "ssh: Could not resolve hostname tt10: Name or service not known", "tt1",
                false },
        { "my ssh does not like tt1", "tt1", false },
        { "ssh: connect to host", "", false },
    };

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_true(judge_names(rows[i].line, rows[i].host) == rows[i].names);
    }
}

static bool names_none(const void *context, const char *host)
{
    (void)context;
    (void)host;
    return false;
}

/* Four ranks on two hosts; rank 2 is the cause. */
static void set_up(struct play *play, enum cause_kind kind, int rank)
{
    *play = (struct play){
        .ranks = { .items = play->items, .count = RANKS, .joined = RANKS },
        .cause = { .kind = kind, .rank = rank }
    };
    assert_int_equal(host_list_parse(&play->hosts, "a:2,b:2"), TUTTI_OK);
    assert_int_equal(members_update(&play->members, &play->hosts), TUTTI_OK);
    for (int i = 0; i < RANKS; i++) {
        play->items[i].state = RANK_ENDED;
        play->items[i].end = RANK_END_EXIT;
    }
    play->facts = (struct judge_facts){ .generation = GENERATION,
        .ranks = &play->ranks,
        .cause = &play->cause,
        .hosts = &play->hosts,
        .orphan = -1,
        .names = names_none };
}

static void tear_down(struct play *play)
{
    host_list_fini(&play->hosts);
    members_fini(&play->members);
}

UNIT_TEST(test_ends_are_told_apart)
{
    struct play play;

    set_up(&play, CAUSE_NONE, -1);
    assert_int_equal(judge_end(&play.facts), JUDGE_FINISHED);
    play.items[1].leaves = true;
    assert_int_equal(judge_end(&play.facts), JUDGE_LEFT);
    play.cause = (struct cause){ .kind = CAUSE_RANK, .rank = 2 };
    assert_int_equal(judge_end(&play.facts), JUDGE_FAILED);
    play.items[2].end = RANK_END_EXEC; /* it will not run the next time either */
    assert_int_equal(judge_end(&play.facts), JUDGE_FATAL);
    play.cause = (struct cause){ .kind = CAUSE_SIGNAL, .rank = -1 };
    assert_int_equal(judge_end(&play.facts), JUDGE_FATAL);
    tear_down(&play);
}

UNIT_TEST(test_the_host_of_the_rank_is_blamed)
{
    struct play play;

    set_up(&play, CAUSE_RANK, 2);
    play.items[0].committed = elastic_number(GENERATION - 1, 9); /* not in this one */
    judge_hosts(&play.facts, &play.members, 0);
    judge_hosts(&play.facts, &play.members, 0);
    assert_int_equal(play.members.items[0].failures, 0);
    assert_int_equal(play.members.items[1].failures, 2);
    play.items[0].committed = elastic_number(GENERATION, 1);
    judge_hosts(&play.facts, &play.members, 0);
    assert_int_equal(play.members.items[1].failures, 1);
    play.items[2].end = RANK_END_SILENT;
    judge_hosts(&play.facts, &play.members, 0);
    assert_int_equal(play.members.items[1].aside_until, INT64_MAX);
    tear_down(&play);
}

UNIT_TEST(test_a_host_that_the_starter_does_not_reach_is_left_out)
{
    struct play play;

    set_up(&play, CAUSE_STARTER, -1);
    for (int i = 0; i < RANKS; i++) {
        play.items[i].state = RANK_ABSENT;
    }
    play.ranks.joined = 0;
    judge_hosts(&play.facts, &play.members, 0); /* nobody knows which */
    assert_int_equal(play.members.items[0].failures, 1);
    assert_int_equal(play.members.items[1].failures, 1);
    play.facts.names = names_b;
    judge_hosts(&play.facts, &play.members, 0);
    assert_int_equal(play.members.items[0].aside_until, 0);
    assert_int_equal(play.members.items[1].aside_until, INT64_MAX);
    tear_down(&play);
}
