#include "model.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../digits/random.h"

/** Parameters of a layer, in the order of the forward pass. */
enum {
    NORM_ATTENTION, /* scale, then shift */
    ATTENTION_IN = 2, /* matrix, then bias: to queries, keys and values */
    ATTENTION_OUT = 4,
    NORM_PERCEPTRON = 6,
    PERCEPTRON_IN = 8,
    PERCEPTRON_OUT = 10
};

/** Memory that is handed out from its front; without a base it is only counted. */
struct arena {
    float *base;
    size_t used;
};

static float *take(struct arena *arena, size_t count)
{
    float *taken = arena->base != NULL ? arena->base + arena->used : NULL;

    arena->used += count;
    return taken;
}

/** Appends a parameter. */
static void append(struct model *model, int rows, int columns, const char *format, ...)
        __attribute__((format(printf, 4, 5)));

static void append(struct model *model, int rows, int columns, const char *format, ...)
{
    struct parameter *parameter = &model->parameters[model->parameter_count++];
    va_list arguments;

    va_start(arguments, format);
    (void)vsnprintf(parameter->name, sizeof parameter->name, format, arguments);
    va_end(arguments);
    parameter->dims[0] = rows;
    parameter->dims[1] = columns;
    parameter->count = (size_t)rows * (size_t)columns;
    model->value_count += parameter->count;
}

/** The parameters by the names, and in the layout, of the published GPT-2. */
static void list_parameters(struct model *model)
{
    const struct model_shape *shape = &model->shape;
    int channels = shape->channels;

    append(model, shape->vocabulary, channels, "wte.weight");
    append(model, shape->context, channels, "wpe.weight");
    for (int l = 0; l < shape->layers; l++) {
        model->layers[l].parameters = &model->parameters[model->parameter_count];
        append(model, 1, channels, "h.%d.ln_1.weight", l);
        append(model, 1, channels, "h.%d.ln_1.bias", l);
        append(model, channels, 3 * channels, "h.%d.attn.c_attn.weight", l);
        append(model, 1, 3 * channels, "h.%d.attn.c_attn.bias", l);
        append(model, channels, channels, "h.%d.attn.c_proj.weight", l);
        append(model, 1, channels, "h.%d.attn.c_proj.bias", l);
        append(model, 1, channels, "h.%d.ln_2.weight", l);
        append(model, 1, channels, "h.%d.ln_2.bias", l);
        append(model, channels, 4 * channels, "h.%d.mlp.c_fc.weight", l);
        append(model, 1, 4 * channels, "h.%d.mlp.c_fc.bias", l);
        append(model, 4 * channels, channels, "h.%d.mlp.c_proj.weight", l);
        append(model, 1, channels, "h.%d.mlp.c_proj.bias", l);
    }
    append(model, 1, channels, "ln_f.weight");
    append(model, 1, channels, "ln_f.bias");
    if (!shape->tied) {
        append(model, shape->vocabulary, channels, "lm_head.weight");
    }
}

static struct parameter *last_norm(struct model *model)
{
    return &model->parameters[2 + model->shape.layers * MODEL_LAYER_PARAMETERS];
}

/** What turns channels into logits. */
static struct parameter *head_table(struct model *model)
{
    return model->shape.tied ? &model->parameters[0] : last_norm(model) + 2;
}

static struct normalisation make_norm(struct model *model,
        const struct parameter *parameters, struct arena *arena, size_t rows)
{
    size_t channels = (size_t)model->shape.channels;

    return (struct normalisation){
        .columns = channels,
        .scale = parameters[0].value,
        .shift = parameters[1].value,
        .centred = take(arena, rows * channels),
        .inverse = take(arena, rows),
    };
}

static void lay_out_layer(
        struct model *model, struct layer *layer, struct arena *arena, size_t rows)
{
    static const int matrices[4] = { ATTENTION_IN, ATTENTION_OUT, PERCEPTRON_IN,
        PERCEPTRON_OUT };
    static const int norms[2] = { NORM_ATTENTION, NORM_PERCEPTRON };
    const struct model_shape *shape = &model->shape;
    size_t channels = (size_t)shape->channels;

    for (int m = 0; m < 4; m++) {
        layer->turned[m] = take(arena, layer->parameters[matrices[m]].count);
    }
    for (int n = 0; n < 2; n++) {
        layer->norm[n] = make_norm(model, &layer->parameters[norms[n]], arena, rows);
        layer->normal[n] = take(arena, rows * channels);
    }
    layer->qkv = take(arena, rows * 3 * channels);
    layer->weights = take(arena, rows * (size_t)(shape->heads * shape->context));
    layer->attended = take(arena, rows * channels);
    layer->hidden = take(arena, rows * 4 * channels);
    layer->active = take(arena, rows * 4 * channels);
}

/** Gives every part its memory. @return how much there is to give */
/* NOLINTNEXTLINE(readability-non-const-parameter): the parts are written */
static size_t lay_out(struct model *model, float *memory, size_t rows)
{
    const struct model_shape *shape = &model->shape;
    size_t channels = (size_t)shape->channels;
    struct arena arena = { .base = memory };

    for (int l = 0; l < shape->layers; l++) {
        lay_out_layer(model, &model->layers[l], &arena, rows);
    }
    model->norm = make_norm(model, last_norm(model), &arena, rows);
    model->normal = take(&arena, rows * channels);
    model->turned = take(&arena, head_table(model)->count);
    model->stream = take(&arena, rows * channels);
    model->logits = take(&arena, rows * (size_t)shape->vocabulary);
    model->d_stream = take(&arena, rows * channels);
    model->narrow = take(&arena, rows * channels);
    model->wide = take(&arena, rows * 4 * channels);
    model->scratch = take(
            &arena, rows * (size_t)(shape->heads * shape->context + shape->channels));
    return arena.used;
}

bool model_init(struct model *model, const struct model_shape *shape,
        const struct kernels *kernels, int sequences)
{
    size_t rows = (size_t)sequences * (size_t)shape->context;
    float *value;

    *model = (struct model){ .shape = *shape, .kernels = kernels };
    list_parameters(model);
    model->values = calloc(model->value_count, sizeof *model->values);
    model->memory = calloc(lay_out(model, NULL, rows), sizeof *model->memory);
    model->losses = calloc(rows, sizeof *model->losses);
    if (model->values == NULL || model->memory == NULL || model->losses == NULL) {
        model_fini(model);
        return false;
    }
    value = model->values;
    for (size_t p = 0; p < model->parameter_count; p++) {
        model->parameters[p].value = value;
        value += model->parameters[p].count;
    }
    (void)lay_out(model, model->memory, rows);
    return true;
}

void model_fini(struct model *model)
{
    free(model->values);
    free(model->memory);
    free(model->losses);
    *model = (struct model){ .values = NULL };
}

static bool ends_with(const char *text, const char *end)
{
    size_t length = strlen(text);

    return length >= strlen(end) && strcmp(text + length - strlen(end), end) == 0;
}

void model_randomize(struct model *model, uint64_t seed)
{
    double deviation = 0.02;
    double residual = deviation / sqrt(2.0 * model->shape.layers);

    for (size_t p = 0; p < model->parameter_count; p++) {
        struct parameter *parameter = &model->parameters[p];
        bool adds = ends_with(parameter->name, "c_proj.weight");
        /* an even distribution of this deviation */
        double limit = sqrt(3.0) * (adds ? residual : deviation);

        for (size_t i = 0; i < parameter->count; i++) {
            /* matrices are drawn; scales are 1, shifts and biases 0 */
            double value = parameter->dims[0] > 1 ? limit * random_signed(&seed)
                                                  : !ends_with(parameter->name, "bias");

            parameter->value[i] = (float)value;
        }
    }
}

void model_prepare(struct model *model)
{
    const struct parameter *table = head_table(model);

    for (int l = 0; l < model->shape.layers; l++) {
        for (int m = 0; m < 4; m++) {
            struct layer *layer = &model->layers[l];
            int index = m < 2 ? ATTENTION_IN + 2 * m : PERCEPTRON_IN + 2 * (m - 2);
            const struct parameter *matrix = &layer->parameters[index];

            model->kernels->transpose(matrix->value, (size_t)matrix->dims[0],
                    (size_t)matrix->dims[1], layer->turned[m]);
        }
    }
    model->kernels->transpose(table->value, (size_t)table->dims[0],
            (size_t)table->dims[1], model->turned);
}

static size_t row_count(const struct model *model)
{
    return model->sequences * (size_t)model->shape.context;
}

/** out = in x a matrix, plus its bias, which is the next parameter. */
static void connect(struct model *model, const struct parameter *matrix,
        const float *in, float *out)
{
    size_t rows = (size_t)matrix->dims[0];
    size_t columns = (size_t)matrix->dims[1];

    model->kernels->multiply(&(struct product){
            .rows = row_count(model),
            .columns = columns,
            .depth = rows,
            .a = in,
            .a_row = rows,
            .a_depth = 1,
            .b = matrix->value,
            .b_depth = columns,
            .bias = matrix[1].value,
            .out = out,
            .out_row = columns,
    });
}

/** The gradient of a matrix: the transpose of what went in, times that of what came out. */
static void multiply_gradient(struct model *model, const struct parameter *matrix,
        const float *left, const float *right)
{
    size_t rows = (size_t)matrix->dims[0];
    size_t columns = (size_t)matrix->dims[1];

    model->kernels->multiply(&(struct product){
            .rows = rows,
            .columns = columns,
            .depth = row_count(model),
            .a = left,
            .a_row = 1,
            .a_depth = rows,
            .b = right,
            .b_depth = columns,
            .out = matrix->gradient,
            .out_row = columns,
    });
}

/** Gradients of connect(). @param turned  the matrix transposed */
static void connect_back(struct model *model, const struct parameter *matrix,
        const float *turned, const float *in, const float *d_out, float *d_in)
{
    size_t rows = (size_t)matrix->dims[0];
    size_t columns = (size_t)matrix->dims[1];

    multiply_gradient(model, matrix, in, d_out);
    model->kernels->sum_rows(d_out, row_count(model), columns, matrix[1].gradient);
    model->kernels->multiply(&(struct product){
            .rows = row_count(model),
            .columns = rows,
            .depth = columns,
            .a = d_out,
            .a_row = columns,
            .a_depth = 1,
            .b = turned,
            .b_depth = rows,
            .out = d_in,
            .out_row = rows,
    });
}

static struct attention make_attention(
        const struct model *model, const struct layer *layer)
{
    return (struct attention){
        .sequences = model->sequences,
        .positions = (size_t)model->shape.context,
        .heads = (size_t)model->shape.heads,
        .width = (size_t)(model->shape.channels / model->shape.heads),
        .qkv = layer->qkv,
        .weights = layer->weights,
        .scratch = model->scratch,
    };
}

static void forward_layer(struct model *model, struct layer *layer)
{
    const struct kernels *kernels = model->kernels;
    const struct parameter *parameters = layer->parameters;
    struct attention attention = make_attention(model, layer);
    size_t rows = row_count(model);
    size_t narrow = rows * (size_t)model->shape.channels;

    layer->norm[0].rows = rows;
    layer->norm[1].rows = rows;
    kernels->normalise(&layer->norm[0], model->stream, layer->normal[0]);
    connect(model, &parameters[ATTENTION_IN], layer->normal[0], layer->qkv);
    kernels->attend(&attention, layer->attended);
    connect(model, &parameters[ATTENTION_OUT], layer->attended, model->narrow);
    kernels->add(model->narrow, narrow, model->stream);

    kernels->normalise(&layer->norm[1], model->stream, layer->normal[1]);
    connect(model, &parameters[PERCEPTRON_IN], layer->normal[1], layer->hidden);
    kernels->gelu(layer->hidden, 4 * narrow, layer->active);
    connect(model, &parameters[PERCEPTRON_OUT], layer->active, model->narrow);
    kernels->add(model->narrow, narrow, model->stream);
}

void model_forward(struct model *model, const int *tokens, int sequences)
{
    size_t channels = (size_t)model->shape.channels;
    size_t columns = (size_t)model->shape.vocabulary;

    model->tokens = tokens;
    model->sequences = (size_t)sequences;
    model->norm.rows = row_count(model);
    for (size_t row = 0; row < row_count(model); row++) {
        size_t position = row % (size_t)model->shape.context;
        float *out = model->stream + row * channels;

        memcpy(out, model->parameters[0].value + (size_t)tokens[row] * channels,
                channels * sizeof *out);
        model->kernels->add(
                model->parameters[1].value + position * channels, channels, out);
    }
    for (int l = 0; l < model->shape.layers; l++) {
        forward_layer(model, &model->layers[l]);
    }
    model->kernels->normalise(&model->norm, model->stream, model->normal);
    model->kernels->multiply(&(struct product){
            .rows = row_count(model),
            .columns = columns,
            .depth = channels,
            .a = model->normal,
            .a_row = channels,
            .a_depth = 1,
            .b = model->turned,
            .b_depth = columns,
            .out = model->logits,
            .out_row = columns,
    });
}

double model_loss(struct model *model, const int *targets, float scale)
{
    double loss = 0.0;

    model->kernels->entropy(model->logits, targets, row_count(model),
            (size_t)model->shape.vocabulary, scale, model->losses);
    for (size_t row = 0; row < row_count(model); row++) {
        loss += model->losses[row];
    }
    return loss;
}

static void backward_head(struct model *model)
{
    const struct parameter *table = head_table(model);
    const struct parameter *norm = last_norm(model);
    size_t channels = (size_t)model->shape.channels;
    size_t columns = (size_t)model->shape.vocabulary;

    multiply_gradient(model, table, model->logits, model->normal);
    model->kernels->multiply(&(struct product){
            .rows = row_count(model),
            .columns = channels,
            .depth = columns,
            .a = model->logits,
            .a_row = columns,
            .a_depth = 1,
            .b = table->value,
            .b_depth = channels,
            .out = model->d_stream,
            .out_row = channels,
    });
    model->kernels->normalise_back(
            &model->norm, model->d_stream, norm[0].gradient, norm[1].gradient);
}

static void backward_layer(struct model *model, struct layer *layer)
{
    const struct kernels *kernels = model->kernels;
    const struct parameter *parameters = layer->parameters;
    struct attention attention = make_attention(model, layer);
    size_t narrow = row_count(model) * (size_t)model->shape.channels;

    connect_back(model, &parameters[PERCEPTRON_OUT], layer->turned[3], layer->active,
            model->d_stream, model->wide);
    kernels->gelu_back(layer->hidden, 4 * narrow, model->wide);
    connect_back(model, &parameters[PERCEPTRON_IN], layer->turned[2], layer->normal[1],
            model->wide, model->narrow);
    kernels->normalise_back(&layer->norm[1], model->narrow,
            parameters[NORM_PERCEPTRON].gradient,
            parameters[NORM_PERCEPTRON + 1].gradient);
    kernels->add(model->narrow, narrow, model->d_stream);

    connect_back(model, &parameters[ATTENTION_OUT], layer->turned[1], layer->attended,
            model->d_stream, model->narrow);
    kernels->attend_back(&attention, model->narrow, model->wide);
    connect_back(model, &parameters[ATTENTION_IN], layer->turned[0], layer->normal[0],
            model->wide, model->narrow);
    kernels->normalise_back(&layer->norm[0], model->narrow,
            parameters[NORM_ATTENTION].gradient,
            parameters[NORM_ATTENTION + 1].gradient);
    kernels->add(model->narrow, narrow, model->d_stream);
}

static void backward_embeddings(struct model *model)
{
    const struct parameter *tokens = &model->parameters[0];
    const struct parameter *positions = &model->parameters[1];
    size_t channels = (size_t)model->shape.channels;

    if (!model->shape.tied) {
        memset(tokens->gradient, 0, tokens->count * sizeof *tokens->gradient);
    }
    memset(positions->gradient, 0, positions->count * sizeof *positions->gradient);
    for (size_t row = 0; row < row_count(model); row++) {
        size_t position = row % (size_t)model->shape.context;
        const float *d = model->d_stream + row * channels;

        model->kernels->add(
                d, channels, tokens->gradient + (size_t)model->tokens[row] * channels);
        model->kernels->add(d, channels, positions->gradient + position * channels);
    }
}

size_t model_backward(struct model *model, int group, size_t *first)
{
    if (group == 0) {
        backward_embeddings(model);
        *first = 0;
        return 2;
    }
    *first = 2 + (size_t)(group - 1) * MODEL_LAYER_PARAMETERS;
    if (group <= model->shape.layers) {
        backward_layer(model, &model->layers[group - 1]);
        return MODEL_LAYER_PARAMETERS;
    }
    backward_head(model);
    return model->parameter_count - *first;
}
