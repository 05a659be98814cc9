/*
 * The beginning of a supervisor's session: it connects, sends HELLO, and gets its orders
 * in WELCOME.
 */
#ifndef TUTTI_LAUNCHER_EXEC_HANDSHAKE_H
#define TUTTI_LAUNCHER_EXEC_HANDSHAKE_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include <tutti/tutti.h>

#include "launcher/exec/host_metrics.h"
#include "launcher/exec/rank.h"
#include "launcher/session/link.h"
#include "launcher/session/link_address.h"

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
        const struct rank *rank, int64_t deadline, struct session *session,
        struct orders *orders);

#endif
