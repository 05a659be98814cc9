/*
 * What becomes of a job when several things happen to it, on a clock that only we move:
 * supervisors are sockets of this process, and each test says who speaks when.
 */
#include <string.h>
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
        .server = { .epoll = -1, .listener = -1, .is_local = true },
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

static void hear(struct play *play, int rank)
{
    hear_link(&play->job, (size_t)rank, false);
    flow_step(&play->job);
}

static void say(struct play *play, int rank, struct wire_writer *out)
{
    assert_int_equal(write(play->fds[rank], out->data, out->len), out->len);
    wire_writer_fini(out);
    hear(play, rank);
}

/* The connection of a supervisor ends. */
static void lose(struct play *play, int rank)
{
    (void)close(play->fds[rank]);
    play->fds[rank] = -1;
    hear(play, rank);
}

/* A supervisor says that its engine's process has died. */
static void tell_orphan(struct play *play, int rank)
{
    struct wire_writer out = { .data = NULL };

    link_put_note(&out, "rank: " LINK_NOTE_ORPHANED "; ending the program");
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
    go_to(&play, 1);
    lose(&play, 1);
    go_to(&play, 150);
    assert_int_equal(play.job.state, JOB_RUNNING);
    tell_orphan(&play, 2);
    tell_exit(&play, 2, LINK_ENDED_SIGNAL, 15, true);
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
    go_to(&play, 5);
    lose(&play, 0);
    go_to(&play, 250);
    assert_int_equal(play.job.state, JOB_RUNNING);
    go_to(&play, 251);
    assert_cause(&play, "rank 3 on host tt2 was lost");
    close_play(&play);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_dead_daemon_is_told_of_late),
        cmocka_unit_test(test_a_lost_connection_waits_and_is_the_cause),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
