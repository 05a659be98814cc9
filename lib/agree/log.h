/*
 * The log: log_append.c writes it, log_apply.c reads it.
 */
#ifndef TUTTI_AGREE_LOG_H
#define TUTTI_AGREE_LOG_H

#include "agree/negotiator.h"

/** An entry of the log cannot be true. */
static inline tutti_status corrupt(const char *what)
{
    return error_set(TUTTI_ERR_PROTOCOL, "corrupt log: %s", what);
}

/** The tensor is ready; if it belongs to a group, when all of that is. */
tutti_status append_ready(struct negotiator *negotiator, struct tensor_state *tensor);
/** A number is ready that all members have announced. */
void append_number(struct negotiator *negotiator, struct tensor_state *tensor);
/** The same with the operands of all members. */
void append_operands(struct negotiator *negotiator, struct tensor_state *tensor);
/** The tensor fails, and so do all groups that some rank submitted it in. */
tutti_status append_failure(struct negotiator *negotiator, struct tensor_state *tensor,
        tutti_status reason, int rank, const char *text);

/** Applies a log message; `in` stands behind the kind. */
tutti_status log_apply(struct negotiator *negotiator, struct wire_reader *in);

#endif
