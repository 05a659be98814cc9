/*
 * What becomes of a job when several things happen to it, on a clock that only we move:
 * supervisors are sockets of this process, and each test says who speaks when.
 */
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <tutti/trainer/elastic.h>

#include "base/mem.h"
#include "launcher/job/beats.h"
#include "launcher/job/flow.h"
#include "launcher/job/supervisor_events.h"
#include "test/unit/unit.h"

#define BEGIN (INT64_C(1000) * JOB_NS_PER_MS) /* when the first thing happens */

enum {
    RANKS = 4 /* two on each of two hosts */
};

/* A job that runs, and the other ends of its links. */
struct play {
    struct job job;
    struct options options;
    struct server_link *links[RANKS]; /* owned by the job's server */
    int fds[RANKS]; /* of the supervisors */
};

static void join(struct play *play, int rank)
{
    struct server_link *link = mem_calloc(1, sizeof *link);
    const struct link_hello hello = {
        .host = link_text_of(rank < 2 ? "tt1" : "tt2"), .rank = rank, .size = RANKS
    };
    const struct link_started started = { .pid = 1 };
    int ends[2];

    assert_non_null(link);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    *link = (struct server_link){ .session = session_of(ends[0], NULL, 0),
        .index = (size_t)rank,
        .rank = rank,
        .heard = BEGIN,
        .offset.is_ours = true };
    assert_true(server_watch_end(&play->job.server, link));
    play->links[rank] = link;
    play->fds[rank] = ends[1];
    ranks_join(&play->job.ranks, &hello);
    ranks_start(&play->job.ranks, rank, &started);
}

static void open_play(struct play *play)
{
    *play = (struct play){ .options = {
                                   .grace_ms = 300, .heartbeat_timeout_ms = 3000 } };
    play->job = (struct job){
        .options = &play->options,
        .launcher = { .name = "mpirun", .process = starter_process_none },
        .state = JOB_RUNNING,
        .cause.rank = -1,
        .server = { .hangups = epoll_create1(EPOLL_CLOEXEC),
                .listener.fd = -1,
                .is_local = true },
        .console.streams = { { .fd = -1, .is_broken = true },
                { .fd = -1, .is_broken = true } },
        .now = BEGIN,
        .beats.next = INT64_MAX, /* not of this play */
    };
    assert_int_equal(ranks_init(&play->job.ranks, RANKS), TUTTI_OK);
    for (int rank = 0; rank < RANKS; rank++) {
        join(play, rank);
    }
    play->job.server.links = mem_calloc(RANKS, sizeof *play->job.server.links);
    assert_non_null(play->job.server.links);
    memcpy(play->job.server.links, play->links, sizeof play->links);
    play->job.server.count = RANKS;
}

static void close_play(struct play *play)
{
    server_fini(&play->job.server);
    ranks_fini(&play->job.ranks);
    for (int rank = 0; rank < RANKS; rank++) {
        if (play->fds[rank] >= 0) {
            (void)close(play->fds[rank]);
        }
    }
}

/* A test of a job that runs, which is `play`. */
#define UNIT_PLAY(name) \
    static void name##_play(struct play *play); \
    UNIT_TEST(name) \
    { \
        struct play play; \
\
        open_play(&play); \
        name##_play(&play); \
        close_play(&play); \
    } \
    static void name##_play(struct play *play)

/* So many milliseconds after BEGIN; what was due until then has been done. */
static void go_to(struct play *play, int ms)
{
    const int64_t then = BEGIN + ms * JOB_NS_PER_MS;

    while (flow_next(&play->job) < then) {
        play->job.now = flow_next(&play->job);
        flow_step(&play->job);
    }
    play->job.now = then;
}

/* What tuttirun does when it looks: links have their turn by rank. */
static void look(struct play *play)
{
    server_note_hangups(&play->job.server, play->job.now);
    for (size_t rank = 0; rank < RANKS; rank++) {
        supervisor_events_read(&play->job, play->links[rank], false);
    }
    flow_step(&play->job);
}

static void say(struct play *play, int rank, const struct link_message *message)
{
    struct wire_writer out = { .data = NULL };

    link_put(&out, message);
    assert_int_equal(write(play->fds[rank], out.data, out.len), out.len);
    wire_writer_fini(&out);
}

/* The connection of a supervisor ends. */
static void lose(struct play *play, int rank)
{
    (void)close(play->fds[rank]);
    play->fds[rank] = -1;
}

static void tell_beat(struct play *play, int rank)
{
    say(play, rank,
            &(struct link_message){
                    .type = LINK_BEAT, .beat.sent = (uint64_t)play->job.now });
}

/* A supervisor says that its starter's process has died. */
static void tell_orphan(struct play *play, int rank)
{
    say(play, rank,
            &(struct link_message){ .type = LINK_NOTE,
                    .note = link_text_of(
                            "rank: " LINK_NOTE_ORPHANED "; ending the program") });
}

/* A rank's words of MPI_Abort(). */
static void tell_abort(struct play *play, int rank)
{
    const struct link_message message = {
        .type = LINK_OUTPUT,
        .output = { .stream = 2,
                .time = (uint64_t)play->job.now,
                .lines = link_text_of("MPI_ABORT was invoked on rank 3 in communicator "
                                      "MPI_COMM_WORLD\nwith errorcode 9.\n") },
    };

    say(play, rank, &message);
}

/* A supervisor says how its program ended, now. */
static void tell_end(struct play *play, int rank, struct link_exited exited)
{
    exited.time = (uint64_t)play->job.now;
    exited.stage = LIBRARY_STAGE_RUNNING;
    say(play, rank, &(struct link_message){ .type = LINK_EXITED, .exited = exited });
}

static const struct link_exited exit_9 = { .value = 9 };
static const struct link_exited exit_3 = { .value = 3 };
static const struct link_exited told = { .value = 3, .failure = CONTEXT_FAILURE_TOLD };
static const struct link_exited stopped = {
    .ending = LINK_ENDED_SIGNAL, .value = SIGTERM, .was_stopped = true
};

static void assert_cause(const struct play *play, const char *text)
{
    if (play->job.state != JOB_STOPPING || strstr(play->job.cause.text, text) == NULL) {
        fail_msg("state %d, cause '%s', which should say '%s'", play->job.state,
                play->job.cause.text, text);
    }
}

/* The starter ends ranks of a host when its process on another has died. */
UNIT_PLAY(test_a_dead_daemon_is_told_of_late)
{
    lose(play, 0);
    look(play);
    go_to(play, 1);
    lose(play, 1);
    look(play);
    go_to(play, 150);
    assert_int_equal(play->job.state, JOB_RUNNING);
    tell_orphan(play, 2);
    tell_end(play, 2, stopped);
    look(play);
    go_to(play, 400);
    assert_cause(
            play, "the process of mpirun that started rank 2 on host tt2 has died");
}

UNIT_PLAY(test_a_lost_connection_waits_and_is_the_cause)
{
    lose(play, 3);
    look(play);
    go_to(play, 5);
    lose(play, 0);
    look(play);
    go_to(play, 250);
    assert_int_equal(play->job.state, JOB_RUNNING);
    go_to(play, 251);
    assert_cause(play, "rank 3 on host tt2 was lost");
}

/* tuttirun finds both closed when it runs again, and bytes that came before. */
UNIT_PLAY(test_of_two_lost_connections_the_first_is_the_cause)
{
    for (int rank = 0; rank < RANKS; rank++) {
        tell_beat(play, rank);
    }
    lose(play, 3);
    lose(play, 0);
    lose(play, 1);
    go_to(play, 300);
    look(play);
    look(play);
    go_to(play, 1000);
    assert_cause(play, "rank 3 on host tt2 was lost");
}

/* It was not heard in time because tuttirun did not run. */
UNIT_PLAY(test_a_cause_that_came_while_tuttirun_stood_still)
{
    lose(play, 0);
    look(play);
    tell_orphan(play, 2);
    play->job.now = BEGIN + 600 * JOB_NS_PER_MS;
    flow_step(&play->job);
    assert_int_equal(play->job.state, JOB_RUNNING);
    look(play);
    go_to(play, 651);
    assert_cause(
            play, "the process of mpirun that started rank 2 on host tt2 has died");
}

/* However often it comes too late, there is a cause in the end. */
UNIT_PLAY(test_a_slow_tuttirun_decides_too)
{
    int turns = 0;

    lose(play, 0);
    look(play);
    while (play->job.state == JOB_RUNNING) {
        assert_true(turns++ < 20);
        play->job.now += 600 * JOB_NS_PER_MS;
        look(play);
    }
    assert_cause(play, "rank 0 on host tt1 was lost");
}

/* The rank that called MPI_Abort() is told of before the starter ends its supervisor. */
UNIT_PLAY(test_an_abort_is_told_by_its_status_first)
{
    tell_abort(play, 3);
    tell_end(play, 3, exit_9);
    look(play);
    go_to(play, 20);
    lose(play, 0);
    look(play);
    go_to(play, 400);
    assert_cause(play, "rank 3 on host tt2 called MPI_Abort with code 9");
    assert_int_equal(play->job.cause.exit_status, 9);
}

/* A program that prints the words of another job has not called MPI_Abort(). */
UNIT_PLAY(test_an_abort_that_its_rank_denies)
{
    tell_abort(play, 3);
    tell_end(play, 3, exit_3);
    look(play);
    go_to(play, 400);
    assert_cause(play, "rank 3 on host tt2 exited with status 3");
    assert_int_equal(play->job.cause.exit_status, 3);
}

/* Its words come when the cause has been decided, by way of the starter. */
UNIT_PLAY(test_an_abort_is_told_late)
{
    tell_end(play, 3, exit_9);
    look(play);
    go_to(play, 100);
    assert_cause(play, "rank 3 on host tt2 exited with status 9");
    tell_abort(play, 2);
    for (int rank = 0; rank < 3; rank++) {
        lose(play, rank);
    }
    look(play);
    look(play);
    play->job.launcher.process.has_ended = true;
    play->job.now += 5000 * JOB_NS_PER_MS;
    look(play);
    play->job.now += 5000 * JOB_NS_PER_MS;
    look(play);
    assert_int_equal(play->job.state, JOB_FAILED);
    assert_non_null(strstr(
            play->job.cause.text, "rank 3 on host tt2 called MPI_Abort with code 9"));
    assert_int_equal(play->job.cause.exit_status, 9);
}

/* Who was told of a failure ends before the rank that found it. */
UNIT_PLAY(test_who_failed_the_context_is_waited_for)
{
    tell_end(play, 0, told);
    look(play);
    go_to(play, 150);
    assert_int_equal(play->job.state, JOB_RUNNING);
    tell_end(play, 3,
            (struct link_exited){ .value = 4, .failure = CONTEXT_FAILURE_FOUND });
    look(play);
    go_to(play, 201);
    assert_cause(play, "rank 3 on host tt2 exited with status 4");
}

/* Ranks 1 and 2 wait for rank 3; rank 0, which is stopped as well, is not needed. */
UNIT_PLAY(test_who_did_not_come_is_the_cause)
{
    tell_end(play, 2,
            (struct link_exited){ .value = 3,
                    .failure = CONTEXT_FAILURE_FOUND,
                    .awaited = link_text_of("1-3") });
    look(play);
    tell_end(play, 1, told);
    look(play);
    go_to(play, 51);
    assert_cause(play, "rank 2 on host tt2 exited with status 3");
    go_to(play, 600);
    tell_end(play, 0, stopped);
    look(play);
    tell_end(play, 3, stopped);
    look(play);
    play->job.launcher.process.has_ended = true;
    play->job.now += 5000 * JOB_NS_PER_MS;
    flow_step(&play->job);
    play->job.now += 5000 * JOB_NS_PER_MS;
    flow_step(&play->job);
    assert_int_equal(play->job.state, JOB_FAILED);
    assert_string_equal(play->job.cause.text,
            "rank 3 on host tt2 was still running outside tutti when rank 2 had given "
            "up waiting for it, pid 1, 1.0 s after the start; it was ended by signal "
            "15 "
            "(SIGTERM) 0.6 s later");
    assert_int_equal(play->job.cause.rank, 3);
    assert_int_equal(play->job.cause.exit_status, 3);
}

/* The starter, which has lost a daemon, ends before the ranks that it ended are told of. */
UNIT_PLAY(test_a_starter_that_lost_its_daemon_ends_first)
{
    play->job.launcher.process.has_ended = true;
    play->job.launcher.process.status = 205 << 8;
    flow_suspect(&play->job);
    go_to(play, 150);
    assert_int_equal(play->job.state, JOB_RUNNING);
    tell_orphan(play, 3);
    look(play);
    go_to(play, 251);
    assert_cause(
            play, "the process of mpirun that started rank 3 on host tt2 has died");
}

/* On our host it is the parent of supervisors, which say that it has died. */
UNIT_PLAY(test_a_starter_that_ends_itself_is_the_cause)
{
    char own_name[64] = "";

    assert_int_equal(gethostname(own_name, sizeof own_name - 1), 0);
    mem_free(play->job.ranks.items[0].host);
    play->job.ranks.items[0].host = mem_strdup(own_name);
    tell_orphan(play, 0);
    look(play);
    play->job.launcher.process.has_ended = true;
    play->job.launcher.process.status = 1 << 8;
    flow_suspect(&play->job);
    go_to(play, 251);
    assert_cause(play, "mpirun ended with status 1 while the job ran");
}

/* The library of rank 0 was told once, with this text in it; NULL: it was told nothing. */
static void expect_suspicion(struct play *play, const char *expected)
{
    static uint8_t bytes[1 << 16];
    const ssize_t len = recv(play->fds[0], bytes, sizeof bytes, MSG_DONTWAIT);
    char text[512] = "nothing";
    bool was_told = false;
    struct link_message message;
    struct frame frame;
    size_t used = 1;

    for (size_t at = 0; len > 0 && at < (size_t)len && used > 0; at += used) {
        assert_int_equal(frame_take(bytes + at, (size_t)len - at, NULL, &frame, &used),
                TUTTI_OK);
        if (used > 0 && link_read(&frame, &message) == TUTTI_OK &&
                message.type == LINK_SUSPICION) {
            assert_false(was_told);
            (void)snprintf(text, sizeof text, "%.*s", (int)message.suspicion.len,
                    message.suspicion.text);
            was_told = true;
        }
    }
    if (was_told != (expected != NULL) ||
            (was_told &&
                    (strstr(text, expected) == NULL ||
                            (expected[0] == '\0') != (text[0] == '\0')))) {
        fail_msg("told of '%s' and not of '%s'", text, expected);
    }
}

/* All but so many last ranks are heard at every heartbeat, until `ms` after BEGIN. */
static void beat_until(struct play *play, int ms, int silent)
{
    while (play->job.now < BEGIN + ms * JOB_NS_PER_MS) {
        play->job.now += 100 * JOB_NS_PER_MS;
        for (int rank = 0; rank < RANKS - silent; rank++) {
            play->links[rank]->heard = play->job.now;
        }
        beats_step(&play->job);
        flow_step(&play->job);
    }
}

static void wait_long_for_silent(struct play *play)
{
    play->job.beats.interval_ms = 100;
    play->options.heartbeat_timeout_ms = 60000;
    play->job.beats.next = 0;
}

UNIT_PLAY(test_silence_is_said_and_taken_back)
{
    wait_long_for_silent(play);
    beat_until(play, 2400, 1);
    expect_suspicion(play, NULL);
    beat_until(play, 2600, 1);
    expect_suspicion(play,
            "rank 3 on host tt2 is silent: its supervisor was not heard for 2.5 s; the "
            "job ends after 60 s of that (--heartbeat-timeout)");
    beat_until(play, 50000, 1);
    expect_suspicion(play, NULL); /* it is said once */
    beat_until(play, 50200, 0);
    expect_suspicion(play, "");
    beat_until(play, 100000, 0);
    assert_int_equal(play->job.state, JOB_RUNNING);
}

/* Two ranks of a host are silent: that is said in one line, and is over by the limit. */
UNIT_PLAY(test_silence_that_lasts_ends_the_job)
{
    wait_long_for_silent(play);
    beat_until(play, 3000, 2);
    expect_suspicion(play, "rank 2 on host tt2 (and 1 more there) is silent");
    beat_until(play, 58900, 2);
    assert_int_equal(play->job.state, JOB_RUNNING);
    beat_until(play, 59800, 2);
    assert_cause(play, "fell silent");
}

/* However many hosts are silent: each rank is told once. */
UNIT_PLAY(test_hosts_that_fall_silent_together_are_said_at_once)
{
    wait_long_for_silent(play);
    beat_until(play, 3000, RANKS);
    expect_suspicion(play, "rank 2 on host tt2 (and 1 more there) is silent");
    beat_until(play, 3200, 0);
    expect_suspicion(play, "");
}

UNIT_TEST(test_heartbeats_of_wide_jobs_are_less_frequent)
{
    static const struct {
        int ranks, heartbeat_ms, timeout_ms, expected_ms;
    } rows[] = {
        { 4, 100, 60000, 100 },
        { 1024, 100, 60000, 512 },
        { 8192, 100, 60000, 4096 },
        { 8192, 5000, 60000, 5000 },
        { 8192, 100, 3000, 750 },
        { 1 << 20, 100, 86400000, LINK_BEAT_MS_MAX },
    };

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const struct options options = { .np = rows[i].ranks,
            .heartbeat_ms = rows[i].heartbeat_ms,
            .heartbeat_timeout_ms = rows[i].timeout_ms };

        assert_int_equal(beats_interval_ms(&options), rows[i].expected_ms);
    }
}

/* Its supervisor lives, and says so. */
UNIT_PLAY(test_a_stopped_program_is_said)
{
    wait_long_for_silent(play);
    play->links[1]->stopped = BEGIN;
    beat_until(play, 2600, 0);
    expect_suspicion(play, "rank 1 on host tt1 is stopped, by SIGSTOP");
    play->links[1]->stopped = 0;
    beat_until(play, 2700, 0);
    expect_suspicion(play, "");
}

/* What it has not read meanwhile is no silence; what lasts longer than its sleep is. */
UNIT_PLAY(test_a_tuttirun_that_slept_suspects_nobody_for_that)
{
    wait_long_for_silent(play);
    beat_until(play, 1000, 0);
    play->job.now += 20000 * JOB_NS_PER_MS;
    beat_until(play, 21100, 1);
    expect_suspicion(play, NULL);
    beat_until(play, 24000, 1);
    expect_suspicion(play, "is silent");
}

UNIT_PLAY(test_a_signal_leaves_time_to_save)
{
    flow_signal(&play->job, SIGTERM);
    assert_int_equal(play->job.due.stop_at, BEGIN + 2000 * JOB_NS_PER_MS);
}

UNIT_PLAY(test_a_signal_leaves_as_much_time_as_grace_ms_gives)
{
    play->options.grace_ms = 5000;
    flow_signal(&play->job, SIGTERM);
    assert_int_equal(play->job.due.stop_at, BEGIN + 5000 * JOB_NS_PER_MS);
}

static const struct link_exited again = { .value = TUTTI_EXIT_AGAIN };

static void all_end(struct play *play, struct link_exited exited)
{
    for (int rank = 0; rank < RANKS; rank++) {
        tell_end(play, rank, exited);
    }
    look(play);
    go_to(play, 1000);
}

/* In an elastic job: it is told to the ranks, which leave. */
UNIT_PLAY(test_ranks_that_were_told_to_leave_end_well)
{
    static const struct job_hooks hooks = { .generation = 1 };

    play->job.hooks = &hooks;
    flow_signal(&play->job, SIGTERM);
    assert_int_equal(play->job.state, JOB_RESHAPING);
    assert_int_equal(play->job.notice, TUTTI_NOTICE_LEAVE);
    all_end(play, again);
    assert_int_equal(play->job.cause.kind, CAUSE_NONE);
    assert_true(play->job.was_released);
    assert_true(play->job.ranks.items[3].leaves);
}

UNIT_PLAY(test_ranks_that_leave_by_themselves_have_failed)
{
    all_end(play, again);
    assert_cause(play, "exited with status 75");
}

UNIT_PLAY(test_a_death_among_ranks_that_leave_is_a_failure)
{
    flow_notice(&play->job, TUTTI_NOTICE_HOSTS);
    tell_end(play, 0, again);
    tell_end(play, 1, exit_9);
    look(play);
    go_to(play, 100);
    assert_cause(play, "rank 1 on host tt1 exited with status 9");
}
