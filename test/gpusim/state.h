/*
 * The inside of the simulated CUDA driver.
 *
 * One lock (`sim.lock`) guards everything here, and all functions want it held whose comment does
 * not say otherwise. It is never held while an operation's body runs. Memory is read and written
 * under a second lock (gpusim_memory_lock()), which is a leaf.
 */
#ifndef TUTTI_TEST_GPUSIM_STATE_H
#define TUTTI_TEST_GPUSIM_STATE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "test/gpusim/cuda.h"
#include "test/gpusim/gpusim_test.h"

enum {
    DEVICES_MAX = 80
};

/* ---- order.c: what happened before what ---- */

/* A vector clock: one component per actor (a stream, or the host). Zeroed: before everything. */
struct clock {
    uint64_t *times; /* owned */
    uint32_t count;
};

enum {
    ACTOR_HOST = 0 /* all threads of the process; streams have their serial numbers */
};

void clock_tick(struct clock *clock, uint32_t actor);
void clock_join(struct clock *into, const struct clock *from);
struct clock clock_copy(const struct clock *clock);
void clock_fini(struct clock *clock);

/* Bytes of device, pinned or managed memory. */
struct gpusim_range {
    uint64_t start; /* address as the product knows it */
    size_t bytes; /* 0: nothing                      */
};

struct allocation;
struct span;
struct stream;
struct op;

/* Last write and the reads since, for every byte of one allocation. Zeroed: untouched. */
struct shadow {
    struct span *first; /* owned */
    struct span *near; /* where the last access was: the next search begins there */
};

void shadow_fini(struct shadow *shadow);
/* Notes an access by the host, which knew so much then; reports a race. */
void access_by_host(const char *label, const struct clock *clock,
        struct allocation *allocation, const struct gpusim_range *range, bool writes);
/* All of an operation that starts: 0, or the error that a bad address is. */
int access_by_op(const struct stream *stream, const struct op *op);

/* ---- entry.c: what the product has handles of ---- */

enum object_kind {
    CONTEXT,
    STREAM,
    EVENT,
    MODULE,
    KERNEL,
    GRAPH,
    EXEC,
    USER_OBJECT,
    OBJECT_KINDS
};

/* The first member of each. */
struct object {
    struct object *next; /* all, newest first */
    enum object_kind kind;
    bool dropped;
};

void *object_new(enum object_kind kind, size_t bytes);
void object_add(enum object_kind kind, struct object *object);
/* An error of this kind: never made, of another kind, or dropped. */
int object_find(enum object_kind kind, const void *handle);
void object_drop(void *handle);
size_t object_live(enum object_kind kind);

/* ---- contexts.c ---- */

/* What a handle of a context stands for: a primary context lives again after a reset. */
struct context_handle {
    struct object object;
    struct context *context; /* its newest life; NULL: there was none */
};

struct device {
    struct context_handle primary;
    char pci[16];
    int retained; /* uses of the primary context     */
    size_t used_bytes; /* allocated                       */
    size_t limit_bytes; /* not more than this              */
};

static const size_t device_bytes = (size_t)8 << 30; /* that each has */

int devices_init(void);
/* An error when there is no such device. */
int device_find(int device);

/* One life of a context. */
struct context {
    struct context_handle *handle;
    int device;
    struct stream *legacy; /* the default stream                              */
    uint64_t id; /* cuCtxGetId                                      */
    int error; /* sticky; 0: none                                 */
    bool alive;
};

struct context *context_current(void);
/* 0, or why nothing can be done in it; NULL: it is none. */
int context_check(const struct context *context);
void context_fail(struct context *context, int error);
/* Waits for all work of the context, as freeing memory does. */
void context_wait(const struct context *context);

/* ---- memory.c ---- */

enum memory_kind {
    MEMORY_DEVICE,
    MEMORY_PINNED,
    MEMORY_MANAGED
};

struct allocation {
    struct allocation *next; /* of all */
    uint64_t start;
    size_t bytes; /* as asked for                    */
    size_t span_bytes; /* with the guard behind it        */
    struct context *owner;
    struct shadow shadow;
    enum memory_kind kind;
    bool is_live;
};

int memory_init(void);
/* False for pageable memory. Without the lock, too. */
bool memory_is_ours(uint64_t address);
/* The allocation that holds the address, also a freed one; NULL: not ours. */
struct allocation *memory_find(uint64_t address);
/* The live one that holds the address. */
struct allocation *memory_find_live(uint64_t address);
/* The one that holds all these bytes; NULL, and a report, if they are not live. */
struct allocation *memory_check(const char *what, uint64_t address, size_t bytes);
/* All of the context is freed. */
void memory_end(const struct context *context);
/* Without the lock: lets product code (a kernel's body) touch device memory, or not. */
void memory_open(void);
void memory_close(void);

/* ---- streams.c ---- */

/* A place on a stream that others wait for: how far, and what has happened before. */
struct place {
    struct stream *stream; /* NULL: there is nothing to wait for */
    uint64_t sequence; /* so many operations of it are done */
    struct clock clock;
};

struct op {
    struct op *next;
    struct gpusim_op what; /* without a body: a record or a wait */
    struct stream *behind; /* it waits for so much of this one; NULL: for nothing */
    uint64_t sequence;
    struct clock clock; /* what happened before it, itself included */
};

struct op *op_new(const struct gpusim_op *what);
/* That does nothing. */
struct op *op_mark(const char *label);
void op_free(struct op *op);

struct stream {
    struct object object; /* of one that the product has a handle of */
    char name[40];
    struct context *context;
    struct stream *next; /* of sim.streams */
    const void *owner; /* per-thread default stream: whose; else NULL */
    unsigned flags; /* CU_STREAM_NON_BLOCKING */
    int priority;
    pthread_cond_t changed; /* something to start, or an operation ended */
    struct op *head, *tail;
    uint64_t submitted, done;
    struct clock clock;
    uint32_t actor; /* as in the name; seeds the delays */
    struct capture *capture; /* NULL: not captured */
    struct stream *lane; /* in a capture: of the graph, for its nodes; NULL: any */
    size_t node; /* and its newest one; 0: there is none */
    int holds;
    bool running; /* the first operation has started */
    bool destroyed; /* it ends when its operations are done */
};

enum {
    STREAM_NON_BLOCKING = 1, /* a flag */
    STREAM_PER_THREAD = 2 /* the last handle that names a default stream */
};

struct stream *stream_new(struct context *context, const char *kind, unsigned flags);
/* Makes the handle that of the stream, if it stands for a default stream; an error, if any. */
int stream_find(void **handle);
/* The stream of a handle, also if its context has failed or ended; NULL: no such stream. */
struct stream *stream_of(const void *handle);
/* Takes the operation, also when it fails (then it is disposed of). */
int stream_submit(struct stream *stream, struct op *op);
/* Where the stream is now; makes a stream wait for a place of another one. */
void place_note(struct place *place, struct stream *stream);
int place_follow(struct stream *stream, const struct place *place);
/* The host waits for it. */
void place_wait(const struct place *place);
void place_fini(struct place *place);
/* Wakes all that sleep, when a context failed or ended. */
void streams_wake(void);
/* Blocks until so many operations are done. */
void stream_wait(struct stream *stream, uint64_t sequence);
/* The host waits for all of it. */
void stream_join(struct stream *stream);

/* ---- events.c, launches.c ---- */

int event_find(const void *event);
int function_find(const void *function);

/* ---- capture.c ---- */

/* True when the call is not allowed while somebody captures, whose capture it spoils. */
bool capture_forbids(void);
/* Of a captured stream: the operation becomes a node. As stream_submit(). */
int capture_add(struct stream *stream, struct op *op);
/* The stream waits for a node, and is drawn into the capture if need be. */
int capture_follow(struct stream *stream, struct capture *capture, size_t node);
/* 0, or why nothing can be put on the stream; the capture is spoilt. */
int capture_refuses(struct stream *stream);
/* 0, or why a captured stream cannot be waited for; the capture is spoilt. */
int capture_refuses_waiting(struct stream *stream);
void capture_spoil(struct capture *capture);

/* ---- testing.c ---- */

/* gpusim_call(), with the lock. */
int call_count(const char *function);

/* ---- entry.c: what all share ---- */

struct sim {
    pthread_mutex_t lock;
    pthread_cond_t progress; /* any operation of any stream ended */
    pid_t pid; /* 0: cuInit() was not called        */
    int device_count;
    struct device devices[DEVICES_MAX];
    struct allocation *allocations; /* all that there ever were */
    struct stream *streams; /* all ever made, newest first; kept for ever */
    struct clock host; /* what the host has seen */
    uint32_t stream_serial;
    long delay_us; /* most that an operation is delayed by */
};
extern struct sim sim;

enum entry_needs {
    NEEDS_NOTHING = 0, /* works before cuInit()                          */
    NEEDS_INIT = 1,
    NEEDS_CONTEXT = 3, /* a live current context without a sticky error  */
    NEEDS_NO_CAPTURE = 4 /* refused while somebody captures              */
};

/* What the calls do, when there is all that they need. */
/* NOLINTBEGIN(bugprone-macro-parentheses): declarations are no expressions */
#define CALL(name, needs, finds, parameters, arguments) int sim_##name parameters;
#include "test/gpusim/cuda.def"
#undef CALL
/* NOLINTEND(bugprone-macro-parentheses) */

#endif
