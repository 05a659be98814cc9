/*
 * What a submission must fulfil before it is queued: by itself, and with the context's lock held.
 */
#ifndef TUTTI_RUN_CHECK_H
#define TUTTI_RUN_CHECK_H

#include "ops/op.h"
#include "run/submit.h"

struct open_group;
struct process_set;

/**
 * Everything that depends on the call alone: name, type, shape, reduction, scales.
 * @return TUTTI_OK, TUTTI_ERR_INVALID, TUTTI_ERR_UNSUPPORTED
 */
tutti_status check_call(const struct submission *submission);

/** Refuses what meta_step() made of a negative step. */
tutti_status check_step(uint64_t step);

/**
 * What depends on the set and this rank's place in it: root, rows, and buffers but those
 * of collectives on rows (rows_check_buffers()).
 * @return TUTTI_OK, TUTTI_ERR_INVALID
 */
tutti_status check_in_set(
        const struct submission *submission, const struct op_set *set);

/**
 * Lock held: the set of a submission, which may be queued for it.
 * @param group  the thread's open group, or NULL
 * @return TUTTI_OK, TUTTI_ERR_INVALID, TUTTI_ERR_CONTEXT_FAILED, TUTTI_ERR_FINALIZED
 */
tutti_status check_find_set(struct tutti *t, const struct open_group *group,
        const struct submission *s, struct process_set **found);
/**
 * Lock held: what an operation of a group is refused for after it was taken. Its set is not
 * being destroyed meanwhile, since the operation is in flight there.
 * @param set        of its members that are no messages; NULL: only what holds for the whole
 *                   context
 * @return TUTTI_OK, TUTTI_ERR_INVALID (joined), TUTTI_ERR_CONTEXT_FAILED,
 *         TUTTI_ERR_FINALIZED
 */
tutti_status check_late(struct tutti *t, const struct process_set *set,
        const struct operation *operation);

#endif
