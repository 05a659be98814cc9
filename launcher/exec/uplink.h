/*
 * The connection of a supervisor to tuttirun: what is put into uplink_out() goes over it, and
 * heartbeats do both ways. One thread.
 */
#ifndef TUTTI_LAUNCHER_EXEC_UPLINK_H
#define TUTTI_LAUNCHER_EXEC_UPLINK_H

#include <stdbool.h>
#include <stdint.h>

#include <tutti/tutti.h>

#include "launcher/exec/handshake.h"
#include "launcher/session/link_address.h"
#include "launcher/session/session.h"

struct uplink {
    struct link_address address; /* of tuttirun                                 */
    struct rank rank; /* the rank of this supervisor                           */
    struct orders orders; /* of tuttirun                                       */
    struct session session; /* with tuttirun; lost: tuttirun is                */
    int64_t heard; /* when its last beat came                                  */
    uint64_t echo; /* the time in that beat                                    */
    int64_t beat_due; /* the next one of ours; INT64_MAX: tuttirun is lost      */
    void (*obey)(void *owner, const struct link_message *message, int64_t now);
    void *owner; /* argument of obey()                                         */
};

/** What uplink_fini() takes before there is one. */
extern const struct uplink uplink_none;

/**
 * Connects to tuttirun.
 * @param join  the value of LINK_VARIABLE
 * @param[out] uplink  released with uplink_fini() in every case
 * @return TUTTI_OK, TUTTI_ERR_INVALID, TUTTI_ERR_SYSTEM (tuttirun is not reached),
 *         TUTTI_ERR_PROTOCOL (it does not answer as it should), TUTTI_ERR_NO_MEMORY
 */
TUTTI_MUST_USE tutti_status uplink_join(
        struct uplink *uplink, const char *join, const struct rank *rank);
/** From now on the loop calls obey() for each message; for those that have come already, this does. */
void uplink_begin(struct uplink *uplink, struct loop *loop, int64_t now);
void uplink_fini(struct uplink *uplink);

/** Frames for tuttirun are put here. */
static inline struct wire_writer *uplink_out(struct uplink *uplink)
{
    return &uplink->session.out;
}
static inline bool uplink_is_lost(const struct uplink *uplink)
{
    return session_is_lost(&uplink->session);
}
/** tuttirun reads less than is sent. */
bool uplink_is_full(const struct uplink *uplink);
/** Closes the connection: tuttirun is lost. */
void uplink_lose(struct uplink *uplink);
/**
 * Sends what waits, and a beat when it is due.
 * @param state  of the program, for the beat (struct link_beat)
 */
void uplink_step(
        struct uplink *uplink, int64_t now, uint8_t (*state)(const void *owner));

#endif
