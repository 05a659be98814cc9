/*
 * Completion: the last step of a work. Engine only.
 */
#ifndef TUTTI_CORE_COMPLETION_H
#define TUTTI_CORE_COMPLETION_H

#include "core/work.h"

struct tutti;

/**
 * Ends works (a list over next) whose status and error are set: frees their names, wakes
 * those who wait, runs callbacks with no lock held.
 */
void completion_finish(struct tutti *t, struct work *works);

/** Sets the outcome of a work; error (may be NULL) is taken. */
void completion_set(struct work *work, tutti_status status, struct error *error);

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
