/*
 * What all compressors have in common, and no compression.
 */
#include "compression/compressed.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "options.h"

enum {
    RANK_MAX = 64 /* of PowerSGD; the paper uses 1 to 4 */
};

/* ----------------------------------------------------------------- settings */

void tutti_compression_settings_default_sized(
        tutti_compression_settings *settings, size_t size)
{
    const tutti_compression_settings defaults = {
        .size = size,
        .ratio = 0.01,
        .rank = 4,
        .smallest = 1024,
        .feedback = true,
    };

    options_give(settings, size, &defaults, sizeof defaults);
}

/** Copies the caller's settings over the defaults, and checks them. */
static tutti_status read_settings(
        const tutti_compressor_info *info, tutti_compression_settings *settings)
{
    const tutti_compression_settings *given = info->settings;

    tutti_compression_settings_default(settings);
    if (given == NULL) {
        return TUTTI_OK;
    }
    if (given->size == 0) {
        return error_set(TUTTI_ERR_INVALID,
                "parameter %s: the size of its compression settings is 0: fill them "
                "with tutti_compression_settings_default()",
                info->name);
    }
    options_take(settings, sizeof *settings, given);

    const struct {
        const char *name;
        double value;
        bool fits;
        const char *range;
    } checks[] = {
        { "ratio", settings->ratio, settings->ratio > 0.0 && settings->ratio <= 1.0,
                "above 0 and at most 1" },
        { "rank", settings->rank, settings->rank >= 1 && settings->rank <= RANK_MAX,
                "1 to 64" },
        { "smallest", (double)settings->smallest, settings->smallest >= 0,
                "0 or more" },
    };

    for (size_t i = 0; i < sizeof checks / sizeof checks[0]; i++) {
        if (!checks[i].fits) {
            return error_set(TUTTI_ERR_INVALID,
                    "parameter %s: compression settings: %s is %g: it must be %s",
                    info->name, checks[i].name, checks[i].value, checks[i].range);
        }
    }
    return TUTTI_OK;
}

/* ------------------------------------------------------------------- memory */

void *compressed_alloc(struct compressed *c, int64_t bytes)
{
    void *buffer = NULL;

    if (c->plain || c->status != TUTTI_OK) {
        return NULL;
    }
    c->status = tutti_alloc(c->t, (size_t)bytes, TUTTI_HOST, &buffer);
    if (c->status == TUTTI_OK) {
        c->buffers[c->buffer_count++] = buffer;
    }
    return buffer;
}

float *compressed_tensor(struct compressed *c, const char *suffix,
        const int64_t dims[2], int64_t first, int64_t count)
{
    size_t name_bytes = strlen(c->name) + strlen(suffix) + sizeof ".";
    tutti_state_tensor *tensor = &c->tensors[c->tensor_count];
    const int64_t copies = c->keeps ? 2 : 1;
    float *data;
    char *name;

    if (c->plain || c->status != TUTTI_OK) {
        return NULL;
    }
    data = calloc(1, (size_t)copies * (size_t)count * sizeof *data + name_bytes);
    if (data == NULL) {
        c->status = error_set(TUTTI_ERR_NO_MEMORY,
                "parameter %s: out of memory for its %s of %lld elements", c->name,
                suffix, (long long)count);
        return NULL;
    }
    name = (char *)(data + copies * count);
    (void)snprintf(name, name_bytes, "%s.%s", c->name, suffix);
    *tensor = (tutti_state_tensor){
        .name = name,
        .data = data,
        .dtype = TUTTI_FLOAT32,
        .ndim = 2,
        .dims = memcpy(c->dims[c->tensor_count++], dims, sizeof c->dims[0]),
        .first = first,
        .count = count,
    };
    return data;
}

/* --------------------------------------------------------------------- hook */

tutti_status compressed_open(
        const tutti_compressor_info *info, const struct codec *codec, void **state)
{
    const int64_t rows[2] = { info->ranks, info->count }; /* one for each rank */
    tutti_compression_settings settings;
    tutti_status status = read_settings(info, &settings);
    struct compressed *c;

    if (status != TUTTI_OK) {
        return status;
    }
    c = calloc(1, codec->bytes);
    if (c == NULL) {
        return error_set(TUTTI_ERR_NO_MEMORY,
                "parameter %s: out of memory for its compression", info->name);
    }
    *c = (struct compressed){
        .codec = codec,
        .t = info->t,
        .name = info->name,
        .count = info->count,
        .ranks = info->ranks,
        .rank = info->rank,
        .settings = settings,
        .keeps = info->finds_overflow,
        .plain = info->ranks == 1 || info->count < settings.smallest ||
                codec->stage == NULL,
    };
    if (codec->prepare != NULL) {
        codec->prepare(c, info);
    }
    if (c->settings.feedback) {
        c->residual =
                compressed_tensor(c, "residual", rows, c->rank * c->count, c->count);
    }
    status = c->status;
    if (status != TUTTI_OK) {
        compressed_close(c);
        return status;
    }
    *state = c;
    return TUTTI_OK;
}

tutti_status compressed_stage(
        void *state, int stage, float *gradient, tutti_exchange *next)
{
    struct compressed *c = state;

    for (size_t i = 0; stage == 0 && c->keeps && i < c->tensor_count; i++) {
        const tutti_state_tensor *tensor = &c->tensors[i];

        memcpy((float *)tensor->data + tensor->count, tensor->data,
                (size_t)tensor->count * sizeof(float));
    }
    if (!c->plain) {
        return c->codec->stage(c, stage, gradient, next);
    }
    if (stage > 0 || c->ranks == 1) {
        return TUTTI_OK;
    }
    return compressed_ask(
            next, TUTTI_ALLREDUCE, gradient, gradient, c->count, TUTTI_FLOAT32);
}

void compressed_undo(void *state)
{
    const struct compressed *c = state;

    for (size_t i = 0; i < c->tensor_count; i++) {
        const tutti_state_tensor *tensor = &c->tensors[i];

        memcpy(tensor->data, (float *)tensor->data + tensor->count,
                (size_t)tensor->count * sizeof(float));
    }
}

void compressed_close(void *state)
{
    struct compressed *c = state;

    for (int i = 0; i < c->buffer_count; i++) {
        (void)tutti_free(c->t, c->buffers[i]);
    }
    for (size_t i = 0; i < c->tensor_count; i++) {
        free(c->tensors[i].data);
    }
    free(c);
}

size_t compressed_tensors(void *state, tutti_state_tensor *tensors, size_t n)
{
    const struct compressed *c = state;

    for (size_t i = 0; i < n && i < c->tensor_count; i++) {
        tensors[i] = c->tensors[i];
    }
    return c->tensor_count;
}

void compressed_describe(const void *state, char text[COMPRESSED_TEXT_BYTES])
{
    const tutti_compression_settings *settings =
            &((const struct compressed *)state)->settings;

    (void)snprintf(text, COMPRESSED_TEXT_BYTES,
            " (ratio %.9g, rank %d, smallest %lld%s)", settings->ratio, settings->rank,
            (long long)settings->smallest, settings->feedback ? ", feedback" : "");
}

/* ------------------------------------------------------------------- stages */

tutti_status compressed_ask(tutti_exchange *next, tutti_collective collective,
        const void *input, void *output, int64_t count, tutti_dtype dtype)
{
    next->collective = collective;
    next->input = input;
    next->output = output;
    next->count = count;
    next->row_count = 1;
    next->dtype = dtype;
    next->op = TUTTI_AVERAGE;
    return TUTTI_AGAIN;
}

void compressed_add(const struct compressed *c, const float *gradient, int64_t first,
        int64_t n, float *out)
{
    const float *restrict g = gradient + first;
    const float *restrict e;

    if (c->residual == NULL) {
        memcpy(out, g, (size_t)n * sizeof *out);
        return;
    }
    e = c->residual + first;
    for (int64_t i = 0; i < n; i++) {
        out[i] = g[i] + e[i];
    }
}

void compressed_settle(
        struct compressed *c, const float *gradient, bool finite, tutti_exchange *next)
{
    float sum[COMPRESSED_BLOCK];
    float rest[COMPRESSED_BLOCK];
    double error = 0.0;
    double norm = 0.0;

    for (int64_t first = 0; first < c->count; first += COMPRESSED_BLOCK) {
        int64_t n = compressed_min(COMPRESSED_BLOCK, c->count - first);

        compressed_add(c, gradient, first, n, sum);
        c->codec->sent(c, first, n, sum, rest);
        for (int64_t i = 0; i < n; i++) {
            rest[i] = sum[i] - rest[i];
        }
        norm += elements_dot(sum, sum, n);
        error += elements_dot(rest, rest, n);
        if (finite && c->residual != NULL) {
            memcpy(c->residual + first, rest, (size_t)n * sizeof *rest);
        }
    }
    if (isfinite(error) && isfinite(norm)) {
        next->error_squared = error;
        next->norm_squared = norm;
    }
}

/* --------------------------------------------------------------------- none */

static tutti_status none_open(const tutti_compressor_info *info, void **state)
{
    static const struct codec codec = { .bytes = sizeof(struct compressed) };

    return compressed_open(info, &codec, state);
}

const tutti_compressor *tutti_compress_none(void)
{
    static const tutti_compressor compressor = COMPRESSED_HOOK("none", none_open);

    return &compressor;
}
