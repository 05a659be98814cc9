/*
 * Tensors of a state: what they must be, and how files describe them.
 */
#ifndef TUTTI_TRAINER_STATE_TENSORS_H
#define TUTTI_TRAINER_STATE_TENSORS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tutti/trainer/state.h>

#include "state/agree.h"

enum {
    STATE_NAME_MAX = TUTTI_NAME_MAX, /* bytes: a parameter's with prefix and suffix */
    SHAPE_TEXT_BYTES = 400 /* of state_shape() */
};

/** Elements of the whole tensor; -1 if their bytes do not fit in int64_t. */
int64_t state_elements(const tutti_state_tensor *tensor);

/** Bytes of a whole tensor whose elements are not -1. */
int64_t state_bytes(const tutti_state_tensor *tensor);

/** Type and shape in words: float32 [3, 4]. Returns text. */
char *state_shape(char text[SHAPE_TEXT_BYTES], const tutti_state_tensor *tensor);

/** {"dtype": "F32", "shape": [3, 4], where: place}; NULL: no memory. Takes `place`. */
json_t *state_to_json(
        const tutti_state_tensor *tensor, const char *where, json_t *place);

/** Takes type and shape from such an object; false if it is malformed. */
bool state_from_json(
        json_t *json, tutti_state_tensor *tensor, int64_t dims[TUTTI_DIMS_MAX]);

/** This rank has all elements of a tensor that state_check() has accepted. */
bool state_is_whole(const tutti_state_tensor *tensor);

/** TUTTI_ERR_INVALID: a tensor is malformed, or its name is there twice. */
tutti_status state_check(const tutti_state_tensor *tensors, size_t n);

/**
 * Checks the tensors. All ranks have the same ones in the same order, or all get
 * TUTTI_ERR_MISMATCH.
 * @param status  what this rank alone has found so far: all get that
 */
TUTTI_MUST_USE tutti_status state_agree(const struct state_group *group,
        tutti_status status, const tutti_state_tensor *tensors, size_t n);

#endif
