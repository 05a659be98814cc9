/*
 * A supervisor's view of the memory in which its rank keeps what it commits
 * (trainer/elastic/control.h).
 */
#ifndef TUTTI_LAUNCHER_EXEC_KEEP_H
#define TUTTI_LAUNCHER_EXEC_KEEP_H

#include <stdint.h>

#include <tutti/tutti.h>

#include "launcher/arguments.h"
#include "launcher/exec/uplink.h"
#include "trainer/elastic/control.h"

/** With fd -1, and else zeroed, there is none. */
struct keep {
    int fd; /* owned; inherited by the program        */
    struct elastic_control *control; /* mapped */
    uint32_t generation; /* of the job */
};

/**
 * Gets it of the keeper of this host, and tells the program by ELASTIC_VARIABLE.
 * @return TUTTI_OK, TUTTI_ERR_SYSTEM, TUTTI_ERR_INVALID (the starter does not say which of the
 *         host's ranks this is)
 */
TUTTI_MUST_USE tutti_status keep_open(
        struct keep *keep, const struct uplink *uplink, struct arguments *environment);
void keep_fini(struct keep *keep);

/** Tells the rank (tutti_notice). */
void keep_notice(struct keep *keep, uint32_t notice);
/** The newest commit that counts; 0: none. */
uint64_t keep_committed(const struct keep *keep);

#endif
