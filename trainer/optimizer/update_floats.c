/*
 * Updates in float32.
 */
#define UPDATE_KERNELS update_floats

typedef float real;

#include <tutti/tutti.h>

#include "optimizer/update_body.h"

const struct update_kernels *update_fastest_floats(void)
{
    return tutti_has_feature("avx2") ? &update_floats_avx2 : &update_floats;
}
