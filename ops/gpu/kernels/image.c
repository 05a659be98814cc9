/*
 * The kernels that nvcc made: bytes in the library.
 */
#include "ops/gpu/kernels/kernels.h"

/* image_bytes.S */
extern const unsigned char tutti_kernel_image[];
extern const unsigned char tutti_kernel_image_end[];

const void *kernel_image(size_t *bytes)
{
    *bytes = (size_t)(tutti_kernel_image_end - tutti_kernel_image);
    return tutti_kernel_image;
}
