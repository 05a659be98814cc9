/*
 * Groups at the coordinator: those some of whose members are complete, and those that
 * failed a while ago.
 */
#include "agree/groups.h"

#include "base/mem.h"

/* Failed groups that are remembered: far more than can fail while a message travels. */
#define FAILED_GROUPS_MAX 256

static bool group_matches(const void *value, const void *key)
{
    const struct group *group = value;
    const uint64_t *hash = key;

    return group->hash == *hash;
}

void groups_fini(struct negotiator *negotiator)
{
    size_t position = 0;
    struct group *group;

    while ((group = map_next(&negotiator->groups.waiting, &position)) != NULL) {
        mem_free(group);
    }
    map_fini(&negotiator->groups.waiting);
    mem_free(negotiator->groups.failed);
    while (negotiator->groups.spare != NULL) {
        group = negotiator->groups.spare;
        negotiator->groups.spare = group->next_spare;
        mem_free(group);
    }
}

struct group *group_get(struct negotiator *negotiator, uint64_t hash)
{
    struct group *group =
            map_find(&negotiator->groups.waiting, hash, group_matches, &hash);

    if (group != NULL) {
        return group;
    }
    group = negotiator->groups.spare;
    if (group == NULL) {
        group = mem_alloc(sizeof *group);
        if (group == NULL) {
            return NULL;
        }
    } else {
        negotiator->groups.spare = group->next_spare;
    }
    *group = (struct group){ .hash = hash };
    if (!map_insert(&negotiator->groups.waiting, hash, group)) {
        mem_free(group);
        return NULL;
    }
    return group;
}

void group_put(struct negotiator *negotiator, struct group *group)
{
    (void)map_remove(&negotiator->groups.waiting, group->hash, group);
    group->next_spare = negotiator->groups.spare;
    negotiator->groups.spare = group;
}

tutti_status group_remember_failed(struct negotiator *negotiator, uint64_t hash)
{
    struct failed_group *groups = negotiator->groups.failed;

    if (groups == NULL) {
        groups = mem_calloc(FAILED_GROUPS_MAX, sizeof *groups);
        if (groups == NULL) {
            return error_set(TUTTI_ERR_NO_MEMORY, "no memory for a failed group");
        }
        negotiator->groups.failed = groups;
    }
    groups[negotiator->groups.failed_count++ % FAILED_GROUPS_MAX] =
            (struct failed_group){ .hash = hash,
                .failed_at = negotiator->log.appended };
    negotiator->groups.failed_at = negotiator->log.appended;
    return TUTTI_OK;
}

/* True when a group failed after its sender had read `seen` entries of the log. */
bool group_is_void(const struct negotiator *negotiator, uint64_t hash, uint64_t seen)
{
    const size_t count = size_min(negotiator->groups.failed_count, FAILED_GROUPS_MAX);

    if (hash == 0 || seen >= negotiator->groups.failed_at) {
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        if (negotiator->groups.failed[i].hash == hash &&
                negotiator->groups.failed[i].failed_at > seen) {
            return true;
        }
    }
    return false;
}

void group_drop(struct negotiator *negotiator, uint64_t hash)
{
    struct group *group =
            map_find(&negotiator->groups.waiting, hash, group_matches, &hash);

    if (group != NULL) {
        group_put(negotiator, group);
    }
}
