/*
 * tutti: collective communication for data-parallel training.
 *
 * Ranks submit named tensors in any order and from any thread. tutti agrees across ranks
 * on which tensors are ready, fuses small ones, runs the collective and hands back the
 * result.
 *
 * Shape of use
 *
 *     tutti_init(&t, NULL);                              join the job
 *     tutti_alloc(t, bytes, TUTTI_HOST, &memory);        optional: reduced without a copy
 *     tutti_broadcast(t, "params", ...);                 same start on all ranks
 *     each step:
 *         tutti_allreduce_async(t, name, ..., &request)  as soon as a gradient is ready
 *         tutti_wait_all(t, n, requests, ...)            before the update; or callbacks,
 *                                                        or tutti_wait_stream_all() on GPUs
 *     tutti_finalize(t);                                 collective
 *
 *   For a fixed set of tensors, tutti_tensor_register() once and tutti_submit() in each
 *   step save the lock, hash and string of a submission by name. tutti_group_begin() and
 *   tutti_group_end() submit tensors all or nothing. Process sets run collectives among
 *   some of the ranks. tutti_test(), tutti_cancel() and timeouts serve programs that may
 *   not block.
 *
 * Conventions
 *   - Every function that can fail returns a tutti_status; TUTTI_OK is 0. A call
 *     that fails has changed nothing. tutti_last_error() has the message.
 *   - Counts are numbers of elements, 64-bit. Sizes are bytes. Timeouts are relative
 *     nanoseconds. Ranks and roots are indices within the process set of the call.
 *   - A name is scoped by (process set, operation): an allreduce "loss" and a
 *     broadcast "loss" are different tensors.
 *   - Buffers belong to tutti ("lent" below) from submission to local completion: until
 *     tutti_wait() or tutti_test() returns a final status, or the callback starts. After
 *     that no rank reads or writes them.
 *   - All functions that take a tutti * may be called from any thread, except where
 *     they say otherwise, and except when MPI was initialised below
 *     MPI_THREAD_MULTIPLE (see docs/threads.md).
 *   - The library never exits, aborts, installs signal handlers or prints except
 *     through its log callback (default: stderr). Between tutti_init() over MPI and MPI's
 *     finalization by tutti, SIGPIPE is ignored if it had its default action, because MPI
 *     writes to sockets of ranks that may have died.
 *
 * Three kinds of failure, and only three:
 *   refused          the call returns an error and nothing happened;
 *   failed work      one operation fails with the same status and message on every
 *                    rank of its process set; the job can continue;
 *   failed context   a rank died or aborted: every pending and every later operation
 *                    returns TUTTI_ERR_CONTEXT_FAILED with the first cause and its rank.
 */
#ifndef TUTTI_TUTTI_H
#define TUTTI_TUTTI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The library is compiled with hidden symbols; what is declared here is exported. */
#if defined(__GNUC__)
#    pragma GCC visibility push(default)
#endif

/* ------------------------------------------------------------------ version */

#define TUTTI_VERSION_MAJOR 0
#define TUTTI_VERSION_MINOR 1
#define TUTTI_VERSION_PATCH 0
#define TUTTI_VERSION_STRING "0.1.0"

/** Marks a result that must not be ignored. */
#if defined(__GNUC__)
#    define TUTTI_MUST_USE __attribute__((warn_unused_result))
#else
#    define TUTTI_MUST_USE
#endif

/** Marks a function whose arguments are those of printf(), for the compiler's checks. */
#if defined(__GNUC__)
#    define TUTTI_PRINTF(text, first) __attribute__((format(printf, text, first)))
#else
#    define TUTTI_PRINTF(text, first)
#endif

/** The version of the library that is loaded, e.g. "0.1.0"; never freed. */
const char *tutti_version(void);

/**
 * True if the loaded library has a feature:
 *   "openmpi", "mpich"  the plug-in of this MPI is there; "mpi": one of them is
 *   "hwloc"    always
 *   "shm"      shared memory between the processes of a node
 *   "hier"     shared memory inside nodes for sets that span several nodes
 *   "cuda"     GPU kernels are built in; tutti_gpu_describe() describes this machine's GPUs
 *   "avx512", "avx2", "neon"  it reduces with these instructions on this processor
 */
bool tutti_has_feature(const char *feature);

/* ------------------------------------------------------------------- status */

/*
 * X(symbol, number, text). Numbers travel between ranks: append only.
 */
#define TUTTI_STATUS_MAP(X) \
    X(TUTTI_OK, 0, "success") \
    X(TUTTI_AGAIN, 1, "not finished yet") \
    X(TUTTI_ERR_INVALID, -1, "invalid argument") \
    X(TUTTI_ERR_NO_MEMORY, -2, "out of memory") \
    X(TUTTI_ERR_DUPLICATE, -3, "a tensor of this name is already in flight") \
    X(TUTTI_ERR_MISMATCH, -4, "ranks asked for different things under one name") \
    X(TUTTI_ERR_UNSUPPORTED, -5, "not supported") \
    X(TUTTI_ERR_TIMEOUT, -6, "timed out; the operation goes on") \
    X(TUTTI_ERR_CANCELLED, -7, "cancelled") \
    X(TUTTI_ERR_CONTEXT_FAILED, -8, "the context has failed") \
    X(TUTTI_ERR_FINALIZED, -9, "a rank has finalized") \
    X(TUTTI_ERR_CONFIG, -10, "invalid configuration") \
    X(TUTTI_ERR_SYSTEM, -11, "a system call failed") \
    X(TUTTI_ERR_MPI, -12, "an MPI call failed") \
    X(TUTTI_ERR_PROTOCOL, -13, "a malformed or unexpected message arrived") \
    X(TUTTI_ERR_THREAD, -14, "called from a thread that may not make this call") \
    X(TUTTI_ERR_INTERNAL, -15, "internal error")

/** Result of every call that can fail. */
typedef enum tutti_status {
#define TUTTI_STATUS_ENUM(symbol, number, text) symbol = (number),
    TUTTI_STATUS_MAP(TUTTI_STATUS_ENUM)
#undef TUTTI_STATUS_ENUM
} tutti_status;

/** The symbol, e.g. "TUTTI_ERR_MISMATCH"; "unknown status" for other numbers. */
const char *tutti_status_name(tutti_status status);

/** A short text, e.g. "out of memory"; never NULL, never freed. */
const char *tutti_status_text(tutti_status status);

/**
 * The message of the calling thread's last failed tutti call: what failed, its value, the
 * ranks concerned and what to do. Waiting calls store the message of the request that
 * failed. Never NULL; "" if no call has failed. Valid until the next failing call of this
 * thread.
 */
const char *tutti_last_error(void);

/**
 * For libraries on top of tutti: stores a message that tutti_last_error() returns to the
 * calling thread, and returns the status.
 * @param format  as for printf(); long texts are cut
 */
TUTTI_PRINTF(2, 3)
tutti_status tutti_set_last_error(tutti_status status, const char *format, ...);

/* -------------------------------------------------------------------- types */

/*
 * X(symbol, number, name, bytes). Numbers travel between ranks: append only.
 */
#define TUTTI_DTYPE_MAP(X) \
    X(TUTTI_UINT8, 0, "uint8", 1) \
    X(TUTTI_INT8, 1, "int8", 1) \
    X(TUTTI_UINT16, 2, "uint16", 2) \
    X(TUTTI_INT16, 3, "int16", 2) \
    X(TUTTI_UINT32, 4, "uint32", 4) \
    X(TUTTI_INT32, 5, "int32", 4) \
    X(TUTTI_UINT64, 6, "uint64", 8) \
    X(TUTTI_INT64, 7, "int64", 8) \
    X(TUTTI_FLOAT16, 8, "float16", 2) \
    X(TUTTI_BFLOAT16, 9, "bfloat16", 2) \
    X(TUTTI_FLOAT32, 10, "float32", 4) \
    X(TUTTI_FLOAT64, 11, "float64", 8) \
    X(TUTTI_BOOL, 12, "bool", 1) \
    X(TUTTI_FLOAT8_E4M3, 13, "float8_e4m3", 1) \
    X(TUTTI_FLOAT8_E5M2, 14, "float8_e5m2", 1)

/**
 * Element types. float16 is IEEE binary16, bfloat16 the upper half of a float32;
 * both are summed in float32 and rounded once, to nearest even. A bool is one byte,
 * 0 or 1. The float8 types can be moved but not reduced.
 */
typedef enum tutti_dtype {
#define TUTTI_DTYPE_ENUM(symbol, number, name, bytes) symbol = (number),
    TUTTI_DTYPE_MAP(TUTTI_DTYPE_ENUM)
#undef TUTTI_DTYPE_ENUM
} tutti_dtype;

/** Bytes per element; 0 for other numbers. */
size_t tutti_dtype_size(tutti_dtype dtype);

/** Name, e.g. "bfloat16"; "unknown dtype" for other numbers. */
const char *tutti_dtype_name(tutti_dtype dtype);

/*
 * X(symbol, number, name). Numbers travel between ranks: append only.
 */
#define TUTTI_REDUCE_MAP(X) \
    X(TUTTI_SUM, 0, "sum") \
    X(TUTTI_AVERAGE, 1, "average") \
    X(TUTTI_MIN, 2, "min") \
    X(TUTTI_MAX, 3, "max") \
    X(TUTTI_PRODUCT, 4, "product") \
    X(TUTTI_SET_AVERAGE, 5, "set_average")

/**
 * Reductions. In host memory they follow one fixed binary tree of the ranks of the set
 * (docs/numerics.md), so equal inputs give equal bits, however tensors are fused or chunked.
 * In device memory NCCL chooses the order and what MIN and MAX return for NaN.
 *   TUTTI_AVERAGE      the sum divided by the number of ranks that contribute; on integers
 *                      the sum is computed in 64 bits, where it may wrap, and the quotient
 *                      truncated toward zero.
 *   TUTTI_SET_AVERAGE  the same divided by the size of the set: ranks that have joined
 *                      (tutti_join()) count as zeros. As long as none has, it is TUTTI_AVERAGE.
 *   TUTTI_MIN/MAX      NaN wins; on bool they are AND and OR.
 * Other reductions of bool are refused.
 */
typedef enum tutti_reduce_op {
#define TUTTI_REDUCE_ENUM(symbol, number, name) symbol = (number),
    TUTTI_REDUCE_MAP(TUTTI_REDUCE_ENUM)
#undef TUTTI_REDUCE_ENUM
} tutti_reduce_op;

/** Name, e.g. "average"; "unknown reduction" for other numbers. */
const char *tutti_reduce_name(tutti_reduce_op op);

/*
 * X(symbol, number, name). Numbers travel between ranks: append only. TUTTI_MESSAGE is what
 * tutti_send() and tutti_recv() are, on both sides, in texts and metrics.
 */
#define TUTTI_COLLECTIVE_MAP(X) \
    X(TUTTI_ALLREDUCE, 0, "allreduce") \
    X(TUTTI_BROADCAST, 1, "broadcast") \
    X(TUTTI_BARRIER, 2, "barrier") \
    X(TUTTI_ALLGATHER, 3, "allgather") \
    X(TUTTI_REDUCESCATTER, 4, "reducescatter") \
    X(TUTTI_ALLTOALL, 5, "alltoall") \
    X(TUTTI_REDUCE, 6, "reduce") \
    X(TUTTI_GATHER, 7, "gather") \
    X(TUTTI_SCATTER, 8, "scatter") \
    X(TUTTI_MESSAGE, 9, "message")

/** Collective operations; part of a tensor's name scope. */
typedef enum tutti_collective {
#define TUTTI_COLLECTIVE_ENUM(symbol, number, name) symbol = (number),
    TUTTI_COLLECTIVE_MAP(TUTTI_COLLECTIVE_ENUM)
#undef TUTTI_COLLECTIVE_ENUM
} tutti_collective;

/** Name, e.g. "allreduce"; "unknown collective" for other numbers. */
const char *tutti_collective_name(tutti_collective collective);

/** Longest tensor name in bytes, without the terminating zero. */
#define TUTTI_NAME_MAX 255
/** Largest number of dimensions of a shape. */
#define TUTTI_DIMS_MAX 16

/* ------------------------------------------------------ context and config */

/** A rank's membership in a job; owns all other objects. Opaque. */
typedef struct tutti tutti;

/** Settings for tutti_init*(): the environment, overridden by calls. Opaque. */
typedef struct tutti_config tutti_config;

/** Severity of a log line; less is more severe. */
typedef enum tutti_log_level {
    TUTTI_LOG_ERROR = 0, /**< the caller's operation failed             */
    TUTTI_LOG_WARN = 1, /**< unexpected, but the job continues         */
    TUTTI_LOG_INFO = 2, /**< once per step of the life cycle           */
    TUTTI_LOG_DEBUG = 3, /**< per object                                */
    TUTTI_LOG_TRACE = 4 /**< per message                               */
} tutti_log_level;

/**
 * Receives one log line, without a newline.
 * @param user  the pointer given to tutti_config_set_log()
 * @param rank  the rank that logs; -1 before it is known
 * Called from any thread, with no lock held; must not call tutti.
 */
typedef void (*tutti_log_callback)(
        void *user, tutti_log_level level, int rank, const char *line);

/**
 * Creates a configuration from the defaults and the environment (TUTTI_*, and HOROVOD_*
 * names that have a counterpart; docs/reference/configuration.md).
 * @param[out] config  released with tutti_config_destroy()
 * @return TUTTI_OK, TUTTI_ERR_CONFIG (a variable has a bad value; tutti_last_error()
 *         names it, its value and its range), TUTTI_ERR_NO_MEMORY
 */
TUTTI_MUST_USE tutti_status tutti_config_create(tutti_config **config);

/** Releases a configuration; NULL is allowed. Contexts have their own copies. */
void tutti_config_destroy(tutti_config *config);

/**
 * Sets a parameter from text, by its name ("stall_warning_s").
 * @return TUTTI_OK, TUTTI_ERR_CONFIG (unknown name, with a suggestion, or bad value),
 *         TUTTI_ERR_INVALID (NULL argument), TUTTI_ERR_NO_MEMORY
 */
TUTTI_MUST_USE tutti_status tutti_config_set(
        tutti_config *config, const char *name, const char *value);

/**
 * Reads a parameter as text.
 * @param[out] text  the value, valid until this configuration changes
 * @return TUTTI_OK, TUTTI_ERR_CONFIG (unknown name), TUTTI_ERR_INVALID
 */
TUTTI_MUST_USE tutti_status tutti_config_get(
        const tutti_config *config, const char *name, const char **text);

/**
 * Sends the log lines of contexts made with this configuration to a callback; NULL
 * restores stderr.
 * @return TUTTI_OK, TUTTI_ERR_INVALID (config is NULL)
 */
tutti_status tutti_config_set_log(
        tutti_config *config, tutti_log_callback callback, void *user);

/**
 * Describes the GPU support found in this process: the CUDA driver, its devices, NCCL,
 * which NCCL calls are used, and the kernels. If no GPU can be used, the text begins with
 * "no GPU: " and the reason. Loads the driver and NCCL and uses no device.
 * @param config    supplies cuda_library, nccl_library, gpu and gpu_kernels; NULL: the
 *                  defaults and the environment
 * @param[out] text lines for people, each ended by a newline; they may change between
 *                  versions
 * @param capacity  size of text in bytes; a longer text is cut. 16 KiB are enough
 * @return TUTTI_OK, also if there is no GPU; TUTTI_ERR_INVALID (text is NULL, or capacity
 *         is 0), TUTTI_ERR_CONFIG (config is NULL and a variable has a bad value),
 *         TUTTI_ERR_NO_MEMORY
 */
TUTTI_MUST_USE tutti_status tutti_gpu_describe(
        const tutti_config *config, char *text, size_t capacity);

/**
 * Joins the job that the launcher (tuttirun, mpirun, srun, torchrun) started, as MPI_Init
 * does; over UCX where that is without an MPI (docs/without-mpi.md). A process without a
 * launcher and without MPI is a job of one rank. If the application has
 * not initialised MPI, this call does so with MPI_THREAD_MULTIPLE, and the last context of the process
 * finalizes MPI in tutti_finalize(); MPI cannot be initialised again after that: see
 * tutti_mpi_hold().
 *
 * Collective over all ranks: if one rank cannot start, all return an error that names it and
 * the reason. A rank that fails before MPI runs, because of a bad value in its environment,
 * cannot tell the others. It must exit; the launcher then ends the others.
 * @param[out] t      the context, released with tutti_finalize()
 * @param[in] config  NULL: taken from the environment; else copied
 * @return TUTTI_OK, TUTTI_ERR_CONFIG (bad value, or ranks differ in a value that must be
 *         equal), TUTTI_ERR_MPI (also if MPI was already finalized, and in a child of
 *         fork() after the parent had called it), TUTTI_ERR_NO_MEMORY, TUTTI_ERR_SYSTEM,
 *         TUTTI_ERR_INVALID (t is NULL),
 *         TUTTI_ERR_UNSUPPORTED (the plug-in of an MPI is missing or of another version)
 */
TUTTI_MUST_USE tutti_status tutti_init(tutti **t, const tutti_config *config);

/**
 * Like tutti_init(), but only some ranks of the launcher's job make a context, which has its
 * own world: the ranks in the order of the list. Collective over these ranks; the others need
 * not know. MPI must run: the program has initialised it, or there was a tutti_init() or
 * tutti_mpi_hold(). (A program that is linked to no MPI gets one by "tuttirun --transport mpi".)
 * For sets that all ranks make together, tutti_process_set_create() is cheaper: a context has
 * its own background thread and shared memory.
 * @param[in] ranks  n distinct ranks of MPI_COMM_WORLD, the same list on all of them; copied
 * @return as tutti_init(); TUTTI_ERR_INVALID also for a rank out of range or listed twice, and
 *         if this rank is not listed
 */
TUTTI_MUST_USE tutti_status tutti_init_ranks(
        tutti **t, const int *ranks, int n, const tutti_config *config);

/**
 * An allgather of the program: gives this rank's bytes and waits for those of all, the same
 * number on each. Blocks.
 * @param user      as given to tutti_init_oob()
 * @param[in] mine  `bytes` bytes of this rank
 * @param[out] all  size * bytes: those of rank r begin at r * bytes
 * @return 0, or what it could not do
 */
typedef int (*tutti_oob_allgather)(
        void *user, const void *mine, void *all, size_t bytes);

/**
 * Like tutti_init(), but the program knows who is there: it says which rank this is of how
 * many, and brings an allgather by which the ranks exchange addresses (what UCC calls
 * ucc_oob_coll, in its blocking form). Messages travel over UCX; neither MPI nor a launcher
 * is needed.
 *
 * Collective over all ranks, as tutti_init(). The allgather is called a few times, by the
 * calling thread, with at most some KiB for each rank, and not after the return.
 * @param[in] allgather  equal in effect on all ranks
 * @param user           its argument
 * @return as tutti_init(), but for MPI; TUTTI_ERR_INVALID also if rank or size cannot be;
 *         TUTTI_ERR_SYSTEM: the allgather failed; TUTTI_ERR_MPI: UCX did, or a rank is gone;
 *         TUTTI_ERR_UNSUPPORTED: the library has no UCX
 */
TUTTI_MUST_USE tutti_status tutti_init_oob(tutti **t, int rank, int size,
        tutti_oob_allgather allgather, void *user, const tutti_config *config);

/**
 * Creates n ranks inside this process, one for each of n threads. They share memory and
 * need no MPI. contexts[i] is rank i. Finalizing is collective, so n threads must call
 * tutti_finalize(), one for each context.
 * @param[in] n          number of ranks, 1 to 1024
 * @param[out] contexts  n contexts
 * @return TUTTI_OK, TUTTI_ERR_INVALID, TUTTI_ERR_CONFIG, TUTTI_ERR_NO_MEMORY,
 *         TUTTI_ERR_SYSTEM
 */
TUTTI_MUST_USE tutti_status tutti_init_local(
        int n, tutti **contexts, const tutti_config *config);

/**
 * Leaves the job. Collective: it waits until every rank has called it, then releases the
 * context and all its memory, including that of tutti_alloc(). Operations that all ranks
 * have submitted are completed first; the others fail with TUTTI_ERR_FINALIZED. No other
 * thread may be inside a tutti call on t.
 *
 * In a failed context it waits for no rank and returns within a second, or later if the GPU
 * still uses the caller's memory. If tutti initialised MPI and not all ranks arrive in that
 * time, MPI is not finalized; the message says so, and the process should end.
 * @param t  released unless TUTTI_ERR_THREAD is returned; NULL is allowed and does nothing
 * @return TUTTI_OK; TUTTI_ERR_CONTEXT_FAILED with the first cause if the context had failed;
 *         TUTTI_ERR_MPI if this context ended normally but MPI was not finalized, because
 *         another context of the process had failed; TUTTI_ERR_THREAD inside a callback of
 *         the context, or where MPI's thread level forbids the call: nothing has changed
 */
tutti_status tutti_finalize(tutti *t);

/**
 * Keeps MPI for later contexts: the last tutti_finalize() does not finalize it, so
 * tutti_init() may be called again. Initialises MPI if necessary. Has no effect if the
 * program initialised MPI, or if it is held already. If a context fails while MPI is held,
 * no other can be created. Any thread.
 * @return TUTTI_OK (without MPI, too), TUTTI_ERR_MPI
 */
TUTTI_MUST_USE tutti_status tutti_mpi_hold(void);

/**
 * Ends tutti_mpi_hold(). If no context is left, MPI is finalized, and the call is collective:
 * it waits for all ranks, but in a failed job only for a moment. Otherwise the last
 * tutti_finalize() finalizes MPI. Has no effect if MPI is not held. Any thread.
 * @return TUTTI_OK; TUTTI_ERR_MPI: a context had failed, and MPI was not finalized
 */
tutti_status tutti_mpi_release(void);

/**
 * Declares the job broken. The context of every rank fails with this text and this rank as
 * the first cause, and all pending operations return. Returns at once; all ranks must still
 * call tutti_finalize().
 * @param text  what happened, copied
 * @return TUTTI_OK, TUTTI_ERR_INVALID (NULL argument)
 */
tutti_status tutti_abort(tutti *t, const char *text);

/**
 * Writes a line to the context's log, where the library's own lines go, if the parameter
 * log_level admits it.
 * @param format  as for printf(), without a newline; long lines are cut
 */
TUTTI_PRINTF(3, 4)
void tutti_log(const tutti *t, tutti_log_level level, const char *format, ...);

/** This rank, 0 to tutti_size() - 1. */
int tutti_rank(const tutti *t);
/** Number of ranks of the job. */
int tutti_size(const tutti *t);
/** Index of this rank among the ranks of its node. */
int tutti_local_rank(const tutti *t);
/** Number of ranks on this node. */
int tutti_local_size(const tutti *t);
/** Index of this node; nodes are numbered by their lowest rank. */
int tutti_node(const tutti *t);
/** Number of nodes. */
int tutti_node_count(const tutti *t);

/**
 * True if a background thread moves data while the application computes. False if MPI was
 * initialised below MPI_THREAD_MULTIPLE or background_thread is false; data then move only
 * inside tutti calls.
 */
bool tutti_has_background(const tutti *t);

/* ------------------------------------------------------------------ memory */

/** Where memory is. */
typedef enum tutti_memory_kind {
    TUTTI_HOST = 0, /**< host memory, 64-byte aligned, zeroed                        */
    TUTTI_DEVICE =
            1 /**< memory of the rank's GPU, 256-byte aligned, zeroed: tensors in it
                        that lie side by side are reduced in place, with no copy    */
} tutti_memory_kind;

/**
 * Allocates memory that tutti reduces with the fewest copies. A local call. Freed by
 * tutti_free() or tutti_finalize(). Do not pass it to free() or realloc(): the process ends
 * ("free(): invalid pointer"), at once or in tutti_finalize(). Where ranks of a node share
 * memory, children of fork() cannot access it, nor outputs that requests own.
 *
 * Host memory is fully committed when the call returns, so using it later cannot fail. The
 * call is refused if the memory exceeds, without swapping, what the host has available or
 * what a memory cgroup of this process may still take (the kernel would kill the process
 * instead of refusing). It is also refused if it leaves too little for the other ranks of
 * the node, which may be allocating too: 32 MiB for each rank, or 1/32 of the memory for all,
 * whichever is less, but at least 1 MiB for each. So ranks can allocate concurrently until
 * no memory is left. Concurrent allocations by others, such as malloc() or another
 * job in the same cgroup, are not taken into account. The same holds for outputs that
 * requests own and for tutti's own buffers; if these do not fit, the context fails, and the
 * message names the exhausted resource.
 * @param bytes     0 is allowed and gives a unique pointer
 * @param[out] mem  the memory
 * @return TUTTI_OK, TUTTI_ERR_NO_MEMORY (for host memory the message has the amount left),
 *         TUTTI_ERR_INVALID, TUTTI_ERR_UNSUPPORTED (device memory, and this rank has no
 *         GPU)
 */
TUTTI_MUST_USE tutti_status tutti_alloc(
        tutti *t, size_t bytes, tutti_memory_kind kind, void **mem);

/**
 * Frees memory of tutti_alloc() of the same context, or an output taken from a request. NULL
 * is allowed; memory of malloc() is refused, and so is memory that an operation in flight may
 * read or write. Device memory: the caller's own kernels must have finished with it.
 * @return TUTTI_OK; TUTTI_ERR_INVALID: not such memory, or in use by the operation named in the
 *         message: free it when that is complete, after tutti_wait() or in its callback
 */
tutti_status tutti_free(tutti *t, void *mem);

/**
 * Makes existing memory, of malloc() for example, like memory of tutti_alloc(), in place: the
 * address and the contents stay. Tensors entirely inside it are then reduced with the fewest
 * copies. A local call. If ranks do not share memory (one rank on the node, backend=mpi), or
 * are threads of one process, which share it anyway, it succeeds and does nothing.
 *
 * The whole pages of the range are replaced by shared ones. Parts of its first and last page
 * stay private and are copied whenever a tensor in them is reduced; so is a
 * range without a whole page. The call needs twice the memory while it runs.
 *
 * Until tutti_unshare(), or tutti_finalize(), which does the same:
 *   - do not free(), realloc() or munmap() it;
 *   - children of fork() cannot access the whole pages;
 *   - earlier madvise(), mlock() and mbind() have no effect; do not mprotect() the pages, and
 *     do not expect MADV_DONTNEED to clear them. Transparent huge pages are replaced by small
 *     ones, subject to /sys/kernel/mm/transparent_hugepage/shmem_enabled.
 *
 * During the call no thread may write to the range. Do not share stacks of other threads, which
 * cannot be detected. Other threads may share other ranges.
 * @param ptr    start of the range, with any alignment. NULL only with 0 bytes
 * @param bytes  0 is allowed and does nothing
 * @return TUTTI_OK; TUTTI_ERR_NO_MEMORY (as tutti_alloc()); TUTTI_ERR_INVALID: part of it is
 *         shared already, used by an operation in flight, memory of tutti_alloc(), a stack, a
 *         mapped file, a shared mapping, huge pages of hugetlbfs, memory of a device, or not
 *         both readable and writable;
 *         TUTTI_ERR_SYSTEM (/proc/self/maps cannot be read)
 */
TUTTI_MUST_USE tutti_status tutti_share(tutti *t, void *ptr, size_t bytes);

/**
 * Makes memory of tutti_share() the program's own again; the address and the contents stay.
 * No thread may use it during the call, which needs twice the memory while it runs.
 * @param ptr  start of a range of tutti_share(). NULL is allowed
 * @return TUTTI_OK; TUTTI_ERR_NO_MEMORY: it stays shared; TUTTI_ERR_INVALID: no range begins
 *         there; or an operation in flight, named in the message, may use it: it stays shared, and
 *         must not be freed before that is complete; or it was freed or moved while it was shared;
 *         TUTTI_ERR_SYSTEM (/proc/self/maps cannot be read)
 */
tutti_status tutti_unshare(tutti *t, void *ptr);

/* ------------------------------------------------------------ process sets */

/** A set of ranks with its own collectives; a handle. */
typedef uint32_t tutti_process_set;

/** The set of all ranks. */
#define TUTTI_WORLD ((tutti_process_set)0)

/**
 * Creates a set from ranks of the world. The set's ranks are numbered in the order of the
 * list. Collective over the world: all ranks, members or not, call it with the same list.
 * Operations may be in flight. Several sets may have the same list. A rank creates and splits
 * one at a time, whatever the thread, and all ranks in the same order; otherwise the call
 * fails on all of them with TUTTI_ERR_MISMATCH (a split counts as an empty list).
 * @param[in] ranks  n distinct ranks of the world, copied
 * @param[out] set   the handle, equal on all ranks
 * @return TUTTI_OK, TUTTI_ERR_INVALID (empty, out of range or repeated rank),
 *         TUTTI_ERR_MISMATCH (ranks gave different lists, or some of them split),
 *         TUTTI_ERR_THREAD, TUTTI_ERR_NO_MEMORY,
 *         TUTTI_ERR_CONTEXT_FAILED, TUTTI_ERR_FINALIZED
 */
TUTTI_MUST_USE tutti_status tutti_process_set_create(
        tutti *t, const int *ranks, int n, tutti_process_set *set);

/**
 * Splits the world: the ranks of one color form a set, ordered by key and, for equal keys, by
 * world rank. Collective over the world. The sets are created in ascending order of color,
 * and every rank gets the handle of its own set.
 * @param color     0 or more, or TUTTI_UNDEFINED: in no set
 * @param key       any number
 * @param[out] set  the set of this rank's color; TUTTI_WORLD for TUTTI_UNDEFINED
 * @return as tutti_process_set_create(); TUTTI_ERR_INVALID for another negative color
 */
TUTTI_MUST_USE tutti_status tutti_process_set_split(
        tutti *t, int color, int key, tutti_process_set *set);

/** The color of a rank that is to be in no set. */
#define TUTTI_UNDEFINED (-1)

/**
 * Removes a set. Collective over the world. The set must have nothing in flight on this
 * rank. Handles are not reused.
 * @return TUTTI_OK, TUTTI_ERR_INVALID (unknown set, or the world),
 *         TUTTI_ERR_DUPLICATE (an operation is in flight, or already being removed),
 *         TUTTI_ERR_CONTEXT_FAILED, TUTTI_ERR_FINALIZED
 */
TUTTI_MUST_USE tutti_status tutti_process_set_destroy(tutti *t, tutti_process_set set);

/**
 * Number of ranks in a set, and this rank's index in it (-1: not a member).
 * @param[out] size  may be NULL
 * @param[out] rank  may be NULL
 * @return TUTTI_OK, TUTTI_ERR_INVALID (unknown set)
 */
TUTTI_MUST_USE tutti_status tutti_process_set_info(
        tutti *t, tutti_process_set set, int *size, int *rank);

/**
 * The world ranks of a set, in the set's order.
 * @param[out] ranks  room for `capacity` entries
 * @return TUTTI_OK, TUTTI_ERR_INVALID (unknown set, or capacity below the set's size)
 */
TUTTI_MUST_USE tutti_status tutti_process_set_ranks(
        tutti *t, tutti_process_set set, int *ranks, int capacity);

/**
 * All sets, in ascending order: TUTTI_WORLD, then the others in the order of their
 * creation, including those without this rank. Local. Any thread; a set that another
 * thread creates or removes at the same time may be in the list or not.
 * @param[out] sets   receives the first `capacity` of them; may be NULL if capacity is 0
 * @param[out] count  number of sets, possibly more than capacity
 * @return TUTTI_OK, TUTTI_ERR_INVALID (negative capacity, or NULL)
 */
TUTTI_MUST_USE tutti_status tutti_process_set_list(
        tutti *t, tutti_process_set *sets, int capacity, int *count);

/**
 * True if float32 sums of allreduce in host memory follow one binary tree of the ranks of
 * the set, in the set's order, whatever their size (docs/numerics.md): then programs can
 * predict their bits from the inputs and the number of ranks. Fixed as long as no rank of
 * the set has joined (tutti_join()), and equal on all ranks of the set. Any thread.
 *
 * False if sums are computed by node or by cache (hierarchy) and the groups are not consecutive
 * blocks of the same power of two of ranks, of which the last may be smaller; if MPI computes
 * them (backend=vendor, in TUTTI_WORLD); if they may be sent in 16 bits (wire_dtype, in a job
 * on several nodes); and if the set does not exist or this rank is not a member.
 */
bool tutti_sums_follow_ranks(tutti *t, tutti_process_set set);

/**
 * Describes how an allreduce in host memory would run: the backend, over messages the
 * algorithm, and, if the link between nodes was measured when the job started, the time of each
 * algorithm by the model of docs/design/link.md. For people; the text may change.
 * Local. Any thread; waits while another thread is inside a waiting call.
 * @param count      elements, at least 1; fusion may put several tensors in one operation
 * @param[out] text  of `size` bytes, 256 are enough; ends with 0
 * @return TUTTI_OK; TUTTI_ERR_INVALID (unknown set, or no member; no elements or no room);
 *         TUTTI_ERR_UNSUPPORTED (no such reduction of the type); TUTTI_ERR_THREAD
 */
TUTTI_MUST_USE tutti_status tutti_explain_allreduce(tutti *t, tutti_process_set set,
        uint64_t count, tutti_dtype dtype, tutti_reduce_op op, char *text, size_t size);

/* ------------------------------------------------------ options, requests */

/**
 * Called once when an operation is finished, on the thread that runs the engine, with
 * no lock held. It may submit and must not wait. The request is already consumed.
 * @param status   final status of the operation
 * @param message  the reason when it failed, else ""; valid during the call
 */
typedef void (*tutti_callback)(void *user, tutti_status status, const char *message);

/** No step is given: see tutti_options. */
#define TUTTI_NO_STEP ((int64_t)-1)

/**
 * A CUDA stream: a cudaStream_t or CUstream of the rank's device, in its primary context.
 * NULL is CUDA's legacy default stream.
 */
typedef void *tutti_stream;

/**
 * Options of an operation. Fill them with tutti_options_default(), then change fields; a
 * struct whose size is 0 is refused. NULL instead of options means the defaults. Copied by
 * the call.
 */
typedef struct tutti_options {
    size_t size; /**< sizeof(tutti_options) as the caller knew it  */
    tutti_process_set process_set; /**< default TUTTI_WORLD                          */
    int ndim; /**< dimensions in dims; 0: no shape is compared  */
    const int64_t *dims; /**< shape, compared across ranks; product = count */
    double prescale; /**< each input is multiplied by it; default 1    */
    double postscale; /**< the result is multiplied by it; default 1    */
    int priority; /**< higher is more urgent; a hint; default 0     */
    tutti_callback callback; /**< NULL: none. With one, no request is returned; with
                            issue=caller it does not trigger issue to the GPU    */
    void *user; /**< passed to the callback                       */
    tutti_stream stream; /**< tensors in device memory: the CUDA stream that
                            writes the input and may still use the output. Work that
                            is on it at submission (of a group: when it ends) finishes
                            before either is used. Default NULL: the legacy
                            default stream. On a rank that sends and receives no rows,
                            a stream stands for device memory                    */
    int64_t step; /**< 0 or more: number of this use of the name, compared
                            across ranks like a shape. A use that a rank left out then
                            fails with TUTTI_ERR_MISMATCH on all ranks instead of being
                            paired with the next one. Costs nothing if steps grow
                            evenly: by the same number, after the same number of uses.
                            Default TUTTI_NO_STEP: not compared; either all ranks give
                            a step or none does. For a registered tensor it is an
                            argument of tutti_submit()                           */
} tutti_options;

/**
 * Fills the first `size` bytes of options with the defaults, and options->size with size;
 * NULL is allowed. Programs call the macro tutti_options_default(), which passes the size of
 * the struct they were compiled with, so program and library may be of different versions.
 */
void tutti_options_default_sized(tutti_options *options, size_t size);

/** Fills options with the defaults and their size. */
#define tutti_options_default(options) \
    tutti_options_default_sized((options), sizeof(tutti_options))

/** An operation in flight; a value, never reused while it is valid. */
typedef uint64_t tutti_request;

/** No request. Waiting for it succeeds at once. */
#define TUTTI_REQUEST_NULL ((tutti_request)0)

/** No timeout. */
#define TUTTI_FOREVER INT64_MAX

/**
 * Waits until an operation is finished and consumes the request. The waiting thread runs the
 * engine itself.
 * @param request     set to TUTTI_REQUEST_NULL when consumed
 * @param timeout_ns  0 polls, TUTTI_FOREVER waits
 * @return the operation's final status: TUTTI_OK, TUTTI_ERR_MISMATCH,
 *         TUTTI_ERR_CANCELLED, TUTTI_ERR_CONTEXT_FAILED, TUTTI_ERR_FINALIZED, ...;
 *         or, the request not consumed, TUTTI_ERR_TIMEOUT (the operation continues and
 *         owns its buffers), TUTTI_ERR_INVALID (unknown or consumed request),
 *         TUTTI_ERR_THREAD (inside a callback)
 *
 * Below MPI_THREAD_MULTIPLE only the thread that called tutti_init*() moves data; other
 * threads sleep until it is inside a tutti call (docs/threads.md).
 */
TUTTI_MUST_USE tutti_status tutti_wait(
        tutti *t, tutti_request *request, int64_t timeout_ns);

/**
 * Makes progress and tells whether an operation is finished; if so, consumes the request.
 * With TUTTI_REQUEST_NULL it only makes progress; docs/threads.md says when that is needed.
 * It does not wait, so it is allowed inside a group.
 * @return TUTTI_AGAIN if it is not finished; otherwise as tutti_wait()
 */
TUTTI_MUST_USE tutti_status tutti_test(tutti *t, tutti_request *request);

/**
 * Waits for n operations. Requests of finished operations are consumed and set to
 * TUTTI_REQUEST_NULL, even if others fail or time out.
 * @param requests       n requests; TUTTI_REQUEST_NULL entries count as finished
 * @param[out] statuses  NULL, or n statuses: final, or TUTTI_ERR_TIMEOUT
 * @return TUTTI_OK, else the first error in the order of the array, else
 *         TUTTI_ERR_TIMEOUT
 */
TUTTI_MUST_USE tutti_status tutti_wait_all(tutti *t, size_t n, tutti_request *requests,
        int64_t timeout_ns, tutti_status *statuses);

/**
 * Waits for an operation that owns its output (its output was NULL) and takes the
 * output. tutti_wait(), tutti_test() and tutti_wait_all() return TUTTI_OK for such a
 * request without consuming it. It stays valid until this call takes the output, or until
 * tutti_finalize().
 * @param request      set to TUTTI_REQUEST_NULL when consumed
 * @param[out] output  the rows of all ranks, in order of rank; to be freed with
 *                     tutti_free(), not free(); never NULL on success
 * @param[out] rows_of NULL, or room for one number per rank of the set: the rows that
 *                     came from it
 * @param timeout_ns   as for tutti_wait()
 * @return as tutti_wait(); TUTTI_ERR_INVALID also if the request owns no output
 */
TUTTI_MUST_USE tutti_status tutti_request_take_output(tutti *t, tutti_request *request,
        void **output, int64_t *rows_of, int64_t timeout_ns);

/**
 * Makes a stream wait for an operation on device memory, and consumes the request. Work put
 * on the stream after this call sees the result and may reuse the input. The calling thread
 * waits only until the operation is issued: every rank of the set has submitted it, and its
 * commands are on streams of the GPU. It does not wait for the GPU, except for operations
 * staged through host memory (docs/gpu.md). After this call the name may be submitted again.
 * For an operation on host memory the call behaves like tutti_wait(). A request that owns its
 * output stays valid, as with tutti_wait(). An operation whose stream is being captured in a
 * CUDA graph (docs/gpu.md; issue=caller) is finished when it is part of the graph, where this
 * stream, of the same capture, waits for it.
 * @param request    set to TUTTI_REQUEST_NULL when consumed
 * @param stream     a stream of this rank's device
 * @param timeout_ns as for tutti_wait()
 * @return as tutti_wait(). TUTTI_ERR_INVALID if the stream belongs to another context, or is
 *         being captured and the operation is not part of that capture, or the other way
 *         round: the request stays valid. If the GPU has already finished the
 *         operation, the stream is not used. TUTTI_ERR_CONTEXT_FAILED is returned without
 *         waiting for the GPU: a request whose buffers the GPU may still use stays valid, and
 *         the buffers are free when tutti_wait() or tutti_finalize() has returned. A GPU error
 *         after this call fails the context and is returned by the next call
 */
TUTTI_MUST_USE tutti_status tutti_wait_stream(
        tutti *t, tutti_request *request, tutti_stream stream, int64_t timeout_ns);

/**
 * tutti_wait_stream() for n requests: the stream waits for all of them.
 * @param statuses NULL, or room for n
 * @return as tutti_wait_all()
 */
TUTTI_MUST_USE tutti_status tutti_wait_stream_all(tutti *t, size_t n,
        tutti_request *requests, tutti_stream stream, int64_t timeout_ns,
        tutti_status *statuses);

/**
 * Tries to withdraw an operation. If it has not been announced to other ranks yet, it ends at
 * once with TUTTI_ERR_CANCELLED, on this rank only. Otherwise it ends with that status on all
 * ranks once all have submitted it. If the ranks had agreed on it before the cancellation
 * arrived, it completes normally. The request stays valid and must be waited for.
 * @return TUTTI_OK (requested), TUTTI_ERR_INVALID (unknown or finished request)
 */
TUTTI_MUST_USE tutti_status tutti_cancel(tutti *t, tutti_request request);

/* ------------------------------------------------------------- collectives */

/**
 * Reduces count elements over the ranks of a set; every rank gets the result.
 * out[i] = postscale * (prescale * in_0[i] op ... op prescale * in_n-1[i]).
 * @param name     1 to TUTTI_NAME_MAX bytes, no control characters; copied
 * @param input    count elements, lent until completion
 * @param output   count elements, lent; may equal input (in place) and must not overlap it
 *                 otherwise
 * @param count    elements; 0 is allowed
 * @param options  NULL for defaults. prescale and postscale other than 1 are refused
 *                 for integers and bool
 * @param[out] request  the handle to wait for; NULL only with a callback
 * @return TUTTI_OK: submitted; TUTTI_ERR_INVALID, TUTTI_ERR_UNSUPPORTED (bool or
 *         float8 with this reduction), TUTTI_ERR_DUPLICATE, TUTTI_ERR_NO_MEMORY,
 *         TUTTI_ERR_CONTEXT_FAILED, TUTTI_ERR_FINALIZED
 */
TUTTI_MUST_USE tutti_status tutti_allreduce_async(tutti *t, const char *name,
        const void *input, void *output, int64_t count, tutti_dtype dtype,
        tutti_reduce_op op, const tutti_options *options, tutti_request *request);

/** tutti_allreduce_async() and tutti_wait() in one; statuses of both. */
TUTTI_MUST_USE tutti_status tutti_allreduce(tutti *t, const char *name,
        const void *input, void *output, int64_t count, tutti_dtype dtype,
        tutti_reduce_op op, const tutti_options *options);

/**
 * Copies count elements of the root to every rank of the set.
 * @param buffer  count elements: read on the root, written elsewhere; lent
 * @param root    rank within the set
 * @return as tutti_allreduce_async()
 */
TUTTI_MUST_USE tutti_status tutti_broadcast_async(tutti *t, const char *name,
        void *buffer, int64_t count, tutti_dtype dtype, int root,
        const tutti_options *options, tutti_request *request);

/** tutti_broadcast_async() and tutti_wait() in one; statuses of both. */
TUTTI_MUST_USE tutti_status tutti_broadcast(tutti *t, const char *name, void *buffer,
        int64_t count, tutti_dtype dtype, int root, const tutti_options *options);

/**
 * Reduces count elements over the ranks of a set. Only the root gets the result.
 * @param output  on the root: count elements, lent; may equal input. Ignored on other ranks
 * @param root    rank within the set
 * @return as tutti_allreduce_async()
 */
TUTTI_MUST_USE tutti_status tutti_reduce_async(tutti *t, const char *name,
        const void *input, void *output, int64_t count, tutti_dtype dtype,
        tutti_reduce_op op, int root, const tutti_options *options,
        tutti_request *request);

/** tutti_reduce_async() and tutti_wait() in one; statuses of both. */
TUTTI_MUST_USE tutti_status tutti_reduce(tutti *t, const char *name, const void *input,
        void *output, int64_t count, tutti_dtype dtype, tutti_reduce_op op, int root,
        const tutti_options *options);

/**
 * Sends count elements to one other rank, which receives them with tutti_recv_async() under the
 * same name; no other rank has a part in it. Messages of different names are independent of each
 * other, so ranks may send to each other at the same time, each before it receives. A name is
 * scoped by sender and receiver, whatever the process set, so both directions may use one; it is
 * used again when the message before has completed.
 *
 * A send is complete when the buffer may be used again, and not before the other rank receives. In
 * a group, messages are submitted together with its other members, but each is launched for
 * itself, and the others' ranks need not group them; they may go to any ranks.
 *
 * Both sides must give the same count, dtype and shape, and memory of the same kind (host, or GPU,
 * whose memory is copied through the host); if not, both fail with TUTTI_ERR_MISMATCH, and the
 * message has both values. A peer that has called tutti_finalize() fails the message with
 * TUTTI_ERR_FINALIZED; one that never comes is named by the stall check.
 * @param buffer  count elements, lent until completion; only read. NULL is allowed for 0
 * @param peer    the receiver, as rank within the set; not this rank itself
 * @param options prescale and postscale are ignored
 * @return as tutti_allreduce_async()
 */
TUTTI_MUST_USE tutti_status tutti_send_async(tutti *t, const char *name,
        const void *buffer, int64_t count, tutti_dtype dtype, int peer,
        const tutti_options *options, tutti_request *request);

/** tutti_send_async() and tutti_wait() in one; statuses of both. */
TUTTI_MUST_USE tutti_status tutti_send(tutti *t, const char *name, const void *buffer,
        int64_t count, tutti_dtype dtype, int peer, const tutti_options *options);

/**
 * Receives count elements that one other rank sends with tutti_send_async() under the same
 * name; see there.
 * @param buffer  count elements, lent until completion. NULL is allowed for 0
 * @param peer    the sender, as rank within the set; not this rank itself
 * @return as tutti_send_async()
 */
TUTTI_MUST_USE tutti_status tutti_recv_async(tutti *t, const char *name, void *buffer,
        int64_t count, tutti_dtype dtype, int peer, const tutti_options *options,
        tutti_request *request);

/** tutti_recv_async() and tutti_wait() in one; statuses of both. */
TUTTI_MUST_USE tutti_status tutti_recv(tutti *t, const char *name, void *buffer,
        int64_t count, tutti_dtype dtype, int peer, const tutti_options *options);

/*
 * The following operations work on rows: a tensor has `rows` rows along its first dimension,
 * each of row_count elements, without gaps. A shape in the options is that of this rank's
 * input (scatter: of its output); its first dimension is compared only where it must be the
 * same on all ranks.
 */

/**
 * Reduces rows over the ranks of a set and gives each rank its part of the result.
 * @param input   rows * row_count elements, lent
 * @param output  the elements of this rank's part, lent; it may be that part of the input
 *                (in place) and must not overlap the input otherwise
 * @param rows    the same on all ranks
 * @param rows_of NULL: divided as by tutti_part(). Otherwise one number per rank of the set,
 *                the same on all ranks, with the sum `rows`; copied
 * @return as tutti_allreduce_async()
 */
TUTTI_MUST_USE tutti_status tutti_reducescatter_async(tutti *t, const char *name,
        const void *input, void *output, int64_t rows, int64_t row_count,
        const int64_t *rows_of, tutti_dtype dtype, tutti_reduce_op op,
        const tutti_options *options, tutti_request *request);

/** tutti_reducescatter_async() and tutti_wait() in one; statuses of both. */
TUTTI_MUST_USE tutti_status tutti_reducescatter(tutti *t, const char *name,
        const void *input, void *output, int64_t rows, int64_t row_count,
        const int64_t *rows_of, tutti_dtype dtype, tutti_reduce_op op,
        const tutti_options *options);

/**
 * Divides rows into parts; the first rows % parts parts get one row more.
 * @param[out] first  NULL, or the index of the first row of the part
 * @return the rows of the part; 0 if index is outside 0 to parts - 1 or rows is negative
 */
int64_t tutti_part(int64_t rows, int parts, int index, int64_t *first);

/**
 * Gathers the rows of all ranks, in order of rank, on every rank.
 * @param input   this rank's rows, lent
 * @param output  the rows of all ranks, lent. It may contain the input as this rank's part
 *                (in place) and must not overlap it otherwise. NULL: see below
 * @param rows    rows of this rank; 0 is allowed
 * @param rows_of NULL, or one number per rank of the set, the same on all ranks; copied
 * @return as tutti_allreduce_async(); TUTTI_ERR_MISMATCH if ranks chose different forms
 *
 * There are three forms. All ranks must choose the same one:
 *   output, no rows_of    every rank has the same number of rows
 *   rows_of               rank r has rows_of[r] rows; output may be NULL
 *   neither               each rank may have any number of rows; the sizes travel with the
 *                         data
 * Without an output the request owns it: see tutti_request_take_output().
 */
TUTTI_MUST_USE tutti_status tutti_allgather_async(tutti *t, const char *name,
        const void *input, void *output, int64_t rows, int64_t row_count,
        const int64_t *rows_of, tutti_dtype dtype, const tutti_options *options,
        tutti_request *request);

/** tutti_allgather_async() with an output and tutti_wait() in one; statuses of both. */
TUTTI_MUST_USE tutti_status tutti_allgather(tutti *t, const char *name,
        const void *input, void *output, int64_t rows, int64_t row_count,
        const int64_t *rows_of, tutti_dtype dtype, const tutti_options *options);

/**
 * Sends rows to every rank and receives rows from every rank, both in order of rank.
 * @param input     `rows` rows, lent: first those for rank 0, then those for rank 1, ...
 * @param output    the rows received, lent. It may equal input if all parts have the same
 *                  size, and must not overlap it otherwise. NULL: the request owns it
 * @param rows      rows of the input
 * @param send_rows NULL: each rank gets `rows` divided by the number of ranks, without
 *                  remainder, and rows is the same on all ranks. Otherwise one number per
 *                  rank of the set, with the sum `rows`; copied
 * @param recv_rows one number per rank: the rows that come from it; copied. Required with
 *                  send_rows and an output, allowed with send_rows alone, NULL otherwise
 * @return as tutti_allreduce_async(); TUTTI_ERR_MISMATCH if ranks chose different forms, or
 *         a rank expects a different number of rows than another sends it
 *
 * With send_rows and without an output, the ranks do not agree on sizes beforehand: the
 * sizes travel with the data and may change from step to step at no cost.
 */
TUTTI_MUST_USE tutti_status tutti_alltoall_async(tutti *t, const char *name,
        const void *input, void *output, int64_t rows, int64_t row_count,
        const int64_t *send_rows, const int64_t *recv_rows, tutti_dtype dtype,
        const tutti_options *options, tutti_request *request);

/** tutti_alltoall_async() with an output and tutti_wait() in one; statuses of both. */
TUTTI_MUST_USE tutti_status tutti_alltoall(tutti *t, const char *name,
        const void *input, void *output, int64_t rows, int64_t row_count,
        const int64_t *send_rows, const int64_t *recv_rows, tutti_dtype dtype,
        const tutti_options *options);

/**
 * Gathers the rows of all ranks, in order of rank, on the root.
 * @param input   this rank's rows, lent
 * @param output  on the root: the rows of all ranks, lent; it may contain the input as the
 *                root's part (in place). NULL: the request owns it. Ignored on other ranks
 * @param rows    rows of this rank
 * @param rows_of on the root with an output: one number per rank of the set, or NULL if
 *                every rank has as many rows as the root; copied. Ignored otherwise
 * @return as tutti_allreduce_async(); TUTTI_ERR_MISMATCH if the root expects a different
 *         number of rows than a rank sends
 */
TUTTI_MUST_USE tutti_status tutti_gather_async(tutti *t, const char *name,
        const void *input, void *output, int64_t rows, int64_t row_count,
        const int64_t *rows_of, tutti_dtype dtype, int root,
        const tutti_options *options, tutti_request *request);

/** tutti_gather_async() with an output and tutti_wait() in one; statuses of both. */
TUTTI_MUST_USE tutti_status tutti_gather(tutti *t, const char *name, const void *input,
        void *output, int64_t rows, int64_t row_count, const int64_t *rows_of,
        tutti_dtype dtype, int root, const tutti_options *options);

/**
 * Distributes rows of the root: rank r gets part r.
 * @param input   on the root: the rows for all ranks in order of rank, lent. Ignored on
 *                other ranks
 * @param output  this rank's part, lent; on the root it may be the root's part of the input.
 *                NULL: the request owns it, and rows is ignored except on the root without
 *                rows_of
 * @param rows    rows of this rank
 * @param rows_of on the root: one number per rank of the set, or NULL if every rank gets as
 *                many rows as the root; copied. Ignored on other ranks
 * @return as tutti_allreduce_async(); TUTTI_ERR_MISMATCH if a rank expects a different number
 *         of rows than the root sends
 */
TUTTI_MUST_USE tutti_status tutti_scatter_async(tutti *t, const char *name,
        const void *input, void *output, int64_t rows, int64_t row_count,
        const int64_t *rows_of, tutti_dtype dtype, int root,
        const tutti_options *options, tutti_request *request);

/** tutti_scatter_async() with an output and tutti_wait() in one; statuses of both. */
TUTTI_MUST_USE tutti_status tutti_scatter(tutti *t, const char *name, const void *input,
        void *output, int64_t rows, int64_t row_count, const int64_t *rows_of,
        tutti_dtype dtype, int root, const tutti_options *options);

/**
 * Finishes when every rank of the set has submitted it. Barriers of different names may be
 * in flight together.
 * @param options  only process_set, callback, user and step are used
 * @return as tutti_allreduce_async()
 */
TUTTI_MUST_USE tutti_status tutti_barrier_async(tutti *t, const char *name,
        const tutti_options *options, tutti_request *request);

/** tutti_barrier_async() and tutti_wait() in one; statuses of both. */
TUTTI_MUST_USE tutti_status tutti_barrier(
        tutti *t, const char *name, const tutti_options *options);

/**
 * Declares that this rank has no more data for now, for example because its share of an
 * uneven data set is used up. The operation finishes when every rank of the set has joined.
 * Until then allreduce, reduce and reducescatter run without the joined ranks; TUTTI_AVERAGE
 * divides by the number of ranks that contribute, TUTTI_SET_AVERAGE by the size of the set.
 * The other collectives fail with TUTTI_ERR_UNSUPPORTED on the ranks that submit them, and
 * so does a reduce to a root that has joined. Operations that this rank submitted before it
 * joined still count. Until the join is finished this rank may submit nothing else to the
 * set; afterwards no rank is joined. Not inside a group.
 * @param options      only process_set, callback and user are used
 * @param[out] last    NULL, or the index in the set of the rank that joined last, which has
 *                     seen the most data; the same on all ranks. Lent until the join is
 *                     finished, and valid then
 * @return as tutti_allreduce_async(); TUTTI_ERR_DUPLICATE if this rank has already joined;
 *         TUTTI_ERR_FINALIZED if a rank finalizes instead of joining
 */
TUTTI_MUST_USE tutti_status tutti_join_async(
        tutti *t, const tutti_options *options, int *last, tutti_request *request);

/** tutti_join_async() and tutti_wait() in one; statuses of both. */
TUTTI_MUST_USE tutti_status tutti_join(
        tutti *t, const tutti_options *options, int *last);

/* -------------------------------------------------------- registered names */

/** A name with its metadata, registered once; a handle of one context. */
typedef uint64_t tutti_tensor;

/** Metadata of tutti_tensor_register(). Zero it, then fill it. */
typedef struct tutti_tensor_desc {
    size_t size; /**< sizeof(tutti_tensor_desc)                      */
    const char *name; /**< copied                                         */
    tutti_collective collective; /**< the operation                                  */
    int64_t count; /**< elements, or rows if it works on rows          */
    tutti_dtype dtype; /**< element type                                   */
    tutti_reduce_op op; /**< for reductions                                 */
    int root; /**< for operations with a root: rank in the set    */
    const tutti_options *options; /**< NULL: defaults; callback, user and step are
                                       ignored                              */
    int64_t row_count; /**< elements of a row, if it works on rows         */
    const int64_t *rows_of; /**< rows_of, or send_rows of alltoall; copied      */
    const int64_t *recv_rows; /**< of alltoall; copied                            */
    bool owns_output; /**< the output of submit is NULL: see take_output  */
} tutti_tensor_desc;

/**
 * Registers a name with its metadata, so that submitting it handles no string, takes no
 * lock and allocates nothing. Local: not all ranks need to register it. Any thread.
 * @param[out] tensor  the handle, never 0; valid until it is unregistered, its process set
 *                     is destroyed, or the context is finalized
 * @return TUTTI_OK, TUTTI_ERR_INVALID, TUTTI_ERR_UNSUPPORTED, TUTTI_ERR_DUPLICATE
 *         (already registered in this set and operation), TUTTI_ERR_NO_MEMORY
 */
TUTTI_MUST_USE tutti_status tutti_tensor_register(
        tutti *t, const tutti_tensor_desc *desc, tutti_tensor *tensor);

/**
 * Removes a registration. The tensor must not be in flight. A request of it that is not yet
 * consumed stays valid.
 * @return TUTTI_OK, TUTTI_ERR_INVALID (unknown), TUTTI_ERR_DUPLICATE (in flight)
 */
tutti_status tutti_tensor_unregister(tutti *t, tutti_tensor tensor);

/**
 * Submits a registered tensor. Other ranks may submit the same tensor by name. Any thread.
 * It takes no lock, except if a thread has a group open, if the last request of this tensor
 * is not yet consumed, or if the submission is refused; then it takes the lock that
 * submission by name takes.
 * @param input    as for the operation; ignored by broadcast and barrier
 * @param output   as for the operation; the buffer of a broadcast
 * @param step     as in tutti_options; TUTTI_NO_STEP: not given
 * @param callback NULL, or called at completion instead of returning a request
 * @return as tutti_allreduce_async()
 */
TUTTI_MUST_USE tutti_status tutti_submit(tutti *t, tutti_tensor tensor,
        const void *input, void *output, int64_t step, tutti_callback callback,
        void *user, tutti_request *request);

/* ------------------------------------------------------------------ groups */

/**
 * Starts a group in the calling thread. All or none of this thread's submissions on t until
 * tutti_group_end() are submitted, and they are launched together. Groups do not nest. All
 * members use one process set. Calls that wait are refused inside a group; a collective that
 * is refused for this reason counts as a refused member.
 * @return TUTTI_OK, TUTTI_ERR_INVALID (a group is open), TUTTI_ERR_NO_MEMORY
 */
TUTTI_MUST_USE tutti_status tutti_group_begin(tutti *t);

/**
 * Submits the group. If any submission of this thread was refused since
 * tutti_group_begin(), nothing is submitted, the group's requests become invalid, and the
 * first such error is returned. The same happens if another thread of this rank has joined
 * the process set since then. Every rank must submit the same members in one group; if not,
 * all members fail with TUTTI_ERR_MISMATCH.
 * @return TUTTI_OK, TUTTI_ERR_INVALID (no group is open, or this rank has joined), the
 *         first error of a member, TUTTI_ERR_CONTEXT_FAILED, TUTTI_ERR_FINALIZED
 */
TUTTI_MUST_USE tutti_status tutti_group_end(tutti *t);

/* -------------------------------------------------------------- statistics */

/** Counters of one rank since tutti_init*(). */
typedef struct tutti_stats {
    size_t size; /**< sizeof(tutti_stats), set by the caller           */
    uint64_t submitted; /**< operations accepted                              */
    uint64_t completed; /**< operations finished with TUTTI_OK                */
    uint64_t failed; /**< operations finished with an error                */
    uint64_t bytes; /**< payload of the finished operations               */
    uint64_t batches; /**< launches; completed / batches = fusion           */
    uint64_t announced_by_bit; /**< tensors announced by a known number              */
    uint64_t announced_by_name; /**< tensors announced by name                        */
    uint64_t control_messages; /**< control messages sent                            */
    uint64_t control_bytes; /**< their bytes                                      */
    uint64_t wait_ns; /**< time spent by callers inside waiting calls       */
    uint64_t stalls; /**< stall lines logged here                          */
    uint64_t planned; /**< 0, as are the next three: there are no plans any more;
                         removed in the next version */
    uint64_t planned_steps; /**< 0                                                */
    uint64_t slow_steps; /**< 0                                                */
    uint64_t plan_exits; /**< 0                                                */
    uint64_t device_batches; /**< of batches, those in device memory               */
    uint64_t device_packed; /**< of these, packed in a fusion buffer by a kernel,
                               or, of alltoalls in place, copied there          */
    uint64_t device_in_place; /**< of these, with several tensors and no copy       */
    uint64_t device_staged; /**< of these, copied to host memory and back         */
    uint64_t device_launches; /**< tutti's own kernels: packing and unpacking       */
    uint64_t device_hierarchical; /**< 0; removed in the next version               */
    uint64_t rank_wait_ns; /**< time that batches, ready on this rank, waited for
                              other ranks; least on the slowest rank               */
    uint64_t busy_ns; /**< time in which a batch was in flight; parameter metrics   */
} tutti_stats;

/**
 * Reads the counters.
 * @param[in,out] stats  stats->size set; only the fields within it are written
 * @return TUTTI_OK, TUTTI_ERR_INVALID (size is 0)
 */
TUTTI_MUST_USE tutti_status tutti_stats_get(tutti *t, tutti_stats *stats);

/**
 * Starts a timeline of this rank only, for tutti-trace: a file of bounded size, FOLDER/rank.N, with
 * the last events of the rank. The timeline continues if it was stopped in the same folder.
 * @param[in] folder  created if missing; FILE.json stands for FILE.json.ranks; NULL: that
 *                    of the parameter timeline
 * @return TUTTI_OK, TUTTI_ERR_INVALID (no folder is given), TUTTI_ERR_SYSTEM (it cannot be
 *         written), TUTTI_ERR_UNSUPPORTED (nothing is recorded), TUTTI_ERR_NO_MEMORY
 */
TUTTI_MUST_USE tutti_status tutti_timeline_start(tutti *t, const char *folder);
/**
 * Stops the timeline, if there is one; the file stays.
 * @return TUTTI_OK, TUTTI_ERR_INVALID (t is NULL)
 */
TUTTI_MUST_USE tutti_status tutti_timeline_stop(tutti *t);

/* ----------------------------------------------------------------- metrics */

/** Type of a metric, as in Prometheus. */
typedef enum tutti_metric_kind {
    TUTTI_METRIC_COUNTER = 0, /**< only grows                                        */
    TUTTI_METRIC_GAUGE = 1, /**< goes up and down                                  */
    TUTTI_METRIC_HISTOGRAM = 2 /**< number of values by size                          */
} tutti_metric_kind;

/** A label of a sample, such as collective="allreduce". */
typedef struct tutti_label {
    const char *name;
    const char *value;
} tutti_label;

/** One sample. Everything in it is lent to the callback. */
typedef struct tutti_metric {
    size_t size; /**< sizeof(tutti_metric) of the library              */
    const char *name; /**< "tutti_bytes_total": docs/reference/metrics.md   */
    const char *help; /**< a sentence                                       */
    tutti_metric_kind kind; /**< of all samples of the name                       */
    size_t label_count; /**< number of labels                                 */
    const tutti_label *labels; /**< the first is the rank                            */
    double value; /**< of a histogram: the sum                          */
    uint64_t count; /**< of a histogram: number of values                 */
    size_t bucket_count; /**< of a histogram: number of bounds                 */
    const double *bounds; /**< bucket_count of them, ascending                  */
    const uint64_t *buckets; /**< bucket_count + 1: number of values up to each
                                bound; the last counts all                      */
} tutti_metric;

/** Receives the samples. Called in the calling thread, without a lock. */
typedef void (*tutti_metric_callback)(void *user, const tutti_metric *metric);

/** Formats of tutti_metrics_write(). */
typedef enum tutti_metrics_format {
    TUTTI_METRICS_PROMETHEUS =
            0, /**< text format 0.0.4; the file is replaced, by rename */
    TUTTI_METRICS_JSON = 1 /**< a line of JSON for each sample; appended           */
} tutti_metrics_format;

/**
 * Passes all metrics of this rank to the callback, grouped by name. Local. Any thread.
 * @return TUTTI_OK, TUTTI_ERR_INVALID (callback is NULL)
 */
TUTTI_MUST_USE tutti_status tutti_metrics_visit(
        tutti *t, tutti_metric_callback callback, void *user);

/**
 * Writes all metrics of this rank to a file. Any thread, but one call at a time for a
 * path. Under tuttirun, --metrics-file writes them for all ranks of a host.
 * @return TUTTI_OK, TUTTI_ERR_INVALID (path is NULL, unknown format), TUTTI_ERR_SYSTEM (the
 *         message has the path and the reason), TUTTI_ERR_NO_MEMORY
 */
TUTTI_MUST_USE tutti_status tutti_metrics_write(
        tutti *t, const char *path, tutti_metrics_format format);

#if defined(__GNUC__)
#    pragma GCC visibility pop
#endif

#ifdef __cplusplus
}
#endif

#endif
