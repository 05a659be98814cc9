/*
 * What relays say of those below, and what comes over them.
 */
#include "launcher/job/tree_events.h"

#include "launcher/job/job_tree.h"

enum {
    ACKNOWLEDGE_BYTES = 1 << 18 /* of a rank that came, until it is told */
};

static struct server_link *link_of(const struct job *job, int rank)
{
    return job->of_rank != NULL && rank >= 0 && rank < job->tree.count
            ? job->of_rank[rank]
            : NULL;
}

static bool is_carried(struct server_link *link, const struct server_link *carrier)
{
    return link != NULL && link->is_below && job_tree_carrier(link) == carrier;
}

void tree_events_absences(
        struct job *job, struct server_link *carrier, struct link_text below)
{
    struct wire_reader in;
    struct link_absence absence;

    if (below.len == 0 && !carrier->has_absences) {
        return;
    }
    carrier->has_absences = below.len > 0;
    for (size_t i = 0; i < job->server.count; i++) {
        struct server_link *link = job->server.links[i];

        if (is_carried(link, carrier)) {
            link->quiet = 0;
            link->state = 0;
        }
    }
    wire_reader_init(&in, below.text, below.len);
    while (link_get_absence(&in, &absence)) {
        struct server_link *link = link_of(job, absence.rank);

        if (is_carried(link, carrier)) {
            link->quiet = absence.silent_ms > 0
                    ? job->now - absence.silent_ms * JOB_NS_PER_MS
                    : 0;
            link->state = absence.state;
        }
    }
    for (size_t i = 0; i < job->server.count; i++) {
        struct server_link *link = job->server.links[i];

        if (is_carried(link, carrier)) {
            flow_note_state(job, link, link->state);
        }
    }
}

static void tell_received(struct job *job, struct server_link *link, bool again)
{
    const struct link_message message = {
        .type = LINK_RESUME,
        .resume = { .position = link->received, .again = again },
    };

    link->acknowledged = link->received;
    flow_send(job, link, &message);
}

struct server_link *tree_events_open(
        struct job *job, const struct link_relayed *relayed)
{
    const struct link_clock *clock = &relayed->clock;
    struct server_link *link = link_of(job, relayed->rank);

    /* What came before comes again when a place was lost; what is missing will. */
    if (link == NULL || job_tree_is_lost(link) || relayed->position != link->received) {
        return NULL;
    }
    link->received += relayed->frame.len + FRAME_LENGTH_BYTES;
    if (clock->doubt_ns != UINT64_MAX) {
        link->offset = (struct offset){
            .is_known = true,
            .ahead_ns = clock->ahead_ns,
            .trip_ns = (int64_t)(clock->doubt_ns * 2),
            .measured = job->now,
        };
    }
    if (link->received - link->acknowledged >= ACKNOWLEDGE_BYTES) {
        tell_received(job, link, false);
    }
    return link;
}

static bool is_at_or_below(
        const struct server_link *link, const struct server_link *root)
{
    while (link != root && link->is_below) {
        link = link->above;
    }
    return link == root;
}

void tree_events_welcome_back(struct job *job, struct server_link *link)
{
    const bool has_returned = link->has_returned;

    link->has_returned = false;
    for (int i = 0; i < job->tree.count; i++) {
        struct server_link *one = job->of_rank[i];

        if (one == NULL || one->rank < 0 || !is_at_or_below(one, link)) {
            continue;
        }
        if (has_returned) {
            tell_received(job, one, true);
        }
        flow_catch_up(job, one);
    }
}

void tree_events_child(
        struct job *job, struct server_link *relay, const struct link_child *child)
{
    struct server_link *link = link_of(job, child->rank);
    int64_t doubt;

    if (link == NULL || !link->is_below || link->above != relay) {
        return; /* it has another place by now */
    }
    if (child->is_here) {
        link->is_awaited = false;
        link->quiet = 0;
        if (link->has_returned || job->state == JOB_STOPPING) {
            tree_events_welcome_back(job, link);
        }
    } else if (!link->is_awaited) {
        link->hung_up = offset_ours(&relay->offset, child->time, job->now, &doubt);
        flow_lose(job, link, RANK_END_LOST,
                "the connection to its supervisor ended; it was killed, or its host "
                "went down");
    }
}
