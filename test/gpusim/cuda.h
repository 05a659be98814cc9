/*
 * The part of the CUDA driver that is simulated, under its real names.
 */
#ifndef TUTTI_TEST_GPUSIM_CUDA_H
#define TUTTI_TEST_GPUSIM_CUDA_H

#include <stddef.h>
#include <stdint.h>

#include "test/gpusim/gpusim.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Errors that the simulator gives, by the names of cuda.h without their prefix. */
enum cuda_error {
#define CUDA_ERROR(value, name, text) CUDA_##name = (value),
#include "test/gpusim/cuda_errors.def"
#undef CUDA_ERROR
};

/* NOLINTBEGIN(bugprone-macro-parentheses): declarations are no expressions */
#define CALL(name, needs, finds, parameters, arguments) GPUSIM_API int name parameters;
#include "test/gpusim/cuda.def"
#undef CALL
/* NOLINTEND(bugprone-macro-parentheses) */

#ifdef __cplusplus
}
#endif

#endif
