/*
 * Passes over arrays of elements, from which reduce.c builds reductions.
 *
 * Pointers need no alignment. An output may be the same pointer as an operand and must
 * not overlap it otherwise; that is what EACH_ELEMENT tells the compiler, since restrict
 * would forbid the first as well.
 */
#ifndef TUTTI_OPS_REDUCE_KERNELS_H
#define TUTTI_OPS_REDUCE_KERNELS_H

#include <stddef.h>

#include <tutti/tutti.h>

/** out[i] = a[i] op b[i] */
typedef void (*reduce_combine)(void *out, const void *a, const void *b, size_t count);

/** How elements of a dtype are reduced, in accumulators. */
struct reduce_kernels {
    size_t element_bytes; /* of the dtype */
    size_t accumulator_bytes; /* of what is combined; at most 8 */
    /* elements to accumulators; NULL: an element is its own accumulator */
    void (*load)(void *accumulators, const void *elements, size_t count);
    /* by tutti_reduce_op, TUTTI_SUM to TUTTI_PRODUCT; NULL: not supported */
    reduce_combine combine[TUTTI_PRODUCT + 1];
    /* out[i] = in[i] * factor; NULL for integers, which are not scaled */
    void (*scale)(void *out, const void *in, double factor, size_t count);
    /* out[i] = in[i] / n, n >= 1; for AVERAGE */
    void (*divide)(void *out, const void *in, int n, size_t count);
    /* accumulators to elements, rounded; NULL: an accumulator is an element */
    void (*store)(void *elements, const void *accumulators, size_t count);
};

/** The kernels of a dtype; NULL: not a float. They serve every reduction. */
const struct reduce_kernels *kernels_float(tutti_dtype dtype);
/** The kernels of a dtype and a reduction; NULL: neither an integer nor bool. */
const struct reduce_kernels *kernels_integer(tutti_dtype dtype, tutti_reduce_op op);

/* Before a loop: no iteration reads what another one writes. */
#if defined(__clang__)
#    define EACH_ELEMENT _Pragma("clang loop vectorize(assume_safety)")
#elif defined(__GNUC__)
#    define EACH_ELEMENT _Pragma("GCC ivdep")
#else
#    define EACH_ELEMENT
#endif

/*
 * Defines a pass `name` of one or of two operands: the value of `expression`, in which x
 * and y are the operands of type `in`, is stored as type `out`. Elements are accessed by
 * memcpy, which compiles to an unaligned vector access.
 */
#define KERNEL_UNARY(name, out, in, expression) \
    static void name(void *to, const void *from, size_t count) \
    { \
        EACH_ELEMENT \
        for (size_t i = 0; i < count; i++) { \
            in x; \
            out value; \
\
            memcpy(&x, (const char *)from + i * sizeof x, sizeof x); \
            value = (expression); \
            memcpy((char *)to + i * sizeof value, &value, sizeof value); \
        } \
    }

#define KERNEL_BINARY(name, type, expression) \
    static void name(void *to, const void *a, const void *b, size_t count) \
    { \
        EACH_ELEMENT \
        for (size_t i = 0; i < count; i++) { \
            type x, y, value; \
\
            memcpy(&x, (const char *)a + i * sizeof x, sizeof x); \
            memcpy(&y, (const char *)b + i * sizeof y, sizeof y); \
            value = (expression); \
            memcpy((char *)to + i * sizeof value, &value, sizeof value); \
        } \
    }

/* As KERNEL_UNARY, with one parameter that `expression` may use. */
#define KERNEL_UNARY_BY(name, type, parameter_type, parameter, expression) \
    static void name( \
            void *to, const void *from, parameter_type parameter, size_t count) \
    { \
        EACH_ELEMENT \
        for (size_t i = 0; i < count; i++) { \
            type x, value; \
\
            memcpy(&x, (const char *)from + i * sizeof x, sizeof x); \
            value = (expression); \
            memcpy((char *)to + i * sizeof value, &value, sizeof value); \
        } \
    }

#endif
