/*
 * The page that a rank shares with its supervisor.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/notice.h"
#include "test/unit/unit.h"

/* The variable's value for a page. */
static const char *number_of(const struct notice *notice, char text[16])
{
    (void)snprintf(text, 16, "%d", notice->fd);
    return text;
}

UNIT_TEST(test_a_cause_comes_over)
{
    struct notice ours;
    struct notice theirs;
    char number[16];
    char text[NOTICE_TEXT_MAX];
    int rank = 0;

    assert_int_equal(notice_create(&ours), TUTTI_OK);
    notice_open(&theirs, number_of(&ours, number));
    assert_non_null(theirs.page);
    assert_false(notice_is_posted(&theirs));

    notice_post(&ours, 3, "rank 3 was killed");
    notice_post(&ours, 5, "a later cause");
    assert_true(notice_is_posted(&theirs));
    notice_read(&theirs, &rank, text);
    assert_int_equal(rank, 3);
    assert_string_equal(text, "rank 3 was killed");

    notice_close(&theirs);
    notice_destroy(&ours);
}

UNIT_TEST(test_a_suspicion_comes_changes_and_goes)
{
    struct notice ours;
    struct notice theirs;
    char number[16];
    char text[NOTICE_SUSPICION_MAX];
    char long_text[2 * NOTICE_SUSPICION_MAX];
    uint32_t seen = 0;

    assert_int_equal(notice_create(&ours), TUTTI_OK);
    notice_open(&theirs, number_of(&ours, number));
    assert_false(notice_suspicion(&theirs, &seen, text));
    notice_suspect(&ours, "rank 3 is silent");
    assert_true(notice_suspicion(&theirs, &seen, text));
    assert_string_equal(text, "rank 3 is silent");
    assert_false(notice_suspicion(&theirs, &seen, text));
    notice_suspect(&ours, "");
    assert_true(notice_suspicion(&theirs, &seen, text));
    assert_string_equal(text, "");
    memset(long_text, 'x', sizeof long_text);
    long_text[sizeof long_text - 1] = '\0';
    notice_suspect(&ours, long_text);
    assert_true(notice_suspicion(&theirs, &seen, text));
    assert_int_equal(strlen(text), NOTICE_SUSPICION_MAX - 1);
    assert_false(notice_is_posted(&theirs));
    notice_close(&theirs);
    notice_destroy(&ours);
}

UNIT_TEST(test_a_long_cause_is_cut)
{
    struct notice ours;
    char long_text[2 * NOTICE_TEXT_MAX];
    char text[NOTICE_TEXT_MAX];
    int rank = 0;

    memset(long_text, 'x', sizeof long_text);
    long_text[sizeof long_text - 1] = '\0';
    assert_int_equal(notice_create(&ours), TUTTI_OK);
    notice_post(&ours, -1, long_text);
    notice_read(&ours, &rank, text);
    assert_int_equal(rank, -1);
    assert_int_equal(strlen(text), NOTICE_TEXT_MAX - 1);
    notice_destroy(&ours);
}

UNIT_TEST(test_the_library_tells_its_stage)
{
    struct notice ours;
    struct notice theirs;
    char number[16];

    assert_int_equal(notice_create(&ours), TUTTI_OK);
    notice_open(&theirs, number_of(&ours, number));
    assert_int_equal(notice_stage(&ours), NOTICE_STAGE_NONE);
    notice_begin(&theirs);
    assert_int_equal(notice_stage(&ours), NOTICE_STAGE_RUNNING);
    notice_end(&theirs);
    assert_int_equal(notice_stage(&ours), NOTICE_STAGE_FINALIZED);
    /* What a program that went wild may have written: the stage follows the magic. */
    ((uint32_t *)theirs.page)[2] = 77;
    assert_int_equal(notice_stage(&ours), NOTICE_STAGE_NONE);
    notice_close(&theirs);
    notice_destroy(&ours);
}

UNIT_TEST(test_the_last_context_ends_the_stage)
{
    struct notice ours;
    struct notice theirs;
    char number[16];

    assert_int_equal(notice_create(&ours), TUTTI_OK);
    notice_open(&theirs, number_of(&ours, number));
    notice_begin(&theirs);
    notice_begin(&theirs);
    assert_int_equal(notice_stage(&ours), NOTICE_STAGE_RUNNING);
    notice_end(&theirs);
    assert_int_equal(notice_stage(&ours), NOTICE_STAGE_RUNNING);
    notice_end(&theirs);
    assert_int_equal(notice_stage(&ours), NOTICE_STAGE_FINALIZED);
    notice_begin(&theirs);
    assert_int_equal(notice_stage(&ours), NOTICE_STAGE_RUNNING);
    notice_close(&theirs);
    notice_destroy(&ours);
}

/* The first failure counts, until the next context is made alone. */
UNIT_TEST(test_the_library_tells_that_it_fails)
{
    struct notice ours;
    struct notice theirs;
    char number[16];
    char text[NOTICE_AWAITED_MAX];

    assert_int_equal(notice_create(&ours), TUTTI_OK);
    notice_open(&theirs, number_of(&ours, number));
    notice_begin(&theirs);
    assert_int_equal(notice_failure(&ours), NOTICE_FAILURE_NONE);
    notice_await(&theirs, "0, 2-5");
    notice_fail(&theirs, NOTICE_FAILURE_FOUND);
    notice_await(&theirs, "7");
    notice_fail(&theirs, NOTICE_FAILURE_TOLD);
    notice_close(&theirs);
    notice_open(&theirs, number);
    notice_end(&theirs);
    assert_int_equal(notice_failure(&ours), NOTICE_FAILURE_FOUND);
    notice_awaited(&ours, text);
    assert_string_equal(text, "0, 2-5");
    notice_close(&theirs);
    notice_open(&theirs, number);
    assert_int_equal(notice_failure(&ours), NOTICE_FAILURE_NONE);
    notice_awaited(&ours, text);
    assert_string_equal(text, "");
    notice_close(&theirs);
    notice_destroy(&ours);
}

static void expect_no_page(const char *text)
{
    struct notice notice;

    notice_open(&notice, text);
    assert_null(notice.page);
    assert_false(notice_is_posted(&notice));
    assert_int_equal(notice_stage(&notice), NOTICE_STAGE_NONE);
    notice_begin(&notice);
    notice_end(&notice);
    notice_await(&notice, "1");
    notice_fail(&notice, NOTICE_FAILURE_FOUND);
    assert_int_equal(notice_failure(&notice), NOTICE_FAILURE_NONE);
    notice_post(&notice, 0, "nobody hears it");
    notice_close(&notice);
    notice_destroy(&notice);
}

UNIT_TEST(test_what_is_no_page_is_not_used)
{
    char text[16];
    int fd = memfd_create("something else", MFD_CLOEXEC);

    expect_no_page(NULL);
    expect_no_page("");
    expect_no_page("-1");
    expect_no_page("seven");
    expect_no_page("1000000");
    expect_no_page("99999999999");
    expect_no_page("0");

    /* The right size with other contents. */
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, 4096), 0);
    (void)snprintf(text, sizeof text, "%d", fd);
    expect_no_page(text);
    (void)close(fd);
}

UNIT_TEST(test_the_descriptor_is_inherited)
{
    struct notice ours;

    assert_int_equal(notice_create(&ours), TUTTI_OK);
    assert_int_equal(fcntl(ours.fd, F_GETFD) & FD_CLOEXEC, 0);
    assert_int_equal(ftruncate(ours.fd, 0), -1); /* a program cannot pull it away */
    notice_destroy(&ours);
}
