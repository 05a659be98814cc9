/*
 * What becomes of a job when several things happen to it, on a clock that only we move:
 * supervisors are sockets of this process, and each test says who speaks when.
 */
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/mem.h"
#include "launcher/job/flow.h"
#include "test/unit/unit.h"

#define BEGIN (INT64_C(1000) * JOB_NS_PER_MS) /* when the first thing happens */

enum {
    RANKS = 4 /* two on each of two hosts */
};

/* A job that runs, and the other ends of its links. */
struct play {
    struct job job;
    struct job_options options;
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
    *link = (struct server_link){ .fd = ends[0],
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
    *play = (struct play){ .options = { .grace_ms = 300, .silent_ms = 3000 } };
    play->job = (struct job){
        .options = &play->options,
        .engine_name = "mpirun",
        .state = JOB_RUNNING,
        .cause.rank = -1,
        .server = { .epoll = -1,
                .hangups = epoll_create1(EPOLL_CLOEXEC),
                .listener = -1,
                .is_local = true },
        .engine = engine_process_none,
        .console.streams = { { .fd = -1, .is_broken = true },
                { .fd = -1, .is_broken = true } },
        .now = BEGIN,
        .next_beat = INT64_MAX, /* not of this play */
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
        hear_link(&play->job, rank, false);
    }
    flow_step(&play->job);
}

static void say(struct play *play, int rank, struct wire_writer *out)
{
    assert_int_equal(write(play->fds[rank], out->data, out->len), out->len);
    wire_writer_fini(out);
}

/* The connection of a supervisor ends. */
static void lose(struct play *play, int rank)
{
    (void)close(play->fds[rank]);
    play->fds[rank] = -1;
}

static void tell_beat(struct play *play, int rank)
{
    struct wire_writer out = { .data = NULL };

    link_put_beat(&out, &(struct link_beat){ .sent = (uint64_t)play->job.now });
    say(play, rank, &out);
}

/* A supervisor says that its engine's process has died. */
static void tell_orphan(struct play *play, int rank)
{
    struct wire_writer out = { .data = NULL };

    link_put_note(&out, "rank: " LINK_NOTE_ORPHANED "; ending the program");
    say(play, rank, &out);
}

/* A rank's words of MPI_Abort(). */
static void tell_abort(struct play *play, int rank)
{
    struct wire_writer out = { .data = NULL };
    const struct link_output output = {
        .stream = 2,
        .time = (uint64_t)play->job.now,
        .lines = link_text_of(
                "MPI_ABORT was invoked on rank 3 in communicator MPI_COMM_WORLD\n"
                "with errorcode 9.\n"),
    };

    link_put_output(&out, &output);
    say(play, rank, &out);
}

/* A supervisor says how its program ended, now. */
static void tell_exit(struct play *play, int rank, enum link_ending ending,
        uint32_t value, bool was_stopped)
{
    struct wire_writer out = { .data = NULL };
    const struct link_exited exited = {
        .ending = (uint8_t)ending,
        .value = value,
        .time = (uint64_t)play->job.now,
        .was_stopped = was_stopped,
    };

    link_put_exited(&out, &exited);
    say(play, rank, &out);
}

static void assert_cause(const struct play *play, const char *text)
{
    if (play->job.state != JOB_STOPPING || strstr(play->job.cause.text, text) == NULL) {
        fail_msg("state %d, cause '%s', which should say '%s'", play->job.state,
                play->job.cause.text, text);
    }
}

/* The engine ends ranks of a host when its process on another has died. */
static void test_a_dead_daemon_is_told_of_late(void **state)
{
    struct play play;

    (void)state;
    open_play(&play);
    lose(&play, 0);
    look(&play);
    go_to(&play, 1);
    lose(&play, 1);
    look(&play);
    go_to(&play, 150);
    assert_int_equal(play.job.state, JOB_RUNNING);
    tell_orphan(&play, 2);
    tell_exit(&play, 2, LINK_ENDED_SIGNAL, 15, true);
    look(&play);
    go_to(&play, 400);
    assert_cause(
            &play, "the process of mpirun that started rank 2 on host tt2 has died");
    close_play(&play);
}

static void test_a_lost_connection_waits_and_is_the_cause(void **state)
{
    struct play play;

    (void)state;
    open_play(&play);
    lose(&play, 3);
    look(&play);
    go_to(&play, 5);
    lose(&play, 0);
    look(&play);
    go_to(&play, 250);
    assert_int_equal(play.job.state, JOB_RUNNING);
    go_to(&play, 251);
    assert_cause(&play, "rank 3 on host tt2 was lost");
    close_play(&play);
}

/* tuttirun finds both closed when it runs again, and bytes that came before. */
static void test_of_two_lost_connections_the_first_is_the_cause(void **state)
{
    struct play play;

    (void)state;
    open_play(&play);
    for (int rank = 0; rank < RANKS; rank++) {
        tell_beat(&play, rank);
    }
    lose(&play, 3);
    lose(&play, 0);
    lose(&play, 1);
    go_to(&play, 300);
    look(&play);
    look(&play);
    go_to(&play, 1000);
    assert_cause(&play, "rank 3 on host tt2 was lost");
    close_play(&play);
}

/* It was not heard in time because tuttirun did not run. */
static void test_a_cause_that_came_while_tuttirun_stood_still(void **state)
{
    struct play play;

    (void)state;
    open_play(&play);
    lose(&play, 0);
    look(&play);
    tell_orphan(&play, 2);
    play.job.now = BEGIN + 600 * JOB_NS_PER_MS;
    flow_step(&play.job);
    assert_int_equal(play.job.state, JOB_RUNNING);
    look(&play);
    go_to(&play, 651);
    assert_cause(
            &play, "the process of mpirun that started rank 2 on host tt2 has died");
    close_play(&play);
}

/* However often it comes too late, there is a cause in the end. */
static void test_a_slow_tuttirun_decides_too(void **state)
{
    struct play play;
    int turns = 0;

    (void)state;
    open_play(&play);
    lose(&play, 0);
    look(&play);
    while (play.job.state == JOB_RUNNING) {
        assert_true(turns++ < 20);
        play.job.now += 600 * JOB_NS_PER_MS;
        look(&play);
    }
    assert_cause(&play, "rank 0 on host tt1 was lost");
    close_play(&play);
}

/* The rank that called MPI_Abort() is told of before the engine ends its supervisor. */
static void test_an_abort_is_told_by_its_status_first(void **state)
{
    struct play play;

    (void)state;
    open_play(&play);
    tell_abort(&play, 3);
    tell_exit(&play, 3, LINK_ENDED_EXIT, 9, false);
    look(&play);
    go_to(&play, 20);
    lose(&play, 0);
    look(&play);
    go_to(&play, 400);
    assert_cause(&play, "rank 3 on host tt2 called MPI_Abort with code 9");
    assert_int_equal(play.job.cause.exit_status, 9);
    close_play(&play);
}

/* Its words come when the cause has been decided, by way of the engine. */
static void test_an_abort_is_told_late(void **state)
{
    struct play play;

    (void)state;
    open_play(&play);
    tell_exit(&play, 3, LINK_ENDED_EXIT, 9, false);
    look(&play);
    go_to(&play, 100);
    assert_cause(&play, "rank 3 on host tt2 exited with status 9");
    tell_abort(&play, 2);
    for (int rank = 0; rank < 3; rank++) {
        lose(&play, rank);
    }
    look(&play);
    look(&play);
    play.job.engine.has_ended = true;
    play.job.now += 5000 * JOB_NS_PER_MS;
    look(&play);
    play.job.now += 5000 * JOB_NS_PER_MS;
    look(&play);
    assert_int_equal(play.job.state, JOB_FAILED);
    assert_non_null(strstr(
            play.job.cause.text, "rank 3 on host tt2 called MPI_Abort with code 9"));
    assert_int_equal(play.job.cause.exit_status, 9);
    close_play(&play);
}

/* The engine, which has lost a daemon, ends before the ranks that it ended are told of. */
static void test_an_engine_that_lost_its_daemon_ends_first(void **state)
{
    struct play play;

    (void)state;
    open_play(&play);
    play.job.engine.has_ended = true;
    play.job.engine.status = 205 << 8;
    flow_suspect(&play.job);
    go_to(&play, 150);
    assert_int_equal(play.job.state, JOB_RUNNING);
    tell_orphan(&play, 3);
    look(&play);
    go_to(&play, 251);
    assert_cause(
            &play, "the process of mpirun that started rank 3 on host tt2 has died");
    close_play(&play);
}

/* On our host it is the parent of supervisors, which say that it has died. */
static void test_an_engine_that_ends_itself_is_the_cause(void **state)
{
    char own_name[64] = "";
    struct play play;

    (void)state;
    assert_int_equal(gethostname(own_name, sizeof own_name - 1), 0);
    open_play(&play);
    mem_free(play.job.ranks.items[0].host);
    play.job.ranks.items[0].host = mem_strdup(own_name);
    tell_orphan(&play, 0);
    look(&play);
    play.job.engine.has_ended = true;
    play.job.engine.status = 1 << 8;
    flow_suspect(&play.job);
    go_to(&play, 251);
    assert_cause(&play, "mpirun ended with status 1 while the job ran");
    close_play(&play);
}

/* Programs have two seconds, or as long as --grace-ms gives them. */
static void test_a_signal_leaves_time_to_save(void **state)
{
    struct play play;

    (void)state;
    open_play(&play);
    flow_signal(&play.job, SIGTERM);
    assert_int_equal(play.job.stop_at, BEGIN + 2000 * JOB_NS_PER_MS);
    close_play(&play);

    open_play(&play);
    play.options.grace_ms = 5000;
    flow_signal(&play.job, SIGTERM);
    assert_int_equal(play.job.stop_at, BEGIN + 5000 * JOB_NS_PER_MS);
    close_play(&play);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_dead_daemon_is_told_of_late),
        cmocka_unit_test(test_a_lost_connection_waits_and_is_the_cause),
        cmocka_unit_test(test_of_two_lost_connections_the_first_is_the_cause),
        cmocka_unit_test(test_a_cause_that_came_while_tuttirun_stood_still),
        cmocka_unit_test(test_a_slow_tuttirun_decides_too),
        cmocka_unit_test(test_an_abort_is_told_by_its_status_first),
        cmocka_unit_test(test_an_abort_is_told_late),
        cmocka_unit_test(test_an_engine_that_lost_its_daemon_ends_first),
        cmocka_unit_test(test_an_engine_that_ends_itself_is_the_cause),
        cmocka_unit_test(test_a_signal_leaves_time_to_save),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
