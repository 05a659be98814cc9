/*
 * The metadata of a submission: everything beside its name that ranks must agree on.
 */
#ifndef TUTTI_AGREE_META_H
#define TUTTI_AGREE_META_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tutti/tutti.h>

#include "base/wire.h"
#include "ops/op.h"

/**
 * Collectives that are not public: they travel like tensors in the log of the world.
 */
enum meta_collective {
    META_SET_CREATE = 64, /* dims: world ranks of the new set */
    META_SET_DESTROY = 65, /* count: id of the set */
    META_FINALIZE = 66, /* every rank of the set has called it */
    META_JOIN = 67 /* every rank of the set has joined */
};

/** How the sizes of what is exchanged are known. */
enum meta_form {
    META_EQUAL, /* all ranks have equal parts, of `count` rows together or each */
    META_LISTED, /* every rank knows the sizes of its own parts, in and out */
    META_UNKNOWN, /* a rank knows what it sends; sizes travel with the data */
    META_FORM_COUNT
};

/** What is no number of device.spot(). */
enum {
    META_SPOT_NONE = 0, /* nowhere that matters */
    META_SPOT_MIXED = 1 /* not the same on all ranks; no rank gives it */
};

/**
 * What a submission gives beside its name. Plain data; dims is borrowed unless made by
 * meta_copy(). Each name keeps one, so that it is packed.
 *
 * All of it must be equal on all ranks, but for the row counts: what a rank says about itself
 * and others, which the coordinator compares crosswise (agree/row_counts.h); and for the spot: if
 * ranks give different ones, all learn that it is mixed. All but the row counts
 * and the step is what a number stands for; of the step see agree/steps.h.
 */
struct meta {
    int64_t count; /* elements; rows where row_count is set; 0 where ranks
                                may differ; or see meta_collective */
    int64_t row_count; /* elements per row, of a collective on rows; else 0 */
    tutti_dtype dtype; /* this and op as the caller gave them, valid or not */
    tutti_reduce_op op; /* of reductions, else 0 */
    enum op_space space : 8; /* where input and output lie; nothing lies on the host */
    enum meta_form form : 8; /* of ALLGATHER and ALLTOALL, else META_EQUAL */
    int root; /* where there is one: rank within the set, else 0 */
    double prescale; /* of reductions, else 1 */
    double postscale; /* of reductions, else 1 */
    uint64_t group; /* hash of the group's members; 0: no group */
    uint64_t step; /* 1 + the step of this use; 0: not given */
    uint64_t spot; /* DEVICE: see device.spot() (ops/device.h), or META_SPOT_... */
    uint32_t group_size; /* members of the group */
    int ndim; /* length of the shape; 0: not given */
    int part_count; /* REDUCESCATTER, ALLGATHER of listed rows: set size */
    int row_counts; /* see agree/row_counts.h */
    const int64_t *dims; /* the shape (or ranks of META_SET_CREATE), then the
                                parts, then the row counts */
};

/** The rows of each member, equal on all ranks: part_count of them. */
static inline const int64_t *meta_parts(const struct meta *meta)
{
    return meta->dims == NULL ? NULL : meta->dims + meta->ndim;
}

/** The row counts that this rank gives: row_counts numbers. */
static inline const int64_t *meta_row_counts(const struct meta *meta)
{
    return meta->dims == NULL ? NULL : meta->dims + meta->ndim + meta->part_count;
}

/** All numbers behind `dims`. */
static inline size_t meta_dims_length(const struct meta *meta)
{
    return (size_t)meta->ndim + (size_t)meta->part_count + (size_t)meta->row_counts;
}

/** The reduction that backends see: which average it is, the divisor says. */
static inline tutti_reduce_op meta_backend_op(tutti_reduce_op op)
{
    return op == TUTTI_SET_AVERAGE ? TUTTI_AVERAGE : op;
}

/** A step as it is kept. */
static inline uint64_t meta_step(int64_t step)
{
    return (uint64_t)step - (uint64_t)TUTTI_NO_STEP;
}

/**
 * True when ranks that give these agree; row counts and the step are not looked at, nor is the
 * spot of b when that of a is mixed.
 */
bool meta_equal(const struct meta *a, const struct meta *b);
/** True for metadata that agree but for their spots, or also in these. */
bool meta_equal_elsewhere(const struct meta *a, const struct meta *b);
/** Compares prescale and postscale by value; NaN is refused at submission. */
bool meta_scales_equal(const struct meta *a, const struct meta *b);
/** Deep copy; false when out of memory, `to` unchanged. */
bool meta_copy(struct meta *to, const struct meta *from);
/** Frees what meta_copy() made; zeroed is valid. */
void meta_fini(struct meta *meta);

/** Writes everything, row counts included. */
void meta_put(struct wire_writer *out, const struct meta *meta);
/**
 * Reads metadata; dims is put into `*dims`, which grows (owned by the caller,
 * mem_free()).
 * @return TUTTI_OK, TUTTI_ERR_PROTOCOL (malformed), TUTTI_ERR_NO_MEMORY
 */
tutti_status meta_get(struct wire_reader *in, struct meta *meta, int64_t **dims,
        size_t *dims_capacity);

/** True for collectives that combine elements. */
static inline bool meta_reduces(int collective)
{
    return collective == TUTTI_ALLREDUCE || collective == TUTTI_REDUCE ||
            collective == TUTTI_REDUCESCATTER;
}

/** True for collectives that work on rows. */
static inline bool meta_has_rows(int collective)
{
    return collective == TUTTI_REDUCESCATTER ||
            op_is_exchange((tutti_collective)collective);
}
/** True when every rank knows from the metadata that nothing is moved. */
bool meta_is_nothing(int collective, const struct meta *meta);
/**
 * Bytes that a tensor takes on the rank with most of them, in a set of `size` ranks, when that
 * is known from the metadata alone; SIZE_MAX when it is not.
 */
size_t meta_agreed_bytes(int collective, const struct meta *meta, int size);

/** True for a public or internal collective; used on numbers from the wire. */
bool meta_collective_is_valid(int collective);
/** "host memory", "device memory" ... */
const char *meta_space_name(enum op_space space);
/** Name of a public or internal collective. */
const char *meta_collective_name(int collective);

/**
 * Describes the first difference: what it is ("dtype differs") and both values as text.
 * The two must not be equal.
 */
const char *meta_difference(const struct meta *a, const struct meta *b, char *text_a,
        char *text_b, size_t capacity);

#endif
