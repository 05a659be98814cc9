/*
 * Vector kernels for 64-bit ARM, where NEON with float16 conversion is always there.
 */
#include <arm_neon.h>

#define VECTOR_BYTES 16

typedef uint64x2_t vector;

static inline vector half_widen(const void *from)
{
    return vreinterpretq_u64_f32(vcvt_f32_f16(vreinterpret_f16_u8(vld1_u8(from))));
}

static inline void half_narrow(void *to, vector value)
{
    vst1_u8(to, vreinterpret_u8_f16(vcvt_f16_f32(vreinterpretq_f32_u64(value))));
}

static inline vector word_widen(const void *from)
{
    return vreinterpretq_u64_u32(vmovl_u16(vreinterpret_u16_u8(vld1_u8(from))));
}

static inline void word_narrow(void *to, vector value)
{
    vst1_u8(to, vreinterpret_u8_u16(vmovn_u32(vreinterpretq_u32_u64(value))));
}

static inline vector pick(vector mask, vector yes, vector no)
{
    return vbslq_u64(mask, yes, no);
}

#include "ops/reduce/vector_body.h"

const struct vector_set vector_neon = {
    .which = CONFIG_KERNELS_NEON,
    .kernels = VECTOR_KERNELS,
    .narrow = VECTOR_NARROW,
    .widen = VECTOR_WIDEN,
};
