/*
 * Updates in float64.
 */
#define UPDATE_KERNELS update_doubles

typedef double real;

#include "optimizer/update_body.h"
