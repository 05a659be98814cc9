/*
 * The inside of the simulated CUDA driver.
 *
 * One lock (`sim.lock`) guards everything here; functions named ..._locked, and all whose
 * comment does not say otherwise, want it held. It is never held while an operation's body
 * runs. Memory is read and written under a second lock (memory_lock), which is a leaf.
 */
#ifndef TUTTI_TEST_GPUSIM_STATE_H
#define TUTTI_TEST_GPUSIM_STATE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#include "test/gpusim/cuda.h"
#include "test/gpusim/gpusim_test.h"

enum {
    DEVICES_MAX = 16,
    SPAN_READS_MAX = 4
};

/* ---- clocks.c: vector clocks ---- */

/* One component per actor (a stream, or the host). Zeroed: before everything. */
struct clock {
    uint64_t *times; /* owned */
    uint32_t count;
};

uint64_t clock_time(const struct clock *clock, uint32_t actor);
void clock_tick(struct clock *clock, uint32_t actor);
void clock_set(struct clock *clock, uint32_t actor, uint64_t time);
void clock_join(struct clock *into, const struct clock *from);
struct clock clock_copy(const struct clock *clock);
void clock_fini(struct clock *clock);

/* Actors: identities that tick. One that is given back is used again, at a later time. */
uint32_t actor_take(uint64_t *time);
void actor_give_back(uint32_t actor, uint64_t time);

/* The host: one actor for all threads of the process. */
struct host {
    uint32_t actor;
    struct clock clock;
    char name[24];
};
struct host *host_self(void);

/* The text, kept for ever, once for equal texts. */
const char *intern(const char *text);

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
    struct span *root;
};

/* Two accesses that nothing orders; the older one first. */
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

void *handle_new(enum handle_kind kind, void *object);
/* NULL: never given out, of another kind, or dropped. */
void *handle_find(enum handle_kind kind, const void *handle);
void handle_drop(enum handle_kind kind, const void *handle);
size_t handle_live(enum handle_kind kind);

/* ---- devices.c ---- */

struct device {
    int ordinal;
    char name[64];
    char pci[16];
    unsigned char uuid[16];
    struct context *primary;
    int retained; /* uses of the primary context     */
    size_t total_bytes; /* memory                          */
    size_t used_bytes; /* allocated                       */
    size_t limit_bytes; /* fault: not more than this       */
};

int devices_init(void);
/* sim_enter() of a call that needs no context, and the device. */
int device_enter(const char *function, int ordinal, struct device **device);

/* ---- contexts.c ---- */

struct context {
    void *handle;
    struct device *device;
    struct stream *streams; /* all ever made here, newest first; kept for ever */
    struct stream *legacy; /* the default stream                              */
    uint64_t generation; /* grows with each reset: what is older is dead    */
    struct context *next; /* of sim.contexts */
    uint64_t id; /* cuCtxGetId                                      */
    int error; /* sticky; 0: none                                 */
    bool alive;
};

struct context *context_current(void);
struct context *context_new(struct device *device);
/* Everything of the context goes: memory, streams, modules. */
void context_end(struct context *context);
void context_fail(struct context *context, int error);
/* Waits for all work of the context, as freeing memory does. */
void context_wait(struct context *context);

/* ---- arena.c, memory.c ---- */

enum arena_kind {
    ARENA_DEVICE,
    ARENA_PINNED,
    ARENA_MANAGED
};

enum allocation_state {
    ALLOCATION_LIVE,
    ALLOCATION_FREED,
    ALLOCATION_DROPPED /* its pages went back to the system */
};

struct allocation {
    uint64_t start;
    size_t bytes; /* as asked for                    */
    size_t span_bytes; /* with the guard behind it        */
    struct context *owner;
    struct shadow shadow;
    enum allocation_state state;
};

/* Addresses of one kind. They are not used twice, unless GPUSIM_REUSE is set. */
struct arena {
    uint64_t base; /* for the product                            */
    char *alias; /* the same bytes, for the simulator          */
    size_t reserved; /* bytes                                      */
    atomic_size_t next; /* first byte never used; read without the lock, too */
    struct allocation **allocations; /* by address; freed ones as well  */
    size_t count;
    size_t capacity;
    size_t quarantine; /* bytes of freed allocations that keep their poison */
    size_t oldest; /* index of the first that may be dropped            */
    enum arena_kind kind;
    int device; /* -1: of none                                */
};

int arenas_init(void);
/* The arena that an address belongs to; of a kind (and device); by number. Or NULL. */
struct arena *arena_of(uint64_t address);
struct arena *arena_find(enum arena_kind kind, int device);
struct arena *arena_at(size_t index);
/* In the calling thread's context, which must be there. */
int memory_allocate(enum arena_kind kind, size_t bytes, struct allocation **out);
int memory_free(const char *function, uint64_t pointer, bool pinned);
/* The live allocation that holds the address; NULL: there is none. */
struct allocation *memory_live_find(uint64_t address, struct arena **arena);
/* The allocation that holds the address, also a freed one; NULL: not ours. */
struct allocation *memory_find(uint64_t address, struct arena **arena);
/* CUDA_ERROR_INVALID_VALUE, with a report for freed memory, unless all bytes are live. */
int memory_check(const char *what, uint64_t address, size_t bytes);
void memory_end(struct context *context);
size_t memory_live(enum arena_kind kind, size_t *bytes);
/* Without the lock: lets product code (a kernel's body) touch device memory, or not. */
void memory_open(void);
void memory_close(void);

/* ---- accesses.c ---- */

/* Notes an access to live memory in its shadow; reports a race and returns true. */
bool access_touch(const struct access *access, const struct clock *clock,
        const struct gpusim_range *range, bool writes);
/* By the host, now. */
void access_by_host(const char *label, const struct gpusim_range *range, bool writes);
/* All of an operation that starts: 0, or the error that a bad address is. */
int access_by_op(const struct stream *stream, const struct op *op);

/* ---- streams.c ---- */

struct dependency {
    struct stream *stream;
    uint64_t sequence; /* wait until this many operations of it are done */
};

enum op_kind {
    OP_PLAIN, /* copies and fills: short, under the memory lock       */
    OP_KERNEL, /* names its ranges when it starts                      */
    OP_OUTSIDE, /* of the NCCL half or of the product: under no lock    */
    OP_EMPTY /* nothing to run: a record, a wait                     */
};

struct op {
    struct op *next;
    const char *label; /* interned */
    enum op_kind kind;
    int (*body)(void *argument);
    void (*dispose)(void *argument);
    void *(*again)(void *argument); /* see struct gpusim_op */
    void (*ranges)(void *argument, struct gpusim_accesses *accesses);
    void *argument;
    struct gpusim_accesses *accesses; /* owned */
    struct dependency *dependencies; /* owned */
    size_t dependency_count;
    struct clock clock; /* what happened before it, itself included */
    uint64_t sequence; /* 1: the stream's first                    */
};

struct gpusim_accesses {
    struct gpusim_range *reads;
    struct gpusim_range *writes;
    size_t read_count, read_capacity;
    size_t write_count, write_capacity;
};

struct stream {
    void *handle;
    char name[40];
    unsigned serial; /* as in the name; seeds the delays */
    struct context *context;
    struct stream *next; /* of the context */
    uint64_t generation; /* of the context when it was made */
    const void *owner; /* per-thread default stream: whose; else NULL */
    unsigned flags; /* CU_STREAM_NON_BLOCKING */
    int priority;
    pthread_cond_t work; /* something to start */
    pthread_cond_t progress; /* an operation ended */
    struct op *head, *tail;
    uint64_t submitted, done;
    struct clock clock;
    uint32_t actor;
    long slow_us;
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

struct stream *stream_new(struct context *context, const char *kind);
/* The stream of a handle, default streams included. */
int stream_find(const void *handle, struct stream **stream);
/* sim_enter() of a call that needs a context, and stream_find(). */
int stream_enter(const char *function, const void *handle, struct stream **stream);
bool stream_is_dead(const struct stream *stream);
struct op *op_new(const char *label, enum op_kind kind);
void op_depend(struct op *op, struct stream *stream, uint64_t sequence);
void op_free(struct op *op);
struct gpusim_accesses *op_accesses(struct op *op);
/* Takes the operation, also when it fails (then it is disposed of). */
int stream_submit(struct stream *stream, struct op *op);
/* The same, without an error for a stream that failed or is dead; NULL: no such stream. */
struct stream *stream_peek(const void *handle);
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
size_t capture_place(const struct stream *stream);
/* The stream waits for a place, and is drawn into the capture if need be. */
int capture_follow(struct stream *stream, struct capture *capture, size_t place);
/* 0, or why nothing can be put on the stream; the capture is spoilt. */
int capture_refuses(struct stream *stream);
/* 0, or why a captured stream cannot be waited for; the capture is spoilt. */
int capture_refuses_waiting(struct stream *stream);
void capture_spoil(struct capture *capture);

/* ---- launches.c ---- */

/* What a context's end takes with it. */
void modules_end(struct context *context);

/* ---- faults.c, reports.c ---- */

/* As gpusim_call(), with the lock held. */
int fault_call(const char *function);
void report_race(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* ---- entry.c ---- */

struct sim {
    pthread_mutex_t lock;
    pthread_cond_t progress; /* any operation of any stream ended */
    pid_t pid; /* 0: cuInit() was not called        */
    int device_count;
    struct device devices[DEVICES_MAX];
    long pageable_copies;
    struct context *contexts; /* all ever made, newest first */
    uint64_t next_id;
    unsigned stream_serial;
    long delay_us; /* most that an operation is delayed by */
    bool reuses; /* GPUSIM_REUSE                         */
};
extern struct sim sim;

enum entry_needs {
    NEEDS_NOTHING = 0, /* works before cuInit()                          */
    NEEDS_INIT = 1,
    NEEDS_CONTEXT = 3, /* a live current context without a sticky error  */
    NEEDS_NO_CAPTURE = 4 /* refused while somebody captures              */
};

/* Locks, counts the call, and says why it cannot go on (0: it can). */
int sim_enter(const char *function, unsigned needs);
/* Unlocks, and hands the result through. */
int sim_leave(int result);

/* True on a stream's thread within cuLaunchHostFunc's function. */
void callback_begin(void);
void callback_end(void);

#endif
