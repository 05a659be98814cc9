/*
 * Groups at the coordinator: groups.c.
 */
#ifndef TUTTI_AGREE_GROUPS_H
#define TUTTI_AGREE_GROUPS_H

#include "agree/negotiator.h"

/** The group of a hash, of which nothing is ready yet if it is new; NULL: no memory. */
struct group *group_get(struct negotiator *negotiator, uint64_t hash);
/** All of it is launched. */
void group_put(struct negotiator *negotiator, struct group *group);
/** Forgets the complete members of a group; their announcements are not touched. */
void group_drop(struct negotiator *negotiator, uint64_t hash);
tutti_status group_remember_failed(struct negotiator *negotiator, uint64_t hash);
/** True when a group failed after somebody had read `seen` entries of the log. */
bool group_is_void(const struct negotiator *negotiator, uint64_t hash, uint64_t seen);
void groups_fini(struct negotiator *negotiator);

#endif
