/*
 * The metadata of a submission: everything beside its name that ranks must agree on.
 */
#ifndef TUTTI_CORE_META_H
#define TUTTI_CORE_META_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tutti/tutti.h>

#include "base/wire.h"

/**
 * Collectives that are not public: they travel like tensors in the log of the world.
 */
enum meta_collective {
    META_SET_CREATE = 64, /* dims: world ranks of the new set      */
    META_SET_DESTROY = 65, /* count: id of the set                  */
    META_FINALIZE = 66 /* every rank of the set has called it   */
};

/** What ranks compare. Plain data; dims is borrowed unless made by meta_copy(). */
struct meta {
    int64_t count; /* elements, or see meta_collective                    */
    tutti_dtype dtype;
    tutti_reduce_op op; /* ALLREDUCE, else 0                                   */
    int root; /* BROADCAST: rank within the set, else 0              */
    double prescale; /* ALLREDUCE, else 1                                   */
    double postscale; /* ALLREDUCE, else 1                                   */
    uint64_t group; /* hash of the group's members; 0: no group            */
    uint32_t group_size; /* members of the group                                */
    int ndim; /* entries in dims; 0: shape not given                 */
    const int64_t *dims; /* shape, or ranks of META_SET_CREATE                  */
};

bool meta_equal(const struct meta *a, const struct meta *b);
/** Deep copy; false when out of memory, `to` unchanged. */
bool meta_copy(struct meta *to, const struct meta *from);
/** Frees what meta_copy() made; zeroed is valid. */
void meta_fini(struct meta *meta);

void meta_put(struct wire_writer *out, const struct meta *meta);
/**
 * Reads metadata; dims is put into `*dims`, which grows (owned by the caller,
 * mem_free()).
 * @return TUTTI_OK, TUTTI_ERR_PROTOCOL (malformed), TUTTI_ERR_NO_MEMORY
 */
tutti_status meta_get(struct wire_reader *in, struct meta *meta, int64_t **dims,
        size_t *dims_capacity);

/** True for a public or internal collective; used on numbers from the wire. */
bool meta_collective_is_valid(int collective);
/** Name of a public or internal collective. */
const char *meta_collective_name(int collective);

/**
 * Describes the first difference: what differs ("dtype") and both values as text. The
 * two must not be equal.
 */
const char *meta_difference(const struct meta *a, const struct meta *b, char *text_a,
        char *text_b, size_t capacity);

#endif
