/*
 * Supervisors that are connected to each other, as tuttirun sees them.
 */
#include "launcher/job/job_tree.h"

#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

enum {
    HASH_PRIME = 16777619
};

int job_tree_fan_out(const struct job *job)
{
    const size_t hosts = job->plan->placement->hosts.count;
    const int fan_out = job->options->fan_out;

    /* Where srun finds the hosts, they are no more than ranks. */
    return (hosts == 0 ? (size_t)job->plan->options->np : hosts) > (size_t)fan_out
            ? fan_out
            : 0;
}

struct server_link *job_tree_carrier(struct server_link *link)
{
    while (link != NULL && link->is_below) {
        link = link->is_awaited ? NULL : link->above;
    }
    return link == NULL || session_is_lost(&link->session) ? NULL : link;
}

int64_t job_tree_heard(const struct job *job, const struct server_link *link)
{
    int64_t heard = job->now;

    for (; link->is_below; link = link->above) {
        if (link->quiet != 0 && link->quiet < heard) {
            heard = link->quiet;
        }
        if (link->is_awaited) {
            return heard;
        }
    }
    return link->heard < heard ? link->heard : heard;
}

struct server_link *job_tree_put(
        struct server_link *link, int rank, const struct link_message *message)
{
    static const struct link_clock none = { .doubt_ns = UINT64_MAX };
    struct server_link *carrier = job_tree_carrier(link);
    struct wire_writer frame = { .data = NULL };

    if (carrier == NULL) {
        return NULL;
    }
    link_put(&frame, message);
    carrier->session.out.failed |= frame.failed;
    if (!frame.failed) {
        link_put_relayed(&carrier->session.out, rank, 0, &none, frame.data, frame.len);
    }
    wire_writer_fini(&frame);
    return carrier;
}

/* Hosts of the same number may be two, which does no harm. */
static int number_of(struct link_text host)
{
    uint32_t hash = 0;

    for (size_t i = 0; i < host.len; i++) {
        hash = (hash ^ (unsigned char)host.text[i]) * (uint32_t)HASH_PRIME;
    }
    return (int)(hash >> 1);
}

/* Where a supervisor that has called can be called, as seen from here. */
static void note_address(struct server_link *link)
{
    static const char mapped[] = "::ffff:";
    struct sockaddr_storage peer;
    socklen_t len = sizeof peer;
    char name[LINK_ADDRESS_MAX];
    bool is_mapped;

    if (getpeername(link->session.fd, (struct sockaddr *)&peer, &len) != 0 ||
            getnameinfo((struct sockaddr *)&peer, len, name, sizeof name, NULL, 0,
                    NI_NUMERICHOST) != 0) {
        link->port = 0;
        return;
    }
    is_mapped =
            strncmp(name, mapped, sizeof mapped - 1) == 0 && strchr(name, '.') != NULL;
    (void)snprintf(link->address, sizeof link->address, "%s",
            name + (is_mapped ? sizeof mapped - 1 : 0));
}

struct server_link *job_tree_join(struct job *job, struct server_link *link,
        const struct link_hello *hello, char relay[JOB_TREE_RELAY_MAX])
{
    const int rank = hello->rank;
    struct server_link *known = job->of_rank[rank];
    int avoid = TREE_NONE;
    int above;

    relay[0] = '\0';
    if (known != NULL) {
        if (job_tree_is_lost(known) || known->pid != hello->pid ||
                !server_move(known, link)) {
            return NULL;
        }
        known->has_returned = true;
        link = known;
        avoid = job->tree.nodes[rank].above;
    }
    job->of_rank[rank] = link;
    link->rank = rank;
    link->pid = hello->pid;
    link->port = (uint16_t)hello->port;
    note_address(link);
    above = tree_place(
            &job->tree, rank, number_of(hello->host), link->port != 0, avoid);
    link->above = above < 0 ? NULL : job->of_rank[above];
    link->is_below = above >= 0;
    link->is_awaited = above >= 0;
    link->quiet = above >= 0 ? job->now : 0;
    if (above >= 0) {
        (void)snprintf(relay, JOB_TREE_RELAY_MAX, "%s %u", link->above->address,
                link->above->port);
    }
    return link;
}

void job_tree_leave(struct job *job, struct server_link *link)
{
    if (job->tree.fan_out == 0 || link->rank < 0) {
        return;
    }
    tree_remove(&job->tree, link->rank);
    link->is_below = false;
    for (size_t i = 0; i < job->server.count; i++) {
        struct server_link *child = job->server.links[i];

        if (child->is_below && child->above == link && !child->is_awaited) {
            child->is_awaited = true;
            child->quiet = job->now;
        }
    }
}
