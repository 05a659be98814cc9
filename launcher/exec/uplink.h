/*
 * The connection of a supervisor to tuttirun: what is put into uplink_out() goes over it, and
 * heartbeats do both ways. One thread.
 */
#ifndef TUTTI_LAUNCHER_EXEC_UPLINK_H
#define TUTTI_LAUNCHER_EXEC_UPLINK_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include <tutti/tutti.h>

#include "launcher/exec/host_metrics.h"
#include "launcher/exec/rank.h"
#include "launcher/session/link.h"
#include "launcher/session/session.h"

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
    uint8_t forward[2]; /* how OUTPUT is sent, enum link_forward      */
    uint32_t generation; /* of an elastic job; 0: it is none     */
    uint16_t keeper_port; /* where keepers call tuttirun          */
    bool tells; /* METRICS, every second                        */
    bool waits; /* with the program, for GO                       */
    struct metrics_orders metrics; /* of the host's ranks                   */
};

/** The protocol and the HELLO of who connects. */
struct handshake_offer {
    const struct meet_protocol *protocol;
    const void *hello;
    size_t len;
};

/**
 * Connects, and both sides prove that they know the token. Again where the other side closes the
 * connection: among many strangers one may be dropped before he could prove who he is.
 * @return the last outcome; MEET_FAILED also where it is not reached. The rest as handshake()
 */
TUTTI_MUST_USE enum meet_outcome handshake_meet(const struct link_address *address,
        const struct handshake_offer *offer, int64_t deadline, struct session *session,
        struct frame *frame);
/**
 * @param address  of tuttirun; borrowed until the session has met
 * @param deadline  monotonic, ns
 * @param[out] session  released with session_fini() in every case
 * @return TUTTI_OK, TUTTI_ERR_SYSTEM (it is not reached; errno says why),
 *         TUTTI_ERR_PROTOCOL (it does not answer as it should), TUTTI_ERR_NO_MEMORY
 */
TUTTI_MUST_USE tutti_status handshake(const struct link_address *address,
        const struct rank_place *rank, int64_t deadline, struct session *session,
        struct orders *orders);

struct uplink {
    struct link_address address; /* of tuttirun                                 */
    struct rank_place rank; /* the rank of this supervisor                           */
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
        struct uplink *uplink, const char *join, const struct rank_place *rank);
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
