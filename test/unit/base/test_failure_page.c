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

static struct failure_page ours; /* the supervisor's side */
static struct failure_page theirs; /* the library's */
static char number[16]; /* of the page, as in the variable */

static int open_page(void **state)
{
    (void)state;
    assert_int_equal(failure_page_create(&ours), TUTTI_OK);
    (void)snprintf(number, sizeof number, "%d", ours.fd);
    failure_page_open(&theirs, number);
    assert_non_null(theirs.shared);
    return 0;
}

static int close_page(void **state)
{
    (void)state;
    failure_page_close(&theirs);
    failure_page_destroy(&ours);
    return 0;
}

#define TEST(name) UNIT_TEST_WITH(name, open_page, close_page)

TEST(test_a_cause_comes_over)
{
    char text[FAILURE_PAGE_TEXT_MAX];
    int rank = 0;

    assert_false(failure_page_is_posted(&theirs));

    failure_page_post(&ours, 3, "rank 3 was killed");
    failure_page_post(&ours, 5, "a later cause");
    assert_true(failure_page_is_posted(&theirs));
    failure_page_read(&theirs, &rank, text);
    assert_int_equal(rank, 3);
    assert_string_equal(text, "rank 3 was killed");
}

TEST(test_a_suspicion_comes_changes_and_goes)
{
    char text[FAILURE_PAGE_SUSPICION_MAX];
    char long_text[2 * FAILURE_PAGE_SUSPICION_MAX];
    uint32_t seen = 0;

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
}

TEST(test_a_long_cause_is_cut)
{
    char long_text[2 * FAILURE_PAGE_TEXT_MAX];
    char text[FAILURE_PAGE_TEXT_MAX];
    int rank = 0;

    memset(long_text, 'x', sizeof long_text);
    long_text[sizeof long_text - 1] = '\0';
    failure_page_post(&ours, -1, long_text);
    failure_page_read(&ours, &rank, text);
    assert_int_equal(rank, -1);
    assert_int_equal(strlen(text), FAILURE_PAGE_TEXT_MAX - 1);
}

/* That of its contexts, until the last has ended. */
TEST(test_the_library_tells_its_stage)
{
    assert_int_equal(failure_page_stage(&ours), LIBRARY_STAGE_NONE);
    failure_page_begin(&theirs);
    failure_page_begin(&theirs);
    failure_page_end(&theirs);
    assert_int_equal(failure_page_stage(&ours), LIBRARY_STAGE_RUNNING);
    failure_page_end(&theirs);
    assert_int_equal(failure_page_stage(&ours), LIBRARY_STAGE_FINALIZED);
    failure_page_begin(&theirs);
    assert_int_equal(failure_page_stage(&ours), LIBRARY_STAGE_RUNNING);
    /* What a program that went wild may have written: the stage follows the magic. */
    ((uint32_t *)theirs.shared)[2] = 77;
    assert_int_equal(failure_page_stage(&ours), LIBRARY_STAGE_NONE);
}

/* The first failure counts, until the next context is made alone. */
TEST(test_the_library_tells_that_it_fails)
{
    char text[FAILURE_PAGE_AWAITED_MAX];

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

TEST(test_the_descriptor_is_inherited)
{
    assert_int_equal(fcntl(ours.fd, F_GETFD) & FD_CLOEXEC, 0);
    assert_int_equal(ftruncate(ours.fd, 0), -1); /* a program cannot pull it away */
}
