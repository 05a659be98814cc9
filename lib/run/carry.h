/*
 * Operands that come along with arrivals: a small allreduce between few ranks needs no
 * exchange when all have arrived (docs/design/plan.md). Engine only.
 */
#ifndef TUTTI_RUN_CARRY_H
#define TUTTI_RUN_CARRY_H

#include "agree/negotiator.h"
#include "ops/op.h"

struct dispatcher;
struct process_set;

/** Operands of a member, kept for a batch of a lane. */
struct carried {
    struct op_operand operand; /* its memory is behind this */
    struct carried_key key;
    size_t len;
};

/** negotiator_config.carry and keep; `user` is the set. */
void carry_write(void *user, const struct plan *plan, const struct plan_batch *batch,
        struct wire_writer *out);
tutti_status carry_keep(
        void *user, const struct carried_key *key, const uint8_t *bytes, size_t len);

/**
 * Takes the operands of others that came for a batch of `bytes` bytes; NULL: none did, on
 * no rank. Errors: TUTTI_ERR_PROTOCOL.
 */
tutti_status carry_take(struct process_set *set, const struct outcome *outcome,
        size_t bytes, struct op_operand **operands);
/** Keeps their memory for the next ones; or frees it. */
void carry_release(struct dispatcher *dispatcher, struct op_operand *operands);
void carry_free(struct op_operand *operands);
/** Frees what a set keeps. */
void carry_fini(struct process_set *set);

#endif
