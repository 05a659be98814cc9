/*
 * The flight recorder: what it writes, read back from its file.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "observe/recorder.h"
#include "test/unit/unit.h"

static struct recorder recorder;
static struct recorder_spec spec;
static char number[16]; /* of a descriptor, as in the variable */
static int fd = -1;

static int open_recorder(void **state)
{
    (void)state;
    fd = memfd_create("recording", 0);
    assert_true(fd >= 0);
    (void)snprintf(number, sizeof number, "%d", fd);
    spec = (struct recorder_spec){
        .descriptor = number, .folder = "", .events = 5, .rank = 2, .size = 4
    };
    assert_int_equal(recorder_open(&recorder, &spec), TUTTI_OK);
    assert_non_null(recorder.shared);
    return 0;
}

static int close_recorder(void **state)
{
    (void)state;
    recorder_close(&recorder, true);
    assert_int_equal(close(fd), 0);
    return 0;
}

#define TEST(name) UNIT_TEST_WITH(name, open_recorder, close_recorder)

static struct observed_name places[RECORDER_TENSORS];

static struct observed_name *add(size_t owner, const char *name)
{
    places[owner] = (struct observed_name){ .mark = NULL };
    recorder_add_name(
            &recorder, &places[owner], &(struct recorder_name){ .name = name });
    return &places[owner];
}

TEST(test_the_ring_keeps_the_last_events)
{
    const struct recording *shared = recorder.shared;

    assert_int_equal(shared->header.event_capacity, 8);
    for (uint64_t i = 0; i < 11; i++) {
        recorder_add(&recorder,
                &(struct recorder_event){ .kind = RECORDER_TAKEN, .amount = i });
    }
    assert_int_equal(shared->header.event_count, 11);
    assert_int_equal(shared->events[10 % 8].number, 11);
    assert_int_equal(shared->events[10 % 8].amount, 10);
    assert_int_equal(shared->events[11 % 8].amount, 3);
}

TEST(test_a_name_makes_room_only_when_it_is_not_in_flight)
{
    const struct observed_name *flying = add(1, "flying");
    struct observed_name *idle = add(2, "idle");
    const struct observed_name first = *idle;
    struct observed_name later = { .mark = NULL };
    struct observed_name none = { .mark = NULL };

    recorder_keep(&recorder, add(0, "kept"), true);
    recorder_use(flying, 0, 0);
    recorder_use(idle, 1, 0);
    recorder_end(idle);
    for (size_t i = 3; i < RECORDER_TENSORS; i++) {
        recorder_use(add(i, "other"), i, 0);
    }
    recorder_add_name(&recorder, &later, &(struct recorder_name){ .name = "new" });
    assert_ptr_equal(later.mark, first.mark);
    assert_int_equal(later.mark->uses + *later.over, 0);
    assert_null(idle->mark); /* it is another's by now */
    recorder_use(&later, 0, 0);
    recorder_add_name(&recorder, &none, &(struct recorder_name){ .name = "too many" });
    assert_null(none.mark);
    recorder_release(&recorder, idle);
    recorder_release(&recorder, &later);
    assert_string_equal(recorder.shared->tensors[1].name, "new");
}

TEST(test_one_context_records_in_a_descriptor_at_a_time)
{
    struct recorder second;

    assert_int_equal(recorder_open(&second, &spec), TUTTI_OK);
    assert_null(second.shared);
    (void)add(1, "of the first");
    recorder_close(&recorder, true);
    assert_int_equal(recorder_open(&recorder, &spec), TUTTI_OK);
    assert_int_equal(recorder.shared->header.tensor_count, 0);
    assert_int_equal(recorder.shared->tensors[0].name[0], 0);
}

UNIT_TEST(test_a_file_stays_when_something_failed)
{
    char folder[] = "/tmp/test_recorder.XXXXXX";
    char path[64];
    const struct recorder_spec in_file = {
        .folder = folder, .events = 4, .rank = 1, .size = 2
    };
    struct stat about;

    assert_non_null(mkdtemp(folder));
    (void)snprintf(path, sizeof path, "%s/rank.1", folder);
    for (int well = 0; well < 2; well++) {
        assert_int_equal(recorder_open(&recorder, &in_file), TUTTI_OK);
        recorder_tell(&recorder, RECORDER_FAILURE, 1, "all is lost");
        recorder_close(&recorder, well != 0);
        assert_int_equal(stat(path, &about), well != 0 ? -1 : 0);
    }
    assert_int_equal(rmdir(folder), 0);
}

/* Its file is another one; names and sentences are in both. */
TEST(test_a_timeline_has_the_same_names_and_its_own_events)
{
    char folder[] = "/tmp/test_recorder.XXXXXX";
    char path[64];
    const struct recorder_event event = { .kind = RECORDER_STEP };
    struct recorder_spec in_file = { .folder = folder, .events = 4, .size = 4 };
    struct recorder timeline;

    assert_non_null(mkdtemp(folder));
    (void)snprintf(path, sizeof path, "%s/rank.0", folder);
    (void)add(0, "early");
    assert_int_equal(recorder_open(&timeline, &in_file), TUTTI_OK);
    recorder_set_timeline(&recorder, &timeline);
    (void)add(1, "late");
    recorder_add_timed(&recorder, &event); /* it is off */
    atomic_store(&recorder.is_timed, 1);
    recorder_add_timed(&recorder, &event);
    recorder_tell(&recorder, RECORDER_ERROR, 1, "wrong");
    assert_int_equal(recorder.shared->header.event_count, 1);
    assert_int_equal(timeline.shared->header.event_count, 2);
    assert_int_equal(timeline.shared->header.tensor_count, 2);
    assert_string_equal(timeline.shared->tensors[0].name, "early");
    assert_string_equal(timeline.shared->tensors[1].name, "late");
    assert_string_equal(timeline.shared->header.error, "wrong");
    in_file.over = timeline.shared; /* another file, where the first was mapped */
    recorder_close_file(&recorder);
    mem_free(timeline.path);
    mem_free(timeline.owners);
    assert_int_equal(recorder_open(&timeline, &in_file), TUTTI_OK);
    assert_ptr_equal(timeline.shared, in_file.over);
    assert_int_equal(timeline.shared->header.event_count, 0);
    recorder_close_file(&timeline);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(folder), 0);
}

/* A file beyond the limit would be answered with SIGXFSZ. */
TEST(test_a_recording_that_may_not_be_so_long_is_refused)
{
    char folder[] = "/tmp/test_recorder.XXXXXX";
    const struct recorder_spec in_file = { .folder = folder, .events = 4, .size = 4 };
    struct recorder refused;
    struct rlimit limit;
    rlim_t before;

    assert_non_null(mkdtemp(folder));
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    before = limit.rlim_cur;
    limit.rlim_cur = 4096;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    recorder_close(&recorder, true);
    assert_int_equal(recorder_open(&recorder, &spec), TUTTI_ERR_SYSTEM);
    assert_int_equal(recorder_open(&refused, &in_file), TUTTI_ERR_SYSTEM);
    limit.rlim_cur = before;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    assert_non_null(strstr(tutti_last_error(), "File too large"));
    assert_int_equal(rmdir(folder), 0);
}

UNIT_TEST(test_ages_are_right_within_a_part_in_a_thousand)
{
    for (int64_t ns = 0; ns < INT64_C(30000000000); ns = ns * 3 + 255) {
        const int64_t off = ns - recorder_age_ns(recorder_age(ns));

        assert_true(off >= 0 && off <= ns / 1000 + 256);
    }
    assert_true(recorder_age_ns(recorder_age(INT64_MAX)) > INT64_C(30000000000));
    assert_int_equal(recorder_age(-1), 0);
}

UNIT_TEST(test_without_a_place_nothing_is_recorded)
{
    const struct recorder_spec nowhere = {
        .descriptor = "0x3", .folder = "", .events = 4, .size = 2
    };

    assert_int_equal(recorder_open(&recorder, &nowhere), TUTTI_OK);
    assert_null(add(1, "a")->mark);
    recorder_add(&recorder, &(struct recorder_event){ .kind = RECORDER_TAKEN });
    recorder_use(&places[1], 0, 0);
    recorder_end(&places[1]);
    recorder_close(&recorder, true);
}
