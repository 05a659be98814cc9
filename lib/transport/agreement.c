/*
 * Agreement along the tree of transport/bootstrap.c: the worst of what ranks found goes up,
 * and what the first rank has heard of all comes down.
 */
#include "transport/agreement.h"

#include <stdio.h>

#include "base/clock.h"

enum {
    AGREEMENT_TAG = 1, /* control messages have 0 */
    NAP_NS = 50000,
    CANCEL_POLLS = 1000
};

/* Who has failed how: the first of the worst counts. */
enum weight {
    WEIGHT_CAUSE,
    WEIGHT_CONSEQUENCE, /* it heard nonsense, or nothing, of another rank */
    WEIGHT_NONE
};

static enum weight weight_of(tutti_status status)
{
    if (status == TUTTI_OK) {
        return WEIGHT_NONE;
    }
    return status == TUTTI_ERR_PROTOCOL ? WEIGHT_CONSEQUENCE : WEIGHT_CAUSE;
}

static tutti_status give_up(
        struct agreement *agreement, const struct fabric *fabric, tutti_status status)
{
    struct error error;

    error_fill(&error, status, -1, "%s", error_last());
    fabric->ops->cancel(fabric->state, agreement->request, 1);
    for (int i = 0; i < CANCEL_POLLS; i++) {
        (void)!fabric->ops->test(fabric->state, agreement->request, 0, NULL);
    }
    agreement->is_left = !fabric->ops->let_go(fabric->state, agreement->request, 1);
    return error_raise(&error);
}

/* Waits for the message that was posted. */
static tutti_status settle(struct agreement *agreement, const struct fabric *fabric,
        tutti_status status, struct fabric_arrival *arrival)
{
    const int64_t since = clock_ns();

    while (status == TUTTI_OK) {
        status = fabric->ops->test(fabric->state, agreement->request, 0, arrival);
        if (status == TUTTI_OK) {
            return TUTTI_OK;
        }
        if (status == TUTTI_AGAIN) {
            clock_pause(since, NAP_NS);
            status = TUTTI_OK;
        }
    }
    return give_up(agreement, fabric, status);
}

static tutti_status tell(
        struct agreement *agreement, const struct fabric *fabric, int rank)
{
    return settle(agreement, fabric,
            fabric->ops->send(fabric->state, FABRIC_CONTROL, rank, AGREEMENT_TAG,
                    &agreement->mine, sizeof agreement->mine, agreement->request, 0),
            NULL);
}

static tutti_status hear(
        struct agreement *agreement, const struct fabric *fabric, int rank)
{
    struct fabric_arrival arrival;

    return settle(agreement, fabric,
            fabric->ops->receive(fabric->state, FABRIC_CONTROL, rank, AGREEMENT_TAG,
                    &agreement->heard, sizeof agreement->heard, agreement->request, 0),
            &arrival);
}

/* Children have higher ranks, and the lowest comes first. */
static tutti_status gather(struct agreement *agreement, const struct fabric *fabric)
{
    const int me = fabric->rank;
    tutti_status status = TUTTI_OK;

    for (int step = 1;
            status == TUTTI_OK && step < fabric->size - me && (me & step) == 0;
            step *= 2) {
        status = hear(agreement, fabric, me + step);
        if (status == TUTTI_OK && agreement->heard.weight < agreement->mine.weight) {
            agreement->mine = agreement->heard;
        }
    }
    if (status == TUTTI_OK && me > 0) {
        status = tell(agreement, fabric, me & (me - 1));
    }
    return status;
}

static tutti_status spread(struct agreement *agreement, const struct fabric *fabric)
{
    const int me = fabric->rank;
    tutti_status status = me == 0 ? TUTTI_OK : hear(agreement, fabric, me & (me - 1));

    if (status == TUTTI_OK && me > 0) {
        agreement->mine = agreement->heard;
    }
    for (int step = 1;
            status == TUTTI_OK && step < fabric->size - me && (me & step) == 0;
            step *= 2) {
        status = tell(agreement, fabric, me + step);
    }
    return status;
}

tutti_status agreement_reach(
        struct agreement *agreement, const struct fabric *fabric, tutti_status mine)
{
    struct agreement_verdict *verdict = &agreement->mine;
    tutti_status status;

    verdict->weight = (int32_t)weight_of(mine);
    verdict->rank = fabric->rank;
    verdict->status = mine;
    (void)snprintf(verdict->text, sizeof verdict->text, "%s", error_last());
    fabric->ops->clear(agreement->request, 1);
    status = gather(agreement, fabric);
    if (status == TUTTI_OK) {
        status = spread(agreement, fabric);
    }
    if (status != TUTTI_OK) {
        return status;
    }
    verdict->text[sizeof verdict->text - 1] = '\0';
    if (weight_of(mine) == WEIGHT_CAUSE || verdict->weight == WEIGHT_NONE) {
        return mine;
    }
    return error_set((tutti_status)verdict->status, "rank %d cannot start: %s",
            verdict->rank, verdict->text);
}
