/*
 * A host's kept memory: what is whole, what is torn, and what has gone bad.
 */
#include "elastic/region.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "test/unit/unit.h"

enum {
    RANKS = 3,
    TOTAL = 20000,
    NUMBER = 7
};

struct host {
    int fd;
    struct region ranks[RANKS];
    char bytes[TOTAL];
};

static void host_open(struct host *host)
{
    host->fd = memfd_create("host", 0);
    assert_int_equal(ftruncate(host->fd, ELASTIC_CONTROL_BYTES), 0);
    for (int r = 0; r < RANKS; r++) {
        char text[64];

        (void)snprintf(text, sizeof text, "%d 1 %d %d", host->fd, r, RANKS);
        assert_int_equal(region_open(&host->ranks[r], text), TUTTI_OK);
    }
    for (int i = 0; i < TOTAL; i++) {
        host->bytes[i] = (char)(i * 7);
    }
}

static void host_close(struct host *host)
{
    for (int r = 0; r < RANKS; r++) {
        region_close(&host->ranks[r]);
    }
    (void)close(host->fd);
}

static void write_rank(struct host *host, int r, uint64_t number, bool is_complete)
{
    struct region_share share = region_share(&host->ranks[r], TOTAL);

    assert_int_equal(region_put(&host->ranks[r], 1, &share), TUTTI_OK);
    /* in two pieces, neither of which ends where a share does */
    assert_int_equal(
            region_write(&host->ranks[r], 1, &share, 0, host->bytes, 9001), TUTTI_OK);
    assert_int_equal(region_write(&host->ranks[r], 1, &share, 9001, host->bytes + 9001,
                             TOTAL - 9001),
            TUTTI_OK);
    share.number = number;
    share.is_complete = is_complete;
    assert_int_equal(region_put(&host->ranks[r], 1, &share), TUTTI_OK);
}

UNIT_TEST(test_shares_of_all_ranks_are_a_commit)
{
    struct host host;
    char got[TOTAL];
    char buffer[1000];

    host_open(&host);
    assert_int_equal(region_look(&host.ranks[0], 1).number, 0);
    for (int r = 0; r < RANKS; r++) {
        assert_int_equal(region_look(&host.ranks[0], 1).number, 0); /* torn */
        write_rank(&host, r, NUMBER, r == 1);
    }
    assert_int_equal(region_look(&host.ranks[1], 1).number, NUMBER);
    assert_true(region_look(&host.ranks[1], 1).is_complete); /* one mark is enough */
    assert_int_equal(region_look(&host.ranks[1], 0).number, 0);
    assert_int_equal(region_read(&host.ranks[0], 1, 0, got, TOTAL), TUTTI_OK);
    assert_memory_equal(got, host.bytes, TOTAL);
    assert_true(region_is_sound(&host.ranks[0], 1, buffer, sizeof buffer));
    host_close(&host);
}

UNIT_TEST(test_shares_of_two_commits_are_none)
{
    struct host host;

    host_open(&host);
    for (int r = 0; r < RANKS; r++) {
        write_rank(&host, r, NUMBER, true);
    }
    write_rank(&host, 1, NUMBER + 1, true);
    assert_int_equal(region_look(&host.ranks[0], 1).number, 0);
    host_close(&host);
}

UNIT_TEST(test_memory_that_has_gone_bad_is_noticed)
{
    const char flipped = 1;
    struct host host;
    char buffer[1000];

    host_open(&host);
    for (int r = 0; r < RANKS; r++) {
        write_rank(&host, r, NUMBER, true);
    }
    /* the last byte of the file is of the last share */
    assert_int_equal(pwrite(host.fd, &flipped, 1, lseek(host.fd, 0, SEEK_END) - 1), 1);
    assert_false(region_is_sound(&host.ranks[0], 1, buffer, sizeof buffer));
    host_close(&host);
}

UNIT_TEST(test_a_place_that_is_malformed_is_refused)
{
    static const char *const texts[] = { "", "7", "7 1 0", "7 1 2 2", "-1 1 0 1",
        "7 1 0 1x", "7 1 0 99999", "900 1 0 1" };
    struct region region;

    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        assert_int_not_equal(region_open(&region, texts[i]), TUTTI_OK);
        assert_int_equal(region.fd, -1);
    }
}

/* Its ends are terabytes apart, and what is written beyond the limit ends the process. */
UNIT_TEST(test_a_limit_of_files_is_refused)
{
    struct region region;
    struct rlimit limit;
    rlim_t before;

    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    before = limit.rlim_cur;
    limit.rlim_cur = (rlim_t)1 << 30;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    assert_int_equal(region_open(&region, NULL), TUTTI_ERR_SYSTEM);
    limit.rlim_cur = before;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    assert_non_null(strstr(tutti_last_error(), "ulimit -f unlimited"));
}
