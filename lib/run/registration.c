/*
 * Registered tensors.
 */
#include "run/registration.h"

#include <string.h>

#include "agree/names.h"
#include "base/mem.h"
#include "run/context.h"
#include "run/persistent.h"
#include "run/tensor_use.h"

static void copy_list(const int64_t **list, int64_t *to, int count)
{
    if (*list != NULL) {
        *list = memcpy(to, *list, (size_t)count * sizeof *to);
    }
}

/* NULL: no memory. */
static struct registration *registration_new(
        const struct submission *s, const struct tensor_state *tensor, int size)
{
    struct registration *registration = mem_calloc(1,
            sizeof *registration + (size_t)(2 * size + s->meta.ndim) * sizeof(int64_t));
    struct submission *all;

    if (registration == NULL) {
        return NULL;
    }
    all = &registration->all;
    *all = *s;
    all->name = tensor->name;
    copy_list(&all->rows.rows_of, registration->lists, size);
    copy_list(&all->rows.recv_rows, registration->lists + size, size);
    copy_list(&all->meta.dims, registration->lists + 2 * (size_t)size, s->meta.ndim);
    return registration;
}

/* An operation of its own, with room for everything, so that submitting allocates nothing. */
static struct operation *own_operation(struct tutti *t, struct process_set *set,
        struct tensor_state *tensor, const struct submission *s, tutti_tensor *handle)
{
    struct operation *own = operation_take(&t->work.operations);

    if (own == NULL) {
        return NULL;
    }
    own->set = set;
    own->request.tensor = tensor;
    own->record = tensor_use_record(set, tensor);
    *handle = persistent_begin(own);
    if (!submit_prepare(own, s)) {
        persistent_give_up(t, own);
        return NULL;
    }
    return own;
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

/* The name of a tensor that is registered from then on. */
static tutti_status register_tensor(struct tutti *t, struct process_set *set,
        struct tensor_state *tensor, const struct submission *s, tutti_tensor *handle)
{
    struct tensor_use *use = tensor->user;
    struct registration *registration;

    if (use->registration != NULL) {
        return error_set(TUTTI_ERR_DUPLICATE,
                "%s \"%s\" is registered already on rank %d",
                meta_collective_name(s->collective), s->name, t->rank);
    }
    registration = registration_new(s, tensor, set->op.size);
    if (registration == NULL) {
        return submit_no_memory(s);
    }
    registration->own = own_operation(t, set, tensor, s, handle);
    if (registration->own == NULL) {
        mem_free(registration);
        return submit_no_memory(s);
    }
    if (use->in_flight) {
        /* Submitted by name before; nobody has the handle yet, so it cannot be refused. */
        (void)persistent_borrow(registration->own);
    }
    use->registration = registration;
    observer_keep(&t->observer, &use->record, true);
    persistent_gate(t, registration->own);
    return TUTTI_OK;
}

tutti_status registration_add(
        struct tutti *t, const struct submission *s, tutti_tensor *handle)
{
    struct process_set *set = process_sets_find(&t->sets, s->set);
    struct tensor_state *tensor;
    tutti_tensor made = 0;
    tutti_status status = check_set(t, s, set);

    if (status != TUTTI_OK) {
        return status;
    }
    tensor = tensor_use_hold(set, s->collective, s->name);
    if (tensor == NULL) {
        return submit_no_memory(s);
    }
    status = register_tensor(t, set, tensor, s, &made);
    if (status != TUTTI_OK) {
        names_let_go(&set->negotiator, tensor);
        return status;
    }
    *handle = made;
    return TUTTI_OK;
}

tutti_status registration_remove(struct tutti *t, tutti_tensor handle)
{
    struct operation *own = persistent_find(&t->work.operations, handle);
    struct tensor_state *tensor;
    struct tensor_use *use;

    if (own == NULL) {
        return persistent_unknown(handle);
    }
    tensor = own->request.tensor;
    persistent_close(own);
    if (persistent_is_busy(own)) {
        persistent_gate(t, own);
        return error_set(TUTTI_ERR_DUPLICATE, "%s \"%s\" is in flight on rank %d",
                meta_collective_name(tensor->collective), tensor->name, t->rank);
    }
    use = tensor->user;
    mem_free(use->registration);
    use->registration = NULL;
    observer_keep(&t->observer, &use->record, false);
    names_let_go(&own->set->negotiator, tensor);
    persistent_give_up(t, own);
    return TUTTI_OK;
}
