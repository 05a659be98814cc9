/*
 * The flight recorder: what a rank did last, in memory that outlives it.
 *
 * A recording is a file that the rank maps: that of a descriptor that its supervisor (tuttirun
 * --exec) has opened, or one in the directory of the parameter record_dir. It has
 *
 *   a header     who recorded, when, and why the context failed
 *   marks        one for each name: how often it was submitted, and when in the order of submissions.
 *                Written when it is submitted
 *   over         one for each name: how often that is over. Written when it is
 *   tensors      the names
 *   metrics      counters (observe/metrics.h)
 *   events       a ring of the last: batches, waits, stalls, failures
 *   links        one for each rank: how what comes from it has come of late
 *
 * Nothing here locks, waits or reads a clock: times are those that the engine and waiting threads
 * have read anyway. A tensor costs three stores into a fifth of a cache line when it is submitted,
 * and one into a byte when that is over: lines of their own, since threads do either at the same
 * time. An event costs some 10 ns.
 *
 * A timeline (observe/timeline.h) is a second recording, in a file of its own: while it is on, events go
 * there, too, and so do those that are too many to be kept always.
 * tutti-autopsy reads recordings; it believes nothing in them that it has not checked.
 */
#ifndef TUTTI_BASE_RECORDER_H
#define TUTTI_BASE_RECORDER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tutti/tutti.h>

#include "observe/metrics.h"
#include "observe/name.h"

/** The variable that holds the number of the inherited descriptor. */
#define RECORDER_VARIABLE "TUTTI_INTERNAL_RECORDER"
/** The variable that says of which timeline tuttirun makes one file at the end. */
#define TIMELINE_VARIABLE "TUTTI_INTERNAL_TIMELINE"
/** "TUTTIFR5": the layout below. */
#define RECORDER_MAGIC UINT64_C(0x3552464954545554)

enum {
    RECORDER_TENSORS = 4096, /* names that are recorded; more are not               */
    RECORDER_NAME_BYTES = 144, /* of a name with its zero; longer ones are cut        */
    RECORDER_TEXT_BYTES = 896, /* of a sentence with its zero                         */
    RECORDER_HOST_BYTES = 64,
    RECORDER_HEADER_BYTES = 4096,
    RECORDER_LINK_UNIT = 1000,
    RECORDER_FIRST_INTERNAL =
            64, /* collectives from here on have no public name       */
    RECORDER_OF_SET =
            255 /* collective of what is no tensor, but a process set: its name
                             is the list of its ranks                            */
};

enum recorder_kind {
    RECORDER_NOTHING,
    RECORDER_TAKEN, /* amount: submissions that the engine saw; place: of all up to now */
    RECORDER_LAUNCHED, /* a batch; amount: ns since this rank had all of it        */
    RECORDER_FINISHED, /* a batch; amount: its operations                          */
    RECORDER_WAIT, /* a thread waits; tensor: for it                           */
    RECORDER_LEFT, /* it no longer does                                        */
    RECORDER_STALL, /* the library has logged a stall                           */
    RECORDER_ERROR, /* an operation has failed                                  */
    RECORDER_FAILURE, /* the context has failed                                   */

    /* In timelines alone: */
    RECORDER_STEP, /* the rank begins another step; place: its number; amount: what is recorded */
    RECORDER_AGREED, /* a batch, which is launched later; amount: its bytes          */
    RECORDER_MEMBERS, /* of a batch that is launched: struct recorder_members           */
    RECORDER_PACKED, /* a batch, into a fusion buffer; amount: ns that it took         */
    RECORDER_REDUCED, /* a batch; amount: ns of its reductions                           */
    RECORDER_UNPACKED, /* a batch, out of its fusion buffer; amount: ns that it took    */
    RECORDER_KINDS
};

/** What a timeline has of a step that begins. */
enum recorder_step {
    RECORDER_STEP_FOLLOWS, /* it follows                                         */
    RECORDER_STEP_LEFT_OUT, /* nothing: the timeline pauses                         */
    RECORDER_STEP_CUT /* it was stopped within a step, which is none any more    */
};

/** What has happened. */
struct recorder_event {
    enum recorder_kind kind;
    int64_t time_ns; /* clock_ns()                                           */
    uint64_t place; /* of a batch: its sequence in its set                  */
    uint64_t amount;
    uint32_t set; /* process set                                          */
    uint32_t tensor; /* 1 + its place in the recording; 0: none              */
};

/** Tensors of a batch; in an event `place` holds the tensors, `amount` the ages. */
enum {
    RECORDER_MEMBERS_MAX = 4
};
struct recorder_members {
    uint16_t tensors[RECORDER_MEMBERS_MAX]; /* as recorder_event.tensor             */
    uint16_t ages[RECORDER_MEMBERS_MAX]; /* since they were taken in: recorder_age() */
};

/** The same in the ring. */
struct recorder_slot {
    _Atomic uint64_t number; /* 1 + of the event, written last; 0: being written */
    _Atomic int64_t time_ns;
    _Atomic uint64_t place;
    _Atomic uint64_t amount;
    _Atomic uint32_t set;
    _Atomic uint32_t tensor;
    _Atomic uint32_t kind;
    uint32_t unused;
};

/**
 * The last submission of a name. Not atomic: a name is submitted again when it is over, so one
 * thread writes at a time, and others read a copy.
 */
struct recorder_mark {
    uint32_t uses; /* submissions                                           */
    uint32_t step; /* 1 + options.step of the last; 0: not given            */
    uint32_t order; /* submissions of this rank before it, modulo 2^32       */
};

/** The name, in one process set. */
struct recorder_tensor {
    uint32_t set; /* its id                                                */
    uint32_t collective;
    char name[RECORDER_NAME_BYTES];
};

struct recorder_header {
    uint64_t magic;
    uint32_t event_capacity; /* a power of 2                                     */
    uint32_t tensor_capacity;
    int32_t rank, size, pid;
    _Atomic uint32_t is_open; /* 1: by a context that lives                       */
    _Atomic uint32_t is_finalized; /* 1: all went well                            */
    _Atomic uint32_t tensor_count; /* that were ever taken                        */
    _Atomic uint64_t event_count; /* ever                                         */
    _Atomic uint32_t stalls; /* that were reported                                 */
    uint32_t link_mbs; /* MB/s between nodes, measured at the start; 0: it was not   */
    int64_t start_ns; /* clock_ns() ...                                           */
    int64_t start_real_ns; /* ... at this time of day                             */
    char host[RECORDER_HOST_BYTES];

    /* By who has copied it: */
    int64_t seen_ns; /* clock_ns() then; 0: it is no copy                          */
    uint32_t
            process_state; /* letter in /proc/PID/stat, 'X': it has ended; 0: not known */
    char process[RECORDER_TEXT_BYTES]; /* what the process does, in words            */

    char stall[RECORDER_TEXT_BYTES]; /* the last report of a stall, in words       */
    char error[RECORDER_TEXT_BYTES]; /* of the last operation that failed          */
    char failure[RECORDER_TEXT_BYTES]; /* why the context failed; "": it has not     */

    _Atomic uint32_t
            timeline_asked; /* written by the supervisor, when a timeline is to begin (odd)
                                        or to end (even), one more each time; 0: never was */
};

/** How large messages come from another rank; written by the engine (ops/p2p/meter.c). */
struct recorder_link {
    _Atomic uint32_t
            slowness; /* time that they take of late / what the link was measured to
                         take, times RECORDER_LINK_UNIT */
    _Atomic uint32_t weight; /* 0: nothing of note has come                          */
    _Atomic uint32_t kbs; /* kB/s, while something was awaited                       */
};

/** A recording begins with it; tensors follow, then events, then links: one for each rank. */
struct recording {
    union {
        struct recorder_header header;
        char bytes[RECORDER_HEADER_BYTES];
    };
    struct recorder_mark marks[RECORDER_TENSORS];
    uint8_t over[RECORDER_TENSORS]; /* of the uses, modulo 2^8                */
    struct recorder_tensor tensors[RECORDER_TENSORS];
    struct metrics metrics;
    struct recorder_slot events[];
};

/** Whose name it is. */
struct recorder_owner {
    struct observed_name *place; /* NULL: nobody's any more                */
    bool is_kept; /* it has copies of its place                               */
};

/** Of a context. Zeroed: nothing is recorded. */
struct recorder {
    struct recording *shared; /* mapped; NULL: none                               */
    _Atomic uint32_t is_timed; /* 1: events go to the timeline, too                 */
    uint64_t mask; /* size of the ring - 1                                         */
    struct recorder
            *timeline; /* borrowed; it has the same names. NULL: there was none */
    size_t bytes;
    char *path; /* owned; removed when all went well; NULL: the supervisor's   */
    struct recorder_owner *owners; /* owned; one for each tensor            */
    uint32_t
            next; /* of the tensors, once all are taken, the one that is looked at next */
};

/** A name, for recorder_add_name(). */
struct recorder_name {
    const char *name;
    uint32_t set;
    int collective;
};

struct recorder_spec {
    const char
            *descriptor; /* value of RECORDER_VARIABLE; NULL: none                   */
    const char *folder; /* where to make a file, without a descriptor; "": nowhere  */
    size_t events; /* of the ring; 0: nothing is recorded                      */
    int rank, size;
    uint32_t link_mbs; /* as in the header                                           */
    bool is_in_memory; /* without a place, in memory that goes with the process       */
    struct recording *
            over; /* where an earlier one of this size is mapped that others may still write to:
                               it is mapped there; NULL: anywhere                    */
};

/**
 * Begins a recording. Without a place for one nothing is recorded.
 * @return TUTTI_OK; TUTTI_ERR_SYSTEM, TUTTI_ERR_NO_MEMORY: nothing is recorded, the error says why
 */
TUTTI_MUST_USE tutti_status recorder_open(
        struct recorder *recorder, const struct recorder_spec *spec);
/** Ends it; `well`: nothing has failed, and a file of our own is removed. */
void recorder_close(struct recorder *recorder, bool well);

/**
 * Finds a place for a name, which is zeroed before; it stays so when nothing is recorded of the
 * name. When there are too many names, one that is not in flight makes room, and its place is
 * zeroed: owners look at each use whether they have one, or keep theirs. Callers lock.
 */
void recorder_add_name(struct recorder *recorder, struct observed_name *place,
        const struct recorder_name *name);
/** The owner goes. What is recorded stays while there is room. */
void recorder_release(struct recorder *recorder, struct observed_name *place);
/** The owner has copies of its place, or no longer has. */
void recorder_keep(
        struct recorder *recorder, const struct observed_name *place, bool keep);
/** It is submitted once more; the submitter. */
static inline void recorder_use(
        const struct observed_name *place, uint64_t order, uint64_t step)
{
    if (place->mark != NULL) {
        place->mark->uses++;
        place->mark->step = (uint32_t)step;
        place->mark->order = (uint32_t)order;
    }
}
/** That is over; whoever has the operation. */
static inline void recorder_end(const struct observed_name *place)
{
    if (place->over != NULL) {
        ++*place->over;
    }
}
/** True when it was submitted and is not over; who copies both may have `over` of a later use. */
static inline bool recorder_is_in_flight(uint32_t uses, uint8_t over)
{
    return (int8_t)(uint8_t)(uses - over) > 0;
}
/** The number of a tensor for events. */
static inline uint32_t recorder_number(
        const struct recorder *recorder, const struct recorder_mark *mark)
{
    return mark == NULL ? 0 : (uint32_t)(mark - recorder->shared->marks) + 1;
}

/** Where links are recorded, one for each rank; NULL: nothing is recorded. */
struct recorder_link *recorder_links(const struct recorder *recorder);

/** True while there is a timeline. Any thread. */
static inline bool recorder_is_timed(const struct recorder *recorder)
{
    /* Acquire: pairs with who begins it (observe/timeline.c), which has mapped it for good. */
    return atomic_load_explicit(&recorder->is_timed, memory_order_acquire) != 0;
}
/** Adds an event to the timeline alone, if there is one. Any thread. */
void recorder_add_timed(
        const struct recorder *recorder, const struct recorder_event *event);
/** As recorder_add_timed(), from registers. */
void recorder_repeat(const struct recorder *recorder, struct recorder_event event);

/** Writes an event into the ring. */
static inline void recorder_put(
        const struct recorder *recorder, const struct recorder_event *event)
{
    const uint64_t number = atomic_fetch_add_explicit(
            &recorder->shared->header.event_count, 1, memory_order_relaxed);
    struct recorder_slot *slot = &recorder->shared->events[number & recorder->mask];

    atomic_store_explicit(&slot->number, 0, memory_order_relaxed);
    atomic_thread_fence(memory_order_release);
    atomic_store_explicit(&slot->time_ns, event->time_ns, memory_order_relaxed);
    atomic_store_explicit(&slot->place, event->place, memory_order_relaxed);
    atomic_store_explicit(&slot->amount, event->amount, memory_order_relaxed);
    atomic_store_explicit(&slot->set, event->set, memory_order_relaxed);
    atomic_store_explicit(&slot->tensor, event->tensor, memory_order_relaxed);
    atomic_store_explicit(&slot->kind, event->kind, memory_order_relaxed);
    /* Release: who reads the number reads what belongs to it. */
    atomic_store_explicit(&slot->number, number + 1, memory_order_release);
}

/** Adds an event. Inline, so that it is written once only. Any thread. */
static inline void recorder_add(
        const struct recorder *recorder, const struct recorder_event *event)
{
    if (recorder->shared != NULL) {
        recorder_put(recorder, event);
        if (recorder_is_timed(recorder)) {
            recorder_repeat(recorder, *event);
        }
    }
}
/** A time of ns, in 16 bits: a mantissa of 12, in units of 256 ns, and an exponent. */
uint16_t recorder_age(int64_t ns);
int64_t recorder_age_ns(uint16_t age);
/**
 * Makes `timeline`, which is open, the timeline of a recorder, with all names that it knows. Callers lock, as
 * for names.
 */
void recorder_set_timeline(struct recorder *recorder, struct recorder *timeline);
/** Ends a recording whose file stays. */
void recorder_close_file(struct recorder *recorder);
/** Adds a STALL, ERROR or FAILURE, with its sentence. */
void recorder_tell(const struct recorder *recorder, enum recorder_kind kind,
        int64_t time_ns, const char *text);

#endif
