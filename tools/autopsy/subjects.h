/*
 * The names of a job: for each, what every rank has recorded of it.
 */
#ifndef TUTTI_TOOLS_AUTOPSY_SUBJECTS_H
#define TUTTI_TOOLS_AUTOPSY_SUBJECTS_H

#include "tools/autopsy/analysis.h"

/** A name in a process set. */
struct subject {
    const struct recorded_tensor **of; /* of each recording, or NULL; the last use  */
    const char *members; /* of its set, as text; NULL: all ranks              */
};

/** Is given each name in turn. */
typedef void (*subject_visitor)(
        void *context, const struct recorded_job *job, const struct subject *subject);

/** @return TUTTI_OK, TUTTI_ERR_NO_MEMORY */
TUTTI_MUST_USE tutti_status subjects_visit(
        const struct recorded_job *job, subject_visitor visit, void *context);

/** True when a rank is in the set of the subject. */
bool subject_has(const struct subject *subject, int rank);
/** True when a rank has submitted it, and it is not over. */
bool subject_waits(const struct subject *subject, size_t at);
/** True when a rank has not submitted what another one, `asked`, has. */
bool subject_misses(const struct subject *subject, const struct recorded_job *job,
        size_t at, const struct recorded_tensor *asked);
/** What waits for the others with the newest round, or NULL. */
const struct recorded_tensor *subject_asked(
        const struct subject *subject, size_t ranks);

#endif
