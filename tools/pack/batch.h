/*
 * The batches that bench-pack packs, in device memory.
 */
#ifndef TUTTI_TOOLS_PACK_BATCH_H
#define TUTTI_TOOLS_PACK_BATCH_H

#include "tools/pack/gpu.h"

/** A case: its tensors, as bytes or as the workload of a network. */
struct pack_case {
    char letter; /* as --cases names it                                            */
    const char *text; /* for the table                                             */
    const char *workload; /* of bench/core/workloads.h; NULL: the next two         */
    size_t tensors;
    size_t bytes; /* of each                                                       */
    bool shifted; /* tensors begin one element behind a boundary                   */
};

/** The types of a row. */
struct pack_kind {
    const char *text;
    tutti_dtype tensor, packed;
};

/** A batch in device memory. */
struct pack_batch {
    struct pack_kind kind;
    cu_pointer tensors; /* all of them, apart, in one allocation                   */
    size_t tensor_bytes; /* of that allocation                                     */
    cu_pointer packed;
    cu_pointer table;
    struct pack_plan plan;
    uint64_t elements; /* of all tensors                                           */
};

/** Scatters divide by so many ranks. */
#define PACK_RANKS 8

/** Most tensors, and elements of each, when only correctness is looked at. */
#define PACK_CHECK_TENSORS 1100
#define PACK_CHECK_ELEMENTS 20000

/**
 * Allocates a batch; ends the program when memory is short.
 * @param checks  no more than PACK_CHECK_TENSORS, PACK_CHECK_ELEMENTS
 */
void pack_batch_init(struct pack_batch *batch, const struct pack_gpu *gpu,
        const struct pack_case *c, struct pack_kind kind, bool checks);
void pack_batch_fini(struct pack_batch *batch, const struct pack_gpu *gpu);

/** Bytes that a copy of it reads and writes. */
double pack_batch_traffic(const struct pack_batch *batch);

/** Puts known values into the tensors and nonsense into the packed buffer, or reversed. */
void pack_batch_prepare(
        struct pack_batch *batch, const struct pack_gpu *gpu, enum pack_direction way);
/** True when the other side has what it should have; says what is wrong. */
bool pack_batch_check(const struct pack_batch *batch, const struct pack_gpu *gpu,
        enum pack_direction way, const char *what);

#endif
