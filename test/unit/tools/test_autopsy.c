/*
 * Autopsies of recordings that the recorder itself has made.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/mem.h"
#include "test/unit/unit.h"
#include "tools/autopsy/autopsy.h"

enum {
    RANKS = 3,
    NAMES = 2,
    SECOND = 1000000000
};

/* A job: each rank records into memory of its own. */
static struct recorder ranks[RANKS];
static int fds[RANKS];
static struct observed_name places[RANKS][NAMES];
static struct recorded_job job;
static struct analysis analysis;

static int open_job(void **state)
{
    static const char *const names[NAMES] = { "a", "b" };

    (void)state;
    for (int r = 0; r < RANKS; r++) {
        char number[16];
        struct recorder_spec spec = {
            .descriptor = number, .folder = "", .events = 64, .rank = r, .size = RANKS
        };

        fds[r] = memfd_create("recording", 0);
        (void)snprintf(number, sizeof number, "%d", fds[r]);
        assert_int_equal(recorder_open(&ranks[r], &spec), TUTTI_OK);
        ranks[r].shared->header.start_ns = 0;
        ranks[r].shared->header.start_real_ns = 0;
        ranks[r].shared->header.seen_ns = 40 * (int64_t)SECOND;
        for (int n = 0; n < NAMES; n++) {
            recorder_add_name(&ranks[r], &places[r][n],
                    &(struct recorder_name){
                            .name = names[n], .collective = TUTTI_ALLREDUCE });
        }
    }
    job = (struct recorded_job){ .size = RANKS };
    return 0;
}

static int close_job(void **state)
{
    (void)state;
    analysis_fini(&analysis);
    recorded_job_fini(&job);
    for (int r = 0; r < RANKS; r++) {
        recorder_close(&ranks[r], true);
        (void)close(fds[r]);
    }
    return 0;
}

#define TEST(name) UNIT_TEST_WITH(name, open_job, close_job)

/* Another job, for the next row of a table. */
static void again(void)
{
    (void)close_job(NULL);
    (void)open_job(NULL);
}

enum progress {
    WAITS,
    OVER
};

/* A rank submits a name. */
static void submit(int rank, int name, uint64_t step, enum progress progress)
{
    struct recorder_header *header = &ranks[rank].shared->header;
    const uint64_t order = header->event_count;

    recorder_use(&places[rank][name], order, step);
    if (progress == OVER) {
        recorder_end(&places[rank][name]);
    }
    recorder_add(&ranks[rank],
            &(struct recorder_event){ .kind = RECORDER_TAKEN,
                    .time_ns = 10 * (int64_t)SECOND,
                    .place = order + 1,
                    .amount = 1,
                    .tensor = (uint32_t)name + 1 });
}

static void decode_all(void)
{
    job.ranks = mem_calloc(RANKS, sizeof *job.ranks);
    for (int r = 0; r < RANKS; r++) {
        assert_int_equal(
                recording_decode(&job.ranks[r], ranks[r].shared, ranks[r].bytes),
                TUTTI_OK);
        job.count++;
    }
}

static void analyse(void)
{
    decode_all();
    assert_int_equal(analysis_make(&analysis, &job), TUTTI_OK);
}

static void expect(enum culprit_cause cause, int culprit, const char *words)
{
    assert_int_equal(analysis.cause, cause);
    assert_int_equal(analysis.culprit, culprit);
    if (strstr(analysis.conclusion, words) == NULL) {
        fail_msg("'%s' does not say '%s'", analysis.conclusion, words);
    }
}

/* As in any step, and when the engine is stuck, while a thread looks again and again. */
TEST(test_what_the_engine_has_not_seen_is_as_old_as_the_wait_for_it)
{
    const struct recorder_event wait = { .kind = RECORDER_WAIT,
        .time_ns = ranks[0].shared->header.seen_ns - 1000000 };

    submit(0, 0, 7, OVER);
    recorder_use(&places[0][1], 1, 7);
    for (int r = 1; r < RANKS; r++) {
        submit(r, 1, 7, WAITS);
    }
    recorder_add(&ranks[0], &wait);
    analyse();
    expect(CULPRIT_NONE, -1, "no rank waits for another");
    analysis_fini(&analysis);
    recorded_job_fini(&job);
    job.size = RANKS;
    recorder_add(&ranks[0], &wait);
    ranks[0].shared->events[1].time_ns -= SECOND;
    analyse();
    expect(CULPRIT_ENGINE, 0,
            "has submitted allreduce \"b\" of step 6, which tutti has not taken "
            "up since 1 s");
}

/* It waits, too, but for what comes later than what it has left out. */
TEST(test_a_rank_has_left_one_out_and_gone_on)
{
    for (int r = 0; r < RANKS; r += 2) {
        submit(r, 0, 7, OVER);
        submit(r, 1, 7, WAITS);
    }
    submit(1, 0, 7, OVER);
    recorder_add(&ranks[1],
            &(struct recorder_event){ .kind = RECORDER_WAIT,
                    .time_ns = 10 * (int64_t)SECOND,
                    .tensor = 1 });
    submit(1, 0, 8, WAITS);
    analyse();
    expect(CULPRIT_MISSING, 1,
            "has not submitted allreduce \"b\" of step 6, which ranks 0, 2 wait for "
            "since "
            "30 s; it waits in tutti for allreduce \"a\" of step 7 since 30 s");
}

/*
 * An error is the cause unless what was submitted later, by a program that knew of it, went
 * well: then a later failure is.
 */
static void add(int rank, enum recorder_kind kind)
{
    recorder_add(&ranks[rank], &(struct recorder_event){ .kind = kind, .place = 5 });
}

static void fail_and_go_on(const enum recorder_kind *then)
{
    for (int r = 0; r < RANKS; r++) {
        recorder_tell(&ranks[r], RECORDER_ERROR, SECOND, "\"a\": count differs");
        for (int i = 0; then[i] != RECORDER_ERROR; i++) {
            add(r, then[i]);
        }
        add(r, RECORDER_FINISHED);
        recorder_tell(&ranks[r], RECORDER_FAILURE, 1, "on rank 1: ValueError");
    }
    analyse();
}

/*
 * What was on its way before the program knew does not deal with an error; a wait for it does, and
 * so does a program that polls.
 */
TEST(test_an_error_is_the_cause_unless_it_was_dealt_with)
{
    static const struct {
        enum recorder_kind then[3];
        enum culprit_cause cause;
        const char *words;
    } cases[] = {
        { { RECORDER_ERROR }, CULPRIT_MISMATCH, "count differs" },
        { { RECORDER_TAKEN, RECORDER_LEFT, RECORDER_ERROR }, CULPRIT_MISMATCH,
                "count differs" },
        { { RECORDER_LEFT, RECORDER_TAKEN, RECORDER_ERROR }, CULPRIT_FAILED,
                "ValueError" },
        { { RECORDER_TAKEN, RECORDER_ERROR }, CULPRIT_FAILED, "ValueError" },
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        again();
        fail_and_go_on(cases[i].then);
        expect(cases[i].cause, -1, cases[i].words);
    }
}

TEST(test_a_rank_does_not_take_part_in_a_batch)
{
    for (int r = 0; r < RANKS; r++) {
        submit(r, 0, 0, WAITS);
        if (r != 1) {
            recorder_add(&ranks[r],
                    &(struct recorder_event){ .kind = RECORDER_LAUNCHED,
                            .time_ns = 11 * (int64_t)SECOND,
                            .place = 5,
                            .tensor = 1 });
        }
    }
    analyse();
    expect(CULPRIT_BEHIND, 1, "has not begun the batch of allreduce \"a\"");
}

TEST(test_others_than_members_of_a_set_are_not_missing)
{
    for (int r = 0; r < 2; r++) {
        recorder_add_name(&ranks[r], &places[r][1],
                &(struct recorder_name){
                        .name = "0-1", .set = 4, .collective = RECORDER_OF_SET });
        ranks[r].shared->tensors[0].set = 4;
    }
    submit(0, 0, 0, WAITS);
    analyse();
    expect(CULPRIT_MISSING, 1, "which rank 0 waits for");
    assert_int_equal(analysis.blames[2].tensors, 0);
}

/* Batches each `step_ms`; for all but every `of`th, rank 1 is late by `late_ms`, else rank 2. */
static void begin_batches(uint64_t count, int step_ms, uint64_t of, int late_ms)
{
    for (uint64_t i = 0; i < count; i++) {
        for (int r = 0; r < RANKS; r++) {
            const bool is_late = r == (i % of == 0 ? 2 : 1);

            recorder_add(&ranks[r],
                    &(struct recorder_event){ .kind = RECORDER_LAUNCHED,
                            .place = i,
                            .time_ns = SECOND + (int64_t)i * step_ms * 1000000,
                            .amount = is_late ? 0 : (uint64_t)late_ms * 1000000 });
        }
    }
    analyse();
}

static void expect_slow(bool is_slow)
{
    char words[256] = "";

    assert_int_equal(
            lateness_text(&job.ranks[1], &analysis.lateness[1], words, sizeof words),
            is_slow);
    if (is_slow) {
        assert_non_null(strstr(words,
                " arrives 31 ms after the median of all in 90 % of the last 60 "
                "batches"));
    }
    assert_false(
            lateness_text(&job.ranks[0], &analysis.lateness[0], words, sizeof words) ||
            lateness_text(&job.ranks[2], &analysis.lateness[2], words, sizeof words));
}

/* Not: late by turns, a few times, in batches that were submitted together, or at no cost. */
TEST(test_the_rank_that_waits_least_is_slow)
{
    static const struct {
        uint64_t count;
        int step_ms;
        uint64_t of;
        int late_ms;
        bool is_slow;
    } cases[] = { { 60, 100, 10, 31, true }, { 60, 100, 2, 31, false },
        { 29, 100, 10, 31, false }, { 60, 0, 10, 31, false },
        { 60, 1000, 10, 2, false } };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        again();
        begin_batches(cases[i].count, cases[i].step_ms, cases[i].of, cases[i].late_ms);
        expect_slow(cases[i].is_slow);
    }
}

/* A batch that takes a second, for which the rank has waited half of one. */
static void run_batch(int rank, uint64_t place, double begin_s)
{
    struct recorder_event event = { .kind = RECORDER_LAUNCHED,
        .place = place,
        .time_ns = (int64_t)(begin_s * SECOND),
        .amount = SECOND / 2,
        .tensor = 1 };

    recorder_add(&ranks[rank], &event);
    event.kind = RECORDER_FINISHED;
    event.time_ns += SECOND;
    recorder_add(&ranks[rank], &event);
}

TEST(test_clocks_of_hosts_are_aligned_by_batches)
{
    (void)strcpy(ranks[2].shared->header.host, "elsewhere");
    for (int i = 0; i < 5; i++) {
        run_batch(0, (uint64_t)i, 10 + 2 * i);
        run_batch(1, (uint64_t)i, 10.25 + 2 * i); /* on this host clocks are right */
        run_batch(2, (uint64_t)i + 1, 15 + 2 * i); /* 3 s ahead, and ran one more */
    }
    decode_all();
    assert_int_equal(clocks_align(&job), TUTTI_OK);
    assert_int_equal(job.ranks[0].to_real_ns, 0);
    assert_int_equal(job.ranks[1].to_real_ns, 0);
    assert_int_equal(job.ranks[2].to_real_ns, -3 * (int64_t)SECOND);
}

static void note(enum recorder_kind kind, double at_s)
{
    recorder_add(&ranks[0],
            &(struct recorder_event){
                    .kind = kind, .time_ns = (int64_t)(at_s * SECOND), .place = 1 });
}

/* Ten seconds, three of which a thread waits: half of one for others, and one while a batch moves. */
TEST(test_where_the_time_of_a_rank_went)
{
    char words[256] = "";

    note(RECORDER_TAKEN, 100);
    note(RECORDER_WAIT, 103);
    run_batch(0, 8, 105); /* for which it has waited half a second */
    note(RECORDER_LEFT, 106);
    run_batch(0, 9, 107);
    run_batch(0, 10, 108);
    note(RECORDER_TAKEN, 110);
    decode_all();
    assert_true(autopsy_time_text(&job.ranks[0], words, sizeof words));
    assert_string_equal(words,
            "of 10 s, 70 % outside tutti (batches moved in 20 %), 10 % in it while "
            "batches "
            "moved, 5 % in it for other ranks, 15 % in it otherwise");
    assert_false(autopsy_time_text(&job.ranks[1], words, sizeof words));
}

/* Rank r is on host r of "abc"; the link between two carries 100 MB/s, but where `slow` is "x>y". */
static void expect_links(const char *slow, double mbs, const char *expected)
{
    char words[256] = "";

    for (int r = 0; r < RANKS; r++) {
        struct recording *shared = ranks[r].shared;

        (void)snprintf(shared->header.host, sizeof shared->header.host, "%c", "abc"[r]);
        shared->header.link_mbs = 200;
        for (int s = 0; s < RANKS; s++) {
            const char path[] = { "abc"[s], '>', "abc"[r], '\0' };
            const bool is_slow = strstr(slow, path) != NULL;

            recorder_links(&ranks[r])[s] = (struct recorder_link){
                .slowness = RECORDER_LINK_UNIT * (uint32_t)(is_slow ? 2000 / mbs : 2),
                .weight = 100,
                .kbs = (uint32_t)(is_slow ? mbs * 1e3 : 1e5),
            };
        }
    }
    analyse();
    assert_int_equal(links_text(&job, words, sizeof words), expected[0] != '\0');
    assert_string_equal(words, expected);
}

TEST(test_slow_links_are_named)
{
    static const struct {
        const char *slow;
        double mbs;
        const char *words;
    } cases[] = {
        { "b>c", 9.8, "the link from host b to host c carries 9.80 MB/s, others 100" },
        { "b>a b>c", 9.8, "the links from host b carry 9.80 MB/s, others 100" },
        { "a>b c>b", 12, "the links to host b carry 12.0 MB/s, others 100" },
        { "a>c c>a b>c c>b", 9.8, "the links of host c carry 9.80 MB/s, others 100" },
        { "a>b b>c", 9.8,
                "2 links between hosts are slow; the slowest, from host b to host c, "
                "carries 9.80 MB/s, others 100" },
        { "a>b b>a a>c c>a b>c c>b", 9.8,
                "the links between hosts carry 9.80 MB/s, and 200 at the start" },
        { "b>c", 250, "" },
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        again();
        expect_links(cases[i].slow, cases[i].mbs, cases[i].words);
    }
}

/* Cut anywhere, or with any byte changed, it is refused or read, and what is read is printed. */
TEST(test_damage_does_no_harm)
{
    FILE *nowhere = fopen("/dev/null", "w");
    unsigned char *bytes = mem_alloc(ranks[0].bytes);
    unsigned seed = 1;

    submit(0, 0, 3, WAITS);
    submit(1, 1, 3, OVER);
    decode_all();
    for (int i = 0; i < 3000; i++) {
        const size_t at = (size_t)rand_r(&seed) %
                (i % 3 == 0 ? ranks[0].bytes : RECORDER_HEADER_BYTES + 512u);
        const size_t len = i % 5 == 0 ? at : ranks[0].bytes;

        memcpy(bytes, ranks[0].shared, ranks[0].bytes);
        bytes[at] = (unsigned char)rand_r(&seed);
        recording_fini(&job.ranks[0]);
        if (recording_decode(&job.ranks[0], bytes, len) == TUTTI_OK) {
            assert_int_equal(analysis_make(&analysis, &job), TUTTI_OK);
            autopsy_print(nowhere, &job, &analysis, 10);
            autopsy_draw(nowhere, &job, &analysis);
            analysis_fini(&analysis);
        }
    }
    mem_free(bytes);
    (void)fclose(nowhere);
}
