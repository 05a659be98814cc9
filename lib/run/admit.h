/*
 * Whether a submission may come in, and the name that it takes. Context's lock held.
 */
#ifndef TUTTI_RUN_ADMIT_H
#define TUTTI_RUN_ADMIT_H

#include "run/group.h"
#include "run/submit.h"

struct process_set;
struct tensor;

/**
 * The set of a submission, which it may be queued for.
 * @return TUTTI_OK, TUTTI_ERR_INVALID, TUTTI_ERR_CONTEXT_FAILED, TUTTI_ERR_FINALIZED
 */
tutti_status admit_find_set(
        struct tutti *t, const struct submission *s, struct process_set **found);
/**
 * An operation of the pool, begun, for a name that is in flight from then on.
 * @param group  the thread's open group, or NULL
 * @return TUTTI_OK, TUTTI_ERR_INVALID (a group of another set), TUTTI_ERR_DUPLICATE,
 *         TUTTI_ERR_NO_MEMORY
 */
tutti_status admit_take(struct tutti *t, const struct open_group *group,
        struct process_set *set, struct tensor *tensor, const struct submission *s,
        struct operation **taken);
/** Takes back an operation of the pool that was not queued. */
void admit_withdraw(struct tutti *t, struct operation *operation);
/**
 * What an operation of a group is refused for after it was taken. Its set is not being
 * destroyed meanwhile, since the operation is in flight there.
 * @param operation  NULL: only what holds for the whole context
 * @return TUTTI_OK, TUTTI_ERR_INVALID (joined), TUTTI_ERR_CONTEXT_FAILED,
 *         TUTTI_ERR_FINALIZED
 */
tutti_status admit_check_late(struct tutti *t, const struct operation *operation);

#endif
