/*
 * Collectives on rows: which rank has how many of them, what of that is agreed on, and
 * where the parts lie in input and output.
 */
#ifndef TUTTI_RUN_ROWS_H
#define TUTTI_RUN_ROWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tutti/tutti.h>

#include "agree/meta.h"
#include "ops/op.h"

struct submission;

/** The arguments of a call that works on rows; what they mean depends on the call. */
struct rows {
    int64_t rows;
    const int64_t *rows_of; /* [set size] or NULL; send_rows of alltoall */
    const int64_t *recv_rows; /* [set size] or NULL; alltoall              */
    bool owns_output; /* the request allocates the output          */
};

/** True when the request allocates the output on this rank. */
bool rows_own_output(const struct submission *submission, const struct op_set *set);

/**
 * Checks the rows of a submission to a set. The numbers of elements are known to fit into
 * memory afterwards.
 * @return TUTTI_OK, TUTTI_ERR_INVALID
 */
tutti_status rows_check(const struct submission *submission, const struct op_set *set);

/** How many numbers rows_describe() writes behind the shape. */
size_t rows_numbers(const struct submission *submission, const struct op_set *set);

/**
 * The metadata that a checked submission gives: fills count, form, part_count and
 * row_counts, and writes parts and claims to `numbers`; changes a dimension of the shape
 * in which ranks may differ to -1.
 */
void rows_describe(const struct submission *submission, const struct op_set *set,
        struct meta *meta, int64_t *shape, int64_t *numbers);

/** Where the parts of a tensor lie, seen from this rank. */
struct rows_layout {
    struct op_part *sends; /* [set size] of the input                               */
    struct op_part *recvs; /* [set size] of the output; bytes 0 where not yet known */
    size_t input_bytes;
    size_t output_bytes; /* as far as it is known                                 */
};

/** Fills sends and recvs, which the caller provides, and the sums. */
void rows_lay_out(const struct submission *submission, const struct op_set *set,
        struct rows_layout *layout);

/**
 * Bytes of the output on this rank, as far as the call tells them: less where it does not,
 * and 0 for a call that rows_check() would refuse.
 */
size_t rows_output_bytes(const struct submission *submission, const struct op_set *set);

/**
 * Checks that buffers are there, and overlap only where they may; rows_check() has passed.
 * @return TUTTI_OK, TUTTI_ERR_INVALID
 */
tutti_status rows_check_buffers(const struct submission *submission,
        const struct op_set *set, const struct rows_layout *layout);

/** Puts parts one behind the other; returns their bytes. */
size_t rows_place(struct op_part *parts, int count);

#endif
