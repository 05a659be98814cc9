/*
 * Names in use.
 */
#include "run/tensor_use.h"

#include <string.h>

#include "agree/names.h"
#include "base/mem.h"
#include "run/context.h"
#include "run/persistent.h"

struct tensor_state *tensor_use_hold(
        struct process_set *set, int collective, const char *name)
{
    const struct name_ref ref = name_ref(collective, name, strlen(name));
    struct tensor_state *tensor = names_hold(&set->negotiator, &ref);

    if (tensor == NULL || tensor->user != NULL) {
        return tensor;
    }
    tensor->user = mem_calloc(1, sizeof(struct tensor_use));
    if (tensor->user == NULL) {
        names_let_go(&set->negotiator, tensor);
        return NULL;
    }
    return tensor;
}

bool tensor_use_begin(struct tensor_use *use)
{
    if (use->in_flight ||
            (use->registration != NULL && !persistent_borrow(use->registration->own))) {
        return false;
    }
    use->in_flight = true;
    return true;
}

void tensor_use_end(struct process_set *set, struct tensor_state *tensor)
{
    struct tensor_use *use = tensor->user;

    use->in_flight = false;
    if (use->registration != NULL) {
        persistent_restore(use->registration->own);
    }
    names_let_go(&set->negotiator, tensor);
}

struct observed_name tensor_use_record(
        const struct process_set *set, struct tensor_state *tensor)
{
    struct tensor_use *use = tensor->user;

    if (use->record.mark == NULL) {
        observer_name(&set->context->observer, &use->record, tensor->name, set->id,
                tensor->collective);
    }
    return use->record;
}

void tensor_use_forget(void *set, void *use)
{
    struct tensor_use *going = use;

    observer_release(&((struct process_set *)set)->context->observer, &going->record);
    mem_free(going->registration);
    mem_free(going);
}
