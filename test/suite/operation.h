/*
 * Any collective as data: what it is given, what it must give back, and how it is called.
 * One table of operations then serves every test that mixes them.
 */
#ifndef TUTTI_TEST_SUITE_OPERATION_H
#define TUTTI_TEST_SUITE_OPERATION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tutti/tutti.h>

#include "test/suite/buffer.h"
#include "test/suite/checks.h"
#include "test/suite/pattern.h"

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

/** An operation on its way, with its memory. */
struct flight {
    const struct operation *operation; /* borrowed, as is the crew */
    const struct crew *crew;
    struct buffer input; /* empty when it is in place */
    struct buffer output; /* empty when the request owns it */
    size_t at; /* in place: where the smaller of the two lies in the other */
    void *stream; /* with what the input is written, and submitted; NULL: none */
    tutti_request request;
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
 * @param inputs  [crew->size] the input of each member
 */
void operation_expect(const struct operation *o, const struct crew *crew,
        const void *const *inputs, void *output);

/** As operation_expect(), with the inputs of operation_fill(). */
void operation_expect_filled(
        const struct operation *o, const struct crew *crew, void *output);

/** Allocates and fills the memory. */
void flight_prepare(
        struct flight *f, const struct operation *o, const struct crew *crew);
/** Submits by name. Lists and options are overwritten at once: they were copied. */
tutti_status flight_submit(tutti *t, struct flight *f, const char *name);
/** Registers the operation under a name. */
tutti_status flight_register(
        tutti *t, const struct flight *f, const char *name, tutti_tensor *tensor);
/** Submits what was registered. */
tutti_status flight_submit_registered(tutti *t, struct flight *f, tutti_tensor tensor);
/** Prepares, submits and checks that this went well. */
void flight_begin(tutti *t, struct checks *c, struct flight *f,
        const struct operation *o, const struct crew *crew, const char *name);
/** Waits, checks status and every bit, and frees the memory. */
void flight_end(tutti *t, struct checks *c, struct flight *f);
/**
 * As flight_end(), against another result.
 * @param expected  the bytes of the output
 */
void flight_end_with(
        tutti *t, struct checks *c, struct flight *f, const void *expected);
/** Waits for an operation that fails: that is checked, and that its output is as before. */
void flight_fail(tutti *t, struct checks *c, struct flight *f, tutti_status want);
/** Frees the memory of what was not submitted. */
void flight_fini(struct flight *f);

/** Runs operations of the world, all in flight together; their descriptions are names. */
void operations_run(
        tutti *t, struct checks *c, const struct operation *operations, size_t count);

/** The world as a crew; `ranks` is [size] of storage. */
struct crew crew_of_world(const struct checks *c, int *ranks);

/** Any legal operation, from a well mixed number. */
struct operation operation_random(int size, uint64_t number);

/**
 * Every collective with data, every type it takes, every reduction; sizes, roots, forms,
 * places and contents chosen from a seed. Returns the number of operations written; with
 * NULL the room that is needed.
 */
size_t operation_table(struct operation *table, int size, uint32_t seed);

#endif
