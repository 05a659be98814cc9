/*
 * The beginning of a supervisor's session: it connects, says who it is, and hears what it
 * has to do.
 */
#ifndef TUTTI_LAUNCHER_EXEC_HANDSHAKE_H
#define TUTTI_LAUNCHER_EXEC_HANDSHAKE_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include <tutti/tutti.h>

#include "launcher/exec/rank.h"
#include "launcher/session/link.h"

enum {
    HANDSHAKE_JOB_MAX = 256 /* bytes of a job's name with its zero */
};

/** What tuttirun wants: a link_welcome that owns its texts. */
struct orders {
    char job[HANDSHAKE_JOB_MAX];
    char log_folder[PATH_MAX]; /* "": none                     */
    int64_t beat_ns; /* between beats                          */
    int64_t silent_ns; /* without a beat, tuttirun is lost         */
    uint32_t kill_ms; /* between SIGTERM and SIGKILL             */
    uint64_t output_rate; /* bytes per second; 0: no limit       */
    bool forward; /* send OUTPUT                                 */
};

/**
 * @param join  the value of LINK_VARIABLE
 * @param[out] session  released with session_fini() in every case
 * @return TUTTI_OK, TUTTI_ERR_INVALID, TUTTI_ERR_SYSTEM (tuttirun is not reached),
 *         TUTTI_ERR_PROTOCOL (it does not answer as it should), TUTTI_ERR_NO_MEMORY
 */
TUTTI_MUST_USE tutti_status handshake(const char *join, const struct rank *rank,
        struct session *session, struct orders *orders);

#endif
