/*
 * How a supervisor is connected to tuttirun. In most jobs that is one session, and what is
 * put into uplink_out() goes over it. In a job on more hosts than --fan-out a supervisor is
 * a relay as well: it listens, and those that tuttirun sends to it are connected to tuttirun
 * over it:
 *
 *     tuttirun --- relay --- relay --- supervisor
 *                    |         `------ supervisor
 *                    `------ supervisor
 *
 * Each keeps what it has said until tuttirun has it, since it may be lost with a relay.
 * Who loses its relay, or does not hear it, calls tuttirun, which gives it another place; those
 * below it stay where they are. One thread.
 *
 *   uplink.c         what is said and heard
 *   uplink_join.c    the way to tuttirun: the first time, and again
 *   uplink_relay.c   those below
 */
#ifndef TUTTI_LAUNCHER_EXEC_UPLINK_H
#define TUTTI_LAUNCHER_EXEC_UPLINK_H

#include <stdbool.h>
#include <stdint.h>

#include <tutti/tutti.h>

#include "launcher/exec/handshake.h"
#include "launcher/session/link_address.h"
#include "launcher/session/server.h"

struct uplink {
    struct link_address address; /* of tuttirun                                  */
    struct rank rank; /* whose supervisor it is                                 */
    struct orders orders; /* of tuttirun                                          */
    struct loop *loop; /* borrowed; NULL: it has not begun                       */
    struct session session; /* with tuttirun, or with a relay                      */
    bool is_direct; /* it is with tuttirun                                   */
    bool is_lost; /* there is no way to tuttirun any more                    */
    bool is_released; /* tuttirun needs it no longer                            */
    int64_t heard; /* when the last beat came over it                         */
    int64_t heard_tuttirun; /* the same, less what a relay has not heard of tuttirun */
    uint64_t echo; /* its time                                               */
    int64_t beat_due; /* the next one                                          */
    void (*obey)(void *owner, const struct link_message *message, int64_t now);
    void *owner; /* for it: what tuttirun says is for                          */

    /* Only with a fan-out, down to the end. */
    struct wire_writer own; /* frames of this supervisor that tuttirun may not have  */
    uint64_t own_start; /* bytes of frames before them                            */
    size_t own_sent; /* bytes of them that are in envelopes                        */
    struct offset offset; /* of the clock of who is above                          */
    struct link_clock clock_above; /* what that says of its clock                     */
    struct server below; /* supervisors that this one is the relay of                */
    struct server_link **routes; /* by rank: where it was last heard; owned          */
    size_t route_capacity; /* allocated; those not known are NULL                     */
    bool is_between; /* tuttirun was called for a place, which it has not taken yet  */
    bool is_refused; /* tuttirun is not there, or does not take it                */
    int64_t next_try; /* to find another place                                  */
    int64_t release_due; /* those below are not waited for any longer            */
};

/** What uplink_fini() takes before there is one. */
extern const struct uplink uplink_none;

/**
 * Finds tuttirun, and the place that it gives.
 * @param join  the value of LINK_VARIABLE
 * @param[out] uplink  released with uplink_fini() in every case
 * @return TUTTI_OK, TUTTI_ERR_INVALID, TUTTI_ERR_SYSTEM (tuttirun is not reached),
 *         TUTTI_ERR_PROTOCOL (it does not answer as it should), TUTTI_ERR_NO_MEMORY
 */
TUTTI_MUST_USE tutti_status uplink_join(
        struct uplink *uplink, const char *join, const struct rank *rank);
/** From now on the loop's calls obey tuttirun; what has come already is obeyed at once. */
void uplink_begin(struct uplink *uplink, struct loop *loop, int64_t now);
void uplink_fini(struct uplink *uplink);

/** Where frames for tuttirun are put. */
static inline struct wire_writer *uplink_out(struct uplink *uplink)
{
    return uplink->address.fan_out > 0 ? &uplink->own : &uplink->session.out;
}
/** tuttirun takes less than is said. */
bool uplink_is_full(const struct uplink *uplink);
/** Nothing more is said or heard: tuttirun is lost. */
void uplink_lose(struct uplink *uplink);
/** True while others need it to reach tuttirun. */
bool uplink_is_needed(const struct uplink *uplink, int64_t now);
/**
 * Sends what is to be sent, beats and what others said included, and looks for another
 * place where there is need.
 * @param looked  when was last looked for what has come
 * @param state   of the program, for the beat (struct link_beat)
 */
void uplink_step(struct uplink *uplink, int64_t looked, int64_t now,
        uint8_t (*state)(const void *owner));

/* Between the files. */

/** Reads the session; called by the loop. */
void uplink_hear(void *context, unsigned ready);
/**
 * Looks for another place when the relay is lost or silent.
 * @param[out] session  of the new place
 * @return 1: there is one; 0: not now; -1: tuttirun is lost
 */
int uplink_find_again(
        struct uplink *uplink, int64_t looked, int64_t now, struct session *session);
/** This clock and tuttirun's. */
struct link_clock uplink_clock(const struct uplink *uplink);
/** Listens for those below, who are heard from uplink_relay_begin() on. @return TUTTI_OK, TUTTI_ERR_SYSTEM */
TUTTI_MUST_USE tutti_status uplink_relay_open(struct uplink *uplink);
void uplink_relay_begin(struct uplink *uplink);
/** Passes an envelope to a rank below, or to all. */
void uplink_relay_down(struct uplink *uplink, int rank, const struct frame *frame);
/** Beats to those below. */
void uplink_relay_beat(struct uplink *uplink, int64_t now);
/** What those below are to be mentioned for, struct link_absence each. */
void uplink_relay_absences(
        const struct uplink *uplink, int64_t now, struct wire_writer *text);
/** Goes on where it had to wait for who is above, and notes whose connection ended first. */
void uplink_relay_step(struct uplink *uplink, int64_t now);

#endif
