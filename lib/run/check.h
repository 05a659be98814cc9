/*
 * What a submission must fulfil before it is queued.
 */
#ifndef TUTTI_RUN_CHECK_H
#define TUTTI_RUN_CHECK_H

#include "ops/op.h"
#include "run/submit.h"

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

#endif
