/*
 * NCCL's communicators: one for each process set, made when its ranks meet, polled for
 * errors, and aborted together.
 *
 * They are non-blocking where NCCL can do that (2.14): every call may answer that it is in
 * progress, and nothing else is done with the communicator until communicator_poll() says
 * that it has ended. An older NCCL blocks while communicators are made.
 *
 * One thread at a time.
 */
#ifndef TUTTI_OPS_GPU_COMMUNICATOR_H
#define TUTTI_OPS_GPU_COMMUNICATOR_H

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

/** Memory that is registered with a communicator. */
struct communicator_memory {
    struct communicator_memory *next;
    cu_pointer memory; /* where it begins                                      */
    void *handle; /* NCCL's                                              */
};

#define COMMUNICATOR_NAME_MAX 64

/** A communicator. */
struct communicator {
    struct communicator *next; /* of the list                                     */
    nccl_comm comm; /* NULL: not made, or this rank is no member               */
    nccl_comm parent; /* MEETING, by a split: the world's, which is polled too    */
    uint32_t set; /* its process set, for ever                               */
    char name[COMMUNICATOR_NAME_MAX]; /* in NCCL's log                             */
    int size; /* ranks in it                                             */
    struct communicator_memory *registered; /* owned                             */
    enum communicator_stage stage; /* see there */
    int64_t since_ns; /* when the ranks began to meet                            */
    bool is_captured; /* is in a CUDA graph, whose end NCCL waits for: ends last      */
    uint32_t next_set; /* LEAVING: sets from this id on were created later        */
};

struct communicator_aborts; /* aborts in progress; communicator.c */

/** All of a rank. Zeroed but for `gpu`: none. */
struct communicators {
    struct gpu *gpu; /* borrowed */
    struct communicator *first; /* owned; newest first                            */
    struct communicator
            *world; /* the one of all ranks, once it is ready; in the list  */
    struct communicator
            *meeting; /* the one that is being made; in the list              */
    struct communicator_aborts *aborts; /* a reference; NULL: none has begun          */
    bool aborted; /* there are no communicators any more                     */
};

/** Those made by gpu_connect(), or none: the caller's from now on (connect.c). */
struct communicators gpu_connected_take(struct gpu *gpu);
/** Ends those that nobody has taken. The context is current. */
void gpu_disconnect(struct gpu *gpu);

/** See op_backend.token. Errors: TUTTI_ERR_SYSTEM. */
TUTTI_MUST_USE tutti_status communicators_token(
        const struct communicators *all, uint8_t token[OP_TOKEN_BYTES]);

/**
 * See op_backend.meet; nothing flies and the context is current.
 * @param tokens  count of them, one behind the other; only one where ranks split the world's
 * Errors: TUTTI_ERR_SYSTEM, TUTTI_ERR_NO_MEMORY.
 */
TUTTI_MUST_USE tutti_status communicators_meet(struct communicators *all,
        const struct op_set *set, const uint8_t *tokens, int count, bool everyone);

/** The communicator of a set, NULL: it has none that is ready. */
struct communicator *communicators_find(const struct communicators *all, uint32_t set);

/**
 * Registers memory with a communicator that is ready, unless it is registered there
 * already; until the communicator ends. All ranks of it register alike, in one order. NCCL
 * must have ncclCommRegister().
 * Errors: TUTTI_ERR_SYSTEM, TUTTI_ERR_NO_MEMORY.
 */
TUTTI_MUST_USE tutti_status communicator_register(const struct communicators *all,
        struct communicator *communicator, cu_pointer memory, size_t bytes);

/**
 * Has what was called last on a communicator ended?
 * @param doing  "put an allreduce on the GPU", for the message
 * @return TUTTI_OK, TUTTI_AGAIN, TUTTI_ERR_SYSTEM
 */
tutti_status communicator_poll(const struct communicators *all,
        const struct communicator *communicator, const char *doing);
/** The error of a call that failed, in words; TUTTI_OK for one that did not, or goes on. */
tutti_status communicator_check(const struct communicators *all,
        const struct communicator *communicator, nccl_result result, const char *doing);

/** A set is removed, and so will be its communicators; `next` as in op_backend.part. */
void communicators_part(struct communicators *all, uint32_t set, uint32_t next);
/**
 * Ends communicators of sets that were removed before `set` was created; nothing flies and
 * the context is current. All ranks of the world do, or NCCL waits for those that do not.
 * False: not all have ended; call again.
 */
bool communicators_tidy(struct communicators *all, uint32_t set);

/** Looks for errors that came later than the call. TUTTI_OK, TUTTI_ERR_SYSTEM. */
tutti_status communicators_watch(const struct communicators *all);

/**
 * Aborts all communicators, at the same time: an abort gives memory back, for which CUDA
 * may wait for the kernels of the others. False: not all have ended; call again.
 */
bool communicators_abort(struct communicators *all);

/**
 * Ends all communicators, in peace if nothing flies and nothing has failed, otherwise by
 * abort. Waits a limited time. The context is current.
 */
void communicators_close(struct communicators *all, bool in_peace);

#endif
