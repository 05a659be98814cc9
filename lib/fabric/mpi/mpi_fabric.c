/*
 * The fabric over MPI: a request is an MPI_Request, and free where that is MPI_REQUEST_NULL.
 */
#include "fabric/mpi/mpi_fabric.h"

#include <stdio.h>

#include "base/error.h"
#include "base/mem.h"

tutti_status mpi_error(int code, const char *what)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int length = 0;

    (void)MPI_Error_string(code, text, &length);
    return error_set(TUTTI_ERR_MPI, "%s: %s", what, text);
}

static tutti_status peer_error(int code, const char *what, int peer)
{
    char text[64];

    (void)snprintf(text, sizeof text, "%s rank %d", what, peer);
    return mpi_error(code, text);
}

static void requests_clear(void *requests, int count)
{
    MPI_Request *at = requests;

    for (int i = 0; i < count; i++) {
        at[i] = MPI_REQUEST_NULL;
    }
}

static bool requests_are_free(const void *requests, int count)
{
    const MPI_Request *at = requests;

    for (int i = 0; i < count; i++) {
        if (at[i] != MPI_REQUEST_NULL) {
            return false;
        }
    }
    return true;
}

static tutti_status post_send(void *state, enum fabric_channel channel, int to, int tag,
        const void *buffer, size_t bytes, void *requests, int index)
{
    const struct mpi_fabric *mpi = state;
    const int code = bytes > FABRIC_MESSAGE_MAX
            ? MPI_ERR_COUNT
            : MPI_Isend(buffer, (int)bytes, MPI_BYTE, to, tag, mpi->channels[channel],
                      (MPI_Request *)requests + index);

    return code == MPI_SUCCESS ? TUTTI_OK : peer_error(code, "sending to", to);
}

static tutti_status post_receive(void *state, enum fabric_channel channel, int from,
        int tag, void *buffer, size_t bytes, void *requests, int index)
{
    const struct mpi_fabric *mpi = state;
    const int code = bytes > FABRIC_MESSAGE_MAX
            ? MPI_ERR_COUNT
            : MPI_Irecv(buffer, (int)bytes, MPI_BYTE,
                      from == FABRIC_ANY ? MPI_ANY_SOURCE : from, tag,
                      mpi->channels[channel], (MPI_Request *)requests + index);

    if (code == MPI_SUCCESS) {
        return TUTTI_OK;
    }
    return from == FABRIC_ANY ? mpi_error(code, "receiving")
                              : peer_error(code, "receiving from", from);
}

/* The first failure among the completed requests. */
static tutti_status failed_request(
        const MPI_Status *statuses, int receives, const int *done, int done_count)
{
    for (int i = 0; i < done_count; i++) {
        const int code = statuses[i].MPI_ERROR;

        if (code == MPI_SUCCESS || code == MPI_ERR_PENDING) {
            continue;
        }
        return done[i] < receives
                ? peer_error(code, "receiving from", statuses[i].MPI_SOURCE)
                : mpi_error(code, "sending");
    }
    return mpi_error(MPI_ERR_IN_STATUS, "moving messages");
}

static tutti_status poll_requests(void *state, void *requests, int receives, int count,
        int *done, int *done_count)
{
    struct mpi_fabric *mpi = state;
    int completed = 0;
    int code;

    if (!mem_grow(&mpi->statuses, &mpi->status_capacity, (size_t)count,
                sizeof(MPI_Status))) {
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory to move %d messages", count);
    }
    code = MPI_Testsome(count, requests, &completed, done, mpi->statuses);
    if (code == MPI_ERR_IN_STATUS) {
        return failed_request(mpi->statuses, receives, done, completed);
    }
    if (code != MPI_SUCCESS) {
        return mpi_error(code, "moving messages");
    }
    *done_count = completed == MPI_UNDEFINED ? 0 : completed;
    return TUTTI_OK;
}

static tutti_status test_request(
        void *state, void *requests, int index, struct fabric_arrival *arrival)
{
    MPI_Status status;
    int done = 0;
    int bytes = 0;
    int code = MPI_Test((MPI_Request *)requests + index, &done,
            arrival == NULL ? MPI_STATUS_IGNORE : &status);

    (void)state;
    if (code == MPI_SUCCESS && done == 0) {
        return TUTTI_AGAIN;
    }
    if (code == MPI_SUCCESS && arrival != NULL) {
        code = MPI_Get_count(&status, MPI_BYTE, &bytes);
        *arrival = (struct fabric_arrival){ .from = status.MPI_SOURCE,
            .bytes = (size_t)bytes };
    }
    return code == MPI_SUCCESS
            ? TUTTI_OK
            : mpi_error(code, arrival == NULL ? "sending" : "receiving");
}

static void cancel_receives(void *state, void *requests, int count)
{
    MPI_Request *at = requests;

    (void)state;
    for (int i = 0; i < count; i++) {
        if (at[i] != MPI_REQUEST_NULL) {
            (void)MPI_Cancel(&at[i]);
        }
    }
}

static bool let_go_of(void *state, void *requests, int count)
{
    MPI_Request *at = requests;
    bool settled = true;

    (void)state;
    for (int i = 0; i < count; i++) {
        if (at[i] != MPI_REQUEST_NULL) {
            (void)MPI_Request_free(&at[i]);
            settled = false;
        }
    }
    return settled;
}

static const struct fabric_ops mpi_fabric_ops = {
    .name = "mpi",
    .request_bytes = sizeof(MPI_Request),
    .clear = requests_clear,
    .are_free = requests_are_free,
    .send = post_send,
    .receive = post_receive,
    .poll = poll_requests,
    .test = test_request,
    .cancel = cancel_receives,
    .let_go = let_go_of,
};

void mpi_fabric_init(struct fabric *fabric, struct mpi_fabric *state, MPI_Comm control,
        MPI_Comm data)
{
    *state = (struct mpi_fabric){
        .channels = { [FABRIC_CONTROL] = control, [FABRIC_DATA] = data }
    };
    *fabric = (struct fabric){ .ops = &mpi_fabric_ops, .state = state };
    (void)MPI_Comm_rank(data, &fabric->rank);
    (void)MPI_Comm_size(data, &fabric->size);
}

void mpi_fabric_fini(struct mpi_fabric *state)
{
    mem_free(state->statuses);
    *state = (struct mpi_fabric){ .channels = { MPI_COMM_NULL, MPI_COMM_NULL } };
}
