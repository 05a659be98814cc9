/*
 * Finds slow links between hosts. Each rank has recorded how long large messages from each other rank take,
 * relative to the link's measurement at the start (ops/p2p/meter.c). A link is compared with the other
 * links, if there are any, else with the start. If all links of a host are slow, in one direction or both,
 * the host is named instead.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "tools/recordings/job.h"

enum {
    HOSTS_MAX = 1024,
    NAMES_BYTES = 768 /* of the names of links */
};

/* A link is slow if it is slower than the first quartile of all links by this factor. */
#define SLOW_TIMES 4.0
/* Lower bound of that quartile, so that fast links are not compared with each other. */
#define BEST_SLOWNESS 0.75
/* All links are slow if that quartile is slower than at the start by this factor. */
#define ALL_TIMES 5.0

/* From one host to another. */
struct path {
    size_t from, to; /* indices of hosts                                      */
    double slowness; /* of the ranks there that is least; 0: nothing has come */
    double mbs; /* of that one                                               */
};

struct network {
    const struct recording_of **hosts; /* [count] owned; a rank of each          */
    size_t *host_of; /* [recordings] owned                                      */
    size_t count;
    struct path
            *paths; /* [count][count] owned; at last those that are known, in order */
    size_t known; /* paths on which something came                            */
};

static bool find_hosts(struct network *network, const struct recorded_job *job)
{
    network->hosts = mem_calloc(job->count + 1, sizeof *network->hosts);
    network->host_of = mem_calloc(job->count + 1, sizeof *network->host_of);
    if (network->hosts == NULL || network->host_of == NULL) {
        return false;
    }
    for (size_t r = 0; r < job->count; r++) {
        size_t host = 0;

        while (host < network->count &&
                strcmp(network->hosts[host]->host, job->ranks[r].host) != 0) {
            host++;
        }
        network->host_of[r] = host;
        network->hosts[host] = &job->ranks[r];
        network->count = host == network->count ? host + 1 : network->count;
    }
    return network->count > 1 && network->count <= HOSTS_MAX;
}

/* What came from a rank to another one. */
static void add_link(struct path *path, const struct recorded_link *link)
{
    if (link->slowness > 0 &&
            (path->slowness == 0 || link->slowness < path->slowness)) {
        path->slowness = link->slowness;
        path->mbs = link->mbs;
    }
}

static int compare_paths(const void *a, const void *b)
{
    const struct path *x = a;
    const struct path *y = b;

    return x->slowness < y->slowness ? -1 : x->slowness > y->slowness;
}

static bool find_paths(struct network *network, const struct recorded_job *job)
{
    const size_t count = network->count;
    size_t known = 0;

    network->paths = mem_calloc(count * count, sizeof *network->paths);
    if (network->paths == NULL) {
        return false;
    }
    for (size_t r = 0; r < job->count; r++) {
        for (size_t s = 0; s < job->count && job->ranks[r].links != NULL; s++) {
            add_link(&network->paths[network->host_of[s] * count + network->host_of[r]],
                    &job->ranks[r].links[job->ranks[s].rank]);
        }
    }
    for (size_t i = 0; i < count * count; i++) {
        struct path path = network->paths[i];

        path.from = i / count;
        path.to = i % count;
        if (path.from != path.to && path.slowness > 0) {
            network->paths[known++] = path;
        }
    }
    qsort(network->paths, known, sizeof *network->paths, compare_paths);
    network->known = known;
    return known > 0;
}

/* Of the paths from `first` on, how many begin at a host, and how many end there. */
struct ends {
    size_t from, to;
};

static struct ends ends_at(const struct network *network, size_t first, size_t host)
{
    struct ends ends = { .from = 0 };

    for (size_t i = first; i < network->known; i++) {
        ends.from += network->paths[i].from == host;
        ends.to += network->paths[i].to == host;
    }
    return ends;
}

/* "the links from host b": what the paths from `first` on have in common. */
static void name_paths(
        const struct network *network, size_t first, char *text, size_t capacity)
{
    const struct path *worst = &network->paths[network->known - 1];
    const size_t slow = network->known - first;
    const size_t others = network->count - 1;

    for (size_t h = 0; h < network->count && others > 1; h++) {
        const struct ends ends = ends_at(network, first, h);
        const char *which = ends.from == slow && slow == others ? "from"
                : ends.to == slow && slow == others             ? "to"
                : ends.from + ends.to == slow && slow > others  ? "of"
                                                                : NULL;

        if (which != NULL) {
            (void)snprintf(text, capacity, "the links %s host %s carry", which,
                    network->hosts[h]->host);
            return;
        }
    }
    if (slow > 1) {
        (void)snprintf(text, capacity,
                "%zu links between hosts are slow; the slowest, from host %s to host "
                "%s, carries",
                slow, network->hosts[worst->from]->host,
                network->hosts[worst->to]->host);
    } else {
        (void)snprintf(text, capacity, "the link from host %s to host %s carries",
                network->hosts[worst->from]->host, network->hosts[worst->to]->host);
    }
}

/* Three digits, and no exponent. */
static const char *rate_text(double mbs, char text[32])
{
    (void)snprintf(text, 32, "%.*f", mbs < 10 ? 2 : mbs < 100 ? 1 : 0, mbs);
    return text;
}

static bool describe(const struct network *network, const struct recorded_job *job,
        char *text, size_t capacity)
{
    const struct path *paths = network->paths;
    const struct path *best = &paths[network->known / 4];
    const double bar = SLOW_TIMES *
            (best->slowness > BEST_SLOWNESS ? best->slowness : BEST_SLOWNESS);
    /* Ranks of a host share its link, to all other hosts. */
    const double share =
            (double)job->size / (double)network->count * (double)(network->count - 1);
    size_t first = 0;
    char names[NAMES_BYTES];
    char mbs[32];
    char others[32];

    if (best->slowness > ALL_TIMES * share) {
        (void)snprintf(text, capacity,
                "the links between hosts carry %s MB/s, and %s at the start",
                rate_text(best->mbs, mbs), rate_text(job->ranks[0].link_mbs, others));
        return true;
    }
    while (first < network->known && paths[first].slowness <= bar) {
        first++;
    }
    if (first == network->known) {
        return false;
    }
    name_paths(network, first, names, sizeof names);
    (void)snprintf(text, capacity, "%s %s MB/s, others %s", names,
            rate_text(paths[network->known - 1].mbs, mbs),
            rate_text(paths[first / 2].mbs, others));
    return true;
}

bool links_text(const struct recorded_job *job, char *text, size_t capacity)
{
    struct network network = { .count = 0 };
    const bool is_slow = find_hosts(&network, job) && find_paths(&network, job) &&
            describe(&network, job, text, capacity);

    mem_free(network.hosts);
    mem_free(network.host_of);
    mem_free(network.paths);
    return is_slow;
}
