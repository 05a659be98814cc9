/*
 * Sums over the tree of docs/numerics.md: a range of operands splits at the largest power
 * of two below its length. The 16-bit floats are added in float and rounded once.
 *
 * Operands are loaded four at a time and joined to (a + b) + (c + d). The sums of fours
 * are then what the digits of a binary counter are: sums[l] is that of 2^l fours where
 * bit l of the number of fours so far is set. All of it is in registers.
 */
#ifndef TUTTI_OPS_GPU_KERNELS_SUM_CUH
#define TUTTI_OPS_GPU_KERNELS_SUM_CUH

#include "ops/gpu/kernels/pack.cuh"

/* Operands under way at a time, and levels of sums of so many. */
#define SUM_FOUR 4
#define SUM_DIGITS (SUM_LEVELS - 2)

/* The elements of a thread: 8 bytes at most, two at most. */
template <class T> struct sum_of_elements {
    typedef typename precision<T>::type value;

    static const unsigned ELEMENTS = sizeof(T) == 8 ? 1 : 2;

    value x[ELEMENTS];
};

/* Elements [at, at + count) of an operand. */
template <class T>
KERNEL_FN sum_of_elements<T> sum_load(
        const sum_args &args, uint32_t operand, uint64_t at, unsigned count)
{
    typedef sum_of_elements<T> elements;
    const unsigned char *from = global_memory<const unsigned char>(
            args.operands + operand * args.stride + at * sizeof(T));
    elements result;

    KERNEL_UNROLL
    for (unsigned i = 0; i < elements::ELEMENTS; i++) {
        result.x[i] = 0;
        if (i < count) {
            result.x[i] = (typename elements::value)widened(
                    load_element<T>(from + i * sizeof(T)));
        }
        if (args.prescale != 1) {
            result.x[i] =
                    product_of(result.x[i], (typename elements::value)args.prescale);
        }
    }
    return result;
}

template <class E> KERNEL_FN E sum_join(const E &left, const E &right)
{
    E result;

    KERNEL_UNROLL
    for (unsigned i = 0; i < E::ELEMENTS; i++) {
        result.x[i] = sum_of(left.x[i], right.x[i]);
    }
    return result;
}

template <class T>
KERNEL_FN void sum_store(
        const sum_args &args, uint64_t at, unsigned count, sum_of_elements<T> sum)
{
    typedef typename sum_of_elements<T>::value value;
    unsigned char *to = global_memory<unsigned char>(args.output + at * sizeof(T));

    KERNEL_UNROLL
    for (unsigned i = 0; i < sum_of_elements<T>::ELEMENTS; i++) {
        T rounded;

        if (args.divisor != 1) {
            sum.x[i] = quotient_of(sum.x[i], (value)args.divisor);
        }
        if (args.postscale != 1) {
            sum.x[i] = product_of(sum.x[i], (value)args.postscale);
        }
        narrow(sum.x[i], &rounded);
        if (i < count) {
            store_element(to + i * sizeof(T), rounded);
        }
    }
}

/* The last one to three operands. */
template <class T>
KERNEL_FN sum_of_elements<T> sum_rest(
        const sum_args &args, uint32_t first, uint64_t at, unsigned count)
{
    const uint32_t rest = (uint32_t)args.operand_count - first;
    sum_of_elements<T> sum = sum_load<T>(args, first, at, count);

    if (rest > 1) {
        sum = sum_join(sum, sum_load<T>(args, first + 1, at, count));
    }
    if (rest > 2) {
        sum = sum_join(sum, sum_load<T>(args, first + 2, at, count));
    }
    return sum;
}

/* Adds the sum of the next four: the carries of counting. */
template <class E> KERNEL_FN void sum_count(E *sums, uint32_t fours, E sum)
{
    bool carries = true;

    KERNEL_UNROLL
    for (unsigned digit = 0; digit < SUM_DIGITS; digit++) {
        if (carries && (fours >> digit & 1) != 0) {
            sum = sum_join(sums[digit], sum);
        } else if (carries) {
            sums[digit] = sum;
            carries = false;
        }
    }
}

/* The sum of elements [at, at + count) of all operands. */
template <class T>
KERNEL_FN sum_of_elements<T> sum_tree(const sum_args &args, uint64_t at, unsigned count)
{
    const uint32_t fours = (uint32_t)args.operand_count / SUM_FOUR;
    bool any = args.operand_count % SUM_FOUR != 0;
    sum_of_elements<T> sums[SUM_DIGITS];
    sum_of_elements<T> result;

    for (uint32_t k = 0; k < fours; k++) {
        sum_of_elements<T> a = sum_load<T>(args, k * SUM_FOUR, at, count);
        sum_of_elements<T> b = sum_load<T>(args, k * SUM_FOUR + 1, at, count);
        sum_of_elements<T> c = sum_load<T>(args, k * SUM_FOUR + 2, at, count);
        sum_of_elements<T> d = sum_load<T>(args, k * SUM_FOUR + 3, at, count);

        sum_count(sums, k, sum_join(sum_join(a, b), sum_join(c, d)));
    }
    if (any) {
        result = sum_rest<T>(args, fours * SUM_FOUR, at, count);
    }
    KERNEL_UNROLL
    for (unsigned digit = 0; digit < SUM_DIGITS; digit++) {
        if ((fours >> digit & 1) != 0) {
            result = any ? sum_join(sums[digit], result) : sums[digit];
            any = true;
        }
    }
    return result;
}

/* One thread. */
template <class T>
KERNEL_FN void sum_thread(const sum_args &args, const kernel_place &place)
{
    const uint64_t step = sum_of_elements<T>::ELEMENTS;
    const uint64_t apart = (uint64_t)place.blocks * place.threads * step;

    for (uint64_t at = ((uint64_t)place.block * place.threads + place.thread) * step;
            at < args.count; at += apart) {
        const uint64_t rest = args.count - at;
        const unsigned count = (unsigned)(rest < step ? rest : step);

        sum_store<T>(args, at, count, sum_tree<T>(args, at, count));
    }
}

#endif
