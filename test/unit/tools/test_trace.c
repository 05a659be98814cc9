/*
 * What is made of timelines that the recorder itself has written.
 */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/mem.h"
#include "test/unit/unit.h"
#include "tools/autopsy/autopsy.h"
#include "tools/trace/trace.h"

enum {
    RANKS = 3,
    NAMES = 6,
    EVENTS = 4096
};

#define MS INT64_C(1000000)

static struct recorder ranks[RANKS];
static int fds[RANKS];
static struct recorded_job job;
static struct trace trace;
static struct accounts accounts;

static int open_job(void **state)
{
    (void)state;
    for (int r = 0; r < RANKS; r++) {
        char number[16];
        const struct recorder_spec spec = { .descriptor = number,
            .folder = "",
            .events = EVENTS,
            .rank = r,
            .size = RANKS };

        fds[r] = memfd_create("timeline", 0);
        (void)snprintf(number, sizeof number, "%d", fds[r]);
        assert_int_equal(recorder_open(&ranks[r], &spec), TUTTI_OK);
        ranks[r].shared->header.start_ns = 0;
        ranks[r].shared->header.start_real_ns = 0;
        (void)strcpy(ranks[r].shared->header.host, "a");
        for (int n = 0; n < NAMES; n++) {
            struct observed_name place = { .mark = NULL };
            const char name[] = { (char)('a' + n), '\0' };

            recorder_add_name(&ranks[r], &place,
                    &(struct recorder_name){
                            .name = name, .collective = TUTTI_ALLREDUCE });
            recorder_release(&ranks[r], &place);
        }
    }
    return 0;
}

static void forget(void)
{
    accounts_fini(&accounts);
    trace_fini(&trace);
    recorded_job_fini(&job);
}

static int close_job(void **state)
{
    (void)state;
    forget();
    for (int r = 0; r < RANKS; r++) {
        recorder_close(&ranks[r], true);
        (void)close(fds[r]);
    }
    return 0;
}

#define TEST(name) UNIT_TEST_WITH(name, open_job, close_job)

static void add(int rank, enum recorder_kind kind, int64_t at_ns, uint64_t place,
        uint64_t amount)
{
    recorder_add(&ranks[rank],
            &(struct recorder_event){ .kind = kind,
                    .time_ns = at_ns,
                    .place = place,
                    .amount = amount,
                    .tensor = kind == RECORDER_LAUNCHED ? 1 : 0 });
}

static void add_members(int rank, int64_t at_ns, uint16_t first, int64_t age_ns)
{
    struct recorder_event event = { .kind = RECORDER_MEMBERS, .time_ns = at_ns };
    struct recorder_members members = { .tensors = { 0 } };

    for (int m = 0; m < 3; m++) {
        members.tensors[m] = (uint16_t)(first + m);
        members.ages[m] = recorder_age(age_ns);
    }
    memcpy(&event.place, members.tensors, sizeof event.place);
    memcpy(&event.amount, members.ages, sizeof event.amount);
    recorder_add(&ranks[rank], &event);
}

/*
 * A step of 100 ms that begins at `at`: 40 ms outside tutti, then all ranks wait. Rank 1 comes last, by
 * `late`; agreement takes 2 ms more, the batch 30 with 6 of copies and 8 of reductions.
 */
static void run_step(uint64_t number, int64_t at, int64_t late)
{
    const int64_t launch = at + 40 * MS + late + 2 * MS;

    for (int r = 0; r < RANKS; r++) {
        const int64_t complete = at + 40 * MS + (r == 1 ? late : 0);

        add(r, RECORDER_STEP, at, number, RECORDER_STEP_FOLLOWS);
        add(r, RECORDER_WAIT, complete, 0, 0);
        add(r, RECORDER_PACKED, launch + 4 * MS, number, (uint64_t)(4 * MS));
        add(r, RECORDER_LAUNCHED, launch, number, (uint64_t)(launch - complete));
        add(r, RECORDER_AGREED, launch - MS, number, 4096);
        add_members(r, launch, 1, launch - complete);
        add(r, RECORDER_LEFT, launch, 0, 0); /* of another thread, in between */
        add(r, RECORDER_WAIT, launch, 0, 0);
        add_members(r, launch, 4, launch - complete);
        add(r, RECORDER_UNPACKED, launch + 30 * MS, number, (uint64_t)(2 * MS));
        add(r, RECORDER_REDUCED, launch + 30 * MS, number, (uint64_t)(8 * MS));
        add(r, RECORDER_FINISHED, launch + 30 * MS, number, 6);
        add(r, RECORDER_LEFT, launch + 30 * MS, 0, 0);
    }
}

static void read_all(void)
{
    job = (struct recorded_job){ .size = RANKS };
    job.ranks = mem_calloc(RANKS, sizeof *job.ranks);
    for (int r = 0; r < RANKS; r++) {
        assert_int_equal(
                recording_decode(&job.ranks[r], ranks[r].shared, ranks[r].bytes),
                TUTTI_OK);
        job.count++;
    }
    assert_int_equal(trace_make(&trace, &job), TUTTI_OK);
    assert_int_equal(accounts_make(&accounts, &trace), TUTTI_OK);
}

/* Forty steps of 100 ms, and the beginning of one that is not recorded. */
static void run_steps(int64_t late)
{
    for (uint64_t s = 0; s < 40; s++) {
        run_step(s, (int64_t)(s + 1) * 100 * MS, late + (int64_t)(s % 3) * MS / 10);
    }
    for (int r = 0; r < RANKS; r++) {
        add(r, RECORDER_STEP, 4100 * MS, 40, RECORDER_STEP_LEFT_OUT);
    }
    read_all();
}

static void expect_ms(double ns, double ms)
{
    const double off = ns / (double)MS - ms;

    if (off > 0.001 || off < -0.001) {
        fail_msg("%f ms, not %f", ns / (double)MS, ms);
    }
}

TEST(test_each_moment_of_a_step_is_counted_once)
{
    const struct account *step;

    run_steps(20 * MS);
    assert_int_equal(accounts.count, 40);
    step = &accounts.steps[3];
    assert_int_equal(step->number, 3);
    expect_ms(step->total, 100);
    expect_ms(step->parts[PART_SLOWEST], 2.0 / 3 * 20); /* rank 1 waits for nobody */
    expect_ms(step->parts[PART_AGREEMENT], 2);
    expect_ms(step->parts[PART_COPY], 6);
    expect_ms(step->parts[PART_REDUCE], 8);
    expect_ms(step->parts[PART_WIRE], 16);
    expect_ms(step->parts[PART_OTHER], 0);
    expect_ms(step->parts[PART_COMPUTE], 100 - 32 - 40.0 / 3);
    expect_ms(step->hidden, 0);
}

TEST(test_what_is_left_out_is_no_step)
{
    run_step(5, 100 * MS, 0);
    for (int r = 0; r < RANKS; r++) {
        add(r, RECORDER_STEP, 200 * MS, 6, RECORDER_STEP_LEFT_OUT);
    }
    run_step(10, 300 * MS, 0);
    for (int r = 0; r < RANKS; r++) {
        add(r, RECORDER_STEP, 350 * MS, 0, RECORDER_STEP_CUT);
    }
    read_all();
    assert_int_equal(accounts.count, 1);
    assert_int_equal(accounts.steps[0].number, 5);
}

TEST(test_without_steps_all_is_one)
{
    add(0, RECORDER_WAIT, 100 * MS, 0, 0);
    add(0, RECORDER_LEFT, 130 * MS, 0, 0);
    add(0, RECORDER_TAKEN, 200 * MS, 0, 0);
    read_all();
    assert_int_equal(trace.ranks[0].step_count, 0);
    expect_ms(accounts.ranks[0].total, 100);
    expect_ms(accounts.ranks[0].parts[PART_OTHER], 30);
}

/* The events of a rank with that name. */
static size_t count_events(json_t *all, const char *name, int rank, double *dur_us)
{
    json_t *event;
    size_t count = 0;
    size_t i;

    json_array_foreach(all, i, event)
    {
        if (strcmp(json_string_value(json_object_get(event, "name")), name) == 0 &&
                json_integer_value(json_object_get(event, "pid")) == rank) {
            *dur_us = json_real_value(json_object_get(event, "dur"));
            count++;
        }
    }
    return count;
}

static json_t *merge(const struct merge_choice *choice)
{
    char *text = NULL;
    size_t len = 0;
    FILE *file = open_memstream(&text, &len);
    json_t *all;

    assert_int_equal(trace_merge(file, &trace, choice), TUTTI_OK);
    (void)fclose(file);
    all = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(all);
    free(text);
    return all;
}

TEST(test_activities_have_the_names_of_horovod)
{
    struct merge_choice choice = { .first = 3, .last = 3, .has_tensors = true };
    double us = 0;
    json_t *all;

    (void)strcpy(ranks[1].shared->tensors[0].name, "\xff\"\\");
    run_steps(20 * MS);
    all = merge(&choice);
    /* begun and ended, and for each of six tensors */
    assert_int_equal(count_events(all, "NEGOTIATE_ALLREDUCE", 0, &us), 2 + 6);
    assert_int_equal(count_events(all, "QUEUE", 0, &us), 6);
    assert_int_equal(us, 1000);
    assert_int_equal(count_events(all, "MEMCPY_IN_FUSION_BUFFER", 0, &us), 1 + 6);
    assert_int_equal(us, 4000);
    assert_int_equal(count_events(all, "MEMCPY_OUT_FUSION_BUFFER", 0, &us), 1 + 6);
    assert_int_equal(us, 2000);
    assert_int_equal(count_events(all, "ALLREDUCE", 2, &us), 1 + 6);
    assert_int_equal(us, 24000);
    assert_int_equal(count_events(all, "step 3", 1, &us), 1);
    assert_int_equal(count_events(all, "step 4", 1, &us), 0);
    json_decref(all);
    choice.has_tensors = false;
    all = merge(&choice);
    assert_int_equal(count_events(all, "ALLREDUCE", 2, &us), 1);
    json_decref(all);
}

TEST(test_a_difference_is_told_from_noise)
{
    char *text = NULL;
    size_t len = 0;
    FILE *file = open_memstream(&text, &len);
    struct accounts before;

    run_steps(20 * MS);
    before = accounts;
    accounts = (struct accounts){ .count = 0 };
    assert_false(trace_diff(file, &before, &before));
    (void)fflush(file);
    assert_null(strstr(text, "slower"));
    for (size_t s = 0; s < before.count; s++) {
        before.steps[s].total -= 10.0 * MS;
        before.steps[s].parts[PART_REDUCE] -= 5.0 * MS;
        before.steps[s].parts[PART_WIRE] += s % 2 == 0 ? 9e9 : -9e9; /* it varies */
    }
    assert_int_equal(accounts_make(&accounts, &trace), TUTTI_OK);
    assert_true(trace_diff(file, &before, &accounts));
    (void)fclose(file);
    assert_non_null(strstr(text, "+5.000  slower"));
    assert_non_null(strstr(text, "+10.000  slower"));
    assert_null(strstr(text, "faster"));
    accounts_fini(&before);
    free(text);
}

TEST(test_a_picture_of_a_step)
{
    char *text = NULL;
    size_t len = 0;
    FILE *file = open_memstream(&text, &len);

    run_steps(20 * MS);
    assert_int_equal(trace_draw_step(file, &trace, 40), TUTTI_ERR_INVALID);
    assert_non_null(strstr(tutti_last_error(), "step 40"));
    assert_int_equal(trace_draw_step(file, &trace, 3), TUTTI_OK);
    (void)fclose(file);
    assert_non_null(strstr(text, ">rank 2 on a</text>"));
    assert_non_null(strstr(text, "#e07b28")); /* the slowest is awaited */
    free(text);
}
