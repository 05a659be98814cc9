/*
 * Properties of the public enums that other rooms need beside their names.
 */
#ifndef TUTTI_BASE_STATUS_H
#define TUTTI_BASE_STATUS_H

#include <stdbool.h>

#include <tutti/tutti.h>

/** True for a number that is a tutti_status; used on numbers from the wire. */
bool status_is_valid(int64_t number);
bool dtype_is_valid(int64_t number);
bool reduce_op_is_valid(int64_t number);
bool collective_is_valid(int64_t number);
/** float16, bfloat16, float32, float64. */
bool dtype_is_float(tutti_dtype dtype);
/** float8: may be moved, not reduced. */
bool dtype_is_opaque(tutti_dtype dtype);

#endif
