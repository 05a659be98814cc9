/*
 * float16 and bfloat16: each element is rounded to 16 bits, with error feedback. The sum over
 * the ranks is made in float32 and rounded once.
 */
#include <math.h>

#include "compression/compressed.h"

/** The state of a parameter. */
struct cast {
    struct compressed common;
    uint16_t *halves; /* [count], exchanged in place */
};

static void prepare(void *state, const tutti_compressor_info *info)
{
    struct cast *cast = state;

    cast->common.plain = info->ranks == 1;
    cast->halves = compressed_alloc(
            &cast->common, info->count * (int64_t)sizeof *cast->halves);
}

static void encode(struct cast *cast, const float *gradient)
{
    const struct compressed *c = &cast->common;
    float sum[COMPRESSED_BLOCK];

    for (int64_t first = 0; first < c->count; first += COMPRESSED_BLOCK) {
        int64_t n = compressed_min(COMPRESSED_BLOCK, c->count - first);

        compressed_add(c, gradient, first, n, sum);
        elements_store(c->codec->dtype, sum, cast->halves + first, n);
    }
}

/* The mean has taken the place of what was sent: rounded again. */
static void cast_sent(
        void *state, int64_t first, int64_t n, const float *sum, float *out)
{
    const struct cast *cast = state;
    uint16_t halves[COMPRESSED_BLOCK];

    (void)first;
    elements_store(cast->common.codec->dtype, sum, halves, n);
    elements_load(cast->common.codec->dtype, halves, out, n);
}

static tutti_status cast_stage(
        void *state, int stage, float *gradient, tutti_exchange *next)
{
    struct cast *cast = state;
    struct compressed *c = &cast->common;
    tutti_dtype dtype = c->codec->dtype;

    if (stage == 0) {
        encode(cast, gradient);
        return compressed_ask(
                next, TUTTI_ALLREDUCE, cast->halves, cast->halves, c->count, dtype);
    }
    compressed_settle(c, gradient,
            isfinite(elements_squares(dtype, cast->halves, c->count)), next);
    elements_load(dtype, cast->halves, gradient, c->count);
    return TUTTI_OK;
}

static tutti_status fp16_open(const tutti_compressor_info *info, void **state)
{
    static const struct codec codec = {
        .bytes = sizeof(struct cast),
        .dtype = TUTTI_FLOAT16,
        .prepare = prepare,
        .stage = cast_stage,
        .sent = cast_sent,
    };

    return compressed_open(info, &codec, state);
}

const tutti_compressor *tutti_compress_fp16(void)
{
    static const tutti_compressor compressor = COMPRESSED_HOOK("fp16", fp16_open);

    return &compressor;
}

static tutti_status bf16_open(const tutti_compressor_info *info, void **state)
{
    static const struct codec codec = {
        .bytes = sizeof(struct cast),
        .dtype = TUTTI_BFLOAT16,
        .prepare = prepare,
        .stage = cast_stage,
        .sent = cast_sent,
    };

    return compressed_open(info, &codec, state);
}

const tutti_compressor *tutti_compress_bf16(void)
{
    static const tutti_compressor compressor = COMPRESSED_HOOK("bf16", bf16_open);

    return &compressor;
}
