/*
 * What the end of a generation means for the next one, and which hosts that gets.
 */
#include <string.h>

#include "base/mem.h"
#include "launcher/elastic/members.h"
#include "test/unit/launcher/cases.h"
#include "trainer/elastic/control.h"

static const int64_t second = 1000000000;

UNIT_CASES(test_ssh_names_one_host, "hosts that ssh names")
{
    char *fields[CASES_FIELDS];

    assert_int_equal(cases_fields(in, fields), 2);
    (void)strcpy(out, judge_names(fields[0], fields[1]) ? "yes" : "no");
}

UNIT_CASES(test_cooldowns, "cooldowns")
{
    int64_t range[2];

    (void)strcpy(out, "malformed");
    if (members_read_cooldown(in, range)) {
        (void)sprintf(
                out, "%d %d", (int)(range[0] / 1000000), (int)(range[1] / 1000000));
    }
}

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

    set_up(&play, CAUSE_MPI_LAUNCHER, -1);
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

static void update(struct members *members, const char *text)
{
    struct host_list list = { .hosts = NULL };

    assert_int_equal(host_list_parse(&list, text), TUTTI_OK);
    assert_int_equal(members_update(members, &list), TUTTI_OK);
    host_list_fini(&list);
}

static void expect(const struct members *members, int most, int64_t now, int ranks,
        const char *hosts)
{
    struct host_list list = { .hosts = NULL };
    char *text;

    assert_int_equal(members_choose(members, most, now, NULL), ranks);
    assert_int_equal(members_choose(members, most, now, &list), ranks);
    text = host_list_format(&list);
    assert_string_equal(text, hosts);
    mem_free(text);
    host_list_fini(&list);
}

UNIT_TEST(test_a_host_that_fails_repeatedly_is_left_out_for_good)
{
    struct members members = { .items = NULL };

    update(&members, "a:1,b:1");
    assert_false(members_fail(&members, 0, 0));
    assert_false(members_fail(&members, 0, 0));
    members_forget_failures(&members); /* the job has committed */
    assert_false(members_fail(&members, 0, 0));
    assert_false(members_fail(&members, 0, 0));
    expect(&members, 9, 0, 2, "a:1,b:1");
    assert_true(members_fail(&members, 0, 0));
    expect(&members, 9, INT64_MAX - 1, 1, "b:1");
    update(&members, "a:1,b:1"); /* listed or not */
    expect(&members, 9, INT64_MAX - 1, 1, "b:1");
    members_fini(&members);
}

UNIT_TEST(test_a_host_comes_back_and_each_time_later)
{
    struct members members = { .items = NULL };

    assert_true(members_read_cooldown("10,30", members.cooldown));
    update(&members, "a:1,b:1");
    members_put_aside(&members, 1, 0);
    expect(&members, 9, 10 * second - 1, 1, "a:1");
    assert_int_equal(members_next_return(&members, 0), 10 * second);
    expect(&members, 9, 10 * second, 2, "a:1,b:1");
    assert_true(members_fail(&members, 1, 0)); /* the first one after it came back */
    assert_int_equal(members_next_return(&members, 0), 20 * second);
    members_put_aside(&members, 1, 0);
    assert_int_equal(members_next_return(&members, 0), 30 * second);
    assert_int_equal(members_next_return(&members, 30 * second), INT64_MAX);
    members_fini(&members);
}
