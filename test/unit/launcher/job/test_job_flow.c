/*
 * What becomes of a job when several things happen to it, on a clock that only they move:
 * supervisors are sockets of this process, and each play says who speaks when.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <tutti/trainer/elastic.h>

#include "base/mem.h"
#include "launcher/job/flow.h"
#include "test/unit/launcher/cases.h"

#define BEGIN (INT64_C(1000) * JOB_NS_PER_MS) /* when the first thing happens */

enum {
    RANKS = 4 /* two on each of two hosts */
};

/* A job that runs, and the other ends of its links. */
struct play {
    struct job job;
    struct options options;
    struct placement placement;
    struct job_plan plan;
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
    play->plan = (struct job_plan){ .options = &play->options,
        .placement = &play->placement };
    play->job = (struct job){
        .plan = &play->plan,
        .options = &play->options,
        .launcher = { .name = "mpirun", .process = launcher_process_none },
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

/* How the program ended that a supervisor tells of, now: "exit=3;told", "stopped", "again". */
static void tell_end(struct play *play, int rank, const char *text)
{
    struct link_exited exited = { .time = (uint64_t)play->job.now,
        .stage = LIBRARY_STAGE_RUNNING };
    const char *status = strstr(text, "exit=");
    const char *awaited = strstr(text, "awaited=");

    if (strcmp(text, "stopped") == 0) {
        exited.ending = LINK_ENDED_SIGNAL;
        exited.value = SIGTERM;
        exited.was_stopped = true;
    }
    exited.value = strcmp(text, "again") == 0 ? TUTTI_EXIT_AGAIN : exited.value;
    exited.value =
            status != NULL ? (uint32_t)strtoul(status + 5, NULL, 10) : exited.value;
    exited.failure = strstr(text, "told") != NULL ? CONTEXT_FAILURE_TOLD
            : strstr(text, "found") != NULL       ? CONTEXT_FAILURE_FOUND
                                                  : CONTEXT_FAILURE_NONE;
    exited.awaited = link_text_of(awaited != NULL ? awaited + 8 : "");
    say(play, rank, &(struct link_message){ .type = LINK_EXITED, .exited = exited });
}

/* What the library of rank 0 was told of a suspicion since it was last looked at. */
static void show_told(struct play *play, char *out)
{
    static uint8_t bytes[1 << 16];
    const ssize_t len = recv(play->fds[0], bytes, sizeof bytes, MSG_DONTWAIT);
    struct link_message message;
    struct frame frame;
    size_t used = 1;

    (void)strcpy(out, "nothing; ");
    for (size_t at = 0; len > 0 && at < (size_t)len && used > 0; at += used) {
        assert_int_equal(
                frame_take(bytes + at, (size_t)len - at, &frame, &used), TUTTI_OK);
        if (used > 0 && link_read(&frame, &message) == TUTTI_OK &&
                message.type == LINK_SUSPICION) {
            (void)sprintf(out, "'%.*s'; ", (int)message.suspicion.len,
                    message.suspicion.text);
        }
    }
}

static void show_state(const struct job *job, char *out)
{
    static const char *const states[] = { "planned", "spawning", "running", "reshaping",
        "stopping", "done", "failed" };

    (void)sprintf(out, "%s%s%s%s", states[job->state],
            job->notice == TUTTI_NOTICE_LEAVE ? " (leave)" : "",
            job->cause.text[0] != '\0' ? ": " : "", job->cause.text);
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

/* tuttirun does not run so often, until there is a cause. */
static void come_late(struct play *play, int ms)
{
    int turns = 0;

    while (play->job.state == JOB_RUNNING) {
        assert_true(turns++ < 20);
        play->job.now += ms * JOB_NS_PER_MS;
        look(play);
    }
}

static void wait_long_for_silent(struct play *play)
{
    play->job.beats.interval_ms = 100;
    play->options.heartbeat_timeout_ms = 60000;
    play->job.beats.next = 0;
}

/* Somebody does something. */
static void act_one(struct play *play, const char *what, int number, const char *more)
{
    if (strcmp(what, "lose") == 0) {
        lose(play, number);
    } else if (strcmp(what, "orphan") == 0) {
        tell_orphan(play, number);
    } else if (strcmp(what, "abort") == 0) {
        tell_abort(play, number);
    } else if (strcmp(what, "beat") == 0) {
        tell_beat(play, number);
    } else if (strcmp(what, "end") == 0) {
        tell_end(play, number, more);
    } else if (strcmp(what, "stopped") == 0) {
        play->links[number]->stopped = BEGIN;
    } else if (strcmp(what, "goes-on") == 0) {
        play->links[number]->stopped = 0;
    } else if (strcmp(what, "starter") == 0) {
        play->job.launcher.process.has_ended = true;
        play->job.launcher.process.status = number << 8;
    } else if (strcmp(what, "signal") == 0) {
        flow_signal(&play->job, number);
    } else if (strcmp(what, "notice") == 0) {
        flow_notice(&play->job, TUTTI_NOTICE_HOSTS);
    } else {
        fail_msg("nobody knows what '%s' is", what);
    }
}

/* Time goes by, and tuttirun looks; false: it is something else. */
static bool act_time(struct play *play, const char *what, int number, const char *more)
{
    if (strcmp(what, "look") == 0) {
        look(play);
    } else if (strcmp(what, "go") == 0) {
        go_to(play, number);
    } else if (strcmp(what, "skip") == 0) {
        play->job.now += number * JOB_NS_PER_MS;
    } else if (strcmp(what, "step") == 0) {
        flow_step(&play->job);
    } else if (strcmp(what, "late") == 0) {
        come_late(play, number);
    } else if (strcmp(what, "beats") == 0) {
        beat_until(play, number, (int)strtol(more, NULL, 10));
    } else if (strcmp(what, "suspect") == 0) {
        flow_suspect(&play->job);
    } else {
        return false;
    }
    return true;
}

/* How the job is; false: it is something else. */
static bool set(struct play *play, const char *what, int number)
{
    static const struct job_hooks hooks = { .generation = 1 };
    char own_name[64] = "";

    if (strcmp(what, "patient") == 0) {
        wait_long_for_silent(play);
    } else if (strcmp(what, "grace") == 0) {
        play->options.grace_ms = number;
    } else if (strcmp(what, "elastic") == 0) {
        play->job.hooks = &hooks;
    } else if (strcmp(what, "here") == 0) {
        assert_int_equal(gethostname(own_name, sizeof own_name - 1), 0);
        mem_free(play->job.ranks.items[number].host);
        play->job.ranks.items[number].host = mem_strdup(own_name);
    } else {
        return false;
    }
    return true;
}

static void act(struct play *play, const char *text, char *out)
{
    char what[16] = "";
    char more[64] = "";
    int number = 0;

    if (sscanf(text, "all %63s", more) == 1) {
        for (int rank = 0; rank < RANKS; rank++) {
            tell_end(play, rank, more);
        }
        look(play);
        go_to(play, 1000);
        return;
    }
    (void)sscanf(text, "%15s %d %63s", what, &number, more);
    if (strcmp(what, "told") == 0) {
        show_told(play, out);
    } else if (strcmp(what, "state") == 0) {
        show_state(&play->job, out);
        (void)strcat(out, "; ");
    } else if (strcmp(what, "stop-at") == 0) {
        (void)sprintf(
                out, "%d; ", (int)((play->job.due.stop_at - BEGIN) / JOB_NS_PER_MS));
    } else if (!set(play, what, number) && !act_time(play, what, number, more)) {
        act_one(play, what, number, more);
    }
}

UNIT_CASES(test_plays, "plays")
{
    char *fields[CASES_FIELDS];
    struct play play;

    open_play(&play);
    (void)cases_fields(in, fields);
    for (size_t i = 0; fields[i] != NULL; i++) {
        act(&play, fields[i], out + strlen(out));
    }
    show_state(&play.job, out + strlen(out));
    (void)sprintf(out + strlen(out), "%s%s (%d)",
            play.job.was_released ? ", released" : "",
            play.job.ranks.items[3].leaves ? ", leaves" : "",
            play.job.cause.exit_status);
    close_play(&play);
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
