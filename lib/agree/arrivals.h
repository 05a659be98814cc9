/*
 * Arrivals at planned batches, in messages: arrival_wire.c, plan_arrivals.c, plan_direct.c.
 */
#ifndef TUTTI_AGREE_ARRIVALS_H
#define TUTTI_AGREE_ARRIVALS_H

#include "agree/negotiator.h"

/** An arrival in a message. */
struct arrival_message {
    uint32_t lane;
    uint64_t epoch;
    struct plan *plan; /* that it is about; NULL: there is none of that epoch */
    struct arrival arrival;
};

void arrival_put(struct wire_writer *out, const struct plan *plan,
        const struct arrival *arrival);
/** @return false: malformed */
bool arrival_get(const struct negotiator *negotiator, struct wire_reader *in,
        struct arrival_message *message);
/** Tells all members what this rank has contributed: it arrived at `batch`, or an exit (NULL). */
void direct_put(struct negotiator *negotiator, const struct plan *plan,
        const struct arrival *arrival, const struct plan_batch *batch);

tutti_status arrivals_receive_up(
        struct negotiator *negotiator, int from, struct wire_reader *in);
tutti_status arrivals_receive_down(
        struct negotiator *negotiator, int from, struct wire_reader *in);
/** Tells what is new; at the coordinator, applies it, too. */
tutti_status arrivals_flush(struct negotiator *negotiator);

/** Sends what this rank has contributed. */
tutti_status direct_flush(struct negotiator *negotiator);
tutti_status direct_receive(
        struct negotiator *negotiator, int from, struct wire_reader *in);
/** What members have contributed to an epoch before this rank has read that it begins. */
void direct_begin_epoch(struct negotiator *negotiator, struct plan *plan);

#endif
