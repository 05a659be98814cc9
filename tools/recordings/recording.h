/*
 * A rank's recording (observe/recorder.h), read from a file that may be damaged: all values are checked
 * before use.
 */
#ifndef TUTTI_TOOLS_RECORDINGS_RECORDING_H
#define TUTTI_TOOLS_RECORDINGS_RECORDING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tutti/tutti.h>

#include "observe/recorder.h"

/** A name in a process set, as this rank knows it. */
struct recorded_tensor {
    char name[RECORDER_NAME_BYTES];
    uint32_t collective;
    uint32_t set;
    bool is_in_flight; /* it was submitted and is not over                         */
    uint64_t uses, step,
            order; /* as in struct recorder_mark, but order is whole      */
};

/** How large messages of another rank come to this one. */
struct recorded_link {
    double slowness; /* against the start; 0: nothing of note has come           */
    double mbs;
};

/** One rank. Texts are terminated and printable. */
struct recording_of {
    int rank, size, pid;
    bool is_finalized;
    bool has_joined; /* it waits in tutti_join(): others go on without it      */
    char host[RECORDER_HOST_BYTES];
    int64_t end_ns; /* when it was looked at, else its last event; clock_ns() there */
    int64_t to_real_ns; /* to be added for the time of day                        */
    bool is_copy; /* copied by a supervisor, with the state of the process       */
    char process_state; /* 0: not known                                        */
    char process[RECORDER_TEXT_BYTES];
    char stall[RECORDER_TEXT_BYTES];
    char error[RECORDER_TEXT_BYTES];
    char failure[RECORDER_TEXT_BYTES];
    struct recorded_tensor *tensors; /* owned                                     */
    size_t tensor_count;
    struct recorder_event *events; /* owned; from old to new; tensors checked      */
    size_t event_count;
    struct recorded_link *links; /* [size] owned; NULL: not recorded              */
    double link_mbs; /* between nodes at the start; 0: not measured             */
    uint64_t taken; /* submissions that the engine has seen                      */
};

/**
 * Reads one from memory.
 * @return TUTTI_OK; TUTTI_ERR_PROTOCOL (it is no recording; the error says why),
 *         TUTTI_ERR_NO_MEMORY
 */
TUTTI_MUST_USE tutti_status recording_decode(
        struct recording_of *recording, const void *bytes, size_t len);
/** The same of a file. @return also TUTTI_ERR_SYSTEM */
TUTTI_MUST_USE tutti_status recording_load(
        struct recording_of *recording, const char *path);
void recording_fini(struct recording_of *recording);

/** From its first event to its last, by the clock of the rank; equal when there is at most one. */
void recording_window(
        const struct recording_of *recording, int64_t *begin_ns, int64_t *end_ns);
/** When it was submitted, by the clock of the rank; 0: that is too long ago. */
int64_t recording_submitted_at(
        const struct recording_of *recording, const struct recorded_tensor *tensor);
/** When the batch, or the wait, that an event begins was over, by the same clock; 0: it is not. */
int64_t recorded_end_ns(const struct recording_of *recording, size_t event);
/**
 * The event with which this rank has begun the same batch, from event *from on, where the next one is
 * looked for then; NULL: it has recorded none.
 */
const struct recorder_event *recorded_batch(const struct recording_of *recording,
        size_t *from, const struct recorder_event *batch);
/** True when the engine has not seen it. */
bool recorded_is_unseen(
        const struct recording_of *recording, const struct recorded_tensor *tensor);
/** "allreduce", or words for what is none of the public collectives. */
const char *recorded_collective(const struct recorded_tensor *tensor);
/** What a rank is called: "rank 3 on b". */
void recorded_rank_text(
        const struct recording_of *recording, char *text, size_t capacity);
/** For qsort(): of int64_t. */
int recorded_compare_times(const void *a, const void *b);

#endif
