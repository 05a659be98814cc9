/*
 * The fabric: messages between two ranks of a job, which control messages (transport/) and
 * tensor data (ops/p2p) travel on. Two providers: MPI (fabric/mpi) and UCX (fabric/ucx).
 *
 * A message is told apart by its channel and tag; among those of one channel, tag and pair of
 * ranks the n-th sent meets the n-th receive posted. All functions are called by one thread
 * at a time, none waits for another rank, and none but open and close allocates for each call
 * where the provider can avoid it.
 *
 * Requests stand in arrays that the caller owns, of `request_bytes` each, aligned to 8; they
 * are named by their index. clear() comes before all else.
 */
#ifndef TUTTI_FABRIC_FABRIC_H
#define TUTTI_FABRIC_FABRIC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tutti/tutti.h>

#include "base/doorbell.h"

enum fabric_channel {
    FABRIC_CONTROL,
    FABRIC_DATA
};

#define FABRIC_ANY (-1) /* a receive from any rank */
/** Tags are 0 to this. */
#define FABRIC_TAG_MAX 32767
/** Longest message in bytes: MPI counts are int. */
#define FABRIC_MESSAGE_MAX ((size_t)1 << 30)

/** No provider's requests are larger. */
#define FABRIC_REQUEST_BYTES_MAX 64

/** What a receive that is complete has brought. */
struct fabric_arrival {
    int from;
    size_t bytes;
};

struct fabric_ops {
    const char *name; /* "mpi", "ucx" */
    size_t request_bytes; /* at most FABRIC_REQUEST_BYTES_MAX, and a multiple of 4 */

    /* Requests [0 .. count) are free. */
    void (*clear)(void *requests, int count);
    /* Whether all of [0 .. count) are: complete, or never posted. */
    bool (*are_free)(const void *requests, int count);

    /*
     * Posts a message as request `index`, which is free. The buffer stays until it is
     * complete. Errors: TUTTI_ERR_MPI, TUTTI_ERR_NO_MEMORY; the text names the peer.
     */
    tutti_status (*send)(void *state, enum fabric_channel channel, int to, int tag,
            const void *buffer, size_t bytes, void *requests, int index);
    /* A message of at most `bytes`; from == FABRIC_ANY on the control channel only. */
    tutti_status (*receive)(void *state, enum fabric_channel channel, int from, int tag,
            void *buffer, size_t bytes, void *requests, int index);

    /*
     * Moves messages along; done[0 .. *done_count) are those of the array that have become
     * complete, and free. The first `receives` are receives, for the text of an error.
     */
    tutti_status (*poll)(void *state, void *requests, int receives, int count,
            int *done, int *done_count);
    /*
     * The same for one request, with what a receive has brought (NULL: a send). TUTTI_OK: it is
     * complete, and free; TUTTI_AGAIN: not yet.
     */
    tutti_status (*test)(
            void *state, void *requests, int index, struct fabric_arrival *arrival);

    /* Gives up receives [0 .. count) that no message has met: they are complete soon. */
    void (*cancel)(void *state, void *requests, int count);
    /* Frees [0 .. count). True: none was open, the buffers are the caller's again. */
    bool (*let_go)(void *state, void *requests, int count);

    /*
     * A rank without work may sleep. NULL: messages are seen only when polled. Else the bell
     * rings for messages that come after arm(), which is called each time before a sleep;
     * false: there may be messages already, poll again.
     */
    void (*listen)(void *state, struct doorbell *bell);
    bool (*arm)(void *state);
};

struct fabric {
    const struct fabric_ops *ops;
    void *state; /* of the provider, whose job owns it */
    int rank;
    int size;
};

/** Request `index` of an array as an array that begins with it. */
static inline void *fabric_request(
        const struct fabric *fabric, void *requests, int index)
{
    return (uint8_t *)requests + (size_t)index * fabric->ops->request_bytes;
}

#endif
