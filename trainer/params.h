/*
 * What calls that take parameters do with them alike.
 */
#ifndef TUTTI_TRAINER_PARAMS_H
#define TUTTI_TRAINER_PARAMS_H

#include <stddef.h>

#include <tutti/trainer/reducer.h>

#include "optimizer/update.h"
#include "state/agree.h"

enum {
    PARAM_NAME_BYTES_MAX = 200 /* with a prefix it is a name of tutti */
};

/** Bytes of the elements. */
size_t param_bytes(const tutti_param *param);

/** The arithmetic of updates of float32 or float64. */
const struct update_kernels *param_kernels(const tutti_param *param);

/**
 * TUTTI_ERR_INVALID if there are no parameters, or one has no name of its own or no elements;
 * TUTTI_ERR_UNSUPPORTED if its type is no float type.
 * @param call  the public function, for the message
 */
tutti_status params_check(const char *call, const tutti_param *params, size_t n);

/** Names, types and counts, which all ranks must have alike. */
struct setting_list params_list(const tutti_param *params, size_t n);

/** A copy with names of its own, in one piece: to be freed with free(). NULL: out of memory. */
tutti_param *params_copy(const tutti_param *params, size_t n);

#endif
