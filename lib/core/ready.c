/*
 * Taking the outcomes of one turn.
 */
#include "core/ready.h"

#include "base/mem.h"
#include "core/completion.h"
#include "core/context.h"

/* The works of one turn that need a backend. */
struct turn {
    size_t count; /* in t->items and t->ready */
};

static bool grow(void *array_pointer, size_t *capacity, size_t need, size_t element)
{
    void **array = array_pointer;
    const size_t wanted = 2 * need + 64;
    void *grown;

    if (need <= *capacity) {
        return true;
    }
    grown = mem_resize(*array, wanted, element);
    if (grown == NULL) {
        return false;
    }
    *array = grown;
    *capacity = wanted;
    return true;
}

static tutti_status no_memory(void)
{
    return error_set(TUTTI_ERR_NO_MEMORY, "no memory for the batches of a turn");
}

/* A set that cannot be created fails everywhere alike, but for lack of memory. */
static tutti_status create_set(struct tutti *t, struct work *work)
{
    const struct meta *meta = &work->request.meta;
    struct process_set *set = NULL;
    const tutti_status status = process_sets_add(t, meta->dims, meta->ndim, &set);

    if (status == TUTTI_ERR_UNSUPPORTED) {
        completion_fail(t, work, status, tutti_last_error());
        return TUTTI_OK;
    }
    if (status != TUTTI_OK) {
        return status;
    }
    *(tutti_process_set *)work->output = set->id;
    completion_finish_one(t, work, TUTTI_OK, NULL);
    return TUTTI_OK;
}

static void destroy_set(struct tutti *t, struct work *work)
{
    struct process_set *set =
            process_sets_find(&t->sets, (tutti_process_set)work->request.meta.count);

    if (set != NULL) {
        process_sets_remove(t, set);
    }
    completion_finish_one(t, work, TUTTI_OK, NULL);
}

/* All members have called finalize: what is still with the negotiator never completes. */
static void finalize_set(struct tutti *t, struct process_set *set, struct work *work)
{
    struct error error;

    set->finalized = true;
    completion_finish_one(t, work, TUTTI_OK, NULL);
    error_fill(&error, TUTTI_ERR_FINALIZED, t->rank,
            "all ranks have called tutti_finalize() and not all had submitted this");
    completion_drain(t, set, WORK_ANNOUNCED, &error);
}

static tutti_status take_ready(
        struct tutti *t, struct process_set *set, struct work *work, struct turn *turn)
{
    const struct request *request = &work->request;

    if (request->collective == META_SET_CREATE) {
        return create_set(t, work);
    }
    if (request->collective == META_SET_DESTROY) {
        destroy_set(t, work);
        return TUTTI_OK;
    }
    if (request->collective == META_FINALIZE) {
        finalize_set(t, set, work);
        return TUTTI_OK;
    }
    if (request->collective == TUTTI_BARRIER || work->bytes == 0) {
        completion_finish_one(t, work, TUTTI_OK, NULL);
        return TUTTI_OK;
    }
    work_advance(work, WORK_AGREED);
    if (!grow(&t->items, &t->item_capacity, turn->count + 1, sizeof *t->items) ||
            !grow(&t->ready, &t->ready_capacity, turn->count + 1, sizeof *t->ready)) {
        return no_memory();
    }
    t->items[turn->count] = (struct planner_item){
        .collective = request->collective, .meta = request->meta, .bytes = work->bytes
    };
    t->ready[turn->count++] = work;
    return TUTTI_OK;
}

static tutti_status make_batches(
        struct tutti *t, struct process_set *set, const struct turn *turn)
{
    size_t count = 0;

    if (!planner_plan(&t->planner, &t->limits, t->items, turn->count, &count) ||
            !grow(&t->batches, &t->batch_capacity, count, sizeof *t->batches)) {
        return no_memory();
    }
    for (size_t b = 0; b < count; b++) {
        t->batches[b] = dispatcher_batch_new(t, set);
        if (t->batches[b] == NULL) {
            return no_memory();
        }
    }
    for (size_t i = 0; i < turn->count; i++) {
        if (!dispatcher_batch_add(
                    &t->dispatcher, t->batches[t->items[i].batch], t->ready[i])) {
            return no_memory();
        }
    }
    for (size_t b = 0; b < count; b++) {
        dispatcher_submit(t, t->batches[b]);
    }
    return TUTTI_OK;
}

/* Takes the outcomes from `first` on that belong to one turn; returns the next one. */
static size_t take_turn(
        struct tutti *t, struct process_set *set, size_t first, tutti_status *status)
{
    struct negotiator *negotiator = &set->negotiator;
    const uint64_t this_turn = negotiator->outcomes[first].turn;
    struct turn turn = { 0 };
    size_t i = first;

    while (i < negotiator->outcome_count && negotiator->outcomes[i].turn == this_turn &&
            *status == TUTTI_OK) {
        struct outcome *outcome = &negotiator->outcomes[i++];
        struct error *error = outcome->error;

        outcome->error = NULL;
        if (error == NULL) {
            *status = take_ready(t, set, outcome->cookie, &turn);
        } else {
            completion_finish_one(t, outcome->cookie, error->status, error);
        }
    }
    if (*status == TUTTI_OK && turn.count > 0) {
        *status = make_batches(t, set, &turn);
    }
    return i;
}

/*
 * Several turns may have arrived at once here and one by one elsewhere: each is planned by
 * itself, so that all ranks form the same batches.
 */
tutti_status ready_take(struct tutti *t, struct process_set *set)
{
    tutti_status status = TUTTI_OK;
    size_t next = 0;

    while (next < set->negotiator.outcome_count && status == TUTTI_OK) {
        next = take_turn(t, set, next, &status);
    }
    return status;
}
