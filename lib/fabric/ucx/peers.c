/*
 * Ranks meet in three rounds: what is in struct head; whether all have room for the addresses
 * and can watch their neighbours; UCX's addresses of their workers. A rank that fails says so
 * in the next round, after which nobody goes on.
 */
#include "fabric/ucx/peers.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/digest.h"
#include "base/error.h"
#include "base/mem.h"
#include "topo/machine.h"

/* Longer than any that UCX makes; a boot that tells of more is broken. */
#define ADDRESS_MAX ((uint64_t)1 << 20)

struct head {
    uint64_t length; /* of the address; in the second round 1. 0: the rank has failed */
    uint64_t kernel; /* equal: they can watch each other; 0: it can watch none */
    uint64_t process; /* its number */
};

static uint64_t own_kernel(void)
{
    char text[256] = "";
    struct stat space = { 0 };
    size_t len;

    if (!watch_can_watch()) {
        return 0;
    }
    machine_identity(text, sizeof text);
    (void)stat("/proc/self/ns/pid", &space);
    len = strlen(text);
    (void)snprintf(text + len, sizeof text - len, " %ju", (uintmax_t)space.st_ino);
    return digest(text, strlen(text));
}

/* ---------------------------------------------------------------------- the start */

/* A round of heads; `mine` is the status of this rank, whose error stays. */
static tutti_status say(const struct boot *boot, const struct head *head,
        struct head *heads, tutti_status mine)
{
    struct error error;
    tutti_status status;

    error_fill(&error, mine, boot->rank, "%s", tutti_last_error());
    status = boot->allgather(boot->user, head, heads, sizeof *head);
    if (mine != TUTTI_OK) {
        return error_raise(&error);
    }
    for (int r = 0; r < boot->size && status == TUTTI_OK; r++) {
        if (heads[r].length == 0 || heads[r].length > ADDRESS_MAX) {
            status = error_set(TUTTI_ERR_MPI,
                    "rank %d could not start UCX; its own message says why", r);
        }
    }
    return status;
}

static tutti_status make_room(
        struct ucx *ucx, const struct head *heads, const ucp_address_t *address)
{
    const size_t count = (size_t)ucx->size;
    size_t bytes;

    for (int r = 0; r < ucx->size; r++) {
        ucx->address_bytes = size_max(ucx->address_bytes, (size_t)heads[r].length);
    }
    ucx->peers = mem_calloc(count, sizeof *ucx->peers);
    for (int r = 0; r < ucx->size && ucx->peers != NULL; r++) {
        ucx->peers[r].descriptor = -1;
    }
    ucx->addresses = size_mul(count + 1, ucx->address_bytes, &bytes)
            ? mem_calloc(1, bytes)
            : NULL;
    if (ucx->peers == NULL || ucx->addresses == NULL) {
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory for the addresses of %d ranks",
                ucx->size);
    }
    memcpy(ucx->addresses + count * ucx->address_bytes, address,
            (size_t)heads[ucx->rank].length);
    return TUTTI_OK;
}

/*
 * The ends of those of this host are seen without UCX's help. All are watched before the job
 * begins: UCX's mode of a connection must be the same on both sides, and a rank that could not
 * watch another later could not tell it either.
 */
static tutti_status watch_near(struct ucx *ucx, const struct head *heads)
{
    const uint64_t kernel = heads[ucx->rank].kernel;

    for (int r = 0; r < ucx->size && kernel != 0; r++) {
        struct ucx_peer *peer = &ucx->peers[r];

        if (r == ucx->rank || heads[r].kernel != kernel) {
            continue;
        }
        peer->descriptor =
                watch_process(&ucx->watch, (int)heads[r].process, &peer->process);
        if (peer->descriptor < 0) {
            return error_set(TUTTI_ERR_SYSTEM,
                    "cannot watch the process of rank %d: %s (has it ended? is ulimit "
                    "-n too low?)",
                    r, strerrordesc_np(errno));
        }
        peer->is_watched = true;
    }
    return TUTTI_OK;
}

static tutti_status meet(
        struct ucx *ucx, const struct boot *boot, struct head *heads, tutti_status mine)
{
    struct head head = { .kernel = own_kernel(), .process = (uint64_t)getpid() };
    ucp_address_t *address = NULL;
    size_t length = 0;
    ucs_status_t code = UCS_OK;

    if (mine == TUTTI_OK) {
        code = ucp_worker_get_address(ucx->worker, &address, &length);
    }
    if (code != UCS_OK) {
        mine = error_set(TUTTI_ERR_MPI, "UCX has no address for this rank: %s",
                ucs_status_string(code));
    }
    head.length = length;
    mine = say(boot, &head, heads, mine);
    if (mine == TUTTI_OK && address != NULL) {
        mine = make_room(ucx, heads, address);
        mine = mine == TUTTI_OK ? watch_near(ucx, heads) : mine;
        head.length = mine == TUTTI_OK ? 1 : 0;
        mine = say(boot, &head, heads, mine);
    }
    if (mine == TUTTI_OK) {
        mine = boot->allgather(boot->user,
                ucx->addresses + (size_t)ucx->size * ucx->address_bytes, ucx->addresses,
                ucx->address_bytes);
    }
    if (address != NULL) {
        ucp_worker_release_address(ucx->worker, address);
    }
    return mine;
}

tutti_status peers_meet(struct ucx *ucx, const struct boot *boot, tutti_status mine)
{
    struct head *heads = mem_calloc((size_t)boot->size, sizeof *heads);

    if (heads == NULL) { /* nothing is said */
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory for %d ranks", boot->size);
    }
    mine = meet(ucx, boot, heads, mine);
    mem_free(heads);
    return mine == TUTTI_ERR_NO_MEMORY ? TUTTI_ERR_SYSTEM : mine;
}

/* -------------------------------------------------------------------- connections */

static void lose(struct ucx *ucx, struct ucx_peer *peer, ucs_status_t why)
{
    if (!peer->is_lost) {
        peer->is_lost = true;
        peer->why = why;
        ucx->deaths += peer->has_left ? 0 : 1;
    }
}

void peers_leave(struct ucx *ucx, int rank)
{
    struct ucx_peer *peer = &ucx->peers[rank];

    ucx->deaths -= peer->is_lost && !peer->has_left ? 1 : 0;
    peer->has_left = true;
}

static void connection_lost(void *user, ucp_ep_h endpoint, ucs_status_t why)
{
    struct ucx *ucx = user;

    for (int r = 0; r < ucx->size; r++) {
        if (ucx->peers[r].endpoint == endpoint) {
            lose(ucx, &ucx->peers[r], why);
        }
    }
}

tutti_status peers_error(const struct ucx *ucx, int rank, ucs_status_t code)
{
    const struct ucx_peer *peer = &ucx->peers[rank];

    if (code == UCS_ERR_NO_MEMORY) {
        return error_set(
                TUTTI_ERR_NO_MEMORY, "no memory for a message to rank %d", rank);
    }
    if (code == UCS_ERR_UNREACHABLE) {
        return error_set(TUTTI_ERR_MPI,
                "UCX has no way to rank %d; are UCX_TLS and UCX_NET_DEVICES right on "
                "both hosts?",
                rank);
    }
    return error_set(TUTTI_ERR_MPI, "rank %d is gone: %s (UCX: %s)", rank,
            atomic_load_explicit(&peer->process.has_ended, memory_order_relaxed)
                    ? "its process has ended"
                    : "its connection has ended",
            ucs_status_string(code));
}

tutti_status peers_connect(struct ucx *ucx, int rank)
{
    struct ucx_peer *peer = &ucx->peers[rank];
    ucp_ep_params_t params = { .field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS |
                UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER,
        .err_mode = UCP_ERR_HANDLING_MODE_PEER,
        .err_handler = { .cb = connection_lost, .arg = ucx } };
    ucs_status_t code;

    if (peer->is_lost) {
        return peers_error(ucx, rank, peer->why);
    }
    if (peer->endpoint != NULL) {
        return TUTTI_OK;
    }
    params.address =
            (const ucp_address_t *)(ucx->addresses + (size_t)rank * ucx->address_bytes);
    if (peer->is_watched) {
        params.err_mode = UCP_ERR_HANDLING_MODE_NONE;
    }
    code = ucp_ep_create(ucx->worker, &params, &peer->endpoint);
    if (code != UCS_OK) {
        peer->endpoint = NULL;
        return peers_error(ucx, rank, code);
    }
    ucx->ends_seen = -1; /* it may have ended before */
    return TUTTI_OK;
}

bool peers_look(struct ucx *ucx)
{
    /* pairs with the release in watch_main(): which have ended */
    const int ends = atomic_load_explicit(&ucx->watch.ends, memory_order_acquire);

    /* Where there is no connection nobody says "I leave". */
    for (int r = 0; r < ucx->size && ucx->ends_seen != ends; r++) {
        if (ucx->peers[r].endpoint != NULL &&
                atomic_load_explicit(
                        &ucx->peers[r].process.has_ended, memory_order_relaxed)) {
            lose(ucx, &ucx->peers[r], UCS_ERR_CONNECTION_RESET);
        }
    }
    ucx->ends_seen = ends;
    return ucx->deaths > 0;
}

tutti_status peers_check(const struct ucx *ucx)
{
    for (int r = 0; r < ucx->size && ucx->deaths > 0; r++) {
        if (ucx->peers[r].is_lost && !ucx->peers[r].has_left) {
            return peers_error(ucx, r, ucx->peers[r].why);
        }
    }
    return TUTTI_OK;
}

/* ------------------------------------------------------------------------- the end */

static void disconnect(const struct ucx *ucx, ucp_ep_h endpoint)
{
    const ucp_request_param_t at_once = { .op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS,
        .flags = UCP_EP_CLOSE_FLAG_FORCE };
    ucs_status_ptr_t closing = ucp_ep_close_nbx(endpoint, &at_once);

    if (UCS_PTR_IS_PTR(closing)) {
        while (ucp_request_check_status(closing) == UCS_INPROGRESS) {
            (void)ucp_worker_progress(ucx->worker);
        }
        ucp_request_free(closing);
    }
}

/* Those of this host, which UCX may not break off, end with the worker. */
void peers_disconnect(struct ucx *ucx)
{
    for (int r = 0; r < ucx->size && ucx->peers != NULL; r++) {
        if (ucx->peers[r].endpoint != NULL && !ucx->peers[r].is_watched) {
            disconnect(ucx, ucx->peers[r].endpoint);
        }
    }
}

void peers_fini(struct ucx *ucx)
{
    for (int r = 0; r < ucx->size && ucx->peers != NULL; r++) {
        if (ucx->peers[r].descriptor >= 0) {
            (void)close(ucx->peers[r].descriptor);
        }
    }
    mem_free(ucx->peers);
    mem_free(ucx->addresses);
}
