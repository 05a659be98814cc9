/*
 * The gradient sets of well-known networks, as lists of tensors, in the order in which
 * the layers are declared, which is about that in which they are applied (gradients become
 * ready in the reverse order). They are in models.txt.
 */
#ifndef TUTTI_BENCH_CORE_WORKLOADS_H
#define TUTTI_BENCH_CORE_WORKLOADS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <tutti/tutti.h>

#define BENCH_TENSOR_NAME_MAX 112

struct bench_tensor {
    char name[BENCH_TENSOR_NAME_MAX]; /* "layer3.5.conv2.weight" */
    uint64_t count; /* elements */
};

struct bench_workload {
    const char *name; /* static */
    struct bench_tensor *tensors; /* owned; in forward order */
    size_t count; /* tensors */
    size_t capacity; /* tensors there is room for */
    uint64_t elements; /* of all tensors together */
};

/** The names, NULL behind the last. */
extern const char *const bench_workload_names[];

bool bench_workload_exists(const char *name);

/**
 * The workload of this name.
 * @param[out] workload  released with bench_workload_fini(); untouched on failure
 * @return false when there is none of this name, or memory is short
 */
bool bench_workload_init(struct bench_workload *workload, const char *name);
/** One tensor of this many elements, or several alike: what a sweep reduces. */
bool bench_workload_init_uniform(
        struct bench_workload *workload, size_t tensors, uint64_t elements);
/** Changes every tensor to bench_padded_count() elements. */
void bench_workload_pad(
        struct bench_workload *workload, tutti_collective collective, int ranks);
void bench_workload_fini(struct bench_workload *workload);

/**
 * The tensors of a layer become ready together. Counting from the back: the first
 * `done` tensors in reverse order were handed over, returns how many are once the next
 * layer is too. Tensors whose names agree up to the last dot are of one layer.
 */
size_t bench_workload_next_layer(const struct bench_workload *workload, size_t done);
/** Number of layers. */
size_t bench_workload_layers(const struct bench_workload *workload);

/**
 * Prints all workloads, or the tensors of one.
 * @param name  NULL for all
 * @return false when memory is short
 */
bool bench_workload_list(FILE *out, const char *name);

#endif
