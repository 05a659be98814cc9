/*
 * The coordinator's choice of settings, and how steps of plans get to the search.
 */
#include "agree/plan_tune.h"

#include <stdio.h>
#include <string.h>

#include "agree/negotiator_parts.h"

static bool plan_is_on(const struct negotiator *negotiator, uint32_t lane)
{
    const struct plan *plan = negotiator->plans.lanes[lane].current;

    return plan != NULL && plan->state == PLAN_ON;
}

static bool is_same(const struct workload *a, const struct workload *b)
{
    return a->tensors == b->tensors && a->bytes == b->bytes;
}

static const struct tuning_record *find_record(
        const struct plan_tuner *tuner, const struct workload *workload)
{
    for (size_t i = 0; i < tuner->record_count; i++) {
        if (is_same(&tuner->records[i].workload, workload)) {
            return &tuner->records[i];
        }
    }
    return NULL;
}

/* With groups these are rounded once per level: another hierarchy has other bits. */
static bool is_narrow(const struct tensor_state *tensor)
{
    return meta_reduces(tensor->collective) &&
            (tensor->meta.dtype == TUTTI_FLOAT16 ||
                    tensor->meta.dtype == TUTTI_BFLOAT16);
}

void plan_tune_choose(struct negotiator *negotiator, uint32_t number, size_t count)
{
    const struct plan_tuner *tuner = negotiator->config.tuner;
    struct plan_lane *lane = &negotiator->plans.lanes[number];
    const struct tuning_record *record;
    bool narrow = false;

    lane->chosen = (struct tuning){ 0 };
    lane->workload = (struct workload){ .tensors = count };
    if (tuner == NULL) {
        return;
    }
    for (size_t i = 0; i < count; i++) {
        const struct tensor_state *tensor = negotiator->learner.candidates[i].tensor;
        const size_t bytes = meta_agreed_bytes(
                tensor->collective, &tensor->meta, negotiator->config.size);

        lane->workload.bytes += bytes == SIZE_MAX ? 0 : bytes;
        narrow = narrow || is_narrow(tensor);
    }
    record = find_record(tuner, &lane->workload);
    if (record != NULL) {
        lane->chosen = record->tuning;
    } else if (number == tuner->lane && is_same(&lane->workload, &tuner->workload)) {
        lane->chosen = tuner_settings(&tuner->tuner);
    }
    if (narrow) {
        lane->chosen.values[TUNING_HIERARCHY] = 0;
    }
}

/* It goes on with what is chosen for it then. */
static tutti_status leave_to_tune(struct negotiator *negotiator, struct plan *plan)
{
    plan->history.tuned = true;
    plan_want_exit(plan, PLAN_EXIT_TUNED, 0);
    return plan_advance(negotiator, plan);
}

/* The search is for a plan of more bytes, or for what became of the plan it was for. */
static tutti_status bind_to(
        struct negotiator *negotiator, const struct plan_lane *lane, uint32_t number)
{
    struct plan_tuner *tuner = negotiator->config.tuner;
    const uint32_t last = tuner->lane;

    tuner->steps -= tuner->tuner.steps;
    tuner->lane = number;
    tuner->workload = lane->workload;
    tuner_begin(&tuner->tuner, tuner->tuner.block, tuner->steps);
    return last != 0 && last != number && plan_is_on(negotiator, last)
            ? leave_to_tune(negotiator, negotiator->plans.lanes[last].current)
            : TUTTI_OK;
}

/* True when the search is for this plan. */
static bool is_tuned(
        const struct plan_tuner *tuner, const struct plan_lane *lane, uint32_t number)
{
    return number == tuner->lane && is_same(&tuner->workload, &lane->workload);
}

/* True when the search should be for this plan instead. */
static bool is_better(
        const struct plan_tuner *tuner, const struct plan_lane *lane, uint32_t number)
{
    return tuner->steps > tuner->tuner.steps &&
            find_record(tuner, &lane->workload) == NULL &&
            (tuner->lane == 0 || number == tuner->lane ||
                    lane->workload.bytes > tuner->workload.bytes);
}

tutti_status negotiator_finished(
        struct negotiator *negotiator, uint32_t number, uint64_t epoch, bool *searched)
{
    struct plan_tuner *tuner = negotiator->config.tuner;
    struct plan_lane *lane = &negotiator->plans.lanes[number];
    struct plan *plan = lane->current;
    bool changes;
    int64_t ns;

    *searched = false;
    if (!plan_is_on(negotiator, number) || plan->epoch != epoch ||
            ++plan->history.finished % plan->batch_count != 0 || plan->history.tuned) {
        return TUTTI_OK;
    }
    if (!is_tuned(tuner, lane, number)) {
        return is_better(tuner, lane, number) ? bind_to(negotiator, lane, number)
                                              : TUTTI_OK;
    }
    ns = negotiator->now_ns -
            plan->history.turn_ns[(plan->history.finished / plan->batch_count - 1) % 2];
    if (tuner->tuner.state == TUNER_DONE) {
        return TUTTI_OK;
    }
    changes = tuner_step(&tuner->tuner, ns);
    *searched = tuner->tuner.state == TUNER_DONE;
    return changes ? leave_to_tune(negotiator, plan) : TUTTI_OK;
}

void plan_tune_left(
        struct negotiator *negotiator, const struct plan *plan, enum plan_exit why)
{
    struct plan_tuner *tuner = negotiator->config.tuner;

    if (tuner != NULL && plan->lane == tuner->lane &&
            (why == PLAN_EXIT_JOIN || why == PLAN_EXIT_FINALIZE ||
                    why == PLAN_EXIT_FOLLOWED)) {
        tuner_stop(&tuner->tuner);
    }
}
