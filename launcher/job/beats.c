/*
 * Heartbeats: one to each supervisor and one back, every beat_ms; and what is done when they
 * do not come. A crowded machine, a program in a debugger, or a machine that is moved may be silent for
 * seconds: so silence is reported soon and may be taken back, and it ends the
 * job only when it lasts for --heartbeat-timeout.
 */
#include <stdio.h>
#include <string.h>

#include "launcher/job/flow.h"
#include "launcher/job/report.h"

/* What has changed within one look. */
struct news {
    int hosts; /* whose doubt has changed                 */
    char doubt[512]; /* the last sentence of a doubt; "": there is none */
};

enum {
    ENDING_MS = 1000, /* at most, to send the others the cause, and for their end */
    LATE_BEATS = 2, /* that may be late without harm                           */
    LATE_MS = 500, /* so late tuttirun has stood still, and the others may not */
    PER_SECOND = 2000, /* at most, of all supervisors: 4 % of a core            */
    IN_TIMEOUT = 4, /* but so many of one within --heartbeat-timeout          */
    NEWS_MAX = 8 /* hosts that are named at once                           */
};

int beats_interval_ms(const struct options *options)
{
    const int wide_ms = (int)((int64_t)options->np * 1000 / PER_SECOND);
    const int most_ms = options->heartbeat_timeout_ms / IN_TIMEOUT < LINK_BEAT_MS_MAX
            ? options->heartbeat_timeout_ms / IN_TIMEOUT
            : LINK_BEAT_MS_MAX;
    const int ms = wide_ms < most_ms ? wide_ms : most_ms;

    return ms > options->heartbeat_ms ? ms : options->heartbeat_ms;
}

/*
 * How long a rank may be silent before it is lost. --heartbeat-timeout is when the job
 * is over, so a fifth of it, at most a second, is kept for the others. Before its program
 * runs a supervisor may be reading a large host, which has the time of the start.
 */
static int64_t patience(const struct job *job, const struct server_link *link)
{
    const int silent_ms = job->options->heartbeat_timeout_ms;
    const int ending_ms = silent_ms / 5 < ENDING_MS ? silent_ms / 5 : ENDING_MS;
    int64_t ms = link->rank >= 0 && job->ranks.items[link->rank].state == RANK_JOINED &&
                    job->options->start_timeout_ms > silent_ms
            ? job->options->start_timeout_ms
            : silent_ms - ending_ms;

    return ms * JOB_NS_PER_MS;
}

static double patience_s(const struct job *job, const struct server_link *link)
{
    return (double)patience(job, link) / 1000.0 / JOB_NS_PER_MS;
}

static void send_beats(struct job *job)
{
    for (size_t i = 0; i < job->server.count; i++) {
        struct server_link *link = job->server.links[i];

        if (!session_is_lost(&link->session) && link->rank >= 0) {
            flow_send_beat(job, link);
        }
    }
}

static int64_t no_later(int64_t time, int64_t now)
{
    return time < now ? time : now;
}

/* Time during which tuttirun itself did not run is no silence of a rank. */
static void forgive(struct job *job, int64_t ns)
{
    for (size_t i = 0; i < job->server.count; i++) {
        struct server_link *link = job->server.links[i];

        link->heard = no_later(link->heard + ns, job->now);
        if (link->stopped != 0) {
            link->stopped = no_later(link->stopped + ns, job->now);
        }
    }
}

static bool is_silent(
        const struct job *job, const struct server_link *link, int less_ms)
{
    return !session_is_lost(&link->session) && link->rank >= 0 &&
            !link->session.is_paused &&
            job->now - link->heard >= patience(job, link) - less_ms * JOB_NS_PER_MS;
}

/*
 * A supervisor is silent. When all of its host are, or are about to be, the host is what
 * is silent.
 */
static void lose_host(struct job *job, const struct server_link *silent)
{
    const char *host = ranks_host(&job->ranks, silent->rank);
    int slack_ms = 2 * job->beats.interval_ms;
    char detail[512];
    bool all = true;

    for (size_t i = 0; i < job->server.count; i++) {
        const struct server_link *link = job->server.links[i];

        if (!session_is_lost(&link->session) && link->rank >= 0 &&
                strcmp(ranks_host(&job->ranks, link->rank), host) == 0) {
            all = all && is_silent(job, link, slack_ms);
        }
    }
    (void)snprintf(detail, sizeof detail,
            all ? "host %s was not heard for %.1f s; the network was cut, or the host "
                  "or its supervisors stopped"
                : "its supervisor on host %s was not heard for %.1f s; it was stopped "
                  "or gets no time",
            host, patience_s(job, silent));
    for (size_t i = 0; i < job->server.count; i++) {
        struct server_link *link = job->server.links[i];

        if (is_silent(job, link, all ? slack_ms : 0) &&
                strcmp(ranks_host(&job->ranks, link->rank), host) == 0) {
            flow_lose(job, link, RANK_END_SILENT, detail);
        }
    }
}

static void look_for_stopped(struct job *job, const struct server_link *link)
{
    char detail[128];

    if (link->stopped == 0 || link->has_exited ||
            job->now - link->stopped < patience(job, link)) {
        return;
    }
    (void)snprintf(detail, sizeof detail,
            "by SIGSTOP or a terminal's SIGTTIN or SIGTTOU, for %.1f s",
            patience_s(job, link));
    ranks_lose(&job->ranks, link->rank, RANK_END_STUCK, link->stopped, detail);
    flow_suspect(job);
}

/* What a rank is suspected of; so many `beats` may be late without harm. */
static enum doubt doubt_of(
        const struct job *job, const struct server_link *link, int beats)
{
    const int64_t ms = LINK_SUSPECT_MS + (int64_t)beats * job->beats.interval_ms;
    const int64_t since = job->now - ms * JOB_NS_PER_MS;

    if (session_is_lost(&link->session) || link->rank < 0 || link->has_exited ||
            job->ranks.items[link->rank].state != RANK_RUNNING) {
        return DOUBT_NONE;
    }
    if (link->heard <= since) {
        return DOUBT_SILENT;
    }
    return link->stopped != 0 && link->stopped <= since ? DOUBT_STOPPED : DOUBT_NONE;
}

/* Takes over a doubt, or its end, of all ranks of the host that it is true for. */
static int change_doubts(
        struct job *job, const char *host, enum doubt old, enum doubt doubt)
{
    const int beats = doubt == DOUBT_NONE ? LATE_BEATS : 0; /* about to be, as well */
    int count = 0;

    for (size_t i = 0; i < job->server.count; i++) {
        struct server_link *link = job->server.links[i];

        if (link->rank >= 0 && link->doubt == old &&
                doubt_of(job, link, beats) == doubt &&
                strcmp(ranks_host(&job->ranks, link->rank), host) == 0) {
            link->doubt = doubt;
            link->doubt_since = doubt == DOUBT_STOPPED ? link->stopped : link->heard;
            count++;
        }
    }
    return count;
}

static bool any_doubt(const struct job *job)
{
    for (size_t i = 0; i < job->server.count; i++) {
        if (job->server.links[i]->doubt != DOUBT_NONE) {
            return true;
        }
    }
    return false;
}

static const char *doubt_words(enum doubt old, enum doubt doubt)
{
    switch (doubt) {
    case DOUBT_SILENT:
        return "is silent: its supervisor was not heard for";
    case DOUBT_STOPPED:
        return "is stopped, by SIGSTOP or a terminal's SIGTTIN or SIGTTOU, for";
    case DOUBT_NONE:
        break;
    }
    return old == DOUBT_SILENT ? "is heard again, after" : "runs again, after";
}

/* Says what has changed, once for all ranks of a host. */
static void report_doubt(
        struct job *job, struct server_link *link, enum doubt doubt, struct news *news)
{
    const char *host = ranks_host(&job->ranks, link->rank);
    const enum doubt old = link->doubt;
    const int64_t ended = link->doubt_since;
    const int others = change_doubts(job, host, old, doubt) - 1;
    const bool is_over = doubt == DOUBT_NONE;
    char more[64] = "";
    char limit[96] = "";
    char took[32];
    char text[512];

    exit_text_duration(
            job->now - (is_over ? ended : link->doubt_since), took, sizeof took);
    if (others > 0) {
        (void)snprintf(more, sizeof more, " (and %d more there)", others);
    }
    if (!is_over) {
        (void)snprintf(limit, sizeof limit,
                "; the job ends after %g s of that (--heartbeat-timeout)",
                job->options->heartbeat_timeout_ms / 1000.0);
    }
    (void)snprintf(text, sizeof text, "rank %d on host %s%s %s %s%s", link->rank, host,
            more, doubt_words(old, doubt), took, limit);
    if (++news->hosts <= NEWS_MAX) {
        console_print(&job->console, "tuttirun", "%s", text);
    }
    if (!is_over) {
        (void)snprintf(news->doubt, sizeof news->doubt, "%s", text);
    }
}

/* To each rank once, however many hosts are silent. */
static void send_news(struct job *job, const struct news *news)
{
    if (news->hosts > NEWS_MAX) {
        console_print(&job->console, "tuttirun", "the same of %d more hosts",
                news->hosts - NEWS_MAX);
    }
    if (news->hosts > 0 && (news->doubt[0] != '\0' || !any_doubt(job))) {
        flow_send_all(job,
                &(struct link_message){ .type = LINK_SUSPICION,
                        .suspicion = link_text_of(news->doubt) });
    }
}

static void look_for_doubt(struct job *job, struct server_link *link, struct news *news)
{
    const enum doubt doubt = doubt_of(job, link, LATE_BEATS);

    if (doubt == link->doubt) {
        return;
    }
    if (job->cause.kind == CAUSE_NONE && job->due.settle_at == 0 &&
            !session_is_lost(&link->session) && !link->has_exited) {
        report_doubt(job, link, doubt, news);
    } else {
        link->doubt = doubt; /* more is known of it */
    }
}

static void look_at(struct job *job, struct server_link *link, struct news *news)
{
    if (link->session.is_paused) {
        link->heard = job->now;
    }
    if (link->rank < 0) {
        return;
    }
    if (is_silent(job, link, 0)) {
        lose_host(job, link);
    } else {
        look_for_stopped(job, link);
        look_for_doubt(job, link, news);
    }
}

static void look_for_silence(struct job *job)
{
    struct news news = { .hosts = 0 };

    for (size_t i = 0; i < job->server.count; i++) {
        if (!session_is_lost(&job->server.links[i]->session)) {
            look_at(job, job->server.links[i], &news);
        }
    }
    send_news(job, &news);
}

void beats_step(struct job *job)
{
    const int64_t beat = job->beats.interval_ms * JOB_NS_PER_MS;
    const int64_t late = job->beats.next == 0 ? 0 : job->now - job->beats.next;

    if (late < 0) {
        return;
    }
    if (late > LATE_MS * JOB_NS_PER_MS) {
        forgive(job, late);
    }
    if (late > job->options->heartbeat_timeout_ms * JOB_NS_PER_MS / 2) {
        job->beats.slept_ns = late + beat; /* since the last one */
        job->beats.woke = job->now;
    } else if (job->now - job->beats.woke >
            job->options->heartbeat_timeout_ms * JOB_NS_PER_MS) {
        job->beats.slept_ns =
                0; /* a supervisor that took us for lost has ended by now */
    }
    send_beats(job);
    look_for_silence(job);
    job->beats.next = job->now + beat;
}
