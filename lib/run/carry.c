/*
 * Keeping operands, from their arrival until their batch is launched. What comes for a batch
 * that does not commit is dropped when the lane goes on.
 */
#include "run/carry.h"

#include <string.h>

#include "agree/meta.h"
#include "base/error.h"
#include "base/mem.h"
#include "run/context.h"

/*
 * Bytes of a batch whose operands come along: what fits one frame of transport/mpi.c with its
 * arrival. Each further frame takes longer than an exchange behind the arrival.
 */
#define CARRY_BYTES_MAX 3840

/* What the backends are told of a batch before it is one. */
static struct op_batch describe_planned(const struct process_set *set,
        const struct plan *plan, const struct plan_batch *batch, size_t bytes)
{
    const struct tensor_state *first = plan->items[batch->first];

    return (struct op_batch){ .set = &set->op,
        .lane = plan->lane,
        .space = first->meta.space,
        .collective = (tutti_collective)first->collective,
        .dtype = first->meta.dtype,
        .op = meta_backend_op(first->meta.op),
        .divisor = set->op.size,
        .prescale = first->meta.prescale,
        .postscale = first->meta.postscale,
        .run_count = 1,
        .count = bytes / tutti_dtype_size(first->meta.dtype) };
}

static bool backend_gathers(
        const struct dispatcher *dispatcher, const struct op_batch *op)
{
    for (int b = 0; b < dispatcher->backend_count; b++) {
        const struct dispatcher_backend *backend = &dispatcher->backends[b];

        if (backend->ops->space == op->space &&
                backend->ops->accepts(backend->state, op)) {
            return backend->ops->gathers != NULL &&
                    backend->ops->gathers(backend->state, op);
        }
    }
    return false;
}

/* Bytes that come along; 0: the batch is exchanged by its backend. Equal on all members. */
static size_t carried_bytes(const struct process_set *set, const struct plan *plan,
        const struct plan_batch *batch)
{
    size_t bytes = 0;
    struct op_batch op;

    for (uint32_t i = batch->first; i < batch->first + batch->count; i++) {
        const struct tensor_state *tensor = plan->items[i];

        if (tensor->collective != TUTTI_ALLREDUCE) {
            return 0;
        }
        bytes += meta_agreed_bytes(tensor->collective, &tensor->meta, set->op.size);
        if (bytes > CARRY_BYTES_MAX) {
            return 0;
        }
    }
    op = describe_planned(set, plan, batch, bytes);
    return op.space == OP_HOST && backend_gathers(&set->context->dispatcher, &op)
            ? bytes
            : 0;
}

void carry_write(void *user, const struct plan *plan, const struct plan_batch *batch,
        struct wire_writer *out)
{
    const size_t bytes = carried_bytes(user, plan, batch);

    wire_put_varint(out, bytes);
    for (uint32_t i = batch->first; i < batch->first + batch->count && bytes > 0; i++) {
        const struct operation *operation = plan->items[i]->own.local->cookie;

        wire_put_bytes(out, operation->memory.input, operation->memory.bytes);
    }
}

tutti_status carry_keep(
        void *user, const struct carried_key *key, const uint8_t *bytes, size_t len)
{
    struct process_set *set = user;
    struct dispatcher *dispatcher = &set->context->dispatcher;
    struct carried *kept = (struct carried *)(void *)dispatcher->spare_operands;

    if (len > CARRY_BYTES_MAX) {
        return error_set(TUTTI_ERR_PROTOCOL, "an arrival of rank %d has %zu bytes",
                set->world_ranks[key->member], len);
    }
    if (kept != NULL) {
        dispatcher->spare_operands = kept->operand.next;
    } else {
        kept = mem_alloc(sizeof *kept + CARRY_BYTES_MAX);
    }
    if (kept == NULL) {
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory for an operand");
    }
    *kept = (struct carried){ .operand = { .next = set->lanes[key->lane].carried,
                                      .member = key->member,
                                      .bytes = (uint8_t *)(kept + 1) },
        .key = *key,
        .len = len };
    memcpy(kept + 1, bytes, len);
    set->lanes[key->lane].carried = &kept->operand;
    return TUTTI_OK;
}

tutti_status carry_take(struct process_set *set, const struct outcome *outcome,
        size_t bytes, struct op_operand **operands)
{
    struct op_operand **at = &set->lanes[outcome->lane].carried;
    int missing = set->op.size - 1;

    *operands = NULL;
    while (*at != NULL) {
        struct op_operand *operand = *at;
        const struct carried *kept = (const struct carried *)(const void *)operand;

        if (kept->key.epoch == outcome->epoch && kept->key.index == outcome->index &&
                kept->len == bytes) {
            *at = operand->next;
            operand->next = *operands;
            *operands = operand;
            missing--;
        } else if (kept->key.epoch < outcome->epoch) {
            *at = operand->next;
            operand->next = NULL;
            carry_release(&set->context->dispatcher, operand);
        } else {
            at = &operand->next;
        }
    }
    if (*operands != NULL && missing != 0) {
        carry_release(&set->context->dispatcher, *operands);
        *operands = NULL;
        return error_set(TUTTI_ERR_PROTOCOL,
                "the operands of a planned batch came from %d of %d ranks",
                set->op.size - 1 - missing, set->op.size - 1);
    }
    return TUTTI_OK;
}

void carry_release(struct dispatcher *dispatcher, struct op_operand *operands)
{
    while (operands != NULL) {
        struct op_operand *next = operands->next;

        operands->next = dispatcher->spare_operands;
        dispatcher->spare_operands = operands;
        operands = next;
    }
}

void carry_free(struct op_operand *operands)
{
    while (operands != NULL) {
        struct op_operand *next = operands->next;

        mem_free(operands);
        operands = next;
    }
}

void carry_fini(struct process_set *set)
{
    for (int lane = 0; lane < OP_LANES; lane++) {
        carry_free(set->lanes[lane].carried);
        set->lanes[lane].carried = NULL;
    }
}
