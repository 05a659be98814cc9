/*
 * The limit of an allreduce in memory that all ranks map: the reduction kernel alone.
 *
 * Rank r reads slice r of every rank's tensors and writes the sum to all of them, the
 * least that has to be moved. The tensors lie side by side, so one call does them all;
 * the padding between them is reduced too, which nobody looks at.
 */
#include "bench/work.h"
#include "ops/reduce/reduce.h"

enum {
    LINE = 64 /* bytes: slices begin at cache lines, so that no two ranks write one */
};

/* Where the slice of a rank begins in a part. */
static size_t slice_offset(const struct segment *segment, size_t bytes, int rank)
{
    return bytes / LINE * (size_t)rank / (size_t)segment->ranks * LINE;
}

tutti_status work_step_limit(struct work *work)
{
    const struct segment *segment = work->segment;
    const struct reduce_spec spec = {
        .dtype = work->operation.dtype,
        .op = work->operation.op,
        .divisor = segment->ranks,
        .prescale = 1,
        .postscale = 1,
    };
    const size_t bytes = work_bytes(work);
    const size_t from = slice_offset(segment, bytes, segment->rank);
    const size_t to = slice_offset(segment, bytes, segment->rank + 1);

    for (int rank = 0; rank < segment->ranks; rank++) {
        work->slices[rank] = segment_part(segment, rank) + from;
    }
    segment_meet(work->segment);
    reduce_tree(&spec, (const void *const *)work->slices, segment->ranks, work->slices,
            segment->ranks, (to - from) / work->pattern.element_bytes);
    segment_meet(work->segment);
    return TUTTI_OK;
}
