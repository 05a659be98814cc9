/*
 * Recordings of ranks as batches and steps, and what ranks have waited for. Pure.
 */
#ifndef TUTTI_TOOLS_RECORDINGS_SPANS_H
#define TUTTI_TOOLS_RECORDINGS_SPANS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tutti/tutti.h>

#include "tools/recordings/lateness.h"

/** A batch of one rank. Times are those of its clock; 0: not recorded. */
struct traced_batch {
    uint32_t set;
    uint64_t place;
    uint32_t tensor; /* the first; as recorder_event.tensor                    */
    int64_t complete_ns; /* this rank had submitted all of it                      */
    int64_t agreed_ns; /* all ranks had, and knew it                             */
    int64_t launch_ns;
    int64_t end_ns; /* of the recording, when it is not over                */
    bool is_over;
    int64_t packed_ns, pack_ns; /* when that was done, and how long it took      */
    int64_t unpacked_ns, unpack_ns;
    int64_t reduce_ns; /* how long                                              */
    uint64_t bytes;
    size_t operations; /* 0: not recorded                                         */
    size_t members; /* event with the first of its tensors; 0: none               */
    int slowest; /* index of the rank that submitted it last; -1: not known       */
    int64_t late_ns; /* by so much after the median of all; where slowest is known */
    int64_t awaited_ns; /* that this rank waited for that one, from complete_ns on    */
};

/** A step of one rank, from its first submission to that of the next step. */
struct traced_step {
    uint64_t number;
    int64_t begin_ns, end_ns;
};

struct traced_rank {
    const struct recording_of *recording; /* borrowed                            */
    struct traced_batch *batches; /* owned; by set and place                        */
    size_t batch_count;
    struct traced_step *steps; /* owned; whole ones, in order                     */
    size_t step_count;
};

struct trace {
    const struct recorded_job *job; /* borrowed            */
    struct traced_rank *ranks; /* owned; [job->count] */
};

/** @return TUTTI_OK, TUTTI_ERR_NO_MEMORY */
TUTTI_MUST_USE tutti_status trace_make(
        struct trace *trace, const struct recorded_job *job);
void trace_fini(struct trace *trace);

/** A tensor of a batch. */
struct traced_member {
    uint32_t tensor; /* as recorder_event.tensor; never 0 */
    int64_t taken_ns; /* when the engine saw it            */
};
/** The next, from *position = 0 on; false: there are no more, or they are not recorded. */
bool trace_member(const struct traced_rank *rank, const struct traced_batch *batch,
        size_t *position, struct traced_member *member);
/** The step with a number; NULL: it is not there. */
const struct traced_step *trace_step(const struct traced_rank *rank, uint64_t number);

#endif
