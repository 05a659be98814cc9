#include "launcher/elastic/members.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "trainer/elastic/control.h"

enum {
    DOUBLINGS_MAX = 30
};

void members_fini(struct members *members)
{
    mem_free(members->items);
    members->items = NULL;
    members->count = 0;
}

bool members_read_cooldown(const char *text, int64_t range[2])
{
    static const double most_s = 1e9;
    char *rest;
    const double least = strtod(text, &rest);
    double greatest;

    if (rest == text || *rest != ',') {
        return false;
    }
    text = rest + 1;
    greatest = strtod(text, &rest);
    if (rest == text || *rest != '\0' || !(least > 0) || !(greatest >= least) ||
            greatest > most_s) {
        return false;
    }
    range[0] = (int64_t)(least * 1e9);
    range[1] = (int64_t)(greatest * 1e9);
    return true;
}

int members_find(const struct members *members, const char *name)
{
    for (size_t i = 0; i < members->count; i++) {
        if (strcmp(members->items[i].name, name) == 0) {
            return (int)i;
        }
    }
    return -1;
}

tutti_status members_update(struct members *members, const struct host_list *list)
{
    struct member *items = mem_calloc(members->count + list->count + 1, sizeof *items);

    if (items == NULL) {
        return TUTTI_ERR_NO_MEMORY;
    }
    if (members->count > 0) {
        memcpy(items, members->items, members->count * sizeof *items);
    }
    mem_free(members->items);
    members->items = items;
    for (size_t i = 0; i < members->count; i++) {
        items[i].is_listed = false;
    }
    for (size_t i = 0; i < list->count; i++) {
        const struct host *host = &list->hosts[i];
        int index = members_find(members, host->name);

        if (index < 0) {
            index = (int)members->count++;
            items[index] = (struct member){ .slots = 0 };
            (void)snprintf(
                    items[index].name, sizeof items[index].name, "%s", host->name);
        }
        items[index].slots = host->slots;
        items[index].is_listed = true;
    }
    return TUTTI_OK;
}

void members_forget_failures(struct members *members)
{
    for (size_t i = 0; i < members->count; i++) {
        members->items[i].failures = 0;
    }
}

void members_put_aside(struct members *members, size_t index, int64_t now)
{
    struct member *member = &members->items[index];
    int64_t time = members->cooldown[0];

    for (int i = 0;
            i < member->returns && i < DOUBLINGS_MAX && time < members->cooldown[1];
            i++) {
        time *= 2;
    }
    time = time < members->cooldown[1] ? time : members->cooldown[1];
    member->returns++;
    member->failures = MEMBER_FAILURES - 1; /* once back, one more is too many */
    member->aside_until = time == 0 ? INT64_MAX : now + time;
}

bool members_fail(struct members *members, size_t index, int64_t now)
{
    struct member *member = &members->items[index];

    if (++member->failures < MEMBER_FAILURES) {
        return false;
    }
    members_put_aside(members, index, now);
    return true;
}

static bool may_be_used(const struct member *member, int64_t now)
{
    return member->is_listed && member->aside_until <= now;
}

int members_choose(
        const struct members *members, int most, int64_t now, struct host_list *list)
{
    int ranks = 0;

    for (size_t i = 0; i < members->count && ranks < most; i++) {
        const struct member *member = &members->items[i];
        const int slots = member->slots < most - ranks ? member->slots : most - ranks;

        if (!may_be_used(member, now)) {
            continue;
        }
        if (list != NULL && member->name[0] != '\0' &&
                host_list_add(list, member->name, slots) != NULL) {
            return -1;
        }
        ranks += slots;
    }
    return ranks;
}

int64_t members_next_return(const struct members *members, int64_t now)
{
    int64_t next = INT64_MAX;

    for (size_t i = 0; i < members->count; i++) {
        const struct member *member = &members->items[i];

        if (member->is_listed && member->aside_until > now &&
                member->aside_until < next) {
            next = member->aside_until;
        }
    }
    return next;
}

/* ----------------------------------- what a generation's end says of hosts */

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
