/*
 * Tests of the simulated NCCL: a case is run by several ranks, which are processes, or
 * threads of one. The program that starts them has no threads and no GPU of its own; it
 * checks how they ended, and what they said on stderr.
 */
#ifndef TUTTI_TEST_GPUSIM_NCCL_TEST_RANKS_H
#define TUTTI_TEST_GPUSIM_NCCL_TEST_RANKS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "test/gpusim/gpusim_test.h"
#include "test/gpusim/nccl/calls.h"
#include "test/gpusim/nccl/gpusim_nccl.h"

enum {
    RANKS_MAX = 8,
    FLAGS = 8
};

/* Memory of all ranks of a run. */
struct ranks_shared {
    struct nccl_id ids[4]; /* made by rank 0                               */
    _Atomic uint32_t flags[FLAGS]; /* of the case: told, and waited for */
    _Atomic uint32_t arrived; /* at rank_meet()                               */
};

/* One rank. */
struct rank {
    int rank;
    int ranks;
    bool is_thread;
    uint32_t meetings; /* passed                          */
    struct ranks_shared *shared;
    cu_context context;
    cu_stream stream; /* not blocking with the default   */
    nccl_comm comm; /* of all ranks, once rank_join()  */
};

/* A case: what each rank does, in which surroundings, and how it must end. */
struct rank_case {
    const char *name;
    void (*body)(struct rank *rank);
    const char *
            found; /* said on stderr by a rank that ends with 97; NULL: all end with 0 */
    const char *
            fault; /* GPUSIM_NCCL_FAIL                                                  */
    bool may_die; /* ranks other than 0 may be killed                                       */
    bool hangs; /* a rank waits for ever: that is reported after a second                   */
    bool has_room; /* a device runs two kernels at a time                                   */
};

/* Each table ends with a case that has no name. */
extern const struct rank_case
        cases_values[]; /* what is computed                         */
extern const struct rank_case
        cases_order[]; /* what ranks must do alike, else it hangs   */
extern const struct rank_case
        cases_life[]; /* communicators from their making to the end */
extern const struct rank_case
        cases_faults[]; /* when something goes wrong                */
extern const struct rank_case
        cases_memory[]; /* memory and arguments                     */

#define CHECK(condition) \
    ((condition) ? (void)0 : rank_failed(__FILE__, __LINE__, #condition))

_Noreturn void rank_failed(const char *file, int line, const char *what);

/* All ranks have come. Does not know of the GPU. */
void rank_meet(struct rank *rank);
/* Tells a flag, and waits until it has at least this value. */
void rank_tell(const struct rank *rank, int flag);
void rank_await(const struct rank *rank, int flag, uint32_t value);

/* Makes rank->comm by ncclCommInitRank over the n-th id. */
void rank_join(struct rank *rank, int id, nccl_comm *comm);
/* Waits for the stream, and checks that there was no error. */
void rank_sync(const struct rank *rank);
/* Device memory; freed by rank_free(). */
uint64_t rank_alloc(size_t bytes);
void rank_free(uint64_t memory);
void *rank_pointer(uint64_t memory);
/* Polls until the communicator is not in progress; what it says then. */
nccl_result rank_poll(nccl_comm comm);

/* Runs a case, whose ranks may be threads of one process. 0: it ended as expected. */
int ranks_run(const struct rank_case *what, int ranks, bool threads);

#endif
