/*
 * tutti: collective communication for data-parallel training.
 *
 * Ranks submit named tensors in any order and from any thread; tutti agrees
 * across ranks on what is ready, fuses small tensors, moves and reduces the data
 * and hands back the result. Tensors that come again under the same names, as in the
 * steps of a training, are planned after two iterations and from then on not negotiated,
 * as long as all ranks submit them again (parameter "plan", docs/tuning.md).
 *
 * Conventions
 *   - Every function that can fail returns a tutti_status; TUTTI_OK is 0. A call
 *     that fails has changed nothing. The reason in words is in tutti_last_error().
 *   - Counts are numbers of elements, 64-bit. Sizes are bytes. Timeouts are relative
 *     nanoseconds. Ranks and roots are indices within the process set of the call.
 *   - A name is scoped by (process set, operation): an allreduce "loss" and a
 *     broadcast "loss" are different tensors.
 *   - Buffers are lent from submission to local completion: tutti_wait() or
 *     tutti_test() returned a final status, or the callback started. After that no
 *     rank reads or writes them.
 *   - All functions that take a tutti * may be called from any thread, except where
 *     they say otherwise, and except when MPI was initialised below
 *     MPI_THREAD_MULTIPLE (see docs/threads.md).
 *   - The library never exits, aborts, installs signal handlers or prints except
 *     through its log callback (default: stderr).
 *
 * Three kinds of failure, and only three:
 *   refused          the call returns an error and nothing happened;
 *   failed work      one operation fails with the same status and message on every
 *                    rank of its process set, the job goes on;
 *   failed context   a peer is lost or the protocol is broken: every pending and
 *                    every later operation returns TUTTI_ERR_CONTEXT_FAILED with the
 *                    first cause and its rank.
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

/** The version of the library that is loaded, e.g. "0.1.0"; never freed. */
const char *tutti_version(void);

/**
 * True when the loaded library has a feature: "mpi", "openmpi", "mpich", "hwloc", "shm"
 * (shared memory between the processes of a node), "hier" (it is used in sets that span
 * nodes, too), "cuda" (its kernels for GPUs are built in; what this machine has says
 * tutti_gpu_describe()); or when it can reduce with vector instructions of this processor: "avx512",
 * "avx2", "neon".
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
 * What went wrong in the last failing tutti call of the calling thread, in words:
 * the thing, its value, the ranks concerned and the way out. Waiting calls store the
 * message of the request that failed. Never NULL; "" if nothing failed yet. Valid
 * until the next failing call of this thread.
 */
const char *tutti_last_error(void);

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

/** Bytes per element; 0 for a number that is no tutti_dtype. */
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
    X(TUTTI_PRODUCT, 4, "product")

/**
 * Reductions. In host memory all are evaluated over one fixed binary tree of the ranks of the
 * set (docs/numerics.md), so equal inputs give equal bits whatever was fused or chunked; in
 * device memory the order is NCCL's, and so is what MIN and MAX make of NaN.
 *   TUTTI_AVERAGE  on integers: the exact 64-bit sum divided by the number of ranks,
 *                  truncated toward zero.
 *   TUTTI_MIN/MAX  NaN wins; on bool they are AND and OR.
 * SUM, AVERAGE and PRODUCT of bool are refused.
 */
typedef enum tutti_reduce_op {
#define TUTTI_REDUCE_ENUM(symbol, number, name) symbol = (number),
    TUTTI_REDUCE_MAP(TUTTI_REDUCE_ENUM)
#undef TUTTI_REDUCE_ENUM
} tutti_reduce_op;

/** Name, e.g. "average"; "unknown reduction" for other numbers. */
const char *tutti_reduce_name(tutti_reduce_op op);

/*
 * X(symbol, number, name). Numbers travel between ranks: append only. Send and receive
 * between two ranks are not offered: see docs/collectives.md.
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
    X(TUTTI_SCATTER, 8, "scatter")

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

/** A rank's membership of a job: everything hangs off it. Opaque. */
typedef struct tutti tutti;

/** Settings for tutti_init*(): the environment, overridden by calls. Opaque. */
typedef struct tutti_config tutti_config;

/** Severity of a log line; less is more severe. */
typedef enum tutti_log_level {
    TUTTI_LOG_ERROR = 0, /**< the caller's work failed                  */
    TUTTI_LOG_WARN = 1, /**< odd, going on                             */
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
 * Creates a configuration filled from the defaults and the environment (TUTTI_*, and
 * the HOROVOD_* names that have a counterpart; docs/reference/configuration.md).
 * @param[out] config  released with tutti_config_destroy()
 * @return TUTTI_OK, TUTTI_ERR_CONFIG (a variable has a bad value; tutti_last_error()
 *         names it, its value and its range), TUTTI_ERR_NO_MEMORY
 */
TUTTI_MUST_USE tutti_status tutti_config_create(tutti_config **config);

/** Releases a configuration; NULL is allowed. Contexts keep a copy of their own. */
void tutti_config_destroy(tutti_config *config);

/**
 * Sets one parameter, by its name in the table ("stall_warning_s"), from text.
 * @return TUTTI_OK, TUTTI_ERR_CONFIG (unknown name, with a suggestion, or bad value),
 *         TUTTI_ERR_INVALID (NULL argument), TUTTI_ERR_NO_MEMORY
 */
TUTTI_MUST_USE tutti_status tutti_config_set(
        tutti_config *config, const char *name, const char *value);

/**
 * Reads one parameter as text.
 * @param[out] text  the value, valid until the next change of this configuration
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
 * Says what there is for GPUs in this process: the CUDA driver, its devices, NCCL and which
 * of its calls are used, and whether the kernels are there; or, in a line that begins with
 * "no GPU: ", why there are none. Loads the driver and NCCL, and uses no device.
 * @param config    whose cuda_library, nccl_library, gpu and gpu_kernels count; NULL: the
 *                  defaults and the environment
 * @param[out] text lines that end with a newline; for people, and not to be taken apart
 * @param capacity  bytes of text; more is cut. 16 KiB are enough
 * @return TUTTI_OK, also when there is none; TUTTI_ERR_INVALID (text is NULL, or capacity
 *         0), TUTTI_ERR_CONFIG (config is NULL and a variable has a bad value),
 *         TUTTI_ERR_NO_MEMORY
 */
TUTTI_MUST_USE tutti_status tutti_gpu_describe(
        const tutti_config *config, char *text, size_t capacity);

/**
 * Joins the job that the launcher started (tuttirun, mpirun, srun), as MPI_Init does.
 * Initialises MPI with MPI_THREAD_MULTIPLE if the application has not, and then also
 * finalizes it in tutti_finalize(). A process without a launcher is a job of one rank.
 * Collective over all ranks.
 * @param[out] t      the context, released with tutti_finalize()
 * @param[in] config  NULL: from the environment; not kept
 * @return TUTTI_OK, TUTTI_ERR_CONFIG (bad value, or ranks disagree on a value that must
 *         be equal), TUTTI_ERR_MPI (also when MPI was already finalized),
 *         TUTTI_ERR_NO_MEMORY, TUTTI_ERR_SYSTEM, TUTTI_ERR_INVALID (t is NULL),
 *         TUTTI_ERR_UNSUPPORTED (built without MPI)
 */
TUTTI_MUST_USE tutti_status tutti_init(tutti **t, const tutti_config *config);

/**
 * Makes n ranks inside this process, one for each of n threads; they share memory
 * and need no MPI. contexts[i] is rank i of n, to be used and finalized by thread i
 * (finalize is collective: from n threads).
 * @param[in] n          number of ranks, 1 to 1024
 * @param[out] contexts  n contexts
 * @return TUTTI_OK, TUTTI_ERR_INVALID, TUTTI_ERR_CONFIG, TUTTI_ERR_NO_MEMORY,
 *         TUTTI_ERR_SYSTEM
 */
TUTTI_MUST_USE tutti_status tutti_init_local(
        int n, tutti **contexts, const tutti_config *config);

/**
 * Leaves the job: waits until every rank called it, then releases the context and all
 * its memory (also that of tutti_alloc()). Collective. Operations still in flight
 * are completed first when all ranks submitted them and fail with
 * TUTTI_ERR_FINALIZED otherwise. No other thread may be inside a tutti call on t.
 * @param t  released in every case; NULL is allowed and does nothing
 * @return TUTTI_OK, or TUTTI_ERR_CONTEXT_FAILED with the first cause when the context
 *         had failed
 */
tutti_status tutti_finalize(tutti *t);

/**
 * Declares the job broken: every rank's context fails with this text and this rank as
 * its first cause, and all pending operations return. Returns at once.
 * @param text  what happened, copied
 * @return TUTTI_OK, TUTTI_ERR_INVALID (NULL argument)
 */
tutti_status tutti_abort(tutti *t, const char *text);

/** This rank, 0 to tutti_size() - 1. */
int tutti_rank(const tutti *t);
/** Number of ranks of the job. */
int tutti_size(const tutti *t);
/** This rank's index among the ranks of its node. */
int tutti_local_rank(const tutti *t);
/** Number of ranks on this node. */
int tutti_local_size(const tutti *t);
/** Index of this node; nodes are numbered by their lowest rank. */
int tutti_node(const tutti *t);
/** Number of nodes. */
int tutti_node_count(const tutti *t);

/**
 * True when a background thread moves data while the application computes; false when
 * MPI was initialised below MPI_THREAD_MULTIPLE or background_thread=0, so that data
 * move only inside tutti calls.
 */
bool tutti_has_background(const tutti *t);

/* ------------------------------------------------------------------ memory */

/** Where memory lives. */
typedef enum tutti_memory_kind {
    TUTTI_HOST = 0, /**< host memory, 64-byte aligned, zeroed                        */
    TUTTI_DEVICE =
            1 /**< memory of the rank's GPU, 256-byte aligned, zeroed: tensors in it
                        that lie side by side are reduced in place, with no copy    */
} tutti_memory_kind;

/**
 * Allocates memory that tutti can reduce with the fewest copies. A local call. Freed
 * by tutti_free() or tutti_finalize(). Where ranks of a node share memory, the children of
 * fork() do not have it; nor the outputs that requests own.
 * @param bytes     0 is allowed and gives a unique pointer
 * @param[out] mem  the memory
 * @return TUTTI_OK, TUTTI_ERR_NO_MEMORY, TUTTI_ERR_INVALID, TUTTI_ERR_UNSUPPORTED (device
 *         memory, and this rank has no GPU)
 */
TUTTI_MUST_USE tutti_status tutti_alloc(
        tutti *t, size_t bytes, tutti_memory_kind kind, void **mem);

/**
 * Frees memory of tutti_alloc() of the same context; NULL is allowed. What the caller has put on
 * streams of its own must be done with device memory.
 * @return TUTTI_OK, TUTTI_ERR_INVALID (not such memory)
 */
tutti_status tutti_free(tutti *t, void *mem);

/* ------------------------------------------------------------ process sets */

/** A set of ranks that does collectives of its own; a handle. */
typedef uint32_t tutti_process_set;

/** The set of all ranks. */
#define TUTTI_WORLD ((tutti_process_set)0)

/**
 * Creates a set from ranks of the world; the set's ranks are numbered in the order of
 * the list. Collective over the world: all ranks, members or not, call it with the
 * same list. Other work may be in flight. A list may be used for more than one set.
 * @param[in] ranks  n distinct ranks of the world, copied
 * @param[out] set   the handle, equal on all ranks
 * @return TUTTI_OK, TUTTI_ERR_INVALID (empty, out of range or repeated rank),
 *         TUTTI_ERR_MISMATCH (ranks gave different lists), TUTTI_ERR_NO_MEMORY,
 *         TUTTI_ERR_CONTEXT_FAILED, TUTTI_ERR_FINALIZED
 */
TUTTI_MUST_USE tutti_status tutti_process_set_create(
        tutti *t, const int *ranks, int n, tutti_process_set *set);

/**
 * Splits the world: ranks of one color form a set, numbered by key and, where keys are
 * equal, by world rank. Collective over the world. One set per color is made, in
 * ascending order of color, and every rank learns the handle of its own.
 * @param color     0 or more, or TUTTI_UNDEFINED: in no set
 * @param key       any
 * @param[out] set  the set of this rank's color; TUTTI_WORLD for TUTTI_UNDEFINED
 * @return as tutti_process_set_create(); TUTTI_ERR_INVALID for another negative color
 */
TUTTI_MUST_USE tutti_status tutti_process_set_split(
        tutti *t, int color, int key, tutti_process_set *set);

/** The color of a rank that is to be in no set. */
#define TUTTI_UNDEFINED (-1)

/**
 * Removes a set; its handle is never used again. Collective over the world; the set
 * must have nothing in flight on this rank.
 * @return TUTTI_OK, TUTTI_ERR_INVALID (unknown set, or the world),
 *         TUTTI_ERR_DUPLICATE (work in flight, or already being removed),
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

/* ------------------------------------------------------ options, requests */

/**
 * Called once when an operation is finished, on the thread that runs the engine, with
 * no lock held. It may submit; it must not wait. The request is already consumed.
 * @param status   final status of the operation
 * @param message  the reason when it failed, else ""; valid during the call
 */
typedef void (*tutti_callback)(void *user, tutti_status status, const char *message);

/**
 * A CUDA stream: a cudaStream_t or CUstream of the rank's device, in its primary context.
 * NULL is CUDA's legacy default stream.
 */
typedef void *tutti_stream;

/**
 * Options of an operation. Fill with tutti_options_default() first, then change
 * fields; a struct whose size is 0 is refused. NULL instead of options means the
 * defaults. Copied by the call.
 */
typedef struct tutti_options {
    size_t size; /**< sizeof(tutti_options) as the caller knew it  */
    tutti_process_set process_set; /**< default TUTTI_WORLD                          */
    int ndim; /**< dimensions in dims; 0: no shape is compared  */
    const int64_t *dims; /**< shape, compared across ranks; product = count */
    double prescale; /**< each input is multiplied by it; default 1    */
    double postscale; /**< the result is multiplied by it; default 1    */
    int priority; /**< more is more urgent; a hint; default 0       */
    tutti_callback callback; /**< NULL: none. With one, no request is returned; with
                            issue=caller that alone puts nothing on the GPU      */
    void *user; /**< handed to the callback                       */
    tutti_stream stream; /**< of tensors in device memory: the CUDA stream that
                            writes the input and may still use the output; what is
                            on it at submission (of a group: when it ends) is done
                            before either is touched. Default NULL: the legacy
                            default stream. On a rank that gives and takes no rows a
                            stream stands for device memory                      */
} tutti_options;

/**
 * Fills the first `size` bytes of options with the defaults, and options->size with size;
 * NULL is allowed. Called through tutti_options_default(), so that a program and the library
 * may know structs of different lengths.
 */
void tutti_options_default_sized(tutti_options *options, size_t size);

/** Fills options with the defaults and their size. */
#define tutti_options_default(options) \
    tutti_options_default_sized((options), sizeof(tutti_options))

/** An operation in flight; a value, never reused while it is valid. */
typedef uint64_t tutti_request;

/** No request. Waiting for it succeeds at once. */
#define TUTTI_REQUEST_NULL ((tutti_request)0)

/** A timeout that never comes. */
#define TUTTI_FOREVER INT64_MAX

/**
 * Waits until an operation is finished and consumes the request. The waiting thread
 * drives communication itself.
 * @param request     set to TUTTI_REQUEST_NULL when consumed
 * @param timeout_ns  0 polls, TUTTI_FOREVER waits
 * @return the operation's final status: TUTTI_OK, TUTTI_ERR_MISMATCH,
 *         TUTTI_ERR_CANCELLED, TUTTI_ERR_CONTEXT_FAILED, TUTTI_ERR_FINALIZED, ...;
 *         or, the request not consumed, TUTTI_ERR_TIMEOUT (the operation goes on and
 *         owns its buffers), TUTTI_ERR_INVALID (unknown or consumed request),
 *         TUTTI_ERR_THREAD (inside a callback, or MPI's thread level forbids it)
 */
TUTTI_MUST_USE tutti_status tutti_wait(
        tutti *t, tutti_request *request, int64_t timeout_ns);

/**
 * Makes some progress and asks whether an operation is finished.
 * @return TUTTI_AGAIN while it is not; otherwise as tutti_wait()
 */
TUTTI_MUST_USE tutti_status tutti_test(tutti *t, tutti_request *request);

/**
 * Waits for n operations. Finished ones are consumed and set to TUTTI_REQUEST_NULL,
 * also when others fail or time out.
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
 * request without consuming it: it stays valid until the output is taken here, or until
 * tutti_finalize().
 * @param request      set to TUTTI_REQUEST_NULL when consumed
 * @param[out] output  the rows of all ranks, in order of rank; to be freed with
 *                     tutti_free(); never NULL on success
 * @param[out] rows_of NULL, or room for one number per rank of the set: the rows that
 *                     came from it
 * @param timeout_ns   as for tutti_wait()
 * @return as tutti_wait(); TUTTI_ERR_INVALID also when the request owns no output
 */
TUTTI_MUST_USE tutti_status tutti_request_take_output(tutti *t, tutti_request *request,
        void **output, int64_t *rows_of, int64_t timeout_ns);

/**
 * Makes a stream wait for an operation on device memory, and consumes the request: what is
 * put on the stream from now on finds the result, and may reuse the input. May block until
 * the operation is issued (every rank of the set has submitted it), and never until the GPU
 * has carried it out, unless the operation goes through host memory (docs/gpu.md). From then
 * on the name may be submitted again. An operation on host memory is waited for as by
 * tutti_wait(). Where the request owns its output it stays valid as with tutti_wait().
 * @param request    set to TUTTI_REQUEST_NULL when consumed
 * @param stream     of this rank's device
 * @param timeout_ns as for tutti_wait()
 * @return as tutti_wait(); TUTTI_ERR_INVALID when the stream is of another context or is
 *         being captured, and then the request stays valid; an operation that the GPU has
 *         carried out needs no stream, and looks at none. TUTTI_ERR_CONTEXT_FAILED comes
 *         without a wait for the GPU, too: a request whose buffers it may still use stays
 *         valid, and tutti_wait() or tutti_finalize() returns when it does not. An error of
 *         the GPU after this call fails the context, and is told by the next one
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
 * Tries to withdraw an operation. Before the tensor was announced to other ranks it
 * ends at once with TUTTI_ERR_CANCELLED on this rank only. Later the operation ends on
 * all ranks with TUTTI_ERR_CANCELLED once all of them have submitted it, unless it
 * was agreed on before the cancellation arrived: then it completes as usual. The
 * request stays valid and must be waited for.
 * @return TUTTI_OK (asked for), TUTTI_ERR_INVALID (unknown or finished request)
 */
TUTTI_MUST_USE tutti_status tutti_cancel(tutti *t, tutti_request request);

/* ------------------------------------------------------------- collectives */

/**
 * Reduces count elements over the ranks of a set; every rank gets the result.
 * out[i] = postscale * (prescale * in_0[i] op ... op prescale * in_n-1[i]).
 * @param name     1 to TUTTI_NAME_MAX bytes, no control characters; copied
 * @param input    count elements, lent until completion
 * @param output   count elements, lent; may equal input (in place), must not overlap it
 *                 otherwise
 * @param count    elements; 0 is allowed
 * @param options  NULL for defaults. prescale and postscale other than 1 are refused
 *                 for integers and bool
 * @param[out] request  to be waited for; NULL only with a callback
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
 * Reduces count elements over the ranks of a set; the root alone gets the result.
 * @param output  count elements on the root, lent; may equal input. Elsewhere ignored
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

/*
 * The following work on rows: a tensor of `rows` rows along its first dimension, each of
 * row_count elements, without gaps. A shape in the options is that of this rank's input
 * (of the output for scatter); its first dimension is compared only where it must be
 * equal on all ranks.
 */

/**
 * Reduces rows over the ranks of a set and spreads the result: each rank gets its part of
 * the rows.
 * @param input   rows * row_count elements, lent
 * @param output  the elements of this rank's part, lent; it may be that part of the input
 *                (in place) but must not overlap the input otherwise
 * @param rows    equal on all ranks
 * @param rows_of NULL: as tutti_part() says. Else one number per rank of the set, equal on
 *                all ranks, with the sum `rows`; copied
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
 * The part of rows that falls to one of several: the first rows % parts get one more.
 * @param[out] first  NULL, or where the part begins
 * @return its rows; 0 when index is outside 0 to parts - 1 or rows is negative
 */
int64_t tutti_part(int64_t rows, int parts, int index, int64_t *first);

/**
 * Gathers the rows of all ranks, in order of rank, on every rank.
 * @param input   this rank's rows, lent
 * @param output  the rows of all ranks, lent. In place: input is this rank's part of it;
 *                otherwise they must not overlap. NULL: see below
 * @param rows    rows of this rank; 0 is allowed
 * @param rows_of NULL, or one number per rank of the set, equal on all ranks; copied
 * @return as tutti_allreduce_async(); TUTTI_ERR_MISMATCH when ranks chose different forms
 *
 * Three forms, and all ranks choose the same one:
 *   output, no rows_of    every rank has the same number of rows
 *   rows_of               rank r has rows_of[r] rows; output may be NULL
 *   neither               every rank has as many rows as it likes; nothing about them is
 *                         agreed on beforehand, the sizes travel with the data
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
 * @param input     rows rows, lent: first those for rank 0, then those for rank 1, ...
 * @param output    the rows received, lent; may equal input when all parts are equal, must
 *                  not overlap it otherwise. NULL: the request owns it
 * @param rows      rows of the input
 * @param send_rows NULL: rows / size for each rank, which must divide, and rows is equal
 *                  on all ranks. Else one number per rank of the set with the sum `rows`;
 *                  copied
 * @param recv_rows one number per rank: the rows that come from it; copied. Needed with
 *                  send_rows and an output, allowed with send_rows alone, NULL otherwise
 * @return as tutti_allreduce_async(); TUTTI_ERR_MISMATCH when ranks chose different forms
 *         or one expects other rows than another sends
 *
 * With send_rows and without an output nothing about sizes is agreed on beforehand: they
 * travel with the data, so that they may change from step to step at no cost.
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
 * @param output  on the root the rows of all ranks, lent; in place: input is the root's
 *                part of it. NULL on the root: the request owns it. Elsewhere ignored
 * @param rows    rows of this rank
 * @param rows_of on the root with an output: one number per rank of the set, or NULL when
 *                all have as many as the root; copied. Otherwise ignored
 * @return as tutti_allreduce_async(); TUTTI_ERR_MISMATCH when the root expects other rows
 *         than a rank sends
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
 * Spreads rows of the root: rank r gets its part of them.
 * @param input   on the root the rows for all ranks in order of rank, lent. Elsewhere
 *                ignored
 * @param output  this rank's part, lent; on the root it may be that part of the input. NULL:
 *                the request owns it, and rows is ignored but on the root without rows_of
 * @param rows    rows of this rank
 * @param rows_of on the root: one number per rank of the set, or NULL when all get as many
 *                as the root; copied. Elsewhere ignored
 * @return as tutti_allreduce_async(); TUTTI_ERR_MISMATCH when a rank expects other rows
 *         than the root sends
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
 * Finishes when every rank of the set has submitted it. Barriers of different names
 * may be in flight together.
 * @param options  only process_set, callback and user are used
 * @return as tutti_allreduce_async()
 */
TUTTI_MUST_USE tutti_status tutti_barrier_async(tutti *t, const char *name,
        const tutti_options *options, tutti_request *request);

/** tutti_barrier_async() and tutti_wait() in one; statuses of both. */
TUTTI_MUST_USE tutti_status tutti_barrier(
        tutti *t, const char *name, const tutti_options *options);

/**
 * Says that this rank has no more data for now (its share of an uneven data set is used
 * up), and finishes when every rank of the set has said so. Until then the reductions of
 * the others (allreduce, reduce, reducescatter) go on without this rank: it is skipped, and
 * an average is divided by the number of those that contribute. All other collectives fail
 * on those that submit them with TUTTI_ERR_UNSUPPORTED, and so does a reduce to a root that
 * has joined. What this rank submitted before still counts. Until the join is finished this
 * rank may submit nothing else to the set; afterwards everything starts anew. Not inside
 * a group.
 * @param options      only process_set, callback and user are used
 * @param[out] last    NULL, or the rank within the set that joined last, equal on all
 *                     ranks (it has seen most data); valid once the join is finished
 * @return as tutti_allreduce_async(); TUTTI_ERR_DUPLICATE when this rank has joined;
 *         TUTTI_ERR_FINALIZED when a rank finalizes instead of joining
 */
TUTTI_MUST_USE tutti_status tutti_join_async(
        tutti *t, const tutti_options *options, int *last, tutti_request *request);

/** tutti_join_async() and tutti_wait() in one; statuses of both. */
TUTTI_MUST_USE tutti_status tutti_join(
        tutti *t, const tutti_options *options, int *last);

/* -------------------------------------------------------- registered names */

/** A name with its metadata, registered once; a handle of one context. */
typedef uint64_t tutti_tensor;

/** What tutti_tensor_register() fixes. Zero it, then fill it. */
typedef struct tutti_tensor_desc {
    size_t size; /**< sizeof(tutti_tensor_desc)                      */
    const char *name; /**< copied                                         */
    tutti_collective collective; /**< which operation                                */
    int64_t count; /**< elements; rows where it works on rows          */
    tutti_dtype dtype; /**< element type                                   */
    tutti_reduce_op op; /**< of a reduction                                 */
    int root; /**< where there is one: rank within the set        */
    const tutti_options *options; /**< NULL: defaults; callback and user are ignored */
    int64_t row_count; /**< elements of a row, where it works on rows      */
    const int64_t *rows_of; /**< rows_of, or send_rows of alltoall; copied      */
    const int64_t *recv_rows; /**< of alltoall; copied                            */
    bool owns_output; /**< the output of submit is NULL: see take_output  */
} tutti_tensor_desc;

/**
 * Registers a name with its metadata, so that submitting it handles no string, takes no
 * lock and allocates nothing. Local. Any thread.
 * @param[out] tensor  the handle, never 0; valid until it is unregistered, its process set
 *                     is destroyed, or the context is finalized
 * @return TUTTI_OK, TUTTI_ERR_INVALID, TUTTI_ERR_UNSUPPORTED, TUTTI_ERR_DUPLICATE
 *         (registered already in this set and operation), TUTTI_ERR_NO_MEMORY
 */
TUTTI_MUST_USE tutti_status tutti_tensor_register(
        tutti *t, const tutti_tensor_desc *desc, tutti_tensor *tensor);

/**
 * Forgets a registration. It must not be in flight; a request of it that is still to be
 * waited for stays valid.
 * @return TUTTI_OK, TUTTI_ERR_INVALID (unknown), TUTTI_ERR_DUPLICATE (in flight)
 */
tutti_status tutti_tensor_unregister(tutti *t, tutti_tensor tensor);

/**
 * Submits a registered tensor. Mixes freely with submission by name: ranks need not
 * agree on who registers. Any thread, without waiting for another one, unless a thread has a
 * group open or the last request of this tensor is still to be consumed: then, and when
 * the submission is refused, it takes a lock as submission by name does.
 * @param input    as for the operation; ignored by broadcast and barrier
 * @param output   as for the operation; the buffer of a broadcast
 * @param callback NULL, or called at completion instead of returning a request
 * @return as tutti_allreduce_async()
 */
TUTTI_MUST_USE tutti_status tutti_submit(tutti *t, tutti_tensor tensor,
        const void *input, void *output, tutti_callback callback, void *user,
        tutti_request *request);

/* ------------------------------------------------------------------ groups */

/**
 * Starts a group in the calling thread: what this thread submits on t until
 * tutti_group_end() is taken all or nothing and launched together. Groups do not nest.
 * All members use one process set. Waiting inside a group is refused.
 * @return TUTTI_OK, TUTTI_ERR_INVALID (a group is open), TUTTI_ERR_NO_MEMORY
 */
TUTTI_MUST_USE tutti_status tutti_group_begin(tutti *t);

/**
 * Submits the group. If any member was refused since tutti_group_begin(), nothing is
 * submitted, all its requests become TUTTI_REQUEST_NULL-like (unknown), and the first
 * error is returned. Every rank must submit the same members in one group; if not, all
 * members fail with TUTTI_ERR_MISMATCH.
 * @return TUTTI_OK, TUTTI_ERR_INVALID (no group is open), the first error of a member
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
    uint64_t shared_pieces; /**< pieces of sums made by threads that waited beside
                               the one that runs the engine; see reduce_threads */
    uint64_t planned; /**< operations agreed on by a plan, without negotiation */
    uint64_t planned_steps; /**< iterations of a plan that ran in it from the first
                               tensor to the last */
    uint64_t slow_steps; /**< iterations of a plan's tensors that were negotiated, in
                            whole or part */
    uint64_t poisons; /**< times that a plan was left                        */
    uint64_t device_batches; /**< of batches, those in device memory               */
    uint64_t device_packed; /**< of these, packed in a fusion buffer by a kernel,
                               or, of alltoalls in place, copied there          */
    uint64_t device_in_place; /**< of these, of several tensors and with no copy    */
    uint64_t device_staged; /**< of these, copied to host memory and back         */
    uint64_t device_launches; /**< kernels of tutti's own: packing and unpacking    */
    uint64_t device_hierarchical; /**< of device_batches, those that are reduced within
                                     the nodes and across them: gpu_hierarchical */
} tutti_stats;

/**
 * Reads the counters.
 * @param[in,out] stats  stats->size set; only the fields within it are written
 * @return TUTTI_OK, TUTTI_ERR_INVALID (size is 0)
 */
TUTTI_MUST_USE tutti_status tutti_stats_get(tutti *t, tutti_stats *stats);

#if defined(__GNUC__)
#    pragma GCC visibility pop
#endif

#ifdef __cplusplus
}
#endif

#endif
