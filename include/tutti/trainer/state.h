/*
 * The state of a trainer as named tensors: broadcast to all ranks, saved and loaded.
 */
#ifndef TUTTI_TRAINER_STATE_H
#define TUTTI_TRAINER_STATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tutti/tutti.h>

#ifdef __cplusplus
extern "C" {
#endif
#if defined(__GNUC__)
#    pragma GCC visibility push(default)
#endif

/**
 * A tensor of a trainer's state: a parameter, a moment of an optimizer, a counter. Either every
 * rank has all of it, or each has a part (sharded optimizer state).
 */
typedef struct tutti_state_tensor {
    const char *name; /**< unique in a state; borrowed                             */
    void *data; /**< the elements that this rank has, host memory; borrowed  */
    tutti_dtype dtype;
    int ndim; /**< of the whole tensor; 0: a number                        */
    const int64_t *dims; /**< shape of the whole tensor; borrowed                     */
    int64_t first; /**< index in the flattened whole tensor of data[0]          */
    int64_t count; /**< elements in data. Every rank has all: first is 0, and count
                        is the product of dims                                   */
} tutti_state_tensor;

/*
 * The calls below are collective over a process set: all ranks make them in the same order, one
 * at a time in each set. If one rank finds an error, all ranks return it, with its message.
 */

/* ---------------------------------------------------------------- broadcast */

/**
 * Copies the state of one rank to all ranks: all tensors at once, then one wait.
 * @param tensors  n tensors, the same names, shapes and types in the same order on all ranks,
 *                 of which this rank has all elements
 * @param root     rank within the set
 * @return TUTTI_OK; nothing has been sent: TUTTI_ERR_INVALID (a bad tensor, or a part of one),
 *         TUTTI_ERR_MISMATCH (ranks have other tensors: names the first); TUTTI_ERR_NO_MEMORY;
 *         and the statuses of tutti_wait()
 */
TUTTI_MUST_USE tutti_status tutti_broadcast_state(tutti *t, tutti_process_set set,
        const tutti_state_tensor *tensors, size_t n, int root);

/**
 * Copies bytes of one rank, of a length that only it knows, to all ranks.
 * @param[in,out] bytes  on the root: the bytes to send, not changed. Elsewhere set to memory with
 *                       the bytes, to be freed with tutti_free(); not NULL even if there are none
 * @param[in,out] count  their number
 * @return TUTTI_OK; TUTTI_ERR_INVALID, TUTTI_ERR_NO_MEMORY (the receivers have changed nothing),
 *         and the statuses of tutti_wait()
 */
TUTTI_MUST_USE tutti_status tutti_broadcast_object(
        tutti *t, tutti_process_set set, void **bytes, size_t *count, int root);

/**
 * Compares the state of all ranks, bit by bit, to find a rank with wrong averages or
 * updates. Digests of 64 bits per tensor are compared, which detect every change of a single
 * word. Tensors of which a rank has only a part are skipped.
 * @param tensors  as for tutti_broadcast_state()
 * @return TUTTI_OK; TUTTI_ERR_MISMATCH: the message names the first tensor that differs, and
 *         the ranks that differ from most; TUTTI_ERR_INVALID,
 *         TUTTI_ERR_NO_MEMORY, and the statuses of tutti_wait()
 */
TUTTI_MUST_USE tutti_status tutti_check_state(
        tutti *t, tutti_process_set set, const tutti_state_tensor *tensors, size_t n);

/* -------------------------------------------------------------- checkpoints */

/** A text that is saved with the tensors: an option, a random seed, a version. */
typedef struct tutti_metadata {
    const char *key; /**< UTF-8; not beginning with "tutti."                      */
    const char *text; /**< UTF-8                                                  */
} tutti_metadata;

/** The checkpoint of the highest step. */
#define TUTTI_CHECKPOINT_NEWEST ((int64_t)-1)

/** Settings of a checkpoint. Fill them with tutti_checkpoint_options_default(). */
typedef struct tutti_checkpoint_options {
    size_t size; /**< sizeof(tutti_checkpoint_options) as the caller knew it   */
    tutti_process_set
            process_set; /**< whose ranks save or load together; default TUTTI_WORLD  */
    const char *directory; /**< of the checkpoints of one run, the same for all ranks.
                                Saving creates it. Required, but for loading a file   */
    int64_t step; /**< part of the name: required to save. To load: which one;
                       default TUTTI_CHECKPOINT_NEWEST                            */
    bool sharded; /**< save: each rank writes its parts to a separate file.
                       Default false: rank 0 writes one file                      */
    int keep; /**< save: remove all but so many, those of the highest steps, and never
                   the one just saved. Default 0: keep all                        */
    const tutti_metadata *metadata; /**< save: of rank 0 of the set; borrowed         */
    size_t metadata_count;
    const char *file; /**< load: a safetensors file, of any program, in place of the
                           directory's                                            */
    bool ignore_unknown; /**< load: the checkpoint may have tensors that are not asked for;
                              default false                                       */
    void (*on_metadata)(void *user, const char *key, const char *text);
    /**< load: called on each rank for each metadata when all has been loaded; NULL: none */
    void *user; /**< for on_metadata                                          */
} tutti_checkpoint_options;

/** Fills the first `size` bytes; call the macro without _sized. NULL is allowed. */
void tutti_checkpoint_options_default_sized(
        tutti_checkpoint_options *options, size_t size);

/** Fills options with the defaults and their size. */
#define tutti_checkpoint_options_default(options) \
    tutti_checkpoint_options_default_sized((options), sizeof(tutti_checkpoint_options))

/**
 * Saves a checkpoint. Its files are written under temporary names, synchronised to disk
 * (fsync), and become a checkpoint by one rename, so a failed or interrupted write loses
 * nothing. docs/trainer/checkpoints.md has the format.
 *
 * A whole checkpoint is one safetensors file. Parts of other ranks are sent to rank 0 in
 * pieces of 4 MiB, so no rank ever holds a second copy of the state.
 * @param tensors  n tensors, the same in the same order on all ranks. Each has all elements of a
 *                 tensor, or a part; together they must have all, and where parts overlap they
 *                 must be equal. Read during the call
 * @return TUTTI_OK; and on all ranks, the checkpoints as before: TUTTI_ERR_INVALID (an option,
 *         a bad tensor, or elements that no rank has: named), TUTTI_ERR_MISMATCH (ranks have
 *         other tensors: names the first), TUTTI_ERR_SYSTEM (no space, no permission, not
 *         a directory: the message has the path and the reason; a directory that cannot be put on
 *         disk once the checkpoint is there: the message says that it can be loaded),
 *         TUTTI_ERR_NO_MEMORY, and the statuses of tutti_wait()
 */
TUTTI_MUST_USE tutti_status tutti_checkpoint_save(tutti *t,
        const tutti_checkpoint_options *options, const tutti_state_tensor *tensors,
        size_t n);

/**
 * Loads a checkpoint into tensors, by their names, with any number of ranks and any division
 * into parts. Every rank reads its own parts, so all must have access to the directory. Before
 * the tensors are written, all ranks check names, types and shapes against the checkpoint, and
 * the checksums of the data.
 * @param tensors    n tensors; their memory is filled. Ranks may ask for different ones
 * @param[out] step  NULL, or the step of the checkpoint; -1: the newest was asked for, and there
 *                   is no checkpoint or no directory. A file has the step that it was saved
 *                   with, or 0
 * @return TUTTI_OK; and on all ranks, the tensors as before: TUTTI_ERR_INVALID (the checkpoint is
 *         of another model: names the tensor and both values; it is cut off, changed, or no
 *         checkpoint: names the file; there is none of this step), TUTTI_ERR_SYSTEM (it
 *         cannot be read), TUTTI_ERR_NO_MEMORY, and the statuses of tutti_wait(). If a file
 *         fails after its checksums were compared, the tensors are undefined, as the message
 *         says
 */
TUTTI_MUST_USE tutti_status tutti_checkpoint_load(tutti *t,
        const tutti_checkpoint_options *options, const tutti_state_tensor *tensors,
        size_t n, int64_t *step);

#if defined(__GNUC__)
#    pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif

#endif
