#include "launcher/elastic/members.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

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
