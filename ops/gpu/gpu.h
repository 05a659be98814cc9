/*
 * A rank's GPU: its context, streams and kernels, and what the files of this folder share.
 */
#ifndef TUTTI_OPS_GPU_GPU_H
#define TUTTI_OPS_GPU_GPU_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tutti/tutti.h>

#include "base/config.h"
#include "base/log.h"
#include "ops/device.h"
#include "ops/gpu/driver.h"
#include "ops/gpu/kernels/kernels.h"
#include "ops/gpu/nccl.h"
#include "ops/op.h"

/** Streams of a GPU; each in order, events between them. */
enum gpu_stream {
    GPU_PACK, /* tensors into slabs                                               */
    GPU_COMM, /* NCCL                                                             */
    GPU_UNPACK, /* slabs into tensors                                               */
    GPU_COPY, /* to host memory                                                   */
    GPU_RETURN, /* back from it: not behind what still waits for its tensors        */
    GPU_ZERO, /* memory that is given out: never behind anything else             */
    GPU_STREAMS
};

struct gpu_events; /* gpu_events.c */
struct gpu_memory; /* memory.c */
struct communicators; /* communicator.h */

/** Where a rank sits. */
struct gpu_seat {
    int rank; /* world rank, for messages                              */
    int local_rank; /* index among the ranks of the node                     */
    bool is_alone; /* no other rank is in this process: gpu=auto takes the device of
                      the context that is current on the calling thread     */
};

/** One per rank; outlives its context. Fixed after gpu_open() but for what says otherwise. */
struct gpu {
    const struct cuda_driver *cuda; /* &driver                                  */
    const struct nccl_api *nccl; /* NULL: there is none                        */
    const struct config *config; /* &values                                     */
    const struct log *log; /* &sink                                          */
    int rank; /* world rank, for messages                              */
    int ordinal; /* of the device                                        */
    cu_device device;
    char pci[GPU_PCI_MAX]; /* its PCI id                          */
    char name[80]; /* "NVIDIA H100 80GB HBM3"                              */
    cu_context context; /* the device's primary one                        */
    cu_stream streams[GPU_STREAMS]; /* of high priority, non-blocking          */
    int sm_count; /* multiprocessors                                      */
    size_t l2_bytes; /* of its second-level cache                           */
    size_t slab_bytes; /* a slab has at least so many: a full batch           */
    bool has_kernels; /* see gpu_kernels_drop()                              */
    cu_function kernels[KERNEL_COUNT]; /* by number; NULL: the image lacks it     */
    uint8_t kernel_blocks[KERNEL_COUNT]; /* of each, that a multiprocessor holds    */
    struct gpu_events *events; /* owned */
    struct gpu_memory *memory; /* owned */
    struct gpu_graph *graphs; /* owned; of the backend's thread                */
    struct communicators *communicators; /* a reference; where there is NCCL     */
    _Atomic int lost; /* the first cu_result that says that the device is lost; 0 */
    _Atomic(const char *) lost_doing; /* what could not be done then; NULL: soon  */

    struct cuda_driver driver;
    struct nccl_api nccl_table; /* filled where nccl is not NULL                */
    struct config values; /* owned copies                                     */
    struct log sink;
    unsigned long long context_id; /* tells the context from a later one; 0: unknown */
    cu_module module; /* of the kernels                                       */
    char nccl_absence[192]; /* why there is no NCCL                         */
    bool is_gone; /* closing: the context is no more, nor its handles      */
};

/**
 * Opens the device that config->gpu means for this rank: context, streams, kernels. Called
 * by the thread that calls tutti_init*(), which is left as it was.
 * @param config, log  copied
 * @param[out] opened  NULL where there is no GPU, with the reason in tutti_last_error()
 * @return TUTTI_OK, also without one; TUTTI_ERR_CONFIG (config->gpu or gpu_kernels name
 *         what is not there), TUTTI_ERR_NO_MEMORY, TUTTI_ERR_SYSTEM
 */
TUTTI_MUST_USE tutti_status gpu_open(const struct config *config, const struct log *log,
        const struct gpu_seat *seat, struct gpu **opened);
/**
 * Waits for what is on its streams: collectives must have been aborted, unless all ranks
 * have issued them. NULL is allowed.
 */
void gpu_close(struct gpu *gpu);
/** The interface of the core over it (device.c). */
struct device gpu_device(struct gpu *gpu);
/** The largest batch that is worth packing: gpu_fusion_bytes, or from the cache. */
size_t gpu_fusion_bytes(const struct gpu *gpu);
/**
 * Loads the kernels that are built in, or those of the file gpu_kernels, and finds their
 * functions: a launch loads nothing any more. The context is current. Without any, or with an
 * image that is not for this device, the GPU has none, and a line in the log says so.
 * @return TUTTI_OK; TUTTI_ERR_CONFIG (the file cannot be read), TUTTI_ERR_NO_MEMORY
 */
TUTTI_MUST_USE tutti_status image_load(struct gpu *gpu);
/** From now on it counts as having no kernels, since other ranks have none. */
void gpu_kernels_drop(struct gpu *gpu);

/**
 * Makes the context current on this thread, and its calls harmless to graphs that others
 * capture meanwhile; gpu_leave() undoes both. They nest. Notices that
 * the context is gone (cudaDeviceReset()) before a handle of it is used.
 * @return TUTTI_OK, or TUTTI_ERR_SYSTEM once the device is lost: nothing was entered
 */
TUTTI_MUST_USE tutti_status gpu_enter(struct gpu *gpu);
/**
 * As gpu_enter(), also when the device is lost for another reason: what can be given back is.
 * @return false: the context is gone, and its handles must not be touched any more
 */
bool gpu_enter_to_close(struct gpu *gpu);
/** After a gpu_enter() that gave TUTTI_OK, or a gpu_enter_to_close() that gave true. */
void gpu_leave(const struct gpu *gpu);

/**
 * TUTTI_OK for CU_SUCCESS; else the error of a failed call, in words: what could not be
 * done, the rank and its device, the driver's text and name. Notes a lost device.
 * @param doing  "launch the packing kernel"; lives for ever
 * @return TUTTI_OK, TUTTI_ERR_NO_MEMORY, TUTTI_ERR_SYSTEM
 */
tutti_status gpu_check(struct gpu *gpu, cu_result result, const char *doing);
/** Gives the device up: work that was begun cannot be undone. As gpu_check(). */
tutti_status gpu_lose(struct gpu *gpu, cu_result result, const char *doing);
/** TUTTI_OK, or TUTTI_ERR_SYSTEM with what was in the way when the device was lost. */
tutti_status gpu_alive(const struct gpu *gpu);

/* ------------------------------------------------------------ events (gpu_events.c) */

/*
 * These make the context current by themselves, and may be called by any thread. Events
 * are used again; the steady state creates none.
 */

/** An event behind what is on a stream of the GPU now. TUTTI_ERR_NO_MEMORY, TUTTI_ERR_SYSTEM */
TUTTI_MUST_USE tutti_status gpu_record(
        struct gpu *gpu, cu_stream stream, struct device_event **event);
/** The same in two steps, for who cannot fail later: an event that is nowhere yet counts as
 *  passed. */
TUTTI_MUST_USE tutti_status gpu_event_new(struct gpu *gpu, struct device_event **event);
TUTTI_MUST_USE tutti_status gpu_event_record(
        struct gpu *gpu, struct device_event *event, cu_stream stream);
/** A stream of the GPU waits for an event. */
TUTTI_MUST_USE tutti_status gpu_follow(
        struct gpu *gpu, cu_stream stream, struct device_event *event);
/** TUTTI_OK, TUTTI_AGAIN, or the device is lost. */
tutti_status gpu_passed(struct gpu *gpu, struct device_event *event);
/** Waits on the host, asleep, until it has passed. For what is short. */
tutti_status gpu_event_wait(struct gpu *gpu, struct device_event *event);
void gpu_event_hold(struct device_event *event);
/** NULL is allowed. */
void gpu_event_release(struct gpu *gpu, struct device_event *event);

/** The same on a stream that is being captured: nobody may ask whether it has passed. */
TUTTI_MUST_USE tutti_status gpu_record_captured(struct gpu *gpu, cu_stream stream,
        uint64_t capture, struct device_event **event);
/** The capture that an event is part of; 0: none. */
uint64_t gpu_event_capture(const struct device_event *event);

/** As gpu_record() and gpu_follow(), on a stream of the caller, which is looked at first; see
 *  struct device. */
TUTTI_MUST_USE tutti_status gpu_record_caller(
        struct gpu *gpu, cu_stream stream, struct device_event **event);
TUTTI_MUST_USE tutti_status gpu_follow_caller(
        struct gpu *gpu, cu_stream stream, struct device_event *event);

tutti_status gpu_events_open(struct gpu *gpu);
void gpu_events_close(struct gpu *gpu);

/* ------------------------------------------------- graphs of the caller (graphs.c) */

struct gpu_graph;

/*
 * For the thread that calls the backend, in the context. Streams are the caller's, and are being
 * captured. Batches of a graph run one after the other, whatever their streams.
 */

/** The graph that a stream is being captured in. TUTTI_ERR_INVALID: it is not captured any more. */
TUTTI_MUST_USE tutti_status gpu_graph_find(
        struct gpu *gpu, cu_stream stream, struct gpu_graph **found);
/** What is put on the stream from now on comes behind the graph's last batch, and events, which
 *  must be of the graph. */
TUTTI_MUST_USE tutti_status gpu_graph_follow(struct gpu *gpu,
        const struct gpu_graph *graph, cu_stream stream,
        struct device_event *const *after, size_t count);
/** Memory for the next batch, which stays with the graph. NULL: no memory; error set. */
struct gpu_slab *gpu_graph_slab(struct gpu *gpu, struct gpu_graph *graph, size_t bytes);
/** The event at the end of a batch. */
TUTTI_MUST_USE tutti_status gpu_graph_record(struct gpu *gpu, struct gpu_graph *graph,
        cu_stream stream, struct device_event **event);
/** Graphs that still exist, or executables of them; takes back the memory of others. */
size_t gpu_graphs_count(struct gpu *gpu);
void gpu_graphs_close(struct gpu *gpu);

/* ---------------------------------------------------------- memory (memory.c) */

/** Device memory as it is had, which stays until gpu_close(). */
struct gpu_stretch {
    cu_pointer base; /* 256-byte aligned                                       */
    size_t bytes;
    bool of_nccl; /* from ncclMemAlloc(): can be registered                */
    size_t number; /* of those of tutti_alloc(TUTTI_DEVICE) before it        */

    /* of the backend's thread */
    bool is_registered; /* with the world's communicator                     */
    void *registration; /* REGISTERED: NCCL's handle                         */
    struct gpu_stretch *next_registered;
};

/** A stretch for packing, used by one batch after the other. */
struct gpu_slab {
    struct gpu_stretch
            stretch; /* with at least as many bytes as were asked for       */
    bool in_turn; /* of gpu_slab_take_turn()                               */
    struct device_event *last_use; /* NULL: none that is not over; has a reference  */
    struct gpu_slab *next; /* among the spare ones, or all                          */
    struct gpu_slab *next_of_all;
};

/*
 * Slabs are for the thread that calls the backend; the other functions are for any.
 */

/**
 * A slab that nothing in flight uses, or whose last use ends before what is put on `stream`
 * from now on (it follows the event). NULL: no memory; error set.
 * @param stream  NULL: nothing has to wait for it
 */
struct gpu_slab *gpu_slab_take(struct gpu *gpu, size_t bytes, cu_stream stream);
/**
 * The same of slabs of their own, which are used in turn: which one it is follows from the sizes
 * asked for before, not from what has passed by now, so ranks that ask alike get like ones.
 */
struct gpu_slab *gpu_slab_take_turn(struct gpu *gpu, size_t bytes, cu_stream stream);
/** Gives it back; it is in use until the event has passed (a reference is added). */
void gpu_slab_give(struct gpu *gpu, struct gpu_slab *slab, struct device_event *event);
/** True when these bytes are what tutti_alloc() added to round a size up. */
bool gpu_memory_is_padding(struct gpu *gpu, cu_pointer address, size_t bytes);

/** That which pieces of tutti_alloc(TUTTI_DEVICE) are cut from at an address. NULL: there is
 *  none that can be registered. */
struct gpu_stretch *gpu_memory_stretch(struct gpu *gpu, cu_pointer address);
/** See device.spot(); NULL: not used. */
uint64_t gpu_memory_spot(struct gpu *gpu, const void *input, const void *output);
/**
 * True where NCCL's collectives of a set get memory that is registered with it: slabs, and
 * tensors of the arena at spots that all ranks agree on. Equal on all ranks.
 */
bool gpu_registers(const struct gpu *gpu, const struct op_set *set);
/* For device.c; as the slots of struct device. */
tutti_status gpu_memory_look(
        struct gpu *gpu, const void *memory, size_t bytes, enum op_space *space);
void *gpu_memory_alloc(struct gpu *gpu, size_t bytes);
void gpu_memory_give_back(struct gpu *gpu, void *memory);
void *gpu_host_alloc(struct gpu *gpu, size_t bytes);
void gpu_host_give_back(struct gpu *gpu, void *memory);
tutti_status gpu_memory_open(struct gpu *gpu);
void gpu_memory_close(struct gpu *gpu);

#endif
