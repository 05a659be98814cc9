/*
 * Passes a file descriptor of each process of a node to all others.
 *
 * Each has a datagram socket in the abstract namespace, whose name has been told to the
 * others by other means; nothing of it is left in the file system. A message shows a
 * secret that only its sender and those know who have been told, so strangers are not
 * listened to.
 */
#ifndef TUTTI_OPS_SHM_HANDOVER_H
#define TUTTI_OPS_SHM_HANDOVER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include <tutti/tutti.h>

#define HANDOVER_NAME_BYTES 16

struct handover {
    int socket; /* owned */
    uint8_t name[HANDOVER_NAME_BYTES]; /* of it */
};

/** One of the processes, as it has told. */
struct handover_party {
    int rank; /* for error texts */
    uint8_t name[HANDOVER_NAME_BYTES]; /* of its socket */
    uint8_t secret[HANDOVER_NAME_BYTES];
    bool sent; /* it has our descriptor */
    bool received; /* we have its descriptor */
};

/**
 * Takes the descriptor of a party, which is closed when it returns.
 * @param pid  of the party as seen here; 0: not known
 */
typedef tutti_status (*handover_take)(void *user, int party, int fd, pid_t pid);

/** @return TUTTI_OK, TUTTI_ERR_SYSTEM */
tutti_status handover_open(struct handover *handover);

/**
 * Sends a descriptor to all parties but `me` and takes theirs. All parties call it.
 * @param deadline_ns  of clock_ns(), for all of it
 * @return TUTTI_OK, TUTTI_ERR_SYSTEM (also at the deadline), or an error of take()
 */
tutti_status handover_exchange(struct handover *handover, int fd,
        struct handover_party *parties, int count, int me, int64_t deadline_ns,
        handover_take take, void *user);

void handover_close(struct handover *handover);

#endif
