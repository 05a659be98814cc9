/*
 * The engine: one turn takes submissions in, moves control messages, negotiates, plans,
 * launches and completes. It has no thread of its own: whoever drives it (core/driver.h)
 * calls engine_turn().
 */
#ifndef TUTTI_CORE_ENGINE_H
#define TUTTI_CORE_ENGINE_H

#include <stdbool.h>

#include <tutti/tutti.h>

struct tutti;

/** First byte of every control message of a running context. */
enum envelope_kind {
    ENVELOPE_SET = 1, /* varint set id, then a message of its negotiator  */
    ENVELOPE_ABORT = 2, /* varint rank + 1, text: the job has failed        */
    ENVELOPE_ORDER = 3, /* tickets: core/order.c                             */
    ENVELOPE_ASK = 4 /* for tickets: core/order.c                         */
};

/** One turn. Sets *moved when anything happened. A failure fails the context. */
void engine_turn(struct tutti *t, bool *moved);

/** True while a device is at work, which rings for nobody. Only for who drives. */
bool engine_must_poll(const struct tutti *t);
/** True when every message sent has left this rank. */
bool engine_is_flushed(const struct tutti *t);

#endif
