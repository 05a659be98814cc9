/*
 * What a batch does on the GPU, as lists: pieces that a kernel packs, calls of NCCL, and
 * pieces that a kernel unpacks. Made from a batch by pure functions (reduction.c,
 * exchange.c), carried out by backend.c.
 *
 * NCCL wants the same calls on all ranks, but memory lies differently on each. So calls
 * follow from sizes alone: runs of a batch are cut into segments by their sizes, and each
 * segment has one layout, in which a run begins on a boundary of SCRIPT_ALIGNMENT. A rank
 * whose tensors lie just so gives them to NCCL as they are; any other packs them in that
 * layout. Neither knows, nor has to know, what the others do.
 *
 *     tensors          aaaaa... bb...... ccccccc      side by side, as tutti_alloc() gives
 *     layout           aaaaa... bb...... ccccccc      them: one call, no copy
 */
#ifndef TUTTI_OPS_GPU_SCRIPT_H
#define TUTTI_OPS_GPU_SCRIPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tutti/tutti.h>

#include "ops/gpu/types.h"
#include "ops/op.h"

/** Runs of a segment begin on multiples of it, as memory of tutti_alloc() does. */
#define SCRIPT_ALIGNMENT ((size_t)256)
/** A run of so many bytes is a segment of its own: to copy it would not pay. */
#define SCRIPT_ALONE_BYTES ((size_t)8 << 20)

/** An address on the device. */
struct script_place {
    uint64_t at; /* an address, or an offset in the slab                      */
    bool in_slab; /* which of them                                             */
};

/** A piece that a kernel moves: both ways between a tensor and where NCCL works on it. */
struct script_piece {
    uint64_t tensor; /* address                                                   */
    struct script_place packed; /* the other side                              */
    uint64_t count; /* elements                                                  */
};

/** A call of NCCL. */
enum script_verb {
    SCRIPT_ALL_REDUCE,
    SCRIPT_REDUCE,
    SCRIPT_REDUCE_SCATTER,
    SCRIPT_BROADCAST,
    SCRIPT_ALL_GATHER,
    SCRIPT_SEND,
    SCRIPT_RECV,
    SCRIPT_COPY /* none of NCCL: within this rank's memory                       */
};

/** One call, with the arguments that NCCL takes. */
struct script_call {
    enum script_verb verb;
    int peer; /* root, or the other rank                                   */
    struct script_place input; /* RECV: not used                              */
    struct script_place output; /* SEND: not used                             */
    size_t count; /* elements, as NCCL counts them in this call                */
};

/** A list of pieces. */
struct script_pieces {
    struct script_piece *pieces; /* owned */
    size_t count; /* so far */
    size_t capacity; /* for which there is memory */
};

/** Zeroed: empty. Its memory is kept for the next batch. */
struct script {
    struct script_pieces gathers; /* before the calls; cast and scaled by form.before */
    struct script_call *calls; /* in one group; owned */
    size_t call_count; /* so far */
    size_t call_capacity; /* for which there is memory */
    struct script_pieces scatters; /* after them; divided and scaled                  */
    size_t slab_bytes; /* of the buffer that in_slab means; 0: there is none */
    bool failed; /* there was no memory for a list                            */
};

/** What a script needs to know besides the batch. */
struct script_view {
    const struct op_batch *batch; /* borrowed */
    const struct gpu_form *form; /* borrowed */
    bool kernels; /* there are kernels that pack; equal on all ranks      */
    bool registers; /* slabs and the arena are registered with NCCL, which wants that what
                       one rank gives it registered all do, at one offset: what is packed
                       then follows from sizes and op_run.spot; equal on all ranks  */

    /* True when bytes behind a tensor belong to nobody, so that NCCL may write there. */
    bool (*is_padding)(void *user, uint64_t address, size_t bytes);
    void *user; /* for is_padding */
};

/** Empties it and keeps the memory. */
void script_reset(struct script *script);
void script_fini(struct script *script);

/**
 * Fills an empty script.
 * @return TUTTI_OK, TUTTI_ERR_NO_MEMORY
 */
TUTTI_MUST_USE tutti_status script_reduction(
        struct script *script, const struct script_view *view);
TUTTI_MUST_USE tutti_status script_exchange(
        struct script *script, const struct script_view *view);

/* ------------------------------------------- for reduction.c and exchange.c */

/** Runs first .. end - 1 of a batch, which have one layout. */
struct script_segment {
    struct script *script; /* to be filled */
    const struct script_view *view;
    size_t first; /* run */
    size_t end; /* the run behind the last */
    bool packs; /* it is packed on all ranks, wherever tensors lie          */
};

/** What NCCL is given of it: the layouts of some members, one behind the other. All that is
 *  not of members is of member 0. */
struct script_part {
    int first; /* member */
    int count; /* of members */
    size_t bytes; /* from one's layout to the next                            */
};

/** A side of tensors. */
enum script_side {
    SCRIPT_INPUT,
    SCRIPT_OUTPUT
};

/** The next segment; false: there is none. Begin with one that has script and view alone. */
bool script_next(struct script_segment *segment);
/** A member's part. */
struct script_part script_part_of(const struct script_segment *segment, int member);
/** The parts of all members, if they are of one length; false: they are not. */
bool script_part_of_all(const struct script_segment *segment, struct script_part *part);
/** The part of one of the members of such a part. */
struct script_part script_own(const struct script_part *part, int member);

/**
 * True where tensors lie as the layout says, so that NCCL may get them as they are.
 * @param[out] place  where that is; else untouched
 */
bool script_lies(const struct script_segment *segment, enum script_side side,
        const struct script_part *part, struct script_place *place);
/** Has inputs packed at a place, and outputs unpacked from one. */
void script_pack(const struct script_segment *segment, const struct script_part *part,
        struct script_place to);
void script_unpack(const struct script_segment *segment, const struct script_part *part,
        struct script_place from);

/** Makes room in the slab: the place of `bytes` bytes on a boundary. */
struct script_place script_slab(struct script *script, size_t bytes);
/** A place so many bytes behind another. */
struct script_place script_behind(struct script_place place, size_t bytes);
/** Adds a piece that is unpacked; a call. Those of nothing are left out. */
void script_scatter(struct script *script, const void *tensor,
        struct script_place packed, size_t count);
void script_call(struct script *script, const struct script_call *call);
/** TUTTI_OK, or the error of a script that there was no memory for. */
tutti_status script_status(const struct script *script);

#endif
