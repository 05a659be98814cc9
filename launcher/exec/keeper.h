/*
 * A keeper: a process that holds the memory in which the ranks of a host keep what they
 * commit, over all generations of an elastic job. The first supervisor of a host starts it. It
 * ends with its connection to tuttirun.
 */
#ifndef TUTTI_LAUNCHER_EXEC_KEEPER_H
#define TUTTI_LAUNCHER_EXEC_KEEPER_H

#include <stdint.h>

#include <tutti/tutti.h>

#include "launcher/session/meet.h"

/** Its name as a process, by which the end of a generation spares it. */
#define KEEPER_NAME "tutti-keeper"

/** How a keeper meets tuttirun: the secret is the token of the job. */
extern const struct meet_protocol keeper_protocol;

struct arguments;
struct elastic_control;
struct uplink;

/** With fd -1, and else zeroed, there is none. */
struct keep {
    int fd; /* owned; inherited by the program        */
    struct elastic_control *control; /* mapped */
    uint32_t generation; /* of the job */
};

/**
 * Gets it of the keeper of this host, which is started where there is none, and tells the program by ELASTIC_VARIABLE.
 * @return TUTTI_OK, TUTTI_ERR_SYSTEM (there is no keeper), TUTTI_ERR_INVALID (the MPI launcher does not say which of the
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
