/*
 * Where the buffers of a submission lie, and what must have been done before they are
 * touched. On the thread that submits; no lock held, because the device's driver is called.
 */
#ifndef TUTTI_RUN_BUFFERS_H
#define TUTTI_RUN_BUFFERS_H

#include <tutti/tutti.h>

#include "ops/op.h"

struct submission;
struct tutti;

/**
 * Fills meta.space and meta.spot, and `after` when it lies on the device. Does nothing where there is no
 * device. A tensor that is empty on all ranks is on the host.
 * @param set    of the submission
 * @param events  false: in a group, which records its events when it ends
 * @return TUTTI_OK, TUTTI_ERR_INVALID, TUTTI_ERR_NO_MEMORY, TUTTI_ERR_SYSTEM (the device is
 *         lost)
 */
TUTTI_MUST_USE tutti_status buffers_place(struct tutti *t,
        struct submission *submission, const struct op_set *set, bool events);
/** Gives `after` back, of a submission that was refused. */
void buffers_drop(struct tutti *t, struct submission *submission);

#endif
