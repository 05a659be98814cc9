/*
 * Where the buffers of a submission lie, and what must have been done before they are
 * touched. On the thread that submits; no lock held, because the driver is called.
 */
#ifndef TUTTI_CORE_PLACEMENT_H
#define TUTTI_CORE_PLACEMENT_H

#include <tutti/tutti.h>

#include "ops/op.h"

struct submission;
struct tutti;

/**
 * Fills meta.space, and `after` when it lies on the device. Does nothing where there is no
 * device.
 *
 * Both buffers must lie in one space. A rank that gives and takes nothing has no memory that
 * could tell: then what an address points to counts, though no byte there is used, and then
 * whether there is a stream. A tensor that is empty on all ranks is on the host.
 * @param set    of the submission
 * @param marks  false: in a group, which makes its marks when it ends
 * @return TUTTI_OK, TUTTI_ERR_INVALID, TUTTI_ERR_NO_MEMORY, TUTTI_ERR_SYSTEM (the device is
 *         lost)
 */
TUTTI_MUST_USE tutti_status placement_find(struct tutti *t,
        struct submission *submission, const struct op_set *set, bool marks);
/** Gives `after` back, of a submission that was refused. */
void placement_drop(struct tutti *t, struct submission *submission);

#endif
