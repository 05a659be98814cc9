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
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#include "test/gpusim/cuda.h"
#include "test/gpusim/gpusim_test.h"

enum {
    DEVICES_MAX = 80,
    SPAN_READS_MAX = 4
};

/* ---- clocks.c: vector clocks ---- */

/* One component per actor (a stream, or the host). Zeroed: before everything. */
struct clock {
    uint64_t *times; /* owned */
    uint32_t count;
};

enum {
    ACTOR_HOST = 0 /* all threads of the process; streams have their serial numbers */
};

uint64_t clock_time(const struct clock *clock, uint32_t actor);
void clock_tick(struct clock *clock, uint32_t actor);
void clock_join(struct clock *into, const struct clock *from);
struct clock clock_copy(const struct clock *clock);
void clock_fini(struct clock *clock);

/* ---- shadow.c: who touched which bytes last ---- */

/* An operation, as far as a report needs it. Texts live for ever. */
struct access {
    const char *label;
    const char *who;
    uint64_t time; /* of the actor */
    uint32_t actor;
};

struct span;
struct stream;
struct op;

/* Last write and the reads since, for every byte of one allocation. Zeroed: untouched. */
struct shadow {
    struct span *first; /* owned */
    struct span *near; /* where the last access was: the next search begins there */
};

/* An older access that nothing orders before a new one. */
struct conflict {
    struct access earlier;
    bool earlier_wrote;
    uint64_t start; /* first byte that both touch */
};

/* Notes an access; true when an earlier one is not ordered before it. */
bool shadow_touch(struct shadow *shadow, const struct gpusim_range *range, bool writes,
        const struct access *access, const struct clock *clock,
        struct conflict *conflict);
void shadow_fini(struct shadow *shadow);

/* ---- handles.c: what the product holds instead of pointers ---- */

enum handle_kind {
    HANDLE_CONTEXT = 1,
    HANDLE_STREAM,
    HANDLE_EVENT,
    HANDLE_MODULE,
    HANDLE_KERNEL,
    HANDLE_GRAPH,
    HANDLE_EXEC,
    HANDLE_USER_OBJECT,
    HANDLE_KINDS
};

/* The object stays, also when the handle is dropped. */
void *handle_new(enum handle_kind kind, void *object);
/* NULL: never given out, of another kind, or dropped. */
void *handle_find(enum handle_kind kind, const void *handle);
void handle_drop(enum handle_kind kind, const void *handle);
/* The object of a live handle from now on. */
void handle_set(enum handle_kind kind, const void *handle, void *object);
size_t handle_live(enum handle_kind kind);

/* ---- devices.c ---- */

struct device {
    int ordinal;
    char pci[16];
    struct context *primary; /* the newest one; NULL: there was none */
    int retained; /* uses of the primary context     */
    size_t used_bytes; /* allocated                       */
    size_t limit_bytes; /* not more than this              */
};

static const size_t device_bytes = (size_t)8 << 30; /* that each has */

int devices_init(void);
/* NULL: there is no such device. */
struct device *device_find(int ordinal);

/* ---- contexts.c ---- */

/* One life of a context; the next one of a primary context has the same handle. */
struct context {
    void *handle;
    struct device *device;
    struct stream *streams; /* all ever made here, newest first; kept for ever */
    struct stream *legacy; /* the default stream                              */
    struct context *next; /* of sim.contexts */
    uint64_t id; /* cuCtxGetId                                      */
    int error; /* sticky; 0: none                                 */
    bool alive;
};

struct context *context_current(void);
/* 0, or why nothing can be done in it; NULL: it is none. */
int context_check(const struct context *context);
void context_fail(struct context *context, int error);
/* Waits for all work of the context, as freeing memory does. */
void context_wait(struct context *context);

/* ---- arena.c, memory.c ---- */

enum memory_kind {
    MEMORY_DEVICE,
    MEMORY_PINNED,
    MEMORY_MANAGED
};

struct allocation {
    uint64_t start;
    size_t bytes; /* as asked for                    */
    size_t span_bytes; /* with the guard behind it        */
    struct context *owner;
    struct shadow shadow;
    enum memory_kind kind;
    bool is_live;
};

int arenas_init(void);
/* Addresses for an allocation of this kind, never used before; NULL: there are none. */
struct allocation *arena_extend(enum memory_kind kind, size_t span_bytes);
/* The allocation that holds the address, also a freed one; NULL: not ours. */
struct allocation *arena_find(uint64_t address);
/* All allocations, one after the other; NULL: there are no more. */
struct allocation *arena_at(size_t index);
/* The pages go back to the system. */
void arena_drop(const struct allocation *allocation);
/* Without the lock: lets product code (a kernel's body) touch device memory, or not. */
void arena_open(void);
void arena_close(void);

/* The live allocation that holds the address; NULL: there is none. */
struct allocation *memory_find(uint64_t address);
/* CUDA_ERROR_INVALID_VALUE, with a report for freed memory, unless all bytes are live. */
int memory_check(const char *what, uint64_t address, size_t bytes);
void memory_end(struct context *context);

/* ---- accesses.c ---- */

/* Notes an access to live memory in its shadow; reports a race. */
void access_by_host(const char *label, const struct clock *clock,
        const struct gpusim_range *range, bool writes);
/* All of an operation that starts: 0, or the error that a bad address is. */
int access_by_op(const struct stream *stream, const struct op *op);

/* ---- streams.c ---- */

struct ranges {
    struct gpusim_range *list; /* owned */
    size_t count, capacity;
};

struct gpusim_accesses {
    struct ranges reads, writes;
};

/* A place on a stream that others wait for: how far, and what has happened before. */
struct place {
    struct stream *stream; /* NULL: there is nothing to wait for */
    uint64_t sequence; /* so many operations of it are done */
    struct clock clock;
};

struct op {
    struct op *next;
    const char *label; /* lives for ever */
    int (*body)(void *argument); /* NULL: nothing to run, as of a record or a wait */
    void (*dispose)(void *argument);
    void *(*again)(void *argument); /* see struct gpusim_op */
    /* Names what it touches when it starts, without the lock; NULL: `accesses` says all. */
    void (*ranges)(void *argument, struct gpusim_accesses *accesses);
    void *argument;
    struct gpusim_accesses accesses;
    struct dependency {
        struct stream *stream;
        uint64_t sequence;
    } * dependencies; /* owned */
    size_t dependency_count;
    struct clock clock; /* what happened before it, itself included */
    uint64_t sequence; /* 1: the stream's first                    */
};

struct op *op_new(const char *label, int (*body)(void *argument), void *argument);
void op_free(struct op *op);
void op_depend(struct op *op, struct stream *stream, uint64_t sequence);

struct stream {
    void *handle;
    char name[40];
    struct context *context;
    struct stream *next; /* of the context */
    const void *owner; /* per-thread default stream: whose; else NULL */
    unsigned flags; /* CU_STREAM_NON_BLOCKING */
    int priority;
    pthread_cond_t changed; /* something to start, or an operation ended */
    struct op *head, *tail;
    uint64_t submitted, done;
    struct clock clock;
    uint32_t actor; /* as in the name; seeds the delays */
    struct capture *capture; /* NULL: not captured */
    int holds;
    bool has_thread;
    bool running; /* the first operation has started */
    bool destroyed;
};

enum {
    STREAM_NON_BLOCKING = 1, /* a flag */
    STREAM_PER_THREAD = 2 /* the last handle that names a default stream */
};

struct stream *stream_new(struct context *context, const char *kind, unsigned flags);
/* The stream of a handle, default streams included. */
int stream_find(const void *handle, struct stream **stream);
/* The same, without an error for a stream that failed or is dead; NULL: no such stream. */
struct stream *stream_peek(const void *handle);
/* Takes the operation, also when it fails (then it is disposed of). */
int stream_submit(struct stream *stream, struct op *op);
/* Where the stream is now; makes a stream wait for a place of another one. */
void place_note(struct place *place, struct stream *stream);
int place_follow(struct stream *stream, const struct place *place);
/* The host waits for it. */
int place_wait(const struct place *place);
void place_fini(struct place *place);
/* Wakes all that sleep, when a context failed or ended. */
void streams_wake(void);
/* Without the lock: waits until no stream goes on by itself, or the time has come. */
void streams_settle(const struct timespec *until);
/* Blocks until so many operations are done. */
void stream_wait(struct stream *stream, uint64_t sequence);
/* As cuStreamSynchronize. */
int stream_synchronize(struct stream *stream);
/* The stream ends when its operations are done; those of a dead context are not run. */
void stream_end(struct stream *stream);
/* Runs on the stream's thread; worker.c. */
void *stream_main(void *argument);

/* ---- capture.c ---- */

/* True when the call is not allowed while somebody captures, whose capture it spoils. */
bool capture_forbids(void);
/* Of a captured stream: the operation becomes a node. As stream_submit(). */
int capture_add(struct stream *stream, struct op *op);
/* Of a captured stream: where it is now. */
size_t capture_node(const struct stream *stream);
/* The stream waits for a node, and is drawn into the capture if need be. */
int capture_follow(struct stream *stream, struct capture *capture, size_t node);
/* 0, or why nothing can be put on the stream; the capture is spoilt. */
int capture_refuses(struct stream *stream);
/* 0, or why a captured stream cannot be waited for; the capture is spoilt. */
int capture_refuses_waiting(struct stream *stream);
void capture_spoil(struct capture *capture);

/* ---- faults.c ---- */

/* As gpusim_call(), with the lock held. */
int fault_call(const char *function);

/* ---- entry.c ---- */

struct sim {
    pthread_mutex_t lock;
    pthread_cond_t progress; /* any operation of any stream ended */
    pid_t pid; /* 0: cuInit() was not called        */
    int device_count;
    struct device devices[DEVICES_MAX];
    long pageable_copies;
    struct context *contexts; /* all ever made, newest first */
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

/* What the calls do. */
/* NOLINTBEGIN(bugprone-macro-parentheses): declarations are no expressions */
#define CALL(name, needs, parameters, arguments) int sim_##name parameters;
#include "test/gpusim/cuda.def"
#undef CALL
/* NOLINTEND(bugprone-macro-parentheses) */

#endif
