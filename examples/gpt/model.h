/*
 * A transformer shaped as GPT-2 (Radford et al., 2019): layer normalisation before attention
 * and before the perceptron, GELU, learned positions. Knows nothing of other ranks.
 */
#ifndef GPT_MODEL_H
#define GPT_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels.h"

enum {
    MODEL_LAYERS_MAX = 48,
    MODEL_LAYER_PARAMETERS = 12,
    MODEL_PARAMETERS_MAX = MODEL_LAYERS_MAX * MODEL_LAYER_PARAMETERS + 5
};

/** What a model looks like. */
struct model_shape {
    int layers;
    int channels; /* a multiple of heads */
    int heads;
    int context; /* positions of a sequence */
    int vocabulary;
    bool tied; /* the head is the table of tokens */
};

/** A trained tensor. A matrix takes a row of `rows` numbers to one of `columns`. */
struct parameter {
    char name[24];
    int64_t dims[2]; /* rows, columns; rows is 1 for a vector */
    size_t count;
    float *value; /* of the model's memory */
    float *gradient; /* the caller's: written by model_backward() */
};

/** Activations of a layer for the sequences of a pass. */
struct layer {
    struct parameter *parameters; /* MODEL_LAYER_PARAMETERS of them */
    float *turned[4]; /* the four matrices transposed */
    struct normalisation norm[2];
    float *normal[2]; /* [rows][channels], their results */
    float *qkv; /* [rows][3 * channels] */
    float *weights; /* [sequences][heads][context][context] */
    float *attended; /* [rows][channels] */
    float *hidden; /* [rows][4 * channels] */
    float *active; /* [rows][4 * channels], after GELU */
};

/** The model; zeroed is valid for model_fini(). Rows are positions of all sequences. */
struct model {
    struct model_shape shape;
    const struct kernels *kernels;
    size_t parameter_count;
    struct parameter
            parameters[MODEL_PARAMETERS_MAX]; /* in the order of the forward pass */
    size_t value_count;
    float *values; /* [value_count], of all parameters; owned */
    float *memory; /* of everything below; owned */
    struct layer layers[MODEL_LAYERS_MAX];
    struct normalisation norm; /* the last one */
    float *stream; /* [rows][channels], to which every layer adds */
    float *normal; /* [rows][channels] */
    float *turned; /* the head's table, transposed */
    float *logits; /* [rows][vocabulary]; after model_loss() their gradient */
    float *d_stream; /* [rows][channels] */
    float *narrow; /* [rows][channels], for what is used at once */
    float *wide; /* [rows][4 * channels], likewise */
    float *scratch; /* of attention */
    double *losses; /* [rows]; owned */
    const int *tokens; /* [sequences][context], of the last forward pass; borrowed */
    size_t sequences; /* in the last forward pass */
};

/**
 * Builds a model for passes of up to `sequences`; its parameters are zero.
 * @return false when out of memory
 */
bool model_init(struct model *model, const struct model_shape *shape,
        const struct kernels *kernels, int sequences);
void model_fini(struct model *model);

/** Draws the values as GPT-2 does, though evenly distributed. */
void model_randomize(struct model *model, uint64_t seed);

/** To be called when values have changed: makes what passes need of them. */
void model_prepare(struct model *model);

/** Runs sequences of `context` tokens each through: the logits of the next ones. */
void model_forward(struct model *model, const int *tokens, int sequences);

/**
 * The loss of the last forward pass, summed over its rows, in nats; `scale` times its gradient
 * is where the backward pass starts.
 */
double model_loss(struct model *model, const int *targets, float scale);

/**
 * The backward pass has groups, to be called from layers + 1 (the head) over the layers to 0
 * (the embeddings). Writes the gradients of a group's parameters.
 * @param[out] first  the group's first parameter; its gradients are complete
 * @return how many parameters are in the group
 */
size_t model_backward(struct model *model, int group, size_t *first);

#endif
