/*
 * Generators of the workloads.
 *
 * A generator appends tensors to a list. A failed allocation sets list->failed and
 * later tensors are dropped, so that the generators read like the architecture.
 */
#include "bench/core/workloads.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/core/collective.h"

/* Room for the name of a block and of a layer, which are parts of a tensor's. */
enum {
    BLOCK_NAME_MAX = 24,
    LAYER_NAME_MAX = 40
};

struct list {
    struct bench_workload *workload;
    bool failed;
};

__attribute__((format(printf, 3, 4))) static void append(
        struct list *list, uint64_t count, const char *format, ...)
{
    struct bench_workload *workload = list->workload;
    struct bench_tensor *tensor;
    va_list arguments;
    size_t prefix;

    if (workload->count == workload->capacity) {
        size_t capacity = workload->capacity == 0 ? 64 : 2 * workload->capacity;
        struct bench_tensor *grown =
                reallocarray(workload->tensors, capacity, sizeof *grown);

        if (grown == NULL) {
            list->failed = true;
            return;
        }
        workload->tensors = grown;
        workload->capacity = capacity;
    }
    tensor = &workload->tensors[workload->count];
    prefix = (size_t)snprintf(
            tensor->name, sizeof tensor->name, "%.16s/", workload->name);
    va_start(arguments, format);
    (void)vsnprintf(
            tensor->name + prefix, sizeof tensor->name - prefix, format, arguments);
    va_end(arguments);
    tensor->count = count;
    workload->count++;
    workload->elements += count;
}

/* A matrix and its bias. */
static void append_linear(
        struct list *list, const char *layer, uint64_t outputs, uint64_t inputs)
{
    append(list, outputs * inputs, "%s.weight", layer);
    append(list, outputs, "%s.bias", layer);
}

/* Scale and shift of a batch or layer normalisation. */
static void append_norm(struct list *list, const char *layer, uint64_t width)
{
    append(list, width, "%s.weight", layer);
    append(list, width, "%s.bias", layer);
}

/* A convolution without bias and the normalisation behind it. */
static void append_conv_norm(struct list *list, const char *block, const char *conv,
        const char *norm, const uint64_t shape[3])
{
    char layer[LAYER_NAME_MAX];

    append(list, shape[0] * shape[1] * shape[2] * shape[2], "%s%s.weight", block, conv);
    (void)snprintf(layer, sizeof layer, "%s%s", block, norm);
    append_norm(list, layer, shape[0]);
}

/* ResNet-50: 1x1, 3x3 and 1x1 convolutions, the last four times as wide. */
static void append_bottleneck(
        struct list *list, const char *block, uint64_t *inputs, uint64_t width)
{
    uint64_t outputs = 4 * width;

    append_conv_norm(list, block, "conv1", "bn1", (uint64_t[]){ width, *inputs, 1 });
    append_conv_norm(list, block, "conv2", "bn2", (uint64_t[]){ width, width, 3 });
    append_conv_norm(list, block, "conv3", "bn3", (uint64_t[]){ outputs, width, 1 });
    if (*inputs != outputs) {
        append_conv_norm(list, block, "downsample.0", "downsample.1",
                (uint64_t[]){ outputs, *inputs, 1 });
    }
    *inputs = outputs;
}

static void generate_resnet50(struct list *list)
{
    static const int blocks[] = { 3, 4, 6, 3 };
    uint64_t inputs = 64;

    append_conv_norm(list, "", "conv1", "bn1", (uint64_t[]){ 64, 3, 7 });
    for (int stage = 0; stage < 4; stage++) {
        for (int b = 0; b < blocks[stage]; b++) {
            char block[BLOCK_NAME_MAX];

            (void)snprintf(block, sizeof block, "layer%d.%d.", stage + 1, b);
            append_bottleneck(list, block, &inputs, UINT64_C(64) << stage);
        }
    }
    append_linear(list, "fc", 1000, inputs);
}

static void append_bert_layer(struct list *list, int index, uint64_t width)
{
    static const char *const square[] = { "attention.query", "attention.key",
        "attention.value", "attention.output" };
    char layer[LAYER_NAME_MAX];

    for (size_t i = 0; i < 4; i++) {
        (void)snprintf(layer, sizeof layer, "encoder.%d.%s", index, square[i]);
        append_linear(list, layer, width, width);
    }
    (void)snprintf(layer, sizeof layer, "encoder.%d.attention.norm", index);
    append_norm(list, layer, width);
    (void)snprintf(layer, sizeof layer, "encoder.%d.intermediate", index);
    append_linear(list, layer, 4 * width, width);
    (void)snprintf(layer, sizeof layer, "encoder.%d.output", index);
    append_linear(list, layer, width, 4 * width);
    (void)snprintf(layer, sizeof layer, "encoder.%d.norm", index);
    append_norm(list, layer, width);
}

/* The encoder with its pooler, without the heads of pre-training. */
static void generate_bert(struct list *list, int layers, uint64_t width)
{
    append(list, 30522 * width, "embeddings.word.weight");
    append(list, 512 * width, "embeddings.position.weight");
    append(list, 2 * width, "embeddings.type.weight");
    append_norm(list, "embeddings.norm", width);
    for (int i = 0; i < layers; i++) {
        append_bert_layer(list, i, width);
    }
    append_linear(list, "pooler", width, width);
}

static void generate_bert_base(struct list *list)
{
    generate_bert(list, 12, 768);
}

static void generate_bert_large(struct list *list)
{
    generate_bert(list, 24, 1024);
}

static void append_gpt2_layer(struct list *list, int index, uint64_t width)
{
    static const struct {
        const char *name;
        uint64_t outputs, inputs; /* in units of the width; inputs 0: a norm */
    } parts[] = {
        { "ln_1", 1, 0 },
        { "attn.c_attn", 3, 1 },
        { "attn.c_proj", 1, 1 },
        { "ln_2", 1, 0 },
        { "mlp.c_fc", 4, 1 },
        { "mlp.c_proj", 1, 4 },
    };

    for (size_t p = 0; p < sizeof parts / sizeof parts[0]; p++) {
        char layer[LAYER_NAME_MAX];

        (void)snprintf(layer, sizeof layer, "h.%d.%s", index, parts[p].name);
        if (parts[p].inputs == 0) {
            append_norm(list, layer, width);
        } else {
            append_linear(
                    list, layer, parts[p].outputs * width, parts[p].inputs * width);
        }
    }
}

/* The small model; its output layer shares the token embedding. */
static void generate_gpt2(struct list *list)
{
    const uint64_t width = 768;

    append(list, 50257 * width, "wte.weight");
    append(list, 1024 * width, "wpe.weight");
    for (int i = 0; i < 12; i++) {
        append_gpt2_layer(list, i, width);
    }
    append_norm(list, "ln_f", width);
}

/* Latency times a thousand: 1 KiB of float32 each. */
static void generate_small1000(struct list *list)
{
    for (int i = 0; i < 1000; i++) {
        append(list, 256, "small%d", i);
    }
}

const char *const bench_workload_names[] = { "resnet50", "bert-base", "bert-large",
    "gpt2", "small1000", NULL };

/* In the order of the names. */
static void (*const generators[])(struct list *list) = { generate_resnet50,
    generate_bert_base, generate_bert_large, generate_gpt2, generate_small1000 };

/* Hands over what a generator made, or cleans up after it. */
static bool finish(const struct list *list, struct bench_workload *workload)
{
    if (list->failed) {
        bench_workload_fini(list->workload);
        return false;
    }
    *workload = *list->workload;
    return true;
}

bool bench_workload_init(struct bench_workload *workload, const char *name)
{
    struct bench_workload made = { .name = NULL };
    struct list list = { .workload = &made };
    size_t index = 0;

    while (bench_workload_names[index] != NULL &&
            strcmp(bench_workload_names[index], name) != 0) {
        index++;
    }
    if (bench_workload_names[index] == NULL) {
        return false;
    }
    made.name = bench_workload_names[index];
    generators[index](&list);
    return finish(&list, workload);
}

bool bench_workload_init_uniform(
        struct bench_workload *workload, size_t tensors, uint64_t elements)
{
    struct bench_workload made = { .name = "uniform" };
    struct list list = { .workload = &made };

    for (size_t i = 0; i < tensors && !list.failed; i++) {
        append(&list, elements, "%zu of %" PRIu64, i, elements);
    }
    return finish(&list, workload);
}

bool bench_workload_init_mixed(
        struct bench_workload *workload, const char *name, size_t tensors)
{
    struct bench_workload made = { .name = name };
    struct list list = { .workload = &made };

    for (size_t i = 0; i < tensors && !list.failed; i++) {
        /* 5 and 11 have no common divisor: neighbours differ, and all sizes occur */
        append(&list, UINT64_C(32) << i * 5 % 11, "mixed%zu", i);
    }
    return finish(&list, workload);
}

void bench_workload_pad(
        struct bench_workload *workload, tutti_collective collective, int ranks)
{
    workload->elements = 0;
    for (size_t i = 0; i < workload->count; i++) {
        struct bench_tensor *tensor = &workload->tensors[i];

        tensor->count = bench_padded_count(collective, tensor->count, ranks);
        workload->elements += tensor->count;
    }
}

void bench_workload_fini(struct bench_workload *workload)
{
    free(workload->tensors);
    *workload = (struct bench_workload){ .name = NULL };
}

/* Length of a name without its last part; of all of it when it has no dot. */
static size_t layer_length(const char *name)
{
    const char *dot = strrchr(name, '.');

    return dot == NULL ? strlen(name) : (size_t)(dot - name);
}

size_t bench_workload_next_layer(const struct bench_workload *workload, size_t done)
{
    const char *first;
    size_t length;

    if (done >= workload->count) {
        return workload->count;
    }
    first = workload->tensors[workload->count - 1 - done].name;
    length = layer_length(first);
    for (done++; done < workload->count; done++) {
        const char *next = workload->tensors[workload->count - 1 - done].name;

        if (layer_length(next) != length || strncmp(first, next, length) != 0) {
            break;
        }
    }
    return done;
}

size_t bench_workload_layers(const struct bench_workload *workload)
{
    size_t layers = 0;

    for (size_t done = 0; done < workload->count; layers++) {
        done = bench_workload_next_layer(workload, done);
    }
    return layers;
}
