/*
 * Elements of tensors on the GPU: their types, conversions and arithmetic, for nvcc and,
 * with the same results, for a host compiler.
 *
 * The only difference is the payload of a NaN.
 */
#ifndef TUTTI_OPS_GPU_KERNELS_ELEMENT_CUH
#define TUTTI_OPS_GPU_KERNELS_ELEMENT_CUH

#include <stdint.h>
#include <string.h>

#if defined(__CUDACC__)
#    define KERNEL_FN static __device__ __forceinline__
#    define KERNEL_MEMBER __device__ __forceinline__
#    define KERNEL_UNROLL _Pragma("unroll")
#else
#    define KERNEL_FN static inline
#    define KERNEL_MEMBER inline
#    define KERNEL_UNROLL
#    include "ops/reduce/half.h"
#endif

/* What lies in memory for the two 16-bit floats; float and double are themselves. */
struct float16 {
    uint16_t bits;
};
struct bfloat16 {
    uint16_t bits;
};

/* ------------------------------------------------------------------- one instruction */

#if defined(__CUDACC__)

KERNEL_FN float widened(float16 x)
{
    float value;

    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(x.bits));
    return value;
}

KERNEL_FN float widened(bfloat16 x)
{
    return __uint_as_float((uint32_t)x.bits << 16);
}

KERNEL_FN void narrow(float value, float16 *x)
{
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(x->bits) : "f"(value));
}

KERNEL_FN void narrow(float value, bfloat16 *x)
{
#    if __CUDA_ARCH__ >= 800
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(x->bits) : "f"(value));
#    else
    const uint32_t bits = __float_as_uint(value);
    const uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;

    x->bits = (uint16_t)(value != value ? bits >> 16 | 1 << 6 : rounded);
#    endif
}

/* Spelled out, so that no flag of the compiler changes the rounding. */
KERNEL_FN float product_of(float x, float y)
{
    return __fmul_rn(x, y);
}
KERNEL_FN double product_of(double x, double y)
{
    return __dmul_rn(x, y);
}
KERNEL_FN float quotient_of(float x, float y)
{
    return __fdiv_rn(x, y);
}
KERNEL_FN double quotient_of(double x, double y)
{
    return __ddiv_rn(x, y);
}

#else

KERNEL_FN float widened(float16 x)
{
    return half_to_float(x.bits);
}
KERNEL_FN float widened(bfloat16 x)
{
    return bfloat_to_float(x.bits);
}
KERNEL_FN void narrow(float value, float16 *x)
{
    x->bits = half_from_float(value);
}
KERNEL_FN void narrow(float value, bfloat16 *x)
{
    x->bits = bfloat_from_float(value);
}

/* Compiled with -ffp-contract=off. */
template <class T> KERNEL_FN T product_of(T x, T y)
{
    return x * y;
}
template <class T> KERNEL_FN T quotient_of(T x, T y)
{
    return x / y;
}

#endif

KERNEL_FN float widened(float x)
{
    return x;
}
KERNEL_FN double widened(double x)
{
    return x;
}
KERNEL_FN void narrow(float value, float *x)
{
    *x = value;
}
KERNEL_FN void narrow(double value, double *x)
{
    *x = value;
}

/* What is computed in. */
template <class T> struct precision {
    typedef float type;
};
template <> struct precision<double> {
    typedef double type;
};

/* ---------------------------------------------------------------------------- memory */

#if defined(__CUDACC__)
typedef ulonglong2 vector16;
#else
struct alignas(16) vector16 {
    unsigned long long x, y;
};
#endif

/* Memory of the device, and no other: an access need not find out which memory it is. */
template <class T> KERNEL_FN T *global_memory(uint64_t address)
{
    T *memory = (T *)(uintptr_t)address;

#if defined(__CUDACC__)
    asm(""
            : "+l"(memory)); /* else a later conversion of the address forgets the rest */
    __builtin_assume(__isGlobal(memory));
#endif
    return memory;
}

/* A vector that is read once: it is the first to leave the caches, where what is written stays. */
template <class T> KERNEL_FN T load_once(const T *from)
{
#if defined(__CUDACC__)
    return __ldcs(from);
#else
    return *from;
#endif
}

/* An element at any address. */
template <class T> KERNEL_FN T load_element(const unsigned char *from)
{
    T value;

    if ((uintptr_t)from % sizeof value == 0) {
        return *(const T *)from;
    }
    for (unsigned i = 0; i < sizeof value; i++) {
        ((unsigned char *)&value)[i] = from[i];
    }
    return value;
}

template <class T> KERNEL_FN void store_element(unsigned char *to, T value)
{
    if ((uintptr_t)to % sizeof value == 0) {
        *(T *)to = value;
        return;
    }
    for (unsigned i = 0; i < sizeof value; i++) {
        to[i] = ((const unsigned char *)&value)[i];
    }
}

#endif
