/*
 * The kernels of a GPU: their image is loaded, and their functions are found, when the GPU
 * is opened; a launch loads nothing any more.
 */
#ifndef TUTTI_OPS_GPU_IMAGE_H
#define TUTTI_OPS_GPU_IMAGE_H

#include <tutti/tutti.h>

#include "ops/gpu/gpu.h"

/**
 * Loads the kernels that are built in, or those of the file gpu_kernels. The context is
 * current. Without any, or with an image that is not for this device, the GPU has none,
 * and a line in the log says so.
 * @return TUTTI_OK; TUTTI_ERR_CONFIG (the file cannot be read), TUTTI_ERR_NO_MEMORY
 */
TUTTI_MUST_USE tutti_status image_load(struct gpu *gpu);

#endif
