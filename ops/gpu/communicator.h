/*
 * NCCL's communicators: one for each process set, made when its ranks meet (connect.c), polled
 * for errors, and aborted together.
 *
 * They are non-blocking where NCCL can do that (2.14): every call may answer that it is in
 * progress, and nothing else is done with the communicator until communicator_poll() says
 * that it has ended. An older NCCL blocks while communicators are made.
 *
 * One thread at a time: while tutti is initialised its caller's, then the backend's.
 */
#ifndef TUTTI_OPS_GPU_COMMUNICATOR_H
#define TUTTI_OPS_GPU_COMMUNICATOR_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tutti/tutti.h>

#include "ops/gpu/gpu.h"
#include "ops/op.h"

/** How far a communicator is. */
enum communicator_stage {
    COMMUNICATOR_MEETING, /* not yet made                                      */
    COMMUNICATOR_READY, /* for batches                                       */
    COMMUNICATOR_LEAVING, /* its set is removed; ended when nothing flies      */
    COMMUNICATOR_ENDING /* ncclCommFinalize() was called                     */
};

#define COMMUNICATOR_NAME_MAX 64

/** A communicator. */
struct communicator {
    struct communicator *next; /* of the list                                     */
    struct communicators *all; /* whose list that is                              */
    nccl_comm comm; /* NULL: not made, or this rank is no member               */
    nccl_comm parent; /* MEETING, by a split: the world's, which is polled too    */
    uint32_t set; /* its process set, for ever                               */
    char name[COMMUNICATOR_NAME_MAX]; /* in NCCL's log                             */
    int size; /* ranks in it                                             */
    enum communicator_stage stage; /* see there */
    int64_t since_ns; /* when the ranks began to meet                            */
    bool is_captured; /* is in a CUDA graph, whose end NCCL waits for: ends last      */
    bool is_aborting; /* has a thread for that                                   */
    uint32_t next_set; /* LEAVING: sets from this id on were created later        */
};

/** All of a rank: gpu.communicators. Outlives the GPU as long as an abort goes on, under which
 *  NCCL may write to a communicator. */
struct communicators {
    struct communicator *first; /* owned; newest first                            */
    struct communicator
            *world; /* the one of all ranks, once it is ready; in the list  */
    struct communicator
            *meeting; /* the one that is being made; in the list              */
    struct gpu_stretch *registered; /* with the world's, over next_registered     */
    nccl_result (*give_up)(nccl_comm comm); /* ncclCommAbort()                    */
    int64_t since_ns; /* ABORTING: when that began                             */
    bool aborting; /* all are aborted                                         */
    bool aborted; /* that has ended, or is not waited for any more           */
    _Atomic size_t left; /* ABORTING: aborts that have not ended               */
    _Atomic size_t owners; /* the GPU, and each thread that aborts             */
};

/** None yet, for a GPU with NCCL. TUTTI_ERR_NO_MEMORY */
TUTTI_MUST_USE tutti_status communicators_open(struct gpu *gpu);
/**
 * Ends all communicators, in peace if nothing flies and nothing has failed, otherwise by
 * abort. Waits a limited time. The context is current. Does nothing the second time.
 */
void communicators_end(struct gpu *gpu, bool in_peace);
/** After communicators_end(), or where the context is gone. NULL is allowed. */
void communicators_release(struct communicators *all);

/**
 * See op_backend.meet; nothing flies and the context is current.
 * @param tokens  count of them, one behind the other; only one where ranks split the world's
 * Errors: TUTTI_ERR_SYSTEM, TUTTI_ERR_NO_MEMORY.
 */
TUTTI_MUST_USE tutti_status communicators_meet(struct gpu *gpu,
        const struct op_set *set, const uint8_t *tokens, int count, bool everyone);

/** The communicator of a set, NULL: it has none that is ready. */
struct communicator *communicators_find(const struct gpu *gpu, uint32_t set);

/** A new one of a set, in the list. NULL: no memory. */
struct communicator *communicators_add(struct gpu *gpu, const struct op_set *set);
/** Takes it out of the list, and frees it. */
void communicators_drop(struct communicators *all, struct communicator *communicator);

/**
 * Registers a stretch with the world's communicator, until that ends, unless it is registered.
 * All ranks register alike, in one order. NCCL must have ncclCommRegister().
 * Errors: TUTTI_ERR_SYSTEM.
 */
TUTTI_MUST_USE tutti_status communicator_register(
        struct gpu *gpu, const struct communicator *world, struct gpu_stretch *stretch);

/**
 * Has what was called last on a communicator ended?
 * @param doing  "put an allreduce on the GPU", for the message
 * @return TUTTI_OK, TUTTI_AGAIN, TUTTI_ERR_SYSTEM
 */
tutti_status communicator_poll(const struct gpu *gpu,
        const struct communicator *communicator, const char *doing);
/** The error of a call that failed, in words; TUTTI_OK for one that did not, or goes on. */
tutti_status communicator_check(const struct gpu *gpu,
        const struct communicator *communicator, nccl_result result, const char *doing);

/** A set is removed, and so will be its communicators; `next` as in op_backend.part. */
void communicators_part(struct gpu *gpu, uint32_t set, uint32_t next);
/**
 * Ends communicators of sets that were removed before `set` was created; nothing flies and
 * the context is current. All ranks of the world do, or NCCL waits for those that do not.
 * False: not all have ended; call again.
 */
bool communicators_tidy(struct gpu *gpu, uint32_t set);

/** Looks for errors that came later than the call. TUTTI_OK, TUTTI_ERR_SYSTEM. */
tutti_status communicators_watch(const struct gpu *gpu);

/**
 * Aborts all communicators, at the same time: an abort gives memory back, for which CUDA
 * may wait for the kernels of the others. False: not all have ended; call again.
 */
bool communicators_abort(struct gpu *gpu);

#endif
