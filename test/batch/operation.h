/*
 * Any collective as data: what it is given and what it must give back. Threads and processes
 * that drive a backend (batch.h) and programs of the public API (test/suite/flight.h) run the
 * same operations and compare bits with the same reference.
 */
#ifndef TUTTI_TEST_BATCH_OPERATION_H
#define TUTTI_TEST_BATCH_OPERATION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tutti/tutti.h>

#include "test/batch/pattern.h"

/** How the sizes of parts are chosen and told. */
enum operation_form {
    FORM_EQUAL, /* no lists                                                     */
    FORM_LISTED, /* parts of 0 to `count` rows, in lists                         */
    FORM_UNKNOWN /* likewise; allgather, alltoall: told to nobody beforehand     */
};

/** A collective; equal on all members of its process set. */
struct operation {
    tutti_collective collective;
    struct pattern pattern; /* dtype, reduction, contents                        */
    struct scales scales; /* of a reduction                                    */
    int root; /* where there is one                                */
    int64_t count; /* elements; or rows of a part (FORM_EQUAL: exactly, else
                               at most); or all rows of an equal reducescatter      */
    int64_t row_count; /* elements of a row, where it works on rows            */
    enum operation_form form;
    bool is_sparse; /* of parts that are not equal a quarter is empty, a quarter short */
    bool in_place; /* where input and output can be the same memory        */
    bool owns_output; /* the request allocates, where it can; not in place    */
    bool is_shaped; /* a shape of rows of `row_count` is given              */
    int64_t step; /* 0: none                                              */
    bool is_on_host; /* host memory, also in a run with GPUs (gpu.h)         */
};

/** The members of a process set, and which of them this rank is. */
struct crew {
    tutti_process_set set;
    const int *world; /* [size] world rank of each member, which fills its input   */
    int size;
    int index; /* this rank's                                               */
    const bool *absent; /* [size] those that have joined; NULL: nobody               */
};

/** A short description: "sum of 3 float32 by reducescatter", and what else matters. */
void operation_describe(const struct operation *o, char *text, size_t capacity);

/** True for collectives that combine elements. */
bool operation_reduces(const struct operation *o);
/** True for collectives that work on rows. */
bool operation_has_rows(const struct operation *o);

/** Rows of the part that goes from one member of a set to another. */
int64_t operation_part_rows(const struct operation *o, int size, int from, int to);

/** Bytes of the input, or of the output, of a member; 0 where it is ignored. */
size_t operation_input_bytes(const struct operation *o, int size, int index);
size_t operation_output_bytes(const struct operation *o, int size, int index);

/** A member's input. */
void operation_fill(
        const struct operation *o, int world_rank, void *input, size_t bytes);

/**
 * The output of crew->index.
 * @param inputs  [crew->size] the input of each member; NULL: those of operation_fill()
 */
void operation_expect(const struct operation *o, const struct crew *crew,
        const void *const *inputs, void *output);

/** Any legal operation, from a well mixed number. */
struct operation operation_random(int size, uint64_t number);

/**
 * Every collective with data, every type it takes, every reduction; sizes, roots, forms,
 * places and contents chosen from a seed. Returns the number of operations written; with
 * NULL the room that is needed.
 */
size_t operation_table(struct operation *table, int size, uint32_t seed);

#endif
