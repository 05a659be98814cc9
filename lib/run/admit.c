/*
 * Checks of a submission that need the context's lock: its set, its name, groups,
 * joins.
 */
#include "run/admit.h"

#include "run/check.h"
#include "run/context.h"

/* Whether anything may be submitted at all. */
static tutti_status check_open(struct tutti *t)
{
    if (t->failure.error.status != TUTTI_OK) {
        return error_raise(&t->failure.error);
    }
    if (t->closing) {
        return error_set(
                TUTTI_ERR_FINALIZED, "rank %d has called tutti_finalize()", t->rank);
    }
    return TUTTI_OK;
}

static tutti_status has_joined(
        const struct tutti *t, const struct process_set *set, const char *name)
{
    return error_set(TUTTI_ERR_INVALID,
            "\"%s\": rank %d has joined process set %u; wait for the join first", name,
            t->rank, set->id);
}

tutti_status admit_check_late(struct tutti *t, const struct operation *operation)
{
    const tutti_status status = check_open(t);

    if (status != TUTTI_OK || operation == NULL) {
        return status;
    }
    return operation->set->joined
            ? has_joined(t, operation->set, operation->tensor->name)
            : TUTTI_OK;
}

tutti_status admit_find_set(
        struct tutti *t, const struct submission *s, struct process_set **found)
{
    struct process_set *set = process_sets_find(&t->sets, s->set);
    const tutti_status status =
            s->collective == META_FINALIZE ? TUTTI_OK : check_open(t);

    if (status != TUTTI_OK) {
        return status;
    }
    if (set == NULL || (set->closing && s->collective < META_SET_CREATE)) {
        return error_set(TUTTI_ERR_INVALID, "\"%s\": there is no process set %u",
                s->name, s->set);
    }
    if (set->op.rank < 0) {
        return error_set(TUTTI_ERR_INVALID,
                "\"%s\": rank %d is no member of process set %u", s->name, t->rank,
                s->set);
    }
    if (set->joined && s->collective != META_FINALIZE && s->collective != META_JOIN) {
        return has_joined(t, set, s->name);
    }
    *found = set;
    return check_in_set(s, &set->op);
}

static tutti_status check_group(const struct tutti *t, const struct open_group *group,
        const struct submission *s)
{
    if (group == NULL || group->newest == NULL) {
        return TUTTI_OK;
    }
    if (group->newest->set->id != s->set) {
        return error_set(TUTTI_ERR_INVALID,
                "\"%s\": its group uses process set %u, not %u (rank %d); a group "
                "stays "
                "within one set",
                s->name, group->newest->set->id, s->set, t->rank);
    }
    return TUTTI_OK;
}

static tutti_status in_flight_already(
        const struct tutti *t, const struct tensor *tensor)
{
    if (tensor->collective == META_JOIN) {
        return error_set(TUTTI_ERR_DUPLICATE,
                "rank %d has joined already; wait for that join", t->rank);
    }
    return error_set(TUTTI_ERR_DUPLICATE,
            "%s \"%s\" is in flight already on rank %d; wait for it, or use another "
            "name",
            meta_collective_name(tensor->collective), tensor->name, t->rank);
}

tutti_status admit_take(struct tutti *t, const struct open_group *group,
        struct process_set *set, struct tensor *tensor, const struct submission *s,
        struct operation **taken)
{
    struct operation *operation;
    const tutti_status status = check_group(t, group, s);

    if (status != TUTTI_OK) {
        return status;
    }
    operation = operation_take(&t->operations);
    if (operation == NULL) {
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory for \"%s\"", s->name);
    }
    if (!tensors_hold(tensor, operation)) {
        operation_put_back(&t->operations, operation);
        return in_flight_already(t, tensor);
    }
    operation->set = set;
    operation->tensor = tensor;
    operation->record = tensors_record(&set->tensors, tensor, set->id);
    set->in_flight++;
    operation_begin(operation, s->callback, s->user);
    *taken = operation;
    return TUTTI_OK;
}

void admit_withdraw(struct tutti *t, struct operation *operation)
{
    tensors_let_go(operation->tensor);
    operation->set->in_flight--;
    if (operation->after != NULL) {
        t->device.release(t->device.state, operation->after);
        operation->after = NULL;
    }
    if (operation_end(operation)) {
        operation_put_back(&t->operations, operation);
    }
}
