/*
 * What an allreduce must give, slowly and by its definition: one element at a time, a
 * recursion over the canonical tree (or a fold, for device memory), every result rounded where the types say so.
 */
#ifndef TUTTI_TEST_BATCH_REFERENCE_H
#define TUTTI_TEST_BATCH_REFERENCE_H

#include <stdbool.h>
#include <stddef.h>

#include <tutti/tutti.h>

/** A reduction over n inputs. */
struct reduction {
    tutti_collective collective; /* a REDUCESCATTER has levels on equal groups only */
    tutti_dtype dtype;
    tutti_reduce_op op;
    double prescale;
    double postscale;
    int n;
    int members; /* of the set, joined or not; 0: n */
    const void *const *inputs; /* [n] */
    const int *ranks; /* [n] world rank of each input */
    bool folds; /* one level, from the first input to the last, as the simulated NCCL
                   does; else the canonical tree */
};

/**
 * From now on reductions have two levels: over the ranks of each group, and over what the
 * groups gave. Call it before there are threads.
 * @param groups  a character for each world rank: its group; borrowed; NULL: one level
 * @return those before
 */
const char *reference_set_groups(const char *groups);

/** Whether NCCL sums what this thread has, so that reductions fold (see above). */
void reference_set_folds(bool folds);
bool reference_folds(void);

/** Writes count elements; a NaN comes without payload. */
void reference_reduce(const struct reduction *reduction, void *output, size_t count);

/** True when two arrays have equal bits, or a NaN each where there is one. */
bool reference_equal(tutti_dtype dtype, const void *a, const void *b, size_t count);

/** True when the type can be reduced so. */
bool reference_accepts(tutti_dtype dtype, tutti_reduce_op op);

/** The value of an element of a float type; exact. */
double reference_load_real(tutti_dtype dtype, const void *element);

/** Writes a value of a float type, rounded to nearest even. */
void reference_store_real(tutti_dtype dtype, double value, void *element);

/** Binary digits of a float type's fraction, the leading one included. */
int reference_digits(tutti_dtype dtype);

/** Zeroed memory; ends the program when there is none. */
void *must_alloc(size_t count, size_t size);

bool dtype_is_signed_integer(tutti_dtype dtype);
/** float16, bfloat16, float32, float64. */
bool dtype_is_real(tutti_dtype dtype);

#endif
