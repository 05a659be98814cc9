/*
 * From the log to the dispatcher: what one turn of a set's log decided is failed,
 * completed at once (barriers, empty tensors, process sets) or planned into batches.
 * Engine only.
 */
#ifndef TUTTI_CORE_READY_H
#define TUTTI_CORE_READY_H

#include <tutti/tutti.h>

struct tutti;
struct process_set;

/** Takes the outcomes of the set's negotiator. Errors fail the context. */
tutti_status ready_take(struct tutti *t, struct process_set *set);

#endif
