/*
 * A rank's record: what is the same for all whose process numbers it understands (the kernel
 * and its namespace), its process number, and UCX's address of its worker.
 */
#include "fabric/ucx/peers.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/digest.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/wire.h"
#include "topo/machine.h"

/* Longer than any that UCX makes; a boot that tells of more is broken. */
#define RECORD_MAX ((uint64_t)1 << 20)

struct record {
    uint64_t kernel;
    int process;
    const uint8_t *address;
};

static void record_read(const struct ucx *ucx, int rank, struct record *record)
{
    struct wire_reader in;

    wire_reader_init(
            &in, ucx->records + (size_t)rank * ucx->record_bytes, ucx->record_bytes);
    record->kernel = wire_get_u64(&in);
    record->process = (int)wire_get_u32(&in);
    record->address = wire_get_bytes(&in, wire_left(&in));
}

static uint64_t own_kernel(void)
{
    char text[256] = "";
    struct stat space = { 0 };
    size_t len;

    machine_identity(text, sizeof text);
    (void)stat("/proc/self/ns/pid", &space);
    len = strlen(text);
    (void)snprintf(text + len, sizeof text - len, " %ju", (uintmax_t)space.st_ino);
    return digest(text, strlen(text));
}

static tutti_status record_write(const struct ucx *ucx, struct wire_writer *out)
{
    ucp_address_t *address = NULL;
    size_t bytes = 0;
    const ucs_status_t code = ucp_worker_get_address(ucx->worker, &address, &bytes);

    if (code != UCS_OK) {
        return error_set(TUTTI_ERR_MPI, "UCX has no address for this rank: %s",
                ucs_status_string(code));
    }
    wire_put_u64(out, own_kernel());
    wire_put_u32(out, (uint32_t)getpid());
    wire_put_bytes(out, address, bytes);
    ucp_worker_release_address(ucx->worker, address);
    return out->failed ? error_set(TUTTI_ERR_NO_MEMORY, "no memory for an address")
                       : TUTTI_OK;
}

/* ---------------------------------------------------------------------- the start */

/*
 * All hear how long everybody's is; 0: that rank has failed.
 * @param[out] most  the longest
 */
static tutti_status gather_lengths(
        const struct boot *boot, uint64_t mine, tutti_status status, uint64_t *most)
{
    uint64_t *lengths = mem_calloc((size_t)boot->size, sizeof *lengths);
    tutti_status gathered;

    if (lengths == NULL) {
        /* The others wait for this rank until the boot gives up. */
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory for %d ranks", boot->size);
    }
    gathered = boot->allgather(boot->user, &mine, lengths, sizeof mine);
    status = status == TUTTI_OK ? gathered : status;
    *most = 0;
    for (int r = 0; r < boot->size && status == TUTTI_OK; r++) {
        *most = lengths[r] > *most ? lengths[r] : *most;
        if (lengths[r] == 0 || lengths[r] > RECORD_MAX) {
            status = error_set(TUTTI_ERR_MPI,
                    "rank %d could not start UCX; its own message says why", r);
        }
    }
    mem_free(lengths);
    return status;
}

static tutti_status gather_records(
        struct ucx *ucx, const struct boot *boot, struct wire_writer *mine)
{
    size_t bytes;

    ucx->peers = mem_calloc((size_t)ucx->size, sizeof *ucx->peers);
    if (!size_mul((size_t)ucx->size, ucx->record_bytes, &bytes) || ucx->peers == NULL ||
            !wire_writer_reserve(mine, ucx->record_bytes - mine->len)) {
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory for %d addresses", ucx->size);
    }
    for (int r = 0; r < ucx->size; r++) {
        ucx->peers[r].descriptor = -1;
    }
    ucx->records = mem_calloc(1, bytes);
    if (ucx->records == NULL) {
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory for %d addresses", ucx->size);
    }
    memset(mine->data + mine->len, 0, ucx->record_bytes - mine->len);
    return boot->allgather(boot->user, mine->data, ucx->records, ucx->record_bytes);
}

/* Also whether all have the addresses. */
static tutti_status confirm(const struct boot *boot, tutti_status mine)
{
    struct error error;
    uint64_t most = 0;
    tutti_status status;

    error_fill(&error, mine, boot->rank, "%s", tutti_last_error());
    status = gather_lengths(boot, mine == TUTTI_OK ? 1 : 0, TUTTI_OK, &most);
    return mine == TUTTI_OK ? status : error_raise(&error);
}

tutti_status peers_meet(struct ucx *ucx, const struct boot *boot, tutti_status mine)
{
    struct wire_writer own = { 0 };
    uint64_t most = 0;

    if (mine == TUTTI_OK) {
        mine = record_write(ucx, &own);
    }
    mine = gather_lengths(boot, mine == TUTTI_OK ? own.len : 0, mine, &most);
    if (mine == TUTTI_OK) {
        ucx->record_bytes = (size_t)most;
        mine = confirm(boot, gather_records(ucx, boot, &own));
    }
    wire_writer_fini(&own);
    return mine;
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

/* Where this is true its end is seen without UCX's help. */
static bool watch_peer(struct ucx *ucx, int rank, const struct record *record)
{
    struct ucx_peer *peer = &ucx->peers[rank];
    struct record own;

    record_read(ucx, ucx->rank, &own);
    if (peer->descriptor < 0 && record->kernel == own.kernel) {
        peer->descriptor = watch_process(&ucx->watch, record->process, &peer->process);
    }
    return peer->descriptor >= 0;
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
    struct record record;
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
    record_read(ucx, rank, &record);
    params.address = (const ucp_address_t *)record.address;
    peer->is_watched = watch_peer(ucx, rank, &record);
    if (peer->is_watched) {
        params.err_mode = UCP_ERR_HANDLING_MODE_NONE;
    }
    code = ucp_ep_create(ucx->worker, &params, &peer->endpoint);
    if (code != UCS_OK) {
        peer->endpoint = NULL;
        return peers_error(ucx, rank, code);
    }
    return TUTTI_OK;
}

bool peers_look(struct ucx *ucx)
{
    /* pairs with the release in watch_main(): which have ended */
    const int ends = atomic_load_explicit(&ucx->watch.ends, memory_order_acquire);

    for (int r = 0; r < ucx->size && ucx->ends_seen != ends; r++) {
        if (atomic_load_explicit(
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
    mem_free(ucx->records);
}
