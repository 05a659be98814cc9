/*
 * The other ranks of the UCX fabric: their addresses, endpoints and ends.
 */
#ifndef TUTTI_FABRIC_UCX_PEERS_H
#define TUTTI_FABRIC_UCX_PEERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <ucp/api/ucp.h>

#include "boot/boot.h"
#include "fabric/ucx/watch.h"

struct ucx_peer {
    ucp_ep_h endpoint; /* NULL: none yet */
    int descriptor; /* of its process, where that is on this host; -1: none. Owned */
    struct watched process;
    bool is_watched; /* its endpoint may use transports that notice no end */
    bool is_lost; /* its process, or the connection to it, has ended */
    bool has_left; /* it has said goodbye */
    ucs_status_t why; /* it is lost */
};

struct ucx {
    ucp_context_h context; /* owned */
    ucp_worker_h worker; /* owned */
    struct watch watch; /* where `watches` is true */
    bool watches;
    int rank;
    int size;
    struct ucx_peer *peers; /* [size]; owned */
    uint8_t *addresses; /* [size + 1][address_bytes], the last this rank's; owned */
    size_t address_bytes;
    int ends_seen; /* of watch.ends */
    int deaths; /* peers that are lost and had not said goodbye */
    struct ucx_request *goodbye; /* the next one to come, from any; owned */
};

/**
 * Exchanges addresses. Collective in the boot, also for a rank whose status is an error.
 * @return TUTTI_OK, `mine`, errors of the boot, TUTTI_ERR_SYSTEM; TUTTI_ERR_MPI: another rank
 *         has failed; TUTTI_ERR_NO_MEMORY: so early that nothing was said
 */
tutti_status peers_meet(struct ucx *ucx, const struct boot *boot, tutti_status mine);
/** Makes sure that there is an endpoint. @return TUTTI_OK, as peers_error() */
tutti_status peers_connect(struct ucx *ucx, int rank);
/** Sets the error of a rank that UCX has given a code for; it names the rank. */
tutti_status peers_error(const struct ucx *ucx, int rank, ucs_status_t code);
/** A rank has said goodbye. */
void peers_leave(struct ucx *ucx, int rank);
/** Takes in ends that the watch has seen. @return true when a peer has died */
bool peers_look(struct ucx *ucx);
/** @return TUTTI_OK; an error that names a rank that has died */
tutti_status peers_check(const struct ucx *ucx);
/** Ends all connections at once. */
void peers_disconnect(struct ucx *ucx);
/** Frees the rest, after the watch. */
void peers_fini(struct ucx *ucx);

#endif
