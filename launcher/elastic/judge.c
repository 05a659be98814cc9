#include "launcher/elastic/judge.h"

#include <stdio.h>
#include <strings.h>

#include "trainer/elastic/control.h"

static bool any_leaves(const struct ranks *ranks)
{
    for (int i = 0; i < ranks->count; i++) {
        if (ranks->items[i].leaves) {
            return true;
        }
    }
    return false;
}

/* A program that cannot be run will not run the next time. */
static bool could_run(const struct judge_facts *facts)
{
    const int rank = facts->cause->rank;

    return rank < 0 || facts->ranks->items[rank].end != RANK_END_EXEC;
}

enum judge_verdict judge_end(const struct judge_facts *facts)
{
    switch (facts->cause->kind) {
    case CAUSE_NONE:
        return any_leaves(facts->ranks) ? JUDGE_LEFT : JUDGE_FINISHED;
    case CAUSE_RANK:
    case CAUSE_MPI_LAUNCHER:
    case CAUSE_START:
        return could_run(facts) ? JUDGE_FAILED : JUDGE_FATAL;
    case CAUSE_TIMEOUT:
    case CAUSE_SIGNAL:
    case CAUSE_OUTPUT:
    case CAUSE_LAUNCHER:
        break;
    }
    return JUDGE_FATAL;
}

bool judge_names(const char *line, const char *host)
{
    char name[HOST_NAME_LIMIT];

    return (sscanf(line, "ssh: connect to host %255s", name) == 1 ||
                   sscanf(line, "ssh: Could not resolve hostname %255[^ :]", name) ==
                           1) &&
            strcasecmp(name, host) == 0;
}

static bool has_committed(const struct judge_facts *facts)
{
    for (int i = 0; i < facts->ranks->count; i++) {
        if (elastic_generation(facts->ranks->items[i].committed) == facts->generation) {
            return true;
        }
    }
    return false;
}

/* The host of a rank: MPI launchers fill slots in the order of the list. */
static const char *host_of(const struct judge_facts *facts, int rank)
{
    for (size_t i = 0; i < facts->hosts->count; i++) {
        if (rank < facts->hosts->hosts[i].slots) {
            return facts->hosts->hosts[i].name;
        }
        rank -= facts->hosts->hosts[i].slots;
    }
    return "";
}

/* What a rank's end says of its host. */
static void blame_rank(
        const struct judge_facts *facts, int rank, struct members *members, int64_t now)
{
    const char *host = host_of(facts, rank);
    const int index = members_find(members, host);
    const char *why = "its ranks fail again and again";
    bool is_aside = false;

    if (index < 0) {
        return;
    }
    if (facts->ranks->items[rank].end == RANK_END_SILENT) {
        why = "it is silent";
        members_put_aside(members, (size_t)index, now);
        is_aside = true;
    } else {
        is_aside = members_fail(members, (size_t)index, now);
    }
    if (is_aside) {
        (void)fprintf(stderr, "tuttirun: host %s is left out%s: %s\n",
                host[0] == '\0' ? "of ours" : host,
                members->cooldown[0] == 0 ? "" : " for a while", why);
    }
}

/* Hosts where ranks are missing: those that the MPI launcher complains of, or else all of them. */
static void blame_absent(
        const struct judge_facts *facts, struct members *members, int64_t now)
{
    const char *last = NULL;
    bool any_named = false;

    for (int i = 0; i < facts->ranks->count; i++) {
        any_named |= facts->names(facts->context, host_of(facts, i));
    }
    for (int i = 0; i < facts->ranks->count; i++) {
        const char *host = host_of(facts, i);
        const int index = members_find(members, host);

        if (!rank_is_absent(&facts->ranks->items[i]) || host == last || index < 0 ||
                (any_named && !facts->names(facts->context, host))) {
            continue;
        }
        last = host;
        if (any_named) {
            members_put_aside(members, (size_t)index, now);
            (void)fprintf(stderr,
                    "tuttirun: host %s is left out%s: it is not reached\n", host,
                    members->cooldown[0] == 0 ? "" : " for a while");
        } else {
            (void)members_fail(members, (size_t)index, now);
        }
    }
}

void judge_hosts(const struct judge_facts *facts, struct members *members, int64_t now)
{
    const int rank = facts->cause->rank >= 0 ? facts->cause->rank : facts->orphan;

    if (has_committed(facts)) {
        members_forget_failures(members);
    }
    if (rank >= 0) {
        blame_rank(facts, rank, members, now);
    } else if (facts->ranks->joined < facts->ranks->count) {
        blame_absent(facts, members, now);
    }
}
