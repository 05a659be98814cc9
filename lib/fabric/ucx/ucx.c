/*
 * A worker, tagged messages, and an endpoint to each rank that this one has sent to.
 *
 * Tags. UCX compares 64 bits:
 *
 *     sender's rank (32) | channel (8) | the message's tag (24)
 *
 * so a receive from any rank leaves out the first part. UCX keeps the order of messages of
 * one tag and pair of ranks, as fabric.h wants it.
 *
 * Deaths. To a rank on this host, whose process the watch has a descriptor of (watch.h),
 * endpoints may use shared memory, in which nothing is closed: UCX takes it only without
 * error handling. Other endpoints have UCP_ERR_HANDLING_MODE_PEER: UCX calls
 * connection_lost() when a connection ends, which over TCP is when the other kernel has
 * closed it, and over others at the next look, every KEEPALIVE. Control messages go along a
 * tree of all ranks and both ways, so every rank has a living one at the other end of an
 * endpoint. A rank that ends in good order says goodbye before, and its end is no death; that
 * may be read after the end is known, so everything that has come is read before the end is
 * believed.
 */
#include "fabric/ucx/ucx.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <ucp/api/ucp.h>
#include <ucs/config/global_opts.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/config.h"
#include "base/error.h"
#include "base/mem.h"
#include "fabric/ucx/peers.h"
#include "fabric/ucx/watch.h"

/* Between looks at connections that do not end by themselves. */
#define KEEPALIVE "1s"
/* How long the end waits for other ranks' goodbyes; after a failure, for its own to leave. */
#define GOODBYE_NS 2000000000
#define GOODBYE_FAILED_NS 50000000
#define NAP_NS 50000
/* Calls of UCX per poll while it finds something to do; and before an end is believed. */
#define PROGRESS_MAX 8
#define PROGRESS_ALL 10000

#define RANK_SHIFT 32
#define CHANNEL_SHIFT 24
#define CHANNEL_GOODBYE 255
#define MASK_RANK (UINT64_MAX << RANK_SHIFT)

enum request_state {
    REQUEST_FREE,
    REQUEST_OPEN,
    REQUEST_DONE
};

struct ucx_request {
    struct watch *watch; /* rings when it is done; while it is open */
    void *handle; /* UCX's, while it is open */
    enum request_state state;
    int peer; /* the sender of a receive that is done; the receiver of a send */
    size_t bytes; /* likewise */
    ucs_status_t status; /* of one that is done */
};

/* ------------------------------------------------------------------- requests */

static void clear(void *requests, int count)
{
    struct ucx_request *all = requests;

    for (int i = 0; i < count; i++) {
        all[i].state = REQUEST_FREE;
    }
}

static bool are_free(const void *requests, int count)
{
    const struct ucx_request *all = requests;

    for (int i = 0; i < count; i++) {
        if (all[i].state != REQUEST_FREE) {
            return false;
        }
    }
    return true;
}

/*
 * Any poll may complete any request, also one that this pass has looked at before, or whose
 * owner sleeps while another thread drives. UCX has nothing to report then: this rings.
 */
static void complete(
        struct ucx_request *request, enum request_state state, ucs_status_t status)
{
    request->state = state;
    request->status = status;
    watch_ring(request->watch);
}

static void sent(void *handle, ucs_status_t status, void *user)
{
    complete(user, REQUEST_DONE, status);
    ucp_request_free(handle);
}

static void received(
        void *handle, ucs_status_t status, const ucp_tag_recv_info_t *info, void *user)
{
    struct ucx_request *request = user;

    request->peer = (int)(info->sender_tag >> RANK_SHIFT);
    request->bytes = info->length;
    complete(request, status == UCS_ERR_CANCELED ? REQUEST_FREE : REQUEST_DONE, status);
    ucp_request_free(handle);
}

static uint64_t tag_of(int sender, int channel, int tag)
{
    return (uint64_t)(uint32_t)sender << RANK_SHIFT |
            (uint64_t)(uint32_t)channel << CHANNEL_SHIFT | (uint64_t)(uint32_t)tag;
}

static tutti_status post_send(struct ucx *ucx, int to, int channel, int tag,
        const void *buffer, size_t bytes, struct ucx_request *request)
{
    const ucp_request_param_t param = { .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK |
                UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_MEMORY_TYPE,
        .cb.send = sent,
        .user_data = request,
        .memory_type = UCS_MEMORY_TYPE_HOST };
    const tutti_status status = peers_connect(ucx, to);
    ucs_status_ptr_t made;

    if (status != TUTTI_OK) {
        return status;
    }
    request->state = REQUEST_OPEN;
    request->watch = &ucx->watch;
    request->peer = to;
    made = ucp_tag_send_nbx(ucx->peers[to].endpoint, buffer, bytes,
            tag_of(ucx->rank, channel, tag), &param);
    if (UCS_PTR_IS_ERR(made)) {
        request->state = REQUEST_FREE;
        return peers_error(ucx, to, UCS_PTR_STATUS(made));
    }
    request->handle = made;
    if (made == NULL) { /* it is gone */
        request->state = REQUEST_DONE;
        request->status = UCS_OK;
    }
    return TUTTI_OK;
}

/* received() is called in any case: only it is told who has sent what. */
static tutti_status post_receive(struct ucx *ucx, int from, int channel, int tag,
        void *buffer, size_t bytes, struct ucx_request *request)
{
    const ucp_request_param_t param = { .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK |
                UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_MEMORY_TYPE |
                UCP_OP_ATTR_FLAG_NO_IMM_CMPL,
        .cb.recv = received,
        .user_data = request,
        .memory_type = UCS_MEMORY_TYPE_HOST };
    const bool any = from == FABRIC_ANY;
    ucs_status_ptr_t made;

    request->state = REQUEST_OPEN;
    request->watch = &ucx->watch;
    made = ucp_tag_recv_nbx(ucx->worker, buffer, bytes,
            tag_of(any ? 0 : from, channel, tag), any ? ~MASK_RANK : UINT64_MAX,
            &param);
    if (UCS_PTR_IS_ERR(made)) {
        request->state = REQUEST_FREE;
        return error_set(TUTTI_ERR_NO_MEMORY, "UCX cannot receive: %s",
                ucs_status_string(UCS_PTR_STATUS(made)));
    }
    request->handle = made;
    return TUTTI_OK;
}

/*
 * Who has said goodbye wants nothing more. It may have left because the job has failed, and this
 * rank shall hear why from those that it told, and not fail here first.
 */
static tutti_status ucx_send(void *state, enum fabric_channel channel, int to, int tag,
        const void *buffer, size_t bytes, void *requests, int index)
{
    const struct ucx *ucx = state;
    struct ucx_request *request = &((struct ucx_request *)requests)[index];

    assert(tag >= 0 && tag <= FABRIC_TAG_MAX && bytes <= FABRIC_MESSAGE_MAX);
    if (ucx->peers[to].has_left) {
        request->state = REQUEST_DONE;
        request->status = UCS_OK;
        return TUTTI_OK;
    }
    return post_send(state, to, (int)channel, tag, buffer, bytes, request);
}

static tutti_status ucx_receive(void *state, enum fabric_channel channel, int from,
        int tag, void *buffer, size_t bytes, void *requests, int index)
{
    assert(tag >= 0 && tag <= FABRIC_TAG_MAX && bytes <= FABRIC_MESSAGE_MAX);
    return post_receive(state, from, (int)channel, tag, buffer, bytes,
            &((struct ucx_request *)requests)[index]);
}

static void ucx_cancel(void *state, void *requests, int count)
{
    const struct ucx *ucx = state;
    struct ucx_request *all = requests;

    for (int i = 0; i < count; i++) {
        if (all[i].state == REQUEST_OPEN) {
            ucp_request_cancel(ucx->worker, all[i].handle);
        }
    }
}

static bool ucx_let_go(void *state, void *requests, int count)
{
    struct ucx_request *all = requests;
    bool settled = true;

    (void)state;
    for (int i = 0; i < count; i++) {
        if (all[i].state == REQUEST_OPEN) {
            settled = false;
        } else {
            all[i].state = REQUEST_FREE;
        }
    }
    return settled;
}

/* ------------------------------------------------------------------------ polls */

/* One receive stands ready for the goodbyes of all. */
static tutti_status hear_goodbyes(struct ucx *ucx)
{
    struct ucx_request *goodbye = ucx->goodbye;
    tutti_status status = TUTTI_OK;

    while (status == TUTTI_OK && goodbye->state != REQUEST_OPEN) {
        if (goodbye->state == REQUEST_DONE && goodbye->peer < ucx->size) {
            peers_leave(ucx, goodbye->peer);
        }
        status = post_receive(ucx, FABRIC_ANY, CHANNEL_GOODBYE, 0, NULL, 0, goodbye);
    }
    return status;
}

static tutti_status progress(struct ucx *ucx, int calls)
{
    while (calls > 0 && ucp_worker_progress(ucx->worker) != 0) {
        calls--;
    }
    return hear_goodbyes(ucx);
}

/* Everything that has come is in its place; an error names a rank that has died. */
static tutti_status move(struct ucx *ucx)
{
    tutti_status status = progress(ucx, PROGRESS_MAX);

    if (status == TUTTI_OK && peers_look(ucx)) {
        status = progress(ucx, PROGRESS_ALL);
    }
    return status == TUTTI_OK ? peers_check(ucx) : status;
}

/* Likewise for what was under way to a rank that has said goodbye since. */
static tutti_status take(struct ucx *ucx, struct ucx_request *request)
{
    tutti_status status = TUTTI_OK;

    request->state = REQUEST_FREE;
    if (request->status == UCS_OK) {
        return TUTTI_OK;
    }
    status = progress(ucx, PROGRESS_ALL);
    if (status != TUTTI_OK || ucx->peers[request->peer].has_left) {
        return status;
    }
    return peers_error(ucx, request->peer, request->status);
}

static tutti_status ucx_poll(void *state, void *requests, int receives, int count,
        int *done, int *done_count)
{
    struct ucx_request *all = requests;
    tutti_status status = move(state);

    (void)receives;
    *done_count = 0;
    for (int i = 0; i < count && status == TUTTI_OK; i++) {
        if (all[i].state == REQUEST_DONE) {
            done[(*done_count)++] = i;
            status = take(state, &all[i]);
        }
    }
    return status;
}

static tutti_status ucx_test(
        void *state, void *requests, int index, struct fabric_arrival *arrival)
{
    struct ucx_request *request = &((struct ucx_request *)requests)[index];
    tutti_status status = TUTTI_OK;

    if (request->state == REQUEST_OPEN) {
        status = move(state);
    }
    if (request->state == REQUEST_OPEN) {
        return status == TUTTI_OK ? TUTTI_AGAIN : status;
    }
    if (arrival != NULL) {
        *arrival = (struct fabric_arrival){ .from = request->peer,
            .bytes = request->bytes };
    }
    return request->state == REQUEST_DONE ? take(state, request) : TUTTI_OK;
}

/* ----------------------------------------------------------------------- sleeping */

static void ucx_listen(void *state, struct doorbell *bell)
{
    watch_listen(&((struct ucx *)state)->watch, bell);
}

static bool ucx_arm(void *state)
{
    struct ucx *ucx = state;

    return !peers_look(ucx) && ucp_worker_arm(ucx->worker) == UCS_OK &&
            watch_arm(&ucx->watch);
}

static const struct fabric_ops ucx_ops = {
    .name = "ucx",
    .request_bytes = sizeof(struct ucx_request),
    .clear = clear,
    .are_free = are_free,
    .send = ucx_send,
    .receive = ucx_receive,
    .poll = ucx_poll,
    .test = ucx_test,
    .cancel = ucx_cancel,
    .let_go = ucx_let_go,
    .listen = ucx_listen,
    .arm = ucx_arm,
};

/* ------------------------------------------------------------------- life and end */

/* What the user has not set: `name` without "UCX_". */
static void prefer(ucp_config_t *config, const char *variable, const char *value)
{
    static const size_t prefix = sizeof "UCX_" - 1;

    if (config_foreign(variable) == NULL) {
        (void)ucp_config_modify(config, variable + prefix, value);
    }
}

static ucs_status_t make_context(struct ucx *ucx)
{
    const ucp_params_t params = { .field_mask = UCP_PARAM_FIELD_FEATURES |
                UCP_PARAM_FIELD_ESTIMATED_NUM_EPS | UCP_PARAM_FIELD_NAME,
        .features = UCP_FEATURE_TAG | UCP_FEATURE_WAKEUP,
        .estimated_num_eps = (size_t)ucx->size,
        .name = "tutti" };
    ucp_config_t *config = NULL;
    ucs_status_t code;

    if (config_foreign("UCX_LOG_LEVEL") == NULL) {
        (void)ucs_global_opts_set_value("LOG_LEVEL", "fatal");
    }
    code = ucp_config_read(NULL, NULL, &config);
    if (code != UCS_OK) {
        return code;
    }
    prefer(config, "UCX_KEEPALIVE_INTERVAL", KEEPALIVE);
    /* Caches of registered memory hook into the program's malloc and mmap. */
    prefer(config, "UCX_RCACHE_ENABLE", "n");
    code = ucp_init(&params, config, &ucx->context);
    ucp_config_release(config);
    return code;
}

static tutti_status make_worker(struct ucx *ucx)
{
    const ucp_worker_params_t params = { .field_mask =
                                                 UCP_WORKER_PARAM_FIELD_THREAD_MODE,
        .thread_mode = UCS_THREAD_MODE_SERIALIZED };
    ucs_status_t code = make_context(ucx);
    int messages = -1;

    if (code == UCS_OK) {
        code = ucp_worker_create(ucx->context, &params, &ucx->worker);
    }
    if (code == UCS_OK) {
        code = ucp_worker_get_efd(ucx->worker, &messages);
    }
    if (code != UCS_OK) {
        return error_set(
                TUTTI_ERR_MPI, "UCX cannot start: %s", ucs_status_string(code));
    }
    ucx->watches = watch_init(&ucx->watch, messages) == TUTTI_OK;
    return ucx->watches ? TUTTI_OK : TUTTI_ERR_SYSTEM;
}

static void destroy(struct ucx *ucx)
{
    peers_disconnect(ucx);
    if (ucx->watches) {
        watch_fini(&ucx->watch);
    }
    if (ucx->worker != NULL) {
        if (ucx->goodbye != NULL) {
            ucx_cancel(ucx, ucx->goodbye, 1);
        }
        ucp_worker_destroy(ucx->worker);
    }
    if (ucx->context != NULL) {
        ucp_cleanup(ucx->context);
    }
    peers_fini(ucx);
    mem_free(ucx->goodbye);
    mem_free(ucx);
}

tutti_status fabric_ucx_open(const struct boot *boot, struct fabric *fabric)
{
    struct ucx *ucx = mem_calloc(1, sizeof *ucx);
    tutti_status status;

    if (ucx != NULL) {
        ucx->rank = boot->rank;
        ucx->size = boot->size;
        ucx->goodbye = mem_calloc(1, sizeof *ucx->goodbye);
    }
    if (ucx == NULL || ucx->goodbye == NULL) {
        mem_free(ucx);
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory for UCX");
    }
    status = peers_meet(ucx, boot, make_worker(ucx));
    if (status == TUTTI_OK) {
        *fabric = (struct fabric){
            .ops = &ucx_ops, .state = ucx, .rank = boot->rank, .size = boot->size
        };
    } else {
        destroy(ucx);
    }
    return status;
}

/* Once to each rank that this one has sent to, and in answer. */
static void say_goodbyes(struct ucx *ucx, struct ucx_request *requests)
{
    for (int r = 0; r < ucx->size; r++) {
        const struct ucx_peer *peer = &ucx->peers[r];

        if ((peer->endpoint != NULL || peer->has_left) && !peer->is_lost &&
                requests[r].state == REQUEST_FREE) {
            (void)post_send(ucx, r, CHANNEL_GOODBYE, 0, NULL, 0, &requests[r]);
        }
    }
}

static bool is_over(
        const struct ucx *ucx, const struct ucx_request *requests, bool failed)
{
    for (int r = 0; r < ucx->size; r++) {
        const struct ucx_peer *peer = &ucx->peers[r];

        if (requests[r].state == REQUEST_OPEN ||
                (!failed && peer->endpoint != NULL && !peer->is_lost &&
                        !peer->has_left)) {
            return false;
        }
    }
    return true;
}

void fabric_ucx_close(struct fabric *fabric, bool failed)
{
    struct ucx *ucx = fabric->state;
    struct ucx_request *requests = mem_calloc((size_t)ucx->size, sizeof *requests);
    const int64_t since = clock_ns();
    const int64_t patience = failed ? GOODBYE_FAILED_NS : GOODBYE_NS;

    if (requests != NULL) {
        say_goodbyes(ucx, requests);
        while (!is_over(ucx, requests, failed) && clock_ns() - since < patience &&
                progress(ucx, PROGRESS_MAX) == TUTTI_OK) {
            (void)peers_look(ucx);
            say_goodbyes(ucx, requests);
            clock_pause(since, NAP_NS);
        }
    }
    destroy(ucx);
    mem_free(requests); /* no request of a worker that is gone */
    *fabric = (struct fabric){ .ops = NULL };
}
