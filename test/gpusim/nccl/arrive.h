/*
 * How communicators are made: by ranks that find each other through an id, or from a parent,
 * whose ranks tell each other their colours and get an id for each new communicator.
 */
#ifndef TUTTI_TEST_GPUSIM_NCCL_ARRIVE_H
#define TUTTI_TEST_GPUSIM_NCCL_ARRIVE_H

#include <stdint.h>

#include "test/gpusim/nccl/comm.h"

/* What meetings of hosts are for (segment_word.kind). */
enum meeting {
    MEETING_SPLIT,
    MEETING_DESTROY
};

/* A job that makes `comm` ready. */
struct job *arrive_by_id(nccl_comm comm, const unsigned char *id);

/* How a parent is divided. */
struct division {
    nccl_comm parent;
    nccl_comm child; /* NULL: this rank gets none    */
    nccl_comm *slot; /* where the child's handle is  */
    int colour;
    int key;
};

/* A job of the parent that makes the child ready. */
struct job *arrive_by_parent(const struct division *division);

/* Ends the process if a rank has come to a meeting for something else. */
void arrive_check(nccl_comm comm, uint64_t members);

#endif
