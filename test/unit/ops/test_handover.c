/*
 * Descriptors between processes: each party gets each other's, from nobody else, and
 * nobody waits for ever.
 */
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "ops/shm/handover.h"
#include "test/unit/unit.h"

enum {
    PARTIES = 5
};

#define SECOND_NS INT64_C(1000000000)

/** What a party has taken. */
struct taken {
    int count;
    char from[PARTIES]; /* first byte of the file of each */
    pid_t pid[PARTIES];
    int fail; /* the party whose descriptor is refused; -1: none */
};

static tutti_status take(void *user, int party, int fd, pid_t pid)
{
    struct taken *taken = user;

    if (party == taken->fail) {
        return TUTTI_ERR_PROTOCOL;
    }
    taken->count++;
    taken->pid[party] = pid;
    assert_int_equal(pread(fd, &taken->from[party], 1, 0), 1);
    return TUTTI_OK;
}

static int file_of(int party)
{
    const char byte = (char)('a' + party);
    int fd = memfd_create("test", MFD_CLOEXEC);

    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, &byte, 1, 0), 1);
    return fd;
}

static void parties_open(
        struct handover *handovers, struct handover_party *parties, int count)
{
    for (int i = 0; i < count; i++) {
        ASSERT_OK(handover_open(&handovers[i]));
        parties[i] = (struct handover_party){ .rank = 10 + i };
        memcpy(parties[i].name, handovers[i].name, sizeof parties[i].name);
        memset(parties[i].secret, 'A' + i, sizeof parties[i].secret);
    }
}

/* A party in a process of its own; 0 when all was as it must be. */
static int party_main(struct handover *handover, struct handover_party *parties, int me)
{
    struct taken taken = { .fail = -1 };

    if (handover_exchange(handover, file_of(me), parties, PARTIES, me,
                clock_ns() + 1000 * SECOND_NS, take, &taken) != TUTTI_OK ||
            taken.count != PARTIES - 1) {
        return 1;
    }
    for (int i = 0; i < PARTIES; i++) {
        if (i != me && (taken.from[i] != 'a' + i || taken.pid[i] <= 0)) {
            return 2;
        }
    }
    return 0;
}

UNIT_TEST(test_every_process_gets_every_descriptor)
{
    struct handover handovers[PARTIES];
    struct handover_party parties[PARTIES];
    pid_t children[PARTIES];

    parties_open(handovers, parties, PARTIES);
    for (int i = 0; i < PARTIES; i++) {
        children[i] = fork();
        if (children[i] == 0) {
            _exit(party_main(&handovers[i], parties, i));
        }
    }
    for (int i = 0; i < PARTIES; i++) {
        int status = -1;

        assert_int_equal(waitpid(children[i], &status, 0), children[i]);
        assert_int_equal(status, 0);
        handover_close(&handovers[i]);
    }
}

UNIT_TEST(test_a_party_that_does_not_come_is_not_waited_for_for_ever)
{
    struct handover handovers[2];
    struct handover_party parties[2];
    struct taken taken = { .fail = -1 };
    int fd = file_of(0);

    parties_open(handovers, parties, 2);
    assert_int_equal(handover_exchange(&handovers[0], fd, parties, 2, 0,
                             clock_ns() + SECOND_NS / 20, take, &taken),
            TUTTI_ERR_SYSTEM);
    assert_int_equal(taken.count, 0);
    assert_int_equal(close(fd), 0);
    handover_close(&handovers[0]);
    handover_close(&handovers[1]);
}

UNIT_TEST(test_a_party_that_is_gone_is_named)
{
    struct handover handovers[2];
    struct handover_party parties[2];
    struct taken taken = { .fail = -1 };
    int fd = file_of(0);

    parties_open(handovers, parties, 2);
    handover_close(&handovers[1]);
    assert_int_equal(handover_exchange(&handovers[0], fd, parties, 2, 0,
                             clock_ns() + 1000 * SECOND_NS, take, &taken),
            TUTTI_ERR_SYSTEM);
    assert_non_null(strstr(tutti_last_error(), "rank 11"));
    assert_int_equal(close(fd), 0);
    handover_close(&handovers[0]);
}

/* Runs both ends of two parties in turn in this process. */
UNIT_TEST(test_strangers_and_repetitions_are_not_listened_to)
{
    struct handover handovers[3];
    struct handover_party parties[3];
    struct handover_party forged[2];
    struct taken taken[2] = { { .fail = -1 }, { .fail = -1 } };
    int fd = file_of(1);
    const int64_t past = clock_ns();

    parties_open(handovers, parties, 3);
    /* Somebody who does not know the secret of party 1 says that he is it. */
    memcpy(forged, parties, sizeof forged);
    memset(forged[1].secret, 'x', sizeof forged[1].secret);
    (void)handover_exchange(&handovers[2], fd, forged, 2, 1, past, take, &taken[1]);
    assert_int_equal(forged[0].sent, true);
    (void)handover_exchange(&handovers[0], fd, parties, 2, 0, past, take, &taken[0]);
    assert_int_equal(taken[0].count, 0);

    /* Party 1 itself, twice. */
    for (int i = 0; i < 2; i++) {
        parties[0].sent = false;
        parties[0].received = false;
        (void)handover_exchange(
                &handovers[1], fd, parties, 2, 1, past, take, &taken[1]);
    }
    parties[1].sent = true;
    (void)handover_exchange(&handovers[0], fd, parties, 2, 0, past, take, &taken[0]);
    (void)handover_exchange(&handovers[0], fd, parties, 2, 0, past, take, &taken[0]);
    assert_int_equal(taken[0].count, 1);
    assert_int_equal(close(fd), 0);
    for (int i = 0; i < 3; i++) {
        handover_close(&handovers[i]);
    }
}

UNIT_TEST(test_a_refusal_ends_the_exchange)
{
    struct handover handovers[2];
    struct handover_party parties[2];
    struct taken taken[2] = { { .fail = 1 }, { .fail = -1 } };
    int fd = file_of(1);

    parties_open(handovers, parties, 2);
    (void)handover_exchange(
            &handovers[1], fd, parties, 2, 1, clock_ns(), take, &taken[1]);
    parties[1].sent = true;
    assert_int_equal(handover_exchange(&handovers[0], fd, parties, 2, 0,
                             clock_ns() + 1000 * SECOND_NS, take, &taken[0]),
            TUTTI_ERR_PROTOCOL);
    assert_int_equal(close(fd), 0);
    handover_close(&handovers[0]);
    handover_close(&handovers[1]);
}
