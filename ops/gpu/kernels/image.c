/*
 * The kernels that nvcc made: bytes in the library.
 */
#include "ops/gpu/kernels/kernels.h"

/* cmake/image.S.in */
extern const unsigned char tutti_kernels_image[];
extern const unsigned char tutti_kernels_image_end[];

const void *kernel_image(size_t *bytes)
{
    *bytes = (size_t)(tutti_kernels_image_end - tutti_kernels_image);
    return tutti_kernels_image;
}
