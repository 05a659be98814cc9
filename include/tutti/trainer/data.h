/*
 * Distribution of samples among ranks, and a reader of samples of one size.
 *
 *     tutti_shard_options_default(&options);
 *     options.samples = 60000;
 *     options.seed = 1;
 *     tutti_shard_create(t, &options, &shard);
 *     each epoch:
 *         tutti_shard_epoch(shard, epoch);
 *         while ((count = tutti_shard_next(shard, indices, 32)) > 0) {
 *             train(indices, count);
 *         }
 *     tutti_shard_destroy(shard);
 *
 * An epoch is an order of all samples, which depends on the seed and the epoch alone. Each
 * step takes the next `batch` samples of it for each rank: rank 0 the first of them, then
 * rank 1. So with any number of ranks, the samples seen so far are the beginning of the order,
 * and an epoch can continue with another number of ranks.
 */
#ifndef TUTTI_TRAINER_DATA_H
#define TUTTI_TRAINER_DATA_H

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

/* ------------------------------------------------------------------- shards */

/** Treatment of the end of an epoch, where too few samples are left for a whole step. */
typedef enum tutti_tail {
    TUTTI_TAIL_EVEN, /**< it is dropped: every rank has the same number of whole
                          batches. Another epoch drops other samples             */
    TUTTI_TAIL_PADDED, /**< it is divided, and made divisible with samples from the
                            beginning of the epoch: every rank has the same number of
                            samples, and up to ranks - 1 are seen twice           */
    TUTTI_TAIL_UNEVEN /**< it is divided: each sample is seen once, and ranks may have one
                           sample, and one step, less than others: see
                           tutti_reducer_join()                                   */
} tutti_tail;

/** Settings of a shard. Fill them with tutti_shard_options_default(). */
typedef struct tutti_shard_options {
    size_t size; /**< sizeof(tutti_shard_options) as the caller knew it       */
    int64_t samples; /**< of the whole data set; required, 1 or more              */
    uint64_t seed; /**< of the order; default 0                                 */
    bool shuffle; /**< default true. False: epochs are in the order of the data */
    tutti_tail tail; /**< default TUTTI_TAIL_PADDED                               */
    tutti_process_set
            process_set; /**< whose ranks share the samples; default TUTTI_WORLD      */
    int ranks; /**< 0 (default): those of process_set. Otherwise so many shares,
                    of which this is number `rank`: for virtual shards            */
    int rank; /**< with ranks: 0 to ranks - 1                              */
} tutti_shard_options;

/** Fills the first `size` bytes; call the macro without _sized. NULL is allowed. */
void tutti_shard_options_default_sized(tutti_shard_options *options, size_t size);

/** Fills options with the defaults and their size. */
#define tutti_shard_options_default(options) \
    tutti_shard_options_default_sized((options), sizeof(tutti_shard_options))

/** Where an epoch is; equal on all ranks. Two int64, as a tensor of a checkpoint. */
typedef struct tutti_shard_state {
    int64_t epoch; /**< its number                                            */
    int64_t position; /**< samples of it that all ranks together have taken      */
} tutti_shard_state;

/** This rank's share of the samples of a data set. One thread at a time. Opaque. */
typedef struct tutti_shard tutti_shard;

/**
 * Makes a shard, at the beginning of epoch 0. Without options.ranks it is collective over the
 * process set: samples, seed, shuffle and tail must be equal on all ranks. With it, it is
 * local. It takes no memory for the order, which is computed: a Feistel network of 8 rounds
 * over the least power of two that holds all samples, repeated until the result is a sample
 * (Black and Rogaway, "Ciphers with arbitrary finite domains", 2002, section 3).
 * @param t           may be NULL with options.ranks
 * @param[out] shard  released with tutti_shard_destroy()
 * @return TUTTI_OK, TUTTI_ERR_INVALID (names the option and its value), TUTTI_ERR_MISMATCH
 *         (ranks have other options), TUTTI_ERR_NO_MEMORY, and the statuses of
 *         tutti_allreduce()
 */
TUTTI_MUST_USE tutti_status tutti_shard_create(
        tutti *t, const tutti_shard_options *options, tutti_shard **shard);

/** Frees a shard; NULL is allowed. */
void tutti_shard_destroy(tutti_shard *shard);

/** Goes to the beginning of an epoch; 0 or more, other numbers are taken as 0. */
void tutti_shard_epoch(tutti_shard *shard, int64_t epoch);

/**
 * Takes the next step: this rank's samples of it.
 * @param[out] indices  room for `batch`; numbers of samples, 0 to samples - 1
 * @param batch         samples of each rank in a step; the same on all ranks, more than 0
 * @return how many samples: `batch`, less in the last step of the epoch, and 0 when the epoch
 *         is over for this rank
 */
int64_t tutti_shard_next(tutti_shard *shard, int64_t *indices, int64_t batch);

/** tutti_shard_next() of the step that is `ahead` steps after the next one, without taking
 *  it: for prefetching. */
int64_t tutti_shard_peek(
        const tutti_shard *shard, int64_t *indices, int64_t batch, int64_t ahead);

/** Steps that are left in this epoch for this rank. */
int64_t tutti_shard_steps(const tutti_shard *shard, int64_t batch);

/** The position in the epoch, to be saved after the update of the step. */
tutti_shard_state tutti_shard_get_state(const tutti_shard *shard);

/**
 * Continues from the state of another shard of the same samples, seed and shuffle, with any
 * number of ranks: the rest of the epoch is divided anew, so no sample is lost or seen twice.
 * Local: every rank gives the same state and number of ranks.
 * @param ranks  0: as before. Otherwise their new number, and `rank` this one's
 * @return TUTTI_OK, TUTTI_ERR_INVALID (the state is of no epoch of so many samples; rank)
 */
TUTTI_MUST_USE tutti_status tutti_shard_resume(
        tutti_shard *shard, tutti_shard_state state, int rank, int ranks);

/* ------------------------------------------------------------------ records */

/** Format of a file of records. Fill it with tutti_records_options_default(). */
typedef struct tutti_records_options {
    size_t size; /**< sizeof(tutti_records_options) as the caller knew it     */
    size_t record_bytes; /**< of a record; required                               */
    size_t header_bytes; /**< in front of the first record; default 0             */
    int64_t records; /**< of the file; a file with less, or with more, is refused. 0
                          (default): as many as there are, without remainder     */
    int64_t prefetch; /**< steps that tutti_records_next() reads ahead; default 4 */
} tutti_records_options;

/** Fills the first `size` bytes; call the macro without _sized. NULL is allowed. */
void tutti_records_options_default_sized(tutti_records_options *options, size_t size);

/** Fills options with the defaults and their size. */
#define tutti_records_options_default(options) \
    tutti_records_options_default_sized((options), sizeof(tutti_records_options))

/** A file of records of one size. Any thread. Opaque. */
typedef struct tutti_records tutti_records;

/**
 * Opens a file. Local.
 * @param[out] records  released with tutti_records_close()
 * @return TUTTI_OK, TUTTI_ERR_INVALID (options; the file is empty, shorter or longer than it
 *         should be, or its size is not a multiple of the record: the message has path and
 *         numbers), TUTTI_ERR_SYSTEM (it cannot be opened or mapped), TUTTI_ERR_NO_MEMORY
 */
TUTTI_MUST_USE tutti_status tutti_records_open(const char *path,
        const tutti_records_options *options, tutti_records **records);

/** Closes a file; its mapping ends. NULL is allowed. */
void tutti_records_close(tutti_records *records);

/** Records in the file. */
int64_t tutti_records_count(const tutti_records *records);

/**
 * A record where the file is mapped: no copy. Valid until tutti_records_close(). If the file is
 * truncated afterwards, accessing it raises SIGBUS, as with every mapping; functions that copy
 * (tutti_records_read(), tutti_records_next()) return an error instead.
 * @return NULL if there is no such record
 */
const void *tutti_records_at(const tutti_records *records, int64_t index);

/** Asks the system to have records in memory soon; returns at once. Others are ignored. */
void tutti_records_prefetch(
        const tutti_records *records, const int64_t *indices, int64_t count);

/**
 * Copies records.
 * @param[out] out  count * record_bytes
 * @return TUTTI_OK, TUTTI_ERR_INVALID (names an index that is no record; nothing is copied; or
 *         the file has been truncated since it was opened: names file and record),
 *         TUTTI_ERR_SYSTEM (it cannot be read)
 */
TUTTI_MUST_USE tutti_status tutti_records_read(
        const tutti_records *records, const int64_t *indices, int64_t count, void *out);

/**
 * tutti_shard_next() and tutti_records_read(): the records of this rank's next step. Those of
 * the following options.prefetch steps are prefetched.
 * @param indices     room for `batch`, as for tutti_shard_next()
 * @param[out] out    room for `batch` records
 * @param[out] count  records; 0: the epoch is over for this rank
 * @return as tutti_records_read(): the step is not taken then; TUTTI_ERR_INVALID also if the
 *         shard has more samples than there are records
 */
TUTTI_MUST_USE tutti_status tutti_records_next(const tutti_records *records,
        tutti_shard *shard, int64_t batch, int64_t *indices, void *out, int64_t *count);

#if defined(__GNUC__)
#    pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif

#endif
