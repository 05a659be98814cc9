/*
 * The page on which a rank learns from its supervisor why the job failed.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/failure_page.h"
#include "test/unit/unit.h"

/* The variable's value for a page. */
static const char *number_of(const struct failure_page *page, char text[16])
{
    (void)snprintf(text, 16, "%d", page->fd);
    return text;
}

UNIT_TEST(test_a_cause_comes_over)
{
    struct failure_page ours;
    struct failure_page theirs;
    char number[16];
    char text[FAILURE_PAGE_TEXT_MAX];
    int rank = 0;

    assert_int_equal(failure_page_create(&ours), TUTTI_OK);
    failure_page_open(&theirs, number_of(&ours, number));
    assert_non_null(theirs.shared);
    assert_false(failure_page_is_posted(&theirs));

    failure_page_post(&ours, 3, "rank 3 was killed");
    failure_page_post(&ours, 5, "a later cause");
    assert_true(failure_page_is_posted(&theirs));
    failure_page_read(&theirs, &rank, text);
    assert_int_equal(rank, 3);
    assert_string_equal(text, "rank 3 was killed");

    failure_page_close(&theirs);
    failure_page_destroy(&ours);
}

UNIT_TEST(test_a_suspicion_comes_changes_and_goes)
{
    struct failure_page ours;
    struct failure_page theirs;
    char number[16];
    char text[FAILURE_PAGE_SUSPICION_MAX];
    char long_text[2 * FAILURE_PAGE_SUSPICION_MAX];
    uint32_t seen = 0;

    assert_int_equal(failure_page_create(&ours), TUTTI_OK);
    failure_page_open(&theirs, number_of(&ours, number));
    assert_false(failure_page_suspicion(&theirs, &seen, text));
    failure_page_suspect(&ours, "rank 3 is silent");
    assert_true(failure_page_suspicion(&theirs, &seen, text));
    assert_string_equal(text, "rank 3 is silent");
    assert_false(failure_page_suspicion(&theirs, &seen, text));
    failure_page_suspect(&ours, "");
    assert_true(failure_page_suspicion(&theirs, &seen, text));
    assert_string_equal(text, "");
    memset(long_text, 'x', sizeof long_text);
    long_text[sizeof long_text - 1] = '\0';
    failure_page_suspect(&ours, long_text);
    assert_true(failure_page_suspicion(&theirs, &seen, text));
    assert_int_equal(strlen(text), FAILURE_PAGE_SUSPICION_MAX - 1);
    assert_false(failure_page_is_posted(&theirs));
    failure_page_close(&theirs);
    failure_page_destroy(&ours);
}

UNIT_TEST(test_a_long_cause_is_cut)
{
    struct failure_page ours;
    char long_text[2 * FAILURE_PAGE_TEXT_MAX];
    char text[FAILURE_PAGE_TEXT_MAX];
    int rank = 0;

    memset(long_text, 'x', sizeof long_text);
    long_text[sizeof long_text - 1] = '\0';
    assert_int_equal(failure_page_create(&ours), TUTTI_OK);
    failure_page_post(&ours, -1, long_text);
    failure_page_read(&ours, &rank, text);
    assert_int_equal(rank, -1);
    assert_int_equal(strlen(text), FAILURE_PAGE_TEXT_MAX - 1);
    failure_page_destroy(&ours);
}

UNIT_TEST(test_the_library_tells_its_stage)
{
    struct failure_page ours;
    struct failure_page theirs;
    char number[16];

    assert_int_equal(failure_page_create(&ours), TUTTI_OK);
    failure_page_open(&theirs, number_of(&ours, number));
    assert_int_equal(failure_page_stage(&ours), LIBRARY_STAGE_NONE);
    failure_page_begin(&theirs);
    assert_int_equal(failure_page_stage(&ours), LIBRARY_STAGE_RUNNING);
    failure_page_end(&theirs);
    assert_int_equal(failure_page_stage(&ours), LIBRARY_STAGE_FINALIZED);
    /* What a program that went wild may have written: the stage follows the magic. */
    ((uint32_t *)theirs.shared)[2] = 77;
    assert_int_equal(failure_page_stage(&ours), LIBRARY_STAGE_NONE);
    failure_page_close(&theirs);
    failure_page_destroy(&ours);
}

UNIT_TEST(test_the_last_context_ends_the_stage)
{
    struct failure_page ours;
    struct failure_page theirs;
    char number[16];

    assert_int_equal(failure_page_create(&ours), TUTTI_OK);
    failure_page_open(&theirs, number_of(&ours, number));
    failure_page_begin(&theirs);
    failure_page_begin(&theirs);
    assert_int_equal(failure_page_stage(&ours), LIBRARY_STAGE_RUNNING);
    failure_page_end(&theirs);
    assert_int_equal(failure_page_stage(&ours), LIBRARY_STAGE_RUNNING);
    failure_page_end(&theirs);
    assert_int_equal(failure_page_stage(&ours), LIBRARY_STAGE_FINALIZED);
    failure_page_begin(&theirs);
    assert_int_equal(failure_page_stage(&ours), LIBRARY_STAGE_RUNNING);
    failure_page_close(&theirs);
    failure_page_destroy(&ours);
}

/* The first failure counts, until the next context is made alone. */
UNIT_TEST(test_the_library_tells_that_it_fails)
{
    struct failure_page ours;
    struct failure_page theirs;
    char number[16];
    char text[FAILURE_PAGE_AWAITED_MAX];

    assert_int_equal(failure_page_create(&ours), TUTTI_OK);
    failure_page_open(&theirs, number_of(&ours, number));
    failure_page_begin(&theirs);
    assert_int_equal(failure_page_context_failure(&ours), CONTEXT_FAILURE_NONE);
    failure_page_await(&theirs, "0, 2-5");
    failure_page_fail(&theirs, CONTEXT_FAILURE_FOUND);
    failure_page_await(&theirs, "7");
    failure_page_fail(&theirs, CONTEXT_FAILURE_TOLD);
    failure_page_close(&theirs);
    failure_page_open(&theirs, number);
    failure_page_end(&theirs);
    assert_int_equal(failure_page_context_failure(&ours), CONTEXT_FAILURE_FOUND);
    failure_page_awaited(&ours, text);
    assert_string_equal(text, "0, 2-5");
    failure_page_close(&theirs);
    failure_page_open(&theirs, number);
    assert_int_equal(failure_page_context_failure(&ours), CONTEXT_FAILURE_NONE);
    failure_page_awaited(&ours, text);
    assert_string_equal(text, "");
    failure_page_close(&theirs);
    failure_page_destroy(&ours);
}

static void expect_no_page(const char *text)
{
    struct failure_page page;

    failure_page_open(&page, text);
    assert_null(page.shared);
    assert_false(failure_page_is_posted(&page));
    assert_int_equal(failure_page_stage(&page), LIBRARY_STAGE_NONE);
    failure_page_begin(&page);
    failure_page_end(&page);
    failure_page_await(&page, "1");
    failure_page_fail(&page, CONTEXT_FAILURE_FOUND);
    assert_int_equal(failure_page_context_failure(&page), CONTEXT_FAILURE_NONE);
    failure_page_post(&page, 0, "nobody hears it");
    failure_page_close(&page);
    failure_page_destroy(&page);
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
    struct failure_page ours;

    assert_int_equal(failure_page_create(&ours), TUTTI_OK);
    assert_int_equal(fcntl(ours.fd, F_GETFD) & FD_CLOEXEC, 0);
    assert_int_equal(ftruncate(ours.fd, 0), -1); /* a program cannot pull it away */
    failure_page_destroy(&ours);
}
