/*
 * Registered tensors.
 */
#include "run/registration.h"

#include <string.h>

#include "run/context.h"
#include "run/persistent.h"

static tutti_status no_memory(const struct submission *s)
{
    return error_set(TUTTI_ERR_NO_MEMORY, "no memory for \"%s\"", s->name);
}

/* An operation of its own, with room for everything, so that submitting allocates nothing. */
static tutti_status give_operation(struct tutti *t, struct process_set *set,
        struct tensor *tensor, const struct submission *s, tutti_tensor *handle)
{
    struct operation *own = operation_take(&t->work.operations);

    if (own == NULL) {
        return no_memory(s);
    }
    own->set = set;
    own->tensor = tensor;
    own->record = tensors_record(&set->tensors, tensor, set->id);
    *handle = persistent_begin(own);
    if (!submit_prepare(own, s) || !tensors_register(tensor, &s->meta, &s->rows, own)) {
        persistent_give_up(t, own);
        return no_memory(s);
    }
    tensor->priority = s->priority;
    tensor->stream = s->stream;
    persistent_gate(t, own);
    return TUTTI_OK;
}

static tutti_status check_set(const struct tutti *t, const struct submission *s,
        const struct process_set *set)
{
    if (set == NULL || set->op.rank < 0 || s->meta.root >= set->op.size ||
            s->meta.root < 0) {
        return error_set(TUTTI_ERR_INVALID,
                "\"%s\": rank %d is no member of process set %u, or root %d is outside "
                "it",
                s->name, t->rank, s->set, s->meta.root);
    }
    return meta_has_rows(s->collective) ? rows_check(s, &set->op) : TUTTI_OK;
}

tutti_status registration_add(
        struct tutti *t, const struct submission *s, tutti_tensor *handle)
{
    struct process_set *set = process_sets_find(&t->sets, s->set);
    struct tensor *tensor;
    tutti_tensor made = 0;
    tutti_status status = check_set(t, s, set);

    if (status != TUTTI_OK) {
        return status;
    }
    tensor = tensors_get(&set->tensors, s->collective, s->name, strlen(s->name));
    if (tensor == NULL) {
        return no_memory(s);
    }
    if (tensor->own != NULL) {
        return error_set(TUTTI_ERR_DUPLICATE,
                "%s \"%s\" is registered already on rank %d",
                meta_collective_name(s->collective), s->name, t->rank);
    }
    status = give_operation(t, set, tensor, s, &made);
    if (status == TUTTI_OK) {
        *handle = made;
    }
    return status;
}

tutti_status registration_remove(struct tutti *t, tutti_tensor handle)
{
    struct operation *own = persistent_find(&t->work.operations, handle);
    struct tensor *tensor;

    if (own == NULL) {
        return persistent_unknown(handle);
    }
    tensor = own->tensor;
    persistent_close(own);
    if (persistent_is_busy(own)) {
        persistent_gate(t, own);
        return error_set(TUTTI_ERR_DUPLICATE, "%s \"%s\" is in flight on rank %d",
                meta_collective_name(tensor->collective), tensor->name, t->rank);
    }
    tensors_unregister(&own->set->tensors, tensor);
    persistent_give_up(t, own);
    return TUTTI_OK;
}
