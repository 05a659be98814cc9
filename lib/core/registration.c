/*
 * Registered tensors of a context.
 */
#include "core/registration.h"

#include <inttypes.h>
#include <string.h>

#include "core/context.h"
#include "core/lease.h"

static bool is_gated(const struct tutti *t, const struct process_set *set)
{
    return t->failure.status != TUTTI_OK || t->closing || set->closing || set->joined;
}

static void gate(const struct tutti *t, struct work *own)
{
    if (is_gated(t, own->set)) {
        lease_close(own);
    } else {
        lease_open(own);
    }
}

void registration_gate(struct tutti *t)
{
    uint32_t position = 0;
    struct work *work;

    while ((work = work_next(&t->works, &position)) != NULL) {
        if (lease_is_registered(work)) {
            gate(t, work);
        }
    }
}

bool registration_is_busy(const struct tutti *t, const struct process_set *set)
{
    uint32_t position = 0;
    const struct work *work;

    while ((work = work_next(&t->works, &position)) != NULL) {
        if (lease_is_registered(work) && work->set == set && lease_is_busy(work)) {
            return true;
        }
    }
    return false;
}

tutti_status registration_unknown(tutti_tensor handle)
{
    return error_set(TUTTI_ERR_INVALID, "%" PRIu64 " is no registered tensor", handle);
}

static tutti_status no_memory(const struct submission *s)
{
    return error_set(TUTTI_ERR_NO_MEMORY, "no memory for \"%s\"", s->name);
}

/* The lease is closed. */
static void end_lease(struct tutti *t, struct work *own)
{
    if (lease_end(own)) {
        work_put_back(&t->works, own);
    }
}

/* A work of its own, with room for everything, so that submitting allocates nothing. */
static tutti_status give_work(struct tutti *t, struct process_set *set,
        struct tensor *tensor, const struct submission *s, tutti_tensor *handle)
{
    struct work *own = work_take(&t->works);

    if (own == NULL) {
        return no_memory(s);
    }
    own->set = set;
    own->tensor = tensor;
    *handle = lease_begin(own);
    if (!submit_reserve(own, s) ||
            !tensors_register(&set->tensors, tensor, &s->meta, &s->rows, own)) {
        end_lease(t, own);
        return no_memory(s);
    }
    tensor->stream = s->stream;
    gate(t, own);
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
    return rows_apply(s->collective) ? rows_check(s, &set->op) : TUTTI_OK;
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
    status = give_work(t, set, tensor, s, &made);
    if (status == TUTTI_OK) {
        *handle = made;
    }
    return status;
}

tutti_status registration_remove(struct tutti *t, tutti_tensor handle)
{
    struct work *own = lease_find(&t->works, handle);
    struct tensor *tensor;

    if (own == NULL) {
        return registration_unknown(handle);
    }
    tensor = own->tensor;
    lease_close(own);
    if (lease_is_busy(own)) {
        gate(t, own);
        return error_set(TUTTI_ERR_DUPLICATE, "%s \"%s\" is in flight on rank %d",
                meta_collective_name(tensor->collective), tensor->name, t->rank);
    }
    tensors_unregister(&own->set->tensors, tensor);
    end_lease(t, own);
    return TUTTI_OK;
}

void registration_forget(struct tutti *t, const struct process_set *set)
{
    uint32_t position = 0;
    struct work *work;

    while ((work = work_next(&t->works, &position)) != NULL) {
        if (lease_is_registered(work) && work->set == set) {
            lease_close(work);
            end_lease(t, work);
        }
    }
}
