/*
 * Completion: the last step of a work. Engine only.
 */
#ifndef TUTTI_CORE_COMPLETION_H
#define TUTTI_CORE_COMPLETION_H

#include "core/work.h"

struct device_mark;
struct tutti;

/**
 * Ends works (a list over next) whose status and error are set: frees their names, wakes
 * those who wait, runs callbacks with no lock held.
 */
void completion_finish(struct tutti *t, struct work *works);

/**
 * The commands of works (a list over next, RUNNING) are on streams: their names are free,
 * those who wait for a stream are woken, and they end when `mark` has passed, whose
 * reference is taken. Without a mark they end now.
 * @return TUTTI_OK, TUTTI_ERR_NO_MEMORY (the mark alone is gone)
 */
tutti_status completion_issue(
        struct tutti *t, struct work *works, struct device_mark *mark);

/** Lock held: ends works that were issued; returns those with callbacks, for the next. */
struct work *completion_publish(struct tutti *t, struct work *works);
/** Runs the callbacks of what that returned. No lock held. */
void completion_call_back(struct tutti *t, struct work *works);

/** Sets the outcome of a work; error (may be NULL) is taken. */
void completion_set(struct work *work, tutti_status status, struct error *error);

/** A copy for completion_set(); NULL when out of memory, then the status has to do. */
struct error *completion_copy_error(const struct error *from);

/** Ends one work. */
void completion_finish_one(
        struct tutti *t, struct work *work, tutti_status status, struct error *error);

/** Ends one work with an error in words. */
void completion_fail(
        struct tutti *t, struct work *work, tutti_status status, const char *text);

/** Ends every work that is not final, or of one set when that is not NULL. */
void completion_drain(struct tutti *t, const struct process_set *set,
        enum work_state last, const struct error *error);

#endif
