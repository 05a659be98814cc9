/*
 * How communicators are made and end. Ranks find each other through an id, or are those of a
 * parent, whose ranks tell each other their colours and get an id for each new communicator.
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

/* ---- load.c ---- */

/*
 * NCCL's kernels, which the first communicator of a context loads on a thread of its own, as
 * NCCL does (init.cc: ncclInitKernelsForDevice() asks for the attributes of each). Loading waits
 * for all that the device has to do, and breaks a capture of global mode. True: they are there.
 */
bool load_kernels(nccl_comm comm);
/* Waits until what was begun has ended: a thread of NCCL cannot be left. */
void load_wait(nccl_comm comm);

/* ---- end.c ---- */

struct job *end_finalize(nccl_comm comm);
/* Waits for the other processes of the node, too: ncclCommDestroy is a collective there. */
struct job *end_destroy(nccl_comm comm);
/* The caller has told the communicator to quit. */
struct job *end_abort(nccl_comm comm);

#endif
