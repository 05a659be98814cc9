/*
 * Heartbeats: one to each supervisor and one back, every beat_ms; and what it means when
 * they do not come.
 */
#include <stdio.h>
#include <string.h>

#include "launcher/job/flow.h"

/*
 * How long nothing is heard of a rank before it is lost. --heartbeat-timeout is when the job
 * is over, so a fifth of it is kept for the others to hear why, and to end. Before its
 * program runs a supervisor may be reading a large host, which has the time of the start.
 */
static int64_t patience(const struct job *job, const struct server_link *link)
{
    int64_t ms = link->rank >= 0 && job->ranks.items[link->rank].state == RANK_JOINED &&
                    job->options->start_ms > job->options->silent_ms
            ? job->options->start_ms
            : job->options->silent_ms - job->options->silent_ms / 5;

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
        struct link_beat beat = {
            .sent = (uint64_t)job->now,
            .echo = link->last_sent,
            .held = link->last_sent == 0 ? 0 : (uint64_t)(job->now - link->last_came),
        };

        if (link->fd >= 0 && link->rank >= 0) {
            link_put_beat(&link->out, &beat);
            flow_send(job, link);
        }
    }
}

/* Time during which tuttirun itself did not run says nothing about anyone. */
static void forgive(struct job *job)
{
    for (size_t i = 0; i < job->server.count; i++) {
        job->server.links[i]->heard = job->now;
        job->server.links[i]->opened = job->now;
        if (job->server.links[i]->stopped != 0) {
            job->server.links[i]->stopped = job->now;
        }
    }
}

static bool is_silent(
        const struct job *job, const struct server_link *link, int less_ms)
{
    return link->fd >= 0 && link->rank >= 0 && !link->is_parked &&
            job->now - link->heard >= patience(job, link) - less_ms * JOB_NS_PER_MS;
}

/*
 * A supervisor is silent. When all of its host are, or are about to be, the host is what
 * is silent.
 */
static void lose_host(struct job *job, const struct server_link *silent)
{
    const char *host = ranks_host(&job->ranks, silent->rank);
    int slack_ms = 2 * job->options->beat_ms;
    char detail[512];
    bool all = true;

    for (size_t i = 0; i < job->server.count; i++) {
        const struct server_link *link = job->server.links[i];

        if (link->fd >= 0 && link->rank >= 0 &&
                strcmp(ranks_host(&job->ranks, link->rank), host) == 0) {
            all = all && is_silent(job, link, slack_ms);
        }
    }
    (void)snprintf(detail, sizeof detail,
            all ? "host %s was not heard for %.1f s; the network was cut, or the host "
                  "or "
                  "its supervisors stopped"
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

/* A connection that has not said in time whose it is, is nobody's. */
static void look_at_stranger(const struct job *job, struct server_link *link)
{
    if (job->now - link->opened > SERVER_STRANGER_MS * JOB_NS_PER_MS) {
        server_close(link);
    }
}

static void look_at(struct job *job, struct server_link *link)
{
    if (link->is_parked) {
        link->heard = job->now;
    }
    if (link->rank < 0) {
        look_at_stranger(job, link);
    } else if (is_silent(job, link, 0)) {
        lose_host(job, link);
    } else {
        look_for_stopped(job, link);
    }
}

static void look_for_silence(struct job *job)
{
    for (size_t i = 0; i < job->server.count; i++) {
        if (job->server.links[i]->fd >= 0) {
            look_at(job, job->server.links[i]);
        }
    }
}

void beats_step(struct job *job)
{
    int64_t beat = job->options->beat_ms * JOB_NS_PER_MS;

    if (job->now < job->next_beat) {
        return;
    }
    if (job->next_beat != 0 &&
            job->now - job->next_beat > job->options->silent_ms * JOB_NS_PER_MS / 2) {
        job->slept_ns = job->now - (job->next_beat - beat); /* since the last one */
        job->woke = job->now;
        forgive(job);
    } else if (job->now - job->woke > job->options->silent_ms * JOB_NS_PER_MS) {
        job->slept_ns = 0; /* whoever did not hear us would be gone by now */
    }
    send_beats(job);
    look_for_silence(job);
    job->next_beat = job->now + beat;
}
