/*
 * From the intake to agreement: submissions are announced to the negotiator of their set.
 * Engine only.
 */
#ifndef TUTTI_RUN_TAKE_IN_H
#define TUTTI_RUN_TAKE_IN_H

#include <stdbool.h>

#include <tutti/tutti.h>

struct tutti;

/** Announces what has been submitted since. Sets *moved when anything was. Errors fail the context. */
tutti_status take_in_submissions(struct tutti *t, bool *moved);

#endif
